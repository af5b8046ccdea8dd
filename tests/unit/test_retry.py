"""When a failed job tries again, when it gives up, and when it has recovered."""

from __future__ import annotations

import pytest

from mgw.gateway.definitions.objects import JobDef, JobStatus
from mgw.gateway.runtime.retry import (
    MAX_AWAY_DELAY,
    MAX_DELAY,
    MAX_FAILURES,
    MAX_TURN_DELAY,
    Kind,
    Setbacks,
    decide,
    kind_of,
)
from mgw.links.contract import Direction
from mgw.transforms.errors import (
    AqError,
    Blame,
    ConversionFailure,
    DeliveryRejected,
    GatewayError,
    HubError,
    HubFull,
    HubUnavailable,
    HubVersionMismatch,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)

FAULT = ConversionFailure("no JSON")
AWAY = LinkUnavailable("broker is away")


def job(**options: str) -> JobDef:
    return JobDef(1, "J", "A", "L", Direction.INBOUND, "Q@L", "H", options=options)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LinkUnavailable("connection refused"), Kind.AWAY),
        (LinkTimeout("no answer"), Kind.AWAY),
        (LinkRefused("wrong password"), Kind.AWAY),
        (HubUnavailable("restarting"), Kind.AWAY),
        (HubFull("no space left"), Kind.AWAY),
        (DeliveryRejected("the queue is full").blamed(Blame.FULL), Kind.AWAY),
        (DeliveryRejected("no queue is bound"), Kind.FAULT),
        (ConversionFailure("no JSON"), Kind.FAULT),
        (AqError("queue H is not enabled for enqueue", number=25207), Kind.FAULT),
        (QueueMissing("no such queue"), Kind.FAULT),
        (LinkError("fenced"), Kind.FAULT),
        (HubError("damaged"), Kind.FAULT),
        (GatewayError("requires exact"), Kind.FAULT),
        (RuntimeError("ours"), Kind.FAULT),
        (PositionLost("offset is gone", number=415), Kind.HOPELESS),
        (GatewayError("log is ahead", number=416), Kind.HOPELESS),
        (GatewayError("records are missing", number=417), Kind.HOPELESS),
        (GatewayError("no connection", number=421), Kind.TURN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_failure_has_a_kind(error: Exception, kind: Kind) -> None:
    assert kind_of(error) is kind
    assert kind_of(error, documented=True) is (Kind.FAULT if kind is Kind.AWAY else kind)


@pytest.mark.parametrize(
    ("given", "expected"), [({}, [2, 4, 8, 16, 32, 60]), ({"retry_max_delay": "10"}, [2, 4, 8, 10, 10, 10])]
)
def test_longest_delay_of_a_broker_that_is_away_is_the_option_of_the_job(
    given: dict[str, str], expected: list[float]
) -> None:
    setbacks = Setbacks(job(**given))
    delays = [setbacks.add(AWAY).delay or 0 for _ in expected]
    assert all(0.9 * most <= delay <= most for delay, most in zip(delays, expected, strict=True))
    other = Setbacks(job(**given))
    assert [round(other.add(FAULT).delay or 0, -3) for _ in range(12)][-1] == 2000  # a fault waits as before


@pytest.mark.parametrize(("error", "documented"), [(FAULT, False), (AWAY, True), (HubUnavailable("away"), True)])
def test_delays_double_from_two_seconds_to_thirty_minutes(error: Exception, documented: bool) -> None:
    delays = [decide(n, error, jitter=0, documented=documented).delay for n in range(1, MAX_FAILURES)]
    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1800, 1800, 1800, 1800, 1800]


@pytest.mark.parametrize(("error", "documented"), [(FAULT, False), (HubVersionMismatch("newer"), False), (AWAY, True)])
def test_the_sixteenth_failure_is_the_last(error: Exception, documented: bool) -> None:
    assert decide(15, error, documented=documented).status is JobStatus.RETRY
    last = decide(16, error, documented=documented)
    assert (last.status, last.delay) == (JobStatus.FAILED, None)


def test_retry_forever_keeps_going_at_the_longest_delay() -> None:
    decision = decide(40, FAULT, forever=True, jitter=0)
    assert (decision.status, decision.delay) == (JobStatus.RETRY, MAX_DELAY)


@pytest.mark.parametrize(("jitter", "delay"), [(-1.0, 7.2), (1.0, 8.8)])
def test_jitter_spreads_a_delay_by_a_tenth(jitter: float, delay: float) -> None:
    assert decide(3, FAULT, jitter=jitter).delay == pytest.approx(delay)


