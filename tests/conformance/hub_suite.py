"""What every hub database must do: queues, sessions, order. Run by test_hub_sqlite.py and test_hub_postgresql.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import Agent, Dequeued, DequeueMode, DequeueOptions, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.sessions import dequeue
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.store.tables import State
from mgw.gateway.aq.upkeep import time_manager
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import AqError, HubClosed, HubError, HubVersionMismatch
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.support.kept_totals import differences
from tests.support.ready_hubs import application_url
from tests.support.waiting import eventually

NOW = 1_800_000_000.0


class ManualClock:
    """Wall-clock time moved by hand; waiting is real."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return time.monotonic()


class HubCase:
    """Fixtures and shorthands.

    The module that runs a suite gives the fixture ``hub_url``: a hub in which nothing is; where ``makes_its_hub`` is
    set, a database in which nothing is.
    """

    makes_its_hub = False

    clock: ManualClock
    hub: Hub
    admin: QueueAdmin

    @pytest.fixture(autouse=True)
    def _hub(self, hub_url: str) -> Iterator[None]:
        self.clock = ManualClock()
        self.url, self.application_url = hub_url, application_url(hub_url)
        with Hub.open(hub_url, create=True, clock=self.clock) as self.hub:
            self.admin = QueueAdmin(self.hub)
            yield
            # Whatever a test did with messages, the hub knows how many there are; unless nobody may open it any more.
            with suppress(HubClosed, HubVersionMismatch), self.hub.read() as conn:
                assert not differences(conn)

    def queue(self, name: str = "orders", *, table: dict[str, Any] | None = None, **settings: Any) -> str:
        """A started queue in a table of its own, ``<name>_t``."""
        self.admin.create_queue_table(f"{name}_t", **(table or {}))
        self.admin.create_queue(name, f"{name}_t", **settings)
        self.admin.start_queue(name)
        return name

    def topic(self, *subscribers: str, name: str = "events", **settings: Any) -> str:
        """A started multi-consumer queue with subscribers."""
        self.queue(name, table={"multiple_consumers": True}, **settings)
        for subscriber in subscribers:
            self.admin.add_subscriber(name, subscriber)
        return name

    def send(self, queue: str, *bodies: str, recipients: Any = (), **properties: Any) -> list[bytes]:
        """Enqueue texts and commit."""
        with self.hub.session() as session:
            messages = [Message(body, **properties) for body in bodies]
            ids = session.enqueue_array(queue, messages, recipients=recipients)
            session.commit()
        return ids

    def take(self, queue: str, consumer: str | None = None, **options: Any) -> list[Any]:
        """Bodies of everything that can be taken now."""
        with self.hub.session() as session:
            try:
                found = session.dequeue_array(queue, DequeueOptions(consumer, wait=0, **options), 1000)
            except AqError as error:
                if error.number != 25228:
                    raise
                return []
            session.commit()
        return [message.message.body for message in found]

    def fail(self, queue: str, consumer: str | None = None, times: int = 1) -> None:
        """Dequeue one message and roll back."""
        with self.hub.session() as session:
            for _ in range(times):
                session.dequeue(queue, DequeueOptions(consumer, wait=0))
                session.rollback()

    def view(self, table: str) -> list[dict[str, Any]]:
        """Rows of ``AQ$<table>``."""
        with self.hub.read() as conn:
            sql = f'SELECT * FROM "AQ${table.upper()}" ORDER BY "MSG_ID", "CONSUMER_NAME"'
            return [dict(row) for row in conn.exec_driver_sql(sql).mappings()]

    def states(self, table: str) -> list[str]:
        return [row["MSG_STATE"] for row in self.view(table)]

    def run_time(self, seconds: float = 0) -> time_manager.TimeManagerReport:
        """Let time pass and the time manager work."""
        self.clock.time += seconds
        return time_manager.run_once(self.hub)


def now(**options: Any) -> DequeueOptions:
    return DequeueOptions(wait=0, **options)


def body_of(found: Dequeued) -> Any:
    return found.message.body


def refused(number: int) -> Any:
    return pytest.raises(AqError, match=f"^ORA-{number:05d}: ")


