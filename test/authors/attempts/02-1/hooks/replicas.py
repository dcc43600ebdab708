#!/usr/bin/env python3
from shell_operator_hook import Context, Hook, admission

LIMIT = 5

hook = Hook("""
configVersion: v1
kubernetesValidating:
- name: replicas.example.com
  rules:
  - apiGroups: [apps]
    apiVersions: [v1]
    resources: [deployments, deployments/scale]
    operations: [CREATE, UPDATE]
  namespace:
    labelSelector:
      matchLabels: {tier: dev}
""")


def replicas(obj) -> int:
    number = ((obj or {}).get("spec") or {}).get("replicas")
    if number is None:  # a Deployment has 1 by default, a Scale leaves out 0
        return 0 if (obj or {}).get("kind") == "Scale" else 1
    return number


@hook.on_validating("replicas.example.com")
def review(context: Context) -> None:
    request = context.request
    number = replicas(request["object"])
    if number > LIMIT and not (request["operation"] == "UPDATE" and number <= replicas(request.get("oldObject"))):
        admission.deny(f"spec.replicas is {number}: at most {LIMIT} replicas are allowed in this namespace")
        return
    admission.allow()


if __name__ == "__main__":
    hook.run()
