"""Purge conditions: which rows of ``AQ$<queue table>`` go (AQ guide 12.2 §8.1.4).

A purge condition is written in the rule language over the columns of the view, each with the prefix ``qtview.``
(``qview.`` does, too): ``qtview.msg_state = 'PROCESSED' AND qtview.retry_count > 3``. Letter case counts in texts, not
in names of columns. Times are ISO 8601 texts in UTC, whatever the database: with milliseconds for the columns called
``..._TIMESTAMP`` (``2026-11-20T16:30:00.000Z``), in whole seconds for the others, so they compare as text. Every column
of the documented view may be named. ``qtview.user_data`` is the body as rules see it, whatever the payload type:
``qtview.user_data.<attribute>``, ``qtview.user_data.GetTypeName()``, ``HEADER('name')``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.columns import VIEW_COLUMNS, view_columns
from mgw.gateway.aq.conditions.sql.payload import Payload
from mgw.gateway.aq.conditions.sql.rules import Filter, translate
from mgw.gateway.aq.errors import RuleFailed, RuleInvalid
from mgw.transforms.errors import ExpressionFailed, ExpressionInvalid
from mgw.transforms.language.compiler import analyse, compile_condition
from mgw.transforms.language.expression import Language, Property, Row
from mgw.transforms.language.functions import on_change
from mgw.transforms.language.values import Value
from mgw.transforms.message import Message

__all__ = ["PURGES", "PurgeCondition", "purge_condition"]

_EVERYTHING = Filter("TRUE", (), True)


_NO_BODY = Message(None)
_OF_THE_BODY = ("user_data", "userdata")


class _ViewRow(Row):
    """A row of the view as expressions see it."""

    __slots__ = ("columns",)

    def __init__(self, columns: Mapping[str, Any], message: Message | None) -> None:
        super().__init__(message or _NO_BODY)
        self.columns = columns


def _column(name: str, kind: str) -> Property:
    def get(row: Any) -> Value:
        value = row.columns.get(name)
        return str(value) if kind == "text" and value is not None else value

    return Property("text" if kind in ("text", "time") else "number", get, f"column {name} of the view")


#: The language of purge conditions.
PURGES = Language(("qtview", "qview"), {name.lower(): _column(name, kind) for name, kind in VIEW_COLUMNS.items()})


class PurgeCondition:
    """A compiled purge condition; make one with :func:`purge_condition`.

    Attributes:
        text: the condition; empty: every row.
        names: columns of the view that it may ask for, in upper case.
        reads_bodies: it may ask for the bodies or headers of messages.
    """

    __slots__ = ("_condition", "_filters", "names", "reads_bodies", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._condition = compile_condition(text, PURGES) if text else None
        self._filters: dict[bool, Filter] = {}
        asked: set[str] = set()
        self.reads_bodies = False
        if text:
            tree = analyse(text, PURGES).tree
            asked = {str(each.this).lower() for each in tree.find_all(exp.Identifier)}
            called = any(str(each.this).upper() == "HEADER" for each in tree.find_all(exp.Anonymous))
            self.reads_bodies = called or not asked.isdisjoint(_OF_THE_BODY)
        self.names = tuple(name for name in VIEW_COLUMNS if name.lower() in asked)

    def where(self, *, postgresql: bool) -> Filter:
        """SQL for the WHERE clause of a query on the view under the name ``qtview``, with ``?`` for its parameters.

        Where the filter is not ``exact``, a row that it lets pass goes only if :meth:`holds`.
        """
        found = self._filters.get(postgresql)
        if found is None:
            found = _EVERYTHING
            if self._condition is not None:
                columns = view_columns(postgresql=postgresql)
                translated = translate(
                    analyse(self.text, PURGES), columns, Payload(postgresql=postgresql, fields=False, readable=False)
                )
                found = translated or Filter("TRUE", (), False)
            self._filters[postgresql] = found
        return found

    def holds(self, row: Mapping[str, Any], message: Message | None = None) -> bool:
        """Whether the condition is true for a row of the view.

        Args:
            row: the values of ``names`` at least, by names of columns in upper case; times as text.
            message: the message of the row, for a condition that reads bodies.

        Raises:
            RuleFailed: ORA-25449, the condition has no value for this row.
        """
        if self._condition is None:
            return True
        try:
            return self._condition.holds(_ViewRow(row, message)) is True
        except ExpressionFailed as error:
            raise RuleFailed(
                f"purge condition {self.text!r} failed", cause=error.cause, cure="correct the condition"
            ) from error


@lru_cache(maxsize=64)
def purge_condition(text: str | None) -> PurgeCondition:
    """The purge condition in ``text``, compiled; None and blank text stand for every message.

    Raises:
        RuleInvalid: ORA-25448, with line, column and offending text.
    """
    try:
        return PurgeCondition(text if text and text.strip() else "")
    except ExpressionInvalid as error:
        raise RuleInvalid(error.what, cause=error.cause, cure=error.cure) from error


on_change(purge_condition.cache_clear)
