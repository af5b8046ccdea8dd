"""What the administration in SQL knows of the types of links, which it cannot ask, is what the links are."""

from __future__ import annotations

from mgw.gateway.state.mgwadm.mgwadm_sql import _HARMLESS, described
from mgw.links import registry
from mgw.links.kafka.link import KafkaLink
from mgw.links.memory.link import MemoryLink
from mgw.links.mqtt.link import MqttLink
from mgw.links.rabbitmq.link import RabbitLink

LINKS = {"KAFKA": KafkaLink, "MEMORY": MemoryLink, "MQTT": MqttLink, "RABBITMQ": RabbitLink}


def test_subscriptions_that_can_be_counted_are_those_of_the_links_that_count() -> None:
    types = described()["types"]
    assert types.keys() == LINKS.keys()
    assert {name: each["collects"] for name, each in types.items()} == {
        name: hasattr(link, "collected") for name, link in LINKS.items()
    }


def test_attributes_that_lead_a_login_nowhere_else_are_attributes() -> None:
    known = {field.name for name in LINKS for field in registry.spec(name).attributes}
    assert known >= _HARMLESS
    secret = {field.name for name in LINKS for field in registry.spec(name).attributes if field.secret}
    assert not secret & _HARMLESS