class OpeningSuite(HubCase):
    """Creating and opening a hub database."""

    makes_its_hub = True

    def test_reopened_hub_has_the_same_identity(self) -> None:
        with Hub.open(self.url) as again:
            assert again.hub_id == self.hub.hub_id
            assert len(again.hub_id) == 8

    def test_hub_made_without_the_gateway_gets_its_tables_when_it_is_administered(self) -> None:
        with Hub.open(self.url) as hub, pytest.raises(HubError, match=r"lacks the tables of gateway.*create=True"):
            GatewayAdmin(hub)
        for number, admin in enumerate([GatewayAdmin(self.hub), GatewayAdmin(self.hub)]):
            admin.create_agent(f"A{number}")
        with open_hub(self.url) as hub:
            assert {"A0", "A1"} < {agent.name for agent in GatewayAdmin(hub).list_agents()}

    def test_newer_schema_version_is_refused(self) -> None:
        with self.hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_hub SET schema_version = 999")
        with pytest.raises(HubVersionMismatch, match=r"newer release.*version 999"):
            Hub.open(self.url)

    def test_parts_of_other_modules_are_made_once_and_checked(self) -> None:
        made: list[int] = []

        def create(conn: sa.Connection) -> None:
            made.append(1)
            conn.exec_driver_sql("CREATE TABLE gw_thing (id integer)")

        part = SchemaPart("thing", create)
        with pytest.raises(HubError, match=r"lacks the tables of thing.*mgw apply"):
            Hub.open(self.url, schemas=[part])
        for _ in range(2):
            Hub.open(self.url, create=True, schemas=[part]).close()
        assert made == [1]
        with self.hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_part SET version = 7")
        with pytest.raises(HubVersionMismatch, match="thing tables have version 7"):
            Hub.open(self.url, schemas=[part])

    def test_part_that_fails_leaves_nothing_behind(self) -> None:
        def create(conn: sa.Connection) -> None:
            conn.exec_driver_sql("CREATE TABLE gw_half (id integer)")
            raise RuntimeError("stop")

        with pytest.raises(RuntimeError):
            Hub.open(self.url, create=True, schemas=[SchemaPart("half", create)])
        with self.hub.read() as conn:
            assert "gw_half" not in sa.inspect(conn).get_table_names()

    def test_error_in_a_write_transaction_rolls_it_back(self) -> None:
        with pytest.raises(HubError, match="refused an operation"), self.hub.write() as conn:  # noqa: PT012
            conn.exec_driver_sql("UPDATE aq_counter SET value = 5000")
            conn.exec_driver_sql("SELECT * FROM there_is_no_such_table")
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT MAX(value) FROM aq_counter").scalar() != 5000


