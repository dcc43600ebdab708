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
  jqFilter: .metadata.labels.issued
  # All contexts of a run are about one Certificate, so requeueAfter delivers this one.
  queue: {name: certificates, key: object, concurrency: 4}
""")


@hook.on_kubernetes("certificates")
def probe(context: Context) -> None:
    metadata = context.object["metadata"]
    if metadata.get("labels", {}).get("issued") == "yes":
        return
    output = subprocess.run(["probe", metadata["name"]], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    if "issued" not in output.split():
        run.requeue_after("5m")
        return
    kubernetes.merge_patch("Certificate", metadata["name"], {"metadata": {"labels": {"issued": "yes"}}},
                           namespace=metadata["namespace"], api_version="example.com/v1", ignore_missing=True)


if __name__ == "__main__":
    hook.run()
