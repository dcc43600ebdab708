#!/usr/bin/env python3
"""Installs a platform whenever the spec of one ClusterConfiguration changes.

The installation is simulated: it prints its tasks, and writes the installed components to the object's status.

WATCH_NAMESPACE        where the object is; "default" when it is empty
CLUSTER_CONFIGURATION  its name; "cluster" when it is empty

The configuration has no configVersion, so its version is v0: contexts have no objects, only their
names, and the objects that exist at the start arrive as "add", one by one.
"""

import json
import os
import subprocess
import sys

RESOURCE = "clusterconfigurations.example.com"
BINDING = "cluster-configuration"


def config():
    return {
        "onKubernetesEvent": [
            {
                "name": BINDING,
                "kind": "ClusterConfiguration",
                "objectName": os.environ.get("CLUSTER_CONFIGURATION") or "cluster",
                "namespaceSelector": {"matchNames": [os.environ.get("WATCH_NAMESPACE") or "default"]},
                "event": ["add", "update"],
                # Excludes the status, so writing it causes no run.
                "jqFilter": ".spec",
            }
        ]
    }


def say(text):
    print(text, flush=True)


def kubectl(*arguments):
    """Runs kubectl and returns its output. When it fails, so does the run, and the operator tries again later."""
    return subprocess.run(["kubectl", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def tasks(wanted, installed):
    """Returns the tasks in their order: first what has to go, then what has to be there."""
    return [
        "check the cluster",
        *(f"remove {component}" for component in sorted(installed - wanted)),
        *(f"install {component}" for component in sorted(wanted)),
    ]


def install(namespace, name):
    found = kubectl("get", RESOURCE, name, "-n", namespace, "--ignore-not-found", "-o", "json")
    if not found.strip():
        say(f"ClusterConfiguration '{name}' is gone, nothing to install")
        return
    configuration = json.loads(found)
    generation = configuration["metadata"]["generation"]
    components = configuration.get("spec", {}).get("components") or {}
    wanted = {component for component, settings in components.items() if settings.get("enabled")}
    installed = set(configuration.get("status", {}).get("components", []))

    say(f"Installation of '{name}', generation {generation}")
    results = []
    for task in tasks(wanted, installed):
        say(f"Task: {task}")  # a real installer would do the work here
        results.append({"name": task, "result": "Done"})

    status = {
        "phase": "Installed",
        "observedGeneration": generation,
        "components": sorted(wanted),
        "tasks": results,
    }
    patch = json.dumps({"status": status})
    kubectl("patch", RESOURCE, name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    say(f"Installation of '{name}' is done: {', '.join(sorted(wanted)) or 'no components'}")


def main():
    if sys.argv[1:] == ["--config"]:
        print(json.dumps(config(), indent=2))
        return
    with open(os.environ["BINDING_CONTEXT_PATH"], encoding="utf-8") as file:
        contexts = json.load(file)
    # Several changes of one object need one installation: it reads the latest spec.
    changed = {
        (context["resourceNamespace"], context["resourceName"]): None
        for context in contexts
        if context["binding"] == BINDING and context["resourceEvent"] in ("add", "update")
    }
    for namespace, name in changed:
        install(namespace, name)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"kubectl {error.cmd[1]} failed with status {error.returncode}")
