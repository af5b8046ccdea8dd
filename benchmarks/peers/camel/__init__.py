"""Apache Camel: its jars through Maven, and one small class that runs one route."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.ends import KafkaEnd, MqttEnd, RabbitEnd
from benchmarks.peers.contract import Missing, Motion, Mover, Way, in_process
from tests.support.maven import MavenFailed, jar_folder, pom_property

__all__ = ["Camel"]

_POM = Path(__file__).with_name("pom.xml")
_CLASS = _POM.with_name("Bridge.java")
_CONSUMERS = 32  # of RabbitMQ; a consumer carries one message at a time


class Camel(Mover):
    """camel-main with one route; confirms, QoS 1, acks=all; 32 consumers of RabbitMQ, 4 of Kafka."""

    name = "Camel"

    def version(self) -> str:
        """That of the pom.xml."""
        self._class_path()
        return pom_property(_POM, "camel.version")

    def _class_path(self) -> str:
        """Jars and our class, fetched and compiled once."""
        for program in ("javac", "java"):
            if shutil.which(program) is None:
                raise Missing(f"{program} is not installed")
        try:
            jars = jar_folder(_POM, "camel", pom_property(_POM, "camel.version"))
        except (MavenFailed, subprocess.TimeoutExpired) as failure:
            raise Missing(f"Maven does not have its jars: {_reason(str(failure))}") from failure
        made = jars / "Bridge.class"
        if not made.exists() or made.stat().st_mtime < _CLASS.stat().st_mtime:
            subprocess.run(["javac", "-cp", f"{jars}/*", "-d", str(jars), str(_CLASS)], check=True, timeout=120)
        return f"{jars}:{jars}/*"

    @contextmanager
    def moving(self, way: Way) -> Iterator[Motion]:
        """The class with the endpoints of this run."""
        rabbit = [end.broker.url.rstrip("/") for end in (way.source, way.target) if isinstance(end, RabbitEnd)][:1]
        java = ["java", "-Xmx512m", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = [*java, "-cp", self._class_path(), "Bridge", _source(way), _target(way), *rabbit]
        with in_process(command, way.folder) as motion:
            yield motion


def _reason(text: str) -> str:
    """The first line of Maven's answer, without addresses."""
    line = next((each for each in text.splitlines() if each.strip()), "no answer")
    return " ".join(word for word in line.split() if "://" not in word)[:200]


def _source(way: Way) -> str:
    end = way.source
    match end:
        case RabbitEnd():
            # The other container, which is the default, carries a fourth of it.
            consumers = f"concurrentConsumers={_CONSUMERS}&messageListenerContainerType=SMLC"
            return f"spring-rabbitmq:default?queues={way.here}&autoDeclare=false&connectionFactory=#rabbit&{consumers}"
        case KafkaEnd():
            group = f"groupId={way.here}&autoOffsetReset=earliest&consumersCount={end.partitions}"
            return f"kafka:{way.here}?brokers={end.broker.bootstrap}&{group}"
        case MqttEnd():
            session = f"clientId=in-{way.here}&cleanStart=false&sessionExpiryInterval=3600&qos=1"
            return f"paho-mqtt5:{way.here}?brokerUrl=tcp://{end.broker.host}:{end.broker.port}&{session}"
    raise TypeError(f"no endpoint for {end.kind}")


def _target(way: Way) -> str:
    end = way.target
    match end:
        case RabbitEnd():
            confirmed = "confirm=enabled&connectionFactory=#rabbit&autoDeclareProducer=false"
            return f"spring-rabbitmq:default?routingKey={way.there}&{confirmed}"
        case KafkaEnd():
            return f"kafka:{way.there}?brokers={end.broker.bootstrap}&requestRequiredAcks=all&recordMetadata=false"
        case MqttEnd():
            place = f"brokerUrl=tcp://{end.broker.host}:{end.broker.port}&clientId=out-{way.there}&qos=1"
            return f"paho-mqtt5:{way.there}?{place}"
    raise TypeError(f"no endpoint for {end.kind}")
