"""The exception desk of jobs whose exception queue is in the hub: nothing is doubled, lost or out of order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mgw.gateway.services.audit_words import has_event, told
from mgw.gateway.services.exceptions import EVERYTHING, Change, DeskRefused, Outcome, Pace, Which, desk_of, journal
from mgw.gateway.services.generations import generations
from mgw.gateway.services.happenings import audit
from mgw.gateway.services.lookup import NotFound
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AqError
from mgw.transforms.message import Header, Message, ValueType
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

__all__ = ["hub_url", "hubs"]  # fixtures

TRANSFORMATION = {"set": {"header.celsius": "(tab.user_data.f - 32) / 1.8"}}
GIVEN = [f'{{"f":"hot {number}"}}' for number in range(3)]
TENANT = Header("tenant", ValueType.TEXT, "a")


@pytest.fixture(params=[False, True], ids=["one-consumer", "subscribers"])
def subscribers(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def gateway(hub_url: str, broker: MemoryBroker, subscribers: bool) -> Iterator[Gateway]:
    """Three messages of job ``out`` are in exception queue BAD."""
    with gateway_on(hub_url) as gateway:
        broker.queue("DST")
        gateway.queue("Q", multiple_consumers=subscribers)
        gateway.queue("BAD")
        if subscribers:
            gateway.queues.add_subscriber("Q", "OTHER")
        gateway.admin.create_transformation("celsius", "BASIC", "BASIC", TRANSFORMATION)
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("DST", "mem")
        gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem", transformation="celsius", exception_queue="BAD")
        sent = [Message(body=body, headers=(TENANT,), correlation=body[-3], expiration=3600) for body in GIVEN]
        gateway.enqueue("Q", sent)
        with gateway.run():
            eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == 3)
        yield gateway


def bodies(messages: list[Message]) -> list[object]:
    return [message.body for message in messages]


def replayed(gateway: Gateway, which: Which = EVERYTHING, *, limit: int | None = None, dry: bool = False) -> Outcome:
    return desk_of(gateway.admin, "out").replay(which, by="me", limit=limit, pace=Pace(None), dry=dry)


def waiting(gateway: Gateway) -> list[Message]:
    """What the job would take."""
    several = any(queue.multiple_consumers for queue in gateway.queues.queue_tables() if queue.name == "Q_QT")
    return gateway.browse("Q", "MGW_out" if several else None)


def test_an_entry_tells_reason_and_identity(gateway: Gateway) -> None:
    first, *others = desk_of(gateway.admin, "OUT").entries(EVERYTHING)
    assert len(others) == 2
    reason = first.reason
    assert (first.message.body, first.job, reason.job, reason.origin) == (GIVEN[0], "out", "out", "Q")
    assert reason.number == 722
    assert "celsius" in reason.text
    assert reason.time is not None
    assert reason.msgid == first.message.original_msgid
    assert reason.key == f"AQMSGID:{(reason.msgid or b'').hex()}"
    assert reason.expiration == pytest.approx(3600)


def test_replay_puts_messages_back_as_they_were_and_in_order(gateway: Gateway) -> None:
    before = [entry.message for entry in desk_of(gateway.admin, "out").entries(EVERYTHING)]
    outcome = replayed(gateway)
    assert outcome.numbers == {"done": 3, "gone": 0, "failed": 0}
    assert outcome.reasons == {"722": 3}
    assert gateway.browse("BAD") == []
    found = waiting(gateway)
    assert bodies(found) == GIVEN
    assert [message.headers for message in found] == [(TENANT,)] * 3
    assert [message.correlation for message in found] == [message.correlation for message in before]
    assert [message.original_msgid for message in found] == [message.original_msgid for message in before]
    assert all(message.expires_at is not None for message in found)
    (told,) = [text for text in gateway.events() if "replayed from" in text]
    assert "job out: 3 message(s) replayed from" in told
    assert "by me" in told
    assert all(each in told for each in outcome.done)


def test_other_subscribers_get_no_second_copy(gateway: Gateway) -> None:
    replayed(gateway)
    assert bodies(waiting(gateway)) == GIVEN
    if "OTHER" in {subscriber.name for subscriber in gateway.queues.queue_subscribers()}:
        assert bodies(gateway.browse("Q", "OTHER")) == GIVEN


def test_the_job_delivers_what_is_replayed_once_the_cause_is_gone(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.alter_job("out", transformation=None)
    replayed(gateway)
    with gateway.run():
        eventually(lambda: len(broker.queue("DST").messages) == 3)
    assert [message.body for message in broker.queue("DST").messages] == GIVEN
    assert gateway.browse("BAD") == []


def test_a_dry_run_changes_nothing(gateway: Gateway) -> None:
    assert len(replayed(gateway, dry=True).done) == 3
    assert len(gateway.browse("BAD")) == 3
    assert waiting(gateway) == []
    assert not any("replayed" in text for text in gateway.events())


@pytest.mark.parametrize(
    ("which", "count"),
    [
        (Which(number=722), 3),
        (Which(number=724), 0),
        (Which(reason="celsius"), 3),
        (Which(reason="no such reason"), 0),
        (Which(reason="*CELSIUS*"), 3),
        (Which(before=1), 0),
        (Which(since=1), 3),
        (Which(ids=["00"]), 0),
    ],
)
def test_filters_choose(gateway: Gateway, which: Which, count: int) -> None:
    assert len(replayed(gateway, which, dry=True).done) == count


def test_one_by_its_id(gateway: Gateway) -> None:
    entries = list(desk_of(gateway.admin, "out").entries(EVERYTHING))
    outcome = replayed(gateway, Which(ids=[entries[1].id.upper()]))
    assert outcome.done == [entries[1].id]
    assert bodies(waiting(gateway)) == [GIVEN[1]]
    assert bodies(gateway.browse("BAD")) == [GIVEN[0], GIVEN[2]]


def test_a_limit_takes_the_first(gateway: Gateway) -> None:
    replayed(gateway, limit=2)
    assert bodies(waiting(gateway)) == GIVEN[:2]


def test_a_source_that_takes_nothing_leaves_all_where_it_is(gateway: Gateway) -> None:
    gateway.queues.stop_queue("Q", enqueue=True, dequeue=False)
    for _ in range(3):
        with pytest.raises(AqError, match="not enabled for enqueue"):
            replayed(gateway)
    assert bodies(gateway.browse("BAD")) == GIVEN
    assert [message.attempts for message in gateway.browse("BAD")] == [0, 0, 0]


def test_discard_removes_and_tells(gateway: Gateway) -> None:
    outcome = desk_of(gateway.admin, "out").discard(EVERYTHING, by="me", limit=1, pace=Pace(None), dry=False)
    assert bodies(gateway.browse("BAD")) == GIVEN[1:]
    assert waiting(gateway) == []
    assert any("discarded by me: " + outcome.done[0] in text for text in gateway.events())
    (kept,) = audit(gateway.hub, 1)
    assert (kept.actor, told(kept)) == ("me", "discard exceptions out (in BAD, limit: 1): 1 message deleted")
    assert kept.before_change == {"exception_queue": "BAD", "limit": 1, "messages": outcome.done}


def test_the_audit_of_several_batches_says_what_was_wanted_what_was_done_and_how_it_ended(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_IDS", 2)  # messages in an entry
    desk, seen = desk_of(gateway.admin, "out"), audit(gateway.hub, 1)[0].id
    which = Which(reason="*", since=0.0)
    outcome = desk.replay(which, by="me", limit=None, pace=Pace(1, lambda _: None), dry=False)
    begin, first, second, end = reversed(audit(gateway.hub, 9, after=seen))
    wanted = "rate: 1, reason: *, since: 1970-01-01T00:00:00.000+00:00"
    assert told(begin) == f"begin replay of exceptions out (in BAD, {wanted}, to: Q)"
    assert told(first) == f"replay exceptions out (in BAD, begun: {begin.id}): 2 messages moved to queue Q"
    assert told(second) == f"replay exceptions out (in BAD, begun: {begin.id}): 1 message moved to queue Q"
    assert told(end) == f"end replay of exceptions out (in BAD, begun: {begin.id}): 3 replayed"
    assert {each.actor for each in (begin, first, second, end)} == {"me"}
    named = [each.before_change["messages"] for each in (first, second) if each.before_change]
    assert [*named[0], *named[1]] == outcome.done
    assert [has_event(each) for each in (begin, first, second, end)] == [False, True, True, False]
    assert not generations(gateway.hub, 9)[0].what.startswith("begin"), "it is no change of the definitions"


def test_the_audit_has_what_was_done_until_the_process_was_killed(gateway: Gateway) -> None:
    def killed(_: float) -> None:
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(1)

    done: list[int] = []
    desk, seen = desk_of(gateway.admin, "out"), audit(gateway.hub, 1)[0].id
    with pytest.raises(KeyboardInterrupt):
        desk.discard(EVERYTHING, by="me", limit=None, pace=Pace(1, killed), dry=False)
    begin, kept = reversed(audit(gateway.hub, 9, after=seen))
    assert told(begin) == "begin discard of exceptions out (in BAD, rate: 1)"
    assert told(kept) == f"discard exceptions out (in BAD, begun: {begin.id}): 2 messages deleted"
    assert bodies(gateway.browse("BAD")) == GIVEN[2:]


def test_the_audit_tells_why_several_batches_ended_early(gateway: Gateway) -> None:
    def stop(_: float) -> None:
        gateway.queues.stop_queue("Q", enqueue=True, dequeue=False)

    desk, seen = desk_of(gateway.admin, "out"), audit(gateway.hub, 1)[0].id
    desk.replay(EVERYTHING, by="me", limit=None, pace=Pace(1, stop), dry=False)
    found = [told(each) for each in audit(gateway.hub, 9, after=seen) if each.kind == "exceptions"]
    assert found[0].partition("): ")[2].startswith("1 replayed, stopped: ORA-25207: ")
    assert len(found) == 3


def test_an_edited_message_keeps_its_reason_and_place(gateway: Gateway) -> None:
    desk = desk_of(gateway.admin, "out")
    first = next(desk.entries(EVERYTHING))
    edited = desk.edit(first.id, Change(body=b'{"f":212}', put=(Header("by", ValueType.TEXT, "me"),)), by="me")
    assert edited.id != first.id
    with pytest.raises(DeskRefused, match="is not in exception queue"):
        desk.edit(first.id, Change(body=b"x"), by="me")
    again = next(desk.entries(EVERYTHING))
    assert (again.id, again.message.body) == (edited.id, '{"f":212}')
    assert "body, header by by me" in again.reason.edited
    assert (again.reason.number, again.reason.msgid) == (first.reason.number, first.reason.msgid)
    assert any("edited by me" in text and first.id in text for text in gateway.events())
    replayed(gateway)
    replay, edit = audit(gateway.hub, 2)
    assert (edit.actor, edit.action, edit.object, replay.actor) == ("me", "edit exceptions", "out", "me")
    assert edit.before_change == {"exception_queue": "BAD", "message": first.id}
    assert edit.after_change is not None
    assert edit.after_change["message"] == edited.id
    assert told(replay) == "replay exceptions out (in BAD): 3 messages moved to queue Q"
    assert bodies(waiting(gateway)) == ['{"f":212}', *GIVEN[1:]]
    assert waiting(gateway)[0].header("by") == "me"
    assert waiting(gateway)[0].header("MGW_error_edited") is None


def test_what_is_no_edit_is_refused(gateway: Gateway) -> None:
    desk = desk_of(gateway.admin, "out")
    first = next(desk.entries(EVERYTHING))
    for change, words in (
        (Change(), "nothing to edit"),
        (Change(body=b"\xff"), "not UTF-8 text"),
        (Change(remove=["MGW_error"]), "cannot be edited"),
    ):
        with pytest.raises(DeskRefused, match=words):
            desk.edit(first.id, change, by="me")


def test_a_rate_is_kept(gateway: Gateway) -> None:
    slept: list[float] = []
    desk = desk_of(gateway.admin, "out")
    desk.replay(EVERYTHING, by="me", limit=None, pace=Pace(2, slept.append), dry=False)
    assert slept == [1.0]
    assert bodies(waiting(gateway)) == GIVEN


def test_a_job_without_an_exception_queue_says_so(gateway: Gateway) -> None:
    gateway.admin.alter_job("out", exception_queue=None)
    with pytest.raises(DeskRefused, match=r"has no exception queue.*mgw jobs alter out --exception-queue"):
        desk_of(gateway.admin, "out")
    with pytest.raises(NotFound, match="did you mean 'out'"):
        desk_of(gateway.admin, "oud")
