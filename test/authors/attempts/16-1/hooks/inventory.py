#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
kubernetes:
- name: services
  apiVersion: v1
  kind: Service
  group: inventory
  executeHookOnEvent: [Added, Deleted]
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
- name: monitors
  apiVersion: monitoring.coreos.com/v1
  kind: ServiceMonitor
  # Not every cluster has the kind: then its snapshot is empty.
  optional: true
  group: inventory
  executeHookOnEvent: [Added, Deleted]
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
""")


@hook.on_group("inventory")
def count(context: Context) -> None:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "inventory", "namespace": "default"},
        "data": {
            "services": str(len(context.snapshot("services"))),
            "monitors": str(len(context.snapshot("monitors"))),
        },
    }
    # A set is restored if others change or delete it.
    kubernetes.sync("inventory", [config_map], force=True)


if __name__ == "__main__":
    hook.run()
