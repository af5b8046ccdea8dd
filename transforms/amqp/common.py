"""What both directions of the AMQP maps share: settings, the forms of a message, property flags, character sets."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any, NamedTuple

from mgw.transforms.header_table import AMQP_APPLICATION

PREFIX = "MGW_AMQP_"
#: Headers that tell the delivery mode of a message, the first one wins; 2 where none does.
MODES = ("JMSDeliveryMode", PREFIX + "deliveryMode")
HEADER_PREFIX = AMQP_APPLICATION
#: Header of a message that expires: when it does, epoch milliseconds. The broker does not count its expiration down.
EXPIRES_AT = "MGW_AQ_expires_at"
#: Milliseconds of the property ``expiration`` that every release of RabbitMQ takes, 49.7 days. At more than its limit
#: it closes the channel (3.10: 315,360,000,000).
MAX_EXPIRATION = 2**32 - 1

MAX_CACHE = 4096  # entries of each memory of names
UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True)
class Rules:
    """How one job maps.

    Attributes:
        max_priority: P of the priority rule, 0..255 (foreign queue option AMQP_MaxPriority).
        user: user name of the link; a message that claims another user is refused. None: not checked.
        aq_properties: job option AQ_MsgProperties: AQ properties travel as ``MGW_AQ_*`` headers.
        preserve_id: job option PreserveMessageID: the hub's id travels as ``MGW_AQ_messageID`` too.
        delivery_mode: job option JMS_DeliveryMode: 2 persistent, 1 not, 0 that of the message (:data:`MODES`).
        original: an exception queue: nothing is added to the message or limited, and what would say something about
            this hop, or have the broker do something, travels as a header of its name in the hub.
        documented: link attribute ``header_names``: an application's headers are ``MGW_AMQP_H_x`` in the hub, and what
            other brokers call their fields stays a header.
    """

    max_priority: int = 9
    user: str | None = None
    aq_properties: bool = False
    preserve_id: bool = False
    delivery_mode: int = 2
    original: bool = False
    documented: bool = False


class Content(NamedTuple):
    """An AMQP message without its envelope: properties in wire form, body, and the routing key it asks for."""

    properties: bytes
    body: bytes
    routing_key: str | None = None


# Property flags, in the order of the fields on the wire.
CONTENT_TYPE, CONTENT_ENCODING, HEADER_TABLE, DELIVERY_MODE, PRIORITY = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800
CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID, TIMESTAMP = 0x0400, 0x0200, 0x0100, 0x0080, 0x0040
TYPE_NAME, USER_ID, APP_ID, CLUSTER_ID = 0x0020, 0x0010, 0x0008, 0x0004

ROUTING_KEY = 1  # no property: the envelope


def charset_parameter(content_type: str) -> str | None:
    """The charset a content type names, or None."""
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or None
    return None


#: Codecs of Python that are no character sets; some take time that grows with the square of the text.
_NO_CHARSETS = frozenset(("idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"))


def text_codec(name: str) -> str | None:
    """Canonical name of a character set, None if it is none (``gzip``)."""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    known = getattr(info, "_is_text_encoding", True) and info.name.replace("_", "-") not in _NO_CHARSETS
    return info.name if known else None
