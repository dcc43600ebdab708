#!/usr/bin/env python3
import subprocess

from shell_operator_hook import Context, Hook

hook = Hook("""
configVersion: v1
kubernetes:
- name: ingresses
  apiVersion: networking.k8s.io/v1
  kind: Ingress
  jqFilter: '[.spec.rules[]?.host | strings] | unique'
  includePrevious: true
  queue: {name: ingresses, key: object, concurrency: 4}
""")


def dns(action: str, hosts: set) -> None:
    for host in sorted(hosts):
        subprocess.run(["dns", action, host], check=True)


@hook.on_kubernetes("ingresses")
def changed(context: Context) -> None:
    if context.type == "Synchronization":
        return
    now = set() if context.watch_event == "Deleted" else set(context.filter_result)
    before = set(context.filter_result) if context.watch_event == "Deleted" else set(context.previous_filter_result or [])
    dns("add", now - before)
    dns("remove", before - now)


if __name__ == "__main__":
    hook.run()
