#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
kubernetes:
- name: databases
  group: databases
  apiVersion: example.com/v1
  kind: Database
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name}"
  keepFullObjectsInMemory: false
- name: secrets
  group: databases
  apiVersion: v1
  kind: Secret
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name}"
  keepFullObjectsInMemory: false
""")


@hook.on_group("databases")
def check(context: Context) -> None:
    secrets = {(item.filter_result["namespace"], item.filter_result["name"]) for item in context.snapshot("secrets")}
    for item in context.snapshot("databases"):
        namespace, name = item.filter_result["namespace"], item.filter_result["name"]
        found = (namespace, name) in secrets
        kubernetes.condition(
            "Database", name, "Ready", found,
            "SecretFound" if found else "SecretMissing",
            f"the Secret {name} exists" if found else f"there is no Secret {name}",
            namespace=namespace, api_version="example.com/v1", ignore_missing=True)


if __name__ == "__main__":
    hook.run()
