"""Date expressions of schedules, as in ``next_time``: a date computed from SYSDATE.

``SYSDATE + 1/24``, ``TRUNC(SYSDATE) + 1``, ``NEXT_DAY(TRUNC(SYSDATE), 'MONDAY') + 8/24``, ``ADD_MONTHS(SYSDATE, 1)``,
``LAST_DAY(SYSDATE)``, ``SYSTIMESTAMP + INTERVAL '90' MINUTE``. Numbers are days. All times are UTC.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from mgw.transforms.errors import ExpressionInvalid

__all__ = ["MAX_DATE_EXPRESSION", "constant_step", "date_of"]

MAX_DATE_EXPRESSION = 200  # characters, as in the packages for AQ
_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_UNITS = {"SECOND": 1.0, "MINUTE": 60.0, "HOUR": 3600.0, "DAY": 86400.0}
_DAY = 86400.0
#: Functions of the calendar: how far their value is from SYSDATE depends on SYSDATE.
_CALENDAR = (exp.DateTrunc, exp.TimestampTrunc, exp.NextDay, exp.LastDay, exp.AddMonths)
_EXAMPLES = "write a date such as SYSDATE + 1/24 or TRUNC(SYSDATE) + 1"

_Value = datetime | timedelta | float


def date_of(text: str, now: float) -> float:
    """The value of a date expression in epoch seconds, where SYSDATE is ``now``.

    Raises:
        ExpressionInvalid: it is none, or its value is no date.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_DATE_EXPRESSION:
        raise _invalid(text, f"it has 1 to {MAX_DATE_EXPRESSION} characters")
    try:
        value = _value(_tree(text), datetime.fromtimestamp(now, UTC))
    except (ParseError, TokenError, RecursionError) as error:
        raise _invalid(text, "it cannot be read") from error
    except (OverflowError, ValueError, ZeroDivisionError, TypeError) as error:
        raise _invalid(text, str(error) or "it has no value") from error
    if not isinstance(value, datetime):
        raise _invalid(text, "its value is a number of days, and no date")
    return value.timestamp()


def constant_step(text: str) -> float | None:
    """Seconds from SYSDATE to the value of a date expression, where they are always the same; None: where they are not.

    Raises:
        ExpressionInvalid: as :func:`date_of`.
    """
    step = date_of(text, 0.0)
    return None if any(isinstance(node, _CALENDAR) for node in _tree(text).walk()) else step


@lru_cache(256)
def _tree(text: str) -> Any:
    return sqlglot.parse_one(text, read="oracle")


def _invalid(text: object, cause: str) -> ExpressionInvalid:
    return ExpressionInvalid(f"date expression {text!r} cannot be used", cause=cause, cure=_EXAMPLES)


def _value(node: Any, now: datetime) -> _Value:
    if isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.Systimestamp)):
        return now
    evaluate = _EVALUATE.get(type(node))
    if evaluate is None:
        raise ValueError(f"{node.sql(dialect='oracle')[:40]} is not known here")
    return evaluate(node, now)


def _literal(node: Any, _: datetime) -> float:
    if node.is_string:
        raise ValueError(f"{node.sql()} is a text")
    return float(node.this)


def _inner(node: Any, now: datetime) -> _Value:
    return _value(node.this, now)


def _negative(node: Any, now: datetime) -> _Value:
    value = _value(node.this, now)
    if isinstance(value, datetime):
        raise TypeError("a date has no sign")
    return -value


def _sum(node: Any, now: datetime) -> _Value:
    left, right = _value(node.this, now), _value(node.expression, now)
    if isinstance(left, datetime) and isinstance(right, datetime):
        raise TypeError("two dates cannot be added")
    if isinstance(right, datetime):
        left, right = right, left
    if isinstance(left, datetime):
        return left + _span(right)
    return left + right if type(left) is type(right) else _span(left) + _span(right)  # type: ignore[operator]


def _difference(node: Any, now: datetime) -> _Value:
    left, right = _value(node.this, now), _value(node.expression, now)
    if isinstance(right, datetime):
        if isinstance(left, datetime):
            return (left - right).total_seconds() / _DAY
        raise TypeError("a date cannot be taken from a number")
    if isinstance(left, datetime):
        return left - _span(right)
    return left - right if type(left) is type(right) else _span(left) - _span(right)  # type: ignore[operator]


