"""What is particular to RabbitMQ, on a broker of our own that may be killed and alarmed."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pika
import pytest
from pika.exceptions import AMQPError

from mgw.links.contract import Direction, Domain, Endpoint, Guarantee, Source
from mgw.links.rabbitmq import connection
from mgw.links.rabbitmq.destination import RabbitDestination
from mgw.links.rabbitmq.source import RabbitSource
from mgw.links.registry import spec
from mgw.transforms.errors import (
    AdminError,
    ConversionFailure,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)
from mgw.transforms.message import Header, HeaderValue, Message, ValueType
from tests.conformance.link_suite import (
    Pair,
    Reader,
    Writer,
    body_bytes,
    both,
    first_occurrences,
    in_thread,
    numbered,
    numbers,
    reading,
    unique,
    use_of,
    wait_until,
    writing,
)
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.support.brokers import RabbitMQ
from tests.support.certificates import Certificates
from tests.support.gateways import gateway_on
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq


@pytest.fixture(scope="module")
def own_rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ(tls=True) as server:
        yield server


@pytest.fixture
def own(own_rabbitmq: RabbitMQ) -> Iterator[RabbitTemplate]:
    template = RabbitTemplate(own_rabbitmq)
    yield template
    with suppress(AMQPError):
        template.close()


@pytest.fixture(params=["classic", "quorum"])
def template(request: pytest.FixtureRequest, rabbitmq: RabbitMQ) -> Iterator[RabbitTemplate]:
    template = RabbitTemplate(rabbitmq)
    template.queue_type = request.param
    yield template
    template.close()


@pytest.fixture
def classic(rabbitmq: RabbitMQ) -> Iterator[RabbitTemplate]:
    template = RabbitTemplate(rabbitmq)
    yield template
    template.close()


def queue_pair(name: str, **options: str) -> Pair:
    return Pair(Endpoint("src", "rmq", name, options=options), Endpoint("dst", "rmq", name, options=options))


def topic(target: str, **options: str) -> Endpoint:
    return Endpoint("topic", "rmq", target, Domain.TOPIC, options)


def text(name: str, value: str) -> Header:
    return Header(name, ValueType.TEXT, value)


def read_on(source: Source) -> None:
    """Read for half a minute, settling nothing."""
    for _ in range(150):
        source.read(1, 0.2)


# -- queue types ------------------------------------------------------------------------------------------------------


def test_unsettled_messages_come_back_in_order_and_settled_do_not(template: RabbitTemplate) -> None:
    with both(template) as (reader, writer):
        writer.deliver(*numbered(200))
        assert reader.bodies(50) == numbers(50)
        reader.batches(100, settle=False)
        reader.reconnect()
        found = reader.collect(150)
        assert [body_bytes(delivery.message) for delivery in found] == numbers(150, 50)
        assert [delivery.redelivered for delivery in found] == [True] * 100 + [False] * 50 or all(
            delivery.redelivered for delivery in found
        )


def test_thousands_make_the_round(template: RabbitTemplate) -> None:
    with both(template) as (reader, writer):
        for start in range(0, 10_000, 200):
            writer.send(*numbered(200, start))
            writer.confirm(max(0, writer.sequence - 20))
        writer.confirm()
        assert reader.bodies(10_000, size=500, seconds=60) == numbers(10_000)


def test_message_of_20_megabytes_makes_the_round(template: RabbitTemplate) -> None:
    body = bytes(range(256)) * (20 * 4096)
    with both(template) as (reader, writer):
        writer.deliver(Message(body))
        (delivery,) = reader.collect(1, seconds=60)
        assert delivery.message.body == body


def test_body_over_the_registered_limit_fails_alone(classic: RabbitTemplate) -> None:
    pair = queue_pair(classic.queue(), AMQP_MaxMessageSize="1000")
    with both(classic, pair) as (reader, writer):
        with pytest.raises(ConversionFailure, match="1001 bytes"):
            writer.send(Message(b"x" * 1001))
        writer.deliver(Message(b"x" * 1000))
        assert reader.one().body == b"x" * 1000


def test_properties_larger_than_a_frame_fail_alone(classic: RabbitTemplate) -> None:
    headers = tuple(text(f"h{number}", "v" * 4000) for number in range(40))
    with both(classic) as (reader, writer):
        with pytest.raises(ConversionFailure, match="headers of the message"):
            writer.send(Message(b"x", headers=headers))
        writer.deliver(Message(b"y", headers=headers[:30]))
        assert len(reader.one().headers) > 30


def test_priority_queue_hands_out_the_most_important_first(classic: RabbitTemplate) -> None:
    name = classic.queue(**{"x-max-priority": 4})
    pair = queue_pair(name, AMQP_MaxPriority="4")
    with writing(classic.link(), pair) as writer:
        writer.deliver(*(Message(b"%d" % priority, priority=priority) for priority in (4, 1, 0, 3, 9, -5)))
    with reading(classic.link(), pair) as reader:
        found = reader.collect(6)
    assert [body_bytes(delivery.message) for delivery in found] == [b"0", b"-5", b"1", b"3", b"4", b"9"]
    assert [delivery.message.priority for delivery in found] == [0, 0, 1, 3, 4, 4]


def test_exclusive_reader_keeps_others_out(classic: RabbitTemplate) -> None:
    pair = queue_pair(classic.queue(), AMQP_Exclusive="TRUE")
    with reading(classic.link(), pair):
        second = classic.link().source(use_of(pair.source))
        with pytest.raises(LinkError) as raised:
            second.connect({})
        assert "exclusive" in str(raised.value)


def test_connection_name_shows_agent_and_job(classic: RabbitTemplate) -> None:
    with reading(classic.link(), classic.pair(), job="NAMED") as reader:
        assert reader
        assert "mgw-test TEST NAMED in" in classic.server.ctl("list_connections", "client_properties")


def test_connection_name_begins_as_the_link_says(classic: RabbitTemplate) -> None:
    attributes = {"hostname": classic.server.host, "port": classic.server.port, "connection_name": "plant 7"}
    with reading(classic.link(attributes=attributes), classic.pair(), job="NAMED") as reader:
        assert reader
        assert "plant 7 TEST NAMED in" in classic.server.ctl("list_connections", "client_properties")


def test_consumer_of_a_higher_priority_gets_the_messages_first(classic: RabbitTemplate) -> None:
    queue = classic.queue()
    low, high = queue_pair(queue), queue_pair(queue, AMQP_ConsumerPriority="10")
    with reading(classic.link(), low) as second, reading(classic.link(), high) as first:
        classic.foreign_publish(low, [b"%d" % number for number in range(20)])
        assert first.bodies(20) == numbers(20)
        assert not second.source.read(1, 0.2).deliveries


# -- streams ----------------------------------------------------------------------------------------------------------


def test_stream_is_found_out_and_exact(classic: RabbitTemplate) -> None:
    pair = classic.log_pair()
    report = classic.link().verify(use_of(pair.source), Direction.INBOUND)
    assert report.level is Guarantee.EXACT
    for queue_type in ("classic", "quorum"):
        classic.queue_type = queue_type
        assert classic.link().verify(use_of(classic.pair().source), Direction.INBOUND).level is Guarantee.AT_LEAST_ONCE


def test_stream_that_was_registered_as_a_queue_is_refused(classic: RabbitTemplate) -> None:
    """A reader without an offset begins at the end of a stream: what came while it was away would be left out."""
    stream = classic.log_pair().source.provider_queue
    for queue_type in ("classic", "quorum"):
        endpoint = Endpoint("src", "rmq", stream, options={"AMQP_QueueType": queue_type})
        with pytest.raises(LinkRefused, match=f"cannot be read as a {queue_type} queue") as raised:
            classic.link().verify(use_of(endpoint), Direction.INBOUND)
        assert "AMQP_QueueType auto or stream" in raised.value.cure


def test_finding_out_the_type_takes_nothing_from_a_queue(template: RabbitTemplate) -> None:
    pair = template.pair()
    with writing(template.link(), pair) as writer:
        writer.deliver(*numbered(3))
    template.link().verify(use_of(pair.source), Direction.INBOUND)
    with reading(template.link(), pair) as reader:
        assert [delivery.redelivered for delivery in reader.collect(3)] == [False] * 3


def test_stream_job_continues_after_a_restart_without_repetition(classic: RabbitTemplate) -> None:
    pair = classic.log_pair()
    with both(classic, pair) as (reader, writer):
        writer.deliver(*numbered(100))
        assert reader.bodies(40, size=7) == numbers(40)
        reader.reconnect()
        assert reader.bodies(60) == numbers(60, 40)
        reader.reconnect()
        writer.deliver(*numbered(5, 100))
        assert reader.bodies(5) == numbers(5, 100)
        assert reader.positions["0"].startswith("104:")


def test_stream_job_may_start_at_the_end(classic: RabbitTemplate) -> None:
    pair = classic.log_pair()
    pair = Pair(
        pair.source.__class__("src", "rmq", pair.source.provider_queue, None, {"AMQP_StreamOffset": "next"}), pair[1]
    )
    with writing(classic.link(), pair) as writer:
        writer.deliver(*numbered(10))
        with reading(classic.link(), pair) as reader:
            writer.deliver(*numbered(3, 10))
            assert reader.bodies(3) == numbers(3, 10)


def test_stream_gap_is_an_alarm(classic: RabbitTemplate) -> None:
    name = unique("short_stream")
    arguments = {"x-queue-type": "stream", "x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 10_000}
    classic.channel.queue_declare(name, durable=True, arguments=arguments)
    pair = queue_pair(name)
    with writing(classic.link(), pair) as writer:
        writer.deliver(*numbered(5))
        with reading(classic.link(), pair) as reader:
            assert reader.bodies(3, size=3) == numbers(3)
            positions = reader.positions
        for _ in range(60):
            writer.deliver(*(Message(b"x" * 1000) for _ in range(10)))

    def first_offset() -> str:
        with reading(classic.link(), pair) as probe:
            return probe.batches(1, size=1, settle=False)[0].positions[0].after.partition(":")[0]

    wait_until(lambda: int(first_offset()) > 10, "the stream forgets its beginning")
    reader = Reader(classic.link(), use_of(pair.source))
    reader.positions = positions
    try:
        reader.connect()
        with pytest.raises(PositionLost, match="offset 2 are gone"):
            reader.batches(1)
    finally:
        reader.source.close()


def test_stream_that_was_created_anew_is_noticed(classic: RabbitTemplate) -> None:
    pair = classic.log_pair()
    source = classic.link(options={"AMQP_AnswerTimeout": "1"}).source(use_of(pair.source))
    source.connect({"0": "1000"})
    try:
        with pytest.raises(LinkTimeout, match="re-created"):
            read_on(source)
    finally:
        source.close()


def test_stream_that_was_created_anew_and_filled_is_noticed(classic: RabbitTemplate) -> None:
    """As long as the old one, so that its offsets alone tell nothing."""
    pair = classic.log_pair()
    name = pair.source.provider_queue
    with both(classic, pair) as (reader, writer):
        writer.deliver(*numbered(10))
        assert reader.bodies(5, size=5) == numbers(5)
        positions = reader.positions
        reader.reconnect()
        assert reader.bodies(5, size=5) == numbers(5, 5), "the same stream is no alarm"
    classic.channel.queue_delete(name)
    classic.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    with writing(classic.link(), pair) as writer:
        writer.deliver(*numbered(10, 100))
    again = Reader(classic.link(), use_of(pair.source))
    again.positions = positions
    try:
        again.connect()
        with pytest.raises(PositionLost, match="re-created") as lost:
            again.batches(1)
        assert lost.value.number == 415
        assert again.positions == positions
    finally:
        again.source.close()


def test_stream_that_hands_out_no_more_is_noticed(classic: RabbitTemplate) -> None:
    """Its reader settles nothing here, so the broker sends it nothing more."""
    pair = classic.log_pair()
    narrow = pair.source.__class__("src", "rmq", pair.source.provider_queue, None, {"AMQP_Prefetch": "1"})
    pair = Pair(narrow, pair.destination)
    with both(classic, pair) as (reader, writer):
        assert isinstance(reader.source, RabbitSource)
        writer.deliver(*numbered(3))
        assert reader.bodies(3) == numbers(3)
        reader.source.silence = 0.0
        for _ in range(3):
            assert reader.source.backlog() is None, "nothing waits"
        writer.deliver(*numbered(1, 3))
        reader.batches(1, size=1, settle=False)
        writer.deliver(*numbered(1, 4))

        def noticed() -> bool:
            with pytest.raises(LinkTimeout, match="messages wait after offset 3"):
                reader.source.backlog()
            return True

        eventually(noticed, tolerate=(AssertionError, pytest.fail.Exception), what="the silence noticed")
        reader.reconnect()
        assert reader.bodies(2) == numbers(2, 3)


def test_message_published_while_the_silence_is_looked_into_is_no_stuck_subscription(classic: RabbitTemplate) -> None:
    pair = classic.log_pair()
    with both(classic, pair) as (reader, writer):
        assert isinstance(reader.source, RabbitSource)
        writer.deliver(*numbered(1))
        assert reader.bodies(1) == numbers(1)
        reader.source.silence = 0.0
        for number in range(1, 150):
            publisher = threading.Thread(target=writer.deliver, args=numbered(1, number))
            publisher.start()
            assert reader.source.backlog() is None
            assert reader.bodies(1) == numbers(1, number)
            publisher.join()


def test_stream_position_of_an_earlier_release_is_taken(classic: RabbitTemplate) -> None:
    pair = classic.log_pair()
    with writing(classic.link(), pair) as writer:
        writer.deliver(*numbered(10))
    reader = Reader(classic.link(), use_of(pair.source))
    reader.positions = {"0": "4"}
    try:
        reader.connect()
        assert reader.bodies(5) == numbers(5, 5)
    finally:
        reader.source.close()


@pytest.mark.parametrize("before", [0, 3], ids=["empty", "not empty"])
def test_a_stream_that_is_read_from_its_end_on_loses_nothing_before_the_first_batch(
    classic: RabbitTemplate, before: int
) -> None:
    """Where the job begins is stored at once: what comes while it is away, for the first time, is not skipped."""
    classic.queue_type = "stream"
    stream = classic.queue()
    pair = queue_pair(stream, AMQP_StreamOffset="next")
    link, positions = classic.link(), dict[str, str]()
    with writing(link, pair) as writer:
        writer.deliver(*numbered(before))
        source = link.source(use_of(pair.source))
        source.connect(positions)
        first = source.read(10, 1.0)
        assert (list(first.deliveries), len(first.positions)) == ([], 1)
        positions[first.positions[0].partition] = first.positions[0].after
        source.settle(first)
        source.close()
        writer.deliver(*numbered(4, before))
    reader = Reader(link, use_of(pair.source))
    reader.positions = positions
    try:
        reader.connect()
        assert reader.bodies(4) == numbers(4, before)
    finally:
        reader.source.close()


# -- exchanges --------------------------------------------------------------------------------------------------------


def test_topic_job_collects_while_disconnected_until_it_is_forgotten(template: RabbitTemplate) -> None:
    exchange = unique("exchange")
    template.channel.exchange_declare(exchange, "topic", durable=True)
    source = topic(f"{exchange}/plant.*.temperature", AMQP_QueueType=template.queue_type)
    use = use_of(source)
    link = template.link()
    link.verify(use, Direction.INBOUND)
    with writing(link, Pair(source, topic(f"{exchange}/plant.a.temperature"))) as writer:
        writer.deliver(*numbered(3))
    with writing(link, Pair(source, topic(exchange, AMQP_Mandatory="FALSE"))) as writer:
        writer.deliver(Message(b"no", headers=(text("MGW_AMQP_routingKey", "plant.b.pressure"),)))
        writer.deliver(Message(b"yes", headers=(text("MGW_AMQP_routingKey", "plant.b.temperature"),)))
    with reading(link, Pair(source, source), job=use.job) as reader:
        found = [delivery.message for delivery in reader.collect(4)]
    assert [body_bytes(message) for message in found] == [*numbers(3), b"yes"]
    assert found[0].header("MGW_AMQP_exchange") == exchange
    assert [message.header("MGW_AMQP_routingKey") for message in found[2:]] == [
        "plant.a.temperature",
        "plant.b.temperature",
    ]
    template.channel.queue_declare(f"MGW_{use.job}", passive=True)
    link.forget(use, Direction.INBOUND)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        template.channel.queue_declare(f"MGW_{use.job}", passive=True)


def test_the_own_queue_of_a_topic_job_has_one_reader(template: RabbitTemplate) -> None:
    """Jobs of two hubs with one name would share the queue, and each would miss what the other one gets."""
    exchange, unbound = unique("exchange"), unique("exchange")
    for name in (exchange, unbound):
        template.channel.exchange_declare(name, "topic", durable=True)
    source = topic(f"{exchange}/#", AMQP_QueueType=template.queue_type)
    use = use_of(source)
    link = template.link()
    with reading(link, Pair(source, source), job=use.job) as reader:
        elsewhere = link.source(replace(use, hub_id="another"))
        with pytest.raises(LinkUnavailable, match="somebody else reads") as refusal:
            elsewhere.connect({})
        assert "another hub may have a job of this name" in refusal.value.cause
        other = replace(use, hub_id="another", endpoint=topic(f"{unbound}/#", AMQP_QueueType=template.queue_type))
        link.verify(other, Direction.INBOUND)
        with pytest.raises(LinkUnavailable):
            link.source(other).connect({})
        link.forget(other, Direction.INBOUND)
        with writing(link, Pair(source, topic(f"{unbound}/key", AMQP_Mandatory="FALSE"))) as writer:
            writer.deliver(*numbered(1, 99))  # of what this job never subscribed to
        with writing(link, Pair(source, topic(f"{exchange}/key"))) as writer:
            writer.deliver(*numbered(3))
        assert [body_bytes(delivery.message) for delivery in reader.collect(3)] == numbers(3)
    elsewhere.connect({})
    elsewhere.close()


def test_missing_exchange_is_named(classic: RabbitTemplate) -> None:
    for direction in Direction:
        with pytest.raises(QueueMissing, match="no_such_exchange"):
            classic.link().verify(use_of(topic("no_such_exchange/key")), direction)


def test_message_without_routing_key_for_an_open_exchange_fails_alone(classic: RabbitTemplate) -> None:
    destination = classic.link().destination(use_of(topic("amq.topic")))
    with pytest.raises(ConversionFailure, match="routing key"):
        destination.encode(Message(b"x"))


def test_unroutable_message_is_rejected_by_name(classic: RabbitTemplate) -> None:
    exchange = unique("unbound")
    classic.channel.exchange_declare(exchange, "direct")
    target = topic(f"{exchange}/nowhere")
    with writing(classic.link(), Pair(target, target)) as writer:
        writer.send(Message(b"x"))
        with pytest.raises(DeliveryRejected) as raised:
            writer.confirm()
    assert exchange in str(raised.value)
    assert "'nowhere'" in str(raised.value)


def test_batches_before_an_unroutable_one_are_confirmed(classic: RabbitTemplate) -> None:
    bound = classic.queue()
    target = topic("amq.direct")
    classic.channel.queue_bind(bound, "amq.direct", bound)
    good, bad = text("MGW_AMQP_routingKey", bound), text("MGW_AMQP_routingKey", unique("nowhere"))
    with writing(classic.link(), Pair(target, target)) as writer:
        writer.deliver(Message(b"x", headers=(good,)))
        writer.send(Message(b"x", headers=(bad,)))
        with pytest.raises(DeliveryRejected):
            writer.confirm()


def test_full_queue_rejects_the_batch(classic: RabbitTemplate) -> None:
    pair = queue_pair(classic.queue(**{"x-max-length": 3, "x-overflow": "reject-publish"}))
    with writing(classic.link(), pair) as writer:
        writer.deliver(*numbered(3))
        writer.send(*numbered(3))
        with pytest.raises(DeliveryRejected, match="nack"):
            writer.confirm()


def test_queue_deleted_under_a_publisher_is_rejected_by_name(classic: RabbitTemplate) -> None:
    pair = classic.pair()
    with writing(classic.link(), pair) as writer:
        writer.deliver(Message(b"x"))
        classic.channel.queue_delete(pair.source.provider_queue)
        writer.send(Message(b"y"))
        with pytest.raises(DeliveryRejected, match=pair.source.provider_queue):
            writer.confirm()


def test_queue_deleted_under_a_reader_is_noticed(template: RabbitTemplate) -> None:
    pair = template.pair()
    with reading(template.link(), pair) as reader:
        waiting = in_thread(lambda: reader.source.read(1, 30))
        template.channel.queue_delete(pair.source.provider_queue)
        with pytest.raises(LinkError) as raised:
            waiting(10)
        assert pair.source.provider_queue in str(raised.value)


def test_endpoints_that_can_never_work_are_refused(classic: RabbitTemplate) -> None:
    link = classic.link()
    cases = (
        (topic("amq.topic/a.*"), Direction.OUTBOUND, "wildcards"),
        (topic("amq.topic/#"), Direction.OUTBOUND, "wildcards"),
        (topic("/q"), Direction.INBOUND, "default exchange"),
        (topic("e/" + "k" * 256), None, "255 bytes"),
        (Endpoint("q", "rmq", "q" * 256), None, "255 bytes"),
        (Endpoint("q", "rmq", "q", options={"AMQP_MaxPriority": "256"}), None, "255"),
        (Endpoint("q", "rmq", "q", options={"AMQP_QueueType": "lazy"}), None, "quorum"),
        (topic("e/k", AMQP_QueueType="stream"), None, "classic or quorum"),
    )
    for endpoint, direction, reason in cases:
        with pytest.raises(AdminError, match=reason) as raised:
            link.check_endpoint(endpoint, direction)
        assert endpoint.full_name in str(raised.value)
    link.check_endpoint(topic("amq.topic/a.*"), Direction.INBOUND)
    link.check_endpoint(topic("amq.direct/a*b"), Direction.OUTBOUND)


# -- headers the broker would choke on --------------------------------------------------------------------------------


def test_headers_survive_the_broker_with_their_types(template: RabbitTemplate) -> None:
    values: tuple[tuple[ValueType, HeaderValue], ...] = (
        (ValueType.BYTE, -5),
        (ValueType.SHORT, -300),
        (ValueType.INTEGER, 70_000),
        (ValueType.LONG, -(2**63)),
        (ValueType.FLOAT, -0.25),
        (ValueType.DOUBLE, 1e300),
        (ValueType.BOOLEAN, True),
        (ValueType.RAW, bytes(range(256))),
        (ValueType.TEXT, "x" * 4000),
        (ValueType.TEXT, "a\x00b"),
        (ValueType.DATE, 4_000_000_000.0),
    )
    headers = tuple(
        Header(f"MGW_TEST_{kind.name}_{number}", kind, value) for number, (kind, value) in enumerate(values)
    )
    with both(template) as (reader, writer):
        writer.deliver(Message(b"x", headers=headers))
        assert set(headers) <= set(reader.one().headers)


def test_another_users_id_fails_alone(classic: RabbitTemplate) -> None:
    with both(classic) as (reader, writer):
        with pytest.raises(ConversionFailure, match="nobody"):
            writer.send(Message(b"x", headers=(text("MGW_AMQP_userId", "nobody"),)))
        writer.deliver(Message(b"y", headers=(text("MGW_AMQP_userId", "guest"),)))
        assert reader.one().header("MGW_AMQP_userId") == "guest"


def test_an_applications_timestamp_does_not_end_its_message(classic: RabbitTemplate) -> None:
    pair = classic.pair()
    properties = pika.BasicProperties(expiration="1800000", timestamp=int(time.time()) - 3600)
    classic.channel.basic_publish("", pair.source.provider_queue, b"x", properties)
    with reading(classic.link(), pair) as reader:
        assert reader.one().expiration == 1800


def test_a_gateways_message_with_expiration_read_late_has_what_is_left(classic: RabbitTemplate) -> None:
    pair = classic.pair()
    expires_at = int((time.time() + 10) * 1000)
    properties = pika.BasicProperties(expiration="60000", headers={"MGW_AQ_expires_at": expires_at})
    classic.channel.basic_publish("", pair.source.provider_queue, b"x", properties)
    with reading(classic.link(), pair) as reader:
        expiration = reader.one().expiration
    assert expiration is not None
    assert 5 <= expiration <= 11


def test_foreign_array_and_table_headers_are_json(classic: RabbitTemplate) -> None:
    pair = classic.pair()
    headers = {"list": [1, "a", None], "map": {"k": True}, "nothing": None, "number": 2**40}
    classic.channel.basic_publish("", pair.source.provider_queue, b"x", pika.BasicProperties(headers=headers))
    with reading(classic.link(), pair) as reader:
        message = reader.one()
    assert message.header("list") == '[1,"a",null]'
    assert message.header("map") == '{"k":true}'
    assert message.header("nothing") == "null"
    assert message.header("number") == 2**40
    kinds = {header.name: header.type for header in message.headers}
    assert {kinds[name] for name in ("list", "map", "nothing")} == {ValueType.JSON}


def test_headers_have_the_names_of_the_manual_where_the_link_says_so(classic: RabbitTemplate) -> None:
    pair = classic.pair()
    attributes = {"hostname": classic.server.host, "port": classic.server.port, "header_names": "documented"}
    classic.channel.basic_publish("", pair.source.provider_queue, b"x", pika.BasicProperties(headers={"tenant": "a"}))
    with reading(classic.link(attributes=attributes), pair) as reader:
        assert reader.one().header("MGW_AMQP_H_tenant") == "a"


def test_field_values_keep_their_types_through_the_hub(
    classic: RabbitTemplate, rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    names = [uuid.uuid4().hex for _ in range(3)]
    for name in names:
        classic.channel.queue_declare(name, durable=True)
    moment = datetime.fromtimestamp(1_600_000_000, UTC)
    inner = [1, 2**40, None, True, "a", b"\x00\xff", Decimal("1.50"), moment, {"k": [{}]}]
    headers = {f"h{number}": value for number, value in enumerate(inner)} | {"list": inner, "table": {"$byte": inner}}
    for name in (names[0], names[2]):
        classic.channel.basic_publish("", name, b"x", pika.BasicProperties(headers=headers))
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        place = {"hostname": rabbitmq.host, "port": rabbitmq.port}
        gateway.admin.create_msgsystem_link("r", "RABBITMQ", place, username="guest", password="guest")
        for name in names[:2]:
            gateway.admin.register_foreign_queue(name, "r", domain="QUEUE")
        gateway.admin.create_job("in", "INBOUND", f"{names[0]}@r", "H")
        gateway.admin.create_job("out", "OUTBOUND", "H", f"{names[1]}@r")
        with gateway.run():
            eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 1)
    far, near = (classic.channel.basic_get(name, auto_ack=True)[1].headers for name in names[1:])
    assert far == headers
    assert repr(far) == repr(near)


def test_foreign_header_name_of_251_characters_is_a_failure(classic: RabbitTemplate) -> None:
    pair = classic.pair()
    properties = pika.BasicProperties(headers={"n" * 251: "v"}, content_type="text/plain")
    classic.channel.basic_publish("", pair.source.provider_queue, b"\x00body", properties)
    with reading(classic.link(), pair) as reader:
        (delivery,) = reader.collect(1)
    assert delivery.failure is not None
    assert "251" in str(delivery.failure)
    assert delivery.message.body == b"\x00body"


# -- faults -----------------------------------------------------------------------------------------------------------


def test_missed_heartbeats_bring_the_messages_back(classic: RabbitTemplate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life are sent for a thread that is away from its connection, but not for ever."""
    patience = 5.0
    monkeypatch.setattr(connection, "PATIENCE", patience)
    pair = classic.pair()
    name = pair.source.provider_queue
    with writing(classic.link(), pair) as writer:
        writer.deliver(*numbered(10))
    with reading(classic.link(options={"AMQP_Heartbeat": "2"}), pair) as reader:
        reader.batches(10, settle=False)
        # No call of the link: a hub that takes too long. The broker takes the messages back after a while.
        begun = time.monotonic()
        wait_until(
            lambda: classic.channel.queue_declare(name, passive=True).method.message_count == 10, "given back", 30
        )
        assert time.monotonic() - begun > patience + 2  # at the third missed heartbeat it would have been 6
        with pytest.raises(LinkError):
            read_on(reader.source)
        reader.reconnect()
        assert reader.bodies(10) == numbers(10)


