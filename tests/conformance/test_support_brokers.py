"""The tests' own servers keep what they were given: through a stop, through a kill, on the same ports."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import psycopg
import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError
from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ, Server
from tests.support.kafka_clients import KafkaConsumer, KafkaProducer
from tests.support.processes import sockets_of
from tests.support.waiting import eventually


def stopped(server: Server) -> None:
    server.restart()


def killed(server: Server) -> None:
    server.kill()
    server.start()


#: What survives a kill survives an orderly end, too.
ENDS = pytest.mark.parametrize("end", [pytest.param(stopped, marks=pytest.mark.matrix), killed])


# RabbitMQ


@pytest.fixture(scope="module")
def own_rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ(tls=True, plugins=["rabbitmq_management"]) as server:
        yield server


def _amqp(server: RabbitMQ) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))


@pytest.mark.rabbitmq
@ENDS
@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_confirmed_messages_survive(own_rabbitmq: RabbitMQ, kind: str, end: Callable[[Server], None]) -> None:
    queue = f"{kind}-{end.__name__}"
    with _amqp(own_rabbitmq) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        channel.confirm_delivery()
        for number in range(5):
            channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2), mandatory=True)
    own_rabbitmq.flush_declarations()
    end(own_rabbitmq)
    arguments = {"x-stream-offset": "first"} if kind == "stream" else {}
    # A stream has no leader yet when the node begins to serve.
    bodies = eventually(
        lambda: _consume(own_rabbitmq, queue, 5, arguments),
        what=f"five messages in {queue}",
        tolerate=(pika.exceptions.ChannelClosedByBroker,),
    )
    assert bodies == [b"0", b"1", b"2", b"3", b"4"]


def _consume(server: RabbitMQ, queue: str, count: int, arguments: dict[str, str]) -> list[bytes]:
    bodies: list[bytes] = []
    with _amqp(server) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=count)
        for method, _, body in channel.consume(queue, arguments=arguments, inactivity_timeout=20):
            assert method is not None, f"only {bodies} came back"
            channel.basic_ack(method.delivery_tag)
            bodies.append(body)
            if len(bodies) == count:
                break
        channel.cancel()
    return bodies


@pytest.mark.rabbitmq
def test_memory_alarm_blocks_publishers_until_it_is_cleared(own_rabbitmq: RabbitMQ) -> None:
    own_rabbitmq.start()
    blocked: list[bool] = []
    with _amqp(own_rabbitmq) as connection:
        connection.add_on_connection_blocked_callback(lambda *_: blocked.append(True))
        connection.add_on_connection_unblocked_callback(lambda *_: blocked.append(False))
        channel = connection.channel()
        channel.queue_declare("alarmed", durable=True)
        own_rabbitmq.set_memory_alarm()
        channel.basic_publish("", "alarmed", b"blocked")

        def seen() -> list[bool]:
            connection.process_data_events(0)
            return blocked

        eventually(lambda: seen() == [True], what="connection.blocked")
        own_rabbitmq.set_memory_alarm(False)
        eventually(lambda: seen() == [True, False], what="connection.unblocked")


@pytest.mark.rabbitmq
def test_rabbitmq_speaks_tls_to_those_who_trust_it(own_rabbitmq: RabbitMQ) -> None:
    own_rabbitmq.start()
    assert own_rabbitmq.certificates is not None
    certificates = own_rabbitmq.certificates

    def open_with(authority: Path) -> None:
        context = ssl.create_default_context(cafile=authority)
        options = pika.SSLOptions(context, "localhost")
        parameters = pika.ConnectionParameters("localhost", own_rabbitmq.tls_port, ssl_options=options)
        pika.BlockingConnection(parameters).close()

    open_with(certificates.ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        open_with(certificates.other_ca)


@pytest.mark.rabbitmq
def test_rabbitmq_listens_on_loopback_only(own_rabbitmq: RabbitMQ) -> None:
    own_rabbitmq.start()
    assert _listening_addresses(own_rabbitmq.pid) == {"127.0.0.1"}


# Mosquitto


def _subscriber(server: Mosquitto, received: list[str]) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="keeper", clean_session=False)
    client.on_message = lambda _client, _data, message: received.append(message.payload.decode())
    client.connect(server.host, server.port)
    return client


@pytest.mark.mosquitto
@ENDS
def test_queued_and_retained_messages_survive(end: Callable[[Server], None]) -> None:
    with Mosquitto() as server:
        received: list[str] = []
        keeper = _subscriber(server, received)
        keeper.subscribe("queued", qos=1)
        subscribed: list[int] = []
        keeper.on_subscribe = lambda *_: subscribed.append(1)
        eventually(lambda: keeper.loop(0.1) == 0 and subscribed, what="subscription")
        keeper.disconnect()
        base = ["-h", server.host, "-p", str(server.port), "-q", "1"]
        subprocess.run(["mosquitto_pub", *base, "-t", "queued", "-m", "first"], check=True)
        subprocess.run(["mosquitto_pub", *base, "-t", "kept", "-r", "-m", "retained"], check=True)
        _wait_for_snapshot(server)
        end(server)
        command = ["mosquitto_sub", *base, "-t", "kept", "-C", "1", "-W", "10"]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "retained\n"
        keeper = _subscriber(server, received)
        eventually(lambda: keeper.loop(0.1) == 0 and received == ["first"], what="the queued message")
        keeper.disconnect()


def _wait_for_snapshot(server: Mosquitto) -> None:
    snapshot = server.folder / "data" / "mosquitto.db"
    eventually(
        lambda: snapshot.exists() and all(word in snapshot.read_bytes() for word in (b"first", b"retained")),
        what="both messages in Mosquitto's database",
    )


@pytest.mark.mosquitto
def test_mosquitto_with_a_password_refuses_strangers_and_speaks_tls() -> None:
    with Mosquitto(username="meter", password="right", tls=True) as server:
        assert server.certificates is not None
        publish: list[str | Path] = ["mosquitto_pub", "-t", "t", "-m", "m", "-u", "meter", "-P"]
        plain = ["-h", server.host, "-p", str(server.port)]
        encrypted = ["-h", "localhost", "-p", str(server.tls_port), "--cafile"]
        assert subprocess.run([*publish, "right", *plain], check=False).returncode == 0
        refused = subprocess.run([*publish, "wrong", *plain], check=False, capture_output=True, text=True)
        assert "not authorised" in refused.stderr
        assert subprocess.run([*publish, "right", *encrypted, server.certificates.ca], check=False).returncode == 0
        distrusted = [*publish, "right", *encrypted, server.certificates.other_ca]
        assert subprocess.run(distrusted, check=False, capture_output=True).returncode != 0
        assert _listening_addresses(server.pid) == {"127.0.0.1"}


# Kafka


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[Kafka]:
    with Kafka(tls=True, username="meter", password="right") as server:
        yield server


def _records(server: Kafka, topic: str, count: int, **options: object) -> list[bytes]:
    consumer = KafkaConsumer(
        **{"bootstrap_servers": server.bootstrap, "consumer_timeout_ms": 20_000, "auto_offset_reset": "earliest"}
        | options
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []
        for record in consumer:
            values.append(record.value)
            if len(values) == count:
                break
        return values
    finally:
        consumer.close()


@pytest.mark.kafka
@ENDS
def test_acknowledged_records_survive(own_kafka: Kafka, end: Callable[[Server], None]) -> None:
    topic = f"kept-{end.__name__}"
    own_kafka.create_topic(topic)
    subprocess.run(own_kafka.console_producer(topic), input=b"one\ntwo\n", check=True, capture_output=True)
    end(own_kafka)
    command = own_kafka.console_consumer(topic, "--from-beginning", "--max-messages", "2")
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"one\ntwo\n"


@pytest.mark.kafka
def test_aborted_transactions_stay_invisible(own_kafka: Kafka) -> None:
    own_kafka.start().create_topic("transactional")
    producer = KafkaProducer(bootstrap_servers=own_kafka.bootstrap, transactional_id="test")
    try:
        producer.init_transactions()
        for value, finish in ((b"aborted", producer.abort_transaction), (b"kept", producer.commit_transaction)):
            producer.begin_transaction()
            producer.send("transactional", value)
            producer.flush()
            finish()
    finally:
        producer.close()
    assert _records(own_kafka, "transactional", 1, isolation_level="read_committed") == [b"kept"]
    assert _records(own_kafka, "transactional", 2) == [b"aborted", b"kept"]


@pytest.mark.kafka
def test_kafka_speaks_tls_and_knows_its_users(own_kafka: Kafka) -> None:
    own_kafka.start().create_topic("secured")
    assert own_kafka.certificates is not None
    subprocess.run(own_kafka.console_producer("secured"), input=b"one\n", check=True, capture_output=True)
    encrypted = {"bootstrap_servers": own_kafka.tls_bootstrap, "security_protocol": "SSL"}
    authority = str(own_kafka.certificates.ca)
    assert _records(own_kafka, "secured", 1, **encrypted, ssl_cafile=authority) == [b"one"]
    user: dict[str, object] = {
        "bootstrap_servers": own_kafka.sasl_bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "meter",
    }
    assert _records(own_kafka, "secured", 1, **user, sasl_plain_password="right") == [b"one"]
    with pytest.raises(KafkaError):
        _records(own_kafka, "secured", 1, **user, sasl_plain_password="wrong", bootstrap_timeout_ms=3000)


@pytest.mark.kafka
def test_clients_of_the_proxied_address_stay_behind_the_proxy(own_kafka: Kafka) -> None:
    own_kafka.start().create_topic("proxied")
    with own_kafka.proxy() as proxy:
        subprocess.run(own_kafka.console_producer("proxied"), input=b"one\n", check=True, capture_output=True)
        assert _records(own_kafka, "proxied", 1, bootstrap_servers=own_kafka.proxied_bootstrap) == [b"one"]
        assert proxy.accepted >= 2, "the bootstrap connection and the one to the advertised address"


@pytest.mark.kafka
def test_unknown_topics_are_not_created(own_kafka: Kafka) -> None:
    own_kafka.start()
    result = subprocess.run(
        own_kafka.console_producer("nobody-made-this", "--command-property", "max.block.ms=2000"),
        input=b"one\n",
        check=False,
        capture_output=True,
    )
    assert b"nobody-made-this" in result.stdout + result.stderr
    consumer = KafkaConsumer(bootstrap_servers=own_kafka.bootstrap)
    try:
        assert "nobody-made-this" not in consumer.topics()
    finally:
        consumer.close()


@pytest.mark.kafka
def test_kafka_listens_on_loopback_only(own_kafka: Kafka) -> None:
    own_kafka.start()
    assert _listening_addresses(own_kafka.pid) == {"127.0.0.1"}


# PostgreSQL


@pytest.mark.postgresql
@ENDS
def test_committed_rows_survive(end: Callable[[Server], None]) -> None:
    with PostgreSQL() as server:
        address = server.create_database("kept").replace("+psycopg", "")
        with psycopg.connect(address) as connection:
            connection.execute("CREATE TABLE kept (number int)")
            connection.execute("INSERT INTO kept SELECT generate_series(1, 5)")
        end(server)
        with psycopg.connect(address) as connection:
            rows = connection.execute("SELECT number FROM kept ORDER BY number").fetchall()
            assert rows == [(1,), (2,), (3,), (4,), (5,)]
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            assert _listening_addresses(server.pid) == {"127.0.0.1"}
            server.drop_database("kept")
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")


@pytest.mark.postgresql
def test_a_connected_client_does_not_hold_up_the_stop() -> None:
    with PostgreSQL() as server, psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


@pytest.mark.postgresql
def test_database_names_are_checked(postgresql: PostgreSQL) -> None:
    with pytest.raises(ValueError, match="not a lower-case identifier"):
        postgresql.create_database("x; DROP DATABASE mgw")


def _listening_addresses(pid: int) -> set[str]:
    """Local addresses of the process's listening TCP sockets, as the kernel lists them."""
    sockets = set(map(str, sockets_of(pid)))
    addresses = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == "0A" and inode in sockets:
                addresses.add(_readable(local.partition(":")[0]))
    return addresses


def _readable(address: str) -> str:
    """127.0.0.1 for both ways in which the kernel writes it."""
    if address in {"0100007F", "0000000000000000FFFF00000100007F"}:
        return "127.0.0.1"
    return address
