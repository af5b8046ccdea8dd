"""The peers: bridges that others make, each with the settings that suit it best.

Nothing of theirs is kept here. Shovel and the Mosquitto bridge come with their brokers, Camel's jars through Maven. The
variable MGW_BENCH_BENTO names a binary of Bento.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.bento import Bento
from benchmarks.peers.camel import Camel
from benchmarks.peers.contract import Missing, Motion, Mover, Way
from benchmarks.peers.mosquitto import MosquittoBridge, bridge_settings, bridged
from benchmarks.peers.shovel import Shovel, shovelled

__all__ = [
    "PEERS",
    "Missing",
    "Motion",
    "Mover",
    "Way",
    "bridge_settings",
    "bridged",
    "shovelled",
]

#: In the order of the tables.
PEERS: tuple[Callable[[], Mover], ...] = (Shovel, MosquittoBridge, Bento, Camel)
