"""Who has a hub on PostgreSQL open: every connection of a hub shares an advisory lock of the hub's.

An upgrade needs that lock for itself, so it never changes tables under a program that goes on with the statements of
another release. A program whose connections were all lost, and came back after an upgrade, is refused when it connects.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from mgw.transforms.errors import HubVersionMismatch

__all__ = ["HUB_LOCK", "Membership"]

#: Class of the advisory lock; its number is that of table ``aq_hub``, so every hub of a database has one.
HUB_LOCK = 7164115
_JOIN = f"""
    SELECT h.schema_version, h.upgraded, session_user, pg_has_role(session_user, c.relowner, 'USAGE')
      FROM pg_class c CROSS JOIN aq_hub h CROSS JOIN pg_advisory_lock_shared({HUB_LOCK}, 'aq_hub'::regclass::oid::int)
     WHERE c.oid = 'aq_hub'::regclass"""


class Membership:
    """That this program has the hub open.

    Args:
        where: the hub as shown to people.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: tuple[Any, ...] | None = None

    def begin(self, conn: sa.Connection) -> str | None:
        """The hub was found fit to be opened: the connection shares its lock, and so does every later one.

        Returns:
            The login of this program, if it does not have the rights of the owner of the hub's tables.
        """
        version, upgraded, login, owns = conn.exec_driver_sql(_JOIN).one()
        self._known = (version, upgraded)
        return None if owns else str(login)

    def connected(self, connection: Any) -> None:
        """A connection of the driver was made.

        Raises:
            HubVersionMismatch: the hub was upgraded since this program opened it.
        """
        if self._known is None:
            return
        row = connection.execute(_JOIN).fetchone()
        connection.commit()
        version, upgraded, _, _ = row or (None,) * 4
        if (version, upgraded) != self._known:
            raise HubVersionMismatch(
                f"hub {self._where} was upgraded while this program had it open",
                cause="the program still uses the old tables",
                cure="restart the program, with the release that upgraded the hub",
            )
