"""Fixtures: a hub of the gateway for each test, on SQLite and on PostgreSQL. A module imports those that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from mgw.gateway.state.gateway_hub import open_hub
from tests.support.brokers import PostgreSQL
from tests.support.ready_hubs import ready_hubs

__all__ = ["hub_url", "hubs"]


@pytest.fixture(scope="module")
def hubs(request: pytest.FixtureRequest, postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    """Hubs on PostgreSQL, copied of one that is made once for the module."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "")
    with ready_hubs(postgresql, name, partial(open_hub, create=True)) as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def hub_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the hub of the test is; on SQLite it is yet to be made."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/hub.db"
        return
    with request.getfixturevalue("hubs")() as url:
        yield url
