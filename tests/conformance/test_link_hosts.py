"""A link whose first node is down works with the next one, and says which."""

from __future__ import annotations

import pytest

from mgw.links.contract import Direction, Domain, Endpoint, Guarantee, JobUse, LinkConfig
from mgw.links.nodes import node_of
from mgw.links.registry import open_link
from tests.support.brokers import Mosquitto, RabbitMQ, free_port


@pytest.mark.rabbitmq
def test_rabbitmq_takes_the_next_node(rabbitmq: RabbitMQ) -> None:
    dead, alive = f"127.0.0.1:{free_port()}", f"{rabbitmq.host}:{rabbitmq.port}"
    link = open_link(LinkConfig("plant", "RABBITMQ", {"hosts": f"{dead},{alive}"}))
    checks = link.test()
    assert all(each.ok for each in checks), checks
    assert [each.detail for each in checks[:2]] == [
        f"{dead} does not answer; jobs pass it over",
        f"{alive} accepts connections; it is tested",
    ]
    assert link.listening() == {alive}
    use = JobUse(Endpoint("T", "plant", "amq.topic/#", Domain.TOPIC), "J")
    assert link.verify(use, Direction.OUTBOUND).level is Guarantee.AT_LEAST_ONCE
    assert node_of(link) == alive


@pytest.mark.mosquitto
def test_mqtt_takes_the_next_node_and_promises_nothing_that_one_session_proves(mosquitto: Mosquitto) -> None:
    dead, alive = f"127.0.0.1:{free_port()}", f"{mosquitto.host}:{mosquitto.port}"
    link = open_link(LinkConfig("plant", "MQTT", {"hosts": f"{dead},{alive}"}))
    checks = link.test()
    assert all(each.ok for each in checks), checks
    assert alive in checks[2].detail
    report = link.verify(JobUse(Endpoint("T", "plant", "t/+", Domain.TOPIC), "J"), Direction.INBOUND)
    assert report.level is Guarantee.AT_LEAST_ONCE
    assert "several nodes" in report.note
    assert node_of(link) == alive
