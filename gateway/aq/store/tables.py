"""The hub's tables, as SQLAlchemy sees them. Only :mod:`mgw.gateway.aq` writes to them; anybody may read.

Times are epoch seconds. Message ids are sequential integers; the 16-byte message id people see is ``hub_id || id``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq.model import State
from mgw.gateway.aq.store.checks import FLAG, add_checks, one_of

__all__ = [
    "COMMIT_COUNTER",
    "LEFT",
    "LOCKABLE",
    "MESSAGE_COUNTER",
    "MESSAGE_STATES",
    "OPEN",
    "PENDING",
    "PRIVILEGE_COUNTER",
    "SESSION_COUNTER",
    "WAYS",
    "BodyType",
    "Enabled",
    "State",
    "metadata",
    "states",
]


def states(*of: State | BodyType) -> str:
    """States, or kinds of bodies, as a list in SQL: ``(0, 1)``."""
    return f"({', '.join(map(str, of))})"


#: Lists of states in SQL: what is not consumed; of that, what nobody has in hand; what a consumer can take, or has;
#: what a transaction can lock, to take it.
LEFT = states(State.READY, State.WAITING, State.UNDELIVERABLE, State.CLAIMED)
OPEN = states(State.READY, State.WAITING, State.UNDELIVERABLE)
PENDING = states(State.READY, State.WAITING, State.CLAIMED)
LOCKABLE = states(State.READY, State.WAITING, State.EXPIRED, State.UNDELIVERABLE)


class Enabled(IntEnum):
    """Whether messages can be put into a queue, or taken out: ``enqueue_enabled``, ``dequeue_enabled`` of ``aq_queue``.

    STOPPING: nobody can begin to; transactions that use the queue already may continue.
    """

    STOPPED = 0
    STARTED = 1
    STOPPING = 2


class BodyType(IntEnum):
    """How ``aq_message.body`` is to be read: nothing, bytes, UTF-8 text, fields as JSON, a declared type's JSON."""

    NONE = 0
    RAW = 1
    TEXT = 2
    FIELDS = 3
    VALUE = 4


#: How an actor came to a change: a program that calls Python, the command line, HTTP, SQL, an agent by itself.
WAYS = ("python", "cli", "http", "sql", "agent")

COMMIT_COUNTER = "commit"
MESSAGE_COUNTER = "message"
SESSION_COUNTER = "session"
PRIVILEGE_COUNTER = "privilege"  # no count: another number after every change of who may do what

MAX_BRACKETS = 400  # of a JSON payload that a database may read; one with more may be too deep for somebody

metadata = sa.MetaData()

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.Float(53)


def _column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, **{"nullable": True, **options})


def _required(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, **{"nullable": False, **options})


hub = sa.Table(
    "aq_hub",
    metadata,
    _required("hub_id", sa.LargeBinary(8)),
    _required("schema_version", sa.Integer),
    _required("durability", sa.Text),
    _required("created", _TIME),
    _column("written_by", sa.Text),  # release that made the hub, or that upgraded it last
    _column("upgraded", _TIME),  # when it was upgraded last
)

part = sa.Table("aq_part", metadata, _required("name", sa.Text, primary_key=True), _required("version", sa.Integer))

counter = sa.Table("aq_counter", metadata, _required("name", sa.Text, primary_key=True), _required("value", _ID))

# An object type. A dropped one stays, without its name, for the messages that refer to it; ids are random, so that none
# is ever given twice, not even after a rollback.
type_ = sa.Table(
    "aq_type",
    metadata,
    _required("id", _ID, primary_key=True, autoincrement=False),
    _required("schema", sa.Text),
    _required("name", sa.Text),
    _required("name_key", sa.Text),
    _required("definition", sa.Text),  # JSON, nested types included
    _required("shape", sa.Text),  # digest of the attributes: equal for identical types
    _required("created", _TIME),
    _column("dropped", _TIME),
)

# Modules whose functions transformations and rules of this hub may call. They are code: only administrators write here.
module = sa.Table(
    "aq_module",
    metadata,
    _required("name", sa.Text, primary_key=True),
    _required("created", _TIME),
)

