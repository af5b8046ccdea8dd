"""What a broker sends while a connection is made must be handed out by that connection, not by a later one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from mgw.links import registry
from mgw.links.contract import Direction, Domain, Endpoint, JobUse, LinkConfig, Source
from tests.faults.ends.mqtt import MqttFeed
from tests.faults.stage import Brokers
from tests.faults.verdict import Numbered, number_of
from tests.support.waiting import eventually

ROUNDS = 40


@contextmanager
def published_all_the_time(feed: MqttFeed) -> Iterator[None]:
    """Numbered messages to one topic, in order and without a pause, while the context lasts."""
    end = threading.Event()

    def publish() -> None:
        number = 0
        while not end.is_set():
            feed.publish([Numbered(number + n, 0, f"{number + n}|x".encode(), None) for n in range(20)])
            number += 20

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(30)


def read_some(source: Source, count: int) -> list[int]:
    """At least so many numbers, each settled."""
    seen: list[int] = []

    def enough() -> bool:
        batch = source.read(200, 0.2)
        bodies = [delivery.message.body for delivery in batch.deliveries]
        seen.extend(number_of(body) or 0 for body in bodies if isinstance(body, bytes))
        source.settle(batch)
        return len(seen) >= count

    eventually(enough, deadline=60, what=f"{count} messages")
    return seen


def test_messages_right_behind_the_answer_to_subscribe_are_read_on_the_same_connection(brokers: Brokers) -> None:
    name = f"w{uuid.uuid4().hex[:8]}"
    server = brokers.mqtt
    link = registry.open_link(LinkConfig("mqtt", "MQTT", {"hostname": server.host, "port": server.port}))
    use = JobUse(Endpoint(name, "mqtt", f"{name}/+", Domain.TOPIC), f"{name}_IN", batch_size=200, hub_id="00")
    source = link.source(use)
    feed = MqttFeed(server, name)
    try:
        source.connect({})
        with published_all_the_time(feed):
            for _ in range(ROUNDS):
                seen = read_some(source, 40)
                gaps = [(before, after) for before, after in pairwise(seen) if after != before + 1]
                assert not gaps, f"not handed out on this connection: what lies between {gaps}"
                source.close()
                source.connect({})
    finally:
        source.close()
        feed.close()
        link.forget(use, Direction.INBOUND)
