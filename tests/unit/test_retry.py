"""When a failed job tries again, and when it gives up."""

from __future__ import annotations

import pytest

from gateway.model import JobStatus
from gateway.retry import MAX_DELAY, MAX_FAILURES, MAX_HUB_DELAY, decide
from transforms.errors import GatewayError, HubFull, HubVersionMismatch, LinkUnavailable, PositionLost

ERROR = LinkUnavailable("broker is away")


def test_delays_double_from_two_seconds_to_thirty_minutes() -> None:
    delays = [decide(n, ERROR, jitter=0).delay for n in range(1, MAX_FAILURES)]
    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1800, 1800, 1800, 1800, 1800]


def test_the_sixteenth_failure_is_the_last() -> None:
    assert decide(15, ERROR).status is JobStatus.RETRY
    last = decide(16, ERROR)
    assert (last.status, last.delay) == (JobStatus.FAILED, None)


def test_retry_forever_keeps_going_at_the_longest_delay() -> None:
    decision = decide(40, ERROR, forever=True, jitter=0)
    assert (decision.status, decision.delay) == (JobStatus.RETRY, MAX_DELAY)


@pytest.mark.parametrize(("jitter", "delay"), [(-1.0, 7.2), (1.0, 8.8)])
def test_jitter_spreads_a_delay_by_a_tenth(jitter: float, delay: float) -> None:
    assert decide(3, ERROR, jitter=jitter).delay == pytest.approx(delay)


def test_drawn_jitter_stays_within_a_tenth() -> None:
    delays = [decide(5, ERROR).delay or 0 for _ in range(200)]
    assert min(delays) >= 32 * 0.9
    assert max(delays) <= 32 * 1.1
    assert len(set(delays)) > 100


def test_a_hub_that_is_away_is_tried_again_every_half_minute_for_ever() -> None:
    decision = decide(40, HubFull("no space left"), jitter=0)
    assert (decision.status, decision.delay) == (JobStatus.RETRY, MAX_HUB_DELAY)
    assert decide(16, HubVersionMismatch("newer")).status is JobStatus.FAILED


def test_a_lost_position_fails_the_job_at_once_even_with_retry_forever() -> None:
    decision = decide(1, PositionLost("offset is gone", number=415), forever=True)
    assert decision.status is JobStatus.FAILED


def test_a_job_without_a_free_connection_waits_its_turn_for_ever() -> None:
    decision = decide(40, GatewayError("no connection", number=421), jitter=0)
    assert (decision.status, decision.delay) == (JobStatus.RETRY, MAX_HUB_DELAY)
