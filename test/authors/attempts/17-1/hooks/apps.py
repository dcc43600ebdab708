#!/usr/bin/env python3
import subprocess
import sys

from shell_operator_hook import Context, Hook, run

hook = Hook("""
configVersion: v1
settings:
  contextsPerRun: 1
kubernetes:
- name: apps
  apiVersion: example.com/v1
  kind: App
  executeHookOnSynchronization: false
  executeHookOnEvent: [Added]
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
  queue: {name: apps, key: object, concurrency: 4}
  retry: {limit: 3}
""")


@hook.on_kubernetes("apps", "Added")
def added(context: Context) -> None:
    name = context.filter_result
    status = subprocess.run(["deploy", name]).returncode
    if status == 2:
        run.give_up(f"the App {name} is wrong: deploy has failed with status 2")
    if status != 0:
        sys.exit(f"deploy {name} has failed with status {status}")


if __name__ == "__main__":
    hook.run()
