"""Procedures on AQ agents and the database users they act for (AQ guide 12.2 §8.8)."""

from __future__ import annotations

from dataclasses import asdict

import sqlalchemy as sa

from mgw.gateway.aq.admin.base import Administration
from mgw.gateway.aq.errors import AgentExists, AgentMissing, AgentNameInvalid, AgentNotMapped, AgentWithoutProtocol
from mgw.gateway.aq.grants import AqAgent
from mgw.gateway.aq.names import agent_name, user_name
from mgw.gateway.aq.security import security_sql
from mgw.gateway.aq.store.statements import Db

__all__ = ["AgentProcedures"]


class AgentProcedures(Administration):
    """Make, alter, drop and map AQ agents; for the hub's owner and its administrators."""

    def create_aq_agent(
        self,
        agent_name: str,
        certificate_location: str | None = None,
        enable_http: bool = False,
        enable_anyp: bool = False,
    ) -> AqAgent:
        """Register an agent, for secure queues or for access over HTTP (AQ guide 12.2 §8.8.1).

        Args:
            agent_name: at most 128 characters.
            certificate_location: where the agent's certificate is, for access over the Internet.
            enable_http: the agent may use HTTP.
            enable_anyp: the agent may use any protocol.

        Raises:
            AqError: 24089 exists, 24019, 24047, 24049 name, 24090 a certificate without a protocol, 1031 no privilege.
        """
        name = _checked(agent_name)
        _check_protocol(name, certificate_location, enable_http or enable_anyp)
        with self.change() as conn:
            db = Db(conn)
            self._require_administrator(db)
            if security_sql.find_agents(db, name):
                raise AgentExists(
                    f"AQ agent {name} already exists",
                    cause="it was created before, or for a subscriber of that name",
                    cure="alter it: alter_aq_agent",
                )
            now = self.hub.clock.now()
            security_sql.upsert_agent(db, name, certificate_location, enable_http, enable_anyp, now)
            made = security_sql.find_agents(db, name)[0]
            self._note(conn, "create", "aq agent", name, None, asdict(made))
            return made

    def alter_aq_agent(
        self,
        agent_name: str,
        certificate_location: str | None = None,
        enable_http: bool = False,
        enable_anyp: bool = False,
    ) -> AqAgent:
        """Set all attributes of an agent; what is not given becomes None or False (AQ guide 12.2 §8.8.2).

        Raises:
            AqError: 24088 unknown, 24090 a certificate without a protocol, 1031 no privilege.
        """
        with self.change() as conn:
            db = Db(conn)
            self._require_administrator(db)
            found = _need(db, agent_name)
            _check_protocol(found.name, certificate_location, enable_http or enable_anyp)
            now = self.hub.clock.now()
            security_sql.upsert_agent(db, found.name, certificate_location, enable_http, enable_anyp, now)
            altered = security_sql.find_agents(db, found.name)[0]
            self._note(conn, "alter", "aq agent", found.name, asdict(found), asdict(altered))
            return altered

    def drop_aq_agent(self, agent_name: str) -> None:
        """Remove an agent with its mappings (AQ guide 12.2 §8.8.3).

        Raises:
            AqError: 24088 unknown, 1031 no privilege.
        """
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_administrator(db)
            found = _need(db, agent_name)
            security_sql.delete_agent(db, found.name)
            self._note(conn, "drop", "aq agent", found.name, asdict(found))

    def enable_db_access(self, agent_name: str, db_username: str) -> None:
        """Give an agent the privileges of a database user (AQ guide 12.2 §8.8.4).

        An agent may act for many users, and many agents for one.

        Raises:
            AqError: 24088 unknown agent, 25200 not the name of a user, 1031 no privilege.
        """
        user = user_name(db_username)
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_administrator(db)
            found = _need(db, agent_name)
            security_sql.map_agent(db, found.name, user)
            self._note_users(conn, found)

    def disable_db_access(self, agent_name: str, db_username: str) -> None:
        """Take the privileges of a database user from an agent (AQ guide 12.2 §8.8.5).

        Raises:
            AqError: 24088 unknown agent, 24093 the agent has not that user's privileges, 1031 no privilege.
        """
        user = user_name(db_username)
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_administrator(db)
            found = _need(db, agent_name)
            if not security_sql.unmap_agent(db, found.name, user):
                raise AgentNotMapped(
                    f"AQ agent {found.name} does not have the privileges of user {user}",
                    cause="it was never mapped to that user, or the mapping was ended",
                    cure="list the mappings: mgw aq agents list",
                )
            self._note_users(conn, found)

    def enable_aq_agent(self, agent_name: str, db_username: str) -> None:
        """Another name of :meth:`enable_db_access` (AQ guide 12.2 §3.7.1)."""
        self.enable_db_access(agent_name, db_username)

    def disable_aq_agent(self, agent_name: str, db_username: str) -> None:
        """Another name of :meth:`disable_db_access` (AQ guide 12.2 §3.7.1)."""
        self.disable_db_access(agent_name, db_username)

    def aq_agents(self) -> list[AqAgent]:
        """Every agent with its users, by name; a user who does not administer the hub sees the agents of the user."""
        with self.look() as db:
            found = security_sql.find_agents(db)
            rights = self.rights
            if rights is None or rights.administers(db):
                return found
            return [each for each in found if rights.key in {user.upper() for user in each.users}]

    def _note_users(self, conn: sa.Connection, before: AqAgent) -> None:
        """Write into the audit for which users an agent acts now."""
        after = security_sql.find_agents(Db(conn), before.name)[0]
        self._note(conn, "alter", "aq agent", before.name, asdict(before), asdict(after))

    def _require_administrator(self, db: Db) -> None:
        if self.rights is not None:
            self.rights.require_administrator(db, "administer AQ agents")


def _checked(text: str) -> str:
    name = agent_name(text)
    if name is None:
        raise AgentNameInvalid("an AQ agent needs a name")
    return name


def _need(db: Db, text: str) -> AqAgent:
    name = _checked(text)
    found = security_sql.find_agents(db, name)
    if not found:
        raise AgentMissing(
            f"AQ agent {name} does not exist",
            cause="it was created neither directly nor for a subscriber",
            cure="create it: create_aq_agent",
        )
    return found[0]


def _check_protocol(name: str, certificate_location: str | None, enabled: bool) -> None:
    if certificate_location is not None and not enabled:
        raise AgentWithoutProtocol(
            f"AQ agent {name} has a certificate and may use no protocol",
            cause="a certificate is for access over the Internet",
            cure="set enable_http or enable_anyp, or leave the certificate out",
        )
