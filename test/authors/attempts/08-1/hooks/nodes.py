#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, http

hook = Hook("""
configVersion: v1
http:
- name: get-node
  method: GET
  path: /nodes/{name}
  includeSnapshotsFrom: [nodes]
kubernetes:
- name: nodes
  apiVersion: v1
  kind: Node
  jqFilter: "{name: .metadata.name, ready: any(.status.conditions[]?; .type == \\"Ready\\" and .status == \\"True\\")}"
  keepFullObjectsInMemory: false
  executeHookOnSynchronization: false
  executeHookOnEvent: []
""")


@hook.on_http("get-node")
def get(context: Context) -> None:
    name = context.request["pathValues"]["name"]
    for item in context.snapshot("nodes"):
        if item.filter_result["name"] == name:
            http.json(200, item.filter_result)
            return
    http.json(404, {"error": f"there is no Node {name}"})


if __name__ == "__main__":
    hook.run()
