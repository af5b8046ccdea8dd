"""The upgrade itself, inside one transaction: old views away, steps, new views and functions, new versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from mgw.gateway.aq.schema import schema_sql as schema
from mgw.gateway.aq.schema import upgrade_sql as sql
from mgw.gateway.aq.schema.schema_sql import QUEUES_PART, Found
from mgw.gateway.aq.store.migrations.changes import Changes
from mgw.gateway.aq.store.migrations.plan import PartPlan, plan, this_release
from mgw.gateway.aq.store.schema_part import SchemaPart, Step
from mgw.transforms.errors import HubUnavailable

__all__ = ["Told", "refuse_at_work", "run", "worth"]

#: Called before every step, with the name of its part.
Told = Callable[[str, Step], None]


def worth(found: Found, parts: Sequence[SchemaPart], where: str) -> list[PartPlan]:
    """What is to be done for the hub that was found.

    Raises:
        HubVersionMismatch: it is not a hub, or of a newer release.
        HubError: there is none, or nobody knows a part of it.
    """
    if found.hub_id is None:
        schema.judge(found, where, create=False, schemas=())
    versions = {**found.parts, QUEUES_PART.name: found.version or 0}
    return plan(versions, [QUEUES_PART, *parts], where, found.written_by)


def refuse_at_work(conn: sa.Connection, plans: Sequence[PartPlan], where: str, now: float) -> None:
    """Refuse to upgrade under programs that work.

    Raises:
        HubUnavailable: there are some; they are named.
    """
    working = [each for entry in plans for each in entry.part.at_work(conn, now)]
    if working:
        who, until = working[0]
        more = f" and {len(working) - 1} more" if len(working) > 1 else ""
        raise HubUnavailable(
            f"hub {where} is in use and was not upgraded",
            cause=f"{who}{more} is using it",
            cure=f"stop every agent first; the claim of one that was killed ends in {max(0.0, until - now):.0f} s",
        )


def run(conn: sa.Connection, plans: Sequence[PartPlan], where: str, *, now: float, told: Told) -> None:
    """Upgrade in the transaction of ``conn``; its end is the caller's.

    Raises:
        HubError: a row breaks a rule of a step; views of others need those of the hub; a right is missing.
    """
    changes = Changes(conn, where)
    grants, theirs = sql.granted_views(changes.db), sql.triggers_on_views(changes.db)
    with sql.dependents_named(where):
        for entry in reversed(plans):
            entry.part.drop_derived(conn)
    for entry in plans:
        for step in entry.steps:
            told(entry.part.name, step)
            step.run(changes)
    for entry in plans:
        entry.part.make_derived(conn)
        sql.set_version(changes.db, entry.part)
    sql.grant_views(changes.db, grants)
    sql.make_triggers(changes.db, theirs)
    sql.sign(changes.db, now=now, release=this_release())
    hub_id = schema.inspect(conn).hub_id
    if hub_id is not None:
        sql.make_functions(conn, hub_id, where)
        for entry in plans:
            schema.install_functions(conn, entry.part, where)
