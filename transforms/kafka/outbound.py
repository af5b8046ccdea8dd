"""A canonical message as a Kafka record; see :mod:`mgw.transforms.kafka` for the map."""

from __future__ import annotations

from typing import Final

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.header_table import FIELDS_CONTENT_TYPE, clean_text, is_clean
from mgw.transforms.kafka.common import (
    ANY_TIME,
    FOREIGN,
    KEY,
    NULL,
    OFFSET,
    PARTITION,
    PREFIX_LENGTH,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC,
    KeyFrom,
    Record,
    Rules,
    Window,
)
from mgw.transforms.kafka.properties import property_headers, wrong_type
from mgw.transforms.kafka.table import AMQP_TIMESTAMP
from mgw.transforms.kafka.types import (
    LETTERS,
    MESSAGE_ID,
    ORIGINAL_TIMESTAMP,
    RESERVED,
    TYPES,
    reserved_bytes,
    to_bytes,
    types,
)
from mgw.transforms.kafka.wire import wire_of, wires
from mgw.transforms.message import Header, HeaderValue, Message, ValueType, check_headers
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = ["to_record"]

_OWN: Final = "MGW_KAFKA_"
_HOP: Final = frozenset((TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE))
_NO_HOP: Final[frozenset[str]] = frozenset()
_ORIGIN: Final = frozenset((TOPIC, OFFSET, TIMESTAMP_TYPE))  # where a record came from; nothing to send
_TEXT, _RAW, _LONG = ValueType.TEXT, ValueType.RAW, ValueType.LONG


class _Draft:
    """A record in the making."""

    __slots__ = ("explicit", "headers", "key", "lent", "marks", "original", "partition", "timestamp")

    def __init__(self) -> None:
        self.headers: list[tuple[str, bytes]] = []
        self.marks: list[tuple[str, str]] = []  # (name, letter) of each header; no letter = as its reserved name says
        self.explicit: list[str] = []
        self.key: bytes | None = None
        self.partition: int | None = None
        self.timestamp: int | None = None
        self.original: int | None = None
        self.lent = False  # the timestamp is one of another broker

    def add_all(self, headers: tuple[Header, ...], rules: Rules) -> None:
        """The header array."""
        add = self.add if rules.documented else self.add_application
        times: list[HeaderValue] = []  # of another broker
        hop = _HOP if rules.original and not rules.again else _NO_HOP
        for name, kind, value in headers:
            if name in hop:
                add(name, kind, value)
            elif name.startswith(_OWN):
                self.add_own(name, kind, value, rules)
            elif name == AMQP_TIMESTAMP and not (rules.documented or rules.original):
                if not times and _is_time(kind, value):
                    times.append(value)
                else:
                    add(name, kind, value)
            else:
                add(name, kind, value)
        if times and self.timestamp is None and self.original is None:
            self.timestamp, self.lent = int(times[0]) * 1000, True
        elif times:
            add(AMQP_TIMESTAMP, ValueType.DATE, times[0])

    def add_properties(self, found: list[tuple[str, bytes]]) -> None:
        """Properties as headers, where no header says it already."""
        for name, text in found:
            if name not in self.explicit:
                self.headers.append((name, text))
                self.marks.append((name, ""))

    def add(self, name: str, kind: ValueType, value: HeaderValue) -> None:
        """One header of the header array that is not of the ``MGW_KAFKA_`` family."""
        if name == TYPES:
            raise ConversionFailure(
                f"header {TYPES} cannot be sent",
                cause="the gateway writes the types of the other headers into it",
                cure="rename it in a transformation",
            )
        self.explicit.append(name)
        known = RESERVED.get(name) is kind
        self.headers.append((name, reserved_bytes(value) if known else to_bytes(value)))
        self.marks.append((name, "" if known else LETTERS[kind]))

    def add_application(self, name: str, kind: ValueType, value: HeaderValue) -> None:
        """One header under the name that an application gave it, with a letter where the value does not tell it all."""
        wire, told, found, odd = wires.get((name, kind)) or wire_of(name, kind)
        if odd and self.add_odd(name, kind, value, wire, odd):
            return
        self.explicit.append(wire)
        if kind is _TEXT:
            data: bytes = value.encode()  # type: ignore[union-attr]
            plain = value.isprintable() or is_clean(value)  # type: ignore[union-attr, arg-type]
        else:
            data = to_bytes(value)
            plain = found is not None and clean_text(data) is None
        self.headers.append((wire, data))
        self.marks.append(found if plain and found is not None else told)

    def add_odd(self, name: str, kind: ValueType, value: HeaderValue, wire: str, odd: str) -> bool:
        """One header of a name and type of which some values are not as others; whether it was such a value."""
        if odd == "reserved":
            self.add(name, kind, value)
        elif odd in ("n", "N") and value == "null":
            self.headers.append((wire, b""))
            self.marks.append((wire, odd))
        elif odd == "renamed" and value == FIELDS_CONTENT_TYPE:  # no other broker has that form
            self.explicit.append(name)
            self.headers.append((name, to_bytes(value)))
            self.marks.append((name, LETTERS[kind]))
        else:
            return False
        return True

    def stamp(self, enqueue_time: float | None, window: Window | None) -> int | None:
        """The timestamp, and where it cannot be the right one, the header that keeps that."""
        wanted = self.timestamp if self.original is None else self.original
        if wanted is None and enqueue_time is not None:
            wanted = int(enqueue_time * 1000)
        if wanted is None:
            return None
        earliest, latest = ANY_TIME if window is None else window
        sent = min(max(wanted, earliest), latest)
        if wanted != sent or (window is None and (self.lent or self.original is not None)):
            self.headers.append((ORIGINAL_TIMESTAMP, b"%d" % wanted))
            self.marks.append((ORIGINAL_TIMESTAMP, ""))
        return sent

    def add_own(self, name: str, kind: ValueType, value: HeaderValue, rules: Rules) -> None:
        """One header of the ``MGW_KAFKA_`` family."""
        if name.startswith(FOREIGN):
            if not rules.documented:
                self.add_application(name, kind, value)
                return
            wire = name[PREFIX_LENGTH:]
            letter = LETTERS[kind].lower()
            self.headers.append((wire, to_bytes(value)))
            self.marks.append((wire, "=r" if kind is _RAW and wire not in RESERVED else letter))
        elif name.startswith(NULL):
            self.headers.append((name[PREFIX_LENGTH:], b""))
            self.marks.append((name[PREFIX_LENGTH:], "n"))
        elif name == KEY:
            self.key = _key(value)
        elif name == PARTITION:
            self.partition = _whole(name, value) if rules.take_partition else None
        elif name == TIMESTAMP:
            self.timestamp = _integer(name, value)
        elif name == ORIGINAL_TIMESTAMP and kind is _LONG and self.original is None:
            self.original = int(value)
        elif name not in _ORIGIN:
            (self.add if rules.documented else self.add_application)(name, kind, value)


