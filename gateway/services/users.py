"""Users of the web face: who they are, what they may do, how they prove it.

Passwords are kept as Argon2id hashes. Tokens and session cookies are random (256 bits), so a plain digest of them is
kept; neither can be read back. Every change is an event, and an entry of the audit.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mgw.gateway.aq import Changed, Hub, keep_change
from mgw.gateway.definitions.roles import Role
from mgw.gateway.observe.access_events import UserChanged
from mgw.gateway.observe.events import Journalist
from mgw.gateway.runtime.timekeeping import events_of
from mgw.gateway.services.admin.recorded import RENEWED, SECRETS
from mgw.gateway.state import users as stored
from mgw.gateway.state.users import TokenRow, UserRow
from mgw.transforms.errors import AdminError, GatewayError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["KEPT", "Identity", "Kept", "Role", "TokenRow", "UserRow", "Users"]

SESSION_SECONDS = 12 * 3600.0  # since a session was begun
IDLE_SECONDS = 3600.0  # since it was last used
_SEEN_EVERY = 60.0  # seconds between two notes that a session is used
_USED_EVERY = 3600.0  # the same of a token
_SHORTEST, _LONGEST = 12, 1024  # characters of a password
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,127}")
_TOKEN = re.compile(r"mgw_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_AT_ONCE = threading.BoundedSemaphore(2)  # a hash takes 64 MiB for a moment


class Kept(Enum):
    """In the place of a value that stays as it is, where None is a value."""

    KEPT = auto()


KEPT = Kept.KEPT


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, and what may be done.

    Attributes:
        how: ``session``, ``token``, or ``open``: nobody has to log in.
        csrf: what a page sends back with every change; of sessions alone.
    """

    name: str
    role: Role
    how: str
    csrf: str = ""


