#!/usr/bin/env python3
import subprocess
import sys

from shell_operator_hook import Context, Hook, kubernetes

# One worker, which nothing but a change of the hooks replaces, reads the table once, before its first run.
hook = Hook("""
configVersion: v1
settings:
  worker: {idleTimeout: 0s, maxAge: 0s, maxRuns: 0}
kubernetes:
- name: orders
  apiVersion: example.com/v1
  kind: Order
  executeHookOnSynchronization: false
  executeHookOnEvent: [Added]
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name, item: .spec.item}"
  keepFullObjectsInMemory: false
""")

prices = {}
if "--config" not in sys.argv[1:]:
    table = subprocess.run(["price-table"], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    for line in table.splitlines():
        fields = line.split(None, 1)
        if len(fields) == 2:
            prices[fields[0]] = fields[1].strip()


@hook.on_kubernetes("orders", "Added")
def added(context: Context) -> None:
    order = context.filter_result
    price = prices.get(order["item"])
    if price is None:
        print(f"Order {order['namespace']}/{order['name']}: there is no price of {order['item']}", file=sys.stderr)
        return
    kubernetes.merge_patch("Order", order["name"], {"metadata": {"annotations": {"price": price}}},
                           namespace=order["namespace"], api_version="example.com/v1", ignore_missing=True)


if __name__ == "__main__":
    hook.run()
