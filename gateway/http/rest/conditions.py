"""Entity tags: answer 304 to who has the same already, and change only what is as the caller saw it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header

from mgw.gateway.services.expected import Expected

__all__ = ["Conditions", "header_of", "is_known"]

_Text = Annotated[str | None, Header(max_length=2000)]


def _tags(text: str | None) -> frozenset[str] | None:
    """The tags of a header, without quotes; the weak ones too, since there is one form of each object alone."""
    if text is None:
        return None
    return frozenset(each.strip().removeprefix("W/").strip('"') for each in text.split(","))


def _expected(if_match: _Text = None, if_none_match: _Text = None) -> Expected:
    return Expected(_tags(if_match), _tags(if_none_match))


#: If-Match and If-None-Match of a request.
Conditions = Annotated[Expected, Depends(_expected)]


def header_of(tag: str) -> dict[str, str]:
    """The header that tells the tag of what is answered."""
    return {"ETag": f'"{tag}"'}


def is_known(tag: str, expected: Expected) -> bool:
    """Whether the caller has it already."""
    return expected.none_of is not None and bool(expected.none_of & {tag, "*"})
