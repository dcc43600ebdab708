#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, admission

hook = Hook("""
configVersion: v1
kubernetes:
- {name: namespaces, apiVersion: v1, kind: Namespace, executeHookOnSynchronization: false, executeHookOnEvent: []}
kubernetesMutating:
- name: team.example.com
  rules:
  - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  includeSnapshotsFrom: [namespaces]
""")


@hook.on_mutating("team.example.com")
def team(context: Context) -> None:
    labels = context.request["object"]["metadata"].get("labels")
    for item in context.snapshot("namespaces"):
        value = item.object["metadata"].get("labels", {}).get("team")
        if item.object["metadata"]["name"] != context.request["namespace"] or not value or "team" in (labels or {}):
            continue
        if labels:
            admission.patch([{"op": "add", "path": "/metadata/labels/team", "value": value}])
        else:
            admission.patch([{"op": "add", "path": "/metadata/labels", "value": {"team": value}}])
        return
    admission.allow()


if __name__ == "__main__":
    hook.run()
