"""Procedures on transformations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gateway import catalog
from gateway.admin.base import NO_CHANGE, Administration, OptionalText, Ora, check_identifier, check_text, refused
from gateway.model import TransformationDef, key
from transforms.errors import AdminError, ConfigInvalid, ExpressionInvalid
from transforms.registry import BUILTIN_MODULE, TransformationDefinition, compile_transformation

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
            from_type, to_type: payload types it takes and gives, for people.
            definition: as :mod:`transforms.registry` reads it.

        Raises:
            AdminError: ORA-32801 exists, or the definition is invalid.
        """
        check_identifier("transformation", name)
        item = TransformationDef(name, from_type, to_type, dict(definition), comment)
        _check(item)
        with self.change() as conn:
            if catalog.get_transformation(conn, name) is not None:
                raise AdminError(
                    f"transformation {name} exists already",
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
    ) -> None:
        """Alter a transformation (None keeps a part); jobs that use it go on with the new one at once.

        Raises:
            AdminError: ORA-32801 unknown, or the definition is invalid.
        """
        with self.change() as conn:
            item = self._need(conn, name)
            altered = replace(
                item,
                from_type=item.from_type if from_type is None else from_type,
                to_type=item.to_type if to_type is None else to_type,
                definition=item.definition if definition is None else dict(definition),
                comments=item.comments if comment is NO_CHANGE else comment,
            )
            _check(altered)
            catalog.update_transformation(conn, altered)

    def drop_transformation(self, name: str) -> None:
        """Remove a transformation no job uses.

        Raises:
            AdminError: ORA-32801 unknown, or a job uses it.
        """
        with self.change() as conn:
            item = self._need(conn, name)
            users = [job.name for job in catalog.list_jobs(conn) if key(job.transformation or "") == key(name)]
            if users:
                raise AdminError(
                    f"transformation {item.name} cannot be dropped",
                    number=Ora.INVALID_VALUE,
                    cause=f"jobs use it: {', '.join(users)}",
                    cure="alter those jobs first",
                )
            catalog.delete_transformation(conn, name)

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


def _check(item: TransformationDef) -> None:
    check_text(f"comment of transformation {item.name}", item.comments)
    try:
        definition = TransformationDefinition.from_mapping(item.name, item.definition)
        if definition.function is None or definition.function.startswith(f"{BUILTIN_MODULE}:"):
            compile_transformation(definition)
    except ConfigInvalid as error:
        raise refused(error) from error
    except ExpressionInvalid as error:
        raise AdminError(
            f"transformation {item.name}: {error.what}",
            number=Ora.INVALID_VALUE,
            cause=error.cause,
            cure=error.cure,
        ) from error
