#!/usr/bin/env python3
import json

from shell_operator_hook import Context, Hook, http, kubernetes

hook = Hook("""
configVersion: v1
http:
- name: scale
  method: POST
  path: /scale
  includeSnapshotsFrom: [deployments]
kubernetes:
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  executeHookOnSynchronization: false
  executeHookOnEvent: []
  jqFilter: "[.metadata.namespace, .metadata.name]"
  keepFullObjectsInMemory: false
""")


@hook.on_http("scale")
def scale(context: Context) -> None:
    try:
        # The operator parses bodies only with the content type of JSON.
        body = json.loads(context.request.get("body", ""))
    except ValueError:
        return http.respond(400, "the body is not JSON")
    if not isinstance(body, dict):
        return http.respond(400, "the body is no object")
    namespace, name, replicas = body.get("namespace"), body.get("deployment"), body.get("replicas")
    # A bool is an int in Python.
    if type(replicas) is not int or not 0 <= replicas <= 10:
        return http.respond(400, "replicas must be an integer from 0 to 10")
    if not isinstance(namespace, str) or not isinstance(name, str):
        return http.respond(400, "namespace and deployment must be strings")
    if all(item.filter_result != [namespace, name] for item in context.snapshot("deployments")):
        return http.respond(404, f"there is no Deployment {namespace}/{name}")
    kubernetes.merge_patch("Deployment", name, {"spec": {"replicas": replicas}}, namespace=namespace, api_version="apps/v1")
    http.respond(204)


if __name__ == "__main__":
    hook.run()
