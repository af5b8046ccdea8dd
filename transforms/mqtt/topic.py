"""Topics of MQTT: names, filters, shared subscriptions, and destination topics chosen per message.

A destination is registered as a topic name that may hold placeholders: ``plant/commands/{device}``. Per message
``{correlation}`` becomes the correlation and ``{name}`` the value of the header ``name``; where no header has exactly
that name, the headers of other brokers are tried with their prefix (``MGW_KAFKA_H_device``, ``MGW_AMQP_H_device``,
``MGW_MQTT_U_device``). ``{{`` and ``}}`` are literal braces. The value is text, raw bytes that are UTF-8, or a whole
number. It cannot leave the place it was given: a wildcard, an empty level or a ``/`` in it is a conversion failure;
only a placeholder that ends the template may bring further levels.
"""

from __future__ import annotations

import re

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message

__all__ = ["MAX_TOPIC", "TopicTemplate", "check_filter", "check_topic", "split_shared"]

MAX_TOPIC = 65535  # bytes in UTF-8, MQTT 5.0 §1.5.4

_PREFIXES = ("MGW_KAFKA_H_", "MGW_AMQP_H_", "MGW_MQTT_U_", "MGW_KAFKA_", "MGW_AMQP_", "MGW_MQTT_", "MGW_AQ_")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def check_topic(topic: str) -> str | None:
    """Why a text cannot be the name of a topic to publish to, or None if it can."""
    if not topic:
        return "it is empty"
    if "+" in topic or "#" in topic:
        return "it holds a wildcard (+ or #); only a source may be a pattern"
    if topic.startswith("$"):
        return "topics that begin with $ belong to the broker"
    return _check_text(topic)


def check_filter(topic_filter: str) -> str | None:
    """Why a text cannot be a topic filter to subscribe to (without ``$share/group/``), or None if it can."""
    if not topic_filter:
        return "it is empty"
    levels = topic_filter.split("/")
    for position, level in enumerate(levels):
        if "#" in level and (level != "#" or position != len(levels) - 1):
            return "the wildcard # must be alone, and in the last level"
        if "+" in level and level != "+":
            return "the wildcard + must be a whole level"
    return _check_text(topic_filter)


def split_shared(provider_queue: str) -> tuple[str | None, str]:
    """Group and filter of a shared subscription ``$share/group/filter``; the group is None for a plain filter."""
    if not provider_queue.startswith("$share/"):
        return None, provider_queue
    _, group, topic_filter = (*provider_queue.split("/", 2), "", "")[:3]
    return group, topic_filter


def _check_text(topic: str) -> str | None:
    bad = _FORBIDDEN.search(topic)
    if bad:
        return f"it holds the character U+{ord(bad.group()):04X}, which brokers refuse in topics"
    if len(topic) > MAX_TOPIC // 4 and len(topic.encode()) > MAX_TOPIC:
        return f"it is longer than {MAX_TOPIC} bytes"
    return None


class TopicTemplate:
    """A registered destination topic, parsed once.

    Attributes:
        text: as registered.
        fixed: the topic, when there is nothing to fill in; None otherwise.
        prefix: the fixed text before the first placeholder.
        filter: a topic filter that covers every topic it can become.
    """

    __slots__ = ("_names", "_pieces", "filter", "fixed", "prefix", "text")

    def __init__(self, text: str) -> None:
        """Parse ``text``; raises ValueError with the reason when it can never be a topic."""
        self.text = text
        pieces: list[tuple[bool, str]] = []
        for match in _PIECE.finditer(text):
            piece, name = match.group(), match.group(1)
            if name is not None:
                if not name:
                    raise ValueError("{} names no header")
                pieces.append((True, name))
            elif piece in "{}":
                raise ValueError(f"a single {piece} is neither a placeholder nor, doubled, a brace")
            else:
                literal = piece[0] if piece in ("{{", "}}") else piece
                if pieces and not pieces[-1][0]:
                    pieces[-1] = (False, pieces[-1][1] + literal)
                else:
                    pieces.append((False, literal))
        reason = check_topic("".join("x" if filled else piece for filled, piece in pieces))
        if reason:
            raise ValueError(reason)
        self._pieces = tuple(pieces)
        names = {piece for filled, piece in pieces if filled}
        self.fixed = None if names else "".join(piece for _, piece in pieces)
        self.prefix = "" if pieces[0][0] else pieces[0][1]
        self.filter = _filter(pieces)
        ranks: dict[str, list[tuple[str, int]]] = {}
        for name in names - {"correlation"}:
            for rank, candidate in enumerate((name, *(prefix + name for prefix in _PREFIXES))):
                ranks.setdefault(candidate, []).append((name, rank))
        self._names = ranks

    def fill(self, message: Message) -> str:
        """The topic of one message.

        Raises:
            ConversionFailure: a header is missing, or its value would lead somewhere else.
        """
        if self.fixed is not None:
            return self.fixed
        found: dict[str, tuple[int, Header]] = {}
        names = self._names
        for header in message.headers:
            for name, rank in names.get(header.name, ()):
                if name not in found or rank < found[name][0]:
                    found[name] = (rank, header)
        parts = []
        last = len(self._pieces) - 1
        for position, (filled, piece) in enumerate(self._pieces):
            if not filled:
                parts.append(piece)
            elif piece == "correlation":
                parts.append(self._value(piece, message.correlation, position == last))
            else:
                parts.append(self._value(piece, found[piece][1].value if piece in found else None, position == last))
        topic = "".join(parts)
        reason = check_topic(topic)
        if reason:
            raise self._failure(f"topic {topic[:100]!r} cannot be published to", reason)
        return topic

    def _value(self, name: str, value: object, last: bool) -> str:
        if value is None:
            raise self._failure(
                f"the destination topic {self.text!r} cannot be filled in",
                "the message has no correlation" if name == "correlation" else f"the message has no header {name!r}",
            )
        if isinstance(value, bytes):
            try:
                value = value.decode()
            except UnicodeDecodeError as error:
                raise self._failure(f"header {name!r} cannot be part of a topic", "it is not UTF-8 text") from error
        elif isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise self._failure(f"header {name!r} cannot be part of a topic", "it is neither text nor a whole number")
        if not value:
            raise self._failure(f"header {name!r} cannot be part of a topic", "it is empty")
        if "/" in value and not (last and all(value.split("/"))):
            raise self._failure(
                f"value {value[:100]!r} of {name!r} cannot be part of topic {self.text!r}",
                "it contains an empty level" if last else "it holds a / and would change the levels of the topic",
            )
        return value

    def _failure(self, what: str, cause: str) -> ConversionFailure:
        return ConversionFailure(what, cause=cause, cure="set a usable value at the sender or in a transformation")


def _filter(pieces: list[tuple[bool, str]]) -> str:
    """A level with a placeholder may be anything; the last one may bring further levels where it ends the template."""
    levels = "".join("\0" if filled else piece for filled, piece in pieces).split("/")
    open_end = pieces[-1][0]
    if open_end:
        last = levels.pop()
        if last != "\0":  # "a{x}": further levels come below any level that begins like this
            levels.append("+")
        levels.append("#")
    return "/".join("+" if "\0" in level else level for level in levels)