# Functions that rules and expressions of this hub may call by name, in every process that opens it.
rule_function = sa.Table(
    "aq_rule_function",
    metadata,
    _required("name_key", sa.Text, primary_key=True),
    _required("name", sa.Text),
    _required("function", sa.Text),  # package.module:function, of a module in the table above
    _required("created", _TIME),
)

# The one catalogue of transformations: for enqueue, dequeue, subscribers and the gateway's jobs.
transformation = sa.Table(
    "aq_transformation",
    metadata,
    _required("id", _ID, primary_key=True, autoincrement=False),
    _required("schema", sa.Text),
    _required("name", sa.Text),
    _required("name_key", sa.Text, unique=True),
    _required("from_type", sa.Text),
    _required("to_type", sa.Text),
    _column("definition", sa.Text),  # JSON, see mgw.transforms.steps.registry; None: the expressions of the next table
    _column("comment", sa.Text),
    _required("created", _TIME),
    _required("version", _ID),  # random, another one after every change: what is compiled from it never grows old
)

attribute_transformation = sa.Table(
    "aq_attribute_transformation",
    metadata,
    _required("transformation_id", _ID, primary_key=True, autoincrement=False),
    _required("attribute_number", sa.Integer, primary_key=True, autoincrement=False),  # 0: the whole
    _required("expression", sa.Text),
    sqlite_with_rowid=False,
)

queue_table = sa.Table(
    "aq_queue_table",
    metadata,
    _required("id", _ID, primary_key=True),
    _required("schema", sa.Text),
    _required("name", sa.Text),
    _required("name_key", sa.Text, unique=True),  # SCHEMA.NAME in upper case: names compare case-insensitively
    _required("payload_type", sa.Text),
    _column("object_type", sa.Text),  # SCHEMA.NAME of the type, for payload type OBJECT
    _column("type_id", _ID),
    _required("jms_types", sa.Integer, server_default="0"),  # ANYDATA: JMS and XML types are taken
    _required("sort_list", sa.Text),
    _required("multiple_consumers", sa.Integer),
    _required("message_grouping", sa.Text),
    _required("compatible", sa.Text),
    _required("secure", sa.Integer),
    _required("max_payload", _ID),
    _column("storage_clause", sa.Text),
    _required("primary_instance", sa.Integer),  # 0: any
    _required("secondary_instance", sa.Integer),
    _column("comment", sa.Text),
    _required("created", _TIME),
    _required("options", sa.Text, server_default="{}"),  # JSON, see mgw.gateway.aq.options
    sqlite_autoincrement=True,
)

queue = sa.Table(
    "aq_queue",
    metadata,
    _required("id", _ID, primary_key=True),
    _required("schema", sa.Text),
    _required("name", sa.Text),
    _required("name_key", sa.Text, unique=True),
    _required("queue_table_id", _ID, index=True),
    _required("queue_type", sa.Text),
    _column("max_retries", _ID),  # None means the default, 5
    _required("retry_delay", _TIME),
    _required("retention_time", _TIME),  # seconds, -1 forever
    _required("enqueue_enabled", sa.Integer),  # of Enabled
    _required("dequeue_enabled", sa.Integer),
    _column("comment", sa.Text),
    _required("created", _TIME),
    sqlite_autoincrement=True,
)

consumer = sa.Table(
    "aq_consumer",
    metadata,
    _required("id", _ID, primary_key=True),
    _required("queue_id", _ID),
    _column("name", sa.Text),
    _required("name_key", sa.Text),
    _required("address", sa.Text),  # empty: a consumer of this queue itself
    _required("protocol", sa.Integer),
    _required("is_subscriber", sa.Integer, server_default="0"),  # who may only send never sets it
    _column("rule", sa.Text),
    _column("rule_sql", sa.Text),  # for SQL functions (PostgreSQL); None with a rule: only Python can evaluate it
    _column("transformation", sa.Text),
    _required("delivery_mode", sa.Text),
    _required("queue_to_queue", sa.Integer),
    _required("created", _TIME),
    _column("removed_upto", _ID),  # last message id when it ceased to be a subscriber: it gets nothing up to that
    _required("options", sa.Text, server_default="{}"),  # JSON, see mgw.gateway.aq.options
    sa.UniqueConstraint("queue_id", "name_key", "address", "protocol"),
    sqlite_autoincrement=True,
)

