"""The numbers of errors, and what each means: for the reference, and for the page that refusals refer to."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from mgw.gateway.config.guide.numbers import ENGINE, ORA
from mgw.transforms import errors as error_module

__all__ = ["Chapter", "Described", "chapters", "numbers"]

_OWN = {
    20001: "the address of the destination cannot be used",
    20002: "the queue does not hold RAW messages",
    20003: "the link of the destination cannot be used",
    20004: "messages of the outbound schedule are left",
}
_ELSEWHERE = ("221", "721")  # have another number here
_BRACKETED = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Described:
    """A number.

    Attributes:
        shown: as it is printed.
        name: in the code.
        action: what to do, where that is the same every time.
    """

    number: int
    shown: str
    name: str
    meaning: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Numbers that belong together."""

    anchor: str
    title: str
    errors: Sequence[Described]

    @property
    def has_actions(self) -> bool:
        """Whether any of them says what to do."""
        return any(each.action for each in self.errors)


def chapters() -> Sequence[Chapter]:
    """All numbers."""
    return (
        Chapter("administration", "Administration", sorted(_administration(), key=_place)),
        Chapter("queues", "Queues", sorted(_queues(), key=_place)),
        Chapter("engine", "Messages and jobs", sorted(_engine(), key=_place)),
    )


@cache
def numbers() -> frozenset[int]:
    """The numbers that are described."""
    return frozenset(each.number for chapter in chapters() for each in chapter.errors)


def _place(error: Described) -> int:
    return error.number


def _ora(number: int) -> str:
    return f"ORA-{number:05d}"


def _administration() -> Iterator[Described]:
    from mgw.gateway.services.admin.base import Ora

    meanings = _OWN | {each.number: each.meaning for each in ORA}
    for each in Ora:
        yield Described(each.value, _ora(each.value), each.name, _sentence(meanings[each.value]))


def _queues() -> Iterator[Described]:
    from mgw.gateway.aq import errors

    for name in errors.__all__:
        kind = getattr(errors, name)
        if kind.ora is not None:
            meaning, _, action = " ".join((inspect.getdoc(kind) or "").split()).partition(" Action: ")
            yield Described(kind.ora, _ora(kind.ora), name, meaning, action)


def _engine() -> Iterator[Described]:
    named: dict[int, tuple[str, str]] = {}
    for name in error_module.__all__:
        text = " ".join((inspect.getdoc(getattr(error_module, name)) or "").split())
        for number in _BRACKETED.findall(text):
            named.setdefault(int(number), (name, _BRACKETED.sub("", text).replace(" .", ".")))
    texts = {int(each.name): each.here for each in ENGINE if each.verdict != "no" and each.name not in _ELSEWHERE}
    texts[417] = "records of the sending log are missing; `mgw agents cleanup RESET_SUB_MISSING_LOG_REC`"
    for number in sorted(texts.keys() | named.keys()):
        name, meaning = named.get(number, ("", ""))
        yield Described(number, str(number), name, meaning or _sentence(texts[number]))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
