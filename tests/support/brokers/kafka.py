"""Apache Kafka, one KRaft node that is broker and controller."""

from __future__ import annotations

import base64
import os
import shutil
import struct
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.brokers.kept import made_or_copied
from tests.support.brokers.server import Server, ServerFailed, connect, receive_exactly
from tests.support.certificates import Certificates
from tests.support.kafka_jars import LOG_CONFIGURATION, kafka_archive, kafka_jars, kafka_version
from tests.support.maven import MavenFailed
from tests.support.ports import LOOPBACK, free_port
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

__all__ = ["Kafka"]

_FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
_ANY_CLUSTER = "AnyClusterOfTheTestsAA"
_METADATA = 3
_UNREGISTER_BROKER = 64
_CORRELATION = 7


class Kafka(Server):
    """A Kafka broker at ``bootstrap`` ("127.0.0.1:port"); topics are never made by themselves.

    ``proxied_bootstrap`` is an address that nothing listens on until ``kafka.proxy()`` is started: clients that
    bootstrap there stay behind that proxy, because the broker advertises the proxy's address to them. ``tls=True`` adds
    ``tls_bootstrap`` with the certificates in ``certificates``; ``username`` and ``password`` add ``sasl_bootstrap``
    (SASL/PLAIN without TLS); both add ``secure_bootstrap`` (SCRAM-SHA-512 with TLS). ``oauth=True`` adds
    ``oauth_bootstrap`` (OAUTHBEARER, with TLS if there is any), which takes unsigned tokens with the scope ``kafka``
    and ends a connection when its token does. ``config`` adds or replaces server
    properties, ``java_options`` adds to Java's. ``cluster`` is the id of the cluster; default: one of its own.
    """

    name = "kafka"

    def __init__(
        self,
        *,
        tls: bool = False,
        oauth: bool = False,
        username: str | None = None,
        password: str | None = None,
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        cluster: str = "",
    ) -> None:
        super().__init__()
        self.port = free_port()
        self.bootstrap = f"{self.host}:{self.port}"
        self.behind_proxy = free_port()
        self.proxy_port = free_port()
        self.proxied_bootstrap = f"{self.host}:{self.proxy_port}"
        self.username = username
        self.password = password
        self.certificates = Certificates(self.folder / "tls") if tls else None
        self.tls_port = free_port() if tls else None
        self.tls_bootstrap = f"localhost:{self.tls_port}" if tls else None
        self.sasl_port = free_port() if username else None
        self.sasl_bootstrap = f"{self.host}:{self.sasl_port}" if username else None
        self.secure_port = free_port() if tls and username else None
        self.secure_bootstrap = f"localhost:{self.secure_port}" if tls and username else None
        self.oauth_port = free_port() if oauth else None
        self.oauth_bootstrap = f"localhost:{self.oauth_port}" if oauth else None
        self._controller_port = free_port()
        self._config = dict(config or {})
        self._java_options = tuple(java_options)
        self.replicas = 1  # of topics
        self._cluster = cluster or self.new_cluster_id()
        self._properties = self.folder / "server.properties"

    @staticmethod
    def new_cluster_id() -> str:
        """An id of a cluster."""
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        return f"m{made[1:]}"  # the tool takes an id that starts with a dash for an option

    def prepare(self) -> None:
        properties = self._configuration() | self._config
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        scram: list[str] = []
        if self.secure_port is not None:
            scram = ["--add-scram", f"SCRAM-SHA-512=[name={self.username},password={self.password}]"]
        words = ["format", "-t", _ANY_CLUSTER, "-c", str(self._properties), *scram]
        made_or_copied(
            self.folder / "data",
            self.name,
            [kafka_version(), f"node {properties['node.id']}", *scram],
            lambda: self.run(_java("kafka.tools.StorageTool", *words, heap="128m")),
        )
        written = self.folder / "data/meta.properties"
        written.write_text(written.read_text().replace(f"cluster.id={_ANY_CLUSTER}", f"cluster.id={self._cluster}"))

    def command(self) -> Sequence[str]:
        return _java("kafka.Kafka", str(self._properties), heap="384m", options=self._java_options)

    def ready(self) -> bool:
        """The broker lists itself: it is registered, unfenced, and serves requests."""
        header = struct.pack("!hhih", _METADATA, 1, _CORRELATION, -1)
        request = header + struct.pack("!i", 0)
        with connect(self.port) as connection:
            connection.sendall(struct.pack("!i", len(request)) + request)
            (size,) = struct.unpack("!i", receive_exactly(connection, 4))
            _, brokers = struct.unpack("!ii", receive_exactly(connection, size)[:8])
            return bool(brokers == 1)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until it can be used."""
        from kafka.admin import NewTopic

        from tests.support.kafka_clients import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.create_topics([NewTopic(name, partitions, self.replicas, topic_configs=dict(config or {}))])
        finally:
            admin.close()

    def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Set options of a topic and wait until the broker works by them, which it does a moment after it says so."""
        from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

        from tests.support.kafka_clients import KafkaAdminClient

        later = f"after-{uuid.uuid4().hex}"
        resource = ConfigResource(ConfigResourceType.TOPIC, name, dict(config))
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)

        def told() -> bool:
            answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
            found = answer["topic"][name]
            return all(str(found[option]["value"]) == value for option, value in config.items())

        try:
            admin.alter_configs([resource])
            eventually(told, what=f"options {dict(config)} of topic {name}")
            # A broker takes changes over one after the other, and this one comes after ours.
            admin.create_topics([NewTopic(later, 1, 1)])
            eventually(lambda: admin.describe_topics([later])[0]["error_code"] == 0, what=f"topic {later}")
        finally:
            admin.close()

    def configure_broker(self, option: str, value: str) -> None:
        """Set an option of the running broker and wait until it works by it."""
        from kafka.admin import ConfigResource, ConfigResourceType

        from tests.support.kafka_clients import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)

        def told() -> bool:
            answer = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")], config_filter="all")
            return bool(answer["broker"]["1"][option]["value"] == value)

        try:
            admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", {option: value})])
            eventually(told, what=f"option {option}={value} of the broker")
        finally:
            admin.close()

    def unregister(self) -> None:
        """Put the broker out of its cluster: it goes on answering and lists no server, itself included.

        It comes back when it is started again, and ends only by :meth:`kill`.
        """
        header = struct.pack("!hhihb", _UNREGISTER_BROKER, 0, _CORRELATION, -1, 0)
        request = header + struct.pack("!ib", 1, 0)
        with connect(self.port) as connection:
            connection.sendall(struct.pack("!i", len(request)) + request)
            (size,) = struct.unpack("!i", receive_exactly(connection, 4))
            # Correlation, no tags, throttle time, error.
            (error,) = struct.unpack_from("!h", receive_exactly(connection, size), 9)
            assert error == 0, error

    def set_producer_quota(self, rate: int | None) -> None:
        """Let every client of no quota of its own write so many bytes a second; None: as many as it likes."""
        from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest as Request

        from tests.support.kafka_clients import KafkaAdminClient

        change = Request.EntryData.OpData(key="producer_byte_rate", value=float(rate or 0), remove=rate is None)
        everybody = Request.EntryData.EntityData(entity_type="client-id", entity_name=None)
        request = Request(entries=[Request.EntryData(entity=[everybody], ops=[change])], validate_only=False)
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            answer = admin._manager.run(admin._manager.send, request)
            assert not any(entry.error_code for entry in answer.entries), answer
        finally:
            admin.close()

    def proxy(self) -> TcpProxy:
        """A proxy, not yet started, for clients that use ``proxied_bootstrap``."""
        return TcpProxy(LOOPBACK, self.behind_proxy, port=self.proxy_port)

    def console_producer(self, topic: str, *options: str) -> list[str]:
        """Command line of Kafka's own console producer; it sends one message per line of its standard input."""
        arguments = ("--bootstrap-server", self.bootstrap, "--topic", topic)
        return _java("org.apache.kafka.tools.ConsoleProducer", *arguments, *options, heap="128m")

    def console_consumer(self, topic: str, *options: str) -> list[str]:
        """Command line of Kafka's own console consumer; add ``--from-beginning`` and ``--max-messages`` as needed."""
        arguments = ("--bootstrap-server", self.bootstrap, "--topic", topic)
        return _java("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, *options, heap="128m")

    def _configuration(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": (self.port, self.port), "PROXIED": (self.behind_proxy, self.proxy_port)}
        protocols = {"PLAINTEXT": "PLAINTEXT", "PROXIED": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        more: dict[str, str] = {}
        if self.tls_port is not None and self.certificates is not None:
            listeners["TLS"] = (self.tls_port, self.tls_port)
            protocols["TLS"] = "SSL"
            more |= self._tls_configuration(self.certificates)
        if self.sasl_port is not None:
            listeners["SASL"] = (self.sasl_port, self.sasl_port)
            protocols["SASL"] = "SASL_PLAINTEXT"
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            more["listener.name.sasl.sasl.enabled.mechanisms"] = "PLAIN"
            more["listener.name.sasl.plain.sasl.jaas.config"] = (
                f'{module} required user_{self.username}="{self.password}";'
            )
        if self.secure_port is not None:
            listeners["SECURE"] = (self.secure_port, self.secure_port)
            protocols["SECURE"] = "SASL_SSL"
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            more["listener.name.secure.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
            more["listener.name.secure.scram-sha-512.sasl.jaas.config"] = f"{module} required;"
        if self.oauth_port is not None:
            listeners["OAUTH"] = (self.oauth_port, self.oauth_port)
            protocols["OAUTH"] = "SASL_SSL" if self.certificates else "SASL_PLAINTEXT"
            module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
            more["listener.name.oauth.sasl.enabled.mechanisms"] = "OAUTHBEARER"
            more["listener.name.oauth.oauthbearer.sasl.jaas.config"] = (
                f'{module} required unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="kafka";'
            )
            more["listener.name.oauth.oauthbearer.connections.max.reauth.ms"] = "3600000"
        bound = [f"{name}://{LOOPBACK}:{port}" for name, (port, _) in listeners.items()]
        advertised = [
            f"{name}://{'localhost' if name in ('TLS', 'SECURE', 'OAUTH') else LOOPBACK}:{port}"
            for name, (_, port) in listeners.items()
        ]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*bound, f"CONTROLLER://{LOOPBACK}:{self._controller_port}"]),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(f"{name}:{value}" for name, value in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A restarted broker waits until its former self has timed out (9 s by default).
            "broker.heartbeat.interval.ms": "800",
            "broker.session.timeout.ms": "2500",
            # Brokers idle most of a run, several at a time: a record and its echo twice a second cost as much as some
            # tests do. One node needs no such sign of life from itself.
            "metadata.max.idle.interval.ms": "0",
            # Records of tests have times of long ago; a server looks every few minutes which are too old, and a record
            # was gone before it was read.
            "log.retention.ms": "-1",
            "log.cleaner.dedupe.buffer.size": "16777216",
            "message.max.bytes": "33554432",
        } | more

    def _tls_configuration(self, certificates: Certificates) -> dict[str, str]:
        keystore = self.folder / "tls" / "kafka.pem"
        keystore.write_bytes(certificates.server_key.read_bytes() + certificates.server.read_bytes())
        keystore.chmod(0o600)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.ca),
            "ssl.client.auth": "requested",
        }


def _java(main: str, *arguments: str, heap: str, options: Sequence[str] = ()) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin/java") if home else shutil.which("java")
    if java is None:
        raise ServerFailed("java is not installed. Run: make setup")
    try:
        classpath = f"{kafka_jars()}/*"
    except MavenFailed as failure:
        raise ServerFailed(f"Kafka: {failure}") from failure
    logging = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"
    archive = kafka_archive()
    ready = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return [java, f"-Xmx{heap}", *_FAST_START, *ready, *options, logging, "-cp", classpath, main, *arguments]
