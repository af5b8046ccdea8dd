"""Names in addresses that hold a slash: ``a%2Fb`` is one name, although servers take it for two steps of the path."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor

__all__ = ["NAME", "NamesWithSlashes"]

#: The step of a path that is the name of an object, the parameter ``name`` of a route.
NAME = "{name:name}"
_ENCODED = re.compile(r"%2f", re.IGNORECASE)
#: Stands for a slash in a name until the route is found; a character that no name holds.
_SLASH = "\uf8ff"

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class NamesWithSlashes:
    """Keeps a slash that is percent-encoded apart from those that divide the path."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Pass a request on."""
        raw = scope.get("raw_path", b"")
        if b"%2f" in raw.lower():
            path = raw.decode("ascii", "replace").partition("?")[0]
            scope = {**scope, "path": unquote(_ENCODED.sub(_SLASH, path))}
        await self._app(scope, receive, send)


class _Name(Convertor[str]):
    """The convertor of :data:`NAME`."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The name as it is."""
        return value.replace(_SLASH, "/")

    def to_string(self, value: str) -> str:
        """The name as a step of a path."""
        return value.replace("/", _SLASH)


register_url_convertor("name", _Name())
