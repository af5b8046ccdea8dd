"""What several modules of this folder need."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from links.memory_broker import MemoryBroker


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    """A broker in memory for one test."""
    name = uuid.uuid4().hex
    yield MemoryBroker.get(name)
    MemoryBroker.drop(name)
