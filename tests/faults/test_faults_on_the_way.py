"""Whatever is killed, cut or restarted while messages move: nothing is lost, and the order of each source is kept."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Trial

INBOUND = [("classic", "hub"), ("quorum", "hub"), ("stream", "hub"), ("kafka", "hub"), ("mqtt", "hub")]
OUTBOUND = [("hub", "classic"), ("hub", "quorum"), ("hub", "kafka"), ("hub", "mqtt")]
WHOLE = [("classic", "kafka"), ("kafka", "mqtt"), ("mqtt", "quorum")]


def _ids(ways: list[tuple[str, str]], fault: str) -> list[object]:
    return [pytest.param(*way, id=f"{fault}-{way[0]}-to-{way[1]}") for way in ways]


@pytest.mark.parametrize(("source", "target"), _ids(INBOUND + OUTBOUND + WHOLE, "kill-agent"))
def test_killing_the_agent_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "kill_agent", times=3, messages=3000)


@pytest.mark.parametrize(("source", "target"), _ids(INBOUND + OUTBOUND, "wire"))
def test_cutting_and_stalling_the_wire_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "cut_wire", "cut_wire", "stall_wire", messages=3000)


@pytest.mark.parametrize(("source", "target"), _ids([("classic", "quorum"), ("kafka", "kafka"), ("mqtt", "mqtt")], "restart-broker"))
def test_restarting_the_broker_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "restart_broker", messages=3000)
