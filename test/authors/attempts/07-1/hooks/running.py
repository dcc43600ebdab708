#!/usr/bin/env python3
from collections import Counter

from shell_operator_hook import Context, Hook, metrics

hook = Hook("""
configVersion: v1
kubernetes:
- name: namespaces
  group: running
  apiVersion: v1
  kind: Namespace
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
- name: pods
  group: running
  apiVersion: v1
  kind: Pod
  jqFilter: "{namespace: .metadata.namespace, running: (.status.phase == \\"Running\\")}"
  keepFullObjectsInMemory: false
""")


@hook.on_group("running")
def count(context: Context) -> None:
    running = Counter(
        item.filter_result["namespace"] for item in context.snapshot("pods") if item.filter_result["running"])
    namespaces = [item.filter_result for item in context.snapshot("namespaces")]
    for namespace in namespaces:
        metrics.set("running_pods", running[namespace], {"namespace": namespace}, group="running_pods")
    if not namespaces:
        metrics.expire("running_pods")


if __name__ == "__main__":
    hook.run()
