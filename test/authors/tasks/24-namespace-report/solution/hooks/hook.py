#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, http

hook = Hook("""
configVersion: v1
http:
- {name: report, method: GET, path: "/namespaces/{name}", includeSnapshotsFrom: [namespaces, pods]}
kubernetes:
- name: namespaces
  apiVersion: v1
  kind: Namespace
  executeHookOnSynchronization: false
  executeHookOnEvent: []
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
- name: pods
  apiVersion: v1
  kind: Pod
  executeHookOnSynchronization: false
  executeHookOnEvent: []
  jqFilter: "{namespace: .metadata.namespace, images: [.spec.containers[].image]}"
  keepFullObjectsInMemory: false
""")


@hook.on_http("report")
def report(context: Context) -> None:
    name = context.request["pathValues"]["name"]
    if name not in [item.filter_result for item in context.snapshot("namespaces")]:
        http.json(404, {"error": f"there is no Namespace {name}"})
        return
    pods = [item.filter_result for item in context.snapshot("pods") if item.filter_result["namespace"] == name]
    images = sorted({image for pod in pods for image in pod["images"]})
    http.json(200, {"namespace": name, "pods": len(pods), "images": images})


if __name__ == "__main__":
    hook.run()
