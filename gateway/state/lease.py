"""Who runs an agent: the lease on its name, with a token that only grows.

Every hub transaction of a job calls :func:`check_owner`, so a process that was stalled beyond its lease can do no harm.
Jobs in a worker process of an agent check the token of that worker: its supervisor raises it before it has another
process do the work, and who takes the agent over raises those of all its workers.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from mgw.gateway.aq import Db
from mgw.gateway.aq import process_lives as lives
from mgw.gateway.aq import process_start as start_of
from mgw.gateway.definitions.objects import AgentStatus, key
from mgw.gateway.state.tables import agent, worker
from mgw.transforms.errors import GatewayError, LeaseLost

__all__ = [
    "STALLED_SECONDS",
    "AgentAlreadyRunning",
    "AgentRow",
    "Owner",
    "acquire_lease",
    "agent_row",
    "agents_at_work",
    "check_owner",
    "fence_worker",
    "release_lease",
    "renew_lease",
    "set_agent_status",
    "sign_connections",
    "tell_keys",
    "worker_key",
]

STALLED_SECONDS = 15  # PostgreSQL rolls back what locks an agent and does nothing for so long


class AgentAlreadyRunning(GatewayError):
    """A second process of one agent was refused."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that runs an agent. ``process_key`` tells it from another that was given the same pid later."""

    host: str
    pid: int
    process_key: str

    @classmethod
    def this_process(cls) -> Owner:
        """The calling process."""
        return cls(socket.gethostname(), os.getpid(), _process_key(os.getpid()))

    @property
    def signature(self) -> str:
        """What its connections to a PostgreSQL hub are called (application_name)."""
        who = f"{self.host}|{self.pid}|{self.process_key}"
        return f"mgw-{blake2b(who.encode(), digest_size=12).hexdigest()}"

    def worker_signature(self, number: int) -> str:
        """The same of a worker process that it has started."""
        return f"{self.signature}/{number}"

    def is_alive_here(self) -> bool | None:
        """Whether it lives; None when it belongs to another host, or container, and this one cannot know.

        Host names alone do not tell: containers and copied machines may share one, and a process id of theirs means
        another process here.
        """
        if self.host != socket.gethostname() or _place(self.process_key) != _place(_process_key(os.getpid())):
            return None
        return lives(self.pid, self.process_key.rpartition(":")[2])


def _process_key(pid: int) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return f"{boot}:{space}:{start_of(pid)}"


def _place(process_key: str) -> str:
    """The running system and the process namespace in which the process has its id."""
    return process_key.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class AgentRow:
    """State of an agent as stored."""

    name: str
    status: AgentStatus
    token: int
    lease_expires: float | None
    owner: Owner | None
    log_level: int
    last_error: str | None
    heartbeat: float | None = None  # when the lease was taken or renewed last, by the clock of its owner


_LIMIT = sa.func.set_config("idle_in_transaction_session_timeout", p("stalled", type_=sa.String), True)
_SET_LIMIT = sa.select(_LIMIT)
# Columns that every release has: an upgrade asks an older hub who is at work.
_SHOWN = (
    "name",
    "status",
    "token",
    "heartbeat",
    "lease_expires",
    "host",
    "pid",
    "process_key",
    "log_level",
    "last_error_msg",
)
_AGENT = sa.select(*(agent.c[name] for name in _SHOWN)).where(agent.c.name_key == p("k"))
_AGENT_LOCK = _AGENT.with_for_update()


def agent_row(conn: sa.Connection, name: str) -> AgentRow | None:
    """State of the agent, or None if there is no such agent."""
    row = conn.execute(_AGENT, {"k": key(name)}).one_or_none()
    return _agent_row(row) if row is not None else None


_LEASED = sa.text("SELECT name_key FROM gw_agent WHERE lease_expires > :now ORDER BY name_key")


def agents_at_work(conn: sa.Connection, now: float) -> list[tuple[str, float]]:
    """(who, end of its lease in epoch seconds) of every agent that runs, as far as this machine can know."""
    found = []
    for (name,) in conn.execute(_LEASED, {"now": now}).all():
        row = agent_row(conn, name)
        if row is not None and row.owner is not None and row.owner.is_alive_here() is not False:
            found.append((f"agent {row.name} (process {row.owner.pid} on {row.owner.host})", row.lease_expires or now))
    return found


def _agent_row(row: sa.Row[tuple[object, ...]]) -> AgentRow:
    owner = Owner(row.host, row.pid, row.process_key or "") if row.host is not None else None
    return AgentRow(
        row.name,
        AgentStatus(row.status),
        row.token,
        row.lease_expires,
        owner,
        row.log_level,
        row.last_error_msg,
        row.heartbeat,
    )