class Users:
    """The users of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    # ---------------------------------------------------------------------------------------------------- procedures

    def exist(self) -> bool:
        """Whether anybody has to log in."""
        with self._hub.read() as conn:
            return stored.has_users(conn)

    def overview(self) -> list[UserRow]:
        """All users, by name."""
        with self._hub.read() as conn:
            return stored.list_users(conn)

    def get(self, name: str) -> UserRow:
        """A user.

        Raises:
            AdminError: there is none of that name.
        """
        with self._hub.read() as conn:
            return self._known(conn, name)

    def tokens(self) -> list[TokenRow]:
        """All tokens, by user."""
        with self._hub.read() as conn:
            return stored.list_tokens(conn)

    def add(self, name: str, role: Role, password: str | None, *, by: str) -> None:
        """Make a user; ``password`` None: with tokens alone.

        Raises:
            AdminError: there is one of that name; the name or the password cannot be used; the first user is no
                administrator.
        """
        if not _NAME.fullmatch(name):
            raise AdminError(
                f"user {name!r:.140} cannot be created",
                cause="a name is a letter, then up to 127 letters, digits, and _ . @ -",
                cure="choose another name",
            )
        hashed = None if password is None else self._hash(name, password)
        with self._hub.write() as conn:
            if stored.get_user(conn, name) is not None:
                raise AdminError(f"user {name} cannot be created", cause="it exists", cure="choose another name")
            if not stored.has_users(conn) and role is not Role.ADMINISTRATOR:
                raise AdminError(
                    f"user {name} cannot be the first one",
                    cause="with the first user everybody has to log in, and nobody could administer users",
                    cure="create an administrator first: mgw users add NAME --role administrator",
                )
            stored.insert_user(conn, name, role, hashed, self._hub.clock.now())
            self._keep(conn, "create", name, None, _shown(role, hashed), by)
        self._tell(name, f"created as {role.lower()}", by)

    def set_password(self, name: str, password: str | None, *, by: str) -> str:
        """Give a user another password, None: no more; ends the sessions of the user. The name as it was defined.

        Raises:
            AdminError: there is no such user, or the password cannot be used.
        """
        return self.alter(name, password=password, by=by).name

    def set_role(self, name: str, role: Role, *, by: str) -> str:
        """Give a user another role; it holds from the next request on. The name as it was defined.

        Raises:
            AdminError: there is no such user, or no administrator would be left.
        """
        return self.alter(name, role=role, by=by).name

    def alter(
        self,
        name: str,
        *,
        role: Role | None = None,
        password: str | Kept | None = KEPT,
        by: str,
        check: Callable[[UserRow], None] = lambda _: None,
    ) -> UserRow:
        """Give a user another role, another password, or both: together or not at all. The user as it is then.

        Args:
            role: holds from the next request on; None: it stays.
            password: another one ends the sessions of the user; None: no more.
            check: gets the user as it is before, and refuses the change by raising.

        Raises:
            AdminError: there is no such user, the password cannot be used, or no administrator would be left.
        """
        hashed = self._hash(name, password) if isinstance(password, str) else None
        told: list[str] = []
        with self._hub.write() as conn:
            stored.lock_users(conn)
            found = altered = self._known(conn, name)
            check(found)
            if role is not None and role is not found.role:
                if role is not Role.ADMINISTRATOR:
                    self._keep_an_administrator(conn, found)
                stored.set_role(conn, name, role)
                altered = replace(altered, role=role)
                told.append(f"is {role.lower()} now")
            if not isinstance(password, Kept):
                stored.set_password(conn, name, hashed)
                stored.delete_sessions(conn, name)
                altered = replace(altered, password=hashed)
                told.append("has no password any more" if hashed is None else "has another password")
            after = _shown(altered.role, altered.password)
            if found.password is not None and hashed is not None:
                after[RENEWED] = ["password"]
            self._keep(conn, "alter", found.name, _shown(found.role, found.password), after, by)
        if told:
            self._tell(found.name, " and ".join(told), by)
        return altered

    def remove(self, name: str, *, by: str) -> str:
        """Remove a user with tokens and sessions; the name as it was defined.

        Raises:
            AdminError: there is no such user, or others and no administrator would be left.
        """
        with self._hub.write() as conn:
            stored.lock_users(conn)
            found = self._known(conn, name)
            if len(stored.list_users(conn)) > 1:
                self._keep_an_administrator(conn, found)
            stored.delete_user(conn, name)
            self._keep(conn, "remove", found.name, _shown(found.role, found.password), None, by)
        self._tell(found.name, "removed", by)
        return found.name

    def add_token(
        self, name: str, *, role: Role | None = None, comment: str | None = None, seconds: float | None = None, by: str
    ) -> tuple[TokenRow, str]:
        """Make a token; with it the text that a program sends, which cannot be shown again.

        Args:
            role: what it may do at most; default: what its user may.
            seconds: until it ends; None: it does not.

        Raises:
            AdminError: there is no such user.
        """
        now = self._hub.clock.now()
        number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        with self._hub.write() as conn:
            found = self._known(conn, name)
            limit = found.role if role is None else role
            expires = None if seconds is None else now + seconds
            row = TokenRow(number, found.name, limit, comment, now, expires, None)
            stored.insert_token(conn, row, _digest(secret))
            self._keep(conn, "create token of", found.name, None, _token(row), by)
        self._tell(found.name, f"has token {number} ({limit.lower()})", by)
        return row, f"mgw_{number}_{secret}"

    def remove_token(self, token_id: str, *, by: str, of: str | None = None) -> None:
        """Remove a token; ``of``: if it is this user's.

        Raises:
            AdminError: there is no such token.
        """
        with self._hub.write() as conn:
            found = next((each for each in stored.list_tokens(conn) if each.id == token_id), None)
            if of is not None and found is not None and found.user.upper() != of.upper():
                found = None
            if found is None:
                raise AdminError(f"token {token_id!r:.40} does not exist", cure="mgw users tokens lists them")
            stored.delete_token(conn, token_id)
            self._keep(conn, "remove token of", found.user, _token(found), None, by)
        self._tell(found.user, f"has token {token_id} no more", by)

    @staticmethod
    def _known(conn: sa.Connection, name: str) -> UserRow:
        found = stored.get_user(conn, name)
        if found is None:
            raise AdminError(
                f"user {name!r:.140} does not exist",
                cause="no user has that name",
                cure="mgw users list shows the users",
            )
        return found

    @staticmethod
    def _keep_an_administrator(conn: sa.Connection, gone: UserRow) -> None:
        left = [each for each in stored.list_users(conn) if each.role is Role.ADMINISTRATOR and each.name != gone.name]
        if gone.role is Role.ADMINISTRATOR and not left:
            raise AdminError(
                f"user {gone.name} must stay an administrator",
                cause="there is no other one",
                cure="make another user an administrator first",
            )

    def _keep(  # noqa: PLR0917
        self,
        conn: sa.Connection,
        verb: str,
        name: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        by: str,
    ) -> None:
        """Write a change into the audit, in its transaction."""
        if before != after:
            keep_change(conn, Changed(verb, "user", name, before, after), now=self._hub.clock.now(), by=by)

    def _tell(self, name: str, what: str, by: str) -> None:
        Journalist(events_of(self._hub, None, self._hub.clock)).tell(UserChanged(name, what, by))

    # --------------------------------------------------------------------------------------------------------- proofs

    def log_in(self, name: str, password: str) -> tuple[Identity, str] | None:
        """A new session: who it is, and what the cookie holds; None: name or password are wrong."""
        with self._hub.read() as conn:
            found = stored.get_user(conn, name)
        hashed = None if found is None else found.password
        if not self._verify(hashed, password) or found is None:
            return None
        secret, now = secrets.token_urlsafe(32), self._hub.clock.now()
        with self._hub.write() as conn:
            stored.prune_sessions(conn, unseen=now - IDLE_SECONDS, begun=now - SESSION_SECONDS)
            stored.insert_session(conn, _digest(secret), found.name, now)
        return Identity(found.name, found.role, "session", _csrf(secret)), secret

    def of_session(self, secret: str) -> Identity | None:
        """Whose session that is; None: nobody's, or it has ended."""
        digest, now = _digest(secret), self._hub.clock.now()
        with self._hub.read() as conn:
            found = stored.find_session(conn, digest)
        if found is None:
            return None
        name, role, begun, seen = found
        if now - begun > SESSION_SECONDS or now - seen > IDLE_SECONDS:
            return None
        if now - seen > _SEEN_EVERY:
            with self._hub.write() as conn:
                stored.touch_session(conn, digest, now)
        return Identity(name, role, "session", _csrf(secret))

    def log_out(self, secret: str) -> None:
        """End a session."""
        with self._hub.write() as conn:
            stored.delete_session(conn, _digest(secret))

    def of_token(self, text: str) -> Identity | None:
        """Whose token that is; None: nobody's, or it has ended."""
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            return None
        number, secret = parts.groups()
        now = self._hub.clock.now()
        with self._hub.read() as conn:
            found = stored.find_token(conn, number)
        if found is None:
            return None
        row, digest, role = found
        if not hmac.compare_digest(digest, _digest(secret)) or (row.expires is not None and row.expires <= now):
            return None
        if row.used is None or now - row.used > _USED_EVERY:
            with self._hub.write() as conn:
                stored.touch_token(conn, number, now)
        return Identity(row.user, role.at_most(row.role), "token")

    @staticmethod
    def _hash(name: str, password: str) -> str:
        if not _SHORTEST <= len(password) <= _LONGEST or password.upper() == name.upper():
            raise AdminError(
                f"the password of user {name} cannot be used",
                cause=f"it must have {_SHORTEST} to {_LONGEST} characters, and not be the name",
                cure="choose another one",
            )
        hasher = _hasher()
        with _AT_ONCE:
            return hasher.hash(password)

    @staticmethod
    def _verify(hashed: str | None, password: str) -> bool:
        """Takes as long for a user that there is not."""
        from argon2.exceptions import Argon2Error, InvalidHashError

        hasher = _hasher()
        with _AT_ONCE:
            try:
                return hasher.verify(hashed or _nobody(), password[:_LONGEST]) and hashed is not None
            except (Argon2Error, InvalidHashError):
                return False


def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise GatewayError(
            "passwords cannot be hashed",
            cause="the package argon2-cffi is not installed",
            cure="pip install 'messaging-gateway[http]'",
        ) from None
    return PasswordHasher()


@cache
def _nobody() -> str:
    """A hash that no password has."""
    return _hasher().hash(secrets.token_urlsafe(32))


def _shown(role: Role, password: str | None) -> dict[str, Any]:
    """A user as the audit has it: of the password, that there is one."""
    return {"role": role} if password is None else {"role": role, SECRETS: ["password"]}


def _token(row: TokenRow) -> dict[str, Any]:
    """A token as the audit has it: without what proves it."""
    values = {"token": row.id, "role": row.role, "comment": row.comment, "expires": row.expires}
    return {name: value for name, value in values.items() if value is not None}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _csrf(secret: str) -> str:
    """What only a page of ours can know of a session, whose cookie no script can read."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()
