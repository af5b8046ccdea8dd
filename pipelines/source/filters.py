"""Conditions that Spark hands down, as SQL: only where SQL gives exactly the answer that Spark would give.

Three-valued logic is the same in both, so NOT is. What is left to Spark: comparisons with NULL and with NaN, text with
NUL characters (databases disagree about it), attributes inside of columns, and everything about columns that are not
stored as they are shown. Moments are stored as floating point numbers and shown rounded to microseconds: there the
database only throws away what is farther than a microsecond off, and Spark decides the rest.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import datasource as spark

from mgw.gateway.aq import BodyType, State
from mgw.pipelines.source import statements_read as sql
from mgw.pipelines.source.columns import READ

__all__ = ["Pushed", "push"]

_WHOLE = {"id", "priority", "attempts", "sender_protocol"}
_REAL = {"expiration"}
_MOMENTS = {"enq_time", "deq_time", "ready_at", "expires_at"}
_TEXTS = {
    "correlation",
    "kind",
    "enq_user",
    "deq_user",
    "exception_queue",
    "expiration_reason",
    "sender_name",
    "sender_address",
    "user_property",
}
_CODES = {
    "state": {state.name: int(state) for state in State},
    "body_type": {kind.name: int(kind) for kind in BodyType},
}
_BYTES = {"original_msgid", "body"}
_NEVER_NULL = {"msgid": "id"}  # and what stands for it when it is asked for NULL
_TOLERANCE, _PRECISION = 2e-6, 1e-15  # seconds, and a share of them for moments far off

_COMPARISONS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
_BEYOND = 2**63


class Pushed(NamedTuple):
    """A condition in SQL; ``exact``: Spark need not look at it again."""

    sql: str
    exact: bool = True


class Target(NamedTuple):
    """Where the condition goes."""

    postgresql: bool
    a: str  # the row that has the state
    hub_id: bytes


def push(condition: spark.Filter, target: Target) -> Pushed | None:  # noqa: PLR0911  (one for each kind)
    """The condition in SQL, or None where only Spark can judge it."""
    if isinstance(condition, spark.Not):
        inner = push(condition.child, target)
        return Pushed(f"NOT ({inner.sql})") if inner is not None and inner.exact else None
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return None
    name = attribute[0]
    if isinstance(condition, (spark.IsNull, spark.IsNotNull)):
        return _null(name, isinstance(condition, spark.IsNull), target)
    value = getattr(condition, "value", None)
    if isinstance(condition, spark.EqualNullSafe):
        if value is None:
            return _null(name, True, target)
        equal = push(spark.EqualTo(attribute, value), target)
        # Never NULL itself: that matters under a NOT.
        return Pushed(f"coalesce({equal.sql}, {_false(target)})") if equal is not None and equal.exact else None
    if isinstance(condition, spark.In):
        return _in(name, value, target)
    pattern = _PATTERNS[target.postgresql].get(type(condition))
    if pattern is not None:
        literal = _literal(name, value, target) if name in _TEXTS and value else None
        return Pushed(pattern.format(_column(name, target), literal)) if literal is not None else None
    operator = _COMPARISONS.get(type(condition))
    return _compare(name, operator, value, target) if operator else None


def _compare(name: str, operator: str, value: Any, target: Target) -> Pushed | None:
    if name in _MOMENTS:
        return _moment(name, operator, value, target)
    if (name in _CODES or name in _BYTES or name == "msgid") and operator != "=":
        return None
    literal = _literal(name, value, target)
    if literal is None:
        return None
    collation = ' COLLATE "C"' if name in _TEXTS and operator != "=" and target.postgresql else ""
    return Pushed(f"{_column(name, target)}{collation} {operator} {literal}")


def _in(name: str, values: Any, target: Target) -> Pushed | None:
    if name in _MOMENTS or not isinstance(values, (tuple, list)) or not values:
        return None
    literals = [_literal(name, value, target) for value in values]
    if any(literal is None for literal in literals):
        return None
    return Pushed(f"{_column(name, target)} IN ({', '.join(filter(None, literals))})")


def _moment(name: str, operator: str, value: Any, target: Target) -> Pushed | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    seconds = value.timestamp()
    tolerance = _TOLERANCE + abs(seconds) * _PRECISION
    column = _column(name, target)
    conditions = []
    if operator in ("=", ">", ">="):
        conditions.append(f"{column} >= {sql.real(seconds - tolerance, postgresql=target.postgresql)}")
    if operator in ("=", "<", "<="):
        conditions.append(f"{column} <= {sql.real(seconds + tolerance, postgresql=target.postgresql)}")
    return Pushed(" AND ".join(conditions), exact=False)


def _null(name: str, wanted: bool, target: Target) -> Pushed | None:
    stored = name in _WHOLE | _REAL | _MOMENTS | _TEXTS | _BYTES | _CODES.keys() | _NEVER_NULL.keys()
    if not stored:
        return None
    return Pushed(f"{_column(name, target)} IS {'' if wanted else 'NOT '}NULL")


def _column(name: str, target: Target) -> str:
    return READ[_NEVER_NULL.get(name, name)].format(a=target.a)


def _false(target: Target) -> str:
    return "false" if target.postgresql else "0"


def _literal(name: str, value: Any, target: Target) -> str | None:  # noqa: PLR0911  (one line for each type)
    """The value as the column is stored; None where the column or the value is not one to compare here."""
    if name in _WHOLE:
        return str(value) if type(value) is int and -_BEYOND < value < _BEYOND else None
    if name in _REAL:
        return sql.real(value, postgresql=target.postgresql) if type(value) is float and math.isfinite(value) else None
    if name in _TEXTS:
        return sql.text(value, postgresql=target.postgresql) if isinstance(value, str) and "\0" not in value else None
    if name in _CODES:
        return str(_CODES[name].get(value, -1)) if isinstance(value, str) else None
    if not isinstance(value, (bytes, bytearray)):
        return None
    if name == "msgid":
        return str(_number(bytes(value), target.hub_id))
    return sql.binary(bytes(value), postgresql=target.postgresql) if name in _BYTES else None


def _number(identity: bytes, hub_id: bytes) -> int:
    """The row id in a message id; that of no row if it is not one of this hub."""
    number = int.from_bytes(identity[8:], "big") if len(identity) == 16 and identity[:8] == hub_id else -1
    return number if number < _BEYOND else -1


#: By whether the database is PostgreSQL. What SQLite makes of the end of a text with NUL characters is not its end.
_PATTERNS: dict[bool, dict[type[spark.Filter], str]] = {
    True: {
        spark.StringStartsWith: "starts_with({0}, {1})",
        spark.StringEndsWith: "right({0}, length({1})) = {1}",
        spark.StringContains: "strpos({0}, {1}) > 0",
    },
    False: {
        spark.StringStartsWith: "substr({0}, 1, length({1})) = {1}",
        spark.StringContains: "instr({0}, {1}) > 0",
    },
}
