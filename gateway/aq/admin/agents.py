"""Procedures on AQ agents and the database users they act for (AQ guide 12.2 §8.8)."""

from __future__ import annotations

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
            return security_sql.find_agents(db, name)[0]

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
            name = _need(db, agent_name).name
            _check_protocol(name, certificate_location, enable_http or enable_anyp)
            now = self.hub.clock.now()
            security_sql.upsert_agent(db, name, certificate_location, enable_http, enable_anyp, now)
            return security_sql.find_agents(db, name)[0]

    def drop_aq_agent(self, agent_name: str) -> None:
        """Remove an agent with its mappings (AQ guide 12.2 §8.8.3).

        Raises:
            AqError: 24088 unknown, 1031 no privilege.
        """
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_administrator(db)
            security_sql.delete_agent(db, _need(db, agent_name).name)

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
            security_sql.map_agent(db, _need(db, agent_name).name, user)

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
            name = _need(db, agent_name).name
            if not security_sql.unmap_agent(db, name, user):
                raise AgentNotMapped(
                    f"AQ agent {name} does not have the privileges of user {user}",
                    cause="it was never mapped to that user, or the mapping was ended",
                    cure="list the mappings: mgw aq agents list",
                )

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
