"""The ground of a hub with what its sessions in this process share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakSet

import sqlalchemy as sa

from mgw.gateway.aq.errors import PrivilegeMissing
from mgw.gateway.aq.grants import OWNERS
from mgw.gateway.aq.model import Durability
from mgw.gateway.aq.queues.statistics import Statistics
from mgw.gateway.aq.sessions.attempts import Attempts, RolledBack
from mgw.gateway.aq.sessions.session_leases import SessionRegistry
from mgw.gateway.aq.store.files import HubFiles
from mgw.gateway.aq.store.ground import Ground
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.notify import Notifier
from mgw.transforms.clock import Clock

__all__ = ["Ending", "SessionGround"]


class Ending(Protocol):
    """A session, which ends with the hub at the latest."""

    def close_idle(self) -> None:
        """Close it, unless a call is under way."""
        ...


class SessionGround(Ground):
    """The base of the sessions of a hub.

    Attributes:
        statistics: what this process did with the queues.
        transform_modules: modules whose functions transformations may call.
        attempts: counts failed attempts of messages of rolled back transactions.
        login: PostgreSQL login of this program, if it lacks the rights of the owner of the hub's tables; None
            otherwise, and on SQLite.
    """

    statistics: Statistics

    def __init__(  # noqa: PLR0917
        self,
        engine: sa.Engine,
        hub_id: bytes,
        durability: Durability,
        clock: Clock,
        notifier: Notifier,
        namespace: Namespace | None = None,
        files: HubFiles | None = None,
        login: str | None = None,
        transform_modules: Sequence[str] = (),
    ) -> None:
        super().__init__(engine, hub_id, durability, clock, Statistics(clock), notifier, namespace, files)
        self.login = login
        self.transform_modules = tuple(transform_modules)
        self.attempts = Attempts(self)
        self._registry: SessionRegistry | None = None
        self._registry_mutex = threading.Lock()
        self._sessions: WeakSet[Ending] = WeakSet()

    @property
    def rolled_back(self) -> RolledBack:
        """Messages of rolled back transactions whose failed attempt is still to be counted."""
        return self.attempts.rolled_back

    def close(self) -> None:
        """See :meth:`mgw.gateway.aq.hub.Hub.close`."""
        self._open = False
        self.notifier.close()
        with self._registry_mutex:
            sessions = list(self._sessions)
        for session in sessions:
            session.close_idle()
        self.attempts.close()
        with self._registry_mutex:
            registry, self._registry = self._registry, None
        if registry is not None:
            registry.close()
        self.statistics.forget(self)
        self.end_checkpoints()
        self.drop_writers()
        self.engine.dispose()

    def began(self, session: Ending) -> None:
        """Register a session with its own transactions, so that it ends with the hub."""
        with self._registry_mutex:
            self._sessions.add(session)

    def user_for(self, user: str | None) -> str | None:
        """The user for whom work is done: the one named, or the login of a program that is not the owner of the hub.

        Raises:
            AqError: 1031 a program that has not the rights of the hub's owner works as its own login only, and that
                has to be the name of a user.
        """
        login = self.login
        if login is None:
            return user
        if login.strip() != login or '"' in login:  # as the name of a user it would be another's
            raise PrivilegeMissing(
                f"login {login} may not use hub {self.name}",
                cause="its name has double quotes in it or blanks around it, and no user of the hub has such a name",
                cure="log in under another name",
            )
        if login.upper() not in OWNERS and (user is None or user.strip().upper() == login.upper()):
            return login
        raise PrivilegeMissing(
            f"login {login} may not work as {user or 'the owner'} of hub {self.name}",
            cause="it does not have the rights of the owner of the hub's tables",
            cure="leave the user out, or log in as the owner",
        )

    @property
    def registry(self) -> SessionRegistry:
        """The sessions of this process that hold claims, and their lease."""
        with self._registry_mutex:
            if self._registry is None:
                self._registry = SessionRegistry(self)
            return self._registry

    def renew_leases(self) -> None:
        """Prolong the leases of this process's sessions where it is time; its lease thread does so every 10 s."""
        with self._registry_mutex:
            registry = self._registry
        if registry is not None:
            registry.renew()
