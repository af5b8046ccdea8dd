"""The receiving log of RabbitMQ queues against a model of broker, hub and a gateway that is killed at every point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.links.rabbitmq.receiving_log import LogAhead, LogBehind, ReceivingLog
from tests.support.examples import looks_at


def digest(letter: str) -> bytes:
    return letter.encode() * 16


@dataclass
class Hub:
    """What is committed: rows and log."""

    log: dict[str, str] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)


class Broker:
    """A queue of (letter, redelivered), the record in the log queue, and one exclusive consumer."""

    def __init__(self) -> None:
        self.ready: list[tuple[str, bool]] = []
        self.unacknowledged: list[str] = []
        self.record: int | None = None
        self.on_the_way: tuple[int, int] | None = None

    def deliver(self, count: int) -> list[tuple[str, bool]]:
        sent, self.ready = self.ready[:count], self.ready[count:]
        self.unacknowledged += [letter for letter, _ in sent]
        return sent

    def commit(self) -> None:
        """Acknowledgements and the record, or neither."""
        if self.on_the_way is not None:
            count, self.record = self.on_the_way
            del self.unacknowledged[:count]
            self.on_the_way = None

    def disconnect(self, places: list[int], *, arrived: bool = True) -> None:
        """What was not acknowledged comes back flagged, at any places: quorum and priority queues reorder.

        ``arrived``: the transaction on its way was still received.
        """
        if arrived:
            self.commit()
        self.on_the_way = None
        for number, letter in enumerate(self.unacknowledged):
            place = places[number % len(places)] if places else 0
            self.ready.insert(min(place, len(self.ready)), (letter, True))
        self.unacknowledged = []


class Gateway:
    """One connection of a job: the same calls in the same order as the source makes them."""

    def __init__(self, broker: Broker, hub: Hub) -> None:
        self.broker = broker
        self.hub = hub
        self.log = ReceivingLog(hub.log, broker.record)
        self.prefetched: list[tuple[str, bool]] = []
        self.ahead: list[tuple[list[str], int, Any]] = []  # fresh letters, messages, log: read and not stored
        self.unsettled: list[tuple[int, int]] = []  # messages, sequence: stored in the hub
        self.committing: int | None = None  # sent to the broker and not answered

    def fetch(self, count: int) -> None:
        self.prefetched += self.broker.deliver(count)

    def read(self, count: int) -> None:
        items, self.prefetched = self.prefetched[:count], self.prefetched[count:]
        if items:
            fresh = [letter for letter, again in items if not (again and self.log.knows(digest(letter)))]
            self.ahead.append((fresh, len(items), self.log.batch([digest(letter) for letter, _ in items])))

    def store(self, count: int, *, committed: bool = True) -> None:
        if not self.ahead:
            self.read(count)
        if not self.ahead or not committed:  # killed before the hub's commit
            return
        fresh, size, (positions, marks) = self.ahead.pop(0)
        (position,) = positions
        assert self.hub.log.get(position.partition) == position.before
        self.hub.log[position.partition] = position.after
        for mark in marks:
            if mark.value is None:
                self.hub.log.pop(mark.partition, None)
            else:
                self.hub.log[mark.partition] = mark.value
        self.hub.rows.update(fresh)
        sequence, _, seen = position.after.partition(":")
        assert int(seen) <= (self.broker.record or 0), "a record that the broker does not have yet"
        self.unsettled.append((size, int(sequence)))

    def settle(self, *, answered: bool) -> None:
        if self.committing is not None:  # the answer to the last one is awaited first
            self.broker.commit()
            self.log.acknowledged(self.committing)
            self.committing = None
        if self.unsettled:
            count, sequence = self.unsettled.pop(0)
            self.broker.on_the_way = (count, sequence)
            self.committing = sequence
            if answered:
                self.broker.commit()
                self.log.acknowledged(sequence)
                self.committing = None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(1, 3), st.sampled_from(("answered", "unanswered"))),
        st.tuples(st.just("read ahead"), st.integers(1, 3)),
        st.tuples(st.just("dies before commit"), st.integers(1, 3)),
        st.tuples(st.just("dies before settling"), st.integers(1, 3)),
        st.tuples(st.just("dies"), st.booleans(), st.lists(st.integers(0, 6), max_size=4)),
        st.tuples(st.just("foreign requeue"), st.integers(1, 2)),
    ),
    max_size=12,
)


@looks_at(2500, deadline=None)
@given(st.lists(st.sampled_from("aab"), min_size=2, max_size=9), STEPS)
def test_every_message_is_stored_once_whenever_the_gateway_dies(letters: list[str], steps: list[Any]) -> None:
    broker, hub = Broker(), Hub()
    broker.ready = [(letter, False) for letter in letters]
    gateway = Gateway(broker, hub)
    for step in steps:
        gateway.fetch(4 - len(gateway.prefetched))
        match step:
            case ("batch", count, answer):
                gateway.store(count)
                gateway.settle(answered=answer == "answered")
                continue
            case ("read ahead", count):
                if len(gateway.ahead) < 3:
                    gateway.read(count)
                continue
            case ("dies before commit", count):
                gateway.store(count, committed=False)
                broker.disconnect([0])
            case ("dies before settling", count):
                gateway.store(count)
                broker.disconnect([0], arrived=False)
            case ("dies", arrived, places):
                broker.disconnect(places, arrived=arrived)
            case ("foreign requeue", count):  # somebody else took messages while we were away, and gave them back
                broker.disconnect([])
                broker.ready[:count] = [(letter, True) for letter, _ in broker.ready[:count]]
        gateway = Gateway(broker, hub)
    broker.disconnect([])
    gateway = Gateway(broker, hub)
    while broker.ready:
        gateway.fetch(2)
        gateway.store(2)
        gateway.settle(answered=True)
    assert hub.rows == Counter(letters)
    assert not gateway.log.awaited


def test_log_of_an_idle_queue_stays_small() -> None:
    broker, hub = Broker(), Hub()
    gateway = Gateway(broker, hub)
    for _ in range(50):
        broker.ready += [("a", False), ("b", False)]
        gateway.fetch(2)
        gateway.store(2)
        gateway.settle(answered=True)
    assert len(hub.log) <= 3


def stored(batches: int, *, record: int) -> Hub:
    """A hub with batches, of which the broker knows some."""
    broker, hub = Broker(), Hub()
    gateway = Gateway(broker, hub)
    for number in range(batches):
        broker.ready.append(("a", False))
        gateway.fetch(1)
        gateway.store(1)
        if number < record:
            gateway.settle(answered=True)
    return hub


def test_record_newer_than_the_hub_is_a_restored_hub() -> None:
    with pytest.raises(LogAhead):
        ReceivingLog(stored(3, record=3).log, 4)


@pytest.mark.parametrize("record", [None, 1])
def test_record_older_than_the_hub_has_seen_it_is_a_purged_log(record: int | None) -> None:
    hub = stored(4, record=3)
    with pytest.raises(LogBehind):
        ReceivingLog(hub.log, record)
    assert ReceivingLog(hub.log, 3).awaited == 1
    assert ReceivingLog(hub.log, 4).awaited == 0


def test_a_purged_log_of_batches_that_were_read_ahead_is_missed() -> None:
    broker, hub = Broker(), Hub()
    gateway = Gateway(broker, hub)
    broker.ready = [("a", False)] * 4
    gateway.fetch(4)
    for _ in range(4):
        gateway.read(1)
    for _ in range(4):
        gateway.store(1)
        gateway.settle(answered=True)
    with pytest.raises(LogBehind):
        ReceivingLog(hub.log, None)


def test_log_that_an_operator_reset_goes_on_behind_the_record() -> None:
    log = ReceivingLog({}, 57)
    (position,), _ = log.batch([digest("a")])
    assert (position.before, position.after) == (None, "58:57")
    assert ReceivingLog({"seq": "58:57"}, 57).sequence == 58