message = sa.Table(
    "aq_message",
    metadata,
    _required("id", _ID, primary_key=True, autoincrement=False),
    _required("queue_id", _ID),
    _required("state", sa.SmallInteger),
    _required("k1", _TIME),
    _required("k2", _TIME),
    _required("k3", _TIME),
    _required("priority", _ID),
    _required("ready_at", _TIME),
    _column("expires_at", _TIME),
    _column("expiration", _TIME),
    _column("correlation", sa.Text),
    _required("enq_time", _TIME),
    _column("enq_user", sa.Text),
    _column("enq_txn", sa.Text),
    _column("deq_time", _TIME),
    _column("deq_user", sa.Text),
    _column("deq_txn", sa.Text),
    _required("attempts", sa.Integer),
    _column("exception_queue", sa.Text),
    _column("sender_name", sa.Text),
    _column("sender_address", sa.Text),
    _column("sender_protocol", sa.Integer),
    _column("original_msgid", sa.LargeBinary(16)),
    _column("original_queue_id", _ID),
    _column("expiration_reason", sa.Text),
    _column("group_id", _ID),
    _column("user_property", sa.Text),
    _column("claim", _ID),  # aq_session.id; None when a job's plan holds the claim
    _required("kind", sa.Text),
    _column("headers", sa.Text),
    _required("body_type", sa.SmallInteger),
    _column("body", sa.LargeBinary),
    _column("type_id", _ID),  # declared type of an object or of ANYDATA; scalars have codes below 0
    _column("type_name", sa.Text),  # GetTypeName() of ANYDATA
)

entry = sa.Table(
    "aq_entry",
    metadata,
    _required("message_id", _ID, primary_key=True, autoincrement=False),
    _required("consumer_id", _ID, primary_key=True, autoincrement=False),
    _required("queue_id", _ID),
    _required("state", sa.SmallInteger),
    _required("k1", _TIME),
    _required("k2", _TIME),
    _required("k3", _TIME),
    _required("ready_at", _TIME),
    _column("expires_at", _TIME),
    _required("attempts", sa.Integer),
    _column("claim", _ID),
    _column("deq_time", _TIME),
    _column("deq_user", sa.Text),
    _column("deq_txn", sa.Text),
    _column("propagated_msgid", sa.LargeBinary(16)),
    _column("group_id", _ID),
    sqlite_with_rowid=False,
)

# What a transaction put into commit-time queues and what therefore has no place yet. No other transaction ever sees a
# row of it: the last act of a transaction on PostgreSQL is to give its messages their places and to empty it.
unplaced = sa.Table("aq_unplaced", metadata, _required("queue_id", _ID), _required("group_id", _ID))

# Messages that became READY after others behind them (PostgreSQL); see gateway/aq/queues/search_bounds.py.
reopened = sa.Table(
    "aq_reopened",
    metadata,
    _required("queue_id", _ID),
    _required("k3", _TIME),
    _required("message_id", _ID),
    sa.Index("aq_reopened_first", "queue_id", "k3"),
)

# How many messages came into a state, or left it; see gateway/aq/store/totals_sql.py.
total = sa.Table(
    "aq_total",
    metadata,
    _required("queue_id", _ID),
    _required("consumer_id", _ID),  # 0: messages; otherwise entries that the consumer can take
    _required("state", sa.SmallInteger),
    _required("messages", _ID),
    _required("enqueued", _ID),
    _required("ready", _ID),
)
sa.Index("aq_total_key", total.c.queue_id, total.c.consumer_id, total.c.state, unique=True).ddl_if(dialect="sqlite")

