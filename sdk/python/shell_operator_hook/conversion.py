"""Responses to a conversion review. Handlers of Hook.on_conversion need not call these: they return the objects."""

from typing import Iterable

from . import _files
from .context import Object

_FILE = "CONVERSION_RESPONSE_PATH"


class ConversionFailed(Exception):
    """Raised by a handler of Hook.on_conversion whose objects cannot be converted. The client gets the
    message. The hook itself does not fail."""


def respond(objects: Iterable[Object]) -> None:
    """Responds with the converted objects, in the order of the request."""
    _files.replace(_FILE, {"convertedObjects": list(objects)})


def fail(message: str) -> None:
    """Reports that the objects cannot be converted."""
    if not message:
        raise ValueError("say why: the message must not be empty")
    _files.replace(_FILE, {"failedMessage": message})
