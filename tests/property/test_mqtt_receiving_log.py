"""The receiving log of MQTT sources against a model of broker, hub and a gateway that is killed at every point."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.links.contract import Mark, Position
from mgw.links.mqtt.receiving_log import KEPT, OFF, ReceivingLog, digest_of, receipt
from mgw.transforms.mqtt import Properties, Publish
from tests.support.examples import looks_at

HERE = "broker:1883/MGW_J_in"


@dataclass
class Hub:
    """What is committed: the log and the rows."""

    log: dict[str, str]
    rows: list[int]

    def commit(self, positions: tuple[Position, ...], marks: tuple[Mark, ...], rows: list[int]) -> None:
        for name, before, after in positions:
            assert self.log.get(name) == before
            self.log[name] = after
        for name, value in marks:
            if value is None:
                self.log.pop(name, None)
            else:
                self.log[name] = value
        self.rows += rows


class Broker:
    """A session with cyclic packet ids: [number, packet id, digest, sent before]."""

    def __init__(self, newest: int = 0) -> None:
        self.queue: deque[tuple[int, int, bytes, bool]] = deque()
        self.present = False
        self.newest = newest
        self.count = 0

    def publish(self, letter: int) -> None:
        self.newest = self.newest % 65535 + 1
        self.queue.append((self.count, self.newest, bytes([letter]) * 16, False))
        self.count += 1

    def send(self, limit: int) -> list[tuple[int, int, bytes, bool]]:
        """All unacknowledged ones again, up to the window, each with its DUP flag."""
        sent = [self.queue[i] for i in range(min(limit, len(self.queue)))]
        for i, (number, mid, digest, _) in enumerate(sent):
            self.queue[i] = (number, mid, digest, True)
        return sent

    def acknowledge(self, count: int) -> None:
        for _ in range(count):
            self.queue.popleft()


def carry(hub: Hub, broker: Broker, size: int, crash: str, acked: int, *, window: int = 7) -> int:
    """One connection that ends in a crash at the named point, or after a batch; returns how many were suppressed."""
    log = ReceivingLog(hub.log, HERE)
    if log.expected and not broker.present:
        log.lose()
    broker.present = True
    sent = broker.send(window)
    suppressed = 0
    while sent:
        batch, sent = sent[:size], sent[size:]
        receipts, rows = [], []
        for number, mid, digest, dup in batch:
            if dup and log.knows(mid, digest):
                suppressed += 1
            else:
                receipts.append(receipt(mid, digest))
                rows.append(number)
        positions, marks = log.add(receipts)
        if crash == "before commit":
            return suppressed
        hub.commit(tuple(positions), tuple(marks), rows)
        if crash == "after commit":
            broker.acknowledge(min(acked, len(batch)))
            return suppressed
        broker.acknowledge(len(batch))
        if crash == "after settle":
            return suppressed
    return suppressed


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), max_size=6),
        st.integers(1, 4),
        st.sampled_from(["before commit", "after commit", "after settle", "none"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@looks_at(400, deadline=None)
@given(steps=STEPS, newest=st.sampled_from([0, 1000, 65530]))
def test_no_message_is_lost_or_doubled_wherever_the_gateway_is_killed(
    steps: list[tuple[list[int], int, str, int]], newest: int
) -> None:
    hub, broker = Hub({}, []), Broker(newest)
    for letters, size, crash, acked in steps:
        for letter in letters:
            broker.publish(letter)
        carry(hub, broker, size, crash, acked)
    while broker.queue:
        carry(hub, broker, 3, "none", 0)
    assert hub.rows == list(range(broker.count)), "every message once, in order"


def test_equal_message_one_round_later_is_stored_after_a_crash() -> None:
    """All bodies equal, more messages than packet ids, killed before every third commit."""
    hub, broker = Hub({}, []), Broker()
    suppressed = 0
    for step in range(2 * 65535 // 900 + 40):
        for _ in range(1000):
            broker.publish(0)
        crash = ("before commit", "after commit", "none")[step % 3]
        suppressed += carry(hub, broker, 500, crash, 100, window=2000)
    while broker.queue:
        suppressed += carry(hub, broker, 500, "none", 0, window=2000)
    assert broker.count > 2 * 65535
    assert hub.rows == list(range(broker.count))
    assert suppressed > 1000
    assert len(hub.log) <= 2 + KEPT // 100


def test_nothing_of_a_lost_session_is_taken_for_known() -> None:
    hub, broker = Hub({}, []), Broker()
    for _ in range(5):
        broker.publish(0)
    carry(hub, broker, 5, "after commit", 0)
    fresh = Broker()
    fresh.count = 5
    for _ in range(5):
        fresh.publish(0)
    carry(hub, fresh, 5, "before commit", 0)  # killed before the hub knows of the loss: seen again by the client id
    fresh.present = False
    carry(hub, fresh, 5, "none", 0)
    assert hub.rows == list(range(10))
    assert hub.log["session"].startswith("2:1:")


def test_batch_that_was_not_committed_does_not_count() -> None:
    log = ReceivingLog({}, HERE)
    log.add([receipt(1, b"d" * 16)])
    assert not log.knows(1, b"d" * 16)


def test_entries_of_another_broker_or_of_a_time_without_log_do_not_count() -> None:
    hub = Hub({}, [])
    log = ReceivingLog(hub.log, HERE)
    positions, marks = log.add([receipt(1, b"d" * 16)])
    hub.commit(tuple(positions), tuple(marks), [])
    assert ReceivingLog(hub.log, HERE).knows(1, b"d" * 16)
    elsewhere = ReceivingLog(hub.log, "other:1883/MGW_J_in")
    assert not elsewhere.knows(1, b"d" * 16)
    assert not elsewhere.expected
    off = ReceivingLog(hub.log, OFF)
    positions, marks = off.add([receipt(2, b"d" * 16)])
    hub.commit(tuple(positions), tuple(marks), [])
    assert list(hub.log) == ["session"], "the worthless entries are removed"
    again = ReceivingLog(hub.log, HERE)
    assert not again.knows(1, b"d" * 16)
    assert again.number == 3


def test_job_without_log_stores_nothing() -> None:
    assert ReceivingLog({}, OFF).add([receipt(1, b"d" * 16)]) == ((), [])


@pytest.mark.parametrize("stored", [{"session": "x"}, {"session": "1:7:a"}, {"session": f"1:0:{HERE}", "r1": "1:AAAA"}])
def test_log_that_cannot_be_read_is_refused(stored: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the source gives it its words
        ReceivingLog(stored, HERE)


TEXT = st.text(max_size=5)
PROPERTIES = st.builds(
    Properties,
    st.none() | st.integers(0, 1),
    st.none() | st.integers(0, 100),
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | st.binary(max_size=4),
    st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
)
PUBLISH = st.builds(
    Publish, TEXT, st.binary(max_size=5), st.just(1), st.booleans(), st.booleans(), PROPERTIES, st.just("")
)


@given(PUBLISH, st.integers(0, 50), st.booleans(), st.booleans())
def test_digest_ignores_what_changes_on_the_way(publish: Publish, left: int, dup: bool, retain: bool) -> None:
    expiry = None if publish.properties.expiry is None else left
    again = publish._replace(dup=dup, retain=retain, properties=publish.properties._replace(expiry=expiry))
    assert digest_of(again) == digest_of(publish)


@given(PUBLISH, PUBLISH)
def test_digest_tells_everything_else_apart(one: Publish, other: Publish) -> None:
    def content(publish: Publish) -> object:
        return publish.topic, publish.payload, publish.properties._replace(expiry=None)

    assert (digest_of(one) == digest_of(other)) == (content(one) == content(other))


@given(PUBLISH)
def test_one_changed_byte_changes_the_digest(publish: Publish) -> None:
    assert digest_of(publish._replace(payload=publish.payload + b"\0")) != digest_of(publish)
    assert digest_of(publish._replace(topic=publish.topic + "\0")) != digest_of(publish)


def test_long_life_needs_no_more_rows_than_the_kept_messages() -> None:
    hub, broker = Hub({}, []), Broker()
    for _ in range(3):
        for _ in range(KEPT):
            broker.publish(1)
        carry(hub, broker, 1000, "none", 0, window=KEPT)
    assert len(hub.log) <= 3 + KEPT // 1000
    assert hub.rows == list(range(3 * KEPT))


def test_packet_id_more_than_half_a_round_behind_the_newest_is_a_new_message() -> None:
    """The broker dropped or expired messages in between, so the entry of the earlier one is still there."""
    hub = Hub({}, [])
    for mid in (1, 40_000):
        positions, marks = ReceivingLog(hub.log, HERE).add([receipt(mid, b"d" * 16)])
        hub.commit(tuple(positions), tuple(marks), [])
        assert ReceivingLog(hub.log, HERE).knows(mid, b"d" * 16)
    assert not ReceivingLog(hub.log, HERE).knows(1, b"d" * 16)
    assert set(hub.log) == {"session", "r1", "r2"}
