"""Date expressions of schedules (next_time)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mgw.transforms.errors import ExpressionInvalid
from mgw.transforms.language.dates import date_of

NOW = datetime(2024, 1, 31, 10, 30, 15, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SYSDATE", "2024-01-31 10:30:15"),
        ("sysdate + 1/24", "2024-01-31 11:30:15"),
        ("SYSDATE + 1 - 600/86400", "2024-02-01 10:20:15"),
        ("SYSDATE + (2 * 3)/(24*60)", "2024-01-31 10:36:15"),
        ("TRUNC(SYSDATE) + 1 + 2/24", "2024-02-01 02:00:00"),
        ("TRUNC(SYSDATE, 'HH24') + 1/24", "2024-01-31 11:00:00"),
        ("TRUNC(SYSDATE, 'MI')", "2024-01-31 10:30:00"),
        ("TRUNC(SYSDATE, 'MM')", "2024-01-01 00:00:00"),
        ("TRUNC(SYSDATE, 'IW') + 7", "2024-02-05 00:00:00"),
        ("NEXT_DAY(TRUNC(SYSDATE), 'MONDAY') + 8/24", "2024-02-05 08:00:00"),
        ("NEXT_DAY(SYSDATE, 'wed')", "2024-02-07 10:30:15"),
        ("ADD_MONTHS(SYSDATE, 1)", "2024-02-29 10:30:15"),
        ("ADD_MONTHS(SYSDATE, -2)", "2023-11-30 10:30:15"),
        ("LAST_DAY(ADD_MONTHS(TRUNC(SYSDATE), 1))", "2024-02-29 00:00:00"),
        ("SYSTIMESTAMP + INTERVAL '90' MINUTE", "2024-01-31 12:00:15"),
        ("SYSDATE + NUMTODSINTERVAL(30, 'SECOND')", "2024-01-31 10:30:45"),
        ("TRUNC(SYSDATE) + (SYSDATE - TRUNC(SYSDATE))", "2024-01-31 10:30:15"),
    ],
)
def test_a_date_is_computed_from_now(text: str, expected: str) -> None:
    found = datetime.fromtimestamp(date_of(text, NOW.timestamp()), UTC)
    assert found.strftime("%Y-%m-%d %H:%M:%S") == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "1/0", "SYSDATE + SYSDATE", "SYSDATE +", "SYSDATE; DROP TABLE x", "SYSDATE + 1e99", "'tomorrow'",
        "SLEEP(3)", "SYSDATE * 2", "TRUNC(SYSDATE, 'CC')", "NEXT_DAY(SYSDATE, 'someday')", "(SELECT 1)", "x" * 201,
        "SYSDATE + INTERVAL '1'",
    ],
)  # fmt: skip
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ExpressionInvalid) as caught:
        date_of(text, NOW.timestamp())
    assert caught.value.cause
    assert caught.value.cure
