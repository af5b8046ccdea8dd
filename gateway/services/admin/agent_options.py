"""Procedures on options of agents: SET_OPTION and REMOVE_OPTION (AQ guide 12.2 §19.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.definitions.agent_options import check_option, option_refusal
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.gateway.services.admin.base import Administration, Ora, check_text
from mgw.gateway.state import catalog
from mgw.gateway.state.catalog import AgentOption
from mgw.transforms.errors import AdminError, GatewayError

__all__ = ["AgentOptionProcedures", "checked_options"]


class _Given(NamedTuple):
    """An option that is to be stored; ``text`` is what it has in clear."""

    name: str
    text: str | None
    encrypted: bool


class AgentOptionProcedures(Administration):
    """List, store and remove options of agents."""

    def list_agent_options(self, agent_name: str = DEFAULT_AGENT) -> list[AgentOption]:
        """Options of an agent; encrypted values show as ``<<ENCRYPTED>>``.

        Raises:
            AdminError: ORA-32850.
        """
        with self.hub.read() as conn:
            self.need_agent(conn, agent_name)
            return catalog.list_agent_options(conn, agent_name, None)

    def set_agent_option(
        self, agent_name: str, name: str, value: str | float | None, *, encrypted: bool = False
    ) -> None:
        """Store an agent option, as text; applied at the agent's next start.

        Raises:
            AdminError: ORA-32850; ORA-32840 unknown name; ORA-32841 the value is none for that option.
        """
        given = _checked(agent_name, name, value, encrypted=encrypted)
        with self.change("agent", agent_name) as conn:
            self.need_agent(conn, agent_name)
            self._store_options(conn, agent_name, [given])

    def remove_agent_option(self, agent_name: str, name: str) -> None:
        """Remove an agent option; effective at the agent's next start.

        Raises:
            AdminError: ORA-32850; ORA-32840 it is not set.
        """
        with self.change("agent", agent_name) as conn:
            self.need_agent(conn, agent_name)
            self._drop_options(conn, agent_name, [name])

    def _store_options(self, conn: sa.Connection, agent_name: str, given: Iterable[_Given]) -> None:
        for name, text, encrypted in given:
            stored = self.secrets.encrypt(text) if encrypted and text is not None else text
            catalog.set_agent_option(conn, agent_name, name, stored, encrypted=encrypted)

    @staticmethod
    def _drop_options(conn: sa.Connection, agent_name: str, names: Iterable[str]) -> None:
        for name in names:
            if not catalog.delete_agent_option(conn, agent_name, name):
                raise AdminError(
                    f"agent {agent_name} has no option {name!r}",
                    number=Ora.OPTION_UNKNOWN,
                    cause="it is not set",
                    cure=f"mgw agents show {agent_name} lists those that are (view MGW_AGENT_OPTIONS)",
                )


def checked_options(
    agent_name: str, options: Mapping[str, str | float | None] | None, encrypted: Mapping[str, str] | None
) -> list[_Given]:
    """Options that may be stored.

    Raises:
        AdminError: ORA-32840, ORA-32841 as :meth:`AgentOptionProcedures.set_agent_option`; ORA-32801 an option is given
            both ways.
    """
    plain, hidden = options or {}, encrypted or {}
    if twice := {name.lower() for name in plain} & {name.lower() for name in hidden}:
        raise AdminError(
            f"agent {agent_name}: option {min(twice)} is given in clear and encrypted",
            number=Ora.INVALID_VALUE,
            cause="it has one value",
            cure="give it once",
        )
    return [
        *(_checked(agent_name, name, value, encrypted=False) for name, value in plain.items()),
        *(_checked(agent_name, name, value, encrypted=True) for name, value in hidden.items()),
    ]


def _checked(agent_name: str, name: str, value: str | float | None, *, encrypted: bool) -> _Given:
    text = value if value is None else str(value)
    check_text(f"option {name} of agent {agent_name}", text)
    if refusal := option_refusal(name):
        cause, cure = refusal
        raise AdminError(
            f"agent {agent_name}: option {name!r} is unknown", number=Ora.OPTION_UNKNOWN, cause=cause, cure=cure
        )
    try:
        check_option(name, text, f"agent {agent_name}")
    except GatewayError as error:
        raise AdminError(error.what, number=Ora.OPTION_INVALID, cause=error.cause, cure=error.cure) from error
    return _Given(name, text, encrypted)
