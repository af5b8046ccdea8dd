"""The gateway as a mover: two jobs with the hub between, or one THROUGH job, as the peers are measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mgw
from benchmarks.ends import End, KafkaEnd
from benchmarks.gateways import BenchGateway
from benchmarks.peers.contract import InProcess, Missing, Motion, Mover, Way
from mgw.transforms.errors import GatewayError
from tests.support.waiting import eventually

__all__ = ["OURS", "Gateway"]

_CLIENT = "confluent"


@dataclass(frozen=True, slots=True)
class Gateway(Mover):
    """``batch`` None: jobs with default settings."""

    name: str
    through: bool = False
    batch: int | None = None
    client: str | None = None  # of Kafka

    def version(self) -> str:
        """Of this checkout."""
        return mgw.__version__

    def can(self, source: End, target: End) -> bool:
        """Every route; those with Kafka where it is about Kafka's client."""
        return self.client is None or isinstance(source, KafkaEnd) or isinstance(target, KafkaEnd)

    @contextmanager
    def moving(self, way: Way) -> Iterator[Motion]:
        """A gateway of its own, with a new hub."""
        gateway = BenchGateway(way.folder / "gateway")
        try:
            self._define(gateway, way)
            with gateway.running() as process:
                eventually(gateway.ready, deadline=60, what="connected jobs")
                motion = InProcess(process.pid, way.folder / "gateway" / "gateway.log")
                try:
                    yield motion
                finally:
                    motion.thaw()
        finally:
            gateway.close()

    def _define(self, gateway: BenchGateway, way: Way) -> None:
        for name, end in (("here", way.source), ("there", way.target)):
            more = {"client": self.client} if self.client and isinstance(end, KafkaEnd) else {}
            try:
                end.link(gateway, name, **more)
            except GatewayError as error:
                if not more:
                    raise
                raise Missing(f"no link of this version has it: {' '.join(str(error).split())[:160]}") from error
        source = gateway.foreign("SRC", "here", way.here, options=way.source.options())
        target = gateway.foreign("DST", "there", way.there)
        if self.through:
            gateway.job("out", "THROUGH", source, target, self.batch)
        else:
            gateway.queue("HUB")
            gateway.job("into", "INBOUND", source, "HUB", self.batch)
            gateway.job("out", "OUTBOUND", "HUB", target, self.batch)


#: In the order of the tables.
OURS = (
    Gateway("hub between, defaults"),
    Gateway("hub between, batch 500", batch=500),
    Gateway("THROUGH, defaults", through=True),
    Gateway("hub between, client confluent", client=_CLIENT),
    Gateway("THROUGH, client confluent", through=True, client=_CLIENT),
)