class AdminSuite(HubCase):
    """Queue tables, queues, subscribers."""

    def test_names_keep_their_case_and_compare_without_it(self) -> None:
        self.queue("Orders")
        assert self.admin.queue("ORDERS").name == "Orders"  # type: ignore[union-attr]
        with refused(24006):
            self.admin.create_queue("oRDERS", "Orders_T")
        with refused(24001):
            self.admin.create_queue_table("ORDERS_t")
        assert self.send("mgw.orders", "x")

    @pytest.mark.parametrize(
        ("name", "number"),
        [("x" * 123, 24019), ("", 25200), ("a.b.c", 25200), ("queue@link", 25200), ("AQ$_mine", 24079), ("a b", 25200)],
    )
    def test_bad_names_are_refused(self, name: str, number: int) -> None:
        with refused(number):
            self.admin.create_queue_table(name)

    def test_new_queue_is_stopped_in_both_directions(self) -> None:
        self.admin.create_queue_table("t")
        self.admin.create_queue("q", "t")
        with refused(25207):
            self.send("q", "x")
        with refused(25226):
            self.take("q")
        self.admin.start_queue("q", dequeue=False)
        self.send("q", "x")
        with refused(25226):
            self.take("q")

    def test_unknown_queue_is_refused(self) -> None:
        with refused(25205):
            self.send("missing", "x")
        with refused(24010):
            self.admin.start_queue("missing")

    def test_queue_is_dropped_only_when_stopped_and_table_only_when_empty(self) -> None:
        self.queue()
        self.send("orders", "x")
        with refused(24011):
            self.admin.drop_queue("orders")
        with refused(24012):
            self.admin.drop_queue_table("orders_t")
        self.admin.stop_queue("orders")
        self.admin.drop_queue("orders")
        self.admin.drop_queue_table("orders_t")
        assert self.admin.queues() == []
        assert self.admin.queue_tables() == []
        self.queue()
        assert self.take("orders") == []

    def test_forced_drop_takes_queues_along(self) -> None:
        self.topic("RED")
        self.send("events", "x")
        self.admin.drop_queue_table("events_t", force=True)
        assert self.admin.queues() == []
        assert self.admin.queue_subscribers() == []

    def test_exception_queue_cannot_take_enqueue_or_subscribers(self) -> None:
        self.topic()
        self.admin.create_queue("broken", "events_t", queue_type="EXCEPTION_QUEUE")
        with refused(24017):
            self.admin.start_queue("broken")
        with refused(24050):
            self.admin.add_subscriber("broken", "RED")
        with refused(25206):
            self.send("broken", "x")
        with refused(24074):
            self.admin.alter_queue("broken", max_retries=3)

    def test_alter_queue_changes_only_what_is_named(self) -> None:
        self.queue(max_retries=7, retry_delay=3)
        changed = self.admin.alter_queue("orders", retention_time=60, comment="kept")
        assert (changed.max_retries, changed.retry_delay, changed.retention_time) == (7, 3, 60)
        assert changed.comment == "kept"

    def test_subscribers_are_listed_with_their_rules(self) -> None:
        self.topic("RED")
        self.admin.add_subscriber("events", "GREEN", rule="priority < 2")
        self.admin.alter_subscriber("events", "green", rule="priority < 3")
        with refused(24034):
            self.admin.add_subscriber("events", "red")
        with refused(24035):
            self.admin.remove_subscriber("events", "BLUE")
        with pytest.raises(AqError, match="line 1"):
            self.admin.add_subscriber("events", "BLUE", rule="priority <")
        listed = [(s.name, s.rule) for s in self.admin.queue_subscribers("events")]
        assert listed == [("RED", None), ("GREEN", "priority < 3")]

    def test_single_consumer_queue_has_no_subscribers(self) -> None:
        self.queue()
        with refused(24039):
            self.admin.add_subscriber("orders", "RED")
        with refused(25256):
            self.take("orders", "RED")

    def test_removed_subscriber_loses_its_backlog_and_the_message_goes(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x")
        assert self.take("events", "RED") == ["x"]
        self.admin.remove_subscriber("events", "GREEN")
        self.run_time()
        assert self.view("events_t") == []


class OrderSuite(HubCase):
    """In which order messages come out."""

    def test_first_in_first_out_by_default(self) -> None:
        self.queue()
        self.send("orders", *(str(n) for n in range(50)), priority=3)
        assert self.take("orders") == [str(n) for n in range(50)]

    def test_smaller_priority_comes_first_and_may_be_negative(self) -> None:
        self.queue(table={"sort_list": "PRIORITY,ENQ_TIME"})
        for priority in (3, -5, 1, -5):
            self.send("orders", f"p{priority}", priority=priority)
        assert self.take("orders") == ["p-5", "p-5", "p1", "p3"]

    def test_enqueue_time_and_priority_orders_within_a_second(self) -> None:
        self.queue(table={"sort_list": "ENQ_TIME,PRIORITY"})
        for second, priority in ((0.1, 5), (0.4, 2), (1.2, 1)):
            self.clock.time = NOW + second
            self.send("orders", f"p{priority}", priority=priority)
        assert self.take("orders") == ["p2", "p5", "p1"]

    def test_message_enqueued_earlier_and_committed_later_comes_first(self) -> None:
        self.queue()
        with self.hub.session() as first, self.hub.session() as second, self.hub.session() as reader:
            first.enqueue("orders", Message("m1"))
            second.enqueue("orders", Message("m2"))
            second.commit()
            browse = now(dequeue_mode=DequeueMode.BROWSE, navigation=Navigation.FIRST_MESSAGE)
            assert body_of(reader.dequeue("orders", browse)) == "m2"
            first.commit()
            assert body_of(reader.dequeue("orders", browse)) == "m1"

    def test_next_message_stays_in_its_snapshot(self) -> None:
        self.queue(table={"sort_list": "PRIORITY"})
        self.send("orders", "a", "b", "c", priority=5)
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "a"
            self.send("orders", "urgent", priority=1)
            assert body_of(session.dequeue("orders", now())) == "b"
            assert body_of(session.dequeue("orders", now(navigation=Navigation.FIRST_MESSAGE))) == "urgent"
            session.commit()

    def test_browsing_ends_at_the_end_and_starts_again(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        browse = now(dequeue_mode=DequeueMode.BROWSE)
        with self.hub.session() as session:
            assert [body_of(session.dequeue("orders", browse)) for _ in range(2)] == ["a", "b"]
            with refused(25228):
                session.dequeue("orders", browse)
            again = now(dequeue_mode=DequeueMode.BROWSE, navigation=Navigation.FIRST_MESSAGE)
            assert body_of(session.dequeue("orders", again)) == "a"


class SessionSuite(HubCase):
    """Transactions, modes, search, waiting."""

    def test_every_property_survives_the_hub(self) -> None:
        self.queue()
        headers = (
            Header("text", ValueType.TEXT, "ä\x00b"),
            Header("raw", ValueType.RAW, b"\x00\xff"),
            Header("flag", ValueType.BOOLEAN, True),
            Header("n", ValueType.LONG, -(2**62)),
            Header("f", ValueType.DOUBLE, float("inf")),
            Header("n", ValueType.BYTE, 1),
        )
        sent = Message(
            "body \x00 with NUL ✓",
            headers,
            priority=-3,
            correlation="c%_1",
            expiration=60,
            exception_queue="other",
            sender_name="me",
            sender_address="there",
        )
        self.admin.grant_queue_privilege("ALL", "orders", "scott")
        with self.hub.session(user="scott") as session:
            msgid = session.enqueue("orders", sent)
            session.commit()
            found = session.dequeue("orders", now())
            session.commit()
        got = found.message
        assert found.msgid == got.msgid == msgid
        assert msgid[:8] == self.hub.hub_id
        assert (got.body, got.headers, got.priority, got.correlation) == (sent.body, headers, -3, "c%_1")
        assert (got.expiration, got.expires_at, got.enqueue_time) == (60, NOW + 60, NOW)
        assert (got.exception_queue, got.sender_name, got.sender_address) == ("other", "me", "there")
        assert got.original_msgid is None
        assert found.state is State.READY

    @pytest.mark.parametrize(
        ("payload", "body", "kind"),
        [
            ("RAW", b"\x00\x01", PayloadKind.RAW),
            ("RAW", b"", PayloadKind.RAW),
            ("BASIC", None, PayloadKind.BASIC),
            ("BASIC", "", PayloadKind.BASIC),
            ("BASIC", b"\xff", PayloadKind.BASIC),
            ("TEXT", "ü", PayloadKind.BASIC),
            ("JSON", '{"a": [1, null]}', PayloadKind.BASIC),
            ("FIELDS", (Header("a", ValueType.INTEGER, 1), Header("a", ValueType.RAW, b"\x00")), PayloadKind.FIELDS),
        ],
    )
    def test_every_payload_comes_back_as_it_was(self, payload: str, body: Any, kind: PayloadKind) -> None:
        self.queue(table={"queue_payload_type": payload})
        with self.hub.session() as session:
            session.enqueue("orders", Message(body, kind=kind))
            session.commit()
            found = session.dequeue("orders", now()).message
        assert (found.body, found.kind) == (body, kind)

    @pytest.mark.parametrize(
        ("payload", "body"), [("RAW", "text"), ("TEXT", b"raw"), ("JSON", b"{}"), ("FIELDS", "text"), ("BASIC", ())]
    )
    def test_body_of_the_wrong_type_is_refused(self, payload: str, body: Any) -> None:
        self.queue(table={"queue_payload_type": payload})
        with refused(25215), self.hub.session() as session:
            session.enqueue("orders", Message(body))

    def test_what_cannot_be_stored_is_refused_and_named(self) -> None:
        self.queue(table={"queue_payload_type": "JSON", "max_payload": 300_000})
        with self.hub.session() as session:
            for bad in (
                Message("{"),
                Message('"' + "x" * 300_000 + '"'),
                Message("[" * 200_000, correlation="deep"),
                Message("{}", correlation="a\x00b"),
                Message('"\ud800"'),
                Message("{}", sender_name="\ud800"),
                Message("{}", correlation="x" * 129),
                Message("{}", priority=2**64),
                *(Message("{}", priority=wrong) for wrong in (1.5, 1e30, None, "1", True)),  # type: ignore[arg-type]
                *(Message("{}", delay=wrong) for wrong in (None, "1", float("nan"))),  # type: ignore[arg-type]
                *(Message("{}", expiration=wrong) for wrong in ("1", float("nan"), float("inf"))),  # type: ignore[arg-type]
                Message("{}", delay=-1),
                Message("{}", expiration=-1),
            ):
                with pytest.raises(AqError, match=r"message 1|priority") as caught:
                    session.enqueue_array("orders", [Message("{}"), bad])
                assert caught.value.index == 1  # type: ignore[attr-defined]
            session.enqueue("orders", Message("{}"))
            session.commit()
        assert self.take("orders") == ["{}"]

    def test_twenty_megabytes_come_back(self) -> None:
        self.queue()
        body = bytes(range(256)) * (20 * 4096)
        with self.hub.session() as session:
            session.enqueue("orders", Message(body))
            session.commit()
            assert session.dequeue("orders", now()).message.body == body
            session.commit()
        assert self.view("orders_t") == []

    def test_nothing_is_visible_before_commit_or_after_rollback(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", Message("never"))
            assert self.take("orders") == []
            session.rollback()
            session.enqueue("orders", Message("yes"))
            session.enqueue("orders", Message("at once"), EnqueueOptions(Visibility.IMMEDIATE))
            assert self.take("orders") == ["at once"]
            session.commit()
        assert self.take("orders") == ["yes"]

    def test_closing_a_session_rolls_it_back(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.enqueue("orders", Message("lost"))
            session.dequeue("orders", now())
        assert self.take("orders") == ["x"]

    def test_others_skip_a_taken_message_and_browsers_see_it(self) -> None:
        self.queue()
        self.send("orders", "m1", "m2")
        with self.hub.session() as one, self.hub.session() as two, self.hub.session() as three:
            assert body_of(one.dequeue("orders", now())) == "m1"
            assert body_of(two.dequeue("orders", now())) == "m2"
            assert body_of(three.dequeue("orders", now(dequeue_mode=DequeueMode.BROWSE))) == "m1"
            with refused(25228):
                three.dequeue("orders", now())
            one.rollback()
            back = three.dequeue("orders", now())
            assert (body_of(back), back.message.attempts) == ("m1", 1)

    def test_locked_message_is_kept_from_others_and_counts_no_attempt(self) -> None:
        self.queue()
        self.send("orders", "m1")
        with self.hub.session() as one, self.hub.session() as two:
            found = one.dequeue("orders", now(dequeue_mode=DequeueMode.LOCKED))
            with refused(25228):
                two.dequeue("orders", now())
            one.rollback()
            found = one.dequeue("orders", now(dequeue_mode=DequeueMode.LOCKED))
            assert found.message.attempts == 0
            one.commit()
            first = now(dequeue_mode=DequeueMode.LOCKED, navigation=Navigation.FIRST_MESSAGE)
            assert one.dequeue("orders", first).msgid == found.msgid
            assert body_of(one.dequeue("orders", now(msgid=found.msgid))) == "m1"
            one.commit()
        assert self.take("orders") == []

    def test_remove_nodata_gives_properties_without_body(self) -> None:
        self.queue()
        self.send("orders", "x", correlation="c")
        with self.hub.session() as session:
            found = session.dequeue("orders", now(dequeue_mode=DequeueMode.REMOVE_NODATA)).message
            session.commit()
        assert (found.body, found.correlation) == (None, "c")
        assert self.take("orders") == []

    def test_immediate_dequeue_survives_rollback(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now(visibility=Visibility.IMMEDIATE))
            session.rollback()
        assert self.take("orders") == []

    def test_correlation_is_exact_or_a_pattern(self) -> None:
        self.queue()
        for correlation in ("abc", "ABC", "abd", "a*c", None):
            self.send("orders", str(correlation), correlation=correlation)
        assert self.take("orders", correlation="ab_") == ["abc", "abd"]
        assert self.take("orders", correlation="a*%") == ["a*c"]
        assert self.take("orders", correlation="abc") == []
        assert self.take("orders", correlation="%B%") == ["ABC"]

    def test_condition_chooses_messages(self) -> None:
        self.queue()
        for priority in (296, 297, 298):
            self.send("orders", str(priority), priority=priority)
        with self.hub.session() as session:
            session.enqueue_array("orders", [Message("low", priority=5)] * 250)
            session.enqueue("orders", Message("high", priority=1000))
            session.commit()
        assert self.take("orders", deq_condition="priority > 998 OR priority = 297") == ["297", "high"]

    def test_message_id_finds_one_message_or_none(self) -> None:
        self.queue()
        first, second = self.send("orders", "a", "b")
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now(msgid=second))) == "b"
            session.commit()
            for unknown in (second, bytes(16), b"short"):
                with refused(25263):
                    session.dequeue("orders", now(msgid=unknown))
            with refused(25240):
                session.dequeue("orders", now(msgid=first, correlation="x"))

    def test_waiting_consumer_wakes_at_the_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dequeue, "_LOOK_AGAIN", 60.0)  # it does not look by itself
        self.queue()
        found: list[Dequeued] = []

        def consume() -> None:
            with self.hub.session() as session:
                found.append(session.dequeue("orders", DequeueOptions(wait=60)))
                session.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the consumer waits")
        self.send("orders", "x")
        thread.join(timeout=30)
        assert [body_of(one) for one in found] == ["x"]

    def test_wait_ends_when_nothing_comes(self) -> None:
        self.queue()
        with self.hub.session() as session, refused(25228):
            session.dequeue("orders", DequeueOptions(wait=0.05))

    def test_visibility_of_a_dequeue_may_be_a_text(self) -> None:
        self.queue()
        self.send("orders", "a", "b", "c")
        with self.hub.session() as session:
            for text in ("IMMEDIATE", "immediate"):
                session.dequeue("orders", now(visibility=text))
                session.rollback()
            session.dequeue("orders", now(visibility="On_Commit"))
            session.rollback()
            with refused(25201):
                session.dequeue("orders", now(visibility="soon"))
            with refused(25201):
                session.dequeue_array("orders", now(visibility=None), 2)
        assert self.take("orders") == ["c"]

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_what_is_no_message_id_is_no_message(self, consumer: str | None) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        (msgid,) = self.send(queue, "a")
        bad = (msgid[:8] + 8 * b"\xff", msgid[:8] + b"\x80" + bytes(7), b"", msgid.hex().upper(), 7, bytearray(16))
        with self.hub.session() as session:
            for identity in bad:
                for mode in (DequeueMode.REMOVE, DequeueMode.BROWSE):
                    with refused(25263):
                        session.dequeue(queue, now(consumer_name=consumer, msgid=identity, dequeue_mode=mode))
        assert self.take(queue, consumer) == ["a"]

    def test_bad_options_are_refused(self) -> None:
        self.queue()
        with self.hub.session() as session:
            with refused(25230):
                session.dequeue("orders", DequeueOptions(wait=-5))
            with refused(25286):
                session.dequeue_array("orders", now(), 0)


class ApplicationSuite(HubCase):
    """A session inside the application's own transaction."""

    @pytest.fixture(autouse=True)
    def _application(self, _hub: None) -> Iterator[None]:
        self.queue()
        self.engine = sa.create_engine(self.application_url)
        with self.engine.begin() as conn:
            conn.exec_driver_sql("CREATE TABLE booking (id integer)")
        yield
        self.engine.dispose()

    def bookings(self) -> int:
        with self.engine.connect() as conn:
            return int(conn.exec_driver_sql("SELECT COUNT(*) FROM booking").scalar_one())

    def test_own_writes_and_enqueue_commit_together(self) -> None:
        with self.engine.begin() as conn:
            conn.exec_driver_sql("INSERT INTO booking VALUES (1)")
            self.hub.session(conn).enqueue("orders", Message("one"))
        assert (self.bookings(), self.take("orders")) == (1, ["one"])

    def test_own_writes_and_enqueue_roll_back_together(self) -> None:
        with pytest.raises(ZeroDivisionError), self.engine.begin() as conn:  # noqa: PT012
            conn.exec_driver_sql("INSERT INTO booking VALUES (1)")
            self.hub.session(conn).enqueue("orders", Message("one"))
            raise ZeroDivisionError
        assert (self.bookings(), self.take("orders")) == (0, [])

    def test_rolled_back_dequeue_comes_back_with_its_attempt_counted(self) -> None:
        self.send("orders", "x")
        with self.engine.connect() as conn:
            session = self.hub.session(conn)
            assert body_of(session.dequeue("orders", now())) == "x"
            with refused(25228):
                session.dequeue("orders", now())
            conn.rollback()
        self.run_time()
        with self.hub.session() as again:
            assert again.dequeue("orders", now()).message.attempts == 1

    def test_refused_enqueue_leaves_the_transaction_usable(self) -> None:
        with self.engine.begin() as conn:
            session = self.hub.session(conn)
            with refused(25215):
                session.enqueue("orders", Message(()))
            session.enqueue("orders", Message("good"))
        assert self.take("orders") == ["good"]

    def test_session_cannot_end_the_application_transaction(self) -> None:
        with self.engine.begin() as conn:
            session = self.hub.session(conn)
            session.enqueue("orders", Message("x"))
            with pytest.raises(AqError, match="application's transaction"):
                session.commit()
            with pytest.raises(AqError, match="application's transaction"):
                session.rollback()
        assert self.take("orders") == ["x"]

    def test_enqueue_in_a_hub_transaction(self) -> None:
        with self.hub.write() as conn:
            session = Session(self.hub, conn)
            session.enqueue("orders", Message("x"))
            assert body_of(session.dequeue("orders", now())) == "x"
        assert self.take("orders") == []


class RecipientSuite(HubCase):
    """Who gets a message of a multi-consumer queue."""

    def test_recipient_list_replaces_subscribers_and_late_subscribers_get_nothing_old(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "1")
        self.send("events", "2", recipients=["RED", Agent("BLUE")])
        self.admin.add_subscriber("events", "PINK")
        got = {who: self.take("events", who) for who in ("RED", "GREEN", "BLUE", "PINK")}
        assert got == {"RED": ["1", "2"], "GREEN": ["1"], "BLUE": ["2"], "PINK": []}

    def test_message_without_recipient_is_refused_and_the_transaction_goes_on(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "RED", rule="priority < 2")
        with self.hub.session() as session:
            with refused(24033):
                session.enqueue("events", Message("no", priority=5))
            assert self.view("events_t") == []
            session.enqueue("events", Message("yes", priority=1))
            session.commit()
        assert self.take("events", "RED") == ["yes"]

    def test_rule_over_headers_chooses_subscribers(self) -> None:
        self.topic("ALL")
        self.admin.add_subscriber("events", "BIG", rule="priority > 5 AND corrid LIKE 'a%'")
        self.send("events", "1", priority=9, correlation="abc")
        self.send("events", "2", priority=9)
        assert self.take("events", "BIG") == ["1"]
        assert self.take("events", "ALL") == ["1", "2"]

    def test_consumers_take_independently(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x")
        with self.hub.session() as red, self.hub.session() as green:
            assert body_of(red.dequeue("events", now(consumer_name="RED"))) == "x"
            assert body_of(green.dequeue("events", now(consumer_name="green"))) == "x"
            with refused(25228):
                green.dequeue("events", now(consumer_name="RED", navigation=Navigation.FIRST_MESSAGE))
            red.commit()
            green.rollback()
        assert self.take("events", "RED") == []
        assert self.take("events", "GREEN") == ["x"]

    def test_consumer_is_required_and_must_exist(self) -> None:
        self.topic('"RED"')
        self.send("events", "x")
        assert self.take("events", '"red"') == ["x"]
        with refused(25231):
            self.take("events")
        with refused(24035):
            self.take("events", "NOBODY")

    def test_bad_recipient_lists_are_refused(self) -> None:
        self.topic("RED")
        self.queue()
        with refused(25232):
            self.send("events", "x", recipients=["A", "a"])
        with refused(25216):
            self.send("orders", "x", recipients=["A"])