_make: Final = tuple.__new__  # a named tuple without the cost of its constructor
_MAX_SECONDS: Final = 2**63 // 1000 - 1


def _is_time(kind: ValueType, value: HeaderValue) -> bool:
    """Whether it is a time of AMQP, of which a record can have the milliseconds."""
    return kind is ValueType.DATE and 0 <= value <= _MAX_SECONDS and value == int(value)  # type: ignore[operator]


def to_record(message: Message, rules: Rules, now: float, window: Window | None = ANY_TIME) -> Record:
    """The record of a message.

    Args:
        now: epoch seconds, for the time left until the message expires.
        window: the timestamps that the topic takes. One outside becomes the nearest that it takes, and the header
            ``MGW_KAFKA_originalTimestamp`` keeps it. None: the topic writes its own (LogAppendTime), so any will do.

    Raises:
        ConversionFailure: a header too large or a reserved one of the wrong type, text that UTF-8 cannot hold.
    """
    try:
        return _plain_record(message, rules, window) or _to_record(message, rules, now, window)
    except UnicodeEncodeError as error:
        raise ConversionFailure(
            "text of the message cannot be written as UTF-8",
            cause=f"{error.object[error.start : error.end]!r} is an incomplete character",
            cure="send it as raw",
        ) from error


def _plain_record(message: Message, rules: Rules, window: Window | None) -> Record | None:
    """The record of a message of bytes or text, which is what :func:`_to_record` makes of it; None for others.

    Most messages of a hub are such, and nothing needs to be looked at closely. What headers become is worked out once
    for all messages that share them.
    """
    body, correlation, msgid, enqueued = message.body, message.correlation, message.msgid, message.enqueue_time
    if (
        rules.properties
        or msgid is None
        or enqueued is None
        or (correlation is not None and rules.key is not KeyFrom.CORRELATION)
    ):
        return None
    if type(body) is not bytes:
        if type(body) is not str:
            return None
        body = body.encode()
    headers = [(MESSAGE_ID, msgid)]
    timestamp = int(enqueued * 1000)
    key = correlation.encode() if correlation is not None else _default_key(message, rules.key)
    partition = None
    if message.headers:
        draft = _shared_draft(message.headers, rules)
        if draft is None or (correlation is not None and draft.key is not None):
            return None
        headers += draft.headers
        partition = draft.partition
        if draft.key is not None:
            key = draft.key
        if draft.timestamp is not None:
            if draft.lent and window is None:  # the topic writes another
                return None
            timestamp = draft.timestamp
    earliest, latest = ANY_TIME if window is None else window
    if not earliest <= timestamp <= latest:
        return None
    return _make(Record, (body, key, headers, partition, timestamp))


