#!/usr/bin/env python3
"""Decides which addons are installed, and with what values: a HelmRelease for each, which Flux's helm-controller installs."""
import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from shell_operator_hook import Context, Hook, kubernetes, metrics

NAMESPACE = os.environ.get("WATCH_NAMESPACE") or "addons"
SOURCE = os.environ.get("CHART_SOURCE") or "OCIRepository"
INTERVAL = os.environ.get("DRIFT_INTERVAL") or "5m"
WAIT = os.environ.get("WAIT_FOR_PODS") != "no"
ALL = ["addons", "nodes", "releases"]


class Cluster(NamedTuple):
    """What values are computed from."""

    nodes: int
    zones: int


class Addon(NamedTuple):
    """An addon of the catalog: the addons that it needs, and its values in a cluster. Its chart is the source of its name."""

    needs: Tuple[str, ...]
    values: Callable[[Cluster], Dict[str, Any]]


CATALOG = {
    "store": Addon(needs=(), values=lambda c: {"replicas": 3 if c.nodes >= 3 else 1}),
    "web": Addon(
        needs=("store",),
        values=lambda c: {
            "replicas": min(max(c.nodes, 1), 5),
            "topologyKey": "topology.kubernetes.io/zone" if c.zones > 1 else "kubernetes.io/hostname",
        },
    ),
}

hook = Hook({
    "configVersion": "v1",
    "kubernetes": [
        {
            "name": "addons",
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": {"nameSelector": {"matchNames": [NAMESPACE]}},
            "nameSelector": {"matchNames": ["addons"]},
            "jqFilter": ".data",
            "includeSnapshotsFrom": ALL,
        },
        {
            "name": "nodes",
            "apiVersion": "v1",
            "kind": "Node",
            "jqFilter": '{unschedulable: (.spec.unschedulable // false), zone: .metadata.labels["topology.kubernetes.io/zone"]}',
            "keepFullObjectsInMemory": False,
            "includeSnapshotsFrom": ALL,
        },
        {
            "name": "releases",
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "namespace": {"nameSelector": {"matchNames": [NAMESPACE]}},
            "jqFilter": '{name: .metadata.name} + ((.status.conditions // [] | map(select(.type == "Ready"))[0]) | {ready: .status, reason, message})',
            "keepFullObjectsInMemory": False,
            "includePrevious": True,
            "includeSnapshotsFrom": ALL,
        },
    ],
})


def releases(settings: Dict[str, str], cluster: Cluster, existing: List[str]) -> List[Dict[str, Any]]:
    """The HelmReleases that should exist, from the ConfigMap's data, the cluster, and the names of those that exist. A pure function."""
    chosen = parse(settings)

    def enabled(name: str) -> bool:
        return chosen.get(name, {}).get("enabled", False) and all(enabled(needed) for needed in CATALOG[name].needs)

    def needed(name: str) -> bool:
        """A release that goes waits for those that depend on it: Flux orders installations, but not deletions."""
        return name in existing and any(name in CATALOG[other].needs for other in existing if other in CATALOG)

    return [
        release(name, merge(addon.values(cluster), chosen.get(name, {}).get("values", {})))
        for name, addon in CATALOG.items()
        if enabled(name) or needed(name)
    ]


def parse(settings: Dict[str, str]) -> Dict[str, Dict[str, Any]]:
    """One JSON mapping for each addon."""
    chosen = {}
    for name, text in settings.items():
        if name not in CATALOG:
            raise SystemExit(f"ConfigMap addons, key {name}: there is no such addon, choose from {', '.join(CATALOG)}")
        try:
            chosen[name] = json.loads(text)
        except ValueError as error:
            raise SystemExit(f'ConfigMap addons, key {name}: {error}: write JSON such as {{"enabled": true, "values": {{}}}}')
        if not isinstance(chosen[name], dict) or not isinstance(chosen[name].get("values", {}), dict):
            raise SystemExit(f'ConfigMap addons, key {name}: write a mapping such as {{"enabled": true, "values": {{}}}}')
    return chosen


def merge(computed: Any, given: Any) -> Any:
    """The user's values win; mappings are merged, all else is replaced."""
    if isinstance(computed, dict) and isinstance(given, dict):
        return {**computed, **{key: merge(computed.get(key), value) for key, value in given.items()}}
    return given


def release(name: str, values: Dict[str, Any]) -> Dict[str, Any]:
    action = {"disableWait": not WAIT, "remediation": {"retries": 3}}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "interval": INTERVAL,
            "chartRef": {"kind": SOURCE, "name": name},
            "dependsOn": [{"name": needed} for needed in CATALOG[name].needs],
            "driftDetection": {"mode": "enabled"},
            "install": action,
            "upgrade": action,
            "values": values,
        },
    }


@hook.otherwise
def decide(context: Context) -> None:
    nodes = [item.filter_result for item in context.snapshot("nodes")]
    usable = [node for node in nodes if not node["unschedulable"]]
    cluster = Cluster(nodes=len(usable), zones=len({node["zone"] for node in usable if node["zone"]}))
    existing = [item.filter_result for item in context.snapshot("releases")]

    metrics.expire("addons")
    for item in existing:
        if item["name"] in CATALOG:
            metrics.set("addon_ready", 1 if item["ready"] == "True" else 0, {"name": item["name"]}, group="addons")

    if context.binding == "releases" and context.watch_event == "Modified":
        warn(context.filter_result, context.previous_filter_result or {})

    for config in context.snapshot("addons"):  # none: they went with their owner
        kubernetes.sync(
            "addons",
            releases(config.filter_result or {}, cluster, [item["name"] for item in existing]),
            owner=config.object,
            allow_empty=True,
        )


def bad(release: Dict[str, Any]) -> bool:
    return release.get("ready") == "False" and release["reason"] != "DependencyNotReady"


def warn(now: Dict[str, Any], before: Dict[str, Any]) -> None:
    if bad(now) and not bad(before):
        regarding = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": NAMESPACE, "name": now["name"]}
        kubernetes.event(regarding, "Warning", "AddonFailed", "Install", now["message"] or "")


if __name__ == "__main__":
    hook.run()
