"""The upgrade of a hub on PostgreSQL: everything in one transaction, so a kill at any moment leaves the old hub."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mgw.gateway.aq.schema import schema_sql as schema
from mgw.gateway.aq.schema import upgrade_sql as sql
from mgw.gateway.aq.schema.upgrade import Told, refuse_at_work, run, worth
from mgw.gateway.aq.store.database import Address, find_schema, make_engine
from mgw.gateway.aq.store.database_errors import lock_timed_out, translated
from mgw.gateway.aq.store.migrations.plan import PartPlan
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, HubUnavailable

__all__ = ["look", "upgrade"]

_PATIENCE = 10_000  # milliseconds for which transactions of others are waited for


def look(address: Address, parts: Sequence[SchemaPart], clock: Clock) -> list[PartPlan]:
    """What is to be done; nothing is changed."""
    where = address.shown
    engine = _engine(address, clock)
    try:
        with translated(where), engine.connect() as conn:
            return worth(schema.inspect(conn), parts, where)
    finally:
        engine.dispose()


def upgrade(address: Address, parts: Sequence[SchemaPart], clock: Clock, told: Told) -> list[PartPlan]:
    """Upgrade the hub; what was done.

    Raises:
        HubVersionMismatch: it is not a hub, or of a newer release.
        HubUnavailable: it is in use, or cannot be reached.
        HubError: it cannot be upgraded as it is.
    """
    where = address.shown
    engine = _engine(address, clock)
    try:
        with translated(where), engine.begin() as conn:
            db = Db(conn)
            schema.lock(conn)
            found = schema.inspect(conn)
            plans = worth(found, parts, where)
            if not any(entry.steps for entry in plans):
                return plans
            _require_owner(conn, where)
            _alone(engine, db, where, unsigned=(found.version or 0) < schema.SIGNED)
            refuse_at_work(conn, plans, where, clock.now())
            run(conn, plans, where, now=clock.now(), told=told)
        return plans
    finally:
        engine.dispose()


def _engine(address: Address, clock: Clock) -> sa.Engine:
    with translated(address.shown):
        namespace = Namespace(find_schema(address))
    return make_engine(address.url, "full", clock, namespace=namespace)


def _require_owner(conn: sa.Connection, where: str) -> None:
    login = schema.strange_login(conn)
    if login is not None:
        raise HubError(
            f"hub {where} cannot be upgraded by {login}",
            cause="it does not have the rights of the owner of the hub's tables",
            cure="log in as the owner",
        )


def _alone(engine: sa.Engine, db: Db, where: str, *, unsigned: bool) -> None:
    """Keep everybody out; refuse where somebody is in."""
    try:
        alone = sql.lock(db, _PATIENCE)
    except Exception as error:
        if not lock_timed_out(error):
            raise
        with engine.connect() as conn:
            raise _in_use(where, sql.holders(Db(conn))) from error
    if users := sql.users(db, unsigned=unsigned):
        raise _in_use(where, users)
    if not alone:
        raise _in_use(where, ["another program"])


def _in_use(where: str, users: Sequence[str]) -> HubUnavailable:
    return HubUnavailable(
        f"hub {where} is in use and was not upgraded",
        cause=f"it is open in {', '.join(users[:3]) or 'another program'}"
        + (f" and {len(users) - 3} more" if len(users) > 3 else ""),
        cure="stop agents, applications and Spark jobs that use it, then upgrade",
    )