# One row per consumption of a multi-consumer message (AQ$_<queue table>_L): the time manager reads it in order and
# never has to look through messages that nobody touched.
dequeue_log = sa.Table(
    "aq_dequeue_log",
    metadata,
    _required("id", _ID, primary_key=True),
    _required("message_id", _ID),
    sqlite_autoincrement=True,
)

session = sa.Table(
    "aq_session",
    metadata,
    _required("id", _ID, primary_key=True, autoincrement=False),
    _required("host", sa.Text),
    _required("pid", sa.Integer),
    _required("lease_until", _TIME),
    _required("created", _TIME),
)

# Names of the views made with queue tables and queues: some had to be called otherwise.
view = sa.Table(
    "aq_view",
    metadata,
    _required("name", sa.Text, primary_key=True),
    _required("kind", sa.Text),  # MESSAGES, _S, _R
    _column("queue_table_id", _ID, index=True),
    _column("queue_id", _ID, index=True),
)

# A process that has counted something; its numbers are in aq_activity, and go with it.
process = sa.Table(
    "aq_process",
    metadata,
    _required("id", _ID, primary_key=True, autoincrement=False),
    _required("host", sa.Text),
    _required("pid", sa.Integer),
    _required("started", _TIME),
    _required("lease_until", _TIME),
    _required("passes", _ID),  # of the time manager
    _required("pass_seconds", _TIME),
)

# One row per process and queue, consumer or publisher: nobody waits for another's row. Since the process's start.
# Process 0 has what is left of the processes that ended: left_out of consumers.
activity = sa.Table(
    "aq_activity",
    metadata,
    _required("process_id", _ID, primary_key=True, autoincrement=False),
    _required("kind", sa.Text, primary_key=True),  # QUEUE, CONSUMER, PUBLISHER
    _required("object_id", _ID, primary_key=True, autoincrement=False),  # queue, consumer, queue
    _required("name", sa.Text, primary_key=True),  # of the publisher, or empty
    _required("address", sa.Text, primary_key=True),
    _required("protocol", sa.Integer, primary_key=True, autoincrement=False),
    _required("first_time", _TIME),
    _required("enqueued", _ID),
    _required("dequeued", _ID),
    _required("browsed", _ID),
    _required("expired", _ID),
    _required("made_ready", _ID),
    _required("delayed", _ID),  # enqueued with a delay
    _required("expiring", _ID),  # enqueued with an expiration
    _required("enqueue_transactions", _ID),
    _required("dequeue_transactions", _ID),
    _required("enqueue_seconds", _TIME),
    _required("dequeue_seconds", _TIME),
    _required("rule_seconds", _TIME),
    _required("transform_seconds", _TIME),
    _column("latency", _TIME),  # of the message handed out last
    _column("last_enqueue", _TIME),
    _column("last_dequeue", _TIME),
    _column("last_expired", _TIME),
    _column("last_ready", _TIME),
    _required("managed", _ID),  # messages the time manager changed
    _required("managed_seconds", _TIME),
    _column("last_managed", _TIME),
    _required("logged", _ID),  # rows of the dequeue log it worked off
    _required("logged_seconds", _TIME),
    _column("last_logged", _TIME),
    _required("left_out", _ID, server_default="0"),  # messages that a subscriber's rule refused
    sqlite_with_rowid=False,
)

# One row per grant: a privilege on a queue may come from several grantors, a system privilege (queue_id 0) from one.
privilege = sa.Table(
    "aq_privilege",
    metadata,
    _required("id", _ID, primary_key=True),
    _required("queue_id", _ID),
    _required("privilege", sa.Text),  # ENQUEUE, DEQUEUE; ENQUEUE_ANY, DEQUEUE_ANY, MANAGE_ANY
    _required("grantee", sa.Text),
    _required("grantee_key", sa.Text, index=True),
    _required("grantor", sa.Text),
    _required("grantor_key", sa.Text),
    _required("grantable", sa.Integer),  # with grant option, with admin option
    _required("created", _TIME),
    sa.UniqueConstraint("queue_id", "privilege", "grantee_key", "grantor_key"),
    sqlite_autoincrement=True,
)

