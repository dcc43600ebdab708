#!/usr/bin/env python3
import subprocess
import sys

from shell_operator_hook import Context, Hook, kubernetes

hook = Hook("""
configVersion: v1
settings: {worker: true}
kubernetes:
- {name: orders, apiVersion: example.com/v1, kind: Order, executeHookOnEvent: [Added], initialObjects: added}
""")
prices = {}
if sys.argv[1:] != ["--config"]:
    table = subprocess.run(["price-table"], check=True, stdout=subprocess.PIPE, text=True).stdout
    prices = dict(line.split() for line in table.splitlines())


@hook.on_kubernetes("orders")
def price(context: Context) -> None:
    metadata = context.object["metadata"]
    kubernetes.merge_patch("Order", metadata["name"], {"metadata": {"annotations": {"price": prices[context.object["spec"]["item"]]}}},
                           namespace=metadata["namespace"], api_version="example.com/v1")


if __name__ == "__main__":
    hook.run()
