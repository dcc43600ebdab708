"""Binding contexts: the events of a run."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional

JSON = Any
"""A JSON value."""

Object = Dict[str, Any]
"""A Kubernetes object, or another JSON object."""


class Item:
    """One object of a Synchronization or of a snapshot."""

    def __init__(self, raw: Mapping[str, JSON]) -> None:
        self.raw = raw

    @property
    def object(self) -> Object:
        """The Kubernetes object; empty if the binding does not keep full objects."""
        return self.raw.get("object") or {}

    @property
    def filter_result(self) -> JSON:
        """The result of the binding's jqFilter; None without a filter."""
        return self.raw.get("filterResult")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


class Context(Item):
    """One binding context. Missing values are empty or None; raw is the JSON itself.

    Of an Event, object and filter_result are the object that changed, as for an Item.
    """

    @property
    def binding(self) -> str:
        """The name of the binding."""
        return self._text("binding")

    @property
    def type(self) -> str:
        """Synchronization, Event, Requeue, Schedule, Group, Validating, Mutating, Conversion, HTTP, or empty for onStartup."""
        return self._text("type")

    @property
    def watch_event(self) -> str:
        """Of an Event: Added, Modified, Deleted or Deleting."""
        return self._text("watchEvent")

    @property
    def previous_object(self) -> Object:
        """With includePrevious: the object as the hook has seen it before; empty if it has not."""
        return self.raw.get("previousObject") or {}

    @property
    def previous_filter_result(self) -> JSON:
        """With includePrevious: filter_result as the hook has seen it before; None if it has not."""
        return self.raw.get("previousFilterResult")

    @property
    def group(self) -> str:
        """Of a Group: its name."""
        return self._text("groupName")

    @property
    def objects(self) -> List[Item]:
        """Of a Synchronization: all items. Of an Event or a Requeue: the one of the context, so that one handler can
        process all of them."""
        if self.type in ("Event", "Requeue"):
            return [self]
        return [Item(raw) for raw in self.raw.get("objects") or []]

    @property
    def deleting(self) -> List[Item]:
        """Of a Synchronization of a binding with a finalizer: the items that are being deleted and have it."""
        return [Item(raw) for raw in self.raw.get("deleting") or []]

    @property
    def snapshots(self) -> Dict[str, List[Item]]:
        """The items of each snapshot that the binding includes."""
        snapshots = self.raw.get("snapshots") or {}
        return {name: [Item(raw) for raw in items] for name, items in snapshots.items()}

    def snapshot(self, name: str) -> List[Item]:
        """The items of one snapshot."""
        snapshots = self.raw.get("snapshots") or {}
        if name not in snapshots:
            raise ValueError(
                f"there is no snapshot of {name!r}; there is: {', '.join(sorted(snapshots))}. "
                "Add it to includeSnapshotsFrom of the binding"
            )
        return [Item(raw) for raw in snapshots[name]]

    @property
    def request(self) -> Object:
        """Of Validating, Mutating and Conversion: the request of the review. Of HTTP: the request."""
        review = self.raw.get("review") or self.raw
        return review.get("request") or {}

    @property
    def from_version(self) -> str:
        """Of a Conversion: the version of the objects."""
        return self._text("fromVersion")

    @property
    def to_version(self) -> str:
        """Of a Conversion: the desired version."""
        return self._text("toVersion")

    def _text(self, key: str) -> str:
        return self.raw.get(key) or ""


def contexts(path: Optional[str] = None) -> List[Context]:
    """The binding contexts of this run. Hook.run() reads them for you."""
    path = path or os.environ.get("BINDING_CONTEXT_PATH")
    if not path:
        raise ValueError(
            "BINDING_CONTEXT_PATH has to name a file with binding contexts; the operator sets it for every run. "
            "To try the hook by hand, write such a file"
        )
    with open(path, encoding="utf-8") as file:
        return [Context(raw) for raw in json.load(file)]