# What administration changed: who, when, what; and what became of the messages of what was removed.
audit = sa.Table(
    "aq_audit",
    metadata,
    _required("id", _ID, primary_key=True),
    _required("time", _TIME),
    _required("actor", sa.Text),
    _required("action", sa.Text),  # drop queue, purge, remove job, alter link, ...
    _required("object", sa.Text),
    _required("messages", _ID),  # that were in it
    _column("oldest", _TIME),  # when the oldest of them was enqueued
    _column("moved_to", sa.Text),  # the queue that got them; NULL: they were deleted
    _column("through", sa.Text),  # how the actor came
    _column("kind", sa.Text),  # of the object; NULL: a removal that is no definition
    _column("before_change", sa.Text),  # JSON without secrets; NULL: it was not there
    _column("after_change", sa.Text),
    _column("generation", _ID),  # the first entry of the same undertaking; NULL: it stands alone
    _column("version", _ID),  # of the gateway's definitions, with this change
    _column("result", sa.Text),  # of the undertaking, in its last entry
    sqlite_autoincrement=True,
)

# EXECUTE on an object type: who may make queue tables, types and transformations of it.
type_privilege = sa.Table(
    "aq_type_privilege",
    metadata,
    _required("type_id", _ID, primary_key=True, autoincrement=False),
    _required("grantee_key", sa.Text, primary_key=True),
    _required("grantee", sa.Text),
    _required("grantor", sa.Text),
    _required("created", _TIME),
)

role = sa.Table(
    "aq_role",
    metadata,
    _required("role_key", sa.Text, primary_key=True),
    _required("grantee_key", sa.Text, primary_key=True),
    _required("role", sa.Text),
    _required("grantee", sa.Text),
    _required("grantor", sa.Text),
    _required("created", _TIME),
)

agent = sa.Table(
    "aq_agent",
    metadata,
    _required("name_key", sa.Text, primary_key=True),
    _required("name", sa.Text),
    _column("certificate_location", sa.Text),
    _required("enable_http", sa.Integer),
    _required("enable_anyp", sa.Integer),
    _required("automatic", sa.Integer),  # made by add_subscriber
    _required("created", _TIME),
)

agent_user = sa.Table(
    "aq_agent_user",
    metadata,
    _required("agent_key", sa.Text, primary_key=True),
    _required("user_key", sa.Text, primary_key=True, index=True),
    _required("db_username", sa.Text),
)


