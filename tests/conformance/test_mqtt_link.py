"""The MQTT link on a real Mosquitto, both protocol versions, against the suite of every link and its own traps."""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import pytest

from mgw.links.contract import Capability, Domain, Endpoint, Link, LinkConfig
from mgw.links.mqtt.link import SPEC, open_link
from tests.conformance.link_suite import LinkSuite, LinkTemplate, Pair, Wire, unique
from tests.support.brokers import Mosquitto
from tests.support.ports import free_port
from tests.support.proxy import TcpProxy

pytestmark = pytest.mark.mosquitto

_FIVE_ONLY = frozenset(
    (
        Capability.TYPED_HEADERS,
        Capability.TEXT_HEADERS,
        Capability.RAW_HEADERS,
        Capability.REPEATED_HEADERS,
        Capability.CORRELATION,
        Capability.EXPIRATION,
        Capability.MESSAGE_ID,
        Capability.TEXT_BODY,
        Capability.NULL_BODY,
    )
)


def run(*command: str, stdin: bytes = b"") -> bytes:
    """Output of one of Mosquitto's own clients."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def mosquitto_pub(port: int, topic: str, body: bytes, *more: str, version: int = 5, qos: int = 1) -> None:
    """Publish one message with mosquitto_pub."""
    protocol = "mqttv5" if version == 5 else "mqttv311"
    where = ("-h", "127.0.0.1", "-p", str(port), "-V", protocol, "-q", str(qos), "-t", topic)
    run("mosquitto_pub", *where, *more, *(("-s",) if body else ("-n",)), stdin=body)


class MqttWire:
    """The way to the broker, through a proxy."""

    def __init__(self, proxy: TcpProxy) -> None:
        self._proxy = proxy
        self.cut = proxy.cut
        self.stall = proxy.stall

    def refuse(self) -> None:
        self._proxy.refuse()
        self._proxy.cut()

    def resume(self) -> None:
        self._proxy.resume()
        self._proxy.accept()


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    """A broker that does not write its whole store at every change, and sends 3.1.1 clients more than 20 messages."""
    config = ("max_inflight_messages 1000", "autosave_on_changes false", "autosave_interval 1800")
    with Mosquitto(config=config) as server:
        yield server


class MqttTemplate(LinkTemplate):
    spec = SPEC
    message_id_header = "MGW_AQ_messageID"
    patience = 10.0
    version = 5
    options: Mapping[str, str] = MappingProxyType({})
    log: str | None = None

    def __init__(self, broker: Mosquitto) -> None:
        self.broker = broker
        self._own: list[Mosquitto] = []
        self._readers: dict[str, str] = {}

    def link(self) -> Link:
        return self._link(self.broker.port)

    def _link(self, port: int, username: str | None = None, password: str | None = None, **settings: object) -> Link:
        attributes = {"hostname": "127.0.0.1", "port": port, "protocol_version": self.version, **settings}
        config = LinkConfig(
            "plant", "mqtt", attributes, username=username, password=password, outbound_log_queue=self.log
        )
        return open_link(config)

    def pair(self) -> Pair:
        topic = unique("suite") + "/t"
        return Pair(
            Endpoint("src", "plant", topic, options=self.options), Endpoint("dst", "plant", topic, options=self.options)
        )

    def pattern(self) -> Endpoint:
        return Endpoint("all", "plant", "plant/+/telemetry", Domain.TOPIC)

    @contextmanager
    def disturbed(self) -> Iterator[tuple[Link, Wire]]:
        with TcpProxy("127.0.0.1", self.broker.port) as proxy:
            yield self._link(proxy.port, keepalive=2, connect_timeout=2.0), MqttWire(proxy)

    def wrong_password(self) -> Link:
        guarded = Mosquitto(username="me", password="right")
        self._own.append(guarded)
        guarded.start()
        return self._link(guarded.port, "me", "s3cret-but-wrong")

    def wrong_port(self) -> Link:
        return self._link(free_port())

    def foreign_publish(self, pair: Pair, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            mosquitto_pub(self.broker.port, pair.destination.provider_queue, self.wrapped(body), version=self.version)

    def prepare_foreign_read(self, pair: Pair) -> None:
        run(*self._sub(pair), "-E")

    def foreign_read(self, pair: Pair, count: int) -> list[bytes]:
        lines = run(*self._sub(pair), "-C", str(count), "-W", "20", "-F", "%x").decode().splitlines()
        return [self.unwrapped(bytes.fromhex(line)) for line in lines]

    def _sub(self, pair: Pair) -> tuple[str, ...]:
        topic = pair.destination.provider_queue
        reader = self._readers.setdefault(topic, unique("reader"))
        return ("mosquitto_sub", "-p", str(self.broker.port), "-i", reader, "-c", "-q", "1", "-t", topic)

    def foreign_long_header(self, pair: Pair, name: str, body: bytes) -> bool:
        more = ("-D", "publish", "user-property", name, "v")
        mosquitto_pub(self.broker.port, pair.destination.provider_queue, body, *more)
        return True

    def wrapped(self, body: bytes) -> bytes:
        return body

    def unwrapped(self, payload: bytes) -> bytes:
        return payload

    def close(self) -> None:
        for broker in self._own:
            broker.stop()


class LoggedTemplate(MqttTemplate):
    log = "mgw/sent/{job}"


class Mqtt3Template(MqttTemplate):
    spec = dataclasses.replace(SPEC, capabilities=SPEC.capabilities - _FIVE_ONLY)
    version = 4

    def foreign_long_header(self, pair: Pair, name: str, body: bytes) -> bool:
        return False


class EnvelopeTemplate(Mqtt3Template):
    spec = SPEC
    options = MappingProxyType({"MQTT_Envelope": "JSON"})

    def wrapped(self, body: bytes) -> bytes:
        document = {"mgw": 1, "headers": [], "body_type": "raw", "body": base64.b64encode(body).decode()}
        return json.dumps(document).encode()

    def unwrapped(self, payload: bytes) -> bytes:
        document = json.loads(payload)
        body: str = document["body"]
        return base64.b64decode(body) if document["body_type"] == "raw" else body.encode()


class TestMqtt5(LinkSuite):
    @pytest.fixture
    def template(self, broker: Mosquitto) -> Iterator[LinkTemplate]:
        template = MqttTemplate(broker)
        yield template
        template.close()


class TestMqtt5WithASendingLog(LinkSuite):
    @pytest.fixture
    def template(self, broker: Mosquitto) -> Iterator[LinkTemplate]:
        template = LoggedTemplate(broker)
        yield template
        template.close()


class TestMqtt311(LinkSuite):
    @pytest.fixture
    def template(self, broker: Mosquitto) -> Iterator[LinkTemplate]:
        template = Mqtt3Template(broker)
        yield template
        template.close()


class TestMqtt311Envelope(LinkSuite):
    @pytest.fixture
    def template(self, broker: Mosquitto) -> Iterator[LinkTemplate]:
        template = EnvelopeTemplate(broker)
        yield template
        template.close()
