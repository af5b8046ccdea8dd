"""What keeps a RabbitMQ job from its guarantee is found out at the broker: arguments of queues and exchanges, policies.

The broker here has its management API, which tells policies.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pika
import pytest

from mgw.links.contract import Direction, Domain, Endpoint, Guarantee, GuaranteeReport
from mgw.links.rabbitmq.conditions import QueueFacts, difference_of_queue, look_at_exchange, look_at_queue
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.link import RabbitLink
from mgw.links.rabbitmq.log_queue import LogQueue, LogQueueMissing
from mgw.links.rabbitmq.management import Policies
from mgw.transforms.errors import ConfigInvalid, LinkRefused, LinkUnavailable
from tests.conformance.link_suite import unique, use_of
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.conformance.test_rabbitmq_logs import LOGS, Bench, Hub, carry, connected
from tests.support.brokers import RabbitMQ
from tests.support.ports import free_port
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

IN, OUT = Direction.INBOUND, Direction.OUTBOUND
EXACT, TWICE, LOST = Guarantee.EXACT_UNLESS_BROKER_CRASH, Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE


@pytest.fixture(scope="module")
def managed() -> Iterator[RabbitMQ]:
    with RabbitMQ(plugins=("rabbitmq_management",)) as server:
        yield server


class ManagedBench(Bench):
    """Its link knows the management API."""

    def __init__(self, template: RabbitTemplate) -> None:
        super().__init__(template)
        self.server = template.server
        self.link = self.linked()

    def linked(self, address: str | None = None, **changes: Any) -> RabbitLink:
        """A link with log queues and the management API at that address; "" for none."""
        url = f"http://{self.server.host}:{self.server.management_port}" if address is None else address
        return self.template.link(**{**LOGS, "options": {"AMQP_ManagementURL": url} if url else {}, **changes})

    def policy(self, queue: str, kind: str = "policy", *, apply_to: str = "queues", **definition: Any) -> None:
        """Set a policy for one queue or exchange."""
        settings = {name.replace("_", "-"): value for name, value in definition.items()}
        pattern = f"^{queue.replace('.', '[.]')}$"
        self.manage("PUT", queue, kind, {"pattern": pattern, "definition": settings, "apply-to": apply_to})

    def manage(self, method: str, name: str, kind: str = "policy", content: Any = None) -> None:
        """Set or remove a policy, over the management API."""
        kinds = {"policy": "policies", "operator-policy": "operator-policies"}[kind]
        url = f"http://{self.server.host}:{self.server.management_port}/api/{kinds}/%2F/{kind}-{name}"
        login = base64.b64encode(b"guest:guest").decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        body = None if content is None else json.dumps(content).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=30):
            pass

    def report(
        self, queue: str, direction: Direction, link: RabbitLink | None = None, **options: Any
    ) -> GuaranteeReport:
        return (link or self.link).verify(self.use(queue, **options), direction)


@pytest.fixture
def bench(managed: RabbitMQ) -> Iterator[ManagedBench]:
    template = RabbitTemplate(managed)
    yield ManagedBench(template)
    template.close()


@pytest.mark.parametrize(
    ("kind", "arguments", "inbound", "outbound", "note"),
    [
        ("classic", {}, EXACT, EXACT, "after a restart"),
        ("classic", {"x-max-priority": 9}, EXACT, EXACT, "after a restart"),
        ("quorum", {}, EXACT, TWICE, "is a quorum queue"),
        ("classic", {"x-message-ttl": 60_000}, TWICE, EXACT, "message-ttl of queue"),
        ("classic", {"x-dead-letter-exchange": "amq.fanout"}, TWICE, EXACT, "dead-letter-exchange of queue"),
        ("quorum", {"x-delivery-limit": 5}, LOST, TWICE, "drops a message after 5 deliveries"),
        (
            "quorum",
            {"x-delivery-limit": 5, "x-dead-letter-exchange": "amq.fanout"},
            TWICE,
            TWICE,
            "dead-letter-exchange of queue",
        ),
        ("classic", {"x-expires": 3_600_000}, LOST, LOST, "expires of queue"),
        ("classic", {"x-max-length": 9}, TWICE, LOST, "max-length of queue"),
        ("quorum", {"x-max-length-bytes": 999}, TWICE, LOST, "max-length-bytes of queue"),
        ("classic", {"x-max-length": 9, "x-overflow": "reject-publish"}, TWICE, TWICE, "max-length of queue"),
        (
            "classic",
            {"x-message-ttl": 1, "x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "k"},
            TWICE,
            EXACT,
            "message-ttl of queue",
        ),
    ],
)
def test_arguments_of_a_queue_decide_the_level(  # noqa: PLR0917 - one for each column
    bench: ManagedBench, kind: str, arguments: dict[str, Any], inbound: Guarantee, outbound: Guarantee, note: str
) -> None:
    bench.template.queue_type = kind
    queue = bench.template.queue(**arguments)
    plain = bench.linked("")  # arguments are seen without the management API, too
    for link in (bench.link, plain):
        for direction, level in ((IN, inbound), (OUT, outbound)):
            report = bench.report(queue, direction, link)
            assert report.level is level, report
            if level is not EXACT:
                refuses = kind == "quorum" and direction is OUT and level is TWICE
                assert ("is a quorum queue" if refuses else note) in report.note


@pytest.mark.parametrize(
    ("properties", "note"),
    [
        ({}, "is not durable"),
        ({"auto_delete": True}, "is not durable"),
        ({"exclusive": False}, "is not durable"),
        ({"durable": True, "auto_delete": True}, "is auto-delete"),
    ],
)
def test_a_queue_that_does_not_survive_a_restart_is_at_most_once(
    bench: ManagedBench, properties: dict[str, Any], note: str
) -> None:
    queue = unique("transient")
    bench.channel.queue_declare(queue, **{"durable": False, **properties})
    for direction in (IN, OUT):
        report = bench.report(queue, direction)
        assert (report.level, note in report.note) == (LOST, True), report
    assert bench.report(queue, IN, AMQP_UniqueIds="TRUE").level is LOST


@pytest.mark.parametrize(
    ("kind", "definition", "inbound", "outbound", "note"),
    [
        ("policy", {"dead_letter_exchange": "amq.fanout"}, TWICE, EXACT, "dead-letter-exchange (by policy "),
        ("policy", {"message_ttl": 60_000}, TWICE, EXACT, "message-ttl (by policy "),
        ("policy", {"max_length": 5}, TWICE, LOST, "max-length (by policy "),
        ("policy", {"max_length": 5, "overflow": "reject-publish"}, TWICE, TWICE, "max-length (by policy "),
        ("policy", {"expires": 3_600_000}, LOST, LOST, "expires (by policy "),
        ("operator-policy", {"message_ttl": 60_000}, TWICE, EXACT, "message-ttl (by operator policy "),
    ],
)
def test_policies_count_like_arguments(  # noqa: PLR0917 - one for each column
    bench: ManagedBench, kind: str, definition: dict[str, Any], inbound: Guarantee, outbound: Guarantee, note: str
) -> None:
    queue = bench.template.queue()
    assert bench.report(queue, IN).level is EXACT
    bench.policy(queue, kind, **definition)
    for direction, level in ((IN, inbound), (OUT, outbound)):
        report = bench.report(queue, direction)
        assert report.level is level, report
        assert level is EXACT or note in report.note
    bench.manage("DELETE", queue, kind)
    assert bench.report(queue, IN).level is EXACT


def test_of_two_policies_the_one_of_higher_priority_counts(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    bench.policy(queue, max_length=5)
    stronger = {"pattern": f"^{queue}$", "definition": {"max-length-bytes": 7}, "priority": 5}
    bench.manage("PUT", f"over-{queue}", content=stronger)
    assert "max-length-bytes (by policy policy-over-" in bench.report(queue, OUT).note


def test_policies_that_cannot_be_seen_are_named(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    bench.policy(queue, message_ttl=60_000)
    bench.server.ctl("add_user", (user := unique("plain")), "secret")
    bench.server.ctl("set_permissions", user, ".*", ".*", ".*")
    for link, reason in (
        (bench.linked(""), "without AMQP_ManagementURL"),
        (bench.linked(f"http://127.0.0.1:{free_port()}"), "refused"),
        (bench.linked(f"http://127.0.0.1:{bench.server.port}"), "AMQP_ManagementURL"),
        (bench.linked(username=user, password="secret"), "tag management"),
    ):
        report = bench.report(queue, IN, link)
        assert report.level is EXACT
        assert reason in report.note, report


def test_policies_count_on_while_nobody_tells_them(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    bench.policy(queue, message_ttl=60_000)
    with TcpProxy(bench.server.host, bench.server.management_port or 0) as proxy:
        link = bench.linked(f"http://{proxy.host}:{proxy.port}")
        told = bench.report(queue, IN, link)
        assert (told.level, "message-ttl" in told.note) == (TWICE, True)
        proxy.refuse()
        assert bench.report(queue, IN, link) == told, "what is not seen any more is not gone"
        proxy.accept()
        bench.manage("DELETE", queue)
        assert bench.report(queue, IN, link).level is EXACT
        proxy.refuse()
        assert "are not visible" in bench.report(queue, IN, link).note


def test_arguments_that_may_not_be_read_are_named(bench: ManagedBench) -> None:
    queue = bench.template.queue(**{"x-message-ttl": 60_000})
    bench.server.ctl("add_user", (user := unique("poor")), "secret")
    bench.server.ctl("set_permissions", user, "^mgw[.]", ".*", ".*")
    report = bench.report(queue, IN, bench.linked("", username=user, password="secret"))
    assert report.level is EXACT
    assert "configure permission" in report.note


def test_nothing_is_sent_in_transactions_to_what_may_be_a_quorum_queue(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    bench.server.ctl("add_user", (user := unique("poor")), "secret")
    bench.server.ctl("set_permissions", user, "^mgw[.]", ".*", ".*")
    poor = bench.linked("", username=user, password="secret")
    exchange = f"{unique('x')}/key"
    bench.channel.exchange_declare(exchange.partition("/")[0], "topic", durable=True)
    for link, name, domain in ((poor, queue, Domain.QUEUE), (bench.link, exchange, Domain.TOPIC)):
        for declared, level in (("auto", TWICE), ("quorum", TWICE), ("classic", EXACT)):
            use = use_of(Endpoint("f", "rmq", name, domain, options={"AMQP_QueueType": declared}))
            bench.channel.queue_declare(f"mgw.sent.{use.job}", durable=True, arguments=bench_log())
            report = link.verify(use, OUT)
            assert report.level is level, report
            assert ("AMQP_QueueType" in report.note) is (level is TWICE)


def test_log_queues_prove_nothing_on_several_nodes(bench: ManagedBench) -> None:
    """The record may be on a node that lives; its messages, or acknowledgements, may be on one that died."""
    port = bench.server.port
    several = bench.linked("", attributes={"hosts": f"127.0.0.1:{port},localhost:{port}"})
    for kind, direction, level in (("classic", OUT, TWICE), ("classic", IN, EXACT), ("quorum", IN, TWICE)):
        bench.template.queue_type = kind
        report = bench.report(bench.template.queue(), direction, several)
        assert report.level is level, report
        assert ("several nodes" in report.note) is (level is TWICE)


def test_a_dead_connection_is_closed_over_the_management_api(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    bench.fill(queue, *(b"%d" % number for number in range(1200)))
    use, hub = bench.use(queue, logs=False), Hub()
    url = f"http://{bench.server.host}:{bench.server.management_port}"
    with TcpProxy(bench.server.host, bench.server.port) as proxy:
        attributes = {"hostname": proxy.host, "port": proxy.port}
        options = {"AMQP_Heartbeat": "60", "AMQP_ManagementURL": url}
        source = bench.template.link(attributes=attributes, options=options).source(use)
        source.connect({})
        carry(source, hub, 100)
        proxy.forsake()
        source.close()
        with connected(source, hub):  # far sooner than heartbeats are missed
            carry(source, hub, 1100)
    first_copies = list(dict.fromkeys(int(body or b"") for body in hub.rows))  # the last batch may have come twice
    assert first_copies == list(range(len(first_copies)))
    assert len(first_copies) > 1000  # what was sent ahead is among them


def test_a_limit_of_connections_is_no_refusal(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    bench.server.ctl("add_user", (user := unique("narrow")), "secret")
    bench.server.ctl("set_permissions", user, ".*", ".*", ".*")
    bench.server.ctl("set_user_limits", user, '{"max-connections": 1}')
    link = bench.linked("", username=user, password="secret")
    use = bench.use(queue)
    with (
        connected(link.source(use), Hub()),
        pytest.raises(LinkUnavailable, match="has no free connection") as caught,
    ):
        link.verify(use, IN)
    assert caught.value.cause == "user connection limit (1) is reached"


def test_an_address_that_is_none_is_refused(bench: ManagedBench) -> None:
    with pytest.raises(ConfigInvalid, match="AMQP_ManagementURL"):
        bench.linked("file:///etc/passwd")


@pytest.mark.parametrize("definition", [{"message_ttl": 60_000}, {"max_length": 1}, {"expires": 3_600_000}])
def test_a_policy_that_removes_log_records_is_refused(bench: ManagedBench, definition: dict[str, Any]) -> None:
    queue = bench.template.queue()
    use = bench.use(queue)
    for name, direction in (("acks", IN), ("sent", OUT)):
        bench.policy(f"mgw.{name}.{use.job}", **definition)
        with pytest.raises(LinkRefused, match="cannot be its log queue") as caught:
            bench.link.verify(use, direction)
        assert "by policy" in caught.value.cause


def test_an_alternate_exchange_takes_what_cannot_be_routed(bench: ManagedBench) -> None:
    with_argument, with_policy, without = unique("x"), unique("x"), unique("x")
    bench.channel.exchange_declare(with_argument, "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    bench.channel.exchange_declare(with_policy, "direct", durable=False, auto_delete=False)
    bench.channel.exchange_declare(without, "headers", durable=True)
    bench.policy(with_policy, apply_to="exchanges", alternate_exchange="amq.fanout")
    for exchange, level in ((with_argument, TWICE), (with_policy, TWICE), (without, EXACT)):
        use = use_of(Endpoint("f", "rmq", f"{exchange}/key", Domain.TOPIC, options={"AMQP_QueueType": "classic"}))
        bench.channel.queue_declare(f"mgw.sent.{use.job}", durable=True, arguments=bench_log())
        report = bench.link.verify(use, OUT)
        assert report.level is level, report
        assert ("alternate exchange amq.fanout" in report.note) is (level is TWICE)


def bench_log() -> dict[str, Any]:
    from tests.support.rabbitmq_kills import LOG_ARGUMENTS

    return dict(LOG_ARGUMENTS)


def test_asking_creates_nothing(bench: ManagedBench) -> None:
    session = Session(bench.link._settings, "test")
    try:
        name = unique("nowhere")
        look_at_queue(session, name, Policies())
        look_at_exchange(session, name, Policies())
        assert difference_of_queue(session, name, bench_log()) is None
    finally:
        session.close()
    for declare in ("queue_declare", "exchange_declare"):
        channel = bench.template.connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
            getattr(channel, declare)(name, passive=True)


def test_a_log_queue_deleted_while_it_is_looked_at_stays_deleted(bench: ManagedBench) -> None:
    """A look that takes two questions may fall before and after the deletion: it must not create what was deleted."""
    session = Session(bench.link._settings, "test")
    try:
        for _ in range(40):
            name = unique("gone")
            bench.channel.queue_declare(name, durable=True, arguments=bench_log())
            log = LogQueue(name, use_of(Endpoint("f", "rmq", name, Domain.QUEUE)), bench.link._knowledge)
            log.check(session)
            deletion = threading.Thread(target=bench.channel.queue_delete, args=(name,))
            deletion.start()

            def gone(log: LogQueue = log) -> bool:
                try:
                    log.check(session)
                except LogQueueMissing:
                    return True
                return False

            eventually(gone, what="a log queue that is gone")
            deletion.join()
            with pytest.raises(LogQueueMissing):
                log.check(session)
    finally:
        session.close()


def test_everything_about_a_queue_is_found_out(bench: ManagedBench) -> None:
    arguments: dict[str, Any] = {
        "x-message-ttl": 60_000,
        "x-expires": 3_600_000,
        "x-dead-letter-exchange": "it's 'of type' quoted",
        "x-dead-letter-routing-key": "k",
        "x-max-length": 9,
        "x-max-length-bytes": 2**40,
        "x-max-priority": 3,
        "x-overflow": "reject-publish-dlx",
        "x-single-active-consumer": True,
    }
    queue = unique("rich")
    bench.channel.queue_declare(queue, durable=False, auto_delete=True, arguments=arguments)
    session = Session(bench.link._settings, "test")
    try:
        facts = look_at_queue(session, queue, Policies())
    finally:
        session.close()
    assert (facts.known, facts.type, facts.durable) == (True, "classic", False)
    found = {name: value for name, (value, _) in facts.settings.items()}
    assert found == {name.removeprefix("x-"): str(value) for name, value in arguments.items()}


def test_the_type_is_found_out_where_the_virtual_host_has_a_default_type(bench: ManagedBench) -> None:
    host, server = unique("host"), bench.server
    server.ctl("add_vhost", host, "--default-queue-type", "quorum")
    server.ctl("set_permissions", "-p", host, "guest", ".*", ".*", ".*")
    connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port, host, heartbeat=0))
    session = Session(replace(bench.template.link()._settings, virtual_host=host), "look")
    try:
        channel = connection.channel()
        channel.queue_declare("by-default", durable=True)
        channel.queue_declare("classic", durable=True, arguments={"x-queue-type": "classic"})
        channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum", "x-max-length": 9})
        found = {name: look_at_queue(session, name, Policies()) for name in ("by-default", "classic", "quorum")}
    finally:
        session.close()
        connection.close()
    assert {name: facts.type for name, facts in found.items()} == {
        "by-default": "quorum",
        "classic": "classic",
        "quorum": "quorum",
    }
    assert {name: set(facts.settings) for name, facts in found.items() if facts.settings} == {"quorum": {"max-length"}}


def test_a_link_that_asks_again_gives_the_broker_little_to_complain_about(bench: ManagedBench) -> None:
    """The broker logs an error for each question that it refuses; running jobs ask every minute."""
    names = [
        bench.template.queue(**{"x-queue-type": "quorum", "x-delivery-limit": 5, "x-max-length": 9}),
        unique("plain"),
    ]
    bench.channel.queue_declare(names[1], durable=True)
    uses = [bench.use(name) for name in names]

    def complaints() -> list[int]:
        lines = bench.server.log.read_text(errors="replace").splitlines()
        return [sum("channel exception" in line and f"'{name}'" in line for line in lines) for name in names]

    def ask() -> list[GuaranteeReport]:
        return [bench.link.verify(use, direction) for use in uses for direction in (IN, OUT)]

    first = ask()
    eventually(
        lambda: complaints() == [5, 2], what="is it a stream? the quorum queue's two arguments; the type of the other"
    )
    assert ask() == first
    assert ask() == first
    eventually(lambda: complaints() == [9, 2], what="one for each time the quorum queue is asked for")


def test_a_queue_made_anew_is_looked_at_anew(bench: ManagedBench) -> None:
    name = bench.template.queue(**{"x-queue-type": "quorum", "x-delivery-limit": 5, "x-max-length": 9})
    use = bench.use(name)
    assert bench.link.verify(use, OUT).level is LOST
    assert bench.link.verify(use, IN).level is LOST
    bench.channel.queue_delete(name)
    bench.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "classic", "x-max-length": 9})
    assert bench.link.verify(use, OUT).level is LOST
    assert bench.link.verify(use, IN).level is TWICE
    bench.channel.queue_delete(name)
    bench.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})
    assert bench.link.verify(use, OUT).level is EXACT
    assert bench.link.verify(use, IN).level is EXACT
    bench.channel.queue_delete(name)
    bench.channel.queue_declare(name, durable=False)
    assert bench.link.verify(use, OUT).level is LOST


def test_newer_brokers_drop_from_quorum_queues_after_20_deliveries() -> None:
    """A default of RabbitMQ 4.0 and later."""
    quorum = QueueFacts("q", type="quorum", version=(4, 1))
    assert "20 deliveries" in quorum.leaves
    assert not QueueFacts("q", type="quorum", version=(3, 13)).leaves
    assert not QueueFacts("q", type="quorum", version=(4, 1), settings={"delivery-limit": ("-1", "{setting}")}).leaves
    assert not QueueFacts("q", version=(4, 1)).leaves


def test_the_answer_is_the_same_while_the_job_reads_and_writes(bench: ManagedBench) -> None:
    """Its own exclusive subscription is no failed condition."""
    for kind in ("classic", "quorum", "stream"):
        bench.template.queue_type = kind
        queue = bench.template.queue()
        use = bench.use(queue)
        before = [bench.link.verify(use, direction) for direction in (IN, OUT)]
        destination = bench.link.destination(use)
        with connected(bench.link.source(use), Hub()):
            try:
                destination.connect()
                assert [bench.link.verify(use, direction) for direction in (IN, OUT)] == before
            finally:
                destination.close()


def test_a_message_that_left_the_queue_does_not_suppress_an_equal_one(bench: ManagedBench) -> None:
    """A policy takes the first of two equal messages away between its two deliveries."""
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, b"equal", b"equal")
    with connected(bench.link.source(use), hub) as source:
        batch = source.read(1, 10.0)
        hub.store(batch)
    eventually(lambda: bench.count(queue) == 2, what="both messages back in the queue")
    bench.policy(queue, max_length=1)
    eventually(lambda: bench.count(queue) == 1, what="one message dropped by the policy")
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 1)
    assert hub.rows == [b"equal", b"equal"]
    assert hub.suppressed == 0


def test_a_message_that_expires_does_not_suppress_an_equal_one(bench: ManagedBench) -> None:
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, b"equal", b"equal", expiration="600000")
    with connected(bench.link.source(use), hub) as source:
        hub.store(source.read(1, 10.0))
    eventually(lambda: bench.count(queue) == 2, what="both messages back in the queue")
    method, _, _ = bench.channel.basic_get(queue)  # as its expiry would take it
    bench.channel.basic_ack(method.delivery_tag)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 1)
    assert hub.rows == [b"equal", b"equal"]
