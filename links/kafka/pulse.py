"""A sign of life from a cluster that nothing is sent to; without traffic the client does not notice that it is gone."""

from __future__ import annotations

from typing import Final

from mgw.links.contract import Direction, JobUse
from mgw.links.kafka.client import Asked, Producer, Transactions
from mgw.links.kafka.connection import describe
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import LinkUnavailable

__all__ = ["Pulse"]

_EVERY: Final = 5.0  # seconds without traffic after which the cluster is asked
_FRESH: Final = 16.0  # seconds; the cluster need not be asked where the client has asked by itself since


class Pulse:
    """Asks the cluster for what it knows of the topic, over the connection that a producer has, without waiting."""

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self._settings = settings
        self._clock = use.clock
        self._name = use.endpoint.provider_queue
        self._fresh = min(_FRESH, settings.common["metadata_max_age_ms"] / 1000 + 1.0)
        self.felt()

    def felt(self) -> None:
        """The cluster has shown that it lives."""
        self._ask_at = self._clock.monotonic() + _EVERY
        self._asked_at: float | None = None
        self._answer: Asked | None = None

    def feel(self, producer: Producer | Transactions) -> None:
        """Call it again and again while nothing is under way; it asks when it is time, and looks for the answer.

        Raises:
            LinkUnavailable: no answer within KAFKA_Request_timeout_ms.
            QueueMissing: the topic does not exist any more.
        """
        now = self._clock.monotonic()
        if now < self._ask_at:
            return
        heard = producer.heard() if self._asked_at is None else None
        if heard is not None and heard < self._fresh and producer.partitions(self._name) is not None:
            self.felt()
            return
        if self._answer is not None and self._answer.is_done:
            # What the client knows stays as it was where no server answered; an answer without the topic is no success.
            gone = producer.partitions(self._name) is None
            if gone or self._answer.succeeded():
                self.felt()
                if gone:  # deleted, or without a leader for the moment
                    describe(self._settings, self._name, "publish", Direction.OUTBOUND)
                return
        if self._asked_at is None:
            self._asked_at = now
        elif now - self._asked_at >= self._settings.timeout:
            raise LinkUnavailable(
                f"link {self._settings.link}: the servers of topic {self._name} do not answer",
                link=self._settings.link,
                operation="publish",
                cause=f"asked for {now - self._asked_at:.0f} s, nothing was in flight",
                cure="check that the cluster is up and that all its servers can be reached from here",
            )
        if self._answer is None or self._answer.is_done:  # not asked yet, or the client could not reach a server
            self._answer = producer.ask(self._name)
