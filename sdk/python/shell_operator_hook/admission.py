"""Responses to an admission review. Without a response the operator denies the request."""

import base64
import json
from typing import Iterable, List

from . import _files
from .context import Object

_FILE = "ADMISSION_RESPONSE_PATH"


def allow(*warnings: str) -> None:
    """Allows the request. The client sees the warnings. An earlier patch is kept."""
    answer: Object = _files.read(_FILE) or {}
    answer["allowed"] = True
    answer.pop("message", None)
    if warnings:
        answer["warnings"] = [*answer.get("warnings", []), *warnings]
    _files.replace(_FILE, answer)


def deny(message: str, *warnings: str) -> None:
    """Denies the request. The client sees the message."""
    if not message:
        raise ValueError("say why: the message must not be empty")
    answer: Object = {"allowed": False, "message": message}
    if warnings:
        answer["warnings"] = list(warnings)
    _files.replace(_FILE, answer)


def patch(operations: Iterable[Object]) -> None:
    """Allows the request and changes its object by JSON patch operations, for bindings under kubernetesMutating.

    A second patch is appended to the first. Warnings given before are kept. What was denied stays denied.
    """
    added = list(operations)
    for operation in added:
        if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
            raise ValueError(f"a JSON patch operation has op and path, {operation!r} has not")
    answer: Object = _files.read(_FILE) or {"allowed": True}
    if not answer["allowed"]:
        return
    before: List[Object] = json.loads(base64.b64decode(answer.get("patch", "W10=")))
    text = json.dumps(before + added, separators=(",", ":"))
    answer["patch"] = base64.b64encode(text.encode()).decode()
    _files.replace(_FILE, answer)
