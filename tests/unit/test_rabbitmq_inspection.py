"""What the check of a foreign queue tells of a RabbitMQ queue whose type is not the registered one."""

from __future__ import annotations

import pytest

from mgw.links.rabbitmq.conditions import QueueFacts
from mgw.links.rabbitmq.inspection import other_type


@pytest.mark.parametrize(
    ("registered", "real", "told"),
    [
        ("stream", "classic", "RabbitMQ refuses for a classic queue"),
        ("stream", "quorum", "RabbitMQ refuses for a quorum queue"),
        ("quorum", "stream", "is refused, as it would begin at the end of the stream whenever it connects"),
        ("classic", "stream", "is refused, as it would begin at the end of the stream whenever it connects"),
        ("quorum", "classic", "in the same way"),
        ("classic", "quorum", "in the same way"),
    ],
)
def test_a_queue_of_another_type_is_told_with_what_a_job_does_with_it(registered: str, real: str, told: str) -> None:
    found = other_type(registered, QueueFacts("orders", type=real))
    assert found.startswith(f"it is registered with AMQP_QueueType {registered}")
    assert told in found


def test_nothing_is_told_of_a_type_that_is_the_same_or_unknown() -> None:
    for same in ("classic", "quorum", "stream"):
        assert not other_type(same, QueueFacts("orders", type=same))
        assert not other_type("auto", QueueFacts("orders", type=same))
    assert not other_type("stream", QueueFacts("orders", known=False)), "the user may not ask for it"
