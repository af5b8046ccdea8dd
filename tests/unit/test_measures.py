"""What jobs measure: buckets, and what workers say to their supervisor."""

from __future__ import annotations

import json

import pytest

from mgw.gateway.observe.measures import BATCH_BOUNDS, Histogram, JobMeasures, Measured, Measures, kept, merged
from mgw.gateway.runtime.origin import origin_of
from mgw.transforms.message import Header, Message, ValueType


def test_a_value_is_in_the_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram((1, 10))
    for value in (0.5, 1, 1.5, 10, 11, -3):
        histogram.observe(value)
    assert (histogram.counts, histogram.sum, histogram.count) == ([3, 2, 1], 24.0, 6)  # -3: a clock was set back


def worked(count: int) -> Measures:
    measures = Measures()
    job = measures.job(7)
    for _ in range(count):
        job.came(30, 300)
        job.took("read_to_stored", 100.0, 100.25)
        measures.transaction("store", 0.004)
    job.took("origin_to_confirmed", 0.0, 100.0)  # nobody knows when it began
    job.came(0, 0)  # nothing but positions
    job.resent += 2
    measures.connected("RABBIT")
    measures.failed("RABBIT")
    return measures


def test_what_workers_told_as_json_adds_up() -> None:
    told = [json.loads(json.dumps(worked(count).told())) for count in (1, 2)]
    found = Measured.of(merged([*told, {}]), {7: ("IN", "inbound"), 8: ("NEW", "inbound")}, ["RABBIT", "OTHER"])
    (job,) = found.jobs.values()
    assert list(found.jobs) == [("IN", "inbound")]
    assert (job.bytes, job.resent, job.batches.count, job.batches.sum) == (900, 4, 3, 90)
    assert job.batches.counts[BATCH_BOUNDS.index(30)] == 3
    assert job.stages["read_to_stored"].count == 3
    assert job.stages["read_to_stored"].sum == pytest.approx(0.75)
    assert job.stages["origin_to_confirmed"].count == 0
    assert {name: (link.connects, link.failures) for name, link in found.links.items()} == {"RABBIT": (2, 2)}
    assert {kind: histogram.count for kind, histogram in found.transactions.items()} == {"store": 3}


def test_what_is_told_is_not_changed_by_adding_to_it() -> None:
    told = worked(1).told()
    before = {what: list(numbers) for what, numbers in told.items()}
    merged([told, told])
    assert told == before


def test_jobs_that_are_gone_are_forgotten_and_transactions_stay() -> None:
    measures = worked(1)
    told = measures.told()
    assert kept(told, [8]).keys() == {"link RABBIT", "hub store"}
    assert kept(told, [7]) == told
    measures.keep([8])
    assert measures.told().keys() == {"link RABBIT", "hub store"}
    assert measures.job(7).told() == JobMeasures().told()


@pytest.mark.parametrize(
    ("headers", "enqueued", "origin"),
    [
        ((), None, 0.0),
        ((), 5.0, 5.0),
        ((Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_700_000_000_250),), 5.0, 1_700_000_000.25),
        ((Header("MGW_AMQP_timestamp", ValueType.DATE, 1_700_000_000.0),), None, 1_700_000_000.0),
        ((Header("MGW_AMQP_timestamp", ValueType.TEXT, "yesterday"),), 5.0, 5.0),
    ],
)
def test_a_message_began_when_it_was_published_else_when_it_came_into_the_hub(
    headers: tuple[Header, ...], enqueued: float | None, origin: float
) -> None:
    assert origin_of(Message(headers=headers, enqueue_time=enqueued)) == origin
