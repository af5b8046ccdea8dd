"""Procedures on object types (AQ guide 12.2 §2.2)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from mgw.gateway.aq.admin.base import Administration
from mgw.gateway.aq.errors import NameReserved, PrivilegeInvalid, TypeExists, TypeInUse, TypeInvalid, TypeMissing
from mgw.gateway.aq.grants import TypePrivilege
from mgw.gateway.aq.model import PayloadType, TypeInfo
from mgw.gateway.aq.names import QualifiedName, qualified, user_name
from mgw.gateway.aq.payloads import types_sql
from mgw.gateway.aq.payloads.anydata import SCALARS
from mgw.gateway.aq.payloads.transformations_sql import transformations_of_type
from mgw.gateway.aq.payloads.types_sql import TypeRecord
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError
from mgw.transforms.payloads.sql_types import MAX_ATTRIBUTES, Attribute, NamedType, ObjectType, Varray
from mgw.transforms.payloads.sql_types_parser import MAX_NESTING, DeclarationInvalid, parse_scalar, parse_type

__all__ = ["TypeProcedures"]

_MAX_NAME = 128  # bytes, AQ guide 12.2 §2.2
_MAX_DEFINITION = 1_000_000  # characters, nested types included


class TypeProcedures(Administration):
    """Create, drop and list object types; part of :class:`mgw.gateway.aq.admin.QueueAdmin`."""

    def create_type(self, type_name: str, attributes: Mapping[str, str] | str) -> TypeInfo:
        """Make a type that queue tables, other types and ANYDATA can hold (AQ guide 12.2 §2.2).

        ::

            admin.create_type("OE.ADDRESS", {"street": "VARCHAR2(40)", "city": "VARCHAR2(30)"})
            admin.create_type("OE.ORDERS", {"id": "NUMBER(10)", "ship_to": "OE.ADDRESS", "due": "DATE"})

        Args:
            type_name: ``[schema.]name``, at most 128 bytes.
            attributes: declared type by attribute name, 1 to 900 in their order (see :mod:`payloads.sql_types`). Names
                compare in any letter case. A text ``VARRAY(n) OF type`` makes an array type instead, to be used as an
                attribute or wrapped as ANYDATA.

        Raises:
            AqError: 955 it exists, 902 a declaration is not valid, 4043 an attribute's type does not exist, 24016 it is
                another's without EXECUTE on it, 24019 name too long, 24079 the name is reserved, 1031 the schema is
                neither the user's nor does the user hold MANAGE_ANY.
        """
        name = _type_name(type_name, self.schema)
        with self.change() as conn:
            db = Db(conn)
            if self.rights is not None:
                self.rights.require_schema(db, name, "type")
            if types_sql.find_type(db, name.key) is not None:
                raise TypeExists(
                    f"type {name.shown} already exists",
                    cause="an object type of that name is in the hub",
                    cure="choose another name, or drop it first: drop_type",
                )
            made = self._declared(db, name, attributes)
            record = TypeRecord(secrets.randbits(62), name.schema, name.name, made, made.shape, self.hub.clock.now())
            types_sql.insert_type(db, record)
            created = _info(record)
            self._note(conn, "create", "type", created.full_name, None, _shown(created))
            return created

    def _declared(self, db: Db, name: QualifiedName, attributes: Mapping[str, str] | str) -> NamedType:
        def resolve(text: str) -> NamedType:
            found = types_sql.find_type(db, qualified(text, self.schema, what="type").key)
            if found is None:
                raise TypeMissing(
                    f"type {text} does not exist",
                    cause=f"type {name.shown} would contain it",
                    cure="create it first, or correct the declaration",
                )
            if self.rights is not None:
                self.rights.require_type(db, found, f"type {name.shown}")
            return found.type

        where = f"type {name.shown} cannot be created"
        made: NamedType
        try:
            if isinstance(attributes, str):
                array = parse_type(attributes, resolve)
                if not isinstance(array, Varray) or array.name:
                    raise DeclarationInvalid(
                        f"{attributes!r} is not a VARRAY", "write VARRAY(n) OF type, or attributes"
                    )
                made = Varray(array.limit, array.element, name.key)
            else:
                where = f"{where}: attribute {{}}"
                made = ObjectType(name.key, tuple(_attributes(where, attributes, resolve)))
        except DeclarationInvalid as problem:
            raise TypeInvalid(f"type {name.shown} cannot be created", cause=problem.cause, cure=problem.cure) from None
        if _depth(made.definition()) > MAX_NESTING or len(json.dumps(made.definition())) > _MAX_DEFINITION:
            raise TypeInvalid(
                f"type {name.shown} cannot be created",
                cause=f"types nest at most {MAX_NESTING} levels, and have at most {_MAX_DEFINITION} characters in "
                "total",
                cure="use fewer or flatter types in it",
            )
        return made

    def drop_type(self, type_name: str) -> None:
        """Drop a type; messages that hold it can still be dequeued.

        Raises:
            AqError: 4043 unknown, 2303 queue tables, other types or transformations are made of it, 1031 the schema is
                another's.
        """
        with self.change() as conn:
            db = Db(conn)
            found = self._own_type(db, type_name)
            users = types_sql.users_of_type(db, found)
            users += [f"transformation {one.full_name}" for one in transformations_of_type(db, found.type.text)]
            if users:
                raise TypeInUse(
                    f"type {found.full_name} cannot be dropped",
                    cause=f"{', '.join(users[:5])} {'use' if len(users) > 1 else 'uses'} it",
                    cure="drop those first",
                )
            types_sql.drop_type(db, found.id, self.hub.clock.now())
            self._note(conn, "drop", "type", found.full_name, _shown(_info(found)))

    def types(self) -> list[TypeInfo]:
        """Every object type, by name; a user sees the user's own, and those with EXECUTE on them."""
        with self.look() as db:
            found = types_sql.list_types(db)
            return [_info(record) for record in (self.rights.executes(db, found) if self.rights else found)]

    def object_type(self, name: str) -> TypeInfo | None:
        """One object type, or None if there is none or the user may not use it."""
        wanted = qualified(name, self.schema, what="type")
        with self.look() as db:
            found = types_sql.find_type(db, wanted.key)
            if found is None or (self.rights is not None and not self.rights.executes(db, [found])):
                return None
            return _info(found)

    # -- EXECUTE ---------------------------------------------------------------------------------------------------

    def grant_type_privilege(self, type_name: str, grantee: str) -> None:
        """Let a user or role make queue tables, types and transformations of a type (EXECUTE; AQ guide 12.2 §8.4).

        What is made of it keeps the type from being dropped. Messages are enqueued and dequeued with the privileges on
        their queue alone.

        Args:
            grantee: a user, a role, or PUBLIC.

        Raises:
            AqError: 4043 unknown, 25200, 24019 not the name of a user, 1031 the schema is another's.
        """
        holder = user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            found = self._own_type(db, type_name)
            grantor = self.rights.user if self.rights is not None else found.schema
            if types_sql.insert_grant(db, found.id, holder, grantor, self.hub.clock.now()):
                given = {"grantee": holder, "grantor": grantor}
                self._note(conn, "grant", "type privilege", found.full_name, None, given)

    def revoke_type_privilege(self, type_name: str, grantee: str) -> None:
        """Take EXECUTE on a type back; what was made of the type stays.

        Raises:
            AqError: 4043 unknown, 24066 it was not granted, 1031 the schema is another's.
        """
        holder = user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            found = self._own_type(db, type_name)
            if not types_sql.delete_grant(db, found.id, holder):
                raise PrivilegeInvalid(
                    f"EXECUTE on type {found.full_name} was not granted to {holder}",
                    cure="list what is granted: type_privileges",
                )
            self._note(conn, "revoke", "type privilege", found.full_name, {"grantee": holder})

    def type_privileges(self) -> list[TypePrivilege]:
        """Grants of EXECUTE on types; a user sees those on the types of the user, and those the user got."""
        with self.look() as db:
            found = types_sql.list_grants(db)
            rights = self.rights
            if rights is None:
                return [each for _, each in found]
            names = rights.held(db).names
            return [each for schema, each in found if each.grantee.upper() in names or rights.manages(db, schema)]

    def _own_type(self, db: Db, type_name: str) -> TypeRecord:
        name = qualified(type_name, self.schema, what="type")
        if self.rights is not None:
            self.rights.require_schema(db, name, "type")
        return _require(db, name)


