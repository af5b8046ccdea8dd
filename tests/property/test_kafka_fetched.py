"""Records fetched from Kafka: ours are those that the client would hand out, whatever it was sent."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka import TopicPartition, errors
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import FetchResponse, IsolationLevel
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from mgw.links.kafka.bad_names import BadName
from mgw.links.kafka.python_client.records import _PartitionRecords
from mgw.transforms.kafka import Record, Rules, from_record, origin_headers
from mgw.transforms.kafka.common import TIMESTAMP
from tests.property.test_kafka_batches import CODECS, closed, ours, records, theirs

PLACE = TopicPartition("t", 0)


def read(reader: type, data: bytes, *, start: int = 0, step: int | None = None, aborted: Any = None) -> tuple[Any, ...]:
    """What a reader hands out, step by step; where it has come; what it raised."""
    part: Any = reader(
        start, PLACE, MemoryRecords(data), isolation_level=IsolationLevel.READ_COMMITTED, aborted_transactions=aborted
    )
    found, raised = [], None
    try:
        while part:
            taken = part.take(step)
            found.append(([tuple(getattr(one, name) for name in NAMES) for one in taken], part.next_fetch_offset))
    except (errors.KafkaError, OSError, EOFError) as error:  # of a codec, too
        raised = type(error), str(error)
    return found, raised, part.next_fetch_offset, part.leader_epoch


NAMES = ("offset", "timestamp", "timestamp_type", "key", "value")
Transactions = FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction


class Control(DefaultRecordBatchBuilder):  # type: ignore[misc]
    """The batch that ends a transaction."""

    def _get_attributes(self, *_: object) -> int:
        return 0x30


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """What ends a transaction."""
    batch = Control(2, 0, is_transactional=True, producer_id=producer, producer_epoch=0, base_sequence=-1, batch_size=1)
    batch.append(0, 1, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\0", [])
    return placed(bytes(batch.build()), offset)


def emptied(offset: int, producer: int) -> bytes:
    """What a log cleaner leaves of a batch that ends a transaction: its head, without the marker."""
    whole = marker(offset, producer, commit=False)
    return resealed(whole[:57] + bytes(4))


def resealed(batch: bytes) -> bytes:
    """A batch that was changed, with the length and the checksum that belong to it."""
    checked = batch[21:]
    size = (len(batch) - 12).to_bytes(4, "big")
    return batch[:8] + size + batch[12:17] + crc32c.crc32c(checked).to_bytes(4, "big") + checked


def first_format(offset: int, key: bytes | None, value: bytes | None, *, compressed: bool = False) -> bytes:
    """A message in the first format (magic 0), as Kafka's protocol describes message sets."""

    def field(content: bytes | None) -> bytes:
        return b"\xff\xff\xff\xff" if content is None else len(content).to_bytes(4, "big") + content

    checked = b"\0" + (b"\1" if compressed else b"\0") + field(key) + field(value)
    message = zlib.crc32(checked).to_bytes(4, "big") + checked
    return offset.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


def placed(batch: bytes, offset: int) -> bytes:
    """As a server stores it: with its offset, which the checksum leaves out."""
    return offset.to_bytes(8, "big") + batch[8:12] + (5).to_bytes(4, "big") + batch[16:]


@given(
    st.lists(st.lists(records, min_size=1, max_size=8), max_size=5),
    st.sampled_from(CODECS),
    st.integers(0, 30),
    st.none() | st.integers(1, 9),
)
def test_fetched_records_are_those_that_the_client_reads(
    groups: list[list[Record]], compression: int, start: int, step: int | None
) -> None:
    data, offset, sent = b"", 0, []
    for group in groups:
        for batch in theirs(group, 2**20, compression):
            data += placed(closed([batch])[0], offset)
        sent += group
        offset += len(group) + 2  # the last two were compacted away
    mine, raised, *ends = read(_PartitionRecords, data, start=start, step=step)
    other, other_raised, *other_ends = read(Fetcher.PartitionRecords, data, start=start, step=step)
    assert (mine, raised, ends) == (other, other_raised, other_ends)
    if start == 0:
        part: Any = _PartitionRecords(0, PLACE, MemoryRecords(data))
        assert [(list(one.headers), one.value) for one in part.take()] == [(one.headers, one.value) for one in sent]


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.integers(1, 4)), max_size=8), st.integers(1, 5))
def test_transactions_that_were_taken_back_are_left_out(steps: list[tuple[int, bool, int]], step: int) -> None:
    data, offset, kept, aborted = b"", 0, [], []
    for producer, commit, count in steps:
        found = [Record(b"%d" % (offset + number), None, [], None, 1) for number in range(count)]
        (batch,) = ours(found, 2**20)
        batch.set_producer_state(producer, 0, 0, is_transactional=True)
        batch.close()
        data += placed(bytes(batch.buffer()), offset)
        if commit:
            kept += [each.value for each in found]
        else:
            aborted.append(Transactions(producer_id=producer, first_offset=offset))
        offset += count
        data += marker(offset, producer, commit=commit)
        offset += 1
    mine = read(_PartitionRecords, data, step=step, aborted=aborted)
    assert mine == read(Fetcher.PartitionRecords, data, step=step, aborted=aborted)
    assert [record[4] for taken, _ in mine[0] for record in taken] == kept


