"""The files that a run writes for the operator."""

import json
import os

from .context import JSON


def append(variable: str, value: JSON) -> None:
    """Appends a line with the value to the file that the environment variable names."""
    _write(variable, "a", value)


def replace(variable: str, value: JSON) -> None:
    """The same, but the value becomes the whole content."""
    _write(variable, "w", value)


def read(variable: str) -> JSON:
    """The value in the file, or None if it is empty."""
    with open(_path(variable), encoding="utf-8") as file:
        text = file.read()
    return json.loads(text) if text else None


def _write(variable: str, mode: str, value: JSON) -> None:
    try:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    except TypeError as error:
        raise ValueError(f"only values that JSON has can be handed to the operator: {error}") from error
    with open(_path(variable), mode, encoding="utf-8") as file:
        file.write(line)


def _path(variable: str) -> str:
    path = os.environ.get(variable)
    if not path:
        raise ValueError(
            f"{variable} is not set; the operator sets it for every run. To try the hook by hand, let it name a file"
        )
    return path
