"""Administration of queue tables, queues and subscribers, with every refusal, on every hub database."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import PurgeConflict, QueueInUse
from mgw.gateway.aq.model import Agent, DequeueMode
from mgw.gateway.aq.queues import transfer
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import NOW, HubCase, now, refused
from tests.support.waiting import eventually

BAD_TABLES: list[tuple[dict[str, Any], int]] = [
    ({"sort_list": "CORRID"}, 24036),
    ({"sort_list": "ENQ_TIME,ENQ_TIME"}, 24036),
    ({"sort_list": "COMMIT_TIME"}, 24036),
    ({"sort_list": "PRIORITY,COMMIT_TIME", "multiple_consumers": True}, 24036),
    ({"sort_list": "COMMIT_TIME", "message_grouping": "TRANSACTIONAL"}, 24036),
    ({"compatible": "8.0"}, 24059),
    ({"compatible": "11.1"}, 24059),
    ({"queue_payload_type": "NOT_A_TYPE"}, 24015),
    ({"secondary_instance": 2}, 24078),
    ({"primary_instance": -1}, 24078),
]

UNKNOWN_SETTINGS: list[dict[str, Any]] = [
    {"message_grouping": "SOME"},
    {"replication_mode": "HOT"},
    {"max_payload": 0},
    {"auto_commit": False},
]

BAD_QUEUES: list[tuple[dict[str, Any], int]] = [
    ({"queue_type": "NON_PERSISTENT_QUEUE"}, 24003),
    ({"max_retries": -1}, 24013),
    ({"max_retries": 2**31}, 24013),
    *(({"max_retries": wrong}, 24013) for wrong in (1.5, "5", float("nan"))),
    *(({"retry_delay": wrong}, 24013) for wrong in (-1, None, "60")),
    *(({"retention_time": wrong}, 24014) for wrong in (None, "INFINITE")),
    ({"retention_time": -2}, 24014),
    *(({"retry_delay": seconds}, 24013) for seconds in (float("nan"), float("inf"), 10**11 + 1)),
    *(({"retention_time": seconds}, 24014) for seconds in (float("nan"), float("inf"), 1e30, 10**11 + 1)),
    ({"queue_type": "exception_queue", "retention_time": 5}, 24073),
    ({"queue_type": "EXCEPTION", "max_retries": 5}, 24074),
]

BAD_AGENTS: list[tuple[Agent, int]] = [
    (Agent("x" * 129), 24019),
    (Agent(""), 24047),
    (Agent(None), 24047),
    (Agent("AQ$_x"), 24049),
    (Agent(None, "events"), 25313),
    (Agent("RED", "mgw.EVENTS"), 25313),
    (Agent("RED", "elsewhere"), 24045),
    (Agent("RED", "a b c"), 24045),
    (Agent("RED", "queue@database"), 24045),
    (Agent("RED", "x" * 1025), 24045),
    (Agent("RED", None, 7), 24045),
]

CONDITIONS: list[tuple[str, str]] = [
    ("qtview.corr_id = 'c1'", "bc"),
    ("qview.corr_id = 'C1'", "abc"),
    ("QTVIEW.MSG_PRIORITY > 1", "a"),
    ("qtview.msg_priority BETWEEN 2 AND 3 OR qtview.corr_id IS NULL", "a"),
    ("NOT qtview.msg_priority <> 2", "ac"),
    ("qtview.corr_id LIKE 'c%'", "c"),
    ("qtview.corr_id LIKE '%!_%' ESCAPE '!'", "abc"),
    ("UPPER(qtview.corr_id) = 'C2' AND LENGTH(qtview.corr_id) = 2", "ac"),
    ("NVL(qtview.corr_id, 'none') = 'none'", "ab"),
    ("qtview.corr_id <> NULL", "abc"),
    ("qtview.msg_priority * 2 - 1 = 5", "ab"),
    ("qtview.queue = 'ORDERS'", ""),
    ("qtview.queue = 'orders'", "abc"),
    ("qtview.enq_time < '2027-01-15T08:00:00Z' AND qtview.msg_state = 'READY'", "bc"),
    ("qtview.enq_timestamp >= '2027-01-15T08:00:00.000Z'", "a"),
    ("qtview.retry_count = 0 AND qtview.expiration IS NULL", ""),
    ("qtview.user_data.colour = 'red'", "ac"),
    ("1 = 0", "abc"),
    ("qtview.corr_id = 'x'' OR 1=1 --'", "abc"),
]

BAD_CONDITIONS: list[str] = [
    "qtview.nothing = 1",
    "tab.corr_id = 'a'",
    "qtview.corr_id",
    "qtview.msg_priority = 1; DROP TABLE aq_message",
    "qtview.msg_priority IN (SELECT 1)",
    "EXISTS (SELECT 1 FROM aq_hub)",
    "load_extension('x') = 1",
    "(" * 40 + "1=1" + ")" * 40,
    "qtview.corr_id = 'open",
    "1 = 1 OR " * 500 + "1 = 1",
]


class QueueTableSuite(HubCase):
    """create, alter, migrate and drop of queue tables."""

    def test_attributes_are_stored_and_shown(self) -> None:
        self.admin.create_queue_table(
            "t",
            "RAW",
            storage_clause="TABLESPACE users",
            sort_list="priority, enq_time",
            multiple_consumers=True,
            comment="orders of the day",
            primary_instance=2,
            secondary_instance=3,
            compatible="12.2",
            replication_mode="NONE",
        )
        table = self.admin.queue_table("T")
        assert table is not None
        assert (table.storage_clause, table.comment, table.sort_list) == (
            "TABLESPACE users",
            "orders of the day",
            "PRIORITY,ENQ_TIME",
        )
        assert (table.primary_instance, table.secondary_instance) == (2, 3)
        assert (table.compatible, table.max_payload, table.multiple_consumers) == ("12.2", 32512, True)

    def test_attributes_that_do_not_go_are_refused(self) -> None:
        for settings, number in BAD_TABLES:
            with refused(number):
                self.admin.create_queue_table("t", **settings)
        assert self.admin.queue_tables() == []

    def test_other_bad_attributes_are_explained(self) -> None:
        for settings in UNKNOWN_SETTINGS:
            with pytest.raises(AqError, match="cause: "):
                self.admin.create_queue_table("t", **settings)

    def test_alter_changes_only_what_is_named(self) -> None:
        self.admin.create_queue_table("t", comment="old", primary_instance=1, secondary_instance=2)
        assert self.admin.alter_queue_table("t", comment="new").primary_instance == 1
        changed = self.admin.alter_queue_table("T", primary_instance=5, secondary_instance=6)
        assert (changed.comment, changed.primary_instance, changed.secondary_instance) == ("new", 5, 6)
        with refused(24078):
            self.admin.alter_queue_table("t", secondary_instance=7)
        again = self.admin.alter_queue_table("t", primary_instance=0)
        assert (again.primary_instance, again.secondary_instance) == (0, 0)

    def test_unknown_queue_tables_are_refused(self) -> None:
        for call in (
            lambda: self.admin.alter_queue_table("none", comment="x"),
            lambda: self.admin.migrate_queue_table("none", "10.0"),
            lambda: self.admin.drop_queue_table("none"),
            lambda: self.admin.purge_queue_table("none"),
            lambda: self.admin.create_queue("q", "none"),
        ):
            with refused(24002):
                call()

    def test_migration_changes_the_setting_and_its_limit(self) -> None:
        self.queue(table={"queue_payload_type": "RAW"})
        for version, limit in (("8.1", 128 << 20), ("12.2", 32512), ("10.0", 128 << 20)):
            changed = self.admin.migrate_queue_table("orders_t", version)
            assert (changed.compatible, changed.max_payload) == (version, limit)
        for version in ("8.0", "9.9"):
            with refused(24059):
                self.admin.migrate_queue_table("orders_t", version)

    def test_migration_is_refused_while_a_message_needs_the_present_setting(self) -> None:
        self.queue(table={"queue_payload_type": "RAW"})
        self.put("orders", bytes(32513))
        with refused(24060):
            self.admin.migrate_queue_table("orders_t", "12.2")
        assert self.admin.queue_table("orders_t").compatible == "10.0"  # type: ignore[union-attr]
        assert len(self.take("orders")) == 1
        self.admin.migrate_queue_table("orders_t", "12.2")
        with refused(25215):
            self.put("orders", bytes(32513))

    def put(self, queue: str, body: bytes) -> None:
        with self.hub.session() as session:
            session.enqueue(queue, Message(body))
            session.commit()

    def test_forced_drop_stops_the_queues_and_waits_for_their_transactions(self) -> None:
        self.queue()
        self.admin.create_queue("more", "orders_t")
        self.admin.start_queue("more")
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now())
            thread = threading.Thread(target=lambda: self.admin.drop_queue_table("orders_t", force=True))
            thread.start()
            eventually(lambda: self.closing("orders"))
            assert self.admin.queue("orders") is not None
            session.commit()
            thread.join()
        assert self.admin.queues() == []
        assert self.admin.queue_tables() == []

    def test_refused_drop_deletes_nothing(self) -> None:
        self.queue()
        self.send("orders", "x", "y")
        self.admin.stop_queue("orders")
        with pytest.raises(AqError, match="auto_commit cannot be false"):
            self.admin.drop_queue("orders", auto_commit=False)
        with pytest.raises(AqError, match="auto_commit cannot be false"):
            self.admin.drop_queue_table("orders_t", force=True, auto_commit=False)
        self.admin.start_queue("orders")
        assert self.take("orders") == ["x", "y"]

    @pytest.mark.parametrize("force", [False, True])
    def test_queue_that_is_started_while_it_is_dropped_keeps_what_comes_in(
        self, *, force: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.queue()
        self.send("orders", "a", "b", "c")
        self.admin.stop_queue("orders")
        begin = self.hub.write
        started: list[bool] = []

        def write(*, durable: bool = True) -> Any:
            if len(self.view("orders_t")) == 2 and not started:
                started.append(True)
                self.admin.start_queue("orders")
                self.send("orders", "new")
            return begin(durable=durable)

        monkeypatch.setattr("mgw.gateway.aq.admin.queues._BATCH", 1)
        monkeypatch.setattr(self.hub, "write", write)
        with refused(24011):
            if force:
                self.admin.drop_queue_table("orders_t", force=True)
            else:
                self.admin.drop_queue("orders")
        taken = self.take("orders")
        assert len(taken) == 3
        assert "new" in taken

    def closing(self, queue: str) -> bool:
        with self.hub.read() as conn:
            sql = sa.text("SELECT dequeue_enabled FROM aq_queue WHERE name_key = :key")
            return bool(conn.execute(sql, {"key": f"MGW.{queue.upper()}"}).scalar() == 2)

    @pytest.mark.parametrize("schema", ["", "oe.", '"o.e".'])
    def test_queue_table_with_a_dot_in_its_name_has_its_exception_queue(self, schema: str) -> None:
        self.admin.create_queue_table(f'{schema}"eu.orders"')
        self.admin.create_queue(f"{schema}orders", f'{schema}"eu.orders"', max_retries=0)
        self.admin.start_queue(f"{schema}orders")
        self.send(f"{schema}orders", "old", expiration=5)
        assert self.run_time(10).expired == 1
        self.send(f"{schema}orders", "poison")
        self.fail(f"{schema}orders")
        assert self.run_time(10).expired == 0
        assert self.take(f"{schema}orders") == []
        exceptions = f'{schema}"AQ$_eu.orders_E"'
        self.admin.start_queue(exceptions, enqueue=False)
        assert sorted(self.take(exceptions, dequeue_mode=DequeueMode.BROWSE)) == ["old", "poison"]

    def test_calls_in_an_application_transaction_are_in_force_at_its_commit(self) -> None:
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            admin = QueueAdmin(self.hub, conn)
            admin.create_queue_table("t")
            admin.create_queue("q", "t")
            conn.rollback()
            assert self.admin.queue_tables() == []
            admin.create_queue_table("t", auto_commit=True)
            conn.rollback()
            assert [table.name for table in self.admin.queue_tables()] == ["t"]
            admin.create_queue("q", "t", auto_commit=False)
            conn.commit()
        engine.dispose()
        assert self.admin.queue("q") is not None


class QueueSuite(HubCase):
    """create, alter, start, stop and drop of queues."""

    def test_names_of_queues_have_their_limits(self) -> None:
        self.admin.create_queue_table("t")
        with refused(24019):
            self.admin.create_queue("x" * 123, "t")
        self.admin.create_queue("x" * 122, "t")
        with refused(24079):
            self.admin.create_queue("AQ$_x", "t")

    def test_attributes_that_do_not_go_are_refused(self) -> None:
        self.admin.create_queue_table("t")
        for settings, number in BAD_QUEUES:
            with refused(number):
                self.admin.create_queue("q", "t", **settings)
        assert self.admin.queue("q") is None

    def test_queue_whose_stop_was_cut_off_is_shown_as_shut_and_can_be_started(self) -> None:
        self.queue()
        with self.hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_queue SET enqueue_enabled = 2, dequeue_enabled = 2 WHERE name = 'orders'")
        found = self.admin.queue("orders")
        assert found is not None
        assert (found.enqueue_enabled, found.dequeue_enabled) == (False, False)
        with pytest.raises(AqError, match="stopping it was interrupted"):
            self.admin.drop_queue("orders")
        self.admin.start_queue("orders")
        self.send("orders", "x")
        assert self.take("orders") == ["x"]

    def test_longest_times_are_shown(self) -> None:
        self.queue(retry_delay=10**11, retention_time=10**11)
        self.send("orders", "x", "y")
        assert self.take("orders") == ["x", "y"]
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT retention FROM DBA_QUEUES WHERE name = 'ORDERS'").all()
        assert len(self.view("orders_t")) == 2
        refusals: list[dict[str, Any]] = [{"retry_delay": float("nan")}, {"retention_time": float("inf")}]
        for settings in refusals:
            with pytest.raises(AqError, match="allowed are 0 to"):
                self.admin.alter_queue("orders", **settings)

    def test_queue_belongs_to_the_schema_of_its_table(self) -> None:
        self.admin.create_queue_table("t")
        with refused(24037):
            self.admin.create_queue("other.q", "t")
        with pytest.raises(AqError, match="dependency tracking"):
            self.admin.create_queue("q", "t", dependency_tracking=True)

    def test_unknown_queues_are_refused(self) -> None:
        for call in (
            lambda: self.admin.alter_queue("none", comment="x"),
            lambda: self.admin.start_queue("none"),
            lambda: self.admin.stop_queue("none"),
            lambda: self.admin.drop_queue("none"),
            lambda: self.admin.add_subscriber("none", "RED"),
        ):
            with refused(24010):
                call()

    def test_default_exception_queue_stays_with_its_table(self) -> None:
        self.queue()
        with refused(24026):
            self.admin.drop_queue("AQ$_orders_t_E")
        with refused(24017):
            self.admin.start_queue("AQ$_orders_t_E")
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)

    def test_directions_are_stopped_one_by_one(self) -> None:
        self.queue()
        self.send("orders", "x")
        self.admin.stop_queue("orders", dequeue=False)
        with refused(25207):
            self.send("orders", "y")
        assert self.take("orders") == ["x"]
        with refused(24011):
            self.admin.drop_queue("orders")
        self.admin.stop_queue("orders", enqueue=False)
        with refused(25226):
            self.take("orders")
        self.admin.drop_queue("orders")

    @pytest.mark.parametrize("mode", [DequeueMode.REMOVE, DequeueMode.LOCKED])
    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_stop_that_may_not_wait_is_refused_while_a_transaction_has_messages(
        self, mode: DequeueMode, consumer: str | None
    ) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        self.send(queue, "x")
        with self.hub.session() as session:
            session.dequeue(queue, now(consumer_name=consumer, dequeue_mode=mode))
            with refused(24018):
                self.admin.stop_queue(queue, wait=False)
            with refused(24018):
                self.admin.stop_queue(queue, wait=0.1)
            session.rollback()
            self.send(queue, "as before")
        self.admin.stop_queue(queue, wait=False)

    def test_stop_waits_for_transactions_and_lets_nobody_begin(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        stopped = threading.Event()

        def stop() -> None:
            self.admin.stop_queue("orders")
            stopped.set()

        with self.hub.session() as session:
            session.dequeue("orders", now())
            thread = threading.Thread(target=stop)
            thread.start()

            def refused_now() -> bool:
                try:
                    self.send("orders", "late")
                except AqError as error:
                    return error.number == 25207
                return False

            eventually(refused_now)
            with refused(25226):
                self.take("orders")
            assert not stopped.is_set()
            session.commit()
            thread.join()
        self.admin.start_queue("orders")
        assert self.take("orders")[0] == "b"

    def test_who_only_looked_or_found_nothing_holds_nothing_up(self) -> None:
        self.queue()
        with self.hub.session() as reader, self.hub.session() as idle:
            with refused(25228):
                idle.dequeue("orders", now())
            with refused(25263):
                idle.dequeue("orders", now(msgid=self.hub.hub_id + bytes(8)))
            self.send("orders", "x")
            reader.dequeue("orders", now(dequeue_mode=DequeueMode.BROWSE))
            self.admin.stop_queue("orders", wait=False)

    def test_plans_of_jobs_hold_up_the_dequeue_direction_only(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, "orders")
            (claimed,) = transfer.claim(conn, queue, None, 5)
        self.admin.stop_queue("orders", dequeue=False, wait=False)
        with pytest.raises(QueueInUse, match="in flight in gateway jobs"):
            self.admin.stop_queue("orders", wait=False)
        with self.hub.write() as conn:
            transfer.complete(conn, queue, None, [claimed.id])
        self.admin.stop_queue("orders", wait=False)
        self.admin.drop_queue("orders")

    def test_stop_in_an_application_transaction_is_in_force_at_its_commit(self) -> None:
        self.queue()
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            QueueAdmin(self.hub, conn).stop_queue("orders")
            conn.rollback()
            self.send("orders", "x")
            QueueAdmin(self.hub, conn).stop_queue("orders")
            conn.commit()
        engine.dispose()
        with refused(25207):
            self.send("orders", "y")

    def test_drop_removes_every_message_and_subscriber(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", *(str(number) for number in range(50)))
        self.admin.stop_queue("events")
        self.admin.drop_queue("events")
        assert self.view("events_t") == []
        assert self.admin.queue_subscribers() == []
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT COUNT(*) FROM aq_entry").scalar() == 0


class SubscriberSuite(HubCase):
    """add, alter and remove of subscribers."""

    def test_agents_that_cannot_subscribe_are_refused(self) -> None:
        self.topic()
        for subscriber, number in BAD_AGENTS:
            with refused(number):
                self.admin.add_subscriber("events", subscriber)
        assert self.admin.queue_subscribers() == []

    def test_other_refusals(self) -> None:
        self.topic("RED")
        self.queue("single")
        for number, call in (
            (24039, lambda: self.admin.add_subscriber("single", "RED")),
            (24029, lambda: self.admin.alter_subscriber("single", "RED", rule=None)),
            (24029, lambda: self.admin.remove_subscriber("single", "RED")),
        ):
            with refused(number):
                call()
        with refused(24050):
            self.admin.remove_subscriber("AQ$_events_t_E", "RED")
        with refused(24034):
            self.admin.add_subscriber("events", "red")
        with refused(24035):
            self.admin.alter_subscriber("events", "BLUE", rule=None)
        with refused(25448):
            self.admin.add_subscriber("events", "BLUE", rule="x" * 4001)
        for mode in ("BUFFERED", "SOMEHOW"):
            with refused(25299):
                self.admin.add_subscriber("events", "BLUE", delivery_mode=mode)
        with pytest.raises(AqError, match="propagation to other queues"):
            self.admin.add_subscriber("events", "BLUE", queue_to_queue=True)
        self.admin.add_subscriber("events", "BLUE", delivery_mode="persistent_or_buffered")
        self.send("events", "x")
        assert self.take("events", "BLUE") == ["x"]

    def test_a_queue_takes_a_thousand_local_subscribers(self) -> None:
        self.topic()
        with self.hub.write() as conn:
            admin = QueueAdmin(self.hub, conn)
            for number in range(1000):
                admin.add_subscriber("events", f"S{number}")
        with refused(24067):
            self.admin.add_subscriber("events", "one more")
        self.admin.remove_subscriber("events", "S7")
        self.admin.add_subscriber("events", "one more")

    def test_alter_sets_both_attributes(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "RED", rule="priority < 5")
        self.admin.alter_subscriber("events", "RED", rule=None)
        (subscriber,) = self.admin.queue_subscribers("events")
        assert (subscriber.rule, subscriber.transformation) == (None, None)

    def test_subscriber_gets_what_is_enqueued_after_it_was_added(self) -> None:
        self.topic("RED")
        self.send("events", "before")
        self.admin.add_subscriber("events", "PINK")
        self.send("events", "after")
        assert self.take("events", "PINK") == ["after"]
        assert self.take("events", "RED") == ["before", "after"]

    def test_remove_and_add_again_clears_the_backlog_of_one(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "a", "b")
        self.admin.remove_subscriber("events", "RED")
        self.admin.add_subscriber("events", "RED")
        self.send("events", "c")
        assert self.take("events", "RED") == ["c"]
        assert self.take("events", "GREEN") == ["a", "b", "c"]

    def test_subscriptions_in_an_application_transaction_are_in_force_at_its_commit(self) -> None:
        self.topic()
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            QueueAdmin(self.hub, conn).add_subscriber("events", "RED")
            conn.rollback()
            assert self.admin.queue_subscribers() == []
            QueueAdmin(self.hub, conn).add_subscriber("events", "RED")
            conn.commit()
        engine.dispose()
        assert [each.name for each in self.admin.queue_subscribers()] == ["RED"]

    def test_remove_does_not_wait_for_transactions(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "in hand", "waiting")
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="RED"))
            self.admin.remove_subscriber("events", "RED")
            session.commit()
        self.run_time()
        assert self.waiting() == {"GREEN"}

    def test_removed_subscriber_gets_nothing_back_from_a_rollback(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "in hand", "waiting")
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="RED"))
            self.admin.remove_subscriber("events", "RED")
            session.rollback()
        assert self.waiting() == {"GREEN"}
        self.admin.add_subscriber("events", "RED")
        self.send("events", "new")
        assert self.take("events", "RED") == ["new"]
        assert self.take("events", "GREEN") == ["in hand", "waiting", "new"]
        self.run_time()
        assert self.view("events_t") == []

    def test_removed_subscriber_gets_nothing_that_was_not_committed_before(self) -> None:
        self.topic("RED", "GREEN")
        self.topic("RED", name="only")
        with self.hub.session() as session:
            for queue in ("events", "only"):
                session.enqueue(queue, Message("late"))
                self.admin.remove_subscriber(queue, "RED")
            session.enqueue("events", Message("named"), recipients=["RED"])
            session.commit()
        self.run_time()
        assert self.view("only_t") == []
        assert self.take("events", "RED") == ["named"]
        assert self.take("events", "GREEN") == ["late"]
        self.run_time()
        assert self.view("events_t") == []

    def test_removed_subscriber_commits_what_it_took_before_the_savepoint(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "before", "after", "waiting")
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="RED"))
            session.savepoint("here")
            session.dequeue("events", now(consumer_name="RED"))
            self.admin.remove_subscriber("events", "RED")
            session.rollback_to("here")
            session.commit()
        self.run_time()
        assert self.waiting() == {"GREEN"}
        assert self.states("events_t").count("PROCESSED") == 1
        assert self.take("events", "RED") == []
        assert self.take("events", "GREEN") == ["before", "after", "waiting"]

    def test_removed_subscriber_gets_nothing_back_that_was_locked(self) -> None:
        self.topic("RED")
        self.send("events", "locked", "waiting")
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="RED", dequeue_mode=DequeueMode.LOCKED))
            self.admin.remove_subscriber("events", "RED")
            session.commit()
        self.run_time()
        assert self.view("events_t") == []

    def waiting(self) -> set[str]:
        return {row["CONSUMER_NAME"] for row in self.view("events_t") if row["MSG_STATE"] == "READY"}


class PurgeSuite(HubCase):
    """purge_queue_table."""

    def test_without_a_condition_everything_goes(self) -> None:
        self.queue()
        self.admin.create_queue("more", "orders_t")
        self.admin.start_queue("more")
        self.queue("untouched")
        for queue in ("orders", "more", "untouched"):
            self.send(queue, "a", "b", delay=5)
            self.send(queue, "c")
        self.fail("orders", times=6)
        assert "EXPIRED" in self.states("orders_t")
        assert self.admin.purge_queue_table("orders_t") == (6, 0)
        assert self.view("orders_t") == []
        assert len(self.view("untouched_t")) == 3
        assert self.admin.purge_queue_table("orders_t", "  ") == (0, 0)

    def test_condition_selects(self) -> None:
        self.queue()
        for condition, left in CONDITIONS:
            self.clock.time = NOW - 7200
            self.send("orders", '{"name": "a"}', correlation="c1", priority=1)
            self.clock.time = NOW
            self.send("orders", '{"name": "b", "colour": "red"}', correlation="c2", priority=2)
            self.send("orders", '{"name": "c"}', priority=3)
            done = self.admin.purge_queue_table("orders_t", condition)
            assert (condition, "".join(json.loads(body)["name"] for body in self.take("orders"))) == (condition, left)
            assert done.messages == 3 - len(left)

    def test_condition_selects_by_message_id(self) -> None:
        self.queue()
        first, _ = self.send("orders", "a", "b")
        self.admin.purge_queue_table("orders_t", f"qtview.msg_id = '{first.hex().upper()}'")
        assert self.take("orders") == ["b"]

    def test_condition_that_fails_on_a_message_removes_nothing(self) -> None:
        self.queue()
        self.send("orders", "a", priority=0)
        with refused(25449):
            self.admin.purge_queue_table("orders_t", "10 / qtview.msg_priority > 1")
        assert self.take("orders") == ["a"]

    def test_queue_table_with_an_odd_name_can_be_purged(self) -> None:
        self.admin.create_queue_table("\"what? 100% 'odd'\"", multiple_consumers=True)
        self.admin.create_queue('"q? %s"', "\"what? 100% 'odd'\"")
        self.admin.start_queue('"q? %s"')
        self.admin.add_subscriber('"q? %s"', "RED")
        self.send('"q? %s"', "a", "b", correlation="50%")
        done = self.admin.purge_queue_table(
            "\"what? 100% 'odd'\"", "qtview.corr_id LIKE '50%' AND qtview.queue LIKE 'Q?%'"
        )
        assert done == (2, 2)

    def test_bad_conditions_are_refused_and_remove_nothing(self) -> None:
        self.queue()
        self.send("orders", "a")
        for condition in BAD_CONDITIONS:
            with refused(25448):
                self.admin.purge_queue_table("orders_t", condition)
        assert self.take("orders") == ["a"]

    def test_condition_on_a_consumer_removes_its_entry_only(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "a", "b")
        assert self.admin.purge_queue_table("events_t", "qtview.consumer_name = 'RED'") == (0, 2)
        assert self.take("events", "RED") == []
        assert self.take("events", "GREEN") == ["a", "b"]

    def test_message_goes_with_its_last_entry(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "a", "b")
        self.admin.purge_queue_table("events_t", "qtview.consumer_name = 'RED'")
        assert self.admin.purge_queue_table("events_t", "qtview.consumer_name = 'GREEN'") == (2, 2)
        assert self.view("events_t") == []

    def test_message_that_the_others_have_consumed_goes_with_the_next_pass_of_the_time_manager(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "a")
        assert self.take("events", "RED") == ["a"]
        self.run_time()
        self.admin.purge_queue_table("events_t", "qtview.consumer_name = 'GREEN'")
        self.run_time()
        assert self.view("events_t") == []

    def test_exception_queue_of_a_topic_can_be_purged(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "old", expiration=5)
        self.run_time(10)
        self.send("events", "new")
        done = self.admin.purge_queue_table("events_t", "qtview.expiration_reason = 'TIME_EXPIRATION'")
        assert done == (1, 2)
        assert self.take("events", "RED") == ["new"]

    def test_exception_messages_of_a_dropped_topic_can_be_purged(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "old", expiration=5)
        self.run_time(10)
        self.admin.stop_queue("events")
        self.admin.drop_queue("events")
        assert self.states("events_t") == ["EXPIRED"] * 2
        assert self.admin.purge_queue_table("events_t").messages == 1
        assert self.view("events_t") == []

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_purge_that_may_not_wait_is_refused_while_messages_are_in_hands(self, consumer: str | None) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        self.send(queue, "in hand", "free")
        with self.hub.session() as session:
            session.dequeue(queue, now(consumer_name=consumer))
            with pytest.raises(PurgeConflict, match=r"ORA-00054.*0 others were removed"):
                self.admin.purge_queue_table(f"{queue}_t")
            with pytest.raises(PurgeConflict):
                self.admin.purge_queue_table(f"{queue}_t", block=0.1)
            self.send(queue, "other", correlation="mine")
            assert self.admin.purge_queue_table(f"{queue}_t", "qtview.corr_id = 'mine'").messages == 1
            session.rollback()
        assert self.admin.purge_queue_table(f"{queue}_t").messages in (1, 2)
        assert self.view(f"{queue}_t") == []

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_blocking_purge_waits_for_who_has_messages_and_always_succeeds(self, end: str) -> None:
        self.queue()
        self.send("orders", "a", "b", "c")
        done: list[int] = []
        with self.hub.session() as session:
            session.dequeue("orders", now())
            thread = threading.Thread(
                target=lambda: done.append(self.admin.purge_queue_table("orders_t", block=True).messages)
            )
            thread.start()
            if not self.hub.postgresql:
                eventually(lambda: len(self.view("orders_t")) == 1)
            assert thread.is_alive()
            getattr(session, end)()
            thread.join()
        assert done == [2 if end == "commit" else 3]
        assert self.view("orders_t") == []

    def test_purge_leaves_plans_of_jobs_alone(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, "orders")
            (claimed,) = transfer.claim(conn, queue, None, 1)
        with refused(54):
            self.admin.purge_queue_table("orders_t")
        with self.hub.write() as conn:
            assert transfer.complete(conn, queue, None, [claimed.id]) == 1

    @pytest.mark.parametrize("payload", ["TEXT", "BASIC"])
    def test_message_with_a_nul_character_can_be_seen_and_purged(self, payload: str) -> None:
        self.queue(table={"queue_payload_type": payload})
        self.send("orders", "a\0b", correlation="c1")
        self.send("orders", '{"colour":"red"}')
        expected = None if self.hub.postgresql else "a\0b"
        assert [row["USER_DATA_TEXT"] for row in self.view("orders_t")] == [expected, '{"colour":"red"}']
        condition = "qtview.corr_id = 'c1' OR qtview.user_data.colour = 'green'"
        assert self.admin.purge_queue_table("orders_t", condition).messages == 1
        assert self.take("orders") == ['{"colour":"red"}']

    def test_no_message_keeps_the_others_from_being_seen_and_purged(self) -> None:
        self.queue()
        named = ('"abc', '"', '""', '".', '"".', "a.b.c", ".", '"a"b', '"a".')
        for name in named:
            self.send("orders", '{"a": 1}', exception_queue=name)
        self.send("orders", '{"a": 1}', correlation="late", delay=2**40 - 1, expiration=2**40 - 1)
        self.send("orders", '{"a": 2}')
        rows = self.view("orders_t")
        assert len(rows) == len(named) + 2
        (late,) = [row for row in rows if row["CORR_ID"] == "late"]
        assert str(late["DELAY_TIMESTAMP"]).startswith("9999-12-31")
        assert rows[0]["EXCEPTION_QUEUE"] == '"ABC'
        assert self.admin.purge_queue_table("orders_t", "qtview.user_data.a = 1").messages == len(named) + 1
        assert self.take("orders") == ['{"a": 2}']

    def test_blocking_purge_lets_a_job_complete_its_plan(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, "orders")
            (claimed,) = transfer.claim(conn, queue, None, 1)
        done: list[int] = []
        thread = threading.Thread(
            target=lambda: done.append(self.admin.purge_queue_table("orders_t", block=20).messages), daemon=True
        )
        thread.start()
        eventually(lambda: len(self.view("orders_t")) == 1)
        with self.hub.write() as conn:
            if self.hub.postgresql:
                conn.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
            assert transfer.complete(conn, queue, None, [claimed.id]) == 1
            assert transfer.claim(conn, queue, None, 1) == []
        thread.join()
        assert done == [1]

    def test_large_purge_lets_other_writers_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue()
        self.send("orders", *(str(number) for number in range(2500)))
        transactions: list[int] = []
        write = self.hub.write

        def counted(*, durable: bool = True) -> Any:
            transactions.append(1)
            return write(durable=durable)

        monkeypatch.setattr(self.hub, "write", counted)
        assert self.admin.purge_queue_table("orders_t").messages == 2500
        assert len(transactions) == 4  # three of messages, and the row of the audit

    def test_purge_is_logged_with_its_counts(self, caplog: pytest.LogCaptureFixture) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "a")
        with caplog.at_level(logging.INFO, "mgw.gateway.aq.admin"):
            self.admin.purge_queue_table("events_t", "qtview.msg_priority = 1")
        assert "events_t purged: 1 message(s) and 2 entries" in caplog.text
        assert "qtview.msg_priority = 1" in caplog.text

    def test_purge_in_an_application_transaction_is_in_force_at_its_commit(self) -> None:
        self.queue()
        self.send("orders", "a")
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            assert QueueAdmin(self.hub, conn).purge_queue_table("orders_t", block=True).messages == 1
            conn.rollback()
            assert len(self.view("orders_t")) == 1
            QueueAdmin(self.hub, conn).purge_queue_table("orders_t")
            conn.commit()
        engine.dispose()
        assert self.view("orders_t") == []

    def test_delivery_modes(self) -> None:
        self.queue()
        self.send("orders", "a")
        for mode in ("BUFFERED", "OTHER"):
            with refused(25299):
                self.admin.purge_queue_table("orders_t", delivery_mode=mode)
        assert self.admin.purge_queue_table("orders_t", delivery_mode="PERSISTENT_OR_BUFFERED").messages == 1
