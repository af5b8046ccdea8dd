"""A cluster that nothing is sent to is asked for a sign of life, unless the client has asked by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mgw.links.kafka.pulse import Pulse
from mgw.transforms.errors import LinkUnavailable


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Client:
    """A producer: when it heard of the topic by itself, and what it was asked."""

    def __init__(self) -> None:
        self.silence: float | None = None
        self.asked = 0

    def heard(self) -> float | None:
        return self.silence

    def partitions(self, _topic: str) -> set[int]:
        return {0}

    def ask(self, _topic: str) -> Any:
        self.asked += 1
        return SimpleNamespace(is_done=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pulse(clock: Clock) -> Pulse:
    settings: Any = SimpleNamespace(link="k", timeout=10.0, common={"metadata_max_age_ms": 15_000})
    use: Any = SimpleNamespace(clock=clock, endpoint=SimpleNamespace(provider_queue="t"))
    return Pulse(settings, use)


def test_a_client_that_hears_from_the_cluster_by_itself_does_not_ask(clock: Clock, pulse: Pulse) -> None:
    client: Any = Client()
    for clock.seconds in (5.0, 10.0, 15.0, 20.0):
        client.silence = clock.seconds % 15.0
        pulse.feel(client)
    assert client.asked == 0


@pytest.mark.parametrize("silence", [None, 16.5])
def test_a_cluster_that_is_silent_for_longer_is_asked_and_given_up(
    clock: Clock, pulse: Pulse, silence: float | None
) -> None:
    client: Any = Client()
    client.silence = silence
    clock.seconds = 5.0
    pulse.feel(client)
    assert client.asked == 1
    client.silence = 0.0 if silence is None else silence
    clock.seconds = 15.0
    with pytest.raises(LinkUnavailable):
        pulse.feel(client)
