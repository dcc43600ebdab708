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
  # One that is issued leaves the binding.
  labelSelector: {matchExpressions: [{key: issued, operator: NotIn, values: ["yes"]}]}
  executeHookOnEvent: [Added]
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name}"
  keepFullObjectsInMemory: false
  queue: {name: certificates, key: object, concurrency: 4}
""")


@hook.on_kubernetes("certificates")
def probe(context: Context) -> None:
    name, namespace = context.filter_result["name"], context.filter_result["namespace"]
    output = subprocess.run(["probe", name], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    if output.strip() == "issued":
        kubernetes.merge_patch("Certificate", name, {"metadata": {"labels": {"issued": "yes"}}},
                               namespace=namespace, api_version="example.com/v1", ignore_missing=True)
    else:
        run.requeue(name, "5m", namespace=namespace)


if __name__ == "__main__":
    hook.run()
