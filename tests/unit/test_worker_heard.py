"""A worker ends when its supervisor says nothing any more, not while it does what the supervisor said."""

from __future__ import annotations

from mgw.gateway.runtime.workers.worker import _Heard


def test_silence_ends_a_worker_and_work_does_not() -> None:
    heard = _Heard(2)
    said = heard.noted(iter([{"what": "run"}, {"what": "ping"}]))
    next(said)
    assert all(heard.tick() for _ in range(10)), "it waits for the hub, and cannot listen meanwhile"
    next(said)
    assert next(said, None) is None
    assert [heard.tick() for _ in range(3)] == [True, True, False]
