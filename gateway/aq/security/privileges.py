"""Who may do what (AQ guide 12.2 §4.2, §8.5, §8.8, §10.1).

A session or administration without a user is the hub's owner: it may do everything and no check is made. With a user it
may do everything with the queues of the schema called like the user, and with others what was granted to the user, to a
role the user holds, or to PUBLIC. A queue on which the user has no privilege at all does not exist for the user: the
refusal is, word for word, the one for a queue that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from mgw.gateway.aq.errors import (
    AgentNotMapped,
    NameInvalid,
    NotTheOwner,
    PayloadTypeForbidden,
    PrivilegeMissing,
    QueueMissing,
    SenderMissing,
    UnknownQueue,
)
from mgw.gateway.aq.grants import ADMINISTRATOR, OWNERS, PUBLIC, SystemRight
from mgw.gateway.aq.model import QueueInfo, QueueRef, QueueType
from mgw.gateway.aq.names import DEFAULT_SCHEMA, QualifiedName, agent_key, qualified, user_name
from mgw.gateway.aq.payloads import types_sql
from mgw.gateway.aq.payloads.types_sql import TypeRecord
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.security import security_sql
from mgw.gateway.aq.security.security_sql import Held
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message

__all__ = ["Need", "Rights", "rights_of"]


class Need(StrEnum):
    """What a call wants to do with a queue."""

    ENQUEUE = "ENQUEUE"
    DEQUEUE = "DEQUEUE"
    MANAGE = "MANAGE"

    @property
    def any(self) -> SystemRight:
        """The system privilege that allows it on every queue."""
        return SystemRight(f"{self.value}_ANY")


class _Target(NamedTuple):
    """How a call names the queue, for its refusals."""

    name: str
    schema: str
    error: type[AqError]


def rights_of(user: str | None) -> Rights | None:
    """The rights of a user; None for the hub's owner (no user, SYS or SYSTEM), who needs none.

    Raises:
        AqError: 25200 not the name of a user.
    """
    if user is None:
        return None
    name = user_name(user)
    if name.upper() in (PUBLIC, ADMINISTRATOR):
        raise NameInvalid(f"{name} is not a user", cause="it is a role", cure="give the name of the user")
    if name.upper() not in OWNERS:
        return Rights(name)
    if not name.isascii():  # a letter that only looks like theirs, such as a long s, has the same upper case
        raise NameInvalid(f"{name} is not a user", cause=f"it would be read as {name.upper()}", cure="use another name")
    return None


class Rights:
    """What one user may do. Read when it is first asked for, and again after any grant was changed; not thread-safe.

    Attributes:
        user: the name as it was given, without quotes.
        key: the form that compares.
    """

    __slots__ = ("_held", "_version", "key", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.key = user.upper()
        self._held: Held | None = None
        self._version = 0

    def held(self, db: Db) -> Held:
        """Everything the user holds, as the transaction of ``db`` sees it."""
        version = security_sql.version(db)
        held = self._held
        if held is None or version != self._version:
            held = self._held = security_sql.held_by(db, self.key)
            self._version = version
        return held

    # -- queues ----------------------------------------------------------------------------------------------------

    def enqueue_target(self, db: Db, name: str, schema: str = DEFAULT_SCHEMA) -> QueueRef:
        """The queue to enqueue to.

        Raises:
            AqError: 25205 it does not exist for the user, 1031 privilege ENQUEUE is missing.
        """
        return self._target(db, _Target(name, schema, UnknownQueue), Need.ENQUEUE)[0]

    def check_senders(self, db: Db, queue: QueueRef, messages: Sequence[Message]) -> None:
        """On a secure queue, refuse messages whose senders are not the user's; a transformation may have changed them.

        Raises:
            AqError: 25224 a message has no sender, 24093 a sender is not an AQ agent of the user.
        """
        if queue.secure and not self._owns(queue.schema):
            self._check_senders(queue, self.held(db), [message.sender_name for message in messages])

    def dequeue_target(self, db: Db, name: str, consumer: str | None, schema: str = DEFAULT_SCHEMA) -> QueueRef:
        """The queue to dequeue from, browse or listen to.

        Raises:
            AqError: 25205 it does not exist for the user, 1031 privilege DEQUEUE is missing; on a secure queue: 24093
                the consumer is not an AQ agent of the user.
        """
        queue, held = self._target(db, _Target(name, schema, UnknownQueue), Need.DEQUEUE)
        if queue.secure and not self._owns(queue.schema):
            self._check_consumer(queue, held, consumer)
        return queue

    def manage_target(
        self, db: Db, name: str, schema: str = DEFAULT_SCHEMA, *, error: type[AqError] = QueueMissing
    ) -> QueueRef:
        """The queue to administer.

        Raises:
            AqError: 24010 it does not exist for the user, 1031 it is neither the user's nor does the user hold
                MANAGE_ANY.
        """
        return self._target(db, _Target(name, schema, error), Need.MANAGE)[0]

    def visible_target(
        self, db: Db, name: str, schema: str = DEFAULT_SCHEMA, *, error: type[AqError] = QueueMissing
    ) -> QueueRef:
        """A queue the user owns or has any privilege on, as in ALL_QUEUES (AQ guide 12.2 §9.2).

        Raises:
            AqError: 24010 it does not exist for the user.
        """
        queue = catalog.find_queue(db, name, schema)
        if queue is None or not self.sees(self.held(db), queue.id, queue.schema):
            raise self._hidden(_Target(name, schema, error), "a privilege")
        return queue

    def reading_target(self, db: Db, name: str, schema: str = DEFAULT_SCHEMA) -> QueueRef:
        """A queue the user may dequeue from or administer, secure or not.

        Raises:
            AqError: 24010 it does not exist for the user, 1031 privilege DEQUEUE is missing.
        """
        queue = self.visible_target(db, name, schema)
        if not self.readable(db, [queue]):
            raise self._missing(queue, Need.DEQUEUE)
        return queue

    def readable(self, db: Db, queues: Iterable[QueueRef | QueueInfo]) -> set[str]:
        """Full names of those queues that the user may dequeue from or administer."""
        held = self.held(db)
        return {
            queue.full_name
            for queue in queues
            if any(self.may(held, need, queue.id, queue.schema) for need in (Need.DEQUEUE, Need.MANAGE))
        }

    def _target(self, db: Db, target: _Target, need: Need) -> tuple[QueueRef, Held]:
        queue = catalog.find_queue(db, target.name, target.schema)
        held = self.held(db)
        if queue is not None and self.may(held, need, queue.id, queue.schema):
            return queue, held
        if queue is None or not self.sees(held, queue.id, queue.schema):
            raise self._hidden(target, f"privilege {need.value if need is not Need.MANAGE else need.any.value}")
        raise self._missing(queue, need)

    def may(self, held: Held, need: Need, queue_id: int, schema: str) -> bool:
        """Whether the user may do that with a queue, secure or not."""
        return (
            self._owns(schema)
            or ADMINISTRATOR in held.names
            or need.any.value in held.system
            or need.value in held.queues.get(queue_id, ())
        )

    def sees(self, held: Held, queue_id: int, schema: str) -> bool:
        """Whether the user may know that a queue exists."""
        return bool(self._owns(schema) or ADMINISTRATOR in held.names or held.system or held.queues.get(queue_id, ()))

    def _owns(self, schema: str) -> bool:
        return schema.upper() == self.key

    # -- administration --------------------------------------------------------------------------------------------

    def administers(self, db: Db) -> bool:
        """Whether the user may administer every schema."""
        held = self.held(db)
        return ADMINISTRATOR in held.names or SystemRight.MANAGE_ANY.value in held.system

    def manages(self, db: Db, schema: str) -> bool:
        """Whether the user may administer everything in a schema."""
        return self._owns(schema) or self.administers(db)

    def require_schema(self, db: Db, name: QualifiedName, what: str) -> None:
        """Refuse to make something in a schema that is neither the user's nor administered by the user (1031)."""
        if not self.manages(db, name.schema):
            raise PrivilegeMissing(
                f"user {self.user} may not create {what} {name.schema}.{name.name}",
                cause=f"schema {name.schema} is not the user's, and the user does not hold MANAGE_ANY",
                cure=f"create it in schema {self.key}, or have an administrator grant MANAGE_ANY to {self.user}",
            )

    def executes(self, db: Db, records: Iterable[TypeRecord]) -> list[TypeRecord]:
        """Those of the types that the user may make something of: the own ones, and those granted to the user."""
        if self.administers(db):
            return list(records)
        granted = types_sql.granted_types(db, self.held(db).names)
        return [record for record in records if self._owns(record.schema) or record.id in granted]

    def require_type(self, db: Db, record: TypeRecord | None, what: str) -> None:
        """Refuse to make something of another's type without EXECUTE on it (24016); None: a type of the hub's own."""
        if record is not None and not self.executes(db, [record]):
            raise PayloadTypeForbidden(
                f"{what} cannot use type {record.full_name}",
                cause=f"user {self.user} neither owns the type nor holds EXECUTE on it",
                cure=f"have {record.schema} or an administrator do: "
                f"grant_type_privilege('{record.full_name}', '{self.user}')",
            )

    def require_owner(self, name: QualifiedName, what: str) -> None:
        """Refuse what only the owner of an object may do, whatever the user administers (24072)."""
        if not self._owns(name.schema):
            raise NotTheOwner(
                f"user {self.user} may not {what} {name.shown}",
                cause=f"only its owner, user {name.schema}, may",
                cure=f"have {name.schema} do it",
            )

    def require_administrator(self, db: Db, what: str, *, manage_any: bool = True) -> None:
        """Refuse what concerns the whole hub to anybody who does not administer it (1031)."""
        if self.administers(db) if manage_any else ADMINISTRATOR in self.held(db).names:
            return
        needed = f"{ADMINISTRATOR} or MANAGE_ANY" if manage_any else ADMINISTRATOR
        raise PrivilegeMissing(
            f"user {self.user} may not {what}",
            cause=f"the user does not hold {needed}",
            cure=f"have the hub's owner, or a holder of {ADMINISTRATOR}, do it or grant that to {self.user}",
        )

    # -- secure queues ---------------------------------------------------------------------------------------------

    def _check_senders(self, queue: QueueRef, held: Held, given: list[str | None]) -> None:
        for name in dict.fromkeys(given):
            if name is not None and agent_key(name) in held.agents:
                continue
            index = given.index(name)
            if not name:
                raise SenderMissing(
                    f"message {index} for secure queue {queue.full_name} has no sender",
                    index=index,
                    cause=f"only its owner, user {queue.schema}, may enqueue without",
                    cure=f"give sender_name, an AQ agent of user {self.user}",
                )
            raise AgentNotMapped(
                f"message {index} for secure queue {queue.full_name} has sender {name}",
                cause=f"no AQ agent of that name has the privileges of user {self.user}",
                cure=f"have an administrator map it: enable_db_access('{name}', '{self.user}')",
            )

    def _check_consumer(self, queue: QueueRef, held: Held, consumer: str | None) -> None:
        if consumer is None:
            if held.agents or (queue.multiple_consumers and queue.queue_type is QueueType.NORMAL):
                return  # on a multi-consumer queue the missing name is an error of its own
            raise AgentNotMapped(
                f"user {self.user} may not dequeue from secure queue {queue.full_name}",
                cause="no AQ agent has the privileges of the user",
                cure=f"have an administrator map one: enable_db_access(agent, '{self.user}')",
            )
        if agent_key(consumer) not in held.agents:
            raise AgentNotMapped(
                f"user {self.user} may not dequeue from secure queue {queue.full_name} as consumer {consumer}",
                cause=f"no AQ agent of that name has the privileges of user {self.user}",
                cure=f"have an administrator map it: enable_db_access('{consumer}', '{self.user}')",
            )

    # -- refusals --------------------------------------------------------------------------------------------------

    def _hidden(self, target: _Target, needed: str) -> AqError:
        owner = qualified(target.name, target.schema).schema
        return target.error(
            f"queue {target.name!r} does not exist for user {self.user}",
            cause="no queue of that name is in the hub, or the user has no privilege on it",
            cure=f"correct the name, or have {owner} or an administrator grant {self.user} {needed}",
        )

    def _missing(self, queue: QueueRef, need: Need) -> PrivilegeMissing:
        if need is Need.MANAGE:
            return PrivilegeMissing(
                f"user {self.user} may not administer queue {queue.full_name}",
                cause=f"the queue belongs to user {queue.schema}, and the user does not hold MANAGE_ANY",
                cure=f"have {queue.schema} do it, or an administrator grant MANAGE_ANY to {self.user}",
            )
        return PrivilegeMissing(
            f"user {self.user} may not {need.value.lower()} on queue {queue.full_name}",
            cause=f"the user holds neither {need.value} on it nor {need.any.value}",
            cure=f"have {queue.schema} or an administrator do: "
            f"grant_queue_privilege('{need.value}', '{queue.full_name}', '{self.user}')",
        )
