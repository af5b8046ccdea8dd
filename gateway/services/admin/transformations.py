"""Procedures on transformations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import (
    DEFAULT_SCHEMA,
    Db,
    QualifiedName,
    QueueAdmin,
    TransformationInfo,
    chains_with,
    check_steps,
    payload_of,
    qualified,
    transformation_users,
)
from mgw.gateway.aq import check_transformation as check_stored
from mgw.gateway.aq import stored_functions as stored
from mgw.gateway.definitions.objects import TransformationDef
from mgw.gateway.services.admin.base import (
    NO_CHANGE,
    Administration,
    OptionalText,
    Ora,
    check_identifier,
    check_text,
    refused,
)
from mgw.gateway.state import catalog
from mgw.transforms.errors import AdminError, AqError, ConfigInvalid, ExpressionInvalid
from mgw.transforms.steps.registry import BUILTIN_MODULE, TransformationDefinition, compile_transformation

__all__ = ["TransformationProcedures"]


class TransformationProcedures(Administration):
    """Create, alter and drop transformations."""

    def get_transformation(self, name: str) -> TransformationDef | None:
        """The transformation, or None."""
        with self.hub.read() as conn:
            return catalog.get_transformation(conn, name)

    def list_transformations(self) -> list[TransformationDef]:
        """All transformations, by name."""
        with self.hub.read() as conn:
            return catalog.list_transformations(conn)

    def create_transformation(
        self, name: str, from_type: str, to_type: str, definition: Mapping[str, Any], comment: str | None = None
    ) -> None:
        """Register a transformation. Its expressions are compiled now; a function that is not built in is looked up
        by the agent, where the configuration allows its module.

        Args:
            name: ``[schema.]name``.
            from_type, to_type: payload types it takes and gives; hub queues and subscribers that use it need them.
            definition: as :mod:`mgw.transforms.steps.registry` reads it.

        Raises:
            AdminError: ORA-32801 exists, a type is unknown, or the definition is invalid; ORA-32804 the name.
        """
        check_identifier("transformation", name)
        _check_name(name)
        with self.change("transformation", name) as conn:
            given, made = (_payload(conn, name, each) for each in (from_type, to_type))
            item = TransformationDef(name, given, made, dict(definition), comment)
            _check(conn, item)
            if catalog.get_transformation(conn, name) is not None:
                raise AdminError(
                    f"transformation {name} already exists",
                    number=Ora.INVALID_VALUE,
                    cause="a transformation has that name",
                    cure="alter it, or choose another name",
                )
            catalog.insert_transformation(conn, item)

    def alter_transformation(
        self,
        name: str,
        from_type: str | None = None,
        to_type: str | None = None,
        definition: Mapping[str, Any] | None = None,
        comment: OptionalText = NO_CHANGE,
        *,
        altered_later: Collection[str] = (),
    ) -> None:
        """Alter a transformation (None keeps a part); jobs that use it continue with the new one at once.

        Args:
            altered_later: chains that need not fit now: the caller alters them next, and they are checked then.

        Raises:
            AdminError: ORA-32801 unknown, the definition is invalid, what it does cannot make the new type, or a
                subscriber of a queue of another type or a chain of which it is a step uses it.
        """
        with self.change("transformation", name) as conn:
            item = self._need(conn, name)
            altered = replace(
                item,
                from_type=item.from_type if from_type is None else _payload(conn, name, from_type),
                to_type=item.to_type if to_type is None else _payload(conn, name, to_type),
                definition=item.definition if definition is None else dict(definition),
                comments=item.comments if comment is NO_CHANGE else comment,
            )
            if definition is not None:
                _check(conn, altered)
            stored = catalog.altered_transformation(conn, altered, redefined=definition is not None)
            db = Db(conn)
            try:
                check_stored(db, stored, self.hub.transform_modules)
            except AqError as error:
                raise refused(error) from error
            if stored.from_type != item.from_type:
                _refuse_misfits(db, stored)
            _check_chains(db, stored, altered_later)
            catalog.update_transformation(conn, stored)

    def drop_transformation(self, name: str) -> None:
        """Remove a transformation no job, no chain and no subscriber of a hub queue uses.

        Raises:
            AdminError: ORA-32801 unknown, or a job, a chain or a subscriber uses it.
        """
        with self.change("transformation", name) as conn:
            self._need(conn, name)
            queues = QueueAdmin(self.hub, conn)
            queues.notes = False
            try:
                queues.drop_transformation(name)
            except AqError as error:
                raise refused(error) from error

    def _need(self, conn: sa.Connection, name: str) -> TransformationDef:
        item = catalog.get_transformation(conn, name)
        if item is None:
            raise AdminError(
                f"transformation {name} does not exist",
                number=Ora.INVALID_VALUE,
                cause="none has that name",
                cure="create it first, or correct the name",
            )
        return item


def _check_chains(db: Db, item: TransformationInfo, left_out: Collection[str]) -> None:
    """A transformation that is altered must still fit the chains that it is a step of."""
    try:
        others = {qualified(each, what="transformation").key for each in left_out}
        for chain in chains_with(db, QualifiedName(item.schema, item.name).key):
            if QualifiedName(chain.schema, chain.name).key not in others:
                check_steps(db, chain, item)
    except AqError as error:
        raise refused(error) from error


def _refuse_misfits(db: Db, item: TransformationInfo) -> None:
    """Subscribers take what their queue holds; nothing would tell them before their next message."""
    key = QualifiedName(item.schema, item.name).key
    users = [each for each in transformation_users(db, key) if each.holds != item.from_type]
    if users:
        shown = ", ".join(f"{each.subscriber} of {each.queue} ({each.holds})" for each in users[:5])
        raise AdminError(
            f"transformation {item.full_name} cannot take {item.from_type}",
            number=Ora.INVALID_VALUE,
            cause=f"subscribers of queues that hold another type use it: {shown}",
            cure="alter those subscribers first",
        )


def _check_name(name: str) -> None:
    try:
        qualified(name, what="transformation")
    except AqError as error:
        raise AdminError(error.what, number=Ora.WRONG_FORM, cause=error.cause, cure=error.cure) from error


def _payload(conn: sa.Connection, name: str, text: str) -> str:
    """The payload type as the hub writes it."""
    try:
        return payload_of(Db(conn), text, DEFAULT_SCHEMA, f"transformation {name}").name
    except AqError as error:
        raise refused(error) from error


def _check(conn: sa.Connection, item: TransformationDef) -> None:
    check_text(f"comment of transformation {item.name}", item.comments)
    try:
        definition = TransformationDefinition.from_mapping(item.name, item.definition)
        if definition.steps:
            name = qualified(item.name, what="transformation")
            chain = TransformationInfo(name.schema, name.name, item.from_type, item.to_type, item.definition)
            check_steps(Db(conn), chain)
            definition = replace(definition, steps=())  # its filter
        if definition.function is None or definition.function.startswith(f"{BUILTIN_MODULE}:"):
            compile_transformation(definition, functions=stored(Db(conn)))
    except (AqError, ConfigInvalid) as error:
        raise refused(error) from error
    except ExpressionInvalid as error:
        raise AdminError(
            f"transformation {item.name}: {error.what}",
            number=Ora.INVALID_VALUE,
            cause=error.cause,
            cure=error.cure,
        ) from error
