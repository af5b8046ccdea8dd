"""Procedures on agents (AQ guide 12.2 §19.1, §19.2)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.agent_options import without_effect
from mgw.gateway.definitions.attributes import AGENT_ATTRIBUTES
from mgw.gateway.definitions.objects import DEFAULT_AGENT, AgentDef, AgentStatus, key
from mgw.gateway.services.admin.agent_options import AgentOptionProcedures, checked_options
from mgw.gateway.services.admin.agent_ping import REACHABLE, ping
from mgw.gateway.services.admin.base import (
    NO_CHANGE,
    NoChange,
    OptionalText,
    Ora,
    check_identifier,
    check_text,
)
from mgw.gateway.state import catalog
from mgw.gateway.state.catalog import AgentState
from mgw.transforms.errors import AdminError

__all__ = ["AgentProcedures"]

_LOGGER = logging.getLogger("mgw.admin")

_CONNTYPES = AGENT_ATTRIBUTES["conntype"].choices
_STARTED = frozenset((AgentStatus.STARTING, AgentStatus.INITIALIZING, AgentStatus.RUNNING))


class AgentProcedures(AgentOptionProcedures):
    """Create, alter, remove, start and stop agents."""

    def get_agent(self, agent_name: str) -> AgentDef | None:
        """The agent, or None."""
        with self.hub.read() as conn:
            return catalog.get_agent(conn, agent_name)

    def list_agents(self) -> list[AgentDef]:
        """All agents, by name."""
        with self.hub.read() as conn:
            return catalog.list_agents(conn)

    def agent_password(self, agent_name: str) -> str | None:
        """The password of an agent in clear text, or None.

        Raises:
            ConfigInvalid: it cannot be decrypted.
        """
        with self.hub.read() as conn:
            return catalog.agent_password(conn, agent_name, self.secrets)

    def agent_state(self, agent_name: str = DEFAULT_AGENT) -> AgentState:
        """Status and lease of an agent.

        Raises:
            AdminError: ORA-32850.
        """
        with self.hub.read() as conn:
            return self._state(conn, agent_name)

    def ping_agent(self, agent_name: str = DEFAULT_AGENT) -> str | None:
        """Ask the process of an agent whether it answers; takes up to 5 seconds.

        Returns:
            ``REACHABLE``, ``UNREACHABLE``, or None where no process is expected (NOT_STARTED, START_SCHEDULED).

        Raises:
            AdminError: ORA-32850.
        """
        with self.hub.read() as conn:
            name = self.need_agent(conn, agent_name).name
        return ping(self.hub, name)

    def create_agent(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        agent_name: str,
        username: str | None = None,
        password: str | None = None,
        database: str | None = None,
        conntype: str = "JDBC_OCI",
        max_memory: int | None = None,
        max_threads: int | None = None,
        service: str | None = None,
        initfile: str | None = None,
        comment: str | None = None,
        *,
        options: Mapping[str, str | float | None] | None = None,
        encrypted_options: Mapping[str, str] | None = None,
    ) -> None:
        """Define an agent.

        Args:
            username, password, database, conntype, service: stored and shown, with a warning in the log: they have no
                effect. The agent runs with the login of its process.
            max_memory: MB that its process uses without a warning (436); with the documented default, 64, it is not
                watched.
            initfile: initialization file that it reads when it starts; None: the default one, if there is one.
            max_threads: jobs that may work at the same time, 1..128; 16 if None (the documented default, 1, would
                let one busy job hold up all others).
            options, encrypted_options: as :meth:`set_agent_option` takes them, stored with the agent or not at all.

        Raises:
            AdminError: ORA-32851 exists; ORA-32801 password without user, database without user; ORA-32843 range;
                ORA-32840, ORA-32841 as :meth:`set_agent_option`.
        """
        check_identifier("agent", agent_name)
        default = AgentDef(agent_name)
        agent = AgentDef(
            agent_name,
            default.max_memory if max_memory is None else max_memory,
            default.max_threads if max_threads is None else max_threads,
            username,
            database,
            conntype,
            service,
            initfile,
            comment,
        )
        _check_agent(agent)
        if (username is None) != (password is None):
            raise _bad(agent_name, "user name and password go together", "give both or none")
        given = checked_options(agent_name, options, encrypted_options)
        with self.change("agent", agent_name) as conn:
            if catalog.agent_exists(conn, agent_name):
                raise AdminError(
                    f"agent {agent_name} already exists",
                    number=Ora.AGENT_EXISTS,
                    cause="an agent has that name",
                    cure="alter it, or choose another name",
                )
            catalog.insert_agent(conn, agent, self.secrets.encrypt(password) if password is not None else None)
            self._store_options(conn, agent_name, given)
        self._tell_no_effect(agent, without_effect(agent) + (["password"] if password is not None else []))
        self._tell_missing(agent)

    def alter_agent(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        agent_name: str = DEFAULT_AGENT,
        username: str | NoChange = NO_CHANGE,
        password: str | NoChange = NO_CHANGE,
        database: OptionalText = NO_CHANGE,
        conntype: str | NoChange = NO_CHANGE,
        max_memory: int | None = None,
        max_threads: int | None = None,
        service: OptionalText = NO_CHANGE,
        initfile: OptionalText = NO_CHANGE,
        comment: OptionalText = NO_CHANGE,
        *,
        options: Mapping[str, str | float | None] | None = None,
        encrypted_options: Mapping[str, str] | None = None,
    ) -> None:
        """Alter an agent; ``max_threads`` (None keeps it) takes effect at its next start.

        What has no effect is stored with a warning, as in :meth:`create_agent`.

        Args:
            options, encrypted_options: to store, as :meth:`set_agent_option` takes them; an option of value None is
                removed. All changes are made together, or none.

        Raises:
            AdminError: ORA-32850; ORA-32801 user or password None; ORA-32843 range; ORA-32840 an option is unknown, or
                is to be removed and not set; ORA-32841 as :meth:`set_agent_option`.
        """
        if username is None or password is None:
            raise _bad(
                agent_name,
                "altering an agent cannot remove user name or password",
                "mgw agents remove-login (remove_agent_login)",
            )
        values: dict[str, Any] = {
            "username": username,
            "database": database,
            "conntype": conntype,
            "service": service,
            "initfile": initfile,
            "comments": comment,
        }
        changes = {name: value for name, value in values.items() if value is not NO_CHANGE}
        if max_memory is not None:
            changes["max_memory"] = max_memory
        if max_threads is not None:
            changes["max_threads"] = max_threads
        removed = [name for name, value in (options or {}).items() if value is None]
        kept = {name: value for name, value in (options or {}).items() if value is not None}
        given = checked_options(agent_name, kept, encrypted_options)
        with self.change("agent", agent_name) as conn:
            agent = replace(self.need_agent(conn, agent_name), **changes)
            _check_agent(agent)
            if password is not NO_CHANGE:
                if agent.username is None:
                    raise _bad(agent_name, "a password needs a user name", "give both")
                changes["password"] = self.secrets.encrypt(password)
            if changes:
                catalog.update_agent(conn, agent_name, **changes)
            self._drop_options(conn, agent_name, removed)
            self._store_options(conn, agent_name, given)
        self._tell_no_effect(agent, [name for name in (*without_effect(agent), "password") if name in changes])
        if "initfile" in changes:
            self._tell_missing(agent)

    def db_connect_info(self, username: str, password: str, database: str | None = None) -> None:
        """Set the login of the default agent, as :meth:`alter_agent` does; deprecated, and without effect as there.

        Args:
            database: None removes the stored one.

        Raises:
            AdminError: ORA-32801 user or password None.
        """
        self.alter_agent(DEFAULT_AGENT, username, password, database)

    def remove_agent_login(self, agent_name: str) -> None:
        """Remove user name and password of an agent, which have no effect, and the database that needs them.

        Raises:
            AdminError: ORA-32850 unknown agent.
        """
        with self.change("agent", agent_name) as conn:
            name = self.need_agent(conn, agent_name).name
            catalog.update_agent(conn, name, username=None, password=None, database=None)

    def remove_agent(self, agent_name: str) -> None:
        """Remove an agent that is stopped and has no links.

        Raises:
            AdminError: ORA-32850; ORA-32852 default agent; ORA-32827 not shut down; ORA-32853 links refer to it.
        """
        with self.change("agent", agent_name) as conn:
            agent = self.need_agent(conn, agent_name)
            if key(agent_name) == DEFAULT_AGENT:
                raise AdminError(
                    f"agent {DEFAULT_AGENT} cannot be removed",
                    number=Ora.AGENT_RESERVED,
                    cause="every gateway needs it",
                    cure="shut it down instead",
                )
            state = self._state(conn, agent_name)
            if state.status is not AgentStatus.NOT_STARTED:
                raise AdminError(
                    f"agent {agent.name} cannot be removed",
                    number=Ora.MUST_BE_SHUT_DOWN,
                    cause=f"its status is {state.status}",
                    cure="shut it down first",
                )
            if links := catalog.list_links(conn, agent=agent_name):
                raise AdminError(
                    f"agent {agent.name} cannot be removed",
                    number=Ora.AGENT_IN_USE,
                    cause=f"it runs the links {', '.join(link.name for link in links)}",
                    cure="remove those links first",
                )
            catalog.delete_agent(conn, agent_name)

    def startup(self, agent_name: str = DEFAULT_AGENT) -> None:
        """Schedule the agent; a running supervisor starts it. The hub's own login is used where the agent has no user.

        Raises:
            AdminError: ORA-32850; ORA-32845 started already; ORA-32846 cannot start in this status.
        """
        with self.change("agent", agent_name, "start", deed=True) as conn:
            name = self.need_agent(conn, agent_name).name
            status = self._state(conn, agent_name).status
            if status in _STARTED or status is AgentStatus.START_SCHEDULED:
                raise AdminError(
                    f"agent {name} is started already",
                    number=Ora.ALREADY_RUNNING,
                    cause=f"its status is {status}",
                    cure="nothing to do",
                )
            if status is not AgentStatus.NOT_STARTED:
                raise AdminError(
                    f"agent {name} cannot be started",
                    number=Ora.CANNOT_START,
                    cause=f"its status is {status}",
                    cure=f"end any leftover process, then run: mgw agents clean {agent_name} (CLEAN_STARTUP_STATE)"
                    if status is AgentStatus.BROKEN
                    else "wait until it is NOT_STARTED",
                )
            catalog.set_agent_state(conn, agent_name, AgentStatus.START_SCHEDULED, clear_error=True)

    def shutdown(self, agent_name: str = DEFAULT_AGENT, sdmode: str = "SHUTDOWN_NORMAL") -> None:
        """Ask the agent to stop; work in flight is finished. A scheduled agent is NOT_STARTED at once.

        Raises:
            AdminError: ORA-32850; ORA-32802 another mode; ORA-32825 not started; ORA-32829 still starting.
        """
        if sdmode != "SHUTDOWN_NORMAL":
            raise AdminError(
                f"agent {agent_name} cannot be shut down with mode {sdmode!r}",
                number=Ora.VALUE_MUST_BE,
                cause="the only mode is SHUTDOWN_NORMAL",
                cure="leave the mode out",
            )
        with self.change("agent", agent_name, "stop", deed=True) as conn:
            name = self.need_agent(conn, agent_name).name
            status = self._state(conn, agent_name).status
            if status in (AgentStatus.NOT_STARTED, AgentStatus.BROKEN):
                raise AdminError(
                    f"agent {name} is not started",
                    number=Ora.NOT_STARTED,
                    cause=f"its status is {status}",
                    cure="nothing to do"
                    if status is AgentStatus.NOT_STARTED
                    else f"mgw agents clean {name} (CLEAN_STARTUP_STATE)",
                )
            if status is AgentStatus.STARTING:
                raise AdminError(
                    f"agent {name} cannot be shut down now",
                    number=Ora.STILL_STARTING,
                    cause="it is still starting",
                    cure="try again in a few seconds",
                )
            if status is AgentStatus.START_SCHEDULED:
                catalog.set_agent_state(conn, agent_name, AgentStatus.NOT_STARTED)
            elif status is not AgentStatus.SHUTTING_DOWN:
                catalog.set_agent_state(conn, agent_name, AgentStatus.SHUTTING_DOWN)

    def set_log_level(self, log_level: int, agent_name: str = DEFAULT_AGENT) -> None:
        """Set the log level of a running agent, 0 (basic) to 4 (debug high); it lasts until the agent stops.

        Raises:
            AdminError: ORA-32850; ORA-32843 range; ORA-32828 not running.
        """
        _check_range(agent_name, "log level", log_level, 0, 4)
        with self.change("agent", agent_name, f"set log level {log_level} of", deed=True) as conn:
            self._need_running(conn, agent_name)
            catalog.update_agent(conn, agent_name, log_level=log_level)

    def clean_startup_state(self, agent_name: str) -> None:
        """``CLEAN_STARTUP_STATE``: back to NOT_STARTED after a run that left its status behind.

        While the lease is in force the agent is pinged first, which takes up to 5 seconds. A process that is left
        over can store nothing more.

        Raises:
            AdminError: ORA-32850; ORA-32802 its status is NOT_STARTED or START_SCHEDULED, no shutdown was attempted
                (except while it is STARTING or BROKEN), or the agent answers.
        """
        leased = self.agent_state(agent_name).alive(self.clock.now())
        answers = leased and self.ping_agent(agent_name) == REACHABLE
        with self.change("agent", agent_name, "clean", deed=True) as conn:
            name = self.need_agent(conn, agent_name).name
            state = self._state(conn, agent_name)
            cure = ""
            if state.status in (AgentStatus.NOT_STARTED, AgentStatus.START_SCHEDULED):
                cure = "nothing to clean up"
            elif answers:
                cure = "the agent responds: shut it down"
            elif state.status in (AgentStatus.INITIALIZING, AgentStatus.RUNNING):
                cure = "shut it down first; clean up if that does not end"
            if cure:
                raise AdminError(
                    f"startup state of agent {name} is not cleaned",
                    number=Ora.VALUE_MUST_BE,
                    cause=f"its status is {state.status}",
                    cure=cure,
                )
            catalog.clear_agent_run(conn, agent_name)

    def _tell_no_effect(self, agent: AgentDef, names: list[str]) -> None:
        if names and self.tell_no_effect:
            _LOGGER.warning("agent %s: %s stored, has no effect", agent.name, ", ".join(names))

    def _tell_missing(self, agent: AgentDef) -> None:
        if agent.initfile is not None and not Path(agent.initfile).is_file():
            _LOGGER.warning(
                "agent %s: initialization file %s does not exist on this host; the agent does not start without it",
                agent.name,
                agent.initfile,
            )

    def _need_running(self, conn: sa.Connection, agent_name: str) -> None:
        name = self.need_agent(conn, agent_name).name
        state = self._state(conn, agent_name)
        if state.status is not AgentStatus.RUNNING or not state.alive(self.clock.now()):
            answers = "" if state.alive(self.clock.now()) else " and no process answers"
            raise AdminError(
                f"agent {name} is not running",
                number=Ora.NOT_RUNNING,
                cause=f"its status is {state.status}{answers}",
                cure="start it first",
            )

    def _state(self, conn: sa.Connection, agent_name: str) -> AgentState:
        self.need_agent(conn, agent_name)
        state = catalog.agent_state(conn, agent_name)
        assert state is not None  # noqa: S101  it exists, in the same transaction
        return state


def _check_agent(agent: AgentDef) -> None:
    for name in ("max_threads", "max_memory"):
        described = AGENT_ATTRIBUTES[name]
        _check_range(agent.name, name, getattr(agent, name), int(described.minimum or 0), int(described.maximum or 0))
    if agent.conntype not in _CONNTYPES:
        raise AdminError(
            f"agent {agent.name}: connection type {agent.conntype!r} is unknown",
            number=Ora.VALUE_MUST_BE,
            cause=f"it is one of {', '.join(_CONNTYPES)}",
            cure="correct it or leave it out",
        )
    if agent.database is not None and agent.username is None:
        raise _bad(agent.name, "a database needs a user name", "give user name and password, or no database")
    check_text(f"comment of agent {agent.name}", agent.comments)


def _check_range(agent_name: str, what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise AdminError(
            f"agent {agent_name}: {what} cannot be {value!r}",
            number=Ora.OUT_OF_RANGE,
            cause=f"it is a whole number from {low} to {high}",
            cure="choose one in that range",
        )


def _bad(agent_name: str, cause: str, cure: str) -> AdminError:
    return AdminError(f"agent {agent_name} cannot be stored so", number=Ora.INVALID_VALUE, cause=cause, cure=cure)