def _limit_stalls(conn: sa.Connection) -> None:
    """On PostgreSQL a transaction keeps its locks until it ends: nobody shall wait forever for a process that stalls
    in it, or for a machine that vanished."""
    if conn.dialect.name == "postgresql":
        conn.execute(_SET_LIMIT, {"stalled": f"{STALLED_SECONDS}s"})


def sign_connections(engine: sa.Engine, signature: str = "") -> None:
    """Connections of the engine to PostgreSQL bear the name of this process from now on, or another one."""
    name = signature or Owner.this_process().signature

    @sa.event.listens_for(engine, "connect")
    def _sign(connection: Any, _: object) -> None:
        connection.execute("SELECT set_config('application_name', %s, false)", (name,))
        connection.commit()

    engine.dispose()


_CUT_OFF = sa.text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE (application_name = :name OR application_name LIKE :workers)"
    " AND datname = current_database() AND usename = current_user"
)


def _cut_off(conn: sa.Connection, signature: str) -> None:
    """Let PostgreSQL end the transactions of an owner whose lease is over, or of a worker: in them a row may be locked.

    It would not notice by itself a process that stands still while it sends rows, or a machine that vanished.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(_CUT_OFF, {"name": signature, "workers": f"{signature}/%"})


def acquire_lease(
    conn: sa.Connection,
    name: str,
    me: Owner,
    *,
    ttl: float,
    now: float,
    silent: float | None = None,
    log_level: int = 0,
) -> tuple[int, float]:
    """Become the owner of the agent.

    Args:
        silent: heartbeat of an owner on another host that was seen to be silent for a whole lease. Its lease is over,
            whatever its clock said, unless there was another heartbeat since.
        log_level: of the run that begins; SET_LOG_LEVEL does not outlive a run (AQ guide 12.2 §19.2).

    Returns:
        (token, 0) when the lease is ours, or (0, seconds) to wait for the lease of a process on another host that may
        be dead: ask again then.

    Raises:
        AgentAlreadyRunning: a living process owns the agent.
        GatewayError: no such agent, or its status is BROKEN.
    """
    _limit_stalls(conn)
    seen = agent_row(conn, name)  # not locked: an owner that stands still may hold the row forever
    if seen is not None and seen.status is not AgentStatus.BROKEN and seen.owner is not None and seen.owner != me:
        left = (seen.lease_expires or 0.0) - now if silent is None or seen.heartbeat != silent else 0.0
        if seen.owner.is_alive_here() is None:
            if left > 0:
                return 0, left
            _cut_off(conn, seen.owner.signature)
    row = conn.execute(_AGENT_LOCK, {"k": key(name)}).one_or_none()
    if row is None:
        raise GatewayError(
            f"agent {name} does not exist", cause="nobody created it", cure="create it under agents: and mgw apply"
        )
    held = _agent_row(row)
    if held.status is AgentStatus.BROKEN:
        raise GatewayError(
            f"agent {name} is BROKEN",
            cause=held.last_error or "a second process was detected",
            cure=f"end the leftover process, then run: mgw agents clean {name}",
            number=-106,
        )
    if held.owner is not None and held.owner != me:
        alive = held.owner.is_alive_here()
        if alive:
            raise AgentAlreadyRunning(
                f"agent {name} is already running",
                cause=f"process {held.owner.pid} on {held.owner.host} owns it",
                cure="stop that process first, or run another agent with --agent",
                number=-105,
            )
        if alive is None and (held.lease_expires or 0.0) > now and (silent is None or held.heartbeat != silent):
            return 0, (held.lease_expires or now) - now
    token = held.token + 1
    left_behind = held.owner is not None and held.owner != me
    conn.execute(
        sa.update(agent)
        .where(agent.c.name_key == key(name))
        .values(
            token=token,
            heartbeat=now,
            lease_expires=now + ttl,
            host=me.host,
            pid=me.pid,
            process_key=me.process_key,
            status=AgentStatus.STARTING,
            start_time=now,
            stopped=None,
            last_error_msg=_premature(held) if left_behind else None,
            last_error_time=now if left_behind else None,
            secret_keys=None,
            log_level=log_level,
        )
    )
    conn.execute(_FENCE_ALL, {"agent": key(name)})
    return token, 0.0


def _premature(held: AgentRow) -> str:
    """What is known of a run that nobody ended."""
    who = f"process {held.owner.pid} on {held.owner.host}" if held.owner is not None else "the process"
    return f"ORA-28576: {who} ended prematurely, or could not renew its lease; agent {held.name} was started again"


_FENCE_ALL = sa.update(worker).where(worker.c.agent_key == p("agent")).values(token=worker.c.token + 1)
_FENCE = sa.text(
    "INSERT INTO gw_worker (worker_key, agent_key, token) VALUES (:worker, :agent, 1)"
    " ON CONFLICT (worker_key) DO UPDATE SET token = gw_worker.token + 1 RETURNING token"
)
_BETWEEN = "/"  # no name of an agent has it


def worker_key(name: str, number: int) -> str:
    """Names a worker of an agent: for :func:`check_owner`."""
    return f"{key(name)}{_BETWEEN}{number}"


def fence_worker(conn: sa.Connection, name: str, token: int, number: int, owner: Owner) -> int:
    """Keep the process that worker ``number`` was so far from storing anything more; the token of the next one.

    Waits for its transactions that are open: those of a dead process PostgreSQL ends at once.

    Args:
        token: of the agent.
        owner: this process, which owns the agent.

    Raises:
        LeaseLost: another process owns the agent.
    """
    _limit_stalls(conn)
    check_owner(conn, key(name), token)
    _cut_off(conn, owner.worker_signature(number))
    return int(conn.execute(_FENCE, {"worker": worker_key(name, number), "agent": key(name)}).scalar_one())


_RENEW = (
    sa.update(agent)
    .where(agent.c.name_key == p("k"), agent.c.token == p("t"))
    .values(heartbeat=p("now"), lease_expires=p("expires"))
)


def renew_lease(conn: sa.Connection, name: str, token: int, *, ttl: float, now: float) -> None:
    """Extend the lease.

    Raises:
        LeaseLost: another process took the agent over.
    """
    _limit_stalls(conn)
    if conn.execute(_RENEW, {"k": key(name), "t": token, "now": now, "expires": now + ttl}).rowcount != 1:
        raise _lost(name, token)


def tell_keys(conn: sa.Connection, name: str, token: int, keys: Sequence[str]) -> None:
    """Say with which keys the process of the agent can read secrets; a lease already lost is left alone."""
    told = sa.update(agent).where(agent.c.name_key == key(name), agent.c.token == token)
    conn.execute(told.values(secret_keys=" ".join(keys)))


def _lost(name: str, token: int) -> LeaseLost:
    agent_name, between, number = name.partition(_BETWEEN)
    if between:
        return LeaseLost(
            f"worker {number} of agent {agent_name} was fenced and may store nothing more",
            cause=f"it was taken for dead, or another process runs the agent now (token {token} is not valid any more)",
            cure="none needed here: the process that has its place carries on; this one ends",
            number=-106,
        )
    return LeaseLost(
        f"agent {name} now belongs to another process",
        cause=f"this process did not renew its lease in time (token {token})",
        cure="none needed here: the other process carries on; end this one",
        number=-106,
    )


_HELD_BY = "SELECT token FROM gw_agent WHERE name_key = ?"
_HELD_BY_WORKER = "SELECT token FROM gw_worker WHERE worker_key = ?"
_LIMITED = "set_config('idle_in_transaction_session_timeout', ?, true)"
_HELD_BY_SHARED = f"SELECT {_LIMITED} FROM gw_agent WHERE name_key = ? AND token = ? FOR KEY SHARE"
_HELD_BY_WORKER_SHARED = f"SELECT {_LIMITED} FROM gw_worker WHERE worker_key = ? AND token = ? FOR SHARE"


def check_owner(conn: sa.Connection, name_key: str, token: int) -> None:
    """Fence: fail the transaction of a process that lost its agent. On PostgreSQL the row stays locked until it ends.

    Args:
        name_key: of the agent, or :func:`worker_key` where its jobs run in workers.

    Raises:
        LeaseLost: the stored token is another one. On PostgreSQL the next statement raises it, before any commit.
    """
    db, of_worker = Db(conn), _BETWEEN in name_key
    if db.postgresql:

        def check(found: int) -> None:
            if found != 1:
                raise _lost(name_key, token)

        statement = _HELD_BY_WORKER_SHARED if of_worker else _HELD_BY_SHARED
        db.later(statement, (f"{STALLED_SECONDS}s", name_key, token), check)
    elif db.scalar(_HELD_BY_WORKER if of_worker else _HELD_BY, (name_key,)) != token:
        raise _lost(name_key, token)


def release_lease(
    conn: sa.Connection, name: str, token: int, *, status: AgentStatus, error: str | None, now: float
) -> None:
    """Give the agent up with the given status; a lease already lost is left alone."""
    values: dict[str, object] = {
        "status": status,
        "lease_expires": None,
        "heartbeat": None,
        "host": None,
        "pid": None,
        "process_key": None,
        "start_time": None,
        "stopped": now,
    }
    if error is not None:
        values |= {"last_error_msg": error, "last_error_time": now}
    conn.execute(sa.update(agent).where(agent.c.name_key == key(name), agent.c.token == token).values(**values))


def set_agent_status(conn: sa.Connection, name: str, token: int, status: AgentStatus) -> None:
    """Move the agent to ``status``, unless it is shutting down already."""
    conn.execute(
        sa.update(agent)
        .where(agent.c.name_key == key(name), agent.c.token == token, agent.c.status != AgentStatus.SHUTTING_DOWN)
        .values(status=status)
    )
