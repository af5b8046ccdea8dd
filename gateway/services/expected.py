"""What a caller saw of an object before it asks for a change."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.services.definitions import Definition
from mgw.transforms.errors import GatewayError

__all__ = ["Expected", "Unexpected"]


class Unexpected(GatewayError):
    """The object is not as who wants to change it saw it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the caller saw before it asked for a change.

    Attributes:
        one_of: tags of which the object has one; ``*``: it is there.
        none_of: tags of which it has none; ``*``: it is not there.
    """

    one_of: frozenset[str] | None = None
    none_of: frozenset[str] | None = None

    def check(self, found: Definition | None, what: str) -> None:
        """Compare it with the object.

        Raises:
            Unexpected: it is not so.
        """
        self._check(None if found is None else found.tag, what)

    def check_tag(self, tag: str, what: str) -> None:
        """Compare it with what is there, and has this tag.

        Raises:
            Unexpected: it is not so.
        """
        self._check(tag, what)

    def _check(self, tag: str | None, what: str) -> None:
        tags = frozenset() if tag is None else frozenset((tag, "*"))
        if self.one_of is not None and not self.one_of & tags:
            cause = "it does not exist" if tag is None else "it was changed since, or If-Match is of something else"
            raise Unexpected(f"{what} is not what If-Match says", cause=cause, cure="read it again, and decide then")
        if self.none_of is not None and self.none_of & tags:
            raise Unexpected(
                f"{what} is what If-None-Match excludes", cause="it exists", cure="read it, or leave the header out"
            )
