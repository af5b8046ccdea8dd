"""What every hub database must do: queues in the order of commits. Run by test_hub_*.py."""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.errors import NoMessage
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.queues import transfer
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.support.children import CHILDREN
from tests.support.ready_hubs import application_url

_TABLE = {"multiple_consumers": True, "message_grouping": "TRANSACTIONAL"}
_LOOK = now(consumer_name="RED", dequeue_mode=DequeueMode.BROWSE, navigation=Navigation.FIRST_MESSAGE_MULTI_GROUP)


class CommitCase(HubCase):
    """Queues ordered by commit, subscribed by RED and GREEN."""

    def by_commit(self, name: str = "events", sort: str = "COMMIT_TIME") -> str:
        self.queue(name, table={**_TABLE, "sort_list": sort})
        for subscriber in ("RED", "GREEN"):
            self.admin.add_subscriber(name, subscriber)
        return name

    def seen(self, hub: Hub | None = None, queue: str = "events") -> list[Any]:
        """Everything a browser sees now, in order."""
        with (hub or self.hub).session() as session:
            try:
                return [body_of(found) for found in session.dequeue_array(queue, _LOOK, 100_000)]
            except NoMessage:
                return []


class CommitTimeSuite(CommitCase):
    """One after another."""

    def test_message_enqueued_earlier_and_committed_later_comes_later(self) -> None:
        self.by_commit()
        with self.hub.session() as first, self.hub.session() as second:
            first.enqueue("events", Message("m1"))
            second.enqueue("events", Message("m2"))
            first.enqueue("events", Message("m1b"))
            second.commit()
            assert self.seen() == ["m2"]
            first.commit()
            assert self.seen() == ["m2", "m1", "m1b"]
        with self.hub.session() as session:
            assert body_of(session.dequeue("events", now(consumer_name="GREEN"))) == "m2"
            with refused(25235):
                session.dequeue("events", now(consumer_name="GREEN"))
            skip = now(consumer_name="GREEN", navigation=Navigation.NEXT_TRANSACTION)
            assert body_of(session.dequeue("events", skip)) == "m1"
            session.commit()

    @pytest.mark.parametrize("mode", [DequeueMode.BROWSE, DequeueMode.LOCKED])
    @pytest.mark.parametrize("sort", ["COMMIT_TIME", "PRIORITY,COMMIT_TIME"])
    def test_a_message_never_appears_without_those_committed_before_it(self, sort: str, mode: DequeueMode) -> None:
        self.by_commit(sort=sort)
        self.send("events", "seen")
        with self.hub.session() as early, self.hub.session() as late, self.hub.session() as reader:
            early.enqueue("events", Message("enqueued first"))
            look = now(consumer_name="RED", dequeue_mode=mode)
            following = replace(look, navigation=Navigation.NEXT_TRANSACTION)
            assert body_of(reader.dequeue("events", replace(look, navigation=Navigation.FIRST_MESSAGE))) == "seen"
            late.enqueue("events", Message("committed first"))
            late.commit()
            early.commit()
            with refused(25228):  # neither is in the snapshot: the second alone would pass the first
                reader.dequeue("events", following)
        assert self.seen() == ["seen", "committed first", "enqueued first"]

    def test_priority_of_the_first_message_goes_before_the_commit(self) -> None:
        self.by_commit(sort="PRIORITY,COMMIT_TIME")
        with self.hub.session() as one, self.hub.session() as two, self.hub.session() as three:
            for session, body, priority in ((one, "late", 2), (two, "early", 2), (three, "urgent", 1)):
                session.enqueue("events", Message(body, priority=priority))
                session.enqueue("events", Message(f"{body} too", priority=0))
            for session in (two, one, three):
                session.commit()
        assert self.seen() == ["urgent", "urgent too", "early", "early too", "late", "late too"]

    def test_every_kind_of_transaction_gets_its_place_at_its_commit(self) -> None:
        self.by_commit()
        engine = sa.create_engine(self.application_url)
        with self.hub.session() as session:
            session.enqueue("events", Message("session"))
            with self.hub.write() as conn:
                transfer.put(conn, transfer.resolve(conn, "events"), [Message("job 1"), Message("job 2")])
            with engine.begin() as conn:
                self.hub.session(conn).enqueue("events", Message("application"))
            session.enqueue("events", Message("at once"), EnqueueOptions(Visibility.IMMEDIATE))
            session.commit()
        engine.dispose()
        assert self.seen() == ["job 1", "job 2", "application", "at once", "session"]

    def test_rolled_back_transaction_takes_no_place(self) -> None:
        self.by_commit()
        with self.hub.session() as session:
            session.enqueue("events", Message("never"))
            session.rollback()
            session.enqueue("events", Message("a"))
            session.commit()
        self.send("events", "b")
        assert self.seen() == ["a", "b"]
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT COUNT(*) FROM aq_unplaced").scalar() == 0

    def test_delayed_message_keeps_the_place_of_its_commit(self) -> None:
        self.by_commit()
        self.send("events", "delayed", delay=10)
        self.send("events", "b")
        assert self.seen() == ["b"]
        self.run_time(10)
        assert self.seen() == ["delayed", "b"]

    @pytest.mark.parametrize(
        "table",
        [
            {},
            {"multiple_consumers": True},
            {"message_grouping": "TRANSACTIONAL"},
        ],
    )
    @pytest.mark.parametrize("sort", ["COMMIT_TIME", "PRIORITY,COMMIT_TIME"])
    def test_commit_order_needs_consumers_and_groups(self, table: dict[str, Any], sort: str) -> None:
        with refused(24036):
            self.admin.create_queue_table("t", sort_list=sort, **table)
        assert self.admin.queue_tables() == []


