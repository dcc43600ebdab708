#!/usr/bin/env python3
import subprocess

from shell_operator_hook import Context, Hook, kubernetes, run

hook = Hook("""
configVersion: v1
kubernetes:
- name: certificates
  apiVersion: example.com/v1
  kind: Certificate
  initialObjects: added
  executeHookOnEvent: [Added]
  queue: {name: certificates, key: object, concurrency: 4}
""")


@hook.on_kubernetes("certificates")
def probe(context: Context) -> None:
    metadata = context.object["metadata"]
    answer = subprocess.run(["probe", metadata["name"]], check=True, stdout=subprocess.PIPE, text=True).stdout
    if answer.strip() == "issued":
        kubernetes.merge_patch("Certificate", metadata["name"], {"metadata": {"labels": {"issued": "yes"}}},
                               namespace=metadata["namespace"], api_version="example.com/v1")
    else:
        run.requeue_after("5m")


if __name__ == "__main__":
    hook.run()