@given(
    st.lists(records, min_size=1, max_size=6),
    st.integers(0, 5000),
    st.integers(1, 255),
    st.booleans(),
    st.integers(1, 7),
)
@example([Record(b"x", None, [], None, 1)] * 3, 0, 1, False, 7)
def test_a_damaged_batch_is_refused_where_the_client_refuses_it(
    found: list[Record], at: int, change: int, mended: bool, step: int
) -> None:
    """``mended``: the checksum is right, so the reader has to see it."""
    (first,) = closed(ours(found, 2**22))
    good, data = placed(first, 0), bytearray(first)
    at = 61 + at % (len(data) - 61)
    data[at] ^= change
    if mended:
        data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    whole = good + placed(bytes(data), len(found))
    mine, raised, *ends = read(_PartitionRecords, whole, step=step)
    other, other_raised, *other_ends = read(Fetcher.PartitionRecords, whole, step=step)
    if other_raised is not None and "UnicodeDecodeError" in other_raised[1]:
        before = [record for taken, _ in other for record in taken]
        # A bad name ends the client's reading; ours goes on, see below.
        assert [record for taken, _ in mine for record in taken][: len(before)] == before
    else:
        assert (mine, raised, ends) == (other, other_raised, other_ends)


def plain(offset: int, *values: bytes) -> bytes:
    """A batch of today's format."""
    (batch,) = closed(ours([Record(value, None, [], None, 1) for value in values], 2**20))
    return placed(batch, offset)


@pytest.mark.parametrize("step", [None, 1, 2])
def test_what_a_cleaner_leaves_of_the_end_of_a_transaction_is_passed(step: int | None) -> None:
    aborted = [Transactions(producer_id=7, first_offset=0)]  # its records are gone, and its marker from the batch
    data = plain(0, b"a", b"b") + emptied(2, 7) + plain(3, b"c")
    found, raised, following, _ = read(_PartitionRecords, data, step=step, aborted=aborted)
    assert raised is None
    assert [(record[0], record[4]) for taken, _ in found for record in taken] == [(0, b"a"), (1, b"b"), (3, b"c")]
    assert following == 4
    alone, raised, following, _ = read(_PartitionRecords, emptied(2, 7), start=2, aborted=aborted)
    assert (raised, following) == (None, 3), "it is not fetched again and again"
    assert [record for taken, _ in alone for record in taken] == []


def test_messages_of_the_first_format_have_no_timestamp_and_are_read_like_others() -> None:
    inner = first_format(2, b"k", b"c") + first_format(3, None, b"d")
    data = (
        first_format(0, b"key", b"a")
        + first_format(1, None, None)
        + first_format(3, None, gzip.compress(inner), compressed=True)
        + plain(4, b"e")
    )
    part: Any = _PartitionRecords(0, PLACE, MemoryRecords(data))
    found = part.take()
    assert [tuple(each)[:5] for each in found] == [
        (0, -1, -1, b"key", b"a"),
        (1, -1, -1, None, None),
        (2, -1, -1, b"k", b"c"),
        (3, -1, -1, None, b"d"),
        (4, 1, 0, None, b"e"),
    ]
    assert [part.next_fetch_offset, part.take(), part.next_fetch_offset] == [5, [], 5]
    message, failure = from_record(found[0], origin_headers("t", 0), Rules(), 0.0)
    assert (message.body, failure, message.header(TIMESTAMP)) == (b"a", None, None)
    old: Any = _PartitionRecords(1, PLACE, MemoryRecords(first_format(0, None, b"a") + first_format(1, None, b"b")))
    assert [each.value for each in old.take()] == [b"b"]
    assert [old.take(), old.next_fetch_offset] == [[], 2], "the end of a fetch in the first format is its last message"
    harmed = bytearray(first_format(0, None, b"a"))
    harmed[-1] ^= 1
    raised = read(_PartitionRecords, bytes(harmed))[1]
    assert raised is not None
    assert raised == read(Fetcher.PartitionRecords, bytes(harmed))[1]


def test_a_header_name_that_is_no_text_is_handed_out_as_such() -> None:
    found = [Record(b"1", None, [("ab", b"v")], None, 1), Record(b"2", None, [], None, 2)]
    (batch,) = ours(found, 2**20)
    builder: Any = batch._builder
    builder._buffer = builder._buffer.replace(b"ab", b"\xff\xfe")
    part: Any = _PartitionRecords(0, PLACE, MemoryRecords(closed([batch])[0]))
    bad, good = part.take()
    name, value = bad.headers[0]
    assert isinstance(name, BadName)
    assert (name.raw, value) == (b"\xff\xfe", b"v")
    assert (good.value, good.offset) == (b"2", 1)