def _partial(name: str, where: str, *columns: sa.Column[Any], unique: bool = False) -> None:
    sa.Index(name, *columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


# The state is also the last column of an index, so that SQLite counts without a look at the rows.
_m, _e = message.c, entry.c
_partial("aq_message_ready", f"state = {State.READY}", _m.queue_id, _m.k1, _m.k2, _m.k3, _m.state)
_partial("aq_message_waiting", f"state = {State.WAITING}", _m.ready_at, _m.queue_id, _m.state)
_partial("aq_message_processed", f"state = {State.PROCESSED}", _m.queue_id, _m.deq_time)
_partial("aq_message_exception", f"state = {State.EXPIRED}", _m.queue_id, _m.k1, _m.k2, _m.k3, _m.state)
_partial("aq_message_expiring", "expires_at IS NOT NULL", _m.expires_at, _m.id)
_partial("aq_message_deviated", "k3 <> id", _m.queue_id, _m.k1, _m.k2, _m.k3)  # those that stand out of order
_partial("aq_message_claimed", f"state = {State.CLAIMED}", _m.queue_id, _m.claim, _m.state)
_partial("aq_message_split", f"state = {State.SPLIT}", _m.queue_id, _m.state)
_partial("aq_message_type", "type_name IS NOT NULL", _m.queue_id, _m.type_name)
_partial("aq_type_name", "dropped IS NULL", type_.c.name_key, unique=True)
_partial("aq_entry_ready", f"state = {State.READY}", _e.consumer_id, _e.k1, _e.k2, _e.k3, _e.state)
_partial("aq_entry_waiting", f"state = {State.WAITING}", _e.ready_at, _e.consumer_id, _e.state)
_partial("aq_entry_claimed", f"state = {State.CLAIMED}", _e.consumer_id, _e.claim, _e.state)
_partial("aq_message_head", f"state = {State.READY} AND group_id IS NOT NULL", _m.queue_id, _m.k1, _m.k2, _m.k3, _m.id)
_partial(
    "aq_entry_head",
    f"state = {State.READY} AND group_id IS NOT NULL",
    _e.consumer_id,
    _e.k1,
    _e.k2,
    _e.k3,
    _e.message_id,
)
_partial("aq_message_group", "group_id IS NOT NULL", _m.group_id, _m.queue_id, _m.state, _m.id)
_partial("aq_entry_group", "group_id IS NOT NULL", _e.group_id, _e.consumer_id, _e.state, _e.message_id)

commit_numbers = sa.Sequence("aq_commit_number", metadata=metadata, data_type=sa.BigInteger)
message_ids = sa.Sequence("aq_message_id", metadata=metadata, data_type=sa.BigInteger)


_FLAGS = {
    "aq_queue_table": ("jms_types", "multiple_consumers", "secure"),
    "aq_consumer": ("is_subscriber", "queue_to_queue"),
    "aq_privilege": ("grantable",),
    "aq_agent": ("enable_http", "enable_anyp", "automatic"),
}
#: States of messages; UNDELIVERABLE is one of entries.
MESSAGE_STATES = (State.READY, State.WAITING, State.PROCESSED, State.EXPIRED, State.CLAIMED, State.SPLIT)
_ENTRY_STATES = (State.READY, State.WAITING, State.PROCESSED, State.EXPIRED, State.UNDELIVERABLE, State.CLAIMED)
_TOTAL_STATES = (State.READY, State.WAITING, State.EXPIRED, State.SPLIT)


def _numbers(values: Iterable[int]) -> str:
    listed = ", ".join(f"{value:d}" for value in values)
    return f"IN ({listed})"


def _each(column: str, values: Iterable[int]) -> str:
    """The same for a table of messages: SQLite builds a list of more than two again for every row that is inserted."""
    return f" OR {column} ".join(f"= {value:d}" for value in values)


add_checks(metadata, {table: dict.fromkeys(columns, FLAG) for table, columns in _FLAGS.items()})
add_checks(
    metadata,
    {
        "aq_hub": {"durability": one_of(("full", "fast"))},
        "aq_queue_table": {"message_grouping": one_of(("NONE", "TRANSACTIONAL"))},
        "aq_queue": {
            "queue_type": one_of(("NORMAL_QUEUE", "EXCEPTION_QUEUE")),
            "enqueue_enabled": _numbers(Enabled),
            "dequeue_enabled": _numbers(Enabled),
        },
        "aq_consumer": {"delivery_mode": one_of(("PERSISTENT", "BUFFERED", "PERSISTENT_OR_BUFFERED"))},
        "aq_message": {"state": _each("state", MESSAGE_STATES), "body_type": _each("body_type", BodyType)},
        "aq_entry": {"state": _each("state", _ENTRY_STATES)},
        "aq_total": {"state": _each("state", _TOTAL_STATES)},
        "aq_audit": {"through": one_of(WAYS)},
        "aq_view": {"kind": one_of(("MESSAGES", "_S", "_R"))},
        "aq_activity": {"kind": one_of(("QUEUE", "CONSUMER", "PUBLISHER"))},
        "aq_privilege": {
            "privilege": one_of(("ENQUEUE", "DEQUEUE", "ENQUEUE_ANY", "DEQUEUE_ANY", "MANAGE_ANY")),
        },
    },
)


def create(conn: sa.Connection) -> None:
    """Create every table of the hub in the transaction of ``conn``."""
    metadata.create_all(conn, checkfirst=False)
    names = (COMMIT_COUNTER, MESSAGE_COUNTER, SESSION_COUNTER, PRIVILEGE_COUNTER)
    conn.execute(counter.insert(), [{"name": name, "value": 0} for name in names])
