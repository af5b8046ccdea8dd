"""Purge conditions: which rows of ``AQ$<queue table>`` go (AQ guide 12.2 §8.1.4).

A purge condition is written in the rule language over the columns of the view, each with the prefix ``qtview.``
(``qview.`` does, too): ``qtview.msg_state = 'PROCESSED' AND qtview.retry_count > 3``. Letter case counts in texts, not
in names of columns. Times are ISO 8601 texts in UTC, whatever the database: with milliseconds for the columns called
``..._TIMESTAMP`` (``2026-11-20T16:30:00.000Z``), in whole seconds for the others, so they compare as text. Every column
of the documented view may be named; ``qtview.user_data.<attribute>`` as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from gateway.aq.errors import RuleFailed, RuleInvalid
from gateway.aq.model import PayloadType
from gateway.aq.statements_rules import Filter, translate
from gateway.aq.statements_rules_columns import VIEW_COLUMNS, view_columns
from gateway.aq.statements_rules_payload import Payload
from transforms.compiler import analyse
from transforms.errors import ExpressionFailed, ExpressionInvalid
from transforms.expression import Language, Property, Row, compile_condition
from transforms.message import Message, decode_headers
from transforms.values import Value

__all__ = ["PURGES", "PurgeCondition", "purge_condition"]

_EVERYTHING = Filter("TRUE", (), True)


class _ViewRow(Row):
    """A row of the view as expressions see it."""

    __slots__ = ("columns",)

    def __init__(self, columns: Mapping[str, Any], payload_type: PayloadType) -> None:
        body: Any = columns.get("USER_DATA")
        if isinstance(body, (bytearray, memoryview)):
            body = bytes(body)
        if payload_type is PayloadType.FIELDS and body is not None:
            body = decode_headers(body if isinstance(body, str) else body.decode())
        super().__init__(Message(body, decode_headers(columns.get("HEADERS"))))
        self.columns = columns


def _column(name: str, kind: str) -> Property:
    def get(row: Any) -> Value:
        value = row.columns.get(name)
        if isinstance(value, datetime):
            moment = value.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
            return (moment if name.endswith("_TIMESTAMP") else moment[:19]) + "Z"
        return str(value) if kind == "text" and value is not None else value

    return Property("text" if kind in ("text", "time") else "number", get, f"column {name} of the view")


#: The language of purge conditions.
PURGES = Language(("qtview", "qview"), {name.lower(): _column(name, kind) for name, kind in VIEW_COLUMNS.items()})


class PurgeCondition:
    """A compiled purge condition; make one with :func:`purge_condition`."""

    __slots__ = ("_condition", "_filters", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._condition = compile_condition(text, PURGES) if text else None
        self._filters: dict[bool, Filter] = {}

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

    def holds(self, row: Mapping[str, Any], payload_type: PayloadType) -> bool:
        """Whether the condition is true for a row of the view, given by names of columns in upper case.

        Raises:
            RuleFailed: ORA-25449, the condition has no value for this row.
        """
        if self._condition is None:
            return True
        try:
            return self._condition.holds(_ViewRow(row, payload_type)) is True
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
