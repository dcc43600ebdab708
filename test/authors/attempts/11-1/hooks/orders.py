#!/usr/bin/env python3
import subprocess

from shell_operator_hook import Context, Hook

hook = Hook("""
configVersion: v1
settings:
  contextsPerRun: 1
kubernetes:
- name: orders
  apiVersion: example.com/v1
  kind: Order
  executeHookOnSynchronization: false
  executeHookOnEvent: [Added]
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
  # Eight Orders at a time; one that fails blocks only its own lane.
  queue: {name: orders, key: object, concurrency: 8}
""")


@hook.on_kubernetes("orders", "Added")
def added(context: Context) -> None:
    subprocess.run(["ship", context.filter_result], check=True)


if __name__ == "__main__":
    hook.run()
