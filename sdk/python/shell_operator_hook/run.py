"""The result of a run: when its contexts are delivered again, and what people see of it.

A second call for the same key replaces the first one. A duration is a text such as "90s", "5m" or "1h30m", or a timedelta.
"""

import re
from datetime import timedelta
from typing import Union

from . import _files
from .context import JSON, Object

_FILE = "RUN_RESULT_PATH"
_DURATION = re.compile(r"0|([0-9]+(\.[0-9]*)?(ns|us|ms|s|m|h))+")

Duration = Union[str, timedelta]
"""A text such as "5m", or a timedelta."""


def requeue_after(after: Duration) -> None:
    """After this run has succeeded, delivers what it contained again after a time from 1s to 720h. Each successful run decides
    again: without this call the polling ends."""
    _set("requeueAfter", _text(after))


def requeue(name: str, after: Duration, *, namespace: str = "") -> None:
    """The same for one object of the contexts. It precedes requeue_after()."""
    if not name:
        raise ValueError("name the object")
    item: Object = {"name": name, "after": _text(after)}
    if namespace:
        item["namespace"] = namespace
    result: Object = _files.read(_FILE) or {}
    _files.replace(_FILE, {**result, "requeue": [*result.get("requeue", []), item]})


def keep_finalizer() -> None:
    """Keeps the finalizer of the objects that are being deleted: their Deleting is delivered again when requeue_after() or requeue()
    says. The run has succeeded, and its operations are applied."""
    _set("keepFinalizer", True)


def retry_after(after: Duration) -> None:
    """If this run fails, the next attempt begins after a time from 0s to 24h, instead of the back-off. Call it, and raise an
    exception."""
    _set("retryAfter", _text(after))


def give_up(reason: str) -> None:
    """If this run fails, there are no more attempts: the task is parked or dropped. Call it, and raise an exception."""
    if not reason:
        raise ValueError("say why: the reason must not be empty")
    _set("giveUp", reason)


def message(text: str) -> None:
    """Shows a text, up to 1 KiB, in runs, in why and on the status page."""
    _set("message", text)


def _set(key: str, value: JSON) -> None:
    _files.replace(_FILE, {**(_files.read(_FILE) or {}), key: value})


def _text(duration: Duration) -> str:
    text = f"{duration // timedelta(milliseconds=1)}ms" if isinstance(duration, timedelta) else duration
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 5m or 1h30m")
    return text
