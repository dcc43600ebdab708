#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, admission

hook = Hook("""
configVersion: v1
kubernetes:
- name: namespaces
  apiVersion: v1
  kind: Namespace
  labelSelector: {matchExpressions: [{key: team, operator: Exists}]}
  jqFilter: "{name: .metadata.name, team: .metadata.labels.team}"
  keepFullObjectsInMemory: false
  executeHookOnSynchronization: false
  executeHookOnEvent: []
kubernetesMutating:
- name: team.example.com
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
    operations: [CREATE]
  namespace:
    labelSelector: {matchExpressions: [{key: team, operator: Exists}]}
  includeSnapshotsFrom: [namespaces]
""")


@hook.on_mutating("team.example.com")
def review(context: Context) -> None:
    request = context.request
    labels = request["object"]["metadata"].get("labels")
    teams = {item.filter_result["name"]: item.filter_result["team"] for item in context.snapshot("namespaces")}
    team = teams.get(request["namespace"])
    if team is None or "team" in (labels or {}):
        admission.allow()
    elif labels:
        admission.patch([{"op": "add", "path": "/metadata/labels/team", "value": team}])
    else:
        admission.patch([{"op": "add", "path": "/metadata/labels", "value": {"team": team}}])


if __name__ == "__main__":
    hook.run()
