"""What the source and the destination of a job have in common: a session from connect to close."""

from __future__ import annotations

from mgw.links.contract import JobUse
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.errors import alarm
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.errors import LinkUnavailable

__all__ = ["End"]


class End:
    """The session that the source or the destination of a job holds from connect to close."""

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self._settings = settings
        self._use = use
        self._session: Session | None = None

    @property
    def limit(self) -> str:
        """See :class:`mgw.links.contract.Limited`: an alarm of the broker."""
        session = self._session
        return "" if session is None else alarm(session.blocked)

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Source.interrupt`."""
        session = self._session
        if session is not None:
            session.interrupt()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Source.close`."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _connected(self, operation: str) -> Session:
        if self._session is None:
            raise LinkUnavailable(
                f"foreign queue {self._use.endpoint.full_name}: not connected",
                link=self._settings.link,
                operation=operation,
                cause="connect was not called",
            )
        return self._session
