"""Windows of schedules of the older gateway (DBMS_HQADM): which is next after many have ended."""

from __future__ import annotations

import pytest

from mgw.gateway.definitions.outbound import MOST_WINDOWS, MQSERIES_OUTBOUND, OutboundSchedule

DAY = 86400.0


def schedule(start: float, duration: float, next_time: str) -> OutboundSchedule:
    return OutboundSchedule(MQSERIES_OUTBOUND, 60, start, duration, next_time, "E", window=start)


@pytest.mark.parametrize(
    ("next_time", "period"),
    [
        ("SYSDATE + 9/86400", 10),
        ("SYSDATE + NUMTODSINTERVAL(2*4.5, 'SECOND')", 10),
        ("SYSDATE", 1),
        ("SYSDATE - 1", 1),
    ],
)
def test_windows_of_equal_steps_keep_their_phase_however_long_the_agent_was_down(next_time: str, period: int) -> None:
    first = schedule(3.25, 1, next_time)
    now = 3.25 + 100_000_000 * period + 0.5
    for late in (0.0, 0.4, 0.5, period - 0.1):
        found = first.moved(now + late)
        assert found.window == pytest.approx(now - 0.5 + (period if late >= 0.5 else 0), abs=1e-3)
        assert found.moved(now + late) == found
    assert first.moved(3.5) == first


def test_windows_by_the_calendar_are_reckoned_some_at_a_time() -> None:
    first = schedule(0, 1, "TRUNC(SYSDATE, 'MI') + 2/1440")
    now = 120.0 * (2 * MOST_WINDOWS + 10) + 60
    found = first.moved(now)
    assert (found.window, found.is_behind(now)) == (120.0 * MOST_WINDOWS, True)
    found = found.moved(now).moved(now)
    assert (found.window, found.is_behind(now)) == (120.0 * (2 * MOST_WINDOWS + 11), False), "no drift"
