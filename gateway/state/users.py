"""Statements on the users of the web face, their tokens and their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Db
from mgw.gateway.definitions.roles import Role
from mgw.gateway.state.tables import user

__all__ = [
    "TokenRow",
    "UserRow",
    "delete_session",
    "delete_sessions",
    "delete_token",
    "delete_user",
    "find_session",
    "find_token",
    "get_user",
    "has_users",
    "insert_session",
    "insert_token",
    "insert_user",
    "list_tokens",
    "list_users",
    "lock_users",
    "prune_sessions",
    "set_password",
    "set_role",
    "touch_session",
    "touch_token",
]

_USER = "u.name, u.role, u.password, u.created"
_TOKEN = "t.id, u.name, t.role, t.comments, t.created, t.expires, t.used"
_USERS = f"SELECT {_USER} FROM gw_user u ORDER BY u.name_key"
_ONE = f"SELECT {_USER} FROM gw_user u WHERE u.name_key = ?"
_LOCK = sa.select(user.c.name_key).order_by(user.c.name_key).with_for_update()
_ANY = "SELECT 1 FROM gw_user LIMIT 1"
_INSERT = "INSERT INTO gw_user (name_key, name, role, password, created) VALUES (?, ?, ?, ?, ?)"
_PASSWORD = "UPDATE gw_user SET password = ? WHERE name_key = ?"
_ROLE = "UPDATE gw_user SET role = ? WHERE name_key = ?"
_DELETE = "DELETE FROM gw_user WHERE name_key = ?"
_TOKENS = f"SELECT {_TOKEN} FROM gw_token t JOIN gw_user u ON u.name_key = t.user_key ORDER BY u.name_key, t.created"
_FOUND_TOKEN = (
    f"SELECT {_TOKEN}, t.digest, u.role FROM gw_token t JOIN gw_user u ON u.name_key = t.user_key WHERE t.id = ?"
)
_INSERT_TOKEN = """INSERT INTO gw_token (id, user_key, digest, role, comments, created, expires, used)
                   VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"""
_USED = "UPDATE gw_token SET used = ? WHERE id = ?"
_DELETE_TOKEN = "DELETE FROM gw_token WHERE id = ?"
_SESSION = """SELECT u.name, u.role, s.created, s.seen FROM gw_session s JOIN gw_user u ON u.name_key = s.user_key
              WHERE s.digest = ?"""
_INSERT_SESSION = "INSERT INTO gw_session (digest, user_key, created, seen) VALUES (?, ?, ?, ?)"
_SEEN = "UPDATE gw_session SET seen = ? WHERE digest = ?"
_DELETE_SESSION = "DELETE FROM gw_session WHERE digest = ?"
_DELETE_SESSIONS = "DELETE FROM gw_session WHERE user_key = ?"
_PRUNE = "DELETE FROM gw_session WHERE seen < ? OR created < ?"


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user. ``password`` is the hash, None for one with tokens alone."""

    name: str
    role: Role
    password: str | None
    created: float


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token: its public part, whose it is, what it may do at most, and epoch seconds."""

    id: str
    user: str
    role: Role
    comment: str | None
    created: float
    expires: float | None
    used: float | None


def has_users(conn: sa.Connection) -> bool:
    """Whether anybody has to log in."""
    return Db(conn).row(_ANY) is not None


def list_users(conn: sa.Connection) -> list[UserRow]:
    """All users, by name."""
    return [_user(row) for row in Db(conn).rows(_USERS)]


def lock_users(conn: sa.Connection) -> None:
    """Have others who change users wait until this transaction ends."""
    conn.execute(_LOCK)


def get_user(conn: sa.Connection, name: str) -> UserRow | None:
    """A user by name, in whatever letter case."""
    row = Db(conn).row(_ONE, (name.upper(),))
    return None if row is None else _user(row)


def _user(found: Sequence[Any]) -> UserRow:
    name, role, password, created = found
    return UserRow(name, Role(role), password, created)


def insert_user(conn: sa.Connection, name: str, role: Role, password: str | None, now: float) -> None:
    """Store a new user."""
    Db(conn).run(_INSERT, (name.upper(), name, str(role), password, now))


def set_password(conn: sa.Connection, name: str, password: str | None) -> None:
    """Store another hash."""
    Db(conn).run(_PASSWORD, (password, name.upper()))


def set_role(conn: sa.Connection, name: str, role: Role) -> None:
    """Store another role."""
    Db(conn).run(_ROLE, (str(role), name.upper()))


def delete_user(conn: sa.Connection, name: str) -> None:
    """Remove a user with tokens and sessions."""
    Db(conn).run(_DELETE, (name.upper(),))


def list_tokens(conn: sa.Connection) -> list[TokenRow]:
    """All tokens, by user."""
    return [_token(row) for row in Db(conn).rows(_TOKENS)]


def _token(found: Sequence[Any]) -> TokenRow:
    number, user, role, comment, created, expires, used = found
    return TokenRow(number, user, Role(role), comment, created, expires, used)


def find_token(conn: sa.Connection, token_id: str) -> tuple[TokenRow, str, Role] | None:
    """A token, the digest of its secret, and the role that its user has."""
    for *token, digest, role in Db(conn).rows(_FOUND_TOKEN, (token_id,)):
        return _token(token), digest, Role(role)
    return None


def insert_token(conn: sa.Connection, token: TokenRow, digest: str) -> None:
    """Store a new token."""
    values = (token.id, token.user.upper(), digest, str(token.role), token.comment, token.created, token.expires)
    Db(conn).run(_INSERT_TOKEN, values)


def touch_token(conn: sa.Connection, token_id: str, now: float) -> None:
    """The token was used."""
    Db(conn).run(_USED, (now, token_id))


def delete_token(conn: sa.Connection, token_id: str) -> bool:
    """Remove a token; whether there was one."""
    return Db(conn).run(_DELETE_TOKEN, (token_id,)) > 0


def find_session(conn: sa.Connection, digest: str) -> tuple[str, Role, float, float] | None:
    """Name and role of the user of a session, when it began and when it was last seen."""
    for name, role, created, seen in Db(conn).rows(_SESSION, (digest,)):
        return name, Role(role), created, seen
    return None


def insert_session(conn: sa.Connection, digest: str, user: str, now: float) -> None:
    """Store a new session."""
    Db(conn).run(_INSERT_SESSION, (digest, user.upper(), now, now))


def touch_session(conn: sa.Connection, digest: str, now: float) -> None:
    """The session was used."""
    Db(conn).run(_SEEN, (now, digest))


def delete_session(conn: sa.Connection, digest: str) -> None:
    """End a session."""
    Db(conn).run(_DELETE_SESSION, (digest,))


def delete_sessions(conn: sa.Connection, user: str) -> None:
    """End all sessions of a user."""
    Db(conn).run(_DELETE_SESSIONS, (user.upper(),))


def prune_sessions(conn: sa.Connection, *, unseen: float, begun: float) -> None:
    """Remove the sessions that were last seen, or begun, before those epoch seconds."""
    Db(conn).run(_PRUNE, (unseen, begun))
