"""The PUBLISH of a message by a short way that leads to the same frame.

Most messages are bytes or text with an id and some headers of text, whole numbers or bytes. Their user properties are
written here in one pass: what depends on names and types of the headers is worked out once for all messages that have
the same, and an array that several messages share is written once. Everything else takes the long way, over
:func:`mgw.transforms.mqtt.outbound` and :func:`mgw.links.mqtt.codec.encode_publish`.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from mgw.links.mqtt.codec import MAX_REMAINING, Frame, user_property, varint
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_HEADER_NAME,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    Header,
    Message,
    ValueType,
)
from mgw.transforms.mqtt import Outbound
from mgw.transforms.mqtt.common import CONTENT, FIELDS_CONTENT_TYPE, NATIVE, RESPONSE, RETAIN, TOPIC
from mgw.transforms.mqtt.table import HOP, OTHERS
from mgw.transforms.mqtt.user_properties import property_of, types_of

__all__ = ["PlainFrames"]

_MANY: Final = 64  # headers; more take the long way
_REMEMBERED: Final = 4096  # lengths, combinations of headers
_SHARED: Final = 256  # arrays of headers
_ID_SIZE: Final = 16
_MESSAGE_ID: Final = "MGW_AQ_messageID"
_ID_START: Final = user_property(_MESSAGE_ID, "AQMSGID:" + "00" * _ID_SIZE)[: -2 * _ID_SIZE]
_LENGTHS: Final = tuple(length.to_bytes(2, "big") for length in range(max(MAX_HEADER_TEXT, 4 * MAX_HEADER_RAW) + 1))
_TEXT, _RAW, _BOOLEAN = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN
_WHOLE: Final = (
    *(ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG),
    *(ValueType.UBYTE, ValueType.USHORT, ValueType.UINT),
)
#: Types of headers that take the short way, and what their values are.
_HOLDS: Final[dict[ValueType, type]] = {_TEXT: str, _RAW: bytes, _BOOLEAN: bool, **dict.fromkeys(_WHOLE, int)}
_SENT, _RETAIN, _LEFT_OUT, _CONTENT, _RESPONSE = range(5)
#: Fields that other brokers' headers fill.
_FIELDS: Final = {CONTENT: _CONTENT, RESPONSE: _RESPONSE}
#: The payload format, of bytes and of text.
_FORMS: Final = b"\x01\x00", b"\x01\x01"


class _Step:
    """Names and types of some headers in order: what the last of them becomes, and what follows all of them.

    Attributes:
        kind: type of the last one; ``holds``: of its value.
        use: whether it is sent, tells whether the message is retained, is left out, or fills a field.
        start: its user property, up to the length of the value.
        end: the user property that tells the types of all of them.
        codes: the user properties so far, with the codes of their types.
        after: with one header more, by its name.
    """

    __slots__ = ("after", "codes", "end", "holds", "kind", "start", "use")

    def __init__(self, kind: ValueType | None, use: int, start: bytes, codes: tuple[tuple[str, int], ...]) -> None:
        self.kind, self.use, self.start, self.codes = kind, use, start, codes
        self.holds = None if kind is None else _HOLDS[kind]
        told = types_of(codes)
        self.end = user_property(*told) if told else b""
        self.after: dict[str, _Step] = {}


class PlainFrames:
    """Frames for one destination."""

    def __init__(self, rules: Outbound) -> None:
        self._usual = (
            rules.version >= 5
            and rules.topic.fixed is not None
            and not (rules.envelope or rules.original or rules.aq_properties)
        )
        self._topic = (rules.topic.fixed or "").encode()
        self._qos, self._retain, self._documented = rules.qos, rules.retain, rules.documented
        self._chosen = rules.topic_from_header
        self._heads: dict[int, bytes] = {}
        self._shared: dict[int, tuple[tuple[Header, ...], tuple[bytes, bool, tuple[bytes, bytes]] | None]] = {}
        self._forget()

    def _forget(self) -> None:
        self._first = _Step(None, _LEFT_OUT, b"", ())
        self._steps = 0

    def of(self, message: Message) -> Frame | None:
        """The frame, or None where the long way has to be taken."""
        payload: Any = message.body
        headers, msgid = message.headers, message.msgid
        if (
            not self._usual
            or message.expires_at is not None
            or message.expiration is not None
            or message.correlation is not None
            or (msgid is not None and len(msgid) != _ID_SIZE)
        ):
            return None
        retain, user, forms = self._retain, b"", _FORMS
        if headers:
            shared = self._shared.get(id(headers))
            if shared is None or shared[0] is not headers:
                usual = headers.__class__ is tuple and len(headers) <= _MANY
                shared = (headers, self._written(headers) if usual else None)
                if len(self._shared) >= _SHARED:
                    self._shared.clear()
                self._shared[id(headers)] = shared
            if shared[1] is None:
                return None
            user, retain, forms = shared[1]
        if payload.__class__ is bytes:
            form = forms[0]
        elif payload.__class__ is str:
            form = forms[1]
            try:
                payload = payload.encode()
            except UnicodeEncodeError:
                return None
        else:
            return None
        identity = b"" if msgid is None else b"%b%b" % (_ID_START, msgid.hex().encode())
        tail = b"%b%b%b%b%b" % (varint(len(form) + len(identity) + len(user)), form, identity, user, payload)
        remaining = len(self._topic) + (4 if self._qos else 2) + len(tail)
        head = self._heads.get(remaining << 1 | retain) or self._head(remaining, retain)
        if not head:
            return None
        return (head, tail) if self._qos else (head + tail, b"")

    def _head(self, remaining: int, retain: bool) -> bytes:
        """What stands before the packet id; empty for a packet that is too large."""
        if remaining > MAX_REMAINING:
            return b""
        first, topic = 0x30 | self._qos << 1 | retain, self._topic
        head = b"%c%b%b%b" % (first, varint(remaining), len(topic).to_bytes(2, "big"), topic)
        if len(self._heads) >= _REMEMBERED:
            self._heads.clear()
        self._heads[remaining << 1 | retain] = head
        return head

    def _written(self, headers: Any) -> tuple[bytes, bool, tuple[bytes, bytes]] | None:  # noqa: C901, PLR0911, PLR0912
        """In one pass: user properties of headers, whether the message is retained, and the payload format of bytes
        and of text with the fields that headers of other brokers fill; None where the long way has to be taken."""
        step: Any = self._first  # None: the loop is left
        retain: bool | None = None
        parts: list[bytes] = []
        content = response = b""
        lengths = _LENGTHS
        try:
            for name, kind, value in headers:
                step = step.after.get(name) or self._learnt(step, name, kind)
                sort = value.__class__
                if step is None or step.kind is not kind or step.holds is not sort:
                    return None
                if kind is _TEXT:
                    if len(value) > MAX_HEADER_TEXT or not value.isprintable():  # what brokers refuse is not
                        return None
                    data = value.encode()
                elif kind is _RAW:
                    if len(value) > MAX_HEADER_RAW:
                        return None
                    data = b64encode(value)
                else:
                    data = b"%d" % value if kind is not _BOOLEAN else b"true" if value else b"false"
                use = step.use
                if use == _SENT:
                    parts += (step.start, lengths[len(data)], data)
                elif use == _LEFT_OUT:
                    continue
                elif use == _RETAIN:
                    retain = value if retain is None else retain
                elif use == _CONTENT:
                    if content or not data or value == FIELDS_CONTENT_TYPE:
                        return None
                    content = b"\x03" + lengths[len(data)] + data
                else:
                    if response or not data or b"+" in data or b"#" in data:
                        return None
                    response = b"\x08" + lengths[len(data)] + data
        except (TypeError, ValueError, IndexError):  # no header, or a long text: the long way says what is wrong
            return None
        if step.end:
            parts.append(step.end)
        forms = _FORMS
        if content or response:
            fields = content + response if response else content
            forms = _FORMS[0] + fields, _FORMS[1] + fields
        return b"".join(parts), self._retain if retain is None else retain, forms

    def _learnt(self, step: _Step, name: object, kind: object) -> _Step | None:
        """The step that follows with a header of this name and type; None where the long way has to be taken."""
        if not isinstance(name, str) or len(name) > MAX_HEADER_NAME or name == _MESSAGE_ID:
            return None
        if not isinstance(kind, ValueType) or kind not in _HOLDS:
            return None
        native = NATIVE.get(name)
        if native is not None:
            if native is not kind or name not in HOP or (name == TOPIC and self._chosen):
                return None
            after = _Step(kind, _RETAIN if name == RETAIN else _LEFT_OUT, b"", step.codes)
        elif name in OTHERS and not self._documented:
            field = OTHERS[name][0]
            if field not in _FIELDS or kind is not _TEXT:
                return None
            after = _Step(kind, _FIELDS[field], b"", step.codes)
        else:
            try:
                prop, code = property_of(name, kind, documented=self._documented)
            except ConversionFailure:
                return None
            after = _Step(kind, _SENT, user_property(prop, "")[:-2], (*step.codes, (prop, code)))
        if self._steps >= _REMEMBERED:
            self._forget()
        self._steps += 1
        step.after[name] = after
        return after
