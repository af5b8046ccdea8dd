"""Record batches for Kafka: ours are what the client's would be, byte for byte, and go to the same partitions."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec
from kafka.partitioner import DefaultPartitioner
from kafka.partitioner import murmur2 as the_clients
from kafka.record.memory_records import MemoryRecordsBuilder

from mgw.links.kafka.python_client.partitions import murmur2, spread
from mgw.links.kafka.python_client.record_batch import RecordBatch, record_content, varint
from mgw.transforms.kafka import MESSAGE_ID, Record

CODECS = [0, 1] + [
    number for number, name in ((2, "snappy"), (3, "lz4"), (4, "zstd")) if getattr(codec, f"has_{name}")()
]
fields = st.none() | st.binary(max_size=40) | st.integers(60, 300).map(lambda size: b"x" * size)
headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), fields), max_size=5)
headers |= st.lists(st.tuples(st.just(MESSAGE_ID), st.binary(min_size=15, max_size=17)), min_size=1, max_size=2)
times = st.integers(1_700_000_000_000, 1_700_000_005_000) | st.integers(-1, 2**62)
records = st.builds(Record, fields, fields, headers, st.none(), times)  # type: ignore[arg-type]


def ours(found: Sequence[Record], size: int, compression: int = 0) -> list[RecordBatch]:
    written = [(each.timestamp or 0, record_content(each.value, each.key, each.headers)) for each in found]
    batches, start = [], 0
    while start < len(written):
        batches.append(RecordBatch(2, compression, size))
        start, before = batches[-1].extend(written, start), start
        assert start > before
    return batches


def theirs(found: Sequence[Record], size: int, compression: int = 0) -> list[MemoryRecordsBuilder]:
    batches: list[MemoryRecordsBuilder] = []
    for each in found:
        taken = batches and batches[-1].append(each.timestamp, each.key, each.value, each.headers)
        if not taken:
            batches.append(MemoryRecordsBuilder(2, compression, size))
            batches[-1].append(each.timestamp, each.key, each.value, each.headers)
    return batches


def closed(batches: Iterable[Any], *, transactional: bool = False) -> list[bytes]:
    """What is sent; gzip writes the second into its header, which is the same for all of them."""
    found = []
    with patch.object(gzip, "time", SimpleNamespace(time=lambda: 1_700_000_000.0)):
        for number, batch in enumerate(batches):
            batch.set_producer_state(4711, 3, number, transactional)
            batch.close()
            found.append(bytes(batch.buffer()))
    return found


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_written_as_kafka_reads_them(number: int) -> None:
    from kafka.record.util import decode_varint

    assert decode_varint(varint(number)) == (number, len(varint(number)))


@given(st.lists(records, max_size=40), st.integers(100, 50_000), st.booleans(), st.sampled_from(CODECS))
def test_batches_are_those_of_the_client_byte_for_byte(
    found: list[Record], size: int, transactional: bool, compression: int
) -> None:
    mine, other = ours(found, size, compression), theirs(found, size, compression)
    assert [batch.next_offset() for batch in mine] == [batch.next_offset() for batch in other]
    assert [batch.is_full() for batch in mine] == [batch.is_full() for batch in other]
    assert closed(mine, transactional=transactional) == closed(other, transactional=transactional)


def test_a_batch_of_thousands_of_records_counts_on() -> None:
    found = [Record(b"", None, [], None, 1_700_000_000_000 + 7 * number) for number in range(5000)]
    assert closed(ours(found, 2**20)) == closed(theirs(found, 2**20))


@pytest.mark.parametrize("size", [2047, 2048, 8191, 8192, 20_000, 1_048_575, 1_048_576, 2_000_000])
def test_long_keys_values_and_headers_are_written_alike(size: int) -> None:
    long = b"x" * size
    found = [Record(long, long, [("h" * size, long)], None, 1), Record(b"", None, [("h", long)] * 3, None, 1 + 2**40)]
    assert closed(ours(found, 2**25)) == closed(theirs(found, 2**25))


@given(st.lists(records, min_size=1, max_size=20), st.integers(1, 19), st.integers(200, 60_000))
def test_records_can_join_a_batch_that_has_some(found: list[Record], at: int, size: int) -> None:
    batch, start = RecordBatch(2, 0, size), 0
    for group in (found[:at], found[at:]):
        written = [(each.timestamp or 0, record_content(each.value, each.key, each.headers)) for each in group]
        end = batch.extend(written, 0) if written else 0
        start += end
        if end < len(written):
            break
    assert closed([batch])[0] == closed(theirs(found, size))[0]
    assert batch.extend([(0, b"")], 0) == 0, "a closed batch takes nothing"


@given(st.binary(max_size=70))
def test_a_key_has_the_hash_that_other_producers_give_it(key: bytes) -> None:
    assert murmur2(key) == the_clients(key)


class Cluster:
    """What the client knows of a topic."""

    def __init__(self, partitions: set[int], available: set[int]) -> None:
        self._partitions, self._available = partitions, available

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, _: str) -> set[int]:
        return self._partitions

    def available_partitions_for_topic(self, _: str) -> set[int]:
        return self._available


@given(
    st.sets(st.integers(0, 200), min_size=1, max_size=12),
    st.data(),
    st.lists(st.none() | st.binary(max_size=20), max_size=30),
)
def test_records_go_to_the_partitions_that_the_client_chooses(
    partitions: set[int], data: st.DataObject, keys: list[bytes | None]
) -> None:
    available = data.draw(st.sets(st.sampled_from(sorted(partitions))))
    cluster = Cluster(partitions, available)
    named = data.draw(st.lists(st.none() | st.sampled_from(sorted(partitions)), max_size=30))
    wanted = [*(Record(b"", key, [], None, 0) for key in keys), *(Record(b"", b"k", [], name, 0) for name in named)]
    found = spread(wanted, "t", cluster)
    assert sorted(index for places in found.values() for index in places) == list(range(len(wanted)))
    client = DefaultPartitioner()
    for partition, places in found.items():
        assert list(places) == sorted(places)
        for record in (wanted[index] for index in places):
            if record.partition is not None:
                assert partition == record.partition
            elif record.key is not None:
                assert partition == client.partition("t", None, record.key, None, None, cluster)
            else:
                assert partition in (available or partitions)


def test_records_without_a_key_are_spread_over_the_partitions_that_have_a_leader() -> None:
    found = spread([Record(b"", None, [], None, 0)] * 1000, "t", Cluster({0, 1, 2, 3}, {0, 2, 3}))
    assert set(found) == {0, 2, 3}
    assert all(200 < len(places) < 500 for places in found.values())


def test_a_partition_that_a_topic_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="no partition 7"):
        spread([Record(b"", None, [], 7, 0)], "t", Cluster({0}, {0}))
