"""Refusals over HTTP, as RFC 9457 has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

__all__ = ["PROBLEM_JSON", "Problem"]

PROBLEM_JSON = "application/problem+json"


class Problem(Exception):
    """A request that is refused.

    Attributes:
        detail: what could not be done, with its object.
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
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.cause = cause
        self.cure = cure
        self.number = number
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    @property
    def members(self) -> dict[str, Any]:
        """The members of the document."""
        phrase = HTTPStatus(self.status).phrase
        found: dict[str, Any] = {"type": "about:blank", "title": phrase, "status": self.status, "detail": self.detail}
        found |= {name: text for name, text in (("cause", self.cause), ("cure", self.cure)) if text}
        found |= {} if self.number is None else {"number": self.number}
        return found | self.more

    def body(self) -> bytes:
        """The document."""
        from mgw.gateway.services.redaction import redact

        return f"{redact(json.dumps(self.members, ensure_ascii=False, indent=2, default=str))}\n".encode(
            "utf-8", "backslashreplace"
        )
