"""Responses to an HTTP request, for bindings under http. The default is status 204 without content."""

import base64
from typing import Mapping, Optional, Sequence, Union

from . import _files
from .context import JSON, Object

_FILE = "HTTP_RESPONSE_PATH"

Headers = Mapping[str, Union[str, Sequence[str]]]
"""Values of headers; several values of one header are a list."""


def respond(status: int, body: Union[str, bytes] = "", *, content_type: str = "", headers: Optional[Headers] = None) -> None:
    """Responds with a text or with bytes. By default a text is text/plain, bytes are application/octet-stream."""
    answer: Object = {}
    if isinstance(body, bytes):
        answer["bodyBase64"] = base64.b64encode(body).decode()
    elif body:
        answer["body"] = body
    _write(status, answer, content_type, headers)


def json(status: int, value: JSON, *, headers: Optional[Headers] = None) -> None:
    """Responds with a value as application/json."""
    _write(status, {"json": value}, "", headers)


def _write(status: int, body: Object, content_type: str, headers: Optional[Headers]) -> None:
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError(f"{status!r} is not a status from 200 to 599")
    if body and status in (204, 205, 304):
        raise ValueError(f"an answer with status {status} has no content: use another status, or leave the content out")
    answer: Object = {"status": status, **body}
    given = {name: value if isinstance(value, str) else list(value) for name, value in (headers or {}).items()}
    if content_type:
        given["Content-Type"] = content_type
    if given:
        answer["headers"] = given
    _files.replace(_FILE, answer)
