"""Rows of a data frame as canonical messages, and header values as text and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mgw.gateway.aq import SCALARS, PayloadType, QueueRef, canonical_type, wrap
from mgw.pipelines.sink.layout import Layout
from mgw.transforms.errors import GatewayError
from mgw.transforms.message import Header, Message, PayloadKind, ValueType, check_headers, decode_headers, new_message
from mgw.transforms.objects import AnyData, ObjectValue
from mgw.transforms.payloads.convert import to_payload
from mgw.transforms.payloads.json_text import parse_exact
from mgw.transforms.payloads.sql_types import Misfit, ObjectType, SqlType, load_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Made", "Maker", "RowRefused", "header_value"]


class RowRefused(GatewayError):
    """A row that cannot become a message of the queue: nothing of its batch is published."""


class Made(NamedTuple):
    """A message, and the id of the message its row was read from, where that one is to be removed."""

    message: Message
    source: bytes | None


_RANGES: Final = {ValueType.BYTE: 7, ValueType.SHORT: 15, ValueType.INTEGER: 31, ValueType.LONG: 63}
_UNSIGNED: Final = {ValueType.UBYTE: 8, ValueType.USHORT: 16, ValueType.UINT: 32}


def _whole(kind: ValueType) -> Callable[[str], int]:
    limit = 1 << (_RANGES | _UNSIGNED)[kind]
    least = 0 if kind in _UNSIGNED else -limit

    def read(text: str) -> int:
        number = int(text)
        if not least <= number < limit:
            raise ValueError(f"{text[:40]} is beyond {kind.name}")
        return number

    return read


def _boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return lower == "true"


def _raw(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_READERS: Final[Mapping[str, tuple[ValueType, Callable[[str], Any]]]] = {
    ValueType.TEXT.name: (ValueType.TEXT, str),
    ValueType.RAW.name: (ValueType.RAW, _raw),
    ValueType.BOOLEAN.name: (ValueType.BOOLEAN, _boolean),
    **{kind.name: (kind, _whole(kind)) for kind in (*_RANGES, *_UNSIGNED)},
    **{kind.name: (kind, str) for kind in (ValueType.JSON, ValueType.DECIMAL)},
    **{kind.name: (kind, float) for kind in (ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE)},
}


def header_value(name: str | None, kind: str | None, value: str | None) -> Header:
    """A header from its three texts.

    Raises:
        ValueError: no name, no value, an unknown type, or a value that is none of the type.
    """
    reader = _READERS.get(kind or ValueType.TEXT.name)
    if name is None or value is None:
        raise ValueError("it has no name" if name is None else f"header {name[:40]!r} has no value")
    if reader is None:
        raise ValueError(f"header {name[:40]!r} has type {kind!r}; there are {', '.join(_READERS)}")
    try:
        return Header(name, reader[0], reader[1](value))
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"header {name[:40]!r}: {error}") from None


_NATIVE: Final[Mapping[PayloadType, tuple[type, ...]]] = {
    PayloadType.RAW: (bytes,),
    PayloadType.BASIC: (bytes, str),
    PayloadType.FIELDS: (tuple,),
    PayloadType.TEXT: (str,),
    PayloadType.JSON: (str,),
    PayloadType.XMLTYPE: (str,),
    PayloadType.OBJECT: (ObjectValue, dict),
    PayloadType.ANYDATA: (AnyData,),
}
_KINDS: Final = {
    PayloadType.RAW: PayloadKind.RAW,
    PayloadType.FIELDS: PayloadKind.FIELDS,
    PayloadType.OBJECT: PayloadKind.OBJECT,
    PayloadType.ANYDATA: PayloadKind.ANYDATA,
}


_PLAIN: Final = frozenset((PayloadKind.RAW, PayloadKind.BASIC))
_Texts = tuple[Sequence[str | None], Sequence[str | None], Sequence[str | None]]  # names, types, values


class Maker:
    """Makes messages for one queue out of record batches.

    Args:
        queue: where they go.
        layout: where the columns are.
        declared: type of the objects, where the queue holds objects.
        type_of: the object type of a name, for ANYDATA; None where there is none.
        system: the writer may say which messages these were before.
    """

    def __init__(
        self,
        queue: QueueRef,
        layout: Layout,
        declared: ObjectType | None,
        type_of: Callable[[str], SqlType | None],
        *,
        system: bool,
    ) -> None:
        self._queue = queue
        self._places = layout.places
        self._declared = declared
        self._type_of = type_of
        self._system = system
        self._native = _NATIVE[queue.payload_type]
        self._kind = _KINDS.get(queue.payload_type, PayloadKind.BASIC)

    def messages(self, batch: pa.RecordBatch, first: int) -> Iterator[Made]:
        """The messages of the rows, in order; ``first`` is the number of the first row in its partition, from 0.

        Raises:
            RowRefused: a row that can be no message.
        """
        columns = (
            self._column(batch, "body"),
            self._column(batch, "text"),
            self._column(batch, "body_type"),
            self._column(batch, "type_name"),
            self._column(batch, "kind"),
            self._headers(batch),
            self._column(batch, "priority"),
            self._column(batch, "correlation"),
            self._column(batch, "delay"),
            self._column(batch, "expiration"),
            self._column(batch, "exception_queue"),
            self._column(batch, "sender_name"),
            self._column(batch, "sender_address"),
            self._column(batch, "sender_protocol"),
            self._column(batch, "user_property"),
            self._column(batch, "original_msgid") if self._system else repeat(None),
            self._column(batch, "msgid"),
        )
        row = -1
        try:
            for row, values in zip(range(batch.num_rows), zip(*columns, strict=False), strict=False):  # noqa: B007
                yield self._message(*values)
        except GatewayError as error:
            raise _refused(first + row, "; ".join(filter(None, (error.what, error.cause))), error.cure) from None
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise _refused(first + row, str(error)[:300] or type(error).__name__) from None

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:
        place = self._places.get(name)
        if place is None:
            return repeat(None)
        column = batch.column(place)
        return repeat(None) if column.null_count == batch.num_rows else column.to_pylist()

    def _headers(self, batch: pa.RecordBatch) -> Any:
        place = self._places.get("headers")
        if place is None or batch.column(place).null_count == batch.num_rows:
            return repeat(None)
        return _header_arrays(batch.column(place))

    def _message(  # noqa: PLR0917
        self,
        body: bytes | None,
        text: str | None,
        body_type: str | None,
        type_name: str | None,
        kind: str | None,
        headers: _Texts | None,
        priority: int | None,
        correlation: str | None,
        delay: Any,
        expiration: Any,
        exception_queue: str | None,
        sender_name: str | None,
        sender_address: str | None,
        sender_protocol: int | None,
        user_property: str | None,
        original: bytes | None,
        source: bytes | None,
    ) -> Made:
        made = _made_headers(*headers) if headers else ()
        if original is not None and len(original) != 16:
            raise ValueError(f"original_msgid has {len(original)} bytes, a message id has 16")
        value = self._body(body, text, body_type, type_name)
        message = new_message(
            value,
            made,
            self._kind if kind is None else self._kind_of(PayloadKind(kind)),
            1 if priority is None else priority,
            correlation,
            0 if delay is None else float(delay),
            None if expiration is None else float(expiration),
            None,
            None,
            None,
            0,
            exception_queue,
            sender_name,
            sender_address,
            original,
            user_property,
            sender_protocol or 0,
        )
        if value is not None and type(value) not in self._native:
            message = to_payload(message, self._queue.payload_type.value, declared=self._declared)
        return Made(message, source)

    def _kind_of(self, kind: PayloadKind) -> PayloadKind:
        """What was read from a queue of another payload type is not of that kind here."""
        return kind if kind in _PLAIN and self._kind in _PLAIN else self._kind

    def _body(self, body: bytes | None, text: str | None, body_type: str | None, type_name: str | None) -> Any:
        if body_type == "NONE":
            if body is not None or text is not None:
                raise ValueError("body_type says NONE, but there is a body: drop the column body_type")
            return None
        if body is not None and text is not None and text.encode() != body:
            raise ValueError("its body and its text differ: drop the one that is not meant (and body_type)")
        if body is None and text is None:
            if body_type is not None:
                raise ValueError(f"body_type says {body_type}, but there is neither body nor text")
            return None
        if type_name is not None and self._queue.payload_type is PayloadType.ANYDATA:
            return self._any(type_name, text if text is not None else body or b"", body_type)
        if body_type is None:
            return body if text is None else text
        return self._typed(body, text, body_type)

    def _typed(self, body: bytes | None, text: str | None, body_type: str) -> Any:
        if body_type == "RAW":
            if body is None:
                raise ValueError("body_type says RAW, but there is only text: drop the column body_type")
            return body
        if text is None:
            text = (body or b"").decode()
        if body_type == "TEXT":
            return text
        if body_type == "FIELDS":
            return decode_headers(text) if text != "[]" else ()
        if body_type != "VALUE":
            raise ValueError(f"body_type says {body_type!r}; there are NONE, RAW, TEXT, FIELDS, VALUE")
        if self._declared is not None:
            return load_text(self._declared, text)
        if self._queue.payload_type is PayloadType.ANYDATA:
            raise ValueError("the type of its value is not known: give it in a column type_name, and drop body_type")
        return text

    def _any(self, type_name: str, value: str | bytes, body_type: str | None) -> AnyData:
        name = canonical_type(type_name)
        if body_type == "VALUE":
            declared = SCALARS[name].type if name in SCALARS else self._type_of(name)
            if declared is None:
                raise ValueError(f"there is no type {name}")
            return AnyData(name, load_text(declared, value))
        if name in SCALARS:
            return wrap(value, name)
        try:
            return AnyData(name, parse_exact(value))
        except Misfit as problem:
            raise ValueError(problem.cause) from None


def _header_arrays(column: pa.ListArray) -> Iterator[_Texts | None]:
    """Header arrays, row by row, from the flat arrays below the column: a dictionary per header would cost too much."""
    lengths: Sequence[int | None] = column.value_lengths().to_pylist()
    names, kinds, values = (each.to_pylist() for each in column.flatten().flatten())
    start = 0
    for length in lengths:
        end = start + (length or 0)
        yield (names[start:end], kinds[start:end], values[start:end]) if length else None
        start = end


def _made_headers(
    names: Sequence[str | None], kinds: Sequence[str | None], values: Sequence[str | None]
) -> tuple[Header, ...]:
    headers = tuple(map(header_value, names, kinds, values))
    check_headers(headers)
    return headers


def _refused(row: int, cause: str, cure: str = "") -> RowRefused:
    return RowRefused(
        f"row {row} of its partition cannot become a message of the queue",
        cause=cause,
        cure=cure or "correct the row; none of the batch was published",
    )