def test_connection_is_whole_after_signs_of_life_from_another_thread(own: RabbitTemplate) -> None:
    pair = own.pair()
    for link in (own.link(), own.link(attributes=tls(own))):
        with writing(link, pair) as writer:
            assert isinstance(writer.destination, RabbitDestination)
            session = writer.destination._session
            assert session is not None
            for number in range(20):
                assert session.beat(time.monotonic() + 30) is True
                writer.deliver(Message(b"%d" % number))
        assert session.beat(time.monotonic()) is False
    with reading(own.link(), pair) as reader:
        assert reader.bodies(40) == [b"%d" % number for number in range(20)] * 2


def test_alarm_ends_in_a_timeout_that_names_it(own: RabbitTemplate) -> None:
    pair = own.pair()
    with writing(own.link(options={"AMQP_BlockedTimeout": "1"}), pair) as writer:
        writer.deliver(Message(b"x"))
        own.server.set_memory_alarm()
        try:
            with pytest.raises(LinkTimeout, match="alarm"):
                writer.deliver(*numbered(3))
            assert [check.name for check in own.link().test() if not check.ok] in ([], ["alarms"])
        finally:
            own.server.set_memory_alarm(False)
        writer.destination.close()
        writer.destination.connect()
        writer.deliver(Message(b"again"))


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_broker_killed_while_messages_move_loses_nothing(own: RabbitTemplate, queue_type: str) -> None:
    total, batch = 4000, 50
    own.queue_type = queue_type
    pair = own.pair()
    own.close()
    own.server.flush_declarations()
    link = own.link()
    found: list[bytes | None] = []
    reader = Reader(link, use_of(pair.source))
    writer = Writer(link, use_of(pair.destination))
    reader.reconnect(60)
    writer.reconnect(60)
    confirmed, killed = 0, False  # batches
    deadline = time.monotonic() + 120
    try:
        while confirmed < total // batch or len(set(found)) < total:
            assert time.monotonic() < deadline, f"{confirmed * batch} confirmed, {len(set(found))} arrived"
            try:
                while writer.sequence < min(total // batch, confirmed + 10):
                    writer.send(*numbered(batch, writer.sequence * batch))
                confirmed = writer.destination.confirmed(0) or confirmed
                read = reader.source.read(100, 0.05)
                if len(found) > total // 3 and not killed:
                    killed = True
                    own.server.kill()
                    own.server.start()
                reader.source.settle(read)
                found += [body_bytes(delivery.message) for delivery in read.deliveries]
            except LinkError:
                reader.reconnect(60)
                writer.reconnect(60)
                writer.sequence = confirmed  # send again what is not confirmed
    finally:
        reader.source.close()
        writer.destination.close()
    assert killed
    assert set(found) == set(numbers(total))
    assert len(first_occurrences(found)) == total


# -- TLS and refusals -------------------------------------------------------------------------------------------------


def tls(own: RabbitTemplate, **changes: object) -> dict[str, object]:
    certificates = own.server.certificates
    assert isinstance(certificates, Certificates)
    return {
        "hostname": "localhost",
        "port": own.server.tls_port,
        "tls": True,
        "tls_ca_file": str(certificates.ca),
    } | changes


def test_tls_with_verification_carries_messages(own: RabbitTemplate) -> None:
    pair = own.pair()
    certificates = own.server.certificates
    assert isinstance(certificates, Certificates)
    own_certificate = {"tls_cert_file": str(certificates.client), "tls_key_file": str(certificates.client_key)}
    link = own.link(attributes=tls(own, **own_certificate))
    assert [check for check in link.test() if not check.ok] == []
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(*numbered(100), Message(b"x" * 1_000_000))
        assert reader.bodies(101) == [*numbers(100), b"x" * 1_000_000]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tls_ca_file": "other"}, "certificate"),
        ({"tls_server_name": "elsewhere.example"}, "elsewhere.example"),
        ({"tls_ca_file": "/does/not/exist"}, "No such file"),
        ({"port": "plain"}, "TLS"),
    ],
    ids=["authority", "name", "file", "port"],
)
def test_tls_that_cannot_be_verified_is_refused(own: RabbitTemplate, changes: dict[str, object], reason: str) -> None:
    certificates = own.server.certificates
    assert isinstance(certificates, Certificates)
    named = {"other": str(certificates.other_ca), "plain": own.server.port}
    link = own.link(attributes=tls(own, **{key: named.get(str(value), value) for key, value in changes.items()}))
    with pytest.raises(LinkRefused, match=reason):
        link.source(use_of(own.pair().source)).connect({})
    checks = link.test()
    assert (checks[-1].name, checks[-1].ok) == ("tls", False)
    assert checks[-1].cure


