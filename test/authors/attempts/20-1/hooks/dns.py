#!/usr/bin/env python3
import subprocess

from shell_operator_hook import Context, Hook

hook = Hook("""
configVersion: v1
settings:
  contextsPerRun: 1
kubernetes:
- name: ingresses
  apiVersion: networking.k8s.io/v1
  kind: Ingress
  # The Synchronization runs, so that existing Ingresses have a previous state.
  includePrevious: true
  # A deleted Ingress stays until its hosts are removed.
  finalizer: example.com/dns
  jqFilter: "[.spec.rules[]?.host | select(. != null and . != \\"\\")] | unique"
  queue: {name: dns, key: object, concurrency: 1}
""")


def dns(action: str, hosts) -> None:
    for host in sorted(hosts):
        subprocess.run(["dns", action, host], check=True)


@hook.on_kubernetes("ingresses", "Synchronization")
def existing(context: Context) -> None:
    pass


@hook.on_kubernetes("ingresses", "Added", "Modified")
def changed(context: Context) -> None:
    if context.object["metadata"].get("deletionTimestamp"):
        return
    before, now = set(context.previous_filter_result or []), set(context.filter_result)
    dns("add", now - before)
    dns("remove", before - now)


@hook.on_kubernetes("ingresses", "Deleting")
def deleting(context: Context) -> None:
    before = context.previous_filter_result
    dns("remove", context.filter_result if before is None else before)


@hook.on_kubernetes("ingresses", "Deleted")
def deleted(context: Context) -> None:
    # After Deleting nothing is left to do; without it, others have removed the finalizer.
    if not ((context.previous_object or {}).get("metadata", {}).get("deletionTimestamp")):
        deleting(context)


if __name__ == "__main__":
    hook.run()