_EACH = 150  # transactions of a writer


def _write(url: str, pipe: Connection, writer: int, count: int) -> None:
    """Child: transactions of one or two messages, open for a while, some through a connection of the application."""
    chance = random.Random(writer)
    engine = sa.create_engine(application_url(url))
    with Hub.open(url) as hub, hub.session() as session:
        pipe.send("ready")
        pipe.recv()
        for number in range(count):
            body = f"{writer}.{number}"
            if hub.postgresql and chance.random() < 0.3:
                with engine.begin() as conn:
                    hub.session(conn).enqueue("events", Message(body))
                    conn.exec_driver_sql(f"SELECT pg_sleep({chance.random() / 200})")
            else:
                session.enqueue("events", Message(body))
                if chance.random() < 0.5:
                    session.enqueue("events", Message(f"{body}b"))
                session.commit()
    engine.dispose()
    pipe.send("done")


class CommitConcurrencySuite(CommitCase):
    """Many writers: what a reader has seen stays the beginning of what it sees later."""

    def test_later_commit_never_appears_before_one_already_seen(self) -> None:
        self.by_commit()
        children = []
        for writer in range(3):
            here, there = CHILDREN.Pipe()
            process = CHILDREN.Process(target=_write, args=(self.url, there, writer, _EACH))
            process.start()
            there.close()
            children.append((process, here))
        for _, pipe in children:
            assert pipe.recv() == "ready"
        for _, pipe in children:
            pipe.send("go")
        before: list[Any] = []
        looks = 0
        while any(process.is_alive() and not pipe.poll() for process, pipe in children) or not looks:
            seen = self.seen()
            assert seen[: len(before)] == before
            before = seen
            looks += 1
        for process, pipe in children:
            assert pipe.recv() == "done"
            process.join(20)
            pipe.close()
        seen = self.seen()
        assert seen[: len(before)] == before
        assert looks > 5
        for writer in range(3):
            own = [body for body in seen if body.startswith(f"{writer}.") and not body.endswith("b")]
            assert own == [f"{writer}.{number}" for number in range(_EACH)]
        for first, second in itertools.pairwise(seen):  # the two messages of a transaction are neighbours
            assert not second.endswith("b") or second == f"{first}b"

    def test_transactions_on_several_queues_do_not_wait_for_each_other_for_ever(self) -> None:
        queues = [self.by_commit(name) for name in ("a", "b", "c")]
        failures: list[BaseException] = []

        def work(seed: int) -> None:
            chance = random.Random(seed)
            try:
                with self.hub.session() as session:
                    for number in range(15):
                        for queue in chance.sample(queues, 3):
                            session.enqueue(queue, Message(f"{seed}.{number}"))
                        session.commit()
            except BaseException as error:  # a thread must not fail in silence
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        orders = [self.seen(queue=queue) for queue in queues]
        assert len(orders[0]) == 60
        assert orders[0] == orders[1] == orders[2]  # one order of commits, whatever the queue


class PlacingSuite(CommitCase):
    """PostgreSQL: places are given by the database, just before a commit; on SQLite one transaction writes."""

    databases = ("postgresql",)

    def test_own_messages_are_invisible_before_the_commit_gives_them_a_place(self) -> None:
        self.by_commit()
        self.queue("plain")
        with self.hub.session() as session:
            msgid = session.enqueue("events", Message("mine"))
            session.enqueue("plain", Message("plain"))
            assert body_of(session.dequeue("plain", now())) == "plain"
            with refused(25228):
                session.dequeue("events", now(consumer_name="RED"))
            with refused(25263):
                session.dequeue("events", now(consumer_name="RED", msgid=msgid))
            session.commit()
            assert body_of(session.dequeue("events", now(consumer_name="RED"))) == "mine"

    def test_second_commit_waits_for_the_first_that_was_placed(self) -> None:
        self.by_commit()
        engine = sa.create_engine(self.application_url)
        with engine.connect() as first, engine.connect() as second:
            self.hub.session(second).enqueue("events", Message("second"))
            self.hub.session(first).enqueue("events", Message("first"))
            first.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")  # placed now, and still not committed
            second.exec_driver_sql("SET lock_timeout = '200ms'")
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                second.commit()
            second.rollback()
            assert self.seen() == []
            self.hub.session(first).enqueue("events", Message("of the same group"))
            first.commit()
        engine.dispose()
        assert self.seen() == ["first", "of the same group"]

    def test_other_search_path_at_the_commit_changes_nothing(self) -> None:
        self.by_commit()
        engine = sa.create_engine(self.application_url)
        with engine.begin() as conn:
            self.hub.session(conn).enqueue("events", Message("x"))
            conn.exec_driver_sql("SET LOCAL search_path = pg_catalog")
        engine.dispose()
        assert self.seen() == ["x"]
