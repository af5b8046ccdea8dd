"""What a database says, in the words of the hub: whether trying again can help is what jobs act on."""

from __future__ import annotations

import psycopg
import pytest

from mgw.gateway.aq.store.database_errors import translate
from mgw.transforms.errors import HubError, HubFull, HubMissing, HubUnavailable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.AdminShutdown("terminating connection due to administrator command"), HubUnavailable),
        (psycopg.errors.CannotConnectNow("the database system is starting up"), HubUnavailable),
        (psycopg.errors.TooManyConnections("sorry, too many clients already"), HubUnavailable),
        (psycopg.errors.InvalidPassword("no"), HubUnavailable),
        (psycopg.OperationalError("FATAL:  password authentication failed for user mgw"), HubUnavailable),
        (psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"), HubUnavailable),
        (psycopg.errors.DiskFull("no space left"), HubFull),
        (psycopg.errors.InvalidCatalogName("no such database"), HubMissing),
        (psycopg.errors.InsufficientPrivilege("no"), HubError),
        (psycopg.errors.UndefinedTable("no"), HubError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_postgresql_that_is_away_or_lets_nobody_in_is_told_from_one_that_refuses(
    error: Exception, kind: type[HubError]
) -> None:
    found = translate(error, "h")
    assert type(found) is kind
    assert (found.number == 241) is (kind is HubUnavailable)
