"""Which columns a data frame may have that is written to a queue, and where they are in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import types

from mgw.pipelines.source.columns import HEADERS, NAMES
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["WRITTEN", "Layout", "Written", "layout_of"]


def _text(kind: DataType) -> bool:
    return isinstance(kind, (types.StringType, types.CharType, types.VarcharType))


def _binary(kind: DataType) -> bool:
    return isinstance(kind, types.BinaryType)


def _whole(kind: DataType) -> bool:
    return isinstance(kind, types.IntegralType)


def _seconds(kind: DataType) -> bool:
    return isinstance(kind, types.NumericType)


def _headers(kind: DataType) -> bool:
    if not isinstance(kind, types.ArrayType) or not isinstance(kind.elementType, types.StructType):
        return False
    fields = kind.elementType.fields
    return [each.name.lower() for each in fields] == ["name", "type", "value"] and all(
        _text(each.dataType) for each in fields
    )


class Written(NamedTuple):
    """A column that a row may have: its type, and what it means for the message."""

    type: str  # as Spark's DDL writes it
    meaning: str
    fits: Callable[[DataType], bool]


WRITTEN: Final[Mapping[str, Written]] = {
    "body": Written("BINARY", "the body as bytes; with `body_type` as it was read", _binary),
    "text": Written("STRING", "the body as text; for JSON, FIELDS and OBJECT queues JSON text", _text),
    "body_type": Written("STRING", "NONE, RAW, TEXT, FIELDS or VALUE; NULL: as the queue needs it", _text),
    "type_name": Written("STRING", "type of the value in an ANYDATA queue: NUMBER, OE.ADDRESS", _text),
    "kind": Written("STRING", "canonical payload type; default: the one of the queue", _text),
    "headers": Written(HEADERS, "header array; `type` NULL is TEXT, RAW values are base64", _headers),
    "priority": Written("BIGINT", "smaller is more important; default 1", _whole),
    "correlation": Written("STRING", "correlation identifier, at most 128 characters", _text),
    "delay": Written("DOUBLE", "seconds until the message is ready", _seconds),
    "expiration": Written("DOUBLE", "seconds of availability once it is ready; NULL: forever", _seconds),
    "exception_queue": Written("STRING", "where it goes when it cannot be consumed", _text),
    "sender_name": Written("STRING", "agent that sends it; a secure queue needs one", _text),
    "sender_address": Written("STRING", "queue it was last propagated from", _text),
    "sender_protocol": Written("INT", "protocol of that address; 0 is a queue", _whole),
    "user_property": Written("STRING", "additional information about the body", _text),
    "original_msgid": Written("BINARY", "its previous id; ignored where a `user` writes", _binary),
}

#: Columns that a read has and a write ignores: the hub sets them itself.
IGNORED: Final = frozenset(NAMES) - WRITTEN.keys()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the columns are that count: position by name."""

    places: Mapping[str, int]


def layout_of(schema: StructType, *, removing: bool = False) -> Layout:
    """The layout of rows with this schema; names compare case-insensitively, as in Spark.

    Args:
        removing: messages are removed from an exception queue, so the rows must say which.

    Raises:
        ConfigInvalid: a column that no message has, one of another type, one twice, or no body.
    """
    places: dict[str, int] = {}
    seen: set[str] = set()
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name in seen:
            raise _invalid(f"column {field.name!r} occurs twice", "names compare case-insensitively", "rename one")
        seen.add(name)
        wanted = WRITTEN.get(name)
        if wanted is None and name not in IGNORED:
            raise _invalid(
                f"column {field.name!r} cannot be written to a queue",
                "a message has no such property",
                f"drop it, or put it into headers or body; there are {', '.join(WRITTEN)}",
            )
        if wanted is not None:
            if not wanted.fits(field.dataType) and not isinstance(field.dataType, types.NullType):
                raise _invalid(
                    f"column {field.name!r} is of type {field.dataType.simpleString()}",
                    f"a message needs {wanted.type}",
                    f"cast it: CAST({field.name} AS {wanted.type})",
                )
            places[name] = place
        elif name == "msgid" and removing:
            places[name] = place
    if not seen & {"body", "text"}:
        raise _invalid(
            "the rows have neither a column 'body' nor 'text'",
            "a message would have no body",
            "name the column for the body: SELECT ... AS text, or to_json(struct(*)) AS text",
        )
    if removing and "msgid" not in places:
        raise _invalid(
            "the rows have no column 'msgid'",
            "option 'removeFrom' removes the messages from which the rows were read",
            "keep the column msgid of the rows that were read",
        )
    return Layout(places)


def _invalid(what: str, cause: str, cure: str) -> ConfigInvalid:
    return ConfigInvalid(what, cause=cause, cure=cure)
