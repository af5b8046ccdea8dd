"""The administration from SQL: each case runs in Python on one hub and through schema mgwadm on another.

It leaves the same rows, or the same refusal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.model import State
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.services.admin import NO_CHANGE, GatewayAdmin
from mgw.gateway.services.happenings import audit
from mgw.gateway.state import catalog, run_state
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.mgwadm.mgwadm_sql import MGWADM_VERSION
from mgw.gateway.state.run_state import Plan
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.errors import GatewayError
from mgw.transforms.message import Message
from tests.conformance.admin_suite import KEY
from tests.support.brokers import PostgreSQL
from tests.support.ready_hubs import ready_hubs
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgresql

#: What must be equal: columns that say when, or count, are left out.
ROWS = {
    "gw_agent": (
        "name_key, name, username, database, conntype, max_memory, max_threads, service, initfile, comments, status, "
        "log_level, last_error_msg, token, password IS NULL"
    ),
    "gw_agent_option": "agent_key, name, value, encrypted",
    "gw_link": (
        "name_key, name, type, agent_key, attributes, options, username, max_connections, inbound_log_queue, "
        "outbound_log_queue, comments"
    ),
    "gw_foreign_queue": "name_key, link_key, name, domain, provider_queue, options, comments",
    "gw_job": (
        "name_key, name, agent_key, link_key, propagation_type, source, destination, source_key, destination_key, "
        "rule, transformation, exception_queue, poll_interval, options, require_guarantee, prop_style, enabled, "
        "comments, old_style, schedule, schedule_key"
    ),
    "gw_schedule": (
        "name_key, name, link_key, propagation_type, source, destination, source_key, destination_key, latency, enabled"
    ),
    "gw_job_state": "status, failures, next_attempt, resets, not_working_since",
    "aq_consumer": (
        "queue_id, name, name_key, address, protocol, is_subscriber, rule, rule_sql, transformation, delivery_mode, "
        "queue_to_queue, removed_upto, options"
    ),
    "aq_entry": "consumer_id, state",
    "aq_agent": "name_key, name, enable_http, enable_anyp, automatic",
    "aq_audit": "action, object, messages, moved_to, kind, before_change::jsonb, after_change::jsonb",
    "gw_event": "level, name, agent, object",
}


def _pair(propagation_type: str, source: str, destination: str) -> dict[str, str]:
    return {"propagation_type": propagation_type, "source": source, "destination": destination}


_IN = _pair("INBOUND", "tasks@shop", "one")


class Call(NamedTuple):
    """A procedure with its arguments by name."""

    name: str
    arguments: dict[str, Any]


def call(_name: str, /, **arguments: Any) -> Call:
    return Call(_name, arguments)


class Refused(NamedTuple):
    number: int
    what: str
    cause: str
    cure: str


class Pair:
    """Two hubs with the same definitions: one is administered in Python, the other in SQL."""

    def __init__(self, urls: list[str], stack: ExitStack) -> None:
        self.urls = urls
        self.hubs = [stack.enter_context(open_hub(url)) for url in urls]
        self.admin = GatewayAdmin(self.hubs[0], Secrets(environ={"MGW_SECRET_KEY": KEY}))
        self.other = GatewayAdmin(self.hubs[1], Secrets(environ={"MGW_SECRET_KEY": KEY}))
        address = urls[1].partition("?")[0].replace("+psycopg", "")
        self.connection = stack.enter_context(psycopg.connect(address, autocommit=True))

    def both(self, action: Callable[[GatewayAdmin], Any]) -> None:
        """Something that is done in Python on both."""
        for admin in (self.admin, self.other):
            action(admin)

    def run(self, sql: str) -> None:
        """A statement on both hubs."""
        for hub in self.hubs:
            with hub.write() as conn:
                Db(conn).run(sql)

    def python(self, step: Call) -> Refused | None:
        try:
            getattr(self.admin, step.name)(**step.arguments)
        except GatewayError as error:
            return Refused(error.number or 0, error.what, error.cause, error.cure)
        return None

    def sql(self, step: Call) -> Refused | None:
        given = {name: _sql_value(value) for name, value in step.arguments.items()}
        named = ", ".join(f"{name} => %({name})s" for name in given)
        try:
            self.connection.execute(f"SELECT mgwadm.{step.name}({named})", given)
        except psycopg.Error as error:
            said = error
        else:
            return None
        number, _, what = (said.diag.message_primary or "").removeprefix("ORA-").partition(": ")
        assert number.isdigit(), str(said)
        assert said.sqlstate == ("MA" if number.startswith("328") else "MG") + number[-3:]
        cause = (said.diag.message_detail or "").removeprefix("cause: ")
        return Refused(int(number), what, cause, said.diag.message_hint or "")

    def compare(self, *steps: Call) -> list[Refused | None]:
        """Run each call both ways; what Python refused."""
        refusals = []
        for step in steps:
            expected, found = self.python(step), self.sql(step)
            assert found == expected, step
            refusals.append(expected)
            assert self.rows(1) == self.rows(0), step
        return refusals

    def rows(self, number: int) -> dict[str, list[tuple[Any, ...]]]:
        with self.hubs[number].read() as conn:
            return {
                table: sorted(Db(conn).rows(f"SELECT {columns} FROM {table}"), key=repr)
                for table, columns in ROWS.items()
            }


def _sql_value(value: Any) -> Any:
    if value is NO_CHANGE:
        return "NO_CHANGE"
    return Jsonb(value) if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def hubs(postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    with ready_hubs(postgresql, "mgwadm", partial(open_hub, create=True)) as made:
        yield made


@pytest.fixture
def pair(hubs: Callable[[], AbstractContextManager[str]]) -> Iterator[Pair]:
    with ExitStack() as stack:
        urls = [stack.enter_context(hubs()) for _ in range(2)]
        yield Pair(urls, stack)


def define(admin: GatewayAdmin) -> None:
    """Links of all types, foreign queues, and queues of the hub."""
    admin.create_agent("second")
    admin.create_msgsystem_link("plant", "MQTT", {"hostname": "mqtt.example"})
    admin.create_msgsystem_link("old", "MQTT", {"hostname": "mqtt.example", "protocol_version": 4})
    admin.create_msgsystem_link("logs", "KAFKA", {"bootstrap_servers": "k:9092"}, outbound_log_queue="mgw.sent")
    admin.create_msgsystem_link("shop", "RABBITMQ", {"hostname": "127.0.0.1", "port": 1}, max_connections=1)
    admin.create_msgsystem_link("far", "RABBITMQ", {"hostname": "127.0.0.2", "port": 1}, "second")
    for name, link, provider, domain in (
        ("orders", "plant", "shop/orders", "TOPIC"),
        ("every", "plant", "shop/#", "TOPIC"),
        ("sharing", "plant", "$share/mgw/shop/+", None),
        ("filled", "plant", "shop/{device}", None),
        ("orders", "old", "shop/orders", "TOPIC"),
        ("records", "logs", "records", None),
        ("sent", "logs", "mgw.sent", None),
        ("tasks", "shop", "tasks", "QUEUE"),
        ("errors", "shop", "errors", "QUEUE"),
        ("news", "shop", "amq.topic/news.#", "TOPIC"),
        ("some", "shop", "amq.topic/news.sport", "TOPIC"),
        ("bare", "shop", "/x", "TOPIC"),
        ("tasks", "far", "tasks", "QUEUE"),
    ):
        admin.register_foreign_queue(name, link, provider, domain)
    queues = QueueAdmin(admin.hub)
    for name, payload in (("one", "TEXT"), ("two", "TEXT"), ("many", "TEXT"), ("raw", "RAW")):
        queues.create_queue_table(f"{name}_t", payload, multiple_consumers=name == "many")
        queues.create_queue(name, f"{name}_t")
        queues.start_queue(name)


def put(admin: GatewayAdmin) -> None:
    """Two messages that are delayed."""
    with admin.hub.write() as conn:
        now = admin.hub.clock.now()
        transfer.put(conn, transfer.resolve(conn, "many"), [Message(body="x"), Message(body="y")], now=now + 100)


class TestJobs:
    def test_a_job_is_created_altered_and_removed(self, pair: Pair) -> None:
        pair.both(define)
        steps = [
            call("create_job", job_name="In", propagation_type="INBOUND", source="orders@plant", destination="one"),
            call(
                "create_job",
                job_name="out",
                propagation_type="outbound_propagation",
                source="many",
                destination="tasks@shop",
                exception_queue="two",
                poll_interval=2.5,
                options={"msgBatchSize": 100, "retry_max_delay": "30", "PreserveMessageID": True, "unrouted": "ERROR"},
                enabled=False,
                comments="first; ü",
                require_guarantee="AT-LEAST-ONCE",
            ),
            call("create_job", job_name="local", propagation_type="LOCAL", source="one", destination="mgw.two"),
            call(
                "create_job",
                job_name="t",
                propagation_type="THROUGH",
                source="records@logs",
                destination="filled@plant",
            ),
            call("alter_job", job_name="OUT"),
            call("alter_job", job_name="out", options={"MsgBatchSize": None, "park_key": " Correlation"}),
            call("alter_job", job_name="out", options={"*": None}, poll_interval=None, comments=None),
            call("alter_job", job_name="out", exception_queue=None, require_guarantee=None, rule=None),
            call("enable_job", job_name="out"),
            call("disable_job", job_name="out"),
            call("disable_job", job_name="out"),
            call("reset_job", job_name="out"),
            call("remove_job", job_name="out"),
            call("create_job", job_name="out", propagation_type="OUTBOUND", source="many", destination="records@logs"),
            call("remove_job", job_name="out", force=True),
            call("remove_job", job_name="local"),
            call("remove_job", job_name="In", force=True),
        ]
        assert pair.compare(*steps) == [None] * len(steps)

    def test_a_lost_subscription_is_made_again(self, pair: Pair) -> None:
        """It went with its queue, which a program dropped with the procedures on queues, and created again."""
        pair.both(define)
        pair.both(lambda admin: admin.create_job("out", "OUTBOUND", "many", "tasks@shop"))
        pair.both(lambda admin: admin.add_subscriber("half", "OUTBOUND", "many", "records@logs"))

        def lose(admin: GatewayAdmin) -> None:
            queues = QueueAdmin(admin.hub)
            queues.drop_queue_table("many_t", force=True)
            queues.create_queue_table("many_t", "TEXT", multiple_consumers=True)
            queues.create_queue("many", "many_t")
            queues.start_queue("many")
            assert queues.queue_subscribers("many") == []

        for step in (
            call("reset_job", job_name="OUT"),
            call("enable_job", job_name="out"),
            call("alter_job", job_name="out", comments="c"),
            call(
                "set_option", target_type="JOB_OPTION", target_name="out", option_name="MsgBatchSize", option_value="7"
            ),
            call("reset_subscriber", subscriber_id="HALF"),
            call("alter_subscriber", subscriber_id="half", options={"MsgBatchSize": 9}),
        ):
            pair.both(lose)
            assert pair.compare(step) == [None]
            (found,) = QueueAdmin(pair.other.hub).queue_subscribers("many")
            assert found.name == ("MGW_half" if "subscriber_id" in step.arguments else "MGW_out")
        told = []
        for hub in pair.hubs:
            with hub.read() as conn:
                told.append(Db(conn).rows("SELECT text FROM gw_event WHERE name = 'SubscribedAgain' ORDER BY id"))
        assert told[0] == told[1]
        assert len(told[1]) == 6
        pair.both(lose)
        assert pair.compare(call("disable_job", job_name="out")) == [None]
        assert QueueAdmin(pair.other.hub).queue_subscribers("many") == []
        pair.both(lambda admin: QueueAdmin(admin.hub).drop_queue_table("many_t", force=True))
        assert pair.compare(call("reset_job", job_name="out")) == [None], "the queue is gone: nothing to subscribe to"

    def test_a_lost_subscription_with_a_rule_needs_the_command(self, pair: Pair) -> None:
        pair.both(define)
        pair.other.create_job("out", "OUTBOUND", "many", "tasks@shop", "tab.priority < 3")
        pair.other.add_subscriber("half", "OUTBOUND", "many", "records@logs", "tab.priority < 3")
        QueueAdmin(pair.other.hub).remove_subscriber("many", "MGW_out")
        QueueAdmin(pair.other.hub).remove_subscriber("many", "MGW_half")
        for step, command in (
            (call("reset_job", job_name="out"), "mgw jobs reset out"),
            (call("enable_job", job_name="out"), "mgw jobs reset out"),
            (call("reset_subscriber", subscriber_id="half"), "mgw subscribers reset half"),
        ):
            refused = pair.sql(step)
            assert refused is not None
            assert (refused.number, refused.cure) == (32801, f"use the command instead: {command}")
            assert "its subscription to queue " in refused.cause
        assert pair.sql(call("alter_job", job_name="out", rule=None)) is None
        assert [each.name for each in QueueAdmin(pair.other.hub).queue_subscribers("many")] == ["MGW_out"]

    @pytest.mark.parametrize(
        "changed",
        [
            {"job_name": ""},
            {"job_name": "a b'c"},
            {"job_name": "1st"},
            {"job_name": "x" * 125},
            {"job_name": "x" * 129},
            {"job_name": "TAKEN"},
            {"propagation_type": "sideways"},
            {"poll_interval": 0.05},
            {"poll_interval": 61},
            {"require_guarantee": "none"},
            {"comments": "x" * 4001},
            {"source": "missing"},
            {"source": "a b"},
            {"source": "AQ$_one_t_E"},
            {"source": "tasks@shop"},
            {"destination": "one"},
            {"destination": "missing@shop"},
            {"destination": "tasks@nowhere"},
            {"destination": "news@shop"},
            {"destination": "every@plant"},
            {"destination": "sharing@plant"},
            {"destination": "sent@logs"},
            {"destination": "errors@shop", "source": "two"},
            {"rule": "priority = 1"},
            {"transformation": "nothing"},
            {"exception_queue": "one"},
            {"exception_queue": "raw"},
            {"exception_queue": "missing"},
            {"exception_queue": "errors@shop"},
            {"options": {"zzzzzzzz": 1}},
            {"options": {"MsgBatchSize": 0}},
            {"options": {"MsgBatchSize": 10001}},
            {"options": {"MsgBatchSize": "many"}},
            {"options": {"MsgBatchSize": 100, "max_batch_size": 50}},
            {"options": {"PreserveMessageID": "maybe"}},
            {"options": {"retry_policy": "none"}},
            {"options": {"unrouted": "exception_queue"}},
            {"options": {"JMS_NoLocal": True}},
            {"options": {"JMS_DeliveryMode": "SOMETIMES"}},
            {"destination": "orders@old", "options": {"PreserveMessageID": True}},
            {"propagation_type": "INBOUND", "source": "bare@shop", "destination": "one"},
            {
                "propagation_type": "INBOUND",
                "source": "tasks@shop",
                "destination": "one",
                "exception_queue": "errors@shop",
            },
            {
                "propagation_type": "INBOUND",
                "source": "tasks@shop",
                "destination": "one",
                "options": {"park_key": "correlation"},
            },
            {"propagation_type": "INBOUND", "source": "news@shop", "destination": "one", "exception_queue": "one"},
            {
                "propagation_type": "INBOUND",
                "source": "tasks@far",
                "destination": "one",
                "exception_queue": "tasks@far",
            },
            {"propagation_type": "THROUGH", "source": "tasks@shop", "destination": "tasks@far"},
            {"propagation_type": "THROUGH", "source": "tasks@shop", "destination": "errors@shop"},
            {"propagation_type": "THROUGH", "source": "news@shop", "destination": "some@shop"},
            {"propagation_type": "THROUGH", "source": "every@plant", "destination": "orders@plant"},
            {
                "propagation_type": "THROUGH",
                "source": "orders@old",
                "destination": "orders@plant",
                "options": {"JMS_NoLocal": True},
            },
            {"propagation_type": "LOCAL", "source": "one", "destination": "one"},
            {"propagation_type": "LOCAL", "source": "two", "destination": "one"},
        ],
        ids=json.dumps,
    )
    def test_what_python_refuses_sql_refuses(self, refusing: Pair, changed: dict[str, Any]) -> None:
        """In the same words."""
        job = {"job_name": "new", "propagation_type": "OUTBOUND", "source": "one", "destination": "tasks@shop"}
        (refusal,) = refusing.compare(call("create_job", **{**job, **changed}))
        assert refusal is not None

    def test_a_job_that_is_not_there_or_not_usable(self, pair: Pair) -> None:
        pair.both(define)
        created = call("create_job", job_name="j", propagation_type="INBOUND", source="news@shop", destination="one")
        pair.compare(created)
        names = ("enable_job", "disable_job", "reset_job", "alter_job", "remove_job")
        assert all(pair.compare(*(call(name, job_name="missing") for name in names)))
        for status in ("SUBSCRIBER_DELETE_PENDING", "DELETE_PENDING"):
            pair.run(f"UPDATE gw_job_state SET status = '{status}'")
            assert all(pair.compare(*(call(name, job_name="j") for name in names[:4])))
        pair.run("UPDATE gw_job_state SET status = 'READY'")
        changes: list[dict[str, Any]] = [
            {"options": {"JMS_NoLocal": True}},
            {"poll_interval": 100},
            {"exception_queue": "tasks@far"},
        ]
        assert all(pair.compare(*(call("alter_job", job_name="j", **each) for each in changes)))
        pair.compare(
            call("create_job", job_name="k", propagation_type="OUTBOUND", source="one", destination="tasks@shop")
        )
        pair.run("UPDATE gw_job_state SET status = 'SUBSCRIBER_DELETE_PENDING'")
        assert pair.compare(call("remove_job", job_name="k")) == [None]

    def test_messages_that_wait_for_a_job_are_not_lost_unsaid(self, pair: Pair) -> None:
        pair.both(define)
        pair.compare(
            call("create_job", job_name="j", propagation_type="OUTBOUND", source="many", destination="tasks@shop")
        )

        pair.both(put)
        (refusal,) = pair.compare(call("remove_job", job_name="j"))
        assert refusal is not None
        assert "2 messages" in refusal.cause
        pair.compare(call("remove_job", job_name="j", force=True))
        pair.compare(
            call("create_job", job_name="j", propagation_type="OUTBOUND", source="many", destination="tasks@shop")
        )

    @pytest.mark.parametrize("source", ["one", "many"])
    def test_planned_messages_wait_again_when_their_job_is_gone(self, pair: Pair, source: str) -> None:
        pair.both(define)
        pair.compare(call("create_job", job_name="j", **_pair("OUTBOUND", source, "tasks@shop")))

        def plan(admin: GatewayAdmin) -> None:
            job = admin.get_job("j")
            assert job is not None
            with admin.hub.write() as conn:
                queue, now = transfer.resolve(conn, source), admin.hub.clock.now()
                transfer.put(conn, queue, [Message(body=str(number)) for number in range(3)], now=now)
                taken = transfer.claim_numbers(conn, queue, job.subscriber if source == "many" else None, 2)
                run_state.add_plans(conn, job.id, [Plan(1, tuple(taken))], token=0, now=now)

        pair.both(plan)
        pair.compare(call("remove_job", job_name="j", force=True))
        with pair.hubs[1].read() as conn:
            left = Db(conn).rows("SELECT state, claim FROM aq_message")
        assert left == [(State.SPLIT if source == "many" else State.READY, None)] * 3

    def test_a_running_agent_removes_jobs(self, pair: Pair) -> None:
        pair.both(define)
        pair.run(f"UPDATE gw_agent SET status = 'RUNNING', lease_expires = {2**40}")
        pair.compare(
            call("create_job", job_name="j", **_pair("OUTBOUND", "one", "tasks@shop")),
            call("remove_job", job_name="j"),
            call("unregister_foreign_queue", name="tasks", linkname="shop"),
            call("set_log_level", log_level=3),
            call("cleanup_gateway", action="RESET_SUB_MISSING_MESSAGE", sarg="missing"),
            call("cleanup_gateway", action="RESET_SUB_MISSING_LOG_REC", sarg="j"),
        )
        pair.run("UPDATE gw_job_state SET status = 'FAILED'")
        refused = pair.sql(call("cleanup_gateway", action="RESET_SUB_MISSING_MESSAGE", sarg="j"))
        assert refused is not None
        assert "mgw agents cleanup RESET_SUB_MISSING_MESSAGE j" in refused.cure

    def test_a_job_with_records_at_a_broker_is_left_to_its_agent(self, pair: Pair) -> None:
        pair.both(define)
        place = {"hostname": "127.0.0.1", "port": 1}
        pair.both(lambda admin: admin.create_msgsystem_link("kept", "RABBITMQ", place, outbound_log_queue="sent"))
        pair.both(lambda admin: admin.register_foreign_queue("tasks", "kept", "tasks", "QUEUE"))
        pair.compare(
            call("create_job", job_name="j", **_pair("OUTBOUND", "one", "tasks@kept")),
            call("remove_job", job_name="j"),
        )
        job = pair.other.get_job("j")
        assert job is not None
        assert job.status == "DELETE_PENDING"

    def test_what_a_subscription_at_a_broker_holds_is_not_lost_unsaid(self, pair: Pair) -> None:
        """Python asks the broker; SQL, which cannot, says how."""
        pair.both(define)
        pair.compare(call("create_job", job_name="j", **_pair("INBOUND", "news@shop", "one")))
        removal = call("remove_job", job_name="j")
        pair.run("UPDATE gw_job_state SET backlog = 3")
        (refusal,) = pair.compare(removal)
        assert refusal is not None
        assert "3 messages" in refusal.cause
        pair.run("UPDATE gw_job_state SET backlog = 0")
        refused = pair.sql(removal)
        assert refused is not None
        assert "mgw jobs remove j" in refused.cure
        assert [job.status for job in pair.other.list_jobs()] == ["READY"]
        assert pair.compare(call("remove_job", job_name="j", force=True)) == [None]

    def test_an_agent_that_is_down_ends_the_sessions_of_jobs_later(self, pair: Pair) -> None:
        """MQTT keeps one also for a shared subscription; jobs that read Kafka leave nothing."""
        pair.both(define)
        pair.both(lambda admin: admin.create_msgsystem_link("near", "MQTT", {"hostname": "127.0.0.1", "port": 1}))
        pair.both(lambda admin: admin.register_foreign_queue("shared", "near", "$share/g/x", "QUEUE"))
        pair.compare(
            call("create_job", job_name="shared", **_pair("INBOUND", "shared@near", "one")),
            call("create_job", job_name="records", **_pair("INBOUND", "records@logs", "one")),
            call("remove_job", job_name="shared"),
            call("remove_job", job_name="records"),
        )
        assert [(job.name, job.status) for job in pair.other.list_jobs()] == [("shared", "DELETE_PENDING")]

    def test_a_subscription_that_is_left_ends_with_its_job(self, pair: Pair) -> None:
        pair.both(define)
        pair.compare(call("create_job", job_name="j", **_pair("OUTBOUND", "many", "tasks@shop")))
        pair.both(put)
        pair.run("UPDATE gw_job_state SET status = 'DELETE_PENDING'")
        assert pair.compare(call("remove_job", job_name="j")) == [None]
        assert QueueAdmin(pair.hubs[1]).queue_subscribers("many") == []
        assert audit(pair.other.hub, 1)[0].messages == 2

    def test_names_of_subscribers_and_schedules_are_taken(self, pair: Pair) -> None:
        pair.both(define)
        pair.both(lambda admin: admin.add_subscriber("reader", "INBOUND", "news@shop", "one"))
        pair.both(lambda admin: admin.add_subscriber("half", "OUTBOUND", "many", "tasks@shop"))
        pair.both(lambda admin: admin.schedule_propagation("plan", "OUTBOUND", "many", "tasks@shop"))
        pair.both(lambda admin: admin.schedule_propagation("alone", "INBOUND", "tasks@shop", "one"))
        names = ("reader", "HALF", "plan", "alone")
        refused = pair.compare(*(call("create_job", job_name=name, **_pair("LOCAL", "one", "two")) for name in names))
        assert [each is not None and each.number for each in refused] == [32854] * 4
        assert pair.compare(call("enable_job", job_name="reader")) != [None]
        unregister = (call("unregister_foreign_queue", name=name, linkname="shop") for name in ("news", "tasks"))
        assert None not in pair.compare(*unregister)

    def test_what_only_python_can_check_is_refused(self, refusing: Pair) -> None:
        job = {"job_name": "new", **_pair("OUTBOUND", "many", "tasks@shop")}
        for changed in ({"rule": "priority = 1"}, {"options": {"park_key": "tab.user_data.account"}}):
            refused = refusing.sql(call("create_job", **{**job, **changed}))
            assert refused is not None
            assert "mgw jobs" in refused.cure


def _option(target_type: str, target_name: str, option_name: str) -> dict[str, str]:
    return {"target_type": target_type, "target_name": target_name, "option_name": option_name}


def _link(link_type: str, /, **more: Any) -> Call:
    properties = {
        "RABBITMQ": {"hostname": "127.0.0.1"},
        "KAFKA": {"bootstrap_servers": "a:9092, [::1]:9093"},
        "MQTT": {"hostname": "h"},
        "MEMORY": {},
    }[link_type]
    given = {"linkname": "new", "link_type": link_type.lower(), **more}
    given["properties"] = {**properties, **more.get("properties", {})}
    return call("create_msgsystem_link", **given)


REFUSED_LINKS = [
    _link("MQTT", linkname="a b"),
    _link("MQTT", link_type="MQSERIES"),
    _link("MQTT", linkname="PLANT"),
    _link("MQTT", agent_name="nobody"),
    _link("MQTT", comment="x" * 4001),
    _link("MQTT", properties={"hostname": None}),
    _link("MQTT", properties={"hostname": ""}),
    _link("MQTT", properties={"port": 0}),
    _link("MQTT", properties={"port": "x"}),
    _link("MQTT", properties={"keepalive": 1.5}),
    _link("MQTT", properties={"nothing": 1}),
    _link("MQTT", properties={"max_connections": 0}),
    _link("MQTT", properties={"max_connections": "2"}),
    _link("MQTT", properties={"client_id_prefix": "<<ENCRYPTED>>"}),
    _link("MQTT", username=" <<ENCRYPTED>>"),
    _link("RABBITMQ", options={"AMQP_ManagementURL": "<<ENCRYPTED>>"}),
    _link("MQTT", properties={"tls_ca_file": "ca.pem"}),
    _link("MQTT", properties={"tls": True, "tls_key_file": "key.pem"}),
    _link("MQTT", options={"MQTT_SingleNode": "perhaps"}),
    _link("MQTT", options={"nothing": 1}),
    _link("MQTT", inbound_log_queue="x"),
    _link("MQTT", outbound_log_queue="mgw/sent"),
    _link("MQTT", outbound_log_queue="mgw/#/{job}"),
    _link("RABBITMQ", options={"AMQP_ManagementURL": "broker"}),
    _link("RABBITMQ", options={"AMQP_ManagementURL": "http://guest:x@broker"}),
    _link("RABBITMQ", options={"AMQP_Heartbeat": 1}),
    _link("RABBITMQ", properties={"tls_key_file": "key.pem"}),
    _link("KAFKA", properties={"bootstrap_servers": "a:9092,b:"}),
    _link("KAFKA", properties={"security_protocol": "SASL_PLAINTEXT"}),
    _link("KAFKA", properties={"security_protocol": "SSL", "tls": False}),
    _link("KAFKA", properties={"client": "other"}),
    _link("KAFKA", inbound_log_queue="x"),
    _link("KAFKA", outbound_log_queue="a topic"),
]
REFUSED_QUEUES: list[dict[str, Any]] = [
    {"name": "a b"},
    {"name": ""},
    {"name": "a@b"},
    {"linkname": "nowhere"},
    {"name": "ORDERS"},
    {"comment": "x" * 4001},
    {"domain": "stream"},
    {"domain": "queue"},
    {"linkname": "logs", "domain": "queue"},
    {"linkname": "logs", "provider_queue": "a topic"},
    {"linkname": "shop", "provider_queue": ""},
    {"linkname": "shop", "provider_queue": "x" * 256},
    {"linkname": "shop", "provider_queue": "a\tb"},
    {"linkname": "shop", "domain": "TOPIC", "options": {"AMQP_QueueType": "stream"}},
    {"linkname": "shop", "options": {"AMQP_MaxPriority": 256}},
    {"linkname": "shop", "options": {"AMQP_Prefetch": "many"}},
    {"linkname": "shop", "options": {"KAFKA_Key": "x"}},
    {"provider_queue": "a/#/b"},
    {"provider_queue": "a/b+"},
    {"provider_queue": "$share/g"},
    {"provider_queue": "$share/+/x"},
    {"options": {"MQTT_Qos": 2}},
    {"options": {"MQTT_Qos": 3}},
]


class TestLinksAndQueues:
    def test_a_link_is_created_altered_and_removed(self, pair: Pair) -> None:
        pair.both(define)
        steps = [
            _link("MQTT", linkname="a", options={"mqtt_singlenode": True}, comment="c", max_connections=3),
            _link("KAFKA", linkname="b", agent_name="SECOND", options={"KAFKA_Linger_ms": 5}, outbound_log_queue="s"),
            _link("RABBITMQ", linkname="c", username="u", options={"AMQP_ConnectTimeout": 2.5}),
            _link("MEMORY", linkname="d", properties={"timeout": 3, "max_connections": 2}),
            call("alter_msgsystem_link", linkname="A"),
            call("alter_msgsystem_link", linkname="a", properties={"Port": 1, "max_connections": None}, comment=None),
            call("alter_msgsystem_link", linkname="a", options={"MQTT_SINGLENODE": None}, comment="d"),
            call("alter_msgsystem_link", linkname="b", options={"*": None, "KAFKA_Batch_size": "4096"}),
            call("alter_msgsystem_link", linkname="c", properties={"username": None, "virtual_host": "/v"}),
            call("set_option", **{**_option("msglink_option", "c", "AMQP_Heartbeat"), "option_value": "7"}),
            call("remove_option", target_type="MSGLINK_OPTION", target_name="c", option_name="amqp_heartbeat"),
            call("register_foreign_queue", name="Q", linkname="C", domain="queue", options={"amqp_prefetch": 10}),
            call("register_foreign_queue", name="t", linkname="a", provider_queue="x/+/{y}", comment="ü"),
            call("unregister_foreign_queue", name="q", linkname="c"),
            *(call("remove_msgsystem_link", linkname=name) for name in "bcd"),
        ]
        assert pair.compare(*steps) == [None] * len(steps)

    @pytest.mark.parametrize("refused", REFUSED_LINKS, ids=lambda step: json.dumps(step.arguments)[:80])
    def test_links_that_python_refuses(self, refusing: Pair, refused: Call) -> None:
        assert refusing.compare(refused) != [None]

    @pytest.mark.parametrize("changed", REFUSED_QUEUES, ids=lambda changed: json.dumps(changed)[:80])
    def test_foreign_queues_that_python_refuses(self, refusing: Pair, changed: dict[str, Any]) -> None:
        queue = {"name": "new" if changed.get("linkname") else "new/x", "linkname": "plant"}
        assert refusing.compare(call("register_foreign_queue", **{**queue, **changed})) != [None]

    def test_what_is_used_or_not_there(self, refusing: Pair) -> None:
        refused = refusing.compare(
            call("remove_msgsystem_link", linkname="plant"),
            call("remove_msgsystem_link", linkname="nowhere"),
            call("alter_msgsystem_link", linkname="nowhere"),
            call("alter_msgsystem_link", linkname="plant", properties={"nothing": 1}),
            call("unregister_foreign_queue", name="tasks", linkname="shop"),
            call("unregister_foreign_queue", name="missing", linkname="shop"),
            call("unregister_foreign_queue", name="tasks", linkname="nowhere"),
            call("alter_msgsystem_link", linkname="plant", properties={"hostname": None}),
            call("alter_msgsystem_link", linkname="plant", properties={"keepalive": 0}),
            call("alter_msgsystem_link", linkname="plant", options={"nothing": "1"}),
            call("alter_msgsystem_link", linkname="plant", comment="x" * 4001),
            call("alter_msgsystem_link", linkname="plant", properties={"client_id_prefix": "<<ENCRYPTED>>"}),
            call("alter_msgsystem_link", linkname="shop", options={"AMQP_ManagementURL": "<<ENCRYPTED>>"}),
            call("alter_msgsystem_link", linkname="logs", properties={"inbound_log_queue": "x"}),
            call("alter_msgsystem_link", linkname="far", properties={"max_connections": 1}),
        )
        assert None not in refused

    def test_secrets_do_not_go_through_the_database(self, pair: Pair) -> None:
        """Nor are those lost that a link has."""
        pair.both(define)
        pair.both(lambda admin: admin.alter_msgsystem_link("plant", {"username": "u", "password": "p"}))
        for step in (
            _link("MQTT", linkname="x", username="u", password="p"),
            _link("MQTT", linkname="x", properties={"tls": True, "tls_key_password": "p"}),
            call("alter_msgsystem_link", linkname="plant", properties={"password": "q"}),
            call("alter_msgsystem_link", linkname="plant", properties={"username": None}),
            call("create_agent", agent_name="x", username="u", password="p"),
            call("db_connect_info", username="u", password="p"),
            call(
                "set_option",
                target_type="AGENT_JAVA_PROP",
                target_name="second",
                option_name="workers",
                option_value="2",
                encrypted=True,
            ),
        ):
            found = pair.sql(step)
            assert found is not None, step
            assert found.number == 32801
        pair.compare(call("alter_msgsystem_link", linkname="plant", properties={"keepalive": 17, "username": "other"}))
        assert audit(pair.other.hub, 1)[0].through == "sql"
        link = pair.other.get_link("plant")
        assert link is not None
        assert (link.username, link.password, link.attributes["keepalive"]) == ("other", "p", 17)

    def test_the_secrets_of_a_link_are_led_nowhere_else(self, pair: Pair) -> None:
        """Who cannot read a password does not get it sent to a server of his, either."""
        pair.both(define)
        login = {"username": "u", "password": "secret"}
        for name in ("plant", "logs", "shop"):
            pair.both(lambda admin, name=name: admin.alter_msgsystem_link(name, login))  # type: ignore[misc]
        before = pair.rows(1)["gw_link"]
        url = {"AMQP_ManagementURL": "http://elsewhere:15672"}
        for link, changed in (
            ("plant", {"properties": {"HostName": "elsewhere"}}),
            ("plant", {"properties": {"port": 1884}}),
            ("plant", {"properties": {"tls": True}}),
            ("logs", {"properties": {"bootstrap_servers": "elsewhere:9092"}}),
            ("logs", {"properties": {"security_protocol": "SASL_PLAINTEXT"}}),
            ("shop", {"properties": {"tls_verify": False}}),
            ("shop", {"options": url}),
        ):
            found = pair.sql(call("alter_msgsystem_link", linkname=link, **changed))
            assert found is not None, changed
            assert f"mgw links alter {link} --" in found.cure
        assert pair.rows(1)["gw_link"] == before
        pair.compare(
            call("alter_msgsystem_link", linkname="plant", properties={"hostname": "mqtt.example", "keepalive": 20}),
            call("alter_msgsystem_link", linkname="far", properties={"hostname": "elsewhere"}, options=url),
        )

    def test_a_token_is_not_led_anywhere(self, pair: Pair) -> None:
        token = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "oauth_token_file": "/run/token"}
        made = _link("KAFKA", linkname="token", properties=token)
        assert pair.sql(made) is not None
        pair.other.create_msgsystem_link(**made.arguments)
        for changed in ({"bootstrap_servers": "elsewhere:9092"}, {"sasl_mechanism": "PLAIN"}):
            found = pair.sql(call("alter_msgsystem_link", linkname="token", properties=changed))
            assert found is not None
            assert "OAUTHBEARER" in found.cause


class TestAgents:
    def test_an_agent_lives(self, pair: Pair) -> None:
        steps = [
            call("create_agent", agent_name="a", max_memory=100, comment="c", service="s", initfile="/none"),
            call("create_agent", agent_name="b", max_threads=3, conntype="JDBC_THIN"),
            call("alter_agent", agent_name="A", max_threads=128, comment=None, service="t"),
            call("alter_agent", max_memory=65, username="u"),
            call("alter_agent", database="d"),
            call("remove_agent_login", agent_name="default_agent"),
            call("startup", agent_name="a"),
            call("shutdown", agent_name="a"),
            call("startup"),
            *(
                call("set_option", target_type="agent_java_prop", target_name="a", option_name=name, option_value=value)
                for name, value in (("Workers", "2"), ("workers", "3"), ("ledger_retention", "1e3"))
            ),
            call("remove_option", target_type="AGENT_JAVA_PROP", target_name="a", option_name="WORKERS"),
            call("remove_agent", agent_name="a"),
        ]
        assert pair.compare(*steps) == [None] * len(steps)

    def test_what_python_refuses_sql_refuses(self, pair: Pair) -> None:
        """In the same words."""
        pair.both(define)
        option = {**_option("AGENT_JAVA_PROP", "second", "workers"), "option_value": "2"}
        refused = pair.compare(
            call("create_agent", agent_name=""),
            call("create_agent", agent_name="SECOND"),
            call("create_agent", agent_name="x", max_threads=129),
            call("create_agent", agent_name="x", max_memory=0),
            call("create_agent", agent_name="x", conntype="ODBC"),
            call("create_agent", agent_name="x", username="u"),
            call("create_agent", agent_name="x", database="d"),
            call("alter_agent", agent_name="nobody"),
            call("alter_agent", username=None),
            call("alter_agent", database="d"),
            call("remove_agent", agent_name="default_agent"),
            call("remove_agent", agent_name="second"),
            call("startup", agent_name="nobody"),
            call("shutdown"),
            call("shutdown", sdmode="SHUTDOWN_ABORT"),
            call("set_log_level", log_level=1),
            call("set_log_level", log_level=5),
            call("cleanup_gateway", action="CLEAN_EVERYTHING"),
            call("cleanup_gateway", action="clean_startup_state"),
            call("cleanup_gateway", action="CLEAN_LOG_QUEUES"),
            call("set_option", **{**option, "target_type": "LINK"}),
            call("set_option", **{**option, "target_name": ""}),
            call("set_option", **{**option, "option_name": ""}),
            call("set_option", **{**option, "option_name": "zzzzzzz"}),
            call("set_option", **{**option, "option_name": "javax.net.ssl.keyStore"}),
            call("set_option", **{**option, "option_value": "65"}),
            call("set_option", **{**option, "option_name": "ledger_retention", "option_value": "-1"}),
            call("set_option", **{**option, "target_type": "JOB_OPTION"}),
            call("set_option", **{**option, "target_type": "MSGLINK_OPTION", "target_name": "plant"}),
            call("remove_option", target_type="AGENT_JAVA_PROP", target_name="second", option_name="workers"),
        )
        assert None not in refused

    def test_every_status(self, pair: Pair) -> None:
        for status in ("START_SCHEDULED", "STARTING", "INITIALIZING", "RUNNING", "SHUTTING_DOWN", "BROKEN"):
            pair.run(f"UPDATE gw_agent SET status = '{status}', lease_expires = NULL")
            pair.compare(
                call("startup"),
                call("set_log_level", log_level=1),
                call("cleanup_gateway", action="CLEAN_STARTUP_STATE"),
                call("shutdown"),
            )

    def test_a_change_of_the_same_transaction_says_nothing_of_an_agent(self, pair: Pair) -> None:
        """It runs, and cannot renew its lease before the transaction ends, nor hear that it should stop."""
        alive = f"UPDATE gw_agent SET status = 'RUNNING', lease_expires = {2**40}"
        clean = call("cleanup_gateway", action="CLEAN_STARTUP_STATE")
        for sub in (False, True):
            pair.run(alive)
            with pair.connection.transaction(force_rollback=True):
                with pair.connection.transaction() if sub else nullcontext():
                    pair.connection.execute("SELECT mgwadm.shutdown()")
                with pair.connection.transaction(force_rollback=True):
                    refused = pair.sql(clean)
                assert refused is not None
                assert "this transaction has changed the agent" in refused.cause
        pair.run("UPDATE gw_agent SET status = 'SHUTTING_DOWN', lease_expires = NULL")
        with pair.connection.transaction():
            pair.connection.execute("SELECT mgwadm.create_agent('other')")
            pair.run("UPDATE gw_agent SET service = 'x' WHERE name_key = 'DEFAULT_AGENT'")
            assert pair.sql(clean) is None


class TestCalls:
    def test_nobody_calls_without_a_grant_and_an_operator_not_everything(self, pair: Pair, operator: str) -> None:
        def refused_to(sql: str) -> None:
            pair.connection.execute(f"SET ROLE {operator}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                pair.connection.execute(sql)
            pair.connection.execute("RESET ROLE")

        refused_to("SELECT mgwadm.startup()")
        pair.connection.execute("SELECT mgwadm.grant_role(%s, 'operator')", (operator,))
        refused_to("SELECT mgwadm.create_agent('x')")
        refused_to("SELECT mgwadm._startup('DEFAULT_AGENT')")
        refused_to("SELECT mgwadm.grant_role('public', 'operator')")
        pair.connection.execute(f"SET ROLE {operator}")
        pair.connection.execute("SELECT mgwadm.startup()")
        pair.connection.execute("RESET ROLE")
        assert pair.other.agent_state().status == "START_SCHEDULED"

    def test_functions_of_an_older_release_are_replaced_and_keep_their_grants(self, pair: Pair, operator: str) -> None:
        pair.connection.execute("SELECT mgwadm.grant_role(%s, 'administrator')", (operator,))
        pair.connection.execute("DROP FUNCTION mgwadm.shutdown")
        pair.connection.execute("CREATE FUNCTION mgwadm.startup() RETURNS void LANGUAGE sql AS ''")
        with pair.hubs[1].write() as conn:
            Db(conn).run("UPDATE aq_part SET version = 0 WHERE name = 'functions_mgwadm'")
        open_hub(pair.urls[1]).close()
        pair.connection.execute(f"SET ROLE {operator}")
        pair.connection.execute("SELECT mgwadm.startup()")
        pair.connection.execute("RESET ROLE")
        pair.connection.execute("SELECT mgwadm.shutdown()")

    def test_opening_a_hub_waits_for_no_open_transaction(
        self, pair: Pair, operator: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Of somebody who makes functions, or who has granted one and not committed."""
        with pair.hubs[1].write() as conn:
            Db(conn).run("UPDATE aq_part SET version = 0 WHERE name = 'functions_mgwadm'")

        def open_beside(sql: str) -> None:
            with pair.connection.transaction(force_rollback=True):
                pair.connection.execute(sql)
                open_hub(pair.urls[1]).close()

        pair.connection.execute("SET lock_timeout = '5s'")
        with ThreadPoolExecutor(1) as other:
            other.submit(open_beside, "SELECT pg_advisory_xact_lock(7164114)").result(10)
            assert not caplog.text
            other.submit(open_beside, f"GRANT EXECUTE ON FUNCTION mgwadm.version() TO {operator}").result(10)
        assert "the functions of schema mgwadm cannot be created" in caplog.text
        assert "open the hub again" in caplog.text
        open_hub(pair.urls[1]).close()
        with pair.hubs[1].read() as conn:
            assert Db(conn).scalar("SELECT version FROM aq_part WHERE name = 'functions_mgwadm'") == MGWADM_VERSION

    def test_calls_from_sql_and_python_wait_for_each_other(self, pair: Pair) -> None:
        def waits() -> bool:
            with pair.hubs[1].read() as conn:
                return bool(Db(conn).rows("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'"))

        with ThreadPoolExecutor(1) as other:
            with pair.hubs[1].engine.begin() as conn:
                catalog.lock_administration(conn)
                called = other.submit(pair.connection.execute, "SELECT mgwadm.create_agent('x')")
                eventually(waits)
            called.result(30)
            with pair.connection.transaction():
                pair.connection.execute("SELECT mgwadm.remove_agent('x')")
                made = other.submit(pair.other.create_agent, "x")
                eventually(waits)
            made.result(30)

    def test_a_transaction_that_lies_idle_does_not_keep_the_lock(self, pair: Pair) -> None:
        """Whatever limit the caller has for others of his; a shorter one stays."""

        def limit() -> Any:
            return pair.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()

        for own, inside in (("0", "15s"), ("1h", "15s"), ("5s", "5s")):
            pair.connection.execute(f"SET idle_in_transaction_session_timeout = '{own}'")
            with pair.connection.transaction():
                pair.connection.execute("SELECT mgwadm.set_option('AGENT_JAVA_PROP', 'DEFAULT_AGENT', 'workers', '2')")
                assert limit() == (inside,)
            assert limit() == (own,)

    def test_agents_hear_of_a_call_when_it_is_committed(self, pair: Pair) -> None:
        address = pair.urls[1].partition("?")[0].replace("+psycopg", "")
        with psycopg.connect(address, autocommit=True) as listener:
            listener.execute("LISTEN mgw_change_hub")
            before = pair.other.snapshot_version()
            pair.connection.execute("SELECT mgwadm.create_agent('x')")
            (notice,) = listener.notifies(timeout=10, stop_after=1)
        assert int(notice.payload) == pair.other.snapshot_version() == before + 1


@pytest.fixture
def operator(pair: Pair) -> Iterator[str]:
    pair.connection.execute("CREATE ROLE mgwadm_operator")
    yield "mgwadm_operator"
    pair.connection.execute("RESET ROLE")
    pair.connection.execute("DROP OWNED BY mgwadm_operator")
    pair.connection.execute("DROP ROLE mgwadm_operator")


@pytest.fixture(scope="module")
def refusing(hubs: Callable[[], AbstractContextManager[str]]) -> Iterator[Pair]:
    """Two hubs in which nothing changes: every call is refused."""
    with ExitStack() as stack:
        found = Pair([stack.enter_context(hubs()) for _ in range(2)], stack)
        found.both(define)
        found.compare(
            call("create_job", job_name="taken", **_pair("OUTBOUND", "two", "tasks@shop")),
            call("register_foreign_queue", name="errors", linkname="far"),
            call("create_job", job_name="far", **_pair("INBOUND", "tasks@far", "two"), exception_queue="errors@far"),
        )
        yield found
