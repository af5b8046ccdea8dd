"""``mgw tap``: the messages of a job, seen while it carries them, between queues of the broker inside the process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.runtime import taps as taps_module
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.ends.link_source import LinkSource
from mgw.gateway.runtime.job_steps import Lookers, See
from mgw.gateway.runtime.pruning import Pruning
from mgw.gateway.runtime.taps import MAX_HELD, Seen, Watch, described
from mgw.gateway.services.lookup import NotFound
from mgw.gateway.services.tap import OpenTap
from mgw.gateway.state import catalog
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import ConfigInvalid, HubUnavailable
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.matrix, pytest.mark.postgresql])])
def gateway(request: pytest.FixtureRequest, tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(f"tap_{uuid.uuid4().hex}")
    with gateway_on(url) as gateway:
        admin = gateway.admin
        admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        for name in ("SRC", "DST", "BAD"):
            broker.queue(name)
            admin.register_foreign_queue(name, "mem")
        gateway.queue("H")
        gateway.queue("H2")
        yield gateway
    if request.param == "postgresql":
        server.drop_database(url.rpartition("/")[2])


JOBS: dict[str, tuple[str, str, str]] = {
    "inbound": ("INBOUND", "SRC@mem", "H"),
    "outbound": ("OUTBOUND", "H", "DST@mem"),
    "through": ("THROUGH", "SRC@mem", "DST@mem"),
    "local": ("LOCAL", "H", "H2"),
}


def send(gateway: Gateway, broker: MemoryBroker, source: str, *messages: Message) -> None:
    if source == "SRC@mem":
        broker.put("SRC", *messages)
    else:
        gateway.enqueue(source, messages)


def arrived(gateway: Gateway, broker: MemoryBroker, target: str) -> list[Any]:
    found = broker.queue("DST").messages if target == "DST@mem" else gateway.browse(target)
    return [message.body for message in found]


def read(tap: OpenTap, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        found.extend(tap.read())
        return len(found) >= count

    eventually(enough, what=f"{count} messages seen")
    return found


def began(tap: OpenTap) -> None:
    eventually(lambda: tap.read() == [] and tap.began, what="the job shows its messages")


def let_die(hub: Hub) -> None:
    """As if the command had not said for a while that it is there."""
    with hub.write() as conn:
        conn.execute(sa.text("UPDATE gw_tap SET until = 0"))
    eventually(lambda: not any(thread.name == "taps" for thread in threading.enumerate()))


def rows(hub: Hub) -> tuple[int, int]:
    with hub.read() as conn:
        taps, seen = (conn.execute(sa.text(f"SELECT COUNT(*) FROM {name}")) for name in ("gw_tap", "gw_tapped"))
        return int(taps.scalar_one()), int(seen.scalar_one())


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("changed", [True, False], ids=["transformed", "as it came"])
def test_messages_are_seen_before_and_after_and_delivered(
    gateway: Gateway, broker: MemoryBroker, kind: str, changed: bool
) -> None:
    gateway.admin.create_transformation("louder", "BASIC", "BASIC", {"set": {"header.loud": "'yes'"}})
    given: dict[str, Any] = {"transformation": "louder"} if changed else {}
    gateway.admin.create_job("j", *JOBS[kind], **given)
    _, source, target = JOBS[kind]
    with gateway.run():
        send(gateway, broker, source, Message(body="0"))
        eventually(lambda: len(arrived(gateway, broker, target)) == 1)
        with OpenTap(gateway.admin, "J", count=2) as tap:
            began(tap)
            send(gateway, broker, source, Message(body="1"), Message(body="2"))
            seen = read(tap, 2)
            eventually(lambda: tap.read() == [] and tap.over)
        assert [each["before"]["body"] for each in seen] == ["1", "2"]
        assert [[after["body"] for after in each["after"]] for each in seen] == [["1"], ["2"]]
        assert [each["after"][0].get("headers", {}).get("loud") for each in seen] == ["yes" if changed else None] * 2
        send(gateway, broker, source, Message(body="3"))
        eventually(lambda: arrived(gateway, broker, target) == ["0", "1", "2", "3"])
    assert rows(gateway.hub) == (0, 0)


def test_what_is_filtered_and_what_fails_is_seen(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_transformation("numbers", "BASIC", "BASIC", {"set": {"body": "TO_NUMBER(tab.user_data)"}})
    gateway.admin.create_job(
        "j", *JOBS["inbound"], rule="tab.priority < 9", transformation="numbers", exception_queue="BAD@mem"
    )
    with gateway.run(), OpenTap(gateway.admin, "j") as tap:
        began(tap)
        broker.put("SRC", Message(body="1", priority=9), Message(body="four"))
        filtered, failed = read(tap, 2)
        eventually(lambda: len(broker.queue("BAD").messages) == 1)
    assert filtered["filtered"] is True
    assert failed["failure"].startswith("[722]")


def test_a_job_without_a_tap_uses_its_short_ways_again(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taps: dict[type, list[tuple[bool, bool]]] = {LinkSource: [], HubSource: []}
    for end in (LinkSource, HubSource):
        original = end.tap

        def noted(self: Any, see: Any, original: Any = original) -> None:
            original(self, see)
            taps[type(self)].append((see is not None, self._fit is not None))

        monkeypatch.setattr(end, "tap", noted)
    gateway.admin.create_job("i", *JOBS["inbound"])
    gateway.admin.create_job("o", "OUTBOUND", "H2", "DST@mem")
    with gateway.run():
        for name in ("i", "o"):
            with OpenTap(gateway.admin, name) as tap:
                began(tap)
        for seen in taps.values():

            def ended(seen: list[tuple[bool, bool]] = seen) -> bool:
                return (True, False) in seen and seen[-1] == (False, True)

            eventually(ended)
            assert set(seen) == {(False, True), (True, False)}


def test_too_many_messages_are_counted_and_all_delivered(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j", per_second=2) as tap:
        began(tap)
        seen = 0

        def told() -> int:  # a tap lives only while its command reads
            nonlocal seen
            seen += len(tap.read())
            return seen + tap.missed

        broker.put("SRC", *(Message(body=str(number)) for number in range(200)))
        eventually(lambda: (told(), len(gateway.browse("H")))[1] == 200)
        eventually(lambda: told() == 200, what="200 are seen or missed")
        assert seen >= 2


def test_two_commands_look_at_one_job(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j") as one:
        with OpenTap(gateway.admin, "j") as other:
            began(one)
            began(other)
            broker.put("SRC", Message(body="1"))
            assert [len(read(tap, 1)) for tap in (one, other)] == [1, 1]
        broker.put("SRC", Message(body="2"))
        assert [each["before"]["body"] for each in read(one, 1)] == ["2"]


def test_a_job_that_is_altered_is_still_seen(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j") as tap:
        began(tap)
        gateway.admin.alter_job("j", poll_interval=0.5)
        broker.put("SRC", Message(body="1"))
        assert {each["before"]["body"] for each in read(tap, 1)} == {"1"}


def test_the_tap_of_a_command_that_was_killed_ends_by_itself(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run():
        began(OpenTap(gateway.admin, "j"))
        let_die(gateway.hub)
        with OpenTap(gateway.admin, "j"):
            assert rows(gateway.hub)[0] == 1


@pytest.mark.parametrize(("since", "kept"), [(4000.0, (0, 0)), (600.0, (1, 1))])
def test_what_a_command_that_was_killed_left_is_pruned_in_time(
    gateway: Gateway, since: float, kept: tuple[int, int]
) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    tap, now = OpenTap(gateway.admin, "j"), SYSTEM_CLOCK.now()
    with gateway.hub.write() as conn:
        catalog.keep_tapped(conn, tap._id, ["{}"], 0, now)
        catalog.prolong_tap(conn, tap._id, now - since, 0)
    Pruning(gateway.hub, "DEFAULT_AGENT", SYSTEM_CLOCK, threading.Event()).prune(None)
    assert rows(gateway.hub) == kept


def test_a_command_that_was_stopped_for_long_looks_again(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j") as tap:
        began(tap)
        let_die(gateway.hub)
        tap._until = 0.0
        tap.read()
        eventually(lambda: any(thread.name == "taps" for thread in threading.enumerate()))
        broker.put("SRC", Message(body="1"))
        assert [each["before"]["body"] for each in read(tap, 1)] == ["1"]


def test_messages_that_were_too_many_are_counted_once_where_a_job_stops_meanwhile(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run() as running, OpenTap(gateway.admin, "j", per_second=1) as tap:
        began(tap)
        seen = 0

        def all_told(count: int) -> bool:
            nonlocal seen
            seen += len(tap.read())
            return seen + tap.missed == count

        broker.put("SRC", *(Message(body=str(number)) for number in range(50)))
        eventually(lambda: all_told(50), what="50 are seen or missed")
        gateway.admin.disable_job("j")
        eventually(lambda: all_told(50) and not running.agent._taps._tapped)
        gateway.admin.enable_job("j")
        eventually(lambda: all_told(50) and running.agent._taps._tapped)
        broker.put("SRC", *(Message(body=str(number)) for number in range(50)))
        eventually(lambda: all_told(100), what="100 are seen or missed")


def test_what_an_ended_watch_saw_is_tried_again_while_the_hub_is_busy(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    refused: list[int] = []
    keep = catalog.keep_tapped

    def busy(conn: Any, tap_id: int, seen: Sequence[str], missed: int, now: float) -> bool:
        if seen and len(refused) < 3:
            refused.append(len(seen))
            raise HubUnavailable("the hub is busy")
        return keep(conn, tap_id, seen, missed, now)

    with gateway.run() as running, OpenTap(gateway.admin, "j") as tap:
        began(tap)
        taps = running.agent._taps
        (watch,) = taps._watches.values()
        monkeypatch.setattr(catalog, "keep_tapped", busy)
        with taps._lock:
            watch.see(Message(body="1"), (), None)
            taps._watches.clear()
            taps._ended.append(watch)
        assert [each["before"]["body"] for each in read(tap, 1)] == ["1"]
    assert refused == [1, 1, 1]


def test_a_job_that_is_removed_ends_its_tap(gateway: Gateway) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with OpenTap(gateway.admin, "j") as tap, gateway.run():
        began(tap)
        gateway.admin.remove_job("j", force=True)
        eventually(lambda: tap.read() == [] and tap.over)


def test_a_command_says_why_it_sees_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.services.tap._SAY_SECONDS", 0.0)
    gateway.admin.create_job("j", *JOBS["inbound"])
    with OpenTap(gateway.admin, "j") as tap:
        assert tap.silent_because() == "agent DEFAULT_AGENT is not running"
        gateway.admin.disable_job("j")
        with gateway.run():
            assert tap.silent_because() == "job j is disabled"


@pytest.mark.parametrize("given", [{"count": 0}, {"per_second": 0}, {"per_second": 1001}, {"size": 0}])
def test_numbers_out_of_range_are_refused(gateway: Gateway, given: dict[str, int]) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with pytest.raises(ConfigInvalid):
        OpenTap(gateway.admin, "j", **given)
    with pytest.raises(NotFound):
        OpenTap(gateway.admin, "nothing")


def test_a_message_that_cannot_be_shown_is_told_and_delivered(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(taps_module, "described")
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j") as tap:
        began(tap)
        broker.put("SRC", Message(body="1"))
        (seen,) = read(tap, 1)
        eventually(lambda: len(gateway.browse("H")) == 1)
    assert seen["before"] == {}
    assert seen["failure"].startswith("it cannot be shown: ")


@pytest.mark.parametrize("body", ['{"a": "\\ud800"}', '{"a": 1e999}'], ids=["surrogate", "infinite"])
def test_json_that_cannot_be_written_again_is_shown_as_text_and_the_tap_goes_on(
    gateway: Gateway, broker: MemoryBroker, body: str
) -> None:
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j") as tap:
        began(tap)
        broker.put("SRC", Message(body=body), Message(body="2"))
        assert [each["before"]["body"] for each in read(tap, 2)] == [body, "2"]


def test_text_that_cannot_be_stored_is_told_and_the_tap_goes_on(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = taps_module.described

    def spoilt(seen: Seen, size: int) -> dict[str, Any]:
        return original(seen, size) | ({"x": "\ud800"} if seen.message.body == "1" else {})

    monkeypatch.setattr(taps_module, "described", spoilt)
    gateway.admin.create_job("j", *JOBS["inbound"])
    with gateway.run(), OpenTap(gateway.admin, "j") as tap:
        began(tap)
        broker.put("SRC", Message(body="1"), Message(body="2"))
        one, two = read(tap, 2)
    assert one["failure"].startswith("it cannot be shown: ")
    assert two["before"]["body"] == "2"


def test_who_finds_that_a_watch_is_over_finds_all_that_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(catalog.Tap(1, 1, 0.0, 1000, 1, 10, None, 0), SYSTEM_CLOCK)
    over: list[bool] = []

    def weigh(bodies: list[Any]) -> int:
        over.append(watch.over)
        return len(bodies)

    monkeypatch.setattr(taps_module, "weight_of", weigh)
    watch.see(Message(body="1"), (), None)
    assert (over, watch.over, len(watch._seen)) == ([False], True, 1)


def test_an_attempt_that_begins_and_a_tap_do_not_miss_each_other() -> None:
    lookers = Lookers()
    told: list[See | None] = []

    def see(message: Message, results: Sequence[Message], error: Exception | None) -> None:
        """Somebody."""

    lookers.tap(see)
    lookers.follow(told.append)
    lookers.tap(None)
    lookers.follow(told.append)
    assert told == [see, None, None]


# -- what is shown -----------------------------------------------------------------------------------------------------


def shown(message: Message, size: int = 10) -> dict[str, Any]:
    found = described(Seen(0.0, message, (), None), size)["before"]
    assert isinstance(found, dict)
    return found


def test_headers_with_names_of_secrets_are_hidden() -> None:
    names = ("Authorization", "x-api-key", "db_password", "session_token", "tenant")
    headers = tuple(Header(name, ValueType.TEXT, "v") for name in names)
    hidden = dict.fromkeys(names[:-1], "***") | {"tenant": "v"}
    assert shown(Message(headers=headers))["headers"] == hidden
    assert shown(Message(body=headers, kind=PayloadKind.FIELDS))["fields"] == hidden


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("0123456789", {"body": "0123456789"}),
        ("0123456789a", {"body": "0123456789", "body_cut": "11 characters in all"}),
        ("ä" * 6, {"body": "ä" * 6}),
        (("ä" * 6).encode() + b"!", {"body": "äääää", "body_cut": "13 bytes in all"}),
        (("ä" * 4).encode() + "€€".encode(), {"body": "ääää", "body_cut": "14 bytes in all"}),
        (b"\xff" * 11, {"body_hex": "ff" * 5 + "... (20 characters in all)", "body_cut": "11 bytes in all"}),
        ('{"a": "0123456789a"}', {"body": '{"a": "012', "body_cut": "20 characters in all"}),
    ],
)
def test_long_bodies_are_cut(body: str | bytes, values: dict[str, str]) -> None:
    assert shown(Message(body=body)) == values


def test_what_waits_to_be_written_is_bounded() -> None:
    watch = Watch(catalog.Tap(1, 1, 0.0, 1000, 2**62, 10, None, 0), SYSTEM_CLOCK)
    heavy = Message(body=b"x" * (MAX_HELD // 4))
    for _ in range(10):
        watch.see(heavy, (heavy,), None)
    held = len(watch.take())
    assert held + watch.missed == 10
    assert held <= 3
    watch.see(heavy, (), None)
    assert len(watch.take()) == 1


def test_small_messages_that_wait_to_be_written_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taps_module, "MAX_WAITING", 3)
    watch = Watch(catalog.Tap(1, 1, 0.0, 1000, 2**62, 10, None, 0), SYSTEM_CLOCK)
    for _ in range(10):
        watch.see(Message(), (), None)
    assert (len(watch.take()), watch.missed) == (3, 7)
