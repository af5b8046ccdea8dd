"""The catalogue of transformations: the procedures of DBMS_TRANSFORM (AQ guide 12.2 §8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mgw.gateway.aq.admin.base import Administration
from mgw.gateway.aq.errors import TransformationInvalid, TransformationMissing
from mgw.gateway.aq.model import QueueRef, TransformationInfo
from mgw.gateway.aq.names import QualifiedName, qualified, shown_key
from mgw.gateway.aq.payloads import chains, transformations, transformations_sql, types_sql
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.payloads.transformations_sql import Using
from mgw.gateway.aq.store.statements import Db

__all__ = ["TransformationProcedures", "subscriber_transformation", "transformation_users"]


#: In the audit: one that the gateway's procedures define is a ``transformation``, and a rollback restores it.
_KIND = "aq transformation"


class TransformationProcedures(Administration):
    """Create, modify, drop and list transformations; part of :class:`mgw.gateway.aq.admin.QueueAdmin`."""

    def create_transformation(
        self,
        name: str,
        from_type: str,
        to_type: str,
        transformation: str | Mapping[str, Any],
        *,
        comment: str | None = None,
    ) -> TransformationInfo:
        """Register a transformation (AQ guide 12.2 §8.4.1).

        ::

            admin.create_transformation("to_order", "OE.MESSAGE", "OE.ORDERS",
                "OE.ORDERS(source.user_data.sender_id, UPPER(source.user_data.subject), source.user_data.text)")
            admin.create_transformation("to_text", "OE.ORDERS", "TEXT", "source.user_data.id || ': ' || corrid")
            admin.create_transformation("to_celsius", "JSON", "JSON", "plant_transforms:to_celsius")

        Args:
            name: ``[schema.]name``.
            from_type, to_type: payload types it takes and gives: RAW, BASIC, FIELDS, TEXT, JSON, XMLTYPE, ANYDATA or an
                object type.
            transformation: an expression over ``source.user_data``, the constructor of the object type it gives, or a
                function, at most 4000 characters; or a mapping as :mod:`mgw.transforms.steps.registry` reads it.

        Raises:
            AqError: 24094 it exists, 24095 it cannot be compiled, 24015 a type does not exist, 24016 a type is
                another's without EXECUTE on it, 1031 the schema is neither the user's nor does the user hold
                MANAGE_ANY.
        """
        found = qualified(name, self.schema, what="transformation")
        with self.change() as conn:
            db = Db(conn)
            if self.rights is not None:
                self.rights.require_schema(db, found, "transformation")
            if transformations_sql.find_version(db, found.key) is not None:
                raise TransformationMissing(
                    f"transformation {found.shown} already exists",
                    cause="a transformation has that name",
                    cure="modify it, or choose another name",
                )
            item = self._typed(db, found, from_type, to_type)
            item = replace(_with(item, 0, transformation), comment=comment, created=self.hub.clock.now())
            transformations.check(db, item, self.hub.transform_modules)
            transformations_sql.insert_transformation(db, item)
            self._note(conn, "create", _KIND, item.full_name, None, _shown(item))
            return item

    def _typed(self, db: Db, name: QualifiedName, from_type: str, to_type: str) -> TransformationInfo:
        what = f"transformation {name.shown}"
        given, made = (payloads.payload_of(db, each, self.schema, what) for each in (from_type, to_type))
        if self.rights is not None:
            for each in (given, made):
                self.rights.require_type(db, each.object_type, what)
        return TransformationInfo(name.schema, name.name, given.name, made.name)

    def modify_transformation(
        self, name: str, attribute_number: int, transformation: str | Mapping[str, Any]
    ) -> TransformationInfo:
        """Change what a transformation does; it is in force for every later call (AQ guide 12.2 §8.4.2).

        Args:
            attribute_number: 0: ``transformation`` makes the whole result, and nothing else does. 1 and more: it makes
                that attribute of the object type; the others stay as they are made, or NULL. A function makes the
                whole alone.

        Raises:
            AqError: 24094 unknown, 24095 it cannot be compiled, there is no such attribute, or a function makes the
                whole; 24016 a type is another's without EXECUTE on it.
        """
        with self.change() as conn:
            db = Db(conn)
            item = self._transformation(db, name)
            if attribute_number and item.definition is not None:
                raise TransformationInvalid(
                    f"attribute {attribute_number} of transformation {item.full_name} cannot be set",
                    cause="the transformation has a definition, not expressions",
                    cure="give it an expression first: modify_transformation with attribute number 0",
                )
            if self.rights is not None:
                for each in types_sql.find_types(db, (item.from_type, item.to_type)).values():
                    self.rights.require_type(db, each, f"another transformation {item.full_name}")
            altered = _with(item, attribute_number, transformation)
            transformations.check(db, altered, self.hub.transform_modules)
            for chain in chains.chains_with(db, QualifiedName(item.schema, item.name).key):
                chains.check_steps(db, chain, altered)
            transformations_sql.update_transformation(db, altered)
            self._note(conn, "modify", _KIND, item.full_name, _shown(item), _shown(altered))
            return altered

    def drop_transformation(self, name: str) -> None:
        """Remove a transformation no subscriber and no job uses (AQ guide 12.2 §8.4.3).

        A program that opened the hub without the gateway's tables does not know of jobs: one that loses its
        transformation that way fails, and says why, until it is altered or the transformation is created again.

        Raises:
            AqError: 24094 unknown, 24095 a subscriber, a job or a chain uses it.
        """
        with self.change() as conn:
            db = Db(conn)
            item = self._transformation(db, name)
            self._refuse_used(db, item)
            transformations_sql.delete_transformation(db, item.id)
            self._note(conn, "drop", _KIND, item.full_name, _shown(item))

    def transformations(self) -> list[TransformationInfo]:
        """Every transformation, by name; a user sees those of the schemas that the user administers."""
        with self.look() as db:
            return [item for item in transformations_sql.list_transformations(db) if self.manages(db, item.schema)]

    def _refuse_used(self, db: Db, item: TransformationInfo) -> None:
        key = QualifiedName(item.schema, item.name).key
        jobs = (job for part in self.hub.parts for job in part.jobs_with_transformations(db.connection))
        users = {
            "chains": [each.full_name for each in chains.chains_with(db, key)],
            "subscribers": [f"{each.subscriber} of {each.queue}" for each in transformation_users(db, key)],
            "jobs": [job for job, used in jobs if shown_key(used) == key],
        }
        for kind, names in users.items():
            if names:
                raise TransformationInvalid(
                    f"transformation {item.full_name} cannot be dropped",
                    cause=f"{kind} use it: {', '.join(names[:5])}",
                    cure=f"alter those {kind} first",
                )

    def _transformation(self, db: Db, name: str) -> TransformationInfo:
        wanted = qualified(name, self.schema, what="transformation")
        if self.rights is not None:
            self.rights.require_schema(db, wanted, "transformation")
        found = transformations_sql.find_transformation(db, wanted.key)
        if found is None:
            raise transformations.missing(name)
        return found


def _shown(item: TransformationInfo) -> dict[str, Any]:
    """A transformation as the audit has it."""
    made = item.definition or {str(number): text for number, text in sorted(item.expressions.items())}
    return {"from_type": item.from_type, "to_type": item.to_type, "transformation": made, "comment": item.comment}


def _with(item: TransformationInfo, number: int, transformation: str | Mapping[str, Any]) -> TransformationInfo:
    if isinstance(transformation, Mapping):
        if number:
            raise TransformationInvalid(
                f"attribute {number} of transformation {item.full_name} cannot be set",
                cause="a definition produces the whole message",
                cure="give an expression, or attribute number 0",
            )
        return replace(item, definition=dict(transformation), expressions={})
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise TransformationInvalid(
            f"attribute {number!r} of transformation {item.full_name} cannot be set",
            cause="attributes are numbered from 1; 0 is the whole message",
            cure="give 0, or the number of an attribute",
        )
    if not isinstance(transformation, str) or not transformation.strip():
        raise TransformationInvalid(
            f"transformation {item.full_name} cannot be created",
            cause="there is no expression",
            cure="write one that uses source.user_data",
        )
    others = {} if number == 0 else dict(item.expressions)
    return replace(item, definition=None, expressions=others | {number: transformation})


def subscriber_transformation(db: Db, queue: QueueRef, name: str | None, schema: str) -> str | None:
    """The name under which a subscriber keeps its transformation; it has to take what the queue holds.

    Raises:
        AqError: 24094 there is none, or it takes another type.
    """
    if name is None:
        return None
    found = qualified(name, schema, what="transformation")
    item = transformations_sql.find_transformation(db, found.key)
    if item is None:
        raise transformations.missing(name)
    transformations.require_type(item.full_name, item.from_type, queue, into=False)
    return item.full_name


def transformation_users(db: Db, key: str) -> list[Using]:
    """The subscribers that use the transformation with this name key."""
    return [each for each in transformations_sql.subscribers_using(db) if shown_key(each.transformation) == key]
