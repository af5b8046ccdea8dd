"""The audit of administration: who changed what, written in the transaction of the change.

Who it is stands in the context of the call, because a change passes many hands: a face says it once, with
:func:`acting`, and everything below it knows.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import sqlalchemy as sa

from mgw.gateway.aq.admin import audit_sql
from mgw.gateway.aq.admin.audit_sql import Kept
from mgw.gateway.aq.model import QueueInfo, QueueTableInfo, SubscriberInfo
from mgw.gateway.aq.store.statements import Db

__all__ = [
    "Author",
    "Changed",
    "Info",
    "Undertaking",
    "account",
    "act_for",
    "acting",
    "as_text",
    "author",
    "enter",
    "keep_change",
    "keep_object",
    "part_of",
    "prune_audit",
    "shown_object",
]

_DUMP = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False, default=str).encode


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something.

    Attributes:
        name: a user of the web face, ``agent NAME``; None: the account of the program and its host.
        through: how: one of :data:`mgw.gateway.aq.store.tables.WAYS`.
    """

    name: str | None = None
    through: str = "python"


class Undertaking:
    """Several changes that are one for those who look back, such as everything that a file brings: one generation.

    Args:
        verb, kind, name: what it is, for its last entry: ``apply``, ``configuration``, ``gateway.yaml``.
    """

    def __init__(self, verb: str, kind: str, name: str = "") -> None:
        self._what = verb, kind, name
        self._first: tuple[int, float] | None = None

    def enter(self, db: Db, entry: Kept) -> int:
        """Store an entry as part of it."""
        if self._first is not None and audit_sql.is_first(db, *self._first):
            return audit_sql.insert(db, entry._replace(generation=self._first[0]))
        number = audit_sql.insert(db, entry)  # the first one, or that one was rolled back
        audit_sql.begins(db, number)
        self._first = number, entry.time
        return number

    @property
    def begun(self) -> bool:
        """Whether anything of it was stored."""
        return self._first is not None

    def end(self, conn: sa.Connection, result: str, *, now: float) -> None:
        """Store what it came to; without that it was interrupted, or is under way."""
        with part_of(self):
            keep_change(conn, Changed(*self._what, result=result), now=now)


@dataclass(frozen=True, slots=True)
class Changed:
    """One change of an object.

    Attributes:
        verb: create, alter, remove, start, ...
        kind: of the object: ``link``, ``job``, ...
        before, after: its settings without secrets; None: it was not there, or is not.
        version: of the gateway's definitions, with this change.
        result: of an undertaking, at its end.
        messages: that were removed; ``moved_to``: the queue that got them, None: they were deleted.
    """

    verb: str
    kind: str
    name: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    version: int | None = None
    result: str | None = None
    messages: int = 0
    moved_to: str | None = None


#: What the audit tells of the hub: the definition of one of these.
Info: TypeAlias = QueueInfo | QueueTableInfo | SubscriberInfo

_NUMBERS = frozenset(("id", "type_id"))
_PROGRAM = Author()
_AUTHOR: ContextVar[Author] = ContextVar("mgw_author", default=_PROGRAM)
_UNDERTAKING: ContextVar[Undertaking | None] = ContextVar("mgw_undertaking", default=None)


def author() -> Author:
    """Who changes something now."""
    return _AUTHOR.get()


def act_for(who: Author) -> None:
    """What follows in this context is somebody's: for a context that ends with the call, as that of a request."""
    _AUTHOR.set(who)


@contextmanager
def acting(who: Author) -> Iterator[None]:
    """What is changed in the block is somebody's."""
    token = _AUTHOR.set(who)
    try:
        yield
    finally:
        _AUTHOR.reset(token)


@contextmanager
def part_of(undertaking: Undertaking) -> Iterator[None]:
    """What is changed in the block belongs to an undertaking."""
    token = _UNDERTAKING.set(undertaking)
    try:
        yield
    finally:
        _UNDERTAKING.reset(token)


def keep_object(  # noqa: PLR0917
    conn: sa.Connection, verb: str, kind: str, before: Info | None, after: Info | None, now: float, by: str | None
) -> None:
    """Write a change of an object of the hub into the audit, in its transaction; nothing where it is as it was.

    Args:
        before, after: it, as the procedures show it; None: it was not there.
        now, by: as for :func:`keep_change`.
    """
    found = after or before
    if before != after and found is not None:
        changed = Changed(verb, kind, name_of(found), shown_object(before), shown_object(after))
        keep_change(conn, changed, now=now, by=by)


def shown_object(info: Info | None) -> dict[str, Any] | None:
    """An object of the hub as the audit has it."""
    if info is None:
        return None
    values = {each.name: getattr(info, each.name) for each in fields(info)}
    return {name: value for name, value in values.items() if name not in _NUMBERS and value is not None and value != {}}


def name_of(info: Info) -> str:
    """How the audit calls an object of the hub."""
    return f"{info.name} of queue {info.queue}" if isinstance(info, SubscriberInfo) else info.full_name


def keep_change(conn: sa.Connection, changed: Changed, *, now: float, by: str | None = None) -> int:
    """Write a change into the audit, in its transaction; the number of the entry.

    Args:
        now: epoch seconds.
        by: who it was, where that is not who acts in this context.
    """
    return enter(
        conn,
        Kept(
            now,
            "",
            "",
            f"{changed.verb} {changed.kind}",
            changed.name,
            changed.messages,
            moved_to=changed.moved_to,
            kind=changed.kind,
            before_change=as_text(changed.before),
            after_change=as_text(changed.after),
            version=changed.version,
            result=changed.result,
        ),
        by,
    )


def extend_change(conn: sa.Connection, number: int, before: Mapping[str, Any], *, messages: int) -> bool:
    """Have an entry of the audit tell of more, in the transaction of that; whether it is there.

    Args:
        before, messages: of :class:`Changed`, as they are now.
    """
    return audit_sql.rewrite(Db(conn), number, as_text(before), messages)


def enter(conn: sa.Connection, entry: Kept, by: str | None) -> int:
    """Store an entry with who it was, as part of the undertaking that it belongs to; its number."""
    acts, under, db = _AUTHOR.get(), _UNDERTAKING.get(), Db(conn)
    entry = entry._replace(actor=by or acts.name or account(), through=acts.through)
    return audit_sql.insert(db, entry) if under is None else under.enter(db, entry)


def prune_audit(conn: sa.Connection, *, before: float, limit: int) -> int:
    """Delete entries that are older than ``before`` (epoch seconds), at most ``limit``; how many."""
    return audit_sql.prune(Db(conn), before=before, limit=limit)


def account() -> str:
    """The account of the program and its host."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container with a number and no name for it
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def as_text(values: Mapping[str, Any] | None) -> str | None:
    """Settings as JSON."""
    return None if values is None else _DUMP(values)
