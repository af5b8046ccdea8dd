"""What the messages of a queue may hold, and its form in storage (AQ guide 12.2 §2.2, §22.1).

Text, bytes and fields are stored by :mod:`mgw.gateway.aq.queues.codec` as they are. Objects and ANYDATA are JSON text
of a declared type: member names in upper case, numbers as they are written, times in ISO 8601, RAW hexadecimal, BLOB
base64. The definition is in ``aq_type``; every message refers to the one it was stored with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.errors import PayloadRefused, PayloadTypeUnknown
from mgw.gateway.aq.model import PayloadType, QueueRef
from mgw.gateway.aq.names import qualified
from mgw.gateway.aq.payloads import types_sql
from mgw.gateway.aq.payloads.anydata import SCALARS
from mgw.gateway.aq.payloads.type_cache import TypeCache
from mgw.gateway.aq.payloads.types_sql import TypeRecord
from mgw.gateway.aq.store.columns import STORED
from mgw.gateway.aq.store.statements import Db, Row
from mgw.transforms.errors import AqError, HubError
from mgw.transforms.message import Message, PayloadKind
from mgw.transforms.objects import AnyData
from mgw.transforms.payloads.jms import JMS_ANY, JMS_NAMES
from mgw.transforms.payloads.json_text import parse_json
from mgw.transforms.payloads.sql_types import Misfit, NamedType, ObjectType, SqlType, dump_text, load_text
from mgw.transforms.payloads.xml_text import check_xml

__all__ = [
    "OTHER_NAMES",
    "TYPED",
    "Encoded",
    "Payload",
    "as_stored",
    "check_text",
    "definition",
    "encoded",
    "jms_type",
    "jms_type_of",
    "learn",
    "object_type_of",
    "own_kind",
    "payload_of",
    "refused",
    "stored_value",
]

_TYPE_ID = STORED.at("type_id")

#: Payload types whose messages refer to a declared type.
TYPED = frozenset((PayloadType.OBJECT, PayloadType.ANYDATA))
#: Other names of payload types of the hub's own.
OTHER_NAMES = {
    "SYS.XMLTYPE": PayloadType.XMLTYPE,
    "SYS.ANYDATA": PayloadType.ANYDATA,
    "LONG VARCHAR": PayloadType.TEXT,
    "SYS.MGW_BASIC_MSG_T": PayloadType.BASIC,
    "MGW_BASIC_MSG_T": PayloadType.BASIC,
    "SYS.MGW_TIBRV_MSG_T": PayloadType.FIELDS,
    "MGW_TIBRV_MSG_T": PayloadType.FIELDS,
}
_LOBS = ("CLOB", "BLOB")
_MAX_KNOWN = 10_000

_known = TypeCache({scalar.code: scalar.type for scalar in SCALARS.values()}, _MAX_KNOWN)
_NAMES = {scalar.code: name for name, scalar in SCALARS.items()}


# -- payload types of queue tables -------------------------------------------------------------------------------------


class Payload(NamedTuple):
    """A payload type as a queue table or a transformation names it; ``object_type`` for OBJECT only.

    ``jms``: the JMS payload type; messages of such queues are ANYDATA of that type, or of any JMS type.
    """

    kind: PayloadType
    object_type: TypeRecord | None = None
    jms: str | None = None

    @property
    def name(self) -> str:
        """``RAW``, ``ANYDATA``..., ``SCHEMA.NAME`` of the object type, or the JMS type."""
        return self.declared or self.kind.value

    @property
    def declared(self) -> str | None:
        """Name of the type that the payload type is narrowed to; None where it is one of the hub's own."""
        return self.jms if self.object_type is None else self.object_type.type.text

    @property
    def type_id(self) -> int | None:
        """Of the declared type."""
        if self.jms is not None:
            return SCALARS[self.jms].code if self.jms in SCALARS else JMS_ANY_CODE
        return self.object_type and self.object_type.id


#: Stands for the payload type that takes every JMS message; no message has it.
JMS_ANY_CODE = -26


def jms_type(text: str) -> str | None:
    """The JMS payload type called ``text``; None for all else."""
    plain = " ".join(text.split()).upper()
    return next((name for name in (plain, f"SYS.{plain}") if name in JMS_NAMES), None)


