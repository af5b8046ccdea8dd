"""A Mosquitto bridge: it runs inside the source broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.ends import End, MqttEnd
from benchmarks.peers.contract import Motion, Mover, Way
from tests.support.brokers import Mosquitto

__all__ = ["MosquittoBridge", "bridge_settings", "bridged"]


def bridge_settings(target: Mosquitto, topic: str) -> tuple[str, ...]:
    """For mosquitto.conf of the source: ``topic`` goes to the target at QoS 1 over a persistent session."""
    return (
        "connection bench",
        f"address {target.host}:{target.port}",
        f"topic {topic} out 1",
        "cleansession false",
        "bridge_protocol_version mqttv50",
        "try_private false",
        "notifications false",
        "restart_timeout 1",
    )


@contextmanager
def bridged(topic: str, settings: Sequence[str]) -> Iterator[tuple[Mosquitto, Mosquitto]]:
    """Two brokers; the first sends ``topic`` to the second."""
    with (
        Mosquitto(config=settings) as target,
        Mosquitto(config=(*settings, *bridge_settings(target, topic))) as source,
    ):
        yield source, target


class _Bridging(Motion):
    """A bridge that can not send while the target is stopped."""

    def __init__(self, source: Mosquitto, target: Mosquitto) -> None:
        self._source, self._target = source, target

    def freeze(self) -> None:
        """Stop the target, whose messages then wait at the source."""
        self._target.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self._target.thaw()

    def log(self) -> str:
        """The source's."""
        return self._source.log.read_text(errors="replace")[-3000:]


class MosquittoBridge(Mover):
    """QoS 1, a window of 1000 messages, no limit of the queue. The source broker has it for the topics bridge/#."""

    name = "Mosquitto bridge"

    def version(self) -> str:
        """It comes with the broker."""
        return ""

    def can(self, source: End, target: End) -> bool:
        """From MQTT to MQTT."""
        return isinstance(source, MqttEnd) and isinstance(target, MqttEnd)

    def names(self, number: int) -> tuple[str, str]:
        """A topic has the same name at both."""
        return f"bridge/{number}", f"bridge/{number}"

    @contextmanager
    def moving(self, way: Way) -> Iterator[Motion]:
        """The bridge is there as long as the broker."""
        if not isinstance(way.source, MqttEnd) or not isinstance(way.target, MqttEnd):
            raise TypeError("the bridge of Mosquitto is from MQTT to MQTT")
        motion = _Bridging(way.source.broker, way.target.broker)
        try:
            yield motion
        finally:
            motion.thaw()
