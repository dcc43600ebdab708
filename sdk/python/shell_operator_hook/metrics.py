"""Metrics, served by the operator under /metrics/hooks. It adds the label "hook".

Series of the same group live and die together: what a run does not report again is gone. Without a group, the group is
that of the hook.
"""

import math
import re
from typing import Iterable, Mapping, Optional

from . import _files
from .context import Object

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


def add(name: str, value: float, labels: Optional[Mapping[str, object]] = None, *, group: str = "") -> None:
    """Increases a counter."""
    if value < 0:
        raise ValueError(f"a counter only grows, so {value} cannot be added; use set() for what also falls")
    _write(name, "add", value, labels, group)


def set(name: str, value: float, labels: Optional[Mapping[str, object]] = None, *, group: str = "") -> None:
    """Sets a gauge."""
    _write(name, "set", value, labels, group)


def observe(
    name: str,
    value: float,
    labels: Optional[Mapping[str, object]] = None,
    *,
    buckets: Iterable[float] = (),
    group: str = "",
) -> None:
    """Adds an observation to a histogram. The default buckets are 0.005 to 10."""
    _write(name, "observe", value, labels, group, [_number(bucket) for bucket in buckets])


def expire(group: Optional[str] = None) -> None:
    """Removes all series of the group, by default those that this hook has reported without a group."""
    if group == "":
        raise ValueError("the name of the group is empty; leave it out to expire what has no group")
    operation: Object = {"action": "expire"}
    if group is not None:
        operation["group"] = group
    _files.append("METRICS_PATH", operation)


def _write(
    name: str,
    action: str,
    value: float,
    labels: Optional[Mapping[str, object]],
    group: str,
    buckets: Optional[Iterable[float]] = None,
) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be the name of a metric; use letters, digits, _ and :, and no digit at the beginning"
        )
    operation: Object = {"name": name, "action": action, "value": _number(value)}
    if buckets is not None:
        operation["buckets"] = buckets
    for label in labels or {}:
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"{label!r} cannot be the name of a label; use letters, digits and _, and not __ at its beginning"
            )
    if labels:
        operation["labels"] = {label: str(value) for label, value in labels.items()}
    if group:
        operation["group"] = group
    _files.append("METRICS_PATH", operation)


def _number(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number that can be reported")
    return value
