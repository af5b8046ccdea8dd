"""What an echo tells, and when what lies in it may be acknowledged."""

from __future__ import annotations

import pytest

from mgw.links.mqtt.echo_log import KEY, Echo, EchoLog, Record, acknowledgement
from mgw.transforms.mqtt import Properties, Publish
from mgw.transforms.mqtt.topic import TopicTemplate

ECHO = Echo("MGW_J_echo_12345678", "out", "mgw/sent/J")


def acks(*packet_ids: int) -> bytes:
    return b"".join(map(acknowledgement, packet_ids))


def key(number: int) -> bytes:
    return f"{number:032x}{1_800_000_000_000_000:014x}".encode()


def test_mark_and_record_are_those_of_one_job() -> None:
    mark = ECHO.mark((7).to_bytes(16, "big"), 1.8e9)
    publish = Publish("out", b"", properties=Properties(user=[("a", "b"), mark]))
    assert ECHO.key_of(publish) == key(7)
    assert len(key(7)) == KEY
    assert ECHO.mark((7).to_bytes(16, "big"), 1.8e9 + 0.001) != mark, "the id was given again by a restored hub"
    other = Echo("MGW_K_echo_87654321", "out", "mgw/sent/K")
    assert other.key_of(publish) is None
    record = Record(5, 30)
    assert ECHO.record_of(ECHO.payload(record)) == record
    assert other.record_of(ECHO.payload(record)) is None
    for payload in (b"", b"batch", b"batch x 1 12345678", b"mark 1 2 12345678", b"\xff", b"batch 1 12345678"):
        assert ECHO.record_of(payload) is None


def test_record_takes_the_place_of_its_messages_and_leaves_those_of_later_batches() -> None:
    log = EchoLog()
    for number in range(1, 6):
        log.found(number, key(number))
    log.found(6, None)
    log.found_record(7, Record(3, 2))
    log.found(8, key(8))
    log.found_all()
    assert (log.sequence, log.seen, log.kept) == (3, {key(4), key(5), key(8)}, 3)
    assert log.due(idle=True) == acks(6, 1, 2, 3)
    assert log.due(idle=True) == b""


def test_newest_record_stays_until_the_next_one_is_there() -> None:
    log = EchoLog()
    log.found_record(1, Record(1, 0))
    log.found_record(2, Record(2, 0))
    log.found_all()
    assert log.due(idle=True) == acks(1)
    log.publishes(3, known=False, fresh=True)
    log.arrived(3)
    assert log.due(idle=False) == b""
    log.record_sent(3, 3, 1)
    assert log.record_arrived(4, 3) == 0
    assert (log.due(idle=False), log.released, log.sequence) == (acks(2, 3), 3, 3)


def test_messages_before_a_record_wait_for_the_batches_that_had_begun() -> None:
    log = EchoLog()
    log.found_all()
    for sequence in (1, 2, 3):
        log.publishes(sequence, known=False, fresh=True)
    log.arrived(1)
    log.arrived(2)  # of the second batch, before the record of the first
    log.record_sent(1, 2, 1)
    log.record_arrived(3, 1)
    assert log.due(idle=False) == b""
    log.record_sent(2, 3, 2)
    log.record_arrived(4, 2)
    assert (log.due(idle=False), log.released) == (acks(1, 2), 1)


def test_what_was_there_stays_until_nothing_of_it_can_be_needed() -> None:
    log = EchoLog()
    for number in (1, 2, 3):
        log.found(number, key(number))
    log.found_all()
    log.publishes(1, known=True, fresh=False)
    log.record_sent(1, 1, 0)
    log.record_arrived(4, 1)
    assert (log.due(idle=False), log.settled, len(log.seen)) == (b"", False, 3)
    log.publishes(2, known=True, fresh=True)
    log.record_sent(2, 2, 1)
    log.arrived(5)
    log.record_arrived(6, 2)
    assert log.due(idle=False) == acks(1, 2, 3, 4, 5)
    assert (log.settled, log.seen, log.kept) == (True, set(), 0)


def test_message_that_did_not_come_back_is_counted() -> None:
    log = EchoLog()
    log.found_all()
    log.publishes(1, known=False, fresh=True)
    log.arrived(1)
    log.record_sent(1, 1, 3)
    assert log.record_arrived(2, 1) == 2


def test_messages_of_others_are_let_go_when_nothing_of_ours_is_on_its_way() -> None:
    log = EchoLog()
    log.found_all()
    log.arrived(1)
    assert log.due(idle=False) == b""
    assert log.due(idle=True) == acks(1)
    log.record_sent(1, 1, 0)
    log.arrived(2)
    assert log.due(idle=True) == b""


def test_packet_id_of_the_record_is_not_acknowledged_for_another_message() -> None:
    log = EchoLog()
    log.found_record(5, Record(1, 0))
    log.found(6, None)
    log.found(5, None)
    log.found_all()
    assert log.due(idle=True) == acks(6)
    log.arrived(4)
    log.arrived(5)
    assert log.due(idle=True) == acks(4)
    assert log.passed(5) == b""
    assert log.passed(7) == acks(7)
    log.publishes(2, known=False, fresh=True)
    log.record_sent(2, 2, 0)
    log.record_arrived(8, 2)
    assert log.due(idle=False) == acks(5, 5, 5, 5), "the record first, then the others with its packet id"


@pytest.mark.parametrize(
    ("template", "covered"),
    [
        ("a/b", "a/b"),
        ("a/{x}/b", "a/+/b"),
        ("a/p{x}q/b", "a/+/b"),
        ("a/{x}", "a/#"),
        ("a/p{x}", "a/+/#"),
        ("{x}", "#"),
        ("{{a}}/b", "{a}/b"),
    ],
)
def test_filter_covers_every_topic_of_a_template(template: str, covered: str) -> None:
    assert TopicTemplate(template).filter == covered