def jms_type_of(queue: QueueRef) -> str | None:
    """The JMS payload type of a queue; None where it has another."""
    return queue.object_type if queue.payload_type is PayloadType.ANYDATA else None


def own_kind(text: str) -> PayloadType | None:
    """The payload type of the hub's own called ``text``, also by its other names; None for all else."""
    plain = " ".join(text.split()).upper()
    kind = OTHER_NAMES.get(plain)
    if kind is None and plain in PayloadType.__members__ and plain != PayloadType.OBJECT:
        kind = PayloadType[plain]
    return kind


def payload_of(db: Db, text: str, schema: str, what: str) -> Payload:
    """The payload type called ``text``: one of the hub's own, or an object type.

    Args:
        what: whose payload type it is, for the error.

    Raises:
        AqError: 24015 there is no such type.
    """
    kind = own_kind(str(text))
    if kind is not None:
        return Payload(kind)
    if (jms := jms_type(str(text))) is not None:
        return Payload(PayloadType.ANYDATA, None, jms)
    own = ", ".join(member.value for member in PayloadType if member is not PayloadType.OBJECT)
    try:
        found = types_sql.find_type(db, qualified(str(text), schema, what="type").key)
    except AqError:
        found = None
    if found is None:
        raise PayloadTypeUnknown(
            f"payload type of {what} is {text!r}",
            cause=f"allowed are {own}, JMS types and object types, and there is no object type of that name",
            cure="create the type first: create_type",
        )
    if not isinstance(found.type, ObjectType):
        raise PayloadTypeUnknown(
            f"payload type of {what} is {text!r}",
            cause="a VARRAY can only be part of a payload inside an object",
            cure="create an object type with an attribute of that type",
        )
    return Payload(PayloadType.OBJECT, found)


# -- definitions -------------------------------------------------------------------------------------------------------


def definition(db: Db, type_id: int) -> SqlType:
    """The type with this id; ids never change their meaning, so it is read once per process."""
    _load(db, (type_id,))
    return _of(type_id)


def object_type_of(conn: sa.Connection, queue: QueueRef) -> ObjectType | None:
    """The object type of a queue's messages; None where they are not objects."""
    if queue.type_id is None or queue.type_id < 0:
        return None
    declared = definition(Db(conn), queue.type_id)
    return declared if isinstance(declared, ObjectType) else None


def learn(db: Db, rows: Iterable[Row]) -> None:
    """Have the types of stored messages at hand before they are decoded."""
    _load(db, {row[_TYPE_ID] for row in rows})


def _load(db: Db, ids: Iterable[int | None]) -> None:
    missing = _known.missing(each for each in ids if each is not None)
    if missing:
        _known.add(types_sql.types_by_id(db, missing))


def _of(type_id: int) -> SqlType:
    found = _known.get(type_id)
    if found is None:
        raise HubError(
            f"the hub has no type {type_id}",
            cause="a message refers to a type whose definition is missing",
            cure="restore the hub's table aq_type",
        )
    return found


# -- enqueue -----------------------------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """A body of a declared type as it is stored."""

    body: bytes | None
    kind: str
    type_id: int | None
    type_name: str | None  # of ANYDATA only
    value: Any = None  # as a consumer will see it


def refused(queue: QueueRef, index: int, cause: str, cure: str) -> PayloadRefused:
    """The refusal of a payload."""
    return PayloadRefused(f"message {index} does not fit queue {queue.full_name}", index=index, cause=cause, cure=cure)


def check_text(queue: QueueRef, index: int, text: str) -> None:
    """Refuse text that is not JSON in a JSON queue, or XML that is not well-formed in an XMLTYPE queue.

    Raises:
        MessageRefused: 25215.
    """
    try:
        if queue.payload_type is PayloadType.JSON:
            parse_json(text)
        else:
            check_xml(text)
    except ValueError as error:
        what, cure = "JSON text", "send JSON (NaN and Infinity are not)"
        if queue.payload_type is PayloadType.XMLTYPE:
            what, cure = "well-formed XML", "send one XML document without DOCTYPE"
        raise refused(queue, index, f"its body is not {what}: {str(error)[:300]}", cure) from None


