"""The hook: its configuration, its handlers, and run()."""

import json
import os
import sys
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _worker, conversion
from .context import JSON, Context, Object, contexts

Handler = Callable[[Context], None]
Converter = Callable[[Context], Iterable[Object]]

_H = TypeVar("_H", bound=Handler)
_C = TypeVar("_C", bound=Converter)

# The key of a handler: the type of the context, the name of binding or group, and a detail: the watch event, or the
# versions of a conversion. An empty name or detail matches all.
_Key = Tuple[str, str, str]

_DETAILS = ("Synchronization", "Added", "Modified", "Deleted", "Deleting", "Requeue")


class Hook:
    """A hook. config is its configuration: a value, or YAML or JSON text."""

    def __init__(self, config: Union[Mapping[str, JSON], str]) -> None:
        self.config = config
        self._handlers: Dict[_Key, Handler] = {}

    # Decorators.

    def on_startup(self, handler: _H) -> _H:
        """Handles onStartup."""
        return self._add(("onStartup", "", ""), handler)

    def on_kubernetes(self, binding: str, *events: str) -> Callable[[_H], _H]:
        """Handles a binding under kubernetes. events are some of Synchronization, Added, Modified, Deleted, Deleting and
        Requeue; without them, those that no other handler of the binding names."""
        for event in events:
            if event not in _DETAILS:
                raise ValueError(f"{event!r} is not an event; there are: {', '.join(_DETAILS)}")

        def decorate(handler: _H) -> _H:
            for event in events or ("",):
                self._add(("kubernetes", binding, event), handler)
            return handler

        return decorate

    def on_schedule(self, binding: str) -> Callable[[_H], _H]:
        """Handles a binding under schedule."""
        return self._decorator(("Schedule", binding, ""))

    def on_group(self, group: str) -> Callable[[_H], _H]:
        """Handles a group of bindings."""
        return self._decorator(("Group", group, ""))

    def on_validating(self, binding: str) -> Callable[[_H], _H]:
        """Handles a binding under kubernetesValidating. The handler responds with admission.allow() or deny()."""
        return self._decorator(("Validating", binding, ""))

    def on_mutating(self, binding: str) -> Callable[[_H], _H]:
        """Handles a binding under kubernetesMutating. The handler responds with admission.patch(), allow() or deny()."""
        return self._decorator(("Mutating", binding, ""))

    def on_conversion(self, binding: str, from_version: str = "", to_version: str = "") -> Callable[[_C], _C]:
        """Handles a binding under kubernetesCustomResourceConversion, by default for all versions. The handler returns the
        converted objects of context.request["objects"], in their order, or raises ConversionFailed."""
        if bool(from_version) != bool(to_version):
            raise ValueError("give both from_version and to_version, or none of them")

        def decorate(converter: _C) -> _C:
            def handler(context: Context) -> None:
                _convert(context, converter)

            self._add(("Conversion", binding, _versions(from_version, to_version)), handler)
            return converter

        return decorate

    def on_http(self, binding: str) -> Callable[[_H], _H]:
        """Handles a binding under http. The handler responds with http.respond() or http.json(); the default is status
        204."""
        return self._decorator(("HTTP", binding, ""))

    def otherwise(self, handler: _H) -> _H:
        """Handles contexts without another handler. Hooks with configuration v0 have only this one and on_startup."""
        return self._add(("", "", ""), handler)

    # The entry point for the operator.

    def run(self, argv: Optional[Sequence[str]] = None, *, fork: bool = True) -> None:
        """Prints the configuration if the first argument is --config; otherwise handles the binding contexts, in order.

        An exception of a handler ends the run: the contexts after it are not handled, and the operator tries all again.

        With settings.worker it serves runs and does not return. Each run is a fork of the process as it is now; with
        fork=False all runs share this process, its variables and its connections.
        """
        arguments = sys.argv[1:] if argv is None else argv
        if arguments and arguments[0] == "--config":
            text = self.config if isinstance(self.config, str) else json.dumps(self.config)
            print(text)
            return
        if _worker.VARIABLE in os.environ:
            _worker.serve(self._handle_all, fork)
        _worker.cut_tracebacks()
        self._handle_all()

    def _handle_all(self) -> None:
        for context in contexts():
            self.handle(context)

    def handle(self, context: Context) -> None:
        """Handles one context."""
        candidates = list(_candidates(context))
        for key in candidates:
            if key in self._handlers:
                self._handlers[key](context)
                return
        wanted = ", ".join(_decorator_of(key) for key in candidates)
        raise ValueError(f"the hook has no handler for the context of binding {context.binding!r}; add one of: {wanted}")

    def _decorator(self, key: _Key) -> Callable[[_H], _H]:
        return lambda handler: self._add(key, handler)

    def _add(self, key: _Key, handler: _H) -> _H:
        if key in self._handlers:
            raise ValueError(f"there already is a handler for {_decorator_of(key)}")
        self._handlers[key] = handler
        return handler


def _candidates(context: Context) -> List[_Key]:
    """The keys of handlers for the context, the most specific one first."""
    binding, kind = context.binding, context.type
    keys: List[_Key] = []
    if binding == "onStartup":
        keys = [("onStartup", "", "")]
    elif kind == "Synchronization" or (kind == "Event" and context.watch_event in _DETAILS):
        detail = kind if kind == "Synchronization" else context.watch_event
        keys = [("kubernetes", binding, detail), ("kubernetes", binding, "")]
    elif kind == "Requeue":
        # A hook without a choice of its own reconciles the object as after a change.
        return [("kubernetes", binding, kind), ("kubernetes", binding, ""), ("Schedule", binding, ""), ("", "", ""), ("kubernetes", binding, "Modified")]
    elif kind == "Group":
        keys = [(kind, context.group, "")]
    elif kind == "Conversion":
        keys = [(kind, binding, _versions(context.from_version, context.to_version)), (kind, binding, "")]
    elif kind in ("Schedule", "Validating", "Mutating", "HTTP"):
        keys = [(kind, binding, "")]
    return [*keys, ("", "", "")]


def _versions(from_version: str, to_version: str) -> str:
    return f"{from_version} {to_version}".strip()


def _decorator_of(key: _Key) -> str:
    """The decorator of a handler for the key."""
    kind, name, detail = key
    if not kind:
        return "@otherwise"
    if kind == "onStartup":
        return "@on_startup"
    arguments = [name, *detail.split()]
    return f"@on_{kind.lower()}({', '.join(map(repr, arguments))})"


def _convert(context: Context, converter: Converter) -> None:
    try:
        objects = list(converter(context))
    except conversion.ConversionFailed as error:
        conversion.fail(str(error) or "the objects cannot be converted")
        return
    want = len(context.request.get("objects") or [])
    if len(objects) != want:
        raise ValueError(f"there are {want} objects to convert, but the handler returned {len(objects)}")
    conversion.respond(objects)
