"""Statements on the change counter, the administration lock, and the snapshot an agent runs by."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import sqlalchemy as sa

from mgw.gateway.aq import Db, QueueRef, channel_sql, list_functions, list_modules, shown_key
from mgw.gateway.aq import resolve_queue as resolve
from mgw.gateway.definitions.objects import DEFAULT_AGENT, AgentDef, JobDef, Snapshot, key
from mgw.gateway.state import tables as t
from mgw.gateway.state.catalog.agents import get_agent, insert_agent, list_agent_options
from mgw.gateway.state.catalog.jobs import list_subscribers
from mgw.gateway.state.catalog.links import list_foreign_queues, list_links
from mgw.gateway.state.catalog.transformations import list_transformations
from mgw.gateway.state.secrets import Secrets
from mgw.gateway.state.tables import CHANGE_CHANNEL
from mgw.transforms.errors import AdminError, AqError

__all__ = [
    "CHANGE_CHANNEL",
    "bump_change",
    "change_version",
    "insert_defaults",
    "load_snapshot",
    "lock_administration",
]

_LOCK_MILLISECONDS = 30_000
_ADMINISTRATION_LOCK = "SELECT pg_advisory_xact_lock('gw_change'::regclass::oid::int, 0)"  # of this hub's table


def insert_defaults(conn: sa.Connection) -> None:
    """The rows every hub has: the change counter and the agent ``DEFAULT_AGENT``."""
    conn.execute(sa.insert(t.change).values(id=1, version=0))
    insert_agent(conn, AgentDef(DEFAULT_AGENT), None)


def lock_administration(conn: sa.Connection) -> None:
    """Wait, at most 30 s, for the one administration lock; held until the transaction ends.

    On SQLite the write lock of the database is the lock.
    """
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_MILLISECONDS}ms'")
        conn.exec_driver_sql(_ADMINISTRATION_LOCK)


def change_version(conn: sa.Connection) -> int:
    """Version of the definitions; grows with every change."""
    return int(conn.execute(sa.select(t.change.c.version).where(t.change.c.id == 1)).scalar_one())


def bump_change(conn: sa.Connection) -> int:
    """Raise the version of the definitions and tell the agents when the transaction commits; the new version."""
    statement = sa.update(t.change).where(t.change.c.id == 1).values(version=t.change.c.version + 1)
    version = int(conn.execute(statement.returning(t.change.c.version)).scalar_one())
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"SELECT pg_notify({channel_sql(CHANGE_CHANNEL)}, %s)", (str(version),))
    return version


def load_snapshot(conn: sa.Connection, agent_name: str, secrets: Secrets | None) -> Snapshot:
    """Everything the agent runs by, at one version; passwords in clear text (None without ``secrets``).

    The transformations and foreign queues are those of its links' jobs and more; job options are names in lower case.

    Raises:
        AdminError: ORA-32850, no such agent.
        ConfigInvalid: a password cannot be decrypted.
    """
    version = change_version(conn)
    agent = get_agent(conn, agent_name)
    if agent is None:
        raise AdminError(
            f"agent {agent_name} does not exist", number=32850, cure="create it with create_agent, or correct the name"
        )
    log_level = conn.execute(sa.select(t.agent.c.log_level).where(t.agent.c.name_key == key(agent_name))).scalar_one()
    links = {key(link.name): link for link in list_links(conn, secrets, agent=agent_name)}
    queues = {
        (key(queue.name), key(queue.link)): queue for queue in list_foreign_queues(conn) if key(queue.link) in links
    }
    jobs = {job.id: job for job in list_subscribers(conn, agent=agent_name)}
    return Snapshot(
        version=version,
        agent=agent,
        log_level=int(log_level),
        links=links,
        queues=queues,
        transformations={shown_key(item.name): item for item in list_transformations(conn)},
        jobs=jobs,
        agent_options={option.name: option.value for option in list_agent_options(conn, agent_name, secrets)},
        hub_queues=_hub_queues(conn, jobs.values()),
        modules=tuple(list_modules(Db(conn))),
        functions=tuple(list_functions(Db(conn))),
    )


def _hub_queues(conn: sa.Connection, jobs: Iterable[JobDef]) -> dict[str, QueueRef]:
    """The queues of the hub that jobs name, by name; those that are gone are left out."""
    found = {}
    for name in {name for job in jobs for name in job.hub_queues}:
        with suppress(AqError):
            found[name] = resolve(conn, name)
    return found