def encoded(db: Db, queue: QueueRef, messages: Sequence[Message]) -> list[Encoded]:
    """The bodies of messages for a queue of objects or ANYDATA, checked against their types.

    Raises:
        MessageRefused: 25215; the cause names the attribute.
    """
    if queue.payload_type is PayloadType.OBJECT:
        declared = definition(db, queue.type_id or 0)
        return [_object(queue, index, message, declared) for index, message in enumerate(messages)]
    names = {each.body.type_name.upper() for each in messages if isinstance(each.body, AnyData)}
    found = types_sql.find_types(db, sorted(name for name in names if name not in SCALARS))
    _known.add({record.id: record.type for record in found.values()})
    return [_any(queue, index, message, found) for index, message in enumerate(messages)]


def _object(queue: QueueRef, index: int, message: Message, declared: SqlType) -> Encoded:
    body = message.body
    if body is None:
        return Encoded(None, PayloadKind.OBJECT.value, queue.type_id, None)
    value, text = _fitted(queue, index, declared, body)
    return Encoded(text, PayloadKind.OBJECT.value, queue.type_id, None, value)


def _any(queue: QueueRef, index: int, message: Message, found: Mapping[str, TypeRecord]) -> Encoded:
    body = message.body
    kind = PayloadKind.ANYDATA.value
    if body is None:
        return Encoded(None, kind, None, None)
    if not isinstance(body, AnyData):
        what = "an object" if isinstance(body, Mapping) else f"of Python type {type(body).__name__}"
        raise refused(queue, index, f"its body is {what}, the queue holds ANYDATA", "wrap it: anydata.wrap(value)")
    name = body.type_name.upper()
    scalar = SCALARS.get(name)
    wanted = jms_type_of(queue)
    if wanted is not None and name != wanted and (wanted != JMS_ANY or name not in JMS_NAMES):
        raise refused(
            queue, index, f"its type is {name}, the queue holds {wanted}", f"wrap it: wrap(value, {wanted!r})"
        )
    if scalar is not None:
        if scalar.jms and not queue.jms_types:
            raise refused(
                queue,
                index,
                f"its type {name} is a JMS or XML type, which queue table {queue.queue_table} does not accept",
                "call enable_jms_types for the queue table",
            )
        value, text = _fitted(queue, index, scalar.type, body.value)
        return Encoded(text, kind, scalar.code, name, AnyData(name, value))
    record = found.get(name)
    if record is None:
        raise refused(queue, index, f"there is no type {name}", "create it: create_type, or correct the name")
    _check_wrapped(queue, index, record.type)
    value, text = _fitted(queue, index, record.type, body.value)
    return Encoded(text, kind, record.id, name, AnyData(name, value))


def as_stored(messages: Sequence[Message], values: Sequence[Encoded]) -> list[Message]:
    """The messages with their bodies as a consumer will see them: what rules look at."""
    return [
        replace(message, body=value.value, kind=PayloadKind(value.kind))
        for message, value in zip(messages, values, strict=True)
    ]


def _check_wrapped(queue: QueueRef, index: int, declared: NamedType) -> None:
    """Large objects may be wrapped alone, not inside an object (AQ guide 12.2 §22.1.1)."""
    kinds = {part.kind for part in declared.parts()}
    inside = sorted(kinds.intersection((*_LOBS, "NCLOB")))
    if inside:
        raise refused(
            queue,
            index,
            f"type {declared.text} holds {inside[0]}, which cannot be wrapped inside an object",
            "use VARCHAR2 or RAW in the type, or wrap the large object alone (NCLOB: never)",
        )


def _fitted(queue: QueueRef, index: int, declared: SqlType, value: Any) -> tuple[Any, bytes]:
    try:
        fitted = None if value is None else declared.fit(value)
        return fitted, dump_text(declared, fitted).encode()
    except Misfit as problem:
        where = f"attribute {problem.path} of type {declared.text}: " if problem.path else ""
        raise refused(queue, index, f"{where}{problem.cause}", problem.cure) from None
    except RecursionError:
        raise refused(queue, index, "its body is nested too deeply", "send a flatter value") from None


# -- dequeue -----------------------------------------------------------------------------------------------------------


def stored_value(kind: PayloadKind, type_id: int, body: bytes) -> Any:
    """The body of a message of a declared type; :func:`learn` was called before."""
    declared = _of(type_id)
    value = load_text(declared, body)
    if kind is PayloadKind.ANYDATA:
        return AnyData(_NAMES.get(type_id) or declared.text, value)
    return value