def test_plain_connection_to_the_tls_port_is_told(own: RabbitTemplate) -> None:
    attributes = {"hostname": own.server.host, "port": own.server.tls_port}
    link = own.link(attributes=attributes, options={"AMQP_ConnectTimeout": "3"})
    with pytest.raises(LinkError) as raised:
        link.source(use_of(own.pair().source)).connect({})
    assert raised.value.cause
    assert not link.test()[-1].ok


def test_missing_virtual_host_is_named(classic: RabbitTemplate) -> None:
    attributes = {**classic.config().attributes, "virtual_host": "no_such_host"}
    link = classic.link(attributes=attributes)
    with pytest.raises(LinkRefused, match="no_such_host"):
        link.source(use_of(classic.pair().source)).connect({})
    assert not link.test()[-1].ok


def test_unknown_host_name_is_told(classic: RabbitTemplate) -> None:
    link = classic.link(attributes={"hostname": "no-such-host.invalid"})
    with pytest.raises(LinkUnavailable, match="no-such-host"):
        link.destination(use_of(classic.pair().destination)).connect()
    assert link.test()[0].name == "name"


def test_user_without_permission_is_refused(own: RabbitTemplate) -> None:
    own.server.ctl("add_user", "limited", "secret")
    own.server.ctl("set_permissions", "limited", "", "", "")
    link = own.link(username="limited", password="secret")
    pair = own.pair()
    with pytest.raises(LinkRefused, match="'limited'"):
        link.source(use_of(pair.source)).connect({})
    with pytest.raises(LinkRefused, match="'limited'"), writing(link, pair) as writer:
        writer.deliver(Message(b"x"))


def test_secrets_never_show() -> None:
    assert not [field for field in spec("rabbitmq").attributes if field.secret and field.default]
