"""Statements on everything that is stored encrypted, and on the keys that agents can read it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mgw.gateway.state import tables as t

__all__ = ["AgentKeys", "StoredSecret", "agents_keys", "stored_secrets", "update_secret"]


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """An encrypted value; ``where`` has the primary key of its row in ``table``."""

    owner: str  # for people
    table: str
    column: str
    where: tuple[tuple[str, str], ...]
    token: str


@dataclass(frozen=True, slots=True)
class AgentKeys:
    """An agent whose process runs, and ids of the keys that it can read secrets with; None: it has not told."""

    name: str
    host: str | None
    pid: int | None
    keys: tuple[str, ...] | None


def stored_secrets(conn: sa.Connection) -> list[StoredSecret]:
    """All of them, by object."""
    found = []
    link, agent, option = t.link.c, t.agent.c, t.agent_option.c
    rows = conn.execute(
        sa.select(link.name_key, link.password).where(link.password.is_not(None)).order_by(link.name_key)
    )
    found += [
        StoredSecret(f"link {row.name_key}", "gw_link", "password", (("name_key", row.name_key),), row.password)
        for row in rows
    ]
    rows = conn.execute(
        sa.select(agent.name_key, agent.password).where(agent.password.is_not(None)).order_by(agent.name_key)
    )
    found += [
        StoredSecret(f"agent {row.name_key}", "gw_agent", "password", (("name_key", row.name_key),), row.password)
        for row in rows
    ]
    rows = conn.execute(
        sa.select(option.agent_key, option.name, option.value)
        .where(option.encrypted, option.value.is_not(None))
        .order_by(option.agent_key, option.name)
    )
    found += [
        StoredSecret(
            f"option {row.name} of agent {row.agent_key}",
            "gw_agent_option",
            "value",
            (("agent_key", row.agent_key), ("name", row.name)),
            row.value,
        )
        for row in rows
    ]
    return found


def update_secret(conn: sa.Connection, secret: StoredSecret, token: str) -> None:
    """Store it encrypted otherwise; nothing else of its object changes."""
    table = t.metadata.tables[secret.table]
    chosen: Any = sa.and_(*(table.c[name] == value for name, value in secret.where))
    conn.execute(sa.update(table).where(chosen).values({secret.column: token}))


def agents_keys(conn: sa.Connection, now: float) -> list[AgentKeys]:
    """The agents whose processes run, by name."""
    c = t.agent.c
    rows = conn.execute(
        sa.select(c.name, c.host, c.pid, c.secret_keys).where(c.lease_expires > now).order_by(c.name_key)
    )
    return [
        AgentKeys(row.name, row.host, row.pid, None if row.secret_keys is None else tuple(row.secret_keys.split()))
        for row in rows
    ]
