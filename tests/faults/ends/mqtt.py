"""MQTT topics, through paho."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.faults.verdict import IDENTITY, Copy, Numbered, identity_in
from tests.support.brokers import Mosquitto

__all__ = ["MqttFeed", "MqttOutlet"]

_ANSWER_SECONDS = 10.0


def _client(identity: str, **options: Any) -> paho.Client:
    return paho.Client(CallbackAPIVersion.VERSION2, identity, protocol=paho.MQTTv5, **options)


class MqttFeed:
    """Publishes at QoS 1, lane n to ``topic/n``; a client that lost its connection is thrown away, so that it repeats
    nothing."""

    def __init__(self, server: Mosquitto, topic: str) -> None:
        self._server = server
        self._topic = topic
        self._client: paho.Client | None = None
        assert self.reopen(), "Mosquitto is not there"

    def publish(self, messages: Sequence[Numbered]) -> set[int]:
        client = self._client
        if client is None:
            return set()
        sent = [
            (message.number, client.publish(f"{self._topic}/{message.lane}", message.body, 1, properties=_own(message)))
            for message in messages
        ]
        end = time.monotonic() + _ANSWER_SECONDS
        for _, info in sent:
            while info.rc == paho.MQTT_ERR_SUCCESS and not info.is_published():
                if time.monotonic() > end or not client.is_connected():
                    break
                info.wait_for_publish(0.2)
        return {number for number, info in sent if info.rc == paho.MQTT_ERR_SUCCESS and info.is_published()}

    def reopen(self) -> bool:
        self.close()
        client = _client(f"feed-{uuid.uuid4().hex[:12]}", reconnect_on_failure=False)
        client.max_inflight_messages_set(1000)
        connected = threading.Event()
        client.on_connect = lambda *_: connected.set()
        try:
            client.connect(self._server.host, self._server.port, clean_start=True)
        except OSError:
            return False
        client.loop_start()
        self._client = client
        return connected.wait(_ANSWER_SECONDS)

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None


def _own(message: Numbered) -> Properties | None:
    if message.identity is None:
        return None
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = (IDENTITY, message.identity)
    return properties


class MqttOutlet:
    """Subscribed all the time with a persistent session of its own. What the broker repeats to the observer after an
    interruption is flagged DUP, and does not count as a duplicate."""

    def __init__(self, server: Mosquitto, topic: str) -> None:
        self._copies: list[Copy] = []
        self._taken = 0
        self._subscribed = threading.Event()
        self._topic = topic
        self._client = client = _client(f"outlet-{uuid.uuid4().hex[:12]}")
        client.reconnect_delay_set(0.1, 1.0)
        client.on_connect = self._on_connect
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_message = self._on_message
        session = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = 3600
        session.ReceiveMaximum = 65535
        client.connect(server.host, server.port, keepalive=10, clean_start=False, properties=session)
        client.loop_start()
        assert self._subscribed.wait(_ANSWER_SECONDS), "Mosquitto did not accept the observer's subscription"

    def _on_connect(self, client: paho.Client, _data: Any, flags: Any, _code: Any, _properties: Any) -> None:
        if not flags.session_present:
            client.subscribe(self._topic, options=SubscribeOptions(qos=1))

    def _on_message(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        own = getattr(message.properties, "UserProperty", ())
        self._copies.append(Copy(bytes(message.payload), identity_in(own), message.dup))

    def collect(self) -> list[Copy]:
        end = time.monotonic() + 0.5
        while len(self._copies) == self._taken and time.monotonic() < end:
            time.sleep(0.02)
        fresh = self._copies[self._taken :]
        self._taken += len(fresh)
        return fresh

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
