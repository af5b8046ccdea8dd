"""How long a job that has nothing to do waits before it looks again."""

from __future__ import annotations

import pytest

from mgw.gateway.runtime.rest import waiting


@pytest.mark.parametrize(
    ("seconds", "quiet", "verified", "waits"),
    [
        pytest.param(5.0, 14.0, 60.0, 5.0, id="moved-not-long-ago"),
        pytest.param(5.0, 15.0, 60.0, 15.0, id="quiet"),
        pytest.param(0.5, 15.0, 60.0, 15.0, id="quiet-however-often-it-would-look"),
        pytest.param(60.0, 15.0, 60.0, 60.0, id="no-sooner-than-it-has-to"),
        pytest.param(5.0, 100.0, 4.0, 5.0, id="its-guarantee-is-asked-for-in-time"),
    ],
)
def test_a_job_rests_when_nothing_has_moved_for_long(
    seconds: float, quiet: float, verified: float, waits: float
) -> None:
    assert waiting(seconds, quiet, verified) == waits
