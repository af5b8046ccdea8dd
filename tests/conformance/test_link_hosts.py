"""A link whose first node is down works with the next one, and says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.config.export import export_text
from mgw.gateway.runtime.link_states import host_of
from mgw.links.contract import Direction, Domain, Endpoint, Guarantee, JobUse, LinkConfig
from mgw.links.nodes import node_of
from mgw.links.registry import open_link
from tests.support.brokers import Mosquitto, RabbitMQ, free_port
from tests.support.gateways import gateway_on
from tests.support.waiting import eventually


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


@pytest.mark.mosquitto
def test_a_job_tells_the_node_that_it_is_connected_to(mosquitto: Mosquitto, tmp_path: Path) -> None:
    dead, alive = f"127.0.0.1:{free_port()}", f"{mosquitto.host}:{mosquitto.port}"
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        gateway.admin.create_msgsystem_link("plant", "MQTT", {"hosts": f"{dead},{alive}"})
        gateway.admin.register_foreign_queue("OUT", "plant", "nodes/out")
        gateway.admin.create_job("J", "OUTBOUND", "H", "OUT@plant")
        assert gateway.job("J")["NODES"] is None
        with gateway.run():
            eventually(lambda: gateway.job("J")["ACTIVITY"] == "IDLE", what="the connection")
            assert gateway.job("J")["NODES"] == alive
        assert gateway.job("J")["NODES"] is None


@pytest.mark.parametrize("link_type", ["RABBITMQ", "MQTT"])
def test_a_link_that_is_defined_with_hosts_alone_knows_no_other_address(tmp_path: Path, link_type: str) -> None:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:

        def nodes() -> list[str]:
            defined = gateway.admin.get_link("plant")
            assert defined is not None
            first = f"{link_type} hostname a port 7 " if "hostname" in defined.attributes else f"{link_type} "
            assert host_of(defined.config()).startswith(f"{first}hosts b:1,c:2")
            assert host_of(defined.config()).count("hosts") == 1
            link: Any = open_link(defined.config())
            return [str(node) for node in link._settings.nodes.all]

        gateway.admin.create_msgsystem_link("plant", link_type, {"hosts": "b:1,c:2"})
        assert nodes() == ["b:1", "c:2"]
        assert "hostname" not in export_text(gateway.hub)
        gateway.admin.alter_msgsystem_link("plant", {"Hostname": "a", "port": 7})
        assert nodes() == ["a:7", "b:1", "c:2"]
        gateway.admin.alter_msgsystem_link("plant", {"hostname": None})
        assert nodes() == ["b:1", "c:2"]
