"""A write transaction of the hub on the path of every message.

It is what :meth:`Hub.write` is, on the driver's connection itself: what SQLAlchemy does at the beginning
and the end of a transaction costs more there than most statements.
"""

from __future__ import annotations

from types import TracebackType

from mgw.gateway.aq.store import pg_protocol
from mgw.gateway.aq.store.ground import Ground
from mgw.gateway.aq.store.statements import Db

__all__ = ["Writing"]


class Writing:
    """Context manager: a transaction that commits at the end, and rolls back when the body raises.

    The :class:`Db` it gives is the transaction's only one: SQLAlchemy does not know that one is open.

    Args:
        durable: as for :meth:`mgw.gateway.aq.hub.Hub.write`.

    Raises:
        HubUnavailable, HubFull, HubError: instead of any database error, at the beginning, in the body and at the end.
    """

    __slots__ = ("_begun", "_durable", "_hub", "_writer")

    def __init__(self, hub: Ground, *, durable: bool = True) -> None:
        self._hub = hub
        self._durable = durable
        self._begun = False

    def __enter__(self) -> Db:
        hub = self._hub
        hub.take_turn()
        try:
            self._writer = writer = hub.take_writer()
            self._begun = True
            if hub.postgresql:
                return Db.within(writer, postgresql=True)
            state = writer[2]
            state.durable = self._durable
            assert state.begin is not None  # noqa: S101  (SQLite)
            state.begin(writer[1], state)
            return Db.within(writer, postgresql=False)
        except BaseException as error:
            self._give_up(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._give_up(error)
            return
        hub, driver = self._hub, self._writer[1]
        try:
            if hub.postgresql:
                pg_protocol.commit(driver)
            else:
                driver.commit()
                hub.committed()
        except BaseException as failed:
            self._give_up(failed)
            raise
        state = self._writer[2]
        tally = state.tally
        if tally:
            state.tally = []
        try:
            hub.keep_writer(self._writer)
        finally:
            hub.end_turn()
        if tally:
            hub.statistics.add(tally)

    def _give_up(self, error: BaseException) -> None:
        """Undo everything; raise the hub's error for one of the database."""
        hub = self._hub
        try:
            if self._begun:
                hub.drop_writer(self._writer[0])
        finally:
            hub.end_turn()
        known = hub.translate(error) if isinstance(error, Exception) else None
        if known is not None:
            raise known from error
