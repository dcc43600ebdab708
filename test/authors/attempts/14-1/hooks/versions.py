#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
kubernetes:
- name: configmaps
  apiVersion: v1
  kind: ConfigMap
  executeHookOnSynchronization: false
  executeHookOnEvent: [Modified]
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name, version: .data.version}"
  keepFullObjectsInMemory: false
  includeSnapshotsFrom: [deployments]
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  labelSelector: {matchExpressions: [{key: config, operator: Exists}]}
  executeHookOnSynchronization: false
  executeHookOnEvent: []
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name, config: .metadata.labels.config}"
  keepFullObjectsInMemory: false
""")


@hook.on_kubernetes("configmaps", "Modified")
def changed(context: Context) -> None:
    found = context.filter_result
    for item in context.snapshot("deployments"):
        deployment = item.filter_result
        if deployment["namespace"] == found["namespace"] and deployment["config"] == found["name"]:
            # Without a version the value is null, which removes the annotation.
            patch = {"spec": {"template": {"metadata": {"annotations": {"config-version": found["version"]}}}}}
            kubernetes.merge_patch("Deployment", deployment["name"], patch, namespace=deployment["namespace"],
                                   api_version="apps/v1", ignore_missing=True)


if __name__ == "__main__":
    hook.run()
