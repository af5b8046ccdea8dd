"""Transactions on the wire of PostgreSQL fail as the driver's own do: with its classes, states and words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from mgw.gateway.aq.store import pg_protocol
from mgw.gateway.aq.store.pg_pipeline import Pipeline
from tests.support.brokers import PostgreSQL
from tests.support.waiting import eventually


@pytest.fixture
def driver(postgresql: PostgreSQL) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgresql.url.replace("+psycopg", "")) as connection:
        state: Any = SimpleNamespace(pipeline=Pipeline(connection))
        connection.hub_state = state  # type: ignore[attr-defined]
        yield connection
        with suppress(psycopg.Error):
            connection.rollback()


@pytest.fixture
def lost(driver: psycopg.Connection, postgresql: PostgreSQL) -> psycopg.Connection:
    """A connection whose server process was ended, which it does not know yet."""
    pid = driver.info.backend_pid
    with psycopg.connect(postgresql.url.replace("+psycopg", ""), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        there = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        eventually(lambda: other.execute(there, (pid,)).fetchone() is None, what="the end of the server's process")
    return driver


def execute(driver: Any, sql: str) -> int:
    """As the hub does; begins a transaction if none is open."""
    number: int = driver.hub_state.pipeline.run(sql, ())
    return number


def test_what_is_committed_stays_and_what_is_rolled_back_does_not(driver: psycopg.Connection) -> None:
    execute(driver, "CREATE TEMP TABLE wired (n int)")
    pg_protocol.commit(driver)
    execute(driver, "SELECT 1")
    assert execute(driver, "INSERT INTO wired VALUES (1)") == 1  # in the same transaction
    driver.hub_state.pipeline.later("INSERT INTO wired VALUES (1)", ())  # is forgotten
    pg_protocol.rollback(driver)
    assert driver.execute("SELECT count(*) FROM wired").fetchone() == (0,)
    pg_protocol.rollback(driver)
    pg_protocol.commit(driver)  # nothing is open


def test_a_commit_that_is_refused_says_why(driver: psycopg.Connection) -> None:
    execute(driver, "CREATE TEMP TABLE wired (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    execute(driver, "INSERT INTO wired VALUES (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation, match=r"^duplicate key") as refused:
        pg_protocol.commit(driver)
    assert refused.value.sqlstate == "23505"
    assert driver.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_a_transaction_that_failed_is_rolled_back(driver: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero, match=r"^division by zero"):
        execute(driver, "SELECT 1 / 0")
    pg_protocol.rollback(driver)
    assert driver.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_a_lost_connection_is_told_at_the_beginning(lost: psycopg.Connection) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"server closed the connection|terminating connection"):
        execute(lost, "SELECT 1")
    assert lost.closed


def test_a_lost_connection_is_told_at_the_commit(driver: psycopg.Connection, request: pytest.FixtureRequest) -> None:
    execute(driver, "SELECT 1")
    lost = request.getfixturevalue("lost")
    with pytest.raises(psycopg.OperationalError):
        pg_protocol.commit(lost)
