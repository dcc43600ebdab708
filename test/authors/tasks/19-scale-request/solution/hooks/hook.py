#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, http, kubernetes

hook = Hook("""
configVersion: v1
http:
- {name: scale, method: POST, path: /scale, includeSnapshotsFrom: [deployments]}
kubernetes:
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  executeHookOnSynchronization: false
  executeHookOnEvent: []
  jqFilter: '[.metadata.namespace, .metadata.name]'
  keepFullObjectsInMemory: false
""")


@hook.on_http("scale")
def scale(context: Context) -> None:
    wanted = context.request.get("json")
    wanted = wanted if isinstance(wanted, dict) else {}
    replicas, target = wanted.get("replicas"), [wanted.get("namespace"), wanted.get("deployment")]
    if type(replicas) is not int or not 0 <= replicas <= 10:
        http.respond(400, "replicas: an integer from 0 to 10")
    elif target not in [item.filter_result for item in context.snapshot("deployments")]:
        http.respond(404, "there is no such Deployment")
    else:
        kubernetes.merge_patch("Deployment", target[1], {"spec": {"replicas": replicas}}, namespace=target[0], api_version="apps/v1")
        http.respond(204)


if __name__ == "__main__":
    hook.run()
