"""Where SQL functions of a hub live (PostgreSQL): a schema of their own, which belongs to one hub of the database.

The schema has its plain name (``aq``). Where that name is taken, by another hub of the same database or by somebody
else, it is called ``<name>_<schema of the hub's tables>``. A comment on it says whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import HubError

__all__ = ["SETTINGS", "Home", "SqlFunctions", "quoted"]

#: The hub's own schema is not on the path: somebody else may be allowed to make functions and operators in it.
SETTINGS = "SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET extra_float_digits = 1"

_LENGTH = 63  # bytes of a name in PostgreSQL

# Anybody can write a comment on a schema of his own: it says nothing unless the schema is of the owner of the tables.
_OWN = """
    SELECT n.nspname, pg_get_userbyid(n.nspowner), pg_get_userbyid(n.nspowner) = current_user
      FROM pg_namespace n JOIN pg_class c ON c.oid = to_regclass('aq_hub') AND n.nspowner = c.relowner
     WHERE obj_description(n.oid, 'pg_namespace') LIKE ?"""
_SCHEMA = """
    SELECT obj_description(n.oid, 'pg_namespace'), pg_get_userbyid(n.nspowner),
           pg_get_userbyid(n.nspowner) = current_user,
           EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid)
           OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid)
           OR EXISTS (SELECT FROM pg_type t WHERE t.typnamespace = n.oid)
      FROM pg_namespace n WHERE n.nspname = ?"""
_MAY_CREATE = "SELECT has_database_privilege(current_database(), 'CREATE')"
_GRANTS = """
    SELECT DISTINCT p.proname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
      FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
     WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = ?) AND a.grantee <> p.proowner"""
_FUNCTIONS = """
    SELECT p.proname, p.oid::regprocedure::text, age(p.xmin) <= age(pg_current_xact_id()::xid)
      FROM pg_proc p
     WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = ?) AND p.proname = ANY(?)"""


class SqlFunctions(Protocol):
    """The SQL functions of one part of the schema (PostgreSQL)."""

    @property
    def home(self) -> Home:
        """Where they live."""

    def stale(self, parts: Mapping[str, int]) -> bool:
        """Whether those in a database with these rows of ``aq_part`` are missing, or of an older release."""

    def possible(self, db: Db, hub_id: bytes) -> bool:
        """Whether a hub can have them, and its user may make them at all."""

    def install(self, db: Db, hub_id: bytes, where: str) -> None:
        """Make them, or replace those there are; who was granted EXECUTE keeps it.

        Raises:
            HubError: the hub's user has no right to do it, or views of others need the functions as they are.
        """


class _Owned(NamedTuple):
    """A schema with the functions of a hub."""

    schema: str
    owner: str
    by_this_user: bool


class _Place(NamedTuple):
    """A schema for functions, and what has to be done for it."""

    name: str
    made: bool = False
    dropped: bool = False  # before


@dataclass(frozen=True, slots=True)
class Home:
    """A schema for functions.

    Attributes:
        base: its plain name.
        kind: how its comment begins: ``<kind> of hub <id>``.
    """

    base: str
    kind: str

    def found(self, db: Db, hub_id: bytes) -> _Owned | None:
        """The schema of this hub, if there is one."""
        row = db.row(_OWN, (f"{self._mark(hub_id)}%",))
        return _Owned(*row) if row else None

    def name(self, db: Db, hub_id: bytes, tables: str) -> str:
        """The schema of this hub, made now if there is none.

        Raises:
            HubError: it belongs to another user, or its names are taken.
        """
        return self._own(db, hub_id) or self._new(db, tables)

    def check(self, db: Db, hub_id: bytes, tables: str, where: str) -> None:
        """Only look whether this user can make them, or replace them.

        Raises:
            HubError: the schema belongs to another user, its names are taken, or the user may not make it.
        """
        if self._own(db, hub_id) is None and self._place(db, tables).made and not db.scalar(_MAY_CREATE):
            raise self._not_allowed(where, f"permission denied for database {db.scalar('SELECT current_database()')}")

    def comment(self, db: Db, name: str, hub_id: bytes, tables: str) -> None:
        """Say whose schema it is."""
        text = f"{self._mark(hub_id)}, tables in {tables}"
        db.raw.execute(f"COMMENT ON SCHEMA {quoted(name)} IS '{text.replace(chr(39), chr(39) * 2)}'")

    def make(self, db: Db, name: str, text: str, names: Sequence[str]) -> None:
        """Make functions, or replace them; who was granted EXECUTE keeps it.

        Args:
            text: statements that make them.
            names: of all that this release makes, and of those that an earlier one made.
        """
        grants = db.rows(_GRANTS, (name,))
        db.raw.execute("SAVEPOINT functions")
        try:
            db.raw.execute(text)  # without parameters: many statements in one round trip, and a percent sign is one
        except Exception as error:
            if getattr(error, "sqlstate", None) != "42P13":  # invalid_function_definition: cannot be replaced as it is
                raise
            db.raw.execute("ROLLBACK TO functions")
            self.drop(db, name, names)
            db.raw.execute(text)
        found = db.rows(_FUNCTIONS, (name, names))
        for _, signature, current in found:
            if not current:  # of an earlier release, with other parameters
                db.raw.execute(f"DROP FUNCTION {signature}")
        own = [(function, signature) for function, signature, current in found if current]
        db.raw.execute(f"REVOKE ALL ON FUNCTION {', '.join(signature for _, signature in own)} FROM PUBLIC")
        for granted, role in grants:
            for signature in [signature for function, signature in own if function == granted]:
                db.raw.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO {role}")

    def drop(self, db: Db, schema: str, names: Sequence[str]) -> None:
        """Drop functions by their names."""
        for _, signature, _ in db.rows(_FUNCTIONS, (schema, names)):
            db.raw.execute(f"DROP FUNCTION {signature}")

    def refused(self, error: Exception, where: str) -> HubError | None:
        """The refusal behind an error of the database; None: it is another error."""
        state = getattr(error, "sqlstate", None)
        if state == "42501":
            return self._not_allowed(where, _first_line(error))
        if state == "2BP01":
            cure = "drop the views that use them, and recreate them afterwards"
            return self._not_created(where, _first_line(error), cure)
        return None

    def failed(self, error: Exception, where: str) -> HubError | None:
        """What any error of the database says about functions that a hub can do without; None: it is not of them."""
        original = getattr(error, "orig", None) or error
        state = getattr(original, "sqlstate", None)
        if state is None or state.startswith(("08", "57P")):  # the connection is lost
            return None
        cure = "correct that, then open the hub again, with mgw status for example: it creates them"
        return self._not_created(where, _first_line(original), cure)

    def _not_allowed(self, where: str, cause: str) -> HubError:
        cure = f"GRANT CREATE ON DATABASE ... TO the hub's user, or CREATE SCHEMA {self.base} AUTHORIZATION that user"
        return self._not_created(where, cause, cure)

    def _not_created(self, where: str, cause: str, cure: str) -> HubError:
        return HubError(f"the functions of schema {self.base} cannot be created in hub {where}", cause=cause, cure=cure)

    def _own(self, db: Db, hub_id: bytes) -> str | None:
        """The same, if it is of the user who works: only he may replace functions that run with his rights."""
        found = self.found(db, hub_id)
        if found is None:
            return None
        if not found.by_this_user:
            raise HubError(
                f"the functions of schema {found.schema} cannot be replaced",
                cause=f"the schema and the hub's tables belong to user {found.owner}",
                cure=f"open the hub once as {found.owner}",
            )
        return found.schema

    def _new(self, db: Db, tables: str) -> str:
        """A schema for the functions, made now unless it is there."""
        name, made, dropped = self._place(db, tables)
        if dropped:
            db.raw.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
        if made:
            db.raw.execute(f"CREATE SCHEMA {quoted(name)}")
        return name

    def _place(self, db: Db, tables: str) -> _Place:
        """Where the functions go: a schema that is new, empty, or left behind by a hub that is gone; never one of
        another user.

        Its owner could put functions of his own in the place of those that run with the rights of the hub's owner.
        """
        other = f"{self.base}_{tables}".encode()[:_LENGTH].decode("utf-8", "ignore")
        for name in (self.base, other):
            found = db.row(_SCHEMA, (name,))
            if found is None:
                return _Place(name, made=True)
            comment, owner, own, used = found
            if not used and not own:
                raise HubError(
                    f"the functions of schema {name} cannot be created",
                    cause=f"the schema is empty, and belongs to user {owner}",
                    cure=f"drop it, or have an administrator do: ALTER SCHEMA {quoted(name)} OWNER TO the hub's user",
                )
            if not used:
                return _Place(name)
            if own and self._orphaned(db, comment or ""):
                return _Place(name, made=True, dropped=True)
        raise HubError(
            f"there is no place for the functions of schema {self.base}",
            cause=f"the schemas {self.base} and {other} of this database have other owners",
            cure="keep the hub in a database of its own, or rename one of them",
        )

    def _orphaned(self, db: Db, comment: str) -> bool:
        """Whether a schema has the functions of a hub that is gone."""
        found = re.fullmatch(rf"{self.kind} of hub ([0-9a-f]{{16}}), tables in (.*)", comment, re.DOTALL)
        if found is None:
            return False
        table = f"{quoted(found[2])}.aq_hub"
        if not db.scalar("SELECT to_regclass(?) IS NOT NULL", (table,)):
            return True
        return bool(db.scalar(f"SELECT encode(hub_id, 'hex') FROM {table}") != found[1])

    def _mark(self, hub_id: bytes) -> str:
        return f"{self.kind} of hub {hub_id.hex()}"


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
