"""Write hooks for shell-operator in Python.

A hook is an executable file. It creates one Hook, registers a function for each event, and ends with run():

    #!/usr/bin/env python3
    from shell_operator_hook import Context, Hook, kubernetes, metrics

    hook = Hook({
        "configVersion": "v1",
        "kubernetes": [{"name": "pods", "apiVersion": "v1", "kind": "Pod", "jqFilter": ".metadata.labels"}],
    })

    @hook.on_kubernetes("pods")
    def count(context: Context) -> None:
        for item in context.objects:
            metrics.add("pods_seen", 1, {"team": item.filter_result["team"]})

    if __name__ == "__main__":
        hook.run()

What callers may rely on:

- Python 3.8 and the standard library are enough; everything is typed.
- run() calls one handler for each binding context, in order. An exception ends the hook, and the operator tries it again.
- Invalid arguments raise ValueError with a hint; nothing has been written then.
"""

from . import admission, conversion, http, kubernetes, metrics, run
from .context import JSON, Context, Item, Object, contexts
from .conversion import ConversionFailed
from .hook import Hook

__all__ = [
    "Context",
    "ConversionFailed",
    "Hook",
    "Item",
    "JSON",
    "Object",
    "admission",
    "contexts",
    "conversion",
    "http",
    "kubernetes",
    "metrics",
    "run",
]
