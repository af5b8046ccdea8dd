"""The settings of memory links, and what the broker inside the process can do."""

from __future__ import annotations

import fnmatch

from mgw.links.contract import Capability, Domain, Field, LinkSpec

__all__ = ["SPEC"]

SPEC = LinkSpec(
    type="MEMORY",
    title="Memory",
    description="In-memory queues of this process, for tests and examples. Nothing is durable.",
    attributes=(
        Field("broker", "Name of the broker in this process; links with the same name share it.", default="default"),
        Field(
            "timeout",
            "Seconds after which a broker that does not answer counts as unreachable.",
            float,
            5.0,
            minimum=0.01,
            maximum=600,
        ),
    ),
    queue_options=(
        Field(
            "MEMORY_UniqueIds", "The correlation of every message is unique: repeated ones are dropped.", bool, False
        ),
    ),
    domains=(None, Domain.QUEUE, Domain.TOPIC),
    capabilities=frozenset(Capability),
    covers=lambda source, target: fnmatch.fnmatchcase(target, source),
)