def test_drawn_jitter_stays_within_a_tenth() -> None:
    delays = [decide(5, FAULT).delay or 0 for _ in range(200)]
    assert min(delays) >= 32 * 0.9
    assert max(delays) <= 32 * 1.1
    assert len(set(delays)) > 100


@pytest.mark.parametrize("error", [AWAY, LinkRefused("wrong password"), HubFull("no space left")])
def test_what_cannot_be_reached_is_tried_again_every_minute_for_ever(error: Exception) -> None:
    delays = [decide(n, error, jitter=-1).delay for n in (1, 2, 3, 4, 5, 6, 400)]
    assert delays == [2, 4, 8, 16, 32, MAX_AWAY_DELAY, MAX_AWAY_DELAY]
    assert decide(400, error).status is JobStatus.RETRY
    assert 1.8 <= (decide(1, error, jitter=1).delay or 0) <= 2, "the jitter never makes it later than that"


def test_a_broker_that_has_just_come_back_is_given_time_to_get_ready() -> None:
    assert decide(9, AWAY, settling=True, jitter=-1).delay == 2
    assert decide(9, LinkRefused("wrong password"), settling=True, jitter=-1).delay == MAX_AWAY_DELAY


def test_an_attempt_that_waited_in_vain_is_repeated_soon() -> None:
    assert decide(9, LinkTimeout("no answer"), waited=10, jitter=-1).delay == 2
    assert decide(9, LinkTimeout("no answer"), waited=0.1, jitter=-1).delay == MAX_AWAY_DELAY


def test_a_lost_position_fails_the_job_at_once_even_with_retry_forever() -> None:
    decision = decide(1, PositionLost("offset is gone", number=415), forever=True)
    assert decision.status is JobStatus.FAILED


def test_a_job_without_a_free_connection_waits_its_turn_for_ever() -> None:
    decision = decide(40, GatewayError("no connection", number=421), jitter=0)
    assert (decision.status, decision.delay) == (JobStatus.RETRY, MAX_TURN_DELAY)


# --------------------------------------------------------------------------------------------------- failures in a row


def test_a_job_whose_broker_was_away_for_long_does_not_fail_at_its_first_bad_message() -> None:
    setbacks = Setbacks(job())
    assert [setbacks.add(AWAY).failures for _ in range(40)] == list(range(1, 41))
    assert setbacks.away
    decision = setbacks.add(FAULT)
    assert (decision.failures, decision.status) == (1, JobStatus.RETRY)


def test_a_broker_that_is_away_between_two_bad_messages_forgives_none() -> None:
    setbacks = Setbacks(job())
    seen = [setbacks.add(error).failures for error in (FAULT, AWAY, AWAY, FAULT, AWAY, FAULT)]
    assert seen == [1, 1, 2, 2, 1, 3]
    assert [setbacks.add(FAULT).status for _ in range(13)][-2:] == [JobStatus.RETRY, JobStatus.FAILED]


def test_the_documented_policy_counts_every_failure() -> None:
    setbacks = Setbacks(job(retry_policy="documented"))
    assert [setbacks.add(error).failures for error in (FAULT, AWAY, HubUnavailable("away"))] == [1, 2, 3]
    assert [setbacks.add(AWAY).status for _ in range(13)][-1] is JobStatus.FAILED


def test_an_empty_look_after_a_connect_is_no_recovery() -> None:
    setbacks = Setbacks(job())
    assert not setbacks.over(True, 100), "nothing to recover from"
    setbacks.add(FAULT)
    setbacks.rested(30)
    assert not setbacks.over(False, 0)
    assert not setbacks.over(False, 30)
    assert setbacks.over(False, 30.1)
    assert setbacks.over(True, 0)
    setbacks.clear()
    assert not setbacks
    assert setbacks.add(FAULT).failures == 1


def test_a_short_delay_does_not_make_a_short_look_a_recovery() -> None:
    setbacks = Setbacks(job())
    setbacks.add(FAULT)
    setbacks.rested(2)
    assert not setbacks.over(False, 4)
    assert setbacks.over(False, 6)


def test_a_job_that_was_changed_while_it_failed_counts_anew_and_still_has_to_recover() -> None:
    setbacks = Setbacks(job())
    setbacks.resume(must_recover=True)
    assert setbacks
    assert setbacks.over(True, 0)
    assert setbacks.add(FAULT).failures == 1