def _type_name(text: str, schema: str) -> QualifiedName:
    name = qualified(text, schema, what="type", system=True)
    plain = name.name.upper()
    own = plain in PayloadType.__members__ or f"SYS.{plain}" in SCALARS or name.schema.upper() == "SYS"
    if not own:
        try:
            parse_scalar(plain)
            own = True
        except (DeclarationInvalid, AqError):
            own = plain in ("NUMBER", "VARCHAR2", "RAW")
    if own or plain.startswith("AQ$_"):
        raise NameReserved(
            f"type name {name.shown!r} is reserved",
            cause="it is a type of the hub itself, or in a schema of the hub",
            cure="use another name",
        )
    return name


def _attributes(where: str, attributes: Mapping[str, str], resolve: Any) -> list[Attribute]:
    if not attributes:
        raise DeclarationInvalid("it has no attributes", "give it at least one")
    if len(attributes) > MAX_ATTRIBUTES:
        raise DeclarationInvalid(f"it has {len(attributes)} attributes, at most {MAX_ATTRIBUTES} are allowed", "nest")
    seen: set[str] = set()
    made = []
    for name, declared in attributes.items():
        if not isinstance(name, str) or not name.replace("$", "_").replace("#", "_").isidentifier():
            raise DeclarationInvalid(
                f"{name!r} is not a valid attribute name", "use letters, digits and _ $ #, beginning with a letter"
            )
        if len(name.encode()) > _MAX_NAME:
            raise DeclarationInvalid(
                f"the name of attribute {name[:40]}... is longer than {_MAX_NAME} bytes", "shorten it"
            )
        if name.upper() in seen:
            raise DeclarationInvalid(f"attribute {name} occurs twice", "names compare case-insensitively")
        seen.add(name.upper())
        try:
            made.append(Attribute(name, parse_type(declared, resolve)))
        except DeclarationInvalid as problem:
            raise DeclarationInvalid(f"attribute {name}: {problem.cause}", problem.cure) from None
        except AqError as problem:
            raise type(problem)(where.format(name), cause=problem.what, cure=problem.cure) from None
    return made


def _depth(definition: Any) -> int:
    if isinstance(definition, str):
        return 0
    inner = [definition["of"]] if "varray" in definition else [each for _, each in definition["attributes"]]
    return 1 + max(map(_depth, inner), default=0)


def _require(db: Db, name: QualifiedName) -> TypeRecord:
    found = types_sql.find_type(db, name.key)
    if found is None:
        raise TypeMissing(
            f"type {name.shown} does not exist",
            cause="no object type of that name is in the hub",
            cure="create it, or correct the name",
        )
    return found


def _shown(made: TypeInfo) -> dict[str, Any]:
    """A type as the audit has it."""
    return {"attributes": dict(made.attributes)} if made.array is None else {"array": made.array}


def _info(record: TypeRecord) -> TypeInfo:
    made = record.type
    if isinstance(made, Varray):
        return TypeInfo(record.schema, record.name, {}, made.declaration, record.shape, record.created)
    attributes = {attribute.name: attribute.type.text for attribute in made.attributes}
    return TypeInfo(record.schema, record.name, attributes, None, record.shape, record.created)
