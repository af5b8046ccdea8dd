"""Refusals over HTTP, as RFC 9457 has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

__all__ = ["ERRORS_PAGE", "PROBLEM_JSON", "Problem"]

PROBLEM_JSON = "application/problem+json"
ERRORS_PAGE = "/docs/errors"  # which has a place for each number


class Problem(Exception):
    """A request that is refused.

    Attributes:
        detail: what could not be done, with its object.
        about: kind and name of that object, where there is one.
        cause: why, where that is known.
        cure: what to do about it.
        number: of the error, as the error reference lists it.
        more: further members of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        cure: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        cause: str = "",
        number: int | None = None,
        about: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.about = about
        self.cause = cause
        self.cure = cure
        self.number = number
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    @property
    def members(self) -> dict[str, Any]:
        """The members of the document."""
        phrase = HTTPStatus(self.status).phrase
        found: dict[str, Any] = {"type": self.type, "title": phrase, "status": self.status, "detail": self.detail}
        texts = (("object", self.about), ("cause", self.cause), ("cure", self.cure))
        found |= {name: text for name, text in texts if text}
        found |= {} if self.number is None else {"number": self.number}
        return found | self.more

    @property
    def type(self) -> str:
        """Where the number is described; without one that is, status and title say what it is."""
        if self.number is None:
            return "about:blank"
        from mgw.gateway.services.error_numbers import numbers

        return f"{ERRORS_PAGE}#{self.number}" if self.number in numbers() else "about:blank"

    def body(self) -> bytes:
        """The document."""
        from mgw.gateway.services.redaction import redact

        return f"{redact(json.dumps(self.members, ensure_ascii=False, indent=2, default=str))}\n".encode(
            "utf-8", "backslashreplace"
        )
