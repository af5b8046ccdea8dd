"""The names and types of headers of the hub as they are in Kafka records; worked out once for each."""

from __future__ import annotations

from typing import Final, NamedTuple

from mgw.transforms.header_table import bare_name
from mgw.transforms.kafka.common import FOREIGN, PREFIX_LENGTH
from mgw.transforms.kafka.table import RENAMED
from mgw.transforms.kafka.types import LETTERS, RESERVED, TYPES, collides
from mgw.transforms.message import ValueType

__all__ = ["Wire", "wire_of", "wires"]

_TEXT, _RAW, _JSON = ValueType.TEXT, ValueType.RAW, ValueType.JSON


class Wire(NamedTuple):
    """What an application's header of one name and type is in a record.

    Attributes:
        name: of the header there.
        told: its mark.
        found: its mark where a reader finds the type in the value; None: it is told of any value.
        odd: "reserved": it is what its name says, or refused; "renamed": unless it tells a form of body that only its
            own broker has; "n", "N": the letter of null; empty: no value is unlike the others.
    """

    name: str
    told: tuple[str, str]
    found: tuple[str, str] | None
    odd: str


#: By name and type in the hub. Bounded.
wires: dict[tuple[str, ValueType], Wire] = {}
_MAX_WIRES: Final = 4096


def wire_of(name: str, kind: ValueType) -> Wire:
    """What becomes of it; it is kept in :data:`wires`."""
    foreign = name.startswith(FOREIGN)
    wire = name[PREFIX_LENGTH:] if foreign else RENAMED.get(name) or bare_name(name, FOREIGN)
    taken = not foreign and (collides(wire) or wire in RESERVED)
    letter = LETTERS[kind].lower() if foreign else LETTERS[kind]
    reserved = name == TYPES or (not foreign and RESERVED.get(wire) is kind)
    tells = kind in (_TEXT, _RAW) and not taken and wire not in RESERVED
    odd = "reserved" if reserved else "renamed" if name in RENAMED else ""
    if kind is _JSON and not reserved:
        odd = "N" if taken else "n"
    found = Wire(wire, (wire, letter), (wire, "=" + letter) if tells else None, odd)
    if len(wires) >= _MAX_WIRES:
        wires.clear()
    wires[name, kind] = found
    return found
