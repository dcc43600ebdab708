#!/usr/bin/env python3
import subprocess

from shell_operator_hook import Context, Hook

hook = Hook("""
configVersion: v1
kubernetes:
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  executeHookOnSynchronization: false
  executeHookOnEvent: [Modified]
  # Only a change of the result, which is one of the image, is Modified.
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name, image: .spec.template.spec.containers[0].image}"
  keepFullObjectsInMemory: false
""")


@hook.on_kubernetes("deployments", "Modified")
def changed(context: Context) -> None:
    found = context.filter_result
    subprocess.run(["announce", f"{found['namespace']}/{found['name']}", found["image"]], check=True)


if __name__ == "__main__":
    hook.run()
