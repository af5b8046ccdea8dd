"""The hub against the model of its promises: three sessions, two queues, any order of calls, on both databases."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.conditions.rules import register_function, unregister_function
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, EnqueueOptions, SortList, Visibility
from mgw.gateway.aq.queues.codec import message_number, msgid
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.property.hub_model import Call, Database, Got, Model, Passed, Queue, Refused, Row
from tests.property.hub_model_client import Client
from tests.property.hub_operations import (
    OPERATION,
    RULES,
    SETTINGS,
    SORTS,
    Dequeue,
    DequeueById,
    DequeueExceptions,
    End,
    Enqueue,
    Rule,
    Savepoint,
    Search,
    Subscribe,
    Time,
)
from tests.support.brokers import PostgreSQL
from tests.support.examples import fewer
from tests.support.kept_totals import differences

EXAMPLES = os.environ.get("MGW_PROPERTY_EXAMPLES")
STEPS = 40
pytestmark = [pytest.mark.timeout(7200 if EXAMPLES else 180), pytest.mark.examples]

_numbers = itertools.count(1)
_bodies = itertools.count(1)


class ManualClock:
    """Wall-clock time moved by hand; waiting is real."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return time.monotonic()


class HubMachine(RuleBasedStateMachine):
    """Every call is made to the hub and to the model; what they return, and what everybody can see, is the same."""

    def __init__(self, hub: Hub, clock: ManualClock) -> None:
        super().__init__()
        self.hub = hub
        self.clock = clock
        self.admin = QueueAdmin(hub)
        self.model = Model(Database(hub.postgresql), clock.time)
        self.suffix = str(next(_numbers))
        self.sessions = [hub.session() for _ in range(3)]
        self.clients = [Client(self.model) for _ in range(3)]
        self.ever: list[int] = []
        self.steps = 0

    @initialize(sorts=st.tuples(st.sampled_from(SORTS), st.sampled_from(SORTS)), both=st.tuples(SETTINGS, SETTINGS))
    def set_up(self, sorts: tuple[SortList, SortList], both: tuple[dict[str, Any], dict[str, Any]]) -> None:
        for name, sort, options in zip("sm", sorts, both, strict=True):
            queue, table, multiple = name + self.suffix, f"{name}_t{self.suffix}", name == "m"
            self.admin.create_queue_table(table, sort_list=sort, multiple_consumers=multiple)
            self.admin.create_queue(queue, table, **options)
            self.admin.start_queue(queue)
            default = Queue(f"AQ$_{table}_E", table, multiple, sort, exceptions=True)
            own = Queue(f"own_{name}{self.suffix}", table, multiple, sort, exceptions=True)
            self.admin.create_queue(own.name, table, queue_type="EXCEPTION_QUEUE")
            for each in (default, own):
                self.admin.start_queue(each.name, enqueue=False)
                self.model.add_queue(each)
            retries, delay, retention = (options[key] for key in ("max_retries", "retry_delay", "retention_time"))
            self.model.add_queue(Queue(queue, table, multiple, sort, retries, delay, retention, default=default))
        self.add_subscriber("RED", None)
        self.add_subscriber("GREEN", RULES[0])

    def queue(self, name: str) -> Queue:
        return self.model.queues[(name + self.suffix).upper()]

    # -- administration --------------------------------------------------------------------------------------------

    def same(self, hub: Callable[[], Any], model: Callable[[], Any]) -> tuple[Any, Any]:
        """Both do it, or both refuse it with the same error (then both return None)."""
        try:
            expected = model()
        except Refused as refusal:
            with pytest.raises(AqError, match=f"^ORA-{refusal.number:05d}: "):
                hub()
            return None, None
        return hub(), expected

    def add_subscriber(self, name: str, subscription: Rule | None) -> None:
        queue = self.queue("m")
        text, holds = subscription or (None, None)
        self.same(
            lambda: self.admin.add_subscriber(queue.name, name, rule=text),
            lambda: self.model.add_subscriber(queue, name, holds),
        )

    def alter_subscriber(self, name: str, subscription: Rule | None) -> None:
        queue = self.queue("m")
        text, holds = subscription or (None, None)
        self.same(
            lambda: self.admin.alter_subscriber(queue.name, name, rule=text),
            lambda: self.model.alter_subscriber(queue, name, holds),
        )

    def remove_subscriber(self, name: str, _: object) -> None:
        queue = self.queue("m")
        self.same(
            lambda: self.admin.remove_subscriber(queue.name, name), lambda: self.model.remove_subscriber(queue, name)
        )

    def subscribe(self, asked: Subscribe) -> None:
        getattr(self, asked.what)(asked.name, asked.subscription)

    # -- messages --------------------------------------------------------------------------------------------------

    def enqueue(self, asked: Enqueue) -> None:
        who, name, news, immediate = asked
        queue = self.queue(name)
        exceptions = {"own": f"own_{name}{self.suffix}", "other": f"own_{'m' if name == 's' else 's'}{self.suffix}"}
        news = [
            new._replace(
                body=f"body {next(_bodies)}",
                exception_queue=exceptions.get(new.exception_queue or "", new.exception_queue),
                recipients=new.recipients if queue.multiple else (),
            )
            for new in news
        ]
        messages = [
            Message(
                new.body,
                priority=new.priority,
                delay=new.delay,
                expiration=new.expiration,
                correlation=new.correlation,
                exception_queue=new.exception_queue,
            )
            for new in news
        ]
        options = EnqueueOptions(visibility=Visibility.IMMEDIATE if immediate else Visibility.ON_COMMIT)
        recipients = {"recipient_lists": [new.recipients for new in news]} if queue.multiple else {}
        ids, made = self.same(
            lambda: self.sessions[who].enqueue_array(queue.name, messages, options, **recipients),
            lambda: self.clients[who].enqueue(queue, news, immediate=immediate),
        )
        if made is not None:
            numbers = [message_number(self.hub.hub_id, each) or 0 for each in ids]
            self.clients[who].store(made, numbers)
            self.ever += numbers

    def compare_dequeue(self, who: int, call: Call, options: DequeueOptions, *, array: bool) -> None:
        session = self.sessions[who]

        def hub() -> list[Any]:
            if array:
                return session.dequeue_array(call.queue.name, options, call.size)
            return [session.dequeue(call.queue.name, options)]

        got, expected = self.same(hub, lambda: self.clients[who].dequeue(call))
        if got is not None:
            assert [
                Got(message_number(self.hub.hub_id, one.msgid) or 0, one.message.body, one.message.attempts, one.state)
                for one in got
            ] == expected

    def dequeue(self, asked: Dequeue) -> None:
        who, name, consumer, mode, navigation, size, search, immediate, waits = asked
        queue = self.queue(name)
        found = search or Search({}, lambda _: True)
        call = Call(
            queue, consumer if queue.multiple else None, mode, navigation, size or 1,
            None, str(found.options) if search else None, found.matches, immediate, waits,
        )  # fmt: skip
        options = DequeueOptions(
            call.consumer,
            mode,
            navigation,
            Visibility.IMMEDIATE if immediate else Visibility.ON_COMMIT,
            0.001 if waits else 0,
            **found.options,
        )
        self.compare_dequeue(who, call, options, array=size is not None)

    def dequeue_by_id(self, asked: DequeueById) -> None:
        who, which, mode, consumer, exceptions, immediate = asked
        if not self.ever:
            return
        there = [message for message in self.model.messages if message.number]
        message = there[-which % len(there)] if there and which else None
        number = message.number if message is not None else self.ever[-1]
        queue = message.home if message is not None else self.queue("s")
        if message is not None and exceptions:
            queue = message.queue
        named = consumer if queue.multiple and not queue.exceptions else None
        call = Call(queue, named, mode, size=1, number=number, immediate=immediate)
        options = DequeueOptions(
            named,
            mode,
            visibility=Visibility.IMMEDIATE if immediate else Visibility.ON_COMMIT,
            wait=0,
            msgid=msgid(self.hub.hub_id, number),
        )
        self.compare_dequeue(who, call, options, array=False)

    def dequeue_exceptions(self, asked: DequeueExceptions) -> None:
        who, name, own, mode, navigation, size = asked
        queue = self.queue(f"own_{name}") if own else self.queue(name).default
        assert queue is not None
        call = Call(queue, None, mode, navigation, size)
        self.compare_dequeue(who, call, DequeueOptions(None, mode, navigation, wait=0), array=True)

    # -- transactions and time -------------------------------------------------------------------------------------

    def end(self, asked: End) -> None:
        session, client = self.sessions[asked.who], self.clients[asked.who]
        if asked.how == "commit":
            session.commit()
            client.commit()
        elif asked.how == "roll_back":
            session.rollback()
            client.rollback()
        else:
            session.close()
            client.rollback()
            self.sessions[asked.who], self.clients[asked.who] = self.hub.session(), Client(self.model)

    def use_savepoint(self, asked: Savepoint) -> None:
        session, client, name = self.sessions[asked.who], self.clients[asked.who], asked.name
        if asked.what == "savepoint":
            self.same(lambda: session.savepoint(name), lambda: client.savepoint(name))
        elif asked.what == "roll_back_to":
            self.same(lambda: session.rollback_to(name), lambda: client.rollback_to(name))
        else:
            self.same(lambda: session.release(name), lambda: client.release(name))

    def pass_time(self, asked: Time) -> None:
        self.clock.time += asked.seconds
        self.model.now = self.clock.time
        if asked.passes:
            report = time_manager.run_once(self.hub)
            assert report.returned == 0
            assert Passed(report.made_ready, report.expired, report.removed) == self.model.run_time_manager()

    @rule(operation=OPERATION)
    def step(self, operation: Any) -> None:
        perform = {
            Enqueue: self.enqueue,
            Dequeue: self.dequeue,
            DequeueById: self.dequeue_by_id,
            DequeueExceptions: self.dequeue_exceptions,
            End: self.end,
            Savepoint: self.use_savepoint,
            Subscribe: self.subscribe,
            Time: self.pass_time,
        }
        perform[type(operation)](operation)

    @invariant()
    def everybody_sees_the_same(self) -> None:
        self.steps += 1
        if self.steps % 3 == 0:  # to read the views takes longer than a call
            self.compare_views()

    def compare_views(self) -> None:
        with self.hub.read() as conn:
            assert not differences(conn)
        for table in {queue.table for queue in self.model.queues.values()}:
            sql = (
                'SELECT "MSG_ID", "CONSUMER_NAME", "QUEUE", "MSG_STATE", "RETRY_COUNT", "EXPIRATION_REASON",'
                f' "IN_TRANSACTION" FROM "AQ${table.upper()}"'
            )
            with self.hub.read() as conn:
                rows = conn.exec_driver_sql(sql).fetchall()
            assert {Row(int(row[0][16:], 16), *row[1:6], bool(row[6])) for row in rows} == self.model.rows(table)

    def teardown(self) -> None:
        try:
            self.compare_views()
        finally:
            self.tidy()

    def tidy(self) -> None:
        for session in self.sessions:
            session.close()
        self.hub.rolled_back.clear()
        for table in {queue.table for queue in self.model.queues.values()}:
            self.admin.drop_queue_table(table, force=True)


@pytest.fixture(autouse=True)
def _functions() -> Iterator[None]:
    register_function("is_even", lambda number: "yes" if number % 2 == 0 else "no")
    yield
    unregister_function("is_even")


def run(url: str, examples: int) -> None:
    clock = ManualClock()
    with Hub.open(url, create=True, durability="fast", clock=clock) as hub:
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            partial(HubMachine, hub, clock),
            settings=settings(
                max_examples=int(EXAMPLES or fewer(examples)),
                stateful_step_count=STEPS,
                deadline=None,
                report_multiple_bugs=False,
                suppress_health_check=checks,
            ),
        )


def test_hub_on_sqlite_does_what_the_model_does(tmp_path: Path) -> None:
    run(f"sqlite:///{tmp_path}/hub.db", 50)


@pytest.mark.postgresql
def test_hub_on_postgresql_does_what_the_model_does(postgresql: PostgreSQL) -> None:
    database = postgresql.create_database("hub_model")
    run(f"{database}?options=-clock_timeout%3D3000", 25)  # a wait for a session of this thread would never end
    postgresql.drop_database("hub_model")
