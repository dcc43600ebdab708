#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
kubernetes:
- name: sites
  apiVersion: example.com/v1
  kind: Site
  initialObjects: added
  executeHookOnEvent: [Added, Modified]
  jqFilter: "{name: .metadata.name, namespace: .metadata.namespace, pages: .spec.pages}"
  keepFullObjectsInMemory: false
  queue: {name: sites, key: object, concurrency: 4}
""")


@hook.on_kubernetes("sites")
def reconcile(context: Context) -> None:
    site = context.filter_result
    owner = {"apiVersion": "example.com/v1", "kind": "Site", "name": site["name"], "namespace": site["namespace"]}
    pages = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{site['name']}-{page}"}, "data": {"text": text}}
        for page, text in (site["pages"] or {}).items()
    ]
    kubernetes.sync("pages", pages, owner=owner, allow_empty=True)


if __name__ == "__main__":
    hook.run()
