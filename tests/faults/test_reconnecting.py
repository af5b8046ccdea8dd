"""What a broker sends again at a reconnect must be handed out by that very connection, not by a later one."""

from __future__ import annotations

import uuid

from links import registry
from links.contract import Direction, Domain, Endpoint, JobUse, LinkConfig
from tests.faults.ends.mqtt import MqttFeed
from tests.faults.oracle import Numbered, number_of
from tests.faults.stage import Brokers
from tests.support.waiting import eventually

COUNT = 200
ROUNDS = 30


def test_messages_right_behind_the_answer_to_subscribe_are_read_on_the_same_connection(brokers: Brokers) -> None:
    name = f"w{uuid.uuid4().hex[:8]}"
    server = brokers.mqtt
    link = registry.open_link(LinkConfig("mqtt", "MQTT", {"hostname": server.host, "port": server.port}))
    use = JobUse(Endpoint(name, "mqtt", f"{name}/+", Domain.TOPIC), f"{name}_IN", batch_size=COUNT, hub_id="00")
    link.verify(use, Direction.INBOUND)
    source = link.source(use)
    feed = MqttFeed(server, name)
    try:
        source.connect({})
        source.close()
        messages = [Numbered(number, 0, f"{number}|x".encode()) for number in range(COUNT)]
        assert len(feed.publish(messages)) == COUNT
        for _ in range(ROUNDS):
            source.connect({})
            seen: list[int | None] = []

            def all_read(seen: list[int | None] = seen) -> bool:
                seen.extend(number_of(delivery.message.body or b"") for delivery in source.read(COUNT, 0.2).deliveries)  # type: ignore[arg-type]
                return len(seen) >= COUNT

            eventually(all_read, deadline=5, what=f"all {COUNT} unsettled messages on this connection")
            assert seen == list(range(COUNT))
            source.close()
    finally:
        source.close()
        feed.close()
        link.forget(use, Direction.INBOUND)
