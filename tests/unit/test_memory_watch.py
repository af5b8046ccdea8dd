"""Warning 436: an agent that uses more memory than its max_memory."""

from __future__ import annotations

import logging

import pytest

from mgw.gateway.definitions.objects import AgentDef
from mgw.gateway.runtime.memory_watch import MemoryWatch, resident


def test_more_memory_than_max_memory_is_said_once_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    watch = MemoryWatch()
    with caplog.at_level(logging.INFO, logger="mgw.engine"):
        watch.look(None)
        watch.look(AgentDef("night"))
        assert caplog.messages == [], "the documented default is less than the program takes"
        for _ in range(2):
            watch.look(AgentDef("night", max_memory=1))
        watch.look(AgentDef("night", max_memory=1 << 20))
    first, second = caplog.records
    assert (first.levelno, vars(first)["mgw_id"]) == (logging.WARNING, 436)
    assert first.getMessage().startswith("[436] agent night uses ")
    assert second.getMessage().endswith(" as it may")
    assert resident() > 1 << 20
