#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, http

hook = Hook("""
configVersion: v1
http:
- {name: node, method: GET, path: "/nodes/{name}", includeSnapshotsFrom: [nodes]}
kubernetes:
- {name: nodes, apiVersion: v1, kind: Node, executeHookOnSynchronization: false, executeHookOnEvent: []}
""")


@hook.on_http("node")
def node(context: Context) -> None:
    name = context.request["pathValues"]["name"]
    for item in context.snapshot("nodes"):
        if item.object["metadata"]["name"] == name:
            conditions = item.object.get("status", {}).get("conditions", [])
            http.json(200, {"name": name, "ready": any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)})
            return
    http.respond(404, f"there is no Node {name}")


if __name__ == "__main__":
    hook.run()
