"""The scalar types of :mod:`mgw.transforms.payloads.sql_types`."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from mgw.transforms.objects import JsonNumber
from mgw.transforms.payloads.json_text import dump_json
from mgw.transforms.payloads.sql_types import Misfit, SqlType, kind_of
from mgw.transforms.payloads.xml_text import check_xml

__all__ = ["Boolean", "Double", "Interval", "Json", "Moment", "Number", "Raw", "Text", "Xml"]

MAX_DIGITS = 40  # significant decimal digits of a NUMBER
MAX_JSON_NESTING = 200  # what is stored has to be read again from any depth of the stack
_EXPONENTS = range(-130, 126)  # of its first digit
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Text(SqlType):
    """VARCHAR2, NVARCHAR2, CHAR, NCHAR, CLOB, NCLOB; ``limit`` None: no limit of its own."""

    name: str
    limit: int | None = None
    in_bytes: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def text(self) -> str:
        if self.limit is None:
            return self.name
        return f"{self.name}({self.limit}{' BYTE' if self.in_bytes else ''})"

    def fit(self, value: Any) -> str:
        if type(value) is not str:
            raise Misfit(f"text is needed, this is {kind_of(value)}", "give it as text (TO_CHAR in an expression)")
        try:
            size = len(value.encode()) if self.in_bytes or not value.isascii() else len(value)
        except UnicodeEncodeError:
            raise Misfit("half of a surrogate pair is not a character") from None
        if self.limit is None:
            return value
        if not self.in_bytes:
            size = len(value)
        if size > self.limit:
            unit = "bytes" if self.in_bytes else "characters"
            raise Misfit(f"it has {size} {unit}, {self.text} holds {self.limit}", "shorten it, or use a larger type")
        return value + " " * (self.limit - size) if self.name in ("CHAR", "NCHAR") else value

    def dump(self, value: Any) -> str:
        return _quote(value)

    def load(self, raw: Any) -> str:
        return raw  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Number(SqlType):
    """NUMBER; ``precision`` None: up to 40 significant digits."""

    precision: int | None = None
    scale: int | None = None

    kind: ClassVar[str] = "NUMBER"

    @property
    def text(self) -> str:
        if self.precision is None:
            return "NUMBER"
        return f"NUMBER({self.precision},{self.scale})" if self.scale else f"NUMBER({self.precision})"

    def fit(self, value: Any) -> int | Decimal:
        number = _decimal(value)
        sign, digits, exponent = number.as_tuple()
        if not isinstance(exponent, int):
            raise Misfit(f"{value} is not a number that can be stored")
        kept = len(digits)
        while kept > 1 and digits[kept - 1] == 0:
            kept -= 1
        exponent += len(digits) - kept
        digits = digits[:kept]
        if digits == (0,):
            return Decimal(0) if self.scale and self.scale > 0 else 0
        top = exponent + kept - 1
        if kept > MAX_DIGITS or top not in _EXPONENTS:
            raise Misfit(
                f"{_short(value)} has more digits than a NUMBER holds", f"at most {MAX_DIGITS} digits are possible"
            )
        if self.precision is not None:
            scale = self.scale or 0
            if exponent < -scale or top >= self.precision - scale:
                raise Misfit(f"{_short(value)} does not fit {self.text}", "round it, or use a larger type")
        exact = Decimal((sign, digits, exponent))
        if exponent < 0:
            return exact
        return Decimal(int(exact)) if self.scale and self.scale > 0 else int(exact)

    def dump(self, value: Any) -> str:
        return str(value)

    def load(self, raw: Any) -> int | Decimal:
        if self.scale and self.scale > 0:
            return raw if type(raw) is Decimal else Decimal(raw)
        return int(raw) if type(raw) is Decimal and raw == raw.to_integral_value() else raw


def _decimal(value: Any) -> Decimal:
    kind = type(value)
    if kind is Decimal or kind is JsonNumber:
        if value.is_snan():
            raise Misfit("it is a signalling NaN")
        return value  # type: ignore[no-any-return]
    if kind is int:
        if value.bit_length() > 600:
            raise Misfit("the integer has more digits than a NUMBER holds", f"at most {MAX_DIGITS} digits are possible")
        return Decimal(value)
    if kind is float:
        return Decimal(repr(value))
    if kind is str and len(value) <= 400 and _NUMBER.fullmatch(value.strip(" ")):
        try:
            return Decimal(value.strip(" "))
        except InvalidOperation:
            pass
    if kind is str:
        raise Misfit(f"{_short(value)} is not a number")
    raise Misfit(f"a number is needed, this is {kind_of(value)}")


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:60] + "..."


@dataclass(frozen=True, slots=True)
class Double(SqlType):
    """FLOAT and BINARY_DOUBLE: 64-bit floating point."""

    name: str = "BINARY_DOUBLE"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def text(self) -> str:
        return self.name

    def fit(self, value: Any) -> float:
        if type(value) is float or type(value) is JsonNumber:
            number = float(value)
        else:
            exact = _decimal(value)
            number = float(exact)
            if exact.is_finite() and (not math.isfinite(number) or Decimal(repr(number)) != exact):
                raise Misfit(f"{_short(value)} has no exact form as {self.name}", "use NUMBER")
        if not math.isfinite(number) and self.name == "FLOAT":
            raise Misfit(f"{number} is not a FLOAT", "use BINARY_DOUBLE")
        return number

    def dump(self, value: Any) -> str:
        return repr(value) if math.isfinite(value) else f'"{value!r}"'

    def load(self, raw: Any) -> float:
        return float(raw)


@dataclass(frozen=True, slots=True)
class Moment(SqlType):
    """DATE and the TIMESTAMPs; ``zone`` is empty, ``TIME ZONE`` or ``LOCAL TIME ZONE``."""

    name: str = "TIMESTAMP"
    digits: int = 6  # of the seconds
    zone: str = ""

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"{self.name} WITH {self.zone}" if self.zone else self.name

    @property
    def text(self) -> str:
        size = f"({self.digits})" if self.name == "TIMESTAMP" and self.digits != 6 else ""
        return f"{self.name}{size}{f' WITH {self.zone}' if self.zone else ''}"

    def fit(self, value: Any) -> datetime:
        moment = value
        if type(value) is str:
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                raise Misfit(f"{_short(value)} is not an ISO 8601 time") from None
        elif type(value) is date:
            moment = datetime(value.year, value.month, value.day)
        if not isinstance(moment, datetime):
            raise Misfit(f"a time is needed, this is {kind_of(value)}", "give a datetime, or ISO 8601 text")
        if (moment.utcoffset() is None) == bool(self.zone):
            have, need = ("no", "needs one") if self.zone else ("a", "holds none")
            raise Misfit(f"{moment.isoformat()} has {have} time zone, {self.text} {need}")
        if self.digits < 6 and moment.microsecond % 10 ** (6 - self.digits):
            raise Misfit(f"{moment.isoformat()} has more digits than {self.text} holds", "round it to seconds")
        if self.zone != "LOCAL TIME ZONE":
            return moment
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise Misfit(f"{moment.isoformat()} is out of the range of years 1 to 9999 in UTC") from None

    def dump(self, value: Any) -> str:
        return f'"{value.isoformat()}"'

    def load(self, raw: Any) -> datetime:
        return datetime.fromisoformat(raw)


@dataclass(frozen=True, slots=True)
class Interval(SqlType):
    """INTERVAL DAY TO SECOND (``timedelta``) and INTERVAL YEAR TO MONTH (a number of months)."""

    months: bool

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "INTERVAL YEAR TO MONTH" if self.months else "INTERVAL DAY TO SECOND"

    @property
    def text(self) -> str:
        return self.kind

    def fit(self, value: Any) -> int | timedelta:
        if self.months:
            if type(value) is int and abs(value) < 12 * 10**9:
                return value
            raise Misfit(f"a whole number of months is needed, this is {kind_of(value)}")
        if not isinstance(value, timedelta):
            raise Misfit(f"a timedelta is needed, this is {kind_of(value)}")
        return value

    def dump(self, value: Any) -> str:
        if self.months:
            return str(value)
        return json.dumps([value.days, value.seconds, value.microseconds])

    def load(self, raw: Any) -> int | timedelta:
        return raw if self.months else timedelta(*raw)


@dataclass(frozen=True, slots=True)
class Raw(SqlType):
    """RAW and BLOB; ``limit`` in bytes."""

    name: str = "RAW"
    limit: int | None = None

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def text(self) -> str:
        return self.name if self.limit is None else f"{self.name}({self.limit})"

    def fit(self, value: Any) -> bytes:
        if type(value) is str:
            try:
                value = bytes.fromhex(value)
            except ValueError:
                raise Misfit(f"{_short(value)} is not hexadecimal text", "give bytes") from None
        elif isinstance(value, (bytearray, memoryview)):
            value = bytes(value)
        if type(value) is not bytes:
            raise Misfit(f"raw bytes are needed, this is {kind_of(value)}")
        if self.limit is not None and len(value) > self.limit:
            raise Misfit(f"it has {len(value)} bytes, {self.text} holds {self.limit}", "shorten it, or use BLOB")
        return value

    def dump(self, value: Any) -> str:
        if self.name == "BLOB":
            return f'"{base64.b64encode(value).decode("ascii")}"'
        return f'"{value.hex().upper()}"'

    def load(self, raw: Any) -> bytes:
        try:
            return base64.b64decode(raw, validate=True) if self.name == "BLOB" else bytes.fromhex(raw)
        except binascii.Error as error:
            raise ValueError(f"stored raw value cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class Boolean(SqlType):
    """BOOLEAN."""

    kind: ClassVar[str] = "BOOLEAN"

    @property
    def text(self) -> str:
        return "BOOLEAN"

    def fit(self, value: Any) -> bool:
        if type(value) is not bool:
            raise Misfit(f"a boolean is needed, this is {kind_of(value)}", "give True or False")
        return value

    def dump(self, value: Any) -> str:
        return "true" if value else "false"

    def load(self, raw: Any) -> bool:
        return bool(raw)


@dataclass(frozen=True, slots=True)
class Json(SqlType):
    """JSON."""

    kind: ClassVar[str] = "JSON"

    @property
    def text(self) -> str:
        return "JSON"

    def fit(self, value: Any) -> Any:
        try:
            _check_json(value)
            value = _floats(value, JsonNumber)
            dump_json(value)
        except (ValueError, RecursionError) as error:
            raise Misfit(str(error) or "the value is nested too deeply") from None
        return value

    def dump(self, value: Any) -> str:
        return dump_json(value)

    def load(self, raw: Any) -> Any:
        return _floats(raw)


def _check_json(value: Any, level: int = 0) -> None:
    kind = type(value)
    if kind is dict or kind is list:
        if level == MAX_JSON_NESTING:
            raise ValueError(f"the value is nested too deeply: {MAX_JSON_NESTING} levels are allowed")
        for name in value if kind is dict else ():
            if type(name) is not str:
                raise ValueError(f"a JSON name cannot be {kind_of(name)}")
        for each in value.values() if kind is dict else value:
            _check_json(each, level + 1)
    elif value is not None and kind not in (str, int, float, bool, JsonNumber):
        raise ValueError(f"a JSON value cannot be {kind_of(value)}")


def _floats(value: Any, exact: type[Decimal] = Decimal) -> Any:
    kind = type(value)
    if kind is exact:
        return float(value)
    if kind is dict:
        return {name: _floats(each, exact) for name, each in value.items()}
    if kind is list:
        return [_floats(each, exact) for each in value]
    return value


@dataclass(frozen=True, slots=True)
class Xml(SqlType):
    """XMLTYPE: the text of a well-formed document."""

    kind: ClassVar[str] = "XMLTYPE"

    @property
    def text(self) -> str:
        return "XMLTYPE"

    def fit(self, value: Any) -> str:
        if type(value) is not str:
            raise Misfit(f"XML text is needed, this is {kind_of(value)}")
        try:
            check_xml(value)
        except ValueError as error:
            raise Misfit(f"it is not well-formed XML: {error}", "send well-formed XML without DOCTYPE") from None
        return value

    def dump(self, value: Any) -> str:
        return _quote(value)

    def load(self, raw: Any) -> str:
        return raw  # type: ignore[no-any-return]
