"""The header array of a message as AMQP: what fills a property, and the headers table in wire form."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mgw.transforms.amqp.common import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    HEADER_PREFIX,
    MAX_CACHE,
    ROUTING_KEY,
    TIMESTAMP,
    UNKNOWN,
    USER_ID,
)
from mgw.transforms.amqp.nested import decimal_bytes, json_bytes
from mgw.transforms.amqp.table import ESCAPE, FIELD_NAMES, HOP_FIELDS, KEPT, OTHERS, PROPERTIES
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.header_table import AMQP_HOP, AMQP_ROUTING, FIELDS_CONTENT_TYPE, bare_name
from mgw.transforms.message import Header, ValueType, check_headers

__all__ = ["BORROWED_CORRELATION", "BORROWED_TEXT", "NO_FIELDS", "is_split", "name_key", "split", "split_original"]

#: Among the properties: the correlation that another broker's header tells, where the message has none ...
BORROWED_CORRELATION: Final = -CORRELATION_ID
#: ... and that another broker's header tells the content type or encoding, which need not fit a text body.
BORROWED_TEXT: Final = -CONTENT_TYPE

_TEXT, _RAW, _DATE, _LONG = ValueType.TEXT, ValueType.RAW, ValueType.DATE, ValueType.LONG
_MAX_SHORT: Final = 255  # bytes
_SHORT: Final = 256
#: What stands before a text of so many bytes.
_TEXT_HEADS: Final = tuple(b"S" + struct.pack(">I", size) for size in range(_SHORT))
_MAX_LONG: Final = 2**63 - 1

_pack_u32 = struct.Struct(">I").pack
_pack_byte, _pack_short = struct.Struct(">cb").pack, struct.Struct(">ch").pack
_pack_int, _pack_long = struct.Struct(">ci").pack, struct.Struct(">cq").pack
_pack_ubyte, _pack_ushort, _pack_uint = struct.Struct(">cB").pack, struct.Struct(">cH").pack, struct.Struct(">cI").pack
_pack_float, _pack_double = struct.Struct(">cf").pack, struct.Struct(">cd").pack
_pack_time = struct.Struct(">cQ").pack


#: What an encoder raises for a value that AMQP cannot carry.
_UNFIT = (struct.error, AttributeError, TypeError, ValueError, ArithmeticError, RecursionError)


def _encode_text(value: Any) -> bytes:
    data: bytes = value.encode()
    return b"S" + _pack_u32(len(data)) + data


def _encode_raw(value: Any) -> bytes:
    return b"x" + _pack_u32(len(value)) + bytes(value)


def _finite(value: Any) -> Any:
    if not math.isfinite(value):  # RabbitMQ cannot read it and ends the connection
        raise ValueError
    return value


_ENCODERS: dict[int, Callable[[Any], bytes]] = {
    ValueType.TEXT: _encode_text,
    ValueType.RAW: _encode_raw,
    ValueType.BOOLEAN: lambda value: b"t\x01" if value else b"t\x00",
    ValueType.BYTE: lambda value: _pack_byte(b"b", value),
    ValueType.SHORT: lambda value: _pack_short(b"s", value),
    ValueType.INTEGER: lambda value: _pack_int(b"I", value),
    ValueType.LONG: lambda value: _pack_long(b"l", value),
    ValueType.FLOAT: lambda value: _pack_float(b"f", _finite(value)),
    ValueType.DOUBLE: lambda value: _pack_double(b"d", _finite(value)),
    ValueType.DATE: lambda value: _pack_time(b"T", math.floor(value)),
    ValueType.JSON: json_bytes,
    ValueType.DECIMAL: decimal_bytes,
    ValueType.UBYTE: lambda value: _pack_ubyte(b"B", value),
    ValueType.USHORT: lambda value: _pack_ushort(b"u", value),
    ValueType.UINT: lambda value: _pack_uint(b"i", value),
}


def _wider(kind: ValueType, value: Any) -> bytes | None:
    """A number that its type cannot hold in AMQP, as the next that can: it keeps its value, not its type."""
    if type(value) is int and kind in _WHOLE:
        return _pack_long(b"l", value) if -_MAX_LONG - 1 <= value <= _MAX_LONG else _encode_text(str(value))
    if isinstance(value, float) and math.isfinite(value) and kind in (ValueType.FLOAT, _DATE):
        return _pack_double(b"d", value)
    return None


_WHOLE = frozenset((ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG))


_NONE: Final = len(OTHERS)  # more than any rank


class _Other(NamedTuple):
    """A header that fills a property if nothing before it does, and is one of the table else."""

    flag: int
    rank: int
    key: bytes


#: What happens to a header name outbound: bytes = table key, int = property flag, None = not sent; for applications'
#: names and for documented ones. Bounded.
_names: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
NO_FIELDS: dict[int, Any] = {}
_FEW, _REMEMBERED = 16, 256
_Splits = dict[int, tuple[tuple[Header, ...], tuple[bytes, dict[int, Any]]]]
#: Header arrays met before, by their identity, which is theirs as long as they are kept here; for applications' names
#: and for documented ones. Bounded.
_splits: tuple[_Splits, _Splits] = ({}, {})


def split(headers: tuple[Header, ...], documented: bool) -> tuple[bytes, dict[int, Any]]:
    """The headers table in wire form (without its length), and the fields that are properties; nobody changes those.

    Messages of one flow often have the same array, as one object: it is looked at once.
    """
    known = _splits[documented].get(id(headers))
    if known is not None and known[0] is headers:
        return known[1]
    check_headers(headers)
    found = _wire(headers, documented=documented)
    if len(headers) <= _FEW and type(headers) is tuple:
        if len(_splits[documented]) >= _REMEMBERED:
            _splits[documented].clear()
        _splits[documented][id(headers)] = headers, found
    return found


def is_split(headers: tuple[Header, ...], documented: bool) -> bool:
    """Whether this array was met a moment ago, as the same object: more messages may have it."""
    known = _splits[documented].get(id(headers))
    return known is not None and known[0] is headers


def split_original(
    headers: tuple[Header, ...], user: str | None, *, documented: bool = False
) -> tuple[bytes, dict[int, Any]]:
    """As :func:`split` for an exception queue."""
    told = [header for header in headers if _is_of_the_hop(header, user, documented=documented)]
    kept = tuple(header for header in headers if not _is_of_the_hop(header, user, documented=documented))
    table, fields = _wire(kept, documented=documented)
    told += [header for header in headers if header.name == FIELD_NAMES[ROUTING_KEY]]
    return table + b"".join(name_key(name) + _encoded(name, kind, value) for name, kind, value in told), fields


def _is_of_the_hop(header: Header, user: str | None, *, documented: bool) -> bool:
    """Whether it is about the hop that is over, or would do more on this one than be carried."""
    name = header.name
    if name == FIELD_NAMES[USER_ID]:
        return user is not None and header.value != user
    if not (documented or name.startswith(HEADER_PREFIX)):  # of another broker, which means nothing here
        return name in HOP_FIELDS
    plain = name.removeprefix(HEADER_PREFIX)
    return name in HOP_FIELDS or plain in AMQP_HOP or plain in AMQP_ROUTING


def _wire(  # noqa: C901, PLR0912 - one pass over the headers, kept flat for speed
    headers: tuple[Header, ...], *, documented: bool
) -> tuple[bytes, dict[int, Any]]:
    pieces: list[bytes] = []
    fields = NO_FIELDS
    others: list[tuple[_Other, Header]] = []
    moment, best = 0, _NONE
    names = _names[documented]
    for name, kind, value in headers:
        place = names.get(name, UNKNOWN)
        if place is UNKNOWN:
            place = _place(name, documented=documented)
        if type(place) is bytes:
            try:
                if kind is _TEXT:
                    data = value.encode()  # type: ignore[union-attr]
                    size = len(data)
                    pieces.append(place + (_TEXT_HEADS[size] if size < _SHORT else b"S" + _pack_u32(size)) + data)
                else:
                    pieces.append(place + _ENCODERS[kind](value))
            except _UNFIT as error:
                pieces.append(place + _widened(name, kind, value, error))
        elif type(place) is _Other:
            flag, rank, key = place
            if flag == TIMESTAMP:  # it travels as a header, too: AMQP has no milliseconds
                if type(value) is not int or not 0 <= value <= _MAX_LONG:
                    pieces.append(key + _encoded(name, kind, value))
                    continue
                if rank < best:
                    moment, best = value // 1000, rank
                pieces.append(key + (_pack_long(b"l", value) if kind is _LONG else _encoded(name, kind, value)))
            else:
                others.append((place, Header(name, kind, value)))
        elif place is not None:
            if (kind is not _DATE) if place == TIMESTAMP else (kind is not _TEXT and kind is not _RAW):
                wanted = "DATE" if place == TIMESTAMP else "TEXT"
                raise ConversionFailure(
                    f"header {name!r} is {ValueType(kind).name}",
                    cause=f"it must be {wanted}",
                    cure="set the right type in a transformation",
                )
            if not fields:
                fields = {}
            fields.setdefault(int(place), value)
    if best < _NONE:
        fields = {TIMESTAMP: moment, **fields} if fields else {TIMESTAMP: moment}
    if others:
        fields = dict(fields)
        others.sort(key=_rank)
        for other, header in others:
            if not _borrow(fields, other.flag, header):
                pieces.append(other.key + _encoded(*header))
    return b"".join(pieces), fields


def _rank(other: tuple[_Other, Header]) -> int:
    return other[0].rank


def _borrow(fields: dict[int, Any], flag: int, header: Header) -> bool:
    """Fill a property from another broker's header, where none is there and it fits; whether that is all of it."""
    _, kind, value = header
    if (kind is not _TEXT and kind is not _RAW) or value == FIELDS_CONTENT_TYPE or _size(value) > _MAX_SHORT:
        return False
    if flag == CORRELATION_ID:  # the message may have one, which says more
        fields.setdefault(BORROWED_CORRELATION, value)
    elif flag not in fields:
        fields[flag] = value
        if flag in (CONTENT_TYPE, CONTENT_ENCODING):
            fields[BORROWED_TEXT] = True
        return True
    return False