#: What header arrays became, by their identity and the rules that count; the array is kept, so that it stays its own.
_drafts: dict[tuple[int, bool, bool], tuple[tuple[Header, ...], _Draft | None]] = {}
_SHARED: Final = 256  # arrays


def _shared_draft(array: tuple[Header, ...], rules: Rules) -> _Draft | None:
    """What an array of headers becomes, with the header of types; None where :func:`_to_record` has to look at it."""
    if rules.original or array.__class__ is not tuple:
        return None
    place = (id(array), rules.take_partition, rules.documented)
    known = _drafts.get(place)
    if known is None or known[0] is not array:
        known = (array, _drafted(array, rules))
        if len(_drafts) >= _SHARED:
            _drafts.clear()
        _drafts[place] = known
    return known[1]


def _drafted(array: tuple[Header, ...], rules: Rules) -> _Draft | None:
    draft = _Draft()
    try:
        _check(array, rules)
        draft.add_all(array, rules)
    except (ConversionFailure, UnicodeEncodeError):
        return None
    if draft.original is not None:  # more is to be said of the time
        return None
    table = types(((MESSAGE_ID, ""), *draft.marks))
    if table:
        draft.headers.append((TYPES, table))
    return draft


def _to_record(message: Message, rules: Rules, now: float, window: Window | None) -> Record:
    draft = _Draft()
    headers, marks = draft.headers, draft.marks
    if message.msgid is not None:
        headers.append((MESSAGE_ID, message.msgid))
        marks.append((MESSAGE_ID, ""))
    if message.headers:
        _check(message.headers, rules)
        draft.add_all(message.headers, rules)
    key, correlation = draft.key, message.correlation
    if key is None:
        key = _default_key(message, rules.key)
    if correlation is not None and rules.key is KeyFrom.CORRELATION and key == correlation.encode():
        correlation = None
    if rules.properties or correlation is not None:
        draft.add_properties(_properties(message, correlation, rules, now))
    timestamp = draft.stamp(message.enqueue_time, window)
    value = _value(message)
    if value is None and key is None:
        value = b""
        marks.append((TYPES, "n"))
    table = types(tuple(marks)) if marks else b""
    if table:
        headers.append((TYPES, table))
    return Record(value, key, headers, draft.partition, timestamp)


def _check(headers: tuple[Header, ...], rules: Rules) -> None:
    if not rules.original:
        check_headers(headers)


def _properties(message: Message, correlation: str | None, rules: Rules, now: float) -> list[tuple[str, bytes]]:
    found = property_headers(message, correlation, now, all_of_them=rules.properties)
    if rules.original:  # without what the original did not say
        found = [each for each in found if each != ("MGW_AQ_priority", b"1")]
    return found


def _default_key(message: Message, source: KeyFrom) -> bytes | None:
    if source is KeyFrom.CORRELATION and message.correlation is not None:
        return message.correlation.encode()
    return message.msgid if source is KeyFrom.MSGID else None


def _value(message: Message) -> bytes | None:
    body = message.body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (ObjectValue, AnyData)):
        plain = plain_body(body)
        return plain.encode() if isinstance(plain, str) else plain
    if isinstance(body, tuple):
        from mgw.transforms.payloads.fields import fields_to_json  # rare: only messages made of fields

        return fields_to_json(body)[0].encode()
    return body


def _key(value: HeaderValue) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise wrong_type(KEY, value, "raw or text")


def _integer(name: str, value: HeaderValue) -> int:
    if type(value) is int:
        return value
    raise wrong_type(name, value, "a whole number")


def _whole(name: str, value: HeaderValue) -> int:
    if type(value) is int and value >= 0:
        return value
    raise wrong_type(name, value, "a whole number, 0 or larger")
