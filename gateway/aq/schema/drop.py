"""Removes a hub from the database that it shares with an application, whose tables stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.aq.schema import drop_sql, schema_sql, upgrade_sql
from mgw.gateway.aq.store.database import Address, find_schema, make_engine
from mgw.gateway.aq.store.database_errors import lock_timed_out, translated
from mgw.gateway.aq.store.files import files_of
from mgw.gateway.aq.store.migrations.plan import NO_PART
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, HubUnavailable

__all__ = ["Dropped", "drop"]

_PATIENCE = 10_000  # milliseconds for which transactions of others are waited for


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is gone.

    Attributes:
        hub: the database as shown to people.
        objects: tables and views.
        messages: that nobody had consumed.
    """

    hub: str
    objects: int
    messages: int


def drop(address: Address, parts: Sequence[SchemaPart], clock: Clock, *, force: bool) -> Dropped:
    """Drop a hub, in one transaction.

    Args:
        parts: all that the hub may have, the queues' own excepted.
        force: also if messages wait in it.

    Raises:
        HubVersionMismatch: it is not a hub, or of another release.
        HubUnavailable: it is in use, or cannot be reached.
        HubError: there is none; messages wait in it; something of the application's needs its tables or views; the
            login is not the owner's; it has tables that nobody here knows.
    """
    where, path = address.shown, None if address.postgresql else address.url.database
    namespace = None
    with translated(where, path):
        if address.postgresql:
            namespace = Namespace(find_schema(address))
        else:
            schema_sql.judge(schema_sql.inspect_sqlite(path or "", where), where, create=False, schemas=())
    engine = make_engine(address.url, "full", clock, files_of(address.url, where), namespace=namespace)
    try:
        with translated(where, path), engine.begin() as conn:
            found = _checked(conn, parts, where, clock.now(), postgresql=address.postgresql)
            db = Db(conn)
            left = drop_sql.waiting(db)
            if left.messages and not force:
                age = max(0.0, clock.now() - (left.since or clock.now()))
                raise HubError(
                    f"hub {where} was not dropped",
                    cause=f"{left.messages} message(s) in it are not consumed, the oldest is {age:.0f} s old",
                    cure="consume them first, or drop them with the hub: --force",
                )
            names = drop_sql.names_of(parts)
            if namespace is None:
                objects = drop_sql.drop_sqlite(db, names, where)
            else:
                _alone(engine, db, where)
                objects = drop_sql.drop_postgresql(db, found.hub_id or b"", namespace, names, where, parts=parts)
        return Dropped(where, objects, left.messages)
    finally:
        engine.dispose()


def _checked(
    conn: sa.Connection, parts: Sequence[SchemaPart], where: str, now: float, *, postgresql: bool
) -> schema_sql.Found:
    """The hub, if it is one that can be dropped."""
    if postgresql:
        schema_sql.lock(conn)
    found = schema_sql.inspect(conn)
    schema_sql.judge(found, where, create=False, schemas=[part for part in parts if part.name in found.parts])
    known = {part.name for part in parts}
    unknown = {name for name in found.parts.keys() - known if not name.startswith(NO_PART)}
    if unknown:
        raise HubError(
            f"hub {where} was not dropped",
            cause=f"it has tables of {', '.join(sorted(unknown))}, which no installed package knows",
            cure="install the package that created them, then drop the hub",
        )
    login = schema_sql.strange_login(conn) if postgresql else None
    if login is not None:
        raise HubError(
            f"hub {where} cannot be dropped by {login}",
            cause="it does not have the rights of the owner of the hub's tables",
            cure="log in as the owner",
        )
    working = [each for part in parts if part.name in found.parts for each in part.at_work(conn, now)]
    if working:
        who, until = working[0]
        raise HubUnavailable(
            f"hub {where} is in use and was not dropped",
            cause=f"{who} works on it",
            cure=f"stop every agent first; the claim of one that was killed ends in {max(0.0, until - now):.0f} s",
        )
    return found


def _alone(engine: sa.Engine, db: Db, where: str) -> None:
    """Refuse to drop a hub on PostgreSQL that somebody has open."""
    try:
        alone = upgrade_sql.lock(db, _PATIENCE)
        users = upgrade_sql.users(db, unsigned=False)
    except Exception as error:
        if not lock_timed_out(error):
            raise
        with engine.connect() as conn:
            alone, users = False, upgrade_sql.holders(Db(conn))
    if not alone or users:
        raise HubUnavailable(
            f"hub {where} is in use and was not dropped",
            cause=f"it is open in {', '.join(users[:3]) or 'another program'}",
            cure="stop agents, applications and Spark jobs that use it, then drop it",
        )