def _size(value: Any) -> float:
    try:
        return len(value if type(value) is bytes else value.encode())
    except UnicodeEncodeError:
        return math.inf


def _encoded(name: str, kind: ValueType, value: Any) -> bytes:
    try:
        return _ENCODERS[kind](value)
    except _UNFIT as error:
        return _widened(name, kind, value, error)


def _widened(name: str, kind: ValueType, value: Any, error: Exception) -> bytes:
    wider = _wider(kind, value)
    if wider is None:
        raise _no_value(name, kind, value) from error
    return wider


def _no_value(name: str, kind: ValueType, value: Any) -> ConversionFailure:
    return ConversionFailure(
        f"header {name!r} cannot be sent",
        cause=f"{value!r:.60} is not a {kind.name} that AMQP can carry",
        cure="change its type in a transformation",
    )


def _place(name: str, *, documented: bool) -> Any:
    place: Any
    if name in PROPERTIES:
        place = PROPERTIES[name]
    elif name in HOP_FIELDS:
        place = None
    elif documented:
        plain = name.removeprefix(HEADER_PREFIX)
        place = None if plain in AMQP_HOP else name_key(plain)
    elif name.startswith(HEADER_PREFIX):
        plain = name[len(HEADER_PREFIX) :]
        place = None if plain in AMQP_HOP else name_key(plain)
    else:
        plain = bare_name(name, HEADER_PREFIX)
        key = name_key(ESCAPE + plain if plain in KEPT else plain)
        place = _Other(*OTHERS[name], key) if name in OTHERS else key
    if len(_names[documented]) >= MAX_CACHE:
        _names[documented].clear()
    _names[documented][name] = place
    return place


def name_key(name: str) -> bytes:
    if name in AMQP_ROUTING:
        raise ConversionFailure(
            f"header {name!r} cannot be sent",
            cause="RabbitMQ reads it as a list of further routing keys and refuses anything else",
            cure="rename or remove it in a transformation",
        )
    try:
        data = name.encode()
    except UnicodeEncodeError as error:
        raise ConversionFailure(f"header name {name!a:.60} is not valid Unicode", cause=str(error)) from error
    if not data or len(data) > 255:
        raise ConversionFailure(
            f"header name {name[:40]!r} has {len(data)} bytes",
            cause="AMQP names have 1 to 255 bytes of UTF-8",
            cure="change the name in a transformation",
        )
    return bytes((len(data),)) + data
