"""A part of the schema: tables of one owner, with a version number and the steps that lead to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa

    from mgw.gateway.aq.store.function_home_sql import SqlFunctions
    from mgw.gateway.aq.store.migrations.changes import Changes

__all__ = ["SchemaPart", "Step", "plans_view"]


def _nothing(_: sa.Connection) -> None:
    """Nothing to make or to drop."""


@dataclass(frozen=True, slots=True)
class Step:
    """What changes between one version of a part's tables and the next.

    A step is history: it names tables, columns and rules as text of its own, and never imports the tables of today. One
    that was released is never changed.

    Attributes:
        version: the version that it leads to; the first one is 2.
        title: what it changes, in a line, for the person who upgrades.
        run: changes tables and rows. Views, functions and triggers are not there meanwhile; they are made again
            afterwards, by the part as it is now. A step that changes nothing but those does nothing.
    """

    version: int
    title: str
    run: Callable[[Changes], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """Tables and views that one module keeps in the hub database: made with it, checked at every open.

    Attributes:
        name: of its row in ``aq_part``.
        create: makes the tables, and the rows that a new hub begins with, in the transaction of the connection.
        jobs_with_transformations: (job, transformation as it is written) of every job of the module that has one.
        steps: from version 1 on; every release that changes tables, views, functions or triggers adds one.
        make_derived: makes the views, functions and triggers; the tables are there.
        drop_derived: drops those that an earlier release of the part may have made; some may be missing.
        at_work: programs that work on the hub, as (who, until when they keep their claim in epoch seconds) at a moment;
            while there are any, nothing is upgraded.
        functions: its SQL functions (PostgreSQL): made with the tables, replaced by a newer release.
    """

    name: str
    create: Callable[[sa.Connection], None]
    jobs_with_transformations: Callable[[sa.Connection], Iterable[tuple[str, str]]] = lambda _: ()
    steps: Sequence[Step] = ()
    make_derived: Callable[[sa.Connection], None] = _nothing
    drop_derived: Callable[[sa.Connection], None] = _nothing
    at_work: Callable[[sa.Connection, float], Iterable[tuple[str, float]]] = lambda *_: ()
    functions: SqlFunctions | None = None

    @property
    def version(self) -> int:
        """Of its tables, views, functions and triggers: that of the last step."""
        return self.steps[-1].version if self.steps else 1


def plans_view(part: str) -> str:
    """Name of the view in which a part tells which messages it has set aside in plans of its own.

    Its columns are ``queue_id`` and ``message_id``. A part that claims messages makes it with its other views: floors
    below do not know the part's tables, and programs that do not load its package look into the view as well.
    """
    return f"aq_plans_{re.sub(r'[^a-z0-9]', '_', part.lower())}"
