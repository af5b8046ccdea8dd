"""Statements on agents and their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import AgentDef, AgentStatus, key
from mgw.gateway.state import tables as t
from mgw.gateway.state.catalog.text import ENCRYPTED
from mgw.gateway.state.secrets import Secrets

__all__ = [
    "AgentOption",
    "AgentState",
    "agent_exists",
    "agent_password",
    "agent_state",
    "clear_agent_run",
    "delete_agent",
    "delete_agent_option",
    "end_start",
    "get_agent",
    "insert_agent",
    "list_agent_options",
    "list_agents",
    "set_agent_option",
    "set_agent_state",
    "update_agent",
]


@dataclass(frozen=True, slots=True)
class AgentState:
    """Where an agent is in its life; times in epoch seconds."""

    status: AgentStatus
    heartbeat: float | None = None
    lease_expires: float | None = None
    last_error_msg: str | None = None

    def alive(self, now: float) -> bool:
        """Whether a process holds the agent's lease at time ``now``."""
        return self.lease_expires is not None and self.lease_expires > now


@dataclass(frozen=True, slots=True)
class AgentOption:
    """An agent option; ``value`` in clear text, or ``<<ENCRYPTED>>`` where it was read without the key."""

    name: str
    value: str
    encrypted: bool = False

    def __repr__(self) -> str:
        return f"AgentOption({self.name!r}, {ENCRYPTED if self.encrypted else self.value!r})"


_AGENT_FIELDS = (
    "name",
    "max_memory",
    "max_threads",
    "username",
    "database",
    "conntype",
    "service",
    "initfile",
    "comments",
)
_agent_columns = [t.agent.c[name] for name in _AGENT_FIELDS]


def get_agent(conn: sa.Connection, name: str) -> AgentDef | None:
    """The agent of that name, or None."""
    row = conn.execute(sa.select(*_agent_columns).where(t.agent.c.name_key == key(name))).one_or_none()
    return AgentDef(**row._mapping) if row is not None else None


def agent_exists(conn: sa.Connection, name: str) -> bool:
    """Whether there is an agent of that name."""
    return get_agent(conn, name) is not None


def list_agents(conn: sa.Connection) -> list[AgentDef]:
    """All agents, by name."""
    rows = conn.execute(sa.select(*_agent_columns).order_by(t.agent.c.name_key))
    return [AgentDef(**row._mapping) for row in rows]


def insert_agent(conn: sa.Connection, agent: AgentDef, password_token: str | None) -> None:
    """Store a new agent, NOT_STARTED."""
    values = {name: getattr(agent, name) for name in _AGENT_FIELDS}
    conn.execute(
        sa.insert(t.agent).values(
            name_key=key(agent.name), password=password_token, status=AgentStatus.NOT_STARTED.value, **values
        )
    )


def update_agent(conn: sa.Connection, name: str, **columns: Any) -> None:
    """Set columns of an agent (``password`` as an encrypted token)."""
    conn.execute(sa.update(t.agent).where(t.agent.c.name_key == key(name)).values(**columns))


def delete_agent(conn: sa.Connection, name: str) -> None:
    """Remove an agent and its options."""
    conn.execute(sa.delete(t.agent_option).where(t.agent_option.c.agent_key == key(name)))
    conn.execute(sa.delete(t.worker).where(t.worker.c.agent_key == key(name)))
    conn.execute(sa.delete(t.agent).where(t.agent.c.name_key == key(name)))


def agent_password(conn: sa.Connection, name: str, secrets: Secrets) -> str | None:
    """Clear text of the agent's password, or None.

    Raises:
        ConfigInvalid: it cannot be decrypted.
    """
    token = conn.execute(sa.select(t.agent.c.password).where(t.agent.c.name_key == key(name))).scalar_one_or_none()
    return secrets.decrypt(token, f"agent {name}") if token else None


def agent_state(conn: sa.Connection, name: str) -> AgentState | None:
    """State of the agent, or None if there is no such agent."""
    c = t.agent.c
    row = conn.execute(
        sa.select(c.status, c.heartbeat, c.lease_expires, c.last_error_msg).where(c.name_key == key(name))
    ).one_or_none()
    return (
        None
        if row is None
        else AgentState(AgentStatus(row.status), row.heartbeat, row.lease_expires, row.last_error_msg)
    )


def set_agent_state(conn: sa.Connection, name: str, status: AgentStatus, *, clear_error: bool = False) -> None:
    """Set the status; ``clear_error`` forgets the last error (STARTUP)."""
    values: dict[str, Any] = {"status": status.value}
    if clear_error:
        values |= {"last_error_msg": None, "last_error_time": None}
    update_agent(conn, name, **values)


def end_start(conn: sa.Connection, name: str, error: str, now: float) -> None:
    """A start ended before there was a process with a lease: NOT_STARTED, with the error."""
    update_agent(conn, name, status=AgentStatus.NOT_STARTED.value, last_error_msg=error, last_error_time=now)


def clear_agent_run(conn: sa.Connection, name: str) -> None:
    """Forget the run of an agent that is gone: NOT_STARTED, no lease, no process. The fencing tokens grow."""
    # Jobs lock the row FOR KEY SHARE, so that the lease can be renewed meanwhile: who raises the token waits for them.
    conn.execute(sa.select(t.agent.c.name_key).where(t.agent.c.name_key == key(name)).with_for_update())
    update_agent(
        conn,
        name,
        status=AgentStatus.NOT_STARTED.value,
        token=t.agent.c.token + 1,
        start_time=None,
        heartbeat=None,
        lease_expires=None,
        host=None,
        pid=None,
        process_key=None,
    )
    workers = t.worker.c
    conn.execute(sa.update(t.worker).where(workers.agent_key == key(name)).values(token=workers.token + 1))


def list_agent_options(conn: sa.Connection, agent: str, secrets: Secrets | None) -> list[AgentOption]:
    """Options of an agent by name; encrypted ones in clear text, or ``<<ENCRYPTED>>`` without ``secrets``.

    Raises:
        ConfigInvalid: a value cannot be decrypted.
    """
    c = t.agent_option.c
    rows = conn.execute(sa.select(c.name, c.value, c.encrypted).where(c.agent_key == key(agent)).order_by(c.name))
    result = []
    for name, stored, encrypted in rows:
        value = stored or ""
        if encrypted:
            value = secrets.decrypt(value, f"option {name} of agent {agent}") if secrets is not None else ENCRYPTED
        result.append(AgentOption(name, value, bool(encrypted)))
    return result


def set_agent_option(conn: sa.Connection, agent: str, name: str, stored: str | None, *, encrypted: bool) -> None:
    """Store one option, in place of a former one of that name; ``stored`` is a token if ``encrypted``."""
    delete_agent_option(conn, agent, name)
    conn.execute(sa.insert(t.agent_option).values(agent_key=key(agent), name=name, value=stored, encrypted=encrypted))


def delete_agent_option(conn: sa.Connection, agent: str, name: str) -> int:
    """Remove one option (names compare case-insensitively); how many there were."""
    c = t.agent_option.c
    where = (c.agent_key == key(agent)) & (sa.func.lower(c.name) == name.lower())
    return conn.execute(sa.delete(t.agent_option).where(where)).rowcount
