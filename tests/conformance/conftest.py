"""What several modules of this folder need."""
# ruff: noqa: E402  (the suites are registered for assertion rewriting before anything imports them)

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.conformance import suites
from tests.support.children import import_beforehand

for _suite in ("hub_suite", "admin_suite", "link_suite"):
    pytest.register_assert_rewrite(*suites.names(_suite))
import_beforehand(suites.names("hub_suite") + suites.names("admin_suite"))

from mgw.links.memory.broker import MemoryBroker


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    """A broker in memory for one test."""
    name = uuid.uuid4().hex
    yield MemoryBroker.get(name)
    MemoryBroker.drop(name)
