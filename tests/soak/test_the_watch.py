"""The watch over a soak finds what is wrong with the health of a service, and nothing where nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.soak.figures import Figures, growth
from tests.soak.watch import Look, Movement, Trouble, Watch, judge, timeline

LIMIT = 60.0
AWAY = Trouble("absence of kafka", "outage", "link lake", 100.0, 200.0)
KILLED = Trouble("kill of the gateway", "killed", "agent", 100.0, 100.1)
WHY = "job X is RETRY: link lake: no Kafka server answers"


def looked(*looks: Look, troubles: Sequence[Trouble] = (), movements: Sequence[Movement] = ()) -> list[str]:
    watch = Watch(0, "", LIMIT, (), {}, Path())
    watch.looks += [Look(0.0, "/healthz", 200), *looks]
    watch.troubles += troubles
    watch.movements += movements
    return judge(watch)


@pytest.mark.parametrize(
    ("look", "trouble"),
    [
        pytest.param(Look(120.0, "/healthz", 200), AWAY, id="green-before-the-limit"),
        pytest.param(Look(180.0, "/healthz", 503, WHY), AWAY, id="red-after-the-limit"),
        pytest.param(Look(220.0, "/healthz", 503, WHY), AWAY, id="red-just-after-the-cure"),
        pytest.param(Look(220.0, "/healthz", 200), AWAY, id="green-just-after-the-cure"),
        pytest.param(Look(180.0, "/readyz", 200), AWAY, id="ready-without-a-broker"),
        pytest.param(Look(180.0, "/livez", 200), AWAY, id="live-without-a-broker"),
        pytest.param(Look(201.0, "/healthz", 503, "job X has not connected yet"), AWAY, id="red-on-the-way-back"),
        pytest.param(Look(110.0, "/livez", None), KILLED, id="silent-just-after-a-kill"),
        pytest.param(Look(110.0, "mgw status --check", 1, "agent A does not answer"), KILLED, id="red-after-a-kill"),
        pytest.param(Look(99.5, "mgw status --check", 1, "agent A", 1.0), KILLED, id="killed-while-it-was-asked"),
    ],
)
def test_health_that_is_right_is_not_objected_to(look: Look, trouble: Trouble) -> None:
    assert looked(look, troubles=[trouble]) == []


@pytest.mark.parametrize(
    ("look", "trouble", "said"),
    [
        (Look(180.0, "/healthz", 200), AWAY, "is green during absence of kafka"),
        (Look(180.0, "mgw status --check", 0), AWAY, "is green during absence of kafka"),
        (Look(120.0, "/healthz", 503, WHY), AWAY, "is red too early"),
        (Look(240.0, "/healthz", 503, WHY), AWAY, "is red without reason"),
        (Look(180.0, "/healthz", 503, "link office is away"), AWAY, "does not name the reason"),
        (Look(180.0, "/readyz", 503, WHY), AWAY, "is red without reason"),
        (Look(180.0, "/livez", 503, WHY), AWAY, "is red"),
        (Look(180.0, "/livez", None), AWAY, "did not answer"),
        (Look(140.0, "/livez", None), KILLED, "did not answer"),
    ],
)
def test_health_that_is_wrong_is_found(look: Look, trouble: Trouble, said: str) -> None:
    (line,) = looked(look, troubles=[trouble])
    assert said in line
    assert look.what in line


def test_health_that_is_green_while_nothing_moves_is_found() -> None:
    movements = [Movement(at, "orders", int(at), 7, int(at)) for at in (0.0, 50.0, 100.0)]
    (line,) = looked(Look(99.0, "/healthz", 200), movements=movements)
    assert line == "100 s: /healthz is green, and route orders has stood still for 100 s"
    (line,) = looked(Look(95.0, "/healthz", 200), Look(99.0, "/healthz", 503, "x"), movements=movements)
    assert "is red without reason" in line, "not that it is green: it was red at last"
    moved = [*movements[:2], Movement(100.0, "orders", 100, 8, 100)]
    assert looked(Look(99.0, "/healthz", 200), movements=moved) == []
    idle = [Movement(entry.at, "orders", 7, 7, 7) for entry in movements]
    assert looked(Look(99.0, "/healthz", 200), movements=idle) == []


def test_the_timeline_says_when_health_became_red_and_green_again() -> None:
    watch = Watch(0, "", LIMIT, (), {}, Path())
    watch.troubles += [KILLED, Trouble("absence of kafka", "outage", "link lake", 300.0, 400.0)]
    watch.looks += [Look(at, "/healthz", 503 if 361 <= at < 403 else 200) for at in range(100, 450)]
    assert timeline(watch) == [
        "kill of the gateway, 0 s: green all the time",
        "absence of kafka, 100 s: red or silent after 61 s, green +3 s after the cure",
    ]


def test_growth_without_end_is_found() -> None:
    def figures(minute: float, memory: int, logs: int) -> Figures:
        return Figures(minute, memory << 20, 40, 20, 7 << 20, 16 << 20, logs, 30 << 20, int(minute * 7200), minute)

    assert growth([figures(minute, 120 + minute % 3, 1000) for minute in range(0, 60, 5)]) == []
    (line,) = growth([figures(minute, 120 + 3 * minute, 1000) for minute in range(0, 60, 5)])
    assert line.startswith("memory grew from ")
    (line,) = growth([figures(minute, 120, minute << 20) for minute in range(0, 60, 5)])
    assert line == "the logs grew by 1024 kB a minute"
