"""What both directions of the Kafka map share: records as the client has them, options, names of headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from mgw.transforms.header_table import KAFKA_APPLICATION

__all__ = [
    "ANY_TIME",
    "FOREIGN",
    "KEY",
    "NULL",
    "OFFSET",
    "PARTITION",
    "PREFIX_LENGTH",
    "TIMESTAMP",
    "TIMESTAMP_TYPE",
    "TOPIC",
    "KeyFrom",
    "Received",
    "Record",
    "Rules",
    "Window",
]

KEY: Final = "MGW_KAFKA_key"
TOPIC: Final = "MGW_KAFKA_topic"
PARTITION: Final = "MGW_KAFKA_partition"
OFFSET: Final = "MGW_KAFKA_offset"
TIMESTAMP: Final = "MGW_KAFKA_timestamp"
TIMESTAMP_TYPE: Final = "MGW_KAFKA_timestampType"
FOREIGN: Final = KAFKA_APPLICATION
NULL: Final = "MGW_KAFKA_N_"
PREFIX_LENGTH: Final = len(FOREIGN)


class KeyFrom(StrEnum):
    """What becomes the record's key when no ``MGW_KAFKA_key`` header says it (queue option KAFKA_Key)."""

    CORRELATION = "CORRELATION"
    MSGID = "MSGID"
    NONE = "NONE"
    HEADER = "HEADER"  # only the header


class Record(NamedTuple):
    """A record ready to send: what the client's ``send`` takes."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int | None  # None: the key decides, without a key the client
    timestamp: int | None  # milliseconds; None: now


class Received(Protocol):
    """A record as the client hands it out."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds; negative where the record has none."""
        ...

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        ...

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """In order. A name that was not UTF-8 is not a plain ``str`` but a subclass with the attribute ``raw``."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of the foreign queue and the job that change the map."""

    key: KeyFrom = KeyFrom.CORRELATION
    text_value: bool = False  # KAFKA_ValueType = TEXT
    text_headers: bool = False  # KAFKA_HeaderType = TEXT
    take_partition: bool = True  # KAFKA_Partition = HEADER
    properties: bool = False  # AQ_MsgProperties
    original: bool = False  # an exception queue: nothing is limited, and what is about the hop travels as a header
    again: bool = False  # with original: it goes back to where it came from, into its partition and with its timestamp
    documented: bool = False  # link attribute header_names: MGW_KAFKA_H_x and MGW_KAFKA_N_x, bytes unless told else
    guess_headers: bool = True  # KAFKA_HeaderType = AUTO: text if it is UTF-8 without control characters, else bytes


class Window(NamedTuple):
    """The timestamps that a topic takes, in epoch milliseconds, both ends included."""

    earliest: int = 0
    latest: int = 2**63 - 1


ANY_TIME: Final = Window()
