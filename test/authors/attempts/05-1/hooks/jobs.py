#!/usr/bin/env python3
from datetime import datetime, timedelta, timezone

from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
schedule:
- name: nightly
  crontab: "30 2 * * *"
  includeSnapshotsFrom: [jobs]
kubernetes:
- name: jobs
  apiVersion: batch/v1
  kind: Job
  jqFilter: |
    {namespace: .metadata.namespace, name: .metadata.name, deleting: (.metadata.deletionTimestamp != null),
     completed: (if any(.status.conditions[]?; .type == "Complete" and .status == "True") then .status.completionTime else null end)}
  keepFullObjectsInMemory: false
  executeHookOnSynchronization: false
  executeHookOnEvent: []
""")


@hook.on_schedule("nightly")
def nightly(context: Context) -> None:
    limit = datetime.now(timezone.utc) - timedelta(days=1)
    for item in context.snapshot("jobs"):
        job = item.filter_result
        if not job["completed"] or job["deleting"]:
            continue
        if datetime.strptime(job["completed"], "%Y-%m-%dT%H:%M:%S%z") < limit:
            kubernetes.delete("Job", job["name"], namespace=job["namespace"], api_version="batch/v1", background=True)


if __name__ == "__main__":
    hook.run()
