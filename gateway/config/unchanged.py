"""Whether an object still is as a plan saw it, asked in the transaction that changes it.

Those who change objects by a plan wait here for each other; so nobody overwrites what another has just changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Hub, QueueAdmin
from mgw.gateway.config.forms import hub_name, queue_table_of, user_key
from mgw.gateway.config.models import NOUNS, QueueModel, QueueTableModel
from mgw.gateway.config.object_types import read_type
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.config.running import read_defined, read_queue, read_queue_table
from mgw.gateway.config.security import read_agents, read_grants
from mgw.gateway.services.admin import GatewayAdmin, Overtaken
from mgw.gateway.state import catalog

__all__ = ["Seen", "resting_on", "seen_of", "unaffected"]

_OF_GATEWAY = frozenset(("agents", "links", "foreign_queues", "transformations", "jobs"))
_OF_THE_TABLE = QueueTableModel.model_fields.keys() - {"comment"}


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as a plan saw it.

    Attributes:
        model: None: it was not there.
        known: False: nobody has looked, so anything is right.
    """

    section: str
    name: str
    model: Any = None
    known: bool = True

    def require(self, hub: Hub, conn: sa.Connection, **ours: object) -> None:
        """Wait for others who change by a plan, until the end of the transaction, and compare.

        Args:
            ours: settings of the object that this step itself has changed in the meantime.

        Raises:
            Overtaken: it is not so any more.
        """
        if not self.known:
            return
        catalog.lock_administration(conn)
        self.compare(_READERS[self.section](QueueAdmin(hub, conn), self.name), ours)

    def compare(self, found: Any, ours: Mapping[str, object] = MappingProxyType({})) -> None:
        """Compare it with the object as it is now; ``ours`` as for :meth:`require`.

        Raises:
            Overtaken: it is not so any more.
        """
        if _values(self.model, found, ours) != _values(found, self.model, {}):
            what = "exists now" if self.model is None else "is gone" if found is None else "was changed"
            raise Overtaken(
                f"{NOUNS[self.section]} {self.name} {what}: nothing was done to it",
                cause="somebody changed it between the plan and this step",
                cure="plan again, look at what differs, and apply then",
            )


class _Guard:
    """An object of the gateway that one step changes, in one transaction or several."""

    def __init__(self, admin: GatewayAdmin, seen: Seen) -> None:
        self._secrets = admin.secrets
        self._seen = seen

    def before(self, conn: sa.Connection) -> None:
        """See :class:`mgw.gateway.services.admin.Guard`."""
        self._seen.compare(self._found(conn))

    def after(self, conn: sa.Connection) -> None:
        """What the step has made of it is what its next change rests on."""
        self._seen = replace(self._seen, model=self._found(conn))

    def _found(self, conn: sa.Connection) -> Any:
        return read_defined(conn, self._secrets, self._seen.section, self._seen.name)


@contextmanager
def resting_on(admin: GatewayAdmin, seen: Seen) -> Iterator[None]:
    """What ``admin`` changes in the block are changes of one object of the gateway, each in a transaction in which the
    object was found to be as it was seen.

    Raises:
        Overtaken: it is not so any more; that change was not made.
    """
    admin.guard = _Guard(admin, seen) if seen.known and seen.section in _OF_GATEWAY else None
    try:
        yield
    finally:
        admin.guard = None


def seen_of(action: Action) -> Seen:
    """What a step rests on."""
    known = action.section in (*_READERS, *_OF_GATEWAY) and (action.before is not None or action.verb is Verb.CREATE)
    return Seen(action.section, action.name, action.before, known)


def unaffected(action: Action, actions: Sequence[Action]) -> Action:
    """A step as it rests on what no other step of its plan changes: the table of a queue may be altered by itself."""
    if action.section != "queues" or action.before is None:
        return action
    table = hub_name(queue_table_of(action.name, action.before))
    altered = any(
        (each.verb, each.section, hub_name(each.name)) == (Verb.ALTER, "queue_tables", table) for each in actions
    )
    return action.based_on(action.before.model_copy(update={"queue_table": table})) if altered else action


def _values(model: Any, other: Any, ours: Mapping[str, object]) -> object:
    """What compares of an object, next to how it looked at another time."""
    if model is None:
        return None
    values = model.model_dump(warnings=False) | ours  # it warns of numbers beside INFINITE, which the model takes
    if isinstance(model, QueueModel):
        both_own = model.queue_table is None and isinstance(other, QueueModel) and other.queue_table is None
        left_out = {"queue_table"} if both_own else _OF_THE_TABLE | {"queue_table"}
        if model.type != "NORMAL":  # nobody can enqueue there: that direction says nothing
            left_out |= {"enqueue"}
        return {key: value for key, value in values.items() if key not in left_out}
    return values


def _agent(admin: QueueAdmin, name: str) -> Any:
    return next((model for each, model in read_agents(admin).items() if user_key(each) == user_key(name)), None)


_READERS: Mapping[str, Callable[[QueueAdmin, str], Any]] = {
    "object_types": read_type,
    "queue_tables": read_queue_table,
    "queues": read_queue,
    "aq_agents": _agent,
    "grants": lambda admin, name: next(iter(read_grants(admin, name).values()), None),
}
