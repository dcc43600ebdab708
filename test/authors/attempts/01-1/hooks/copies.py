#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
kubernetes:
- name: secrets
  group: copies
  apiVersion: v1
  kind: Secret
  labelSelector: {matchLabels: {copy: "yes"}}
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name, type, data, deleting: (.metadata.deletionTimestamp != null)}"
  keepFullObjectsInMemory: false
- name: namespaces
  group: copies
  apiVersion: v1
  kind: Namespace
  labelSelector: {matchLabels: {copies: "yes"}}
  jqFilter: "{name: .metadata.name, deleting: (.metadata.deletionTimestamp != null)}"
  keepFullObjectsInMemory: false
""")


@hook.on_group("copies")
def copy(context: Context) -> None:
    found = [item.filter_result for item in context.snapshot("secrets")]
    sources = {(s["namespace"], s["name"]) for s in found}
    secrets = {}  # by name: of sources with the same name the first one wins
    for secret in sorted((s for s in found if not s["deleting"]), key=lambda s: (s["namespace"], s["name"])):
        secrets.setdefault(secret["name"], secret)
    copies = []
    for item in context.snapshot("namespaces"):
        namespace = item.filter_result
        if namespace["deleting"]:
            continue
        for name, secret in secrets.items():
            if (namespace["name"], name) in sources:  # a source is never overwritten
                continue
            copies.append({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace["name"]},
                "type": secret["type"] or "Opaque",
                "data": secret["data"] or {},
            })
    kubernetes.sync("copies", copies, allow_empty=True)


if __name__ == "__main__":
    hook.run()