def _product(node: Any, now: datetime) -> float | timedelta:
    left, right = _value(node.this, now), _value(node.expression, now)
    if isinstance(left, datetime) or isinstance(right, datetime):
        raise TypeError("a date cannot be multiplied")
    return left * right  # type: ignore[operator]


def _quotient(node: Any, now: datetime) -> float:
    left, right = _number(node.this, now), _number(node.expression, now)
    return left / right


def _span(value: _Value) -> timedelta:
    """A number of days, or an interval, as an interval."""
    return value if isinstance(value, timedelta) else timedelta(seconds=round(float(value) * _DAY, 3))  # type: ignore[arg-type]


def _number(node: Any, now: datetime) -> float:
    value = _value(node, now)
    if not isinstance(value, float):
        raise TypeError(f"{node.sql(dialect='oracle')[:40]} is no number")
    return value


def _date(node: Any, now: datetime) -> datetime:
    value = _value(node, now)
    if not isinstance(value, datetime):
        raise TypeError(f"{node.sql(dialect='oracle')[:40]} is no date")
    return value


def _interval(node: Any, _: datetime) -> timedelta:
    if node.unit is None:
        raise ValueError("an interval has a unit")
    return _of_unit(float(node.this.this), node.unit.name)


def _called(node: Any, now: datetime) -> timedelta:
    arguments = node.expressions
    if str(node.this).upper() != "NUMTODSINTERVAL" or len(arguments) != 2:
        raise ValueError(f"{node.this} is not known here")
    return _of_unit(_number(arguments[0], now), arguments[1].name)


def _of_unit(amount: float, unit: str) -> timedelta:
    seconds = _UNITS.get(unit.upper().removesuffix("S"))
    if seconds is None:
        raise ValueError(f"{unit} is none of {', '.join(_UNITS)}")
    return timedelta(seconds=amount * seconds)


def _truncated(node: Any, now: datetime) -> datetime:
    date, unit = _date(node.this, now), node.unit.name.upper()
    midnight = date.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in ("DD", "DDD", "J", "DAY_OF_MONTH"):
        return midnight
    if unit in ("HH", "HH12", "HH24", "HOUR"):
        return date.replace(minute=0, second=0, microsecond=0)
    if unit in ("MI", "MINUTE"):
        return date.replace(second=0, microsecond=0)
    if unit in ("MM", "MON", "MONTH", "RM"):
        return midnight.replace(day=1)
    if unit in ("YY", "YYY", "YYYY", "YEAR", "SYYYY", "Y"):
        return midnight.replace(month=1, day=1)
    if unit in ("IW", "WEEK"):
        return midnight - timedelta(days=midnight.weekday())
    raise ValueError(f"TRUNC does not know {unit}: DD, HH24, MI, IW, MM, YYYY")


def _next_day(node: Any, now: datetime) -> datetime:
    date, wanted = _date(node.this, now), node.expression.name.upper()
    found = [number for number, name in enumerate(_WEEKDAYS) if len(wanted) >= 3 and name.startswith(wanted)]
    if not found:
        raise ValueError(f"{wanted!r} is no day of the week")
    return date + timedelta(days=(found[0] - date.weekday() - 1) % 7 + 1)


def _last_day(node: Any, now: datetime) -> datetime:
    date = _date(node.this, now)
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


def _add_months(node: Any, now: datetime) -> datetime:
    date, months = _date(node.this, now), int(_number(node.expression, now))
    last = date.day == calendar.monthrange(date.year, date.month)[1]
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    most = calendar.monthrange(year, month + 1)[1]
    return date.replace(year=year, month=month + 1, day=most if last else min(date.day, most))


_EVALUATE: Mapping[type[Any], Callable[[Any, datetime], _Value]] = {
    exp.Literal: _literal,
    exp.Paren: _inner,
    exp.Neg: _negative,
    exp.Add: _sum,
    exp.Sub: _difference,
    exp.Mul: _product,
    exp.Div: _quotient,
    exp.Interval: _interval,
    exp.Anonymous: _called,
    exp.DateTrunc: _truncated,
    exp.TimestampTrunc: _truncated,
    exp.NextDay: _next_day,
    exp.LastDay: _last_day,
    exp.AddMonths: _add_months,
}
