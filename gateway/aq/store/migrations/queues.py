"""The steps of the queues' tables."""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq.store.migrations.changes import Changes
from mgw.gateway.aq.store.schema_part import Step

__all__ = ["STEPS"]

_FLAG = "IN (0, 1)"
_CHECKS_2 = {
    "aq_hub": {"durability": "IN ('full', 'fast')"},
    "aq_queue_table": {
        "jms_types": _FLAG,
        "multiple_consumers": _FLAG,
        "secure": _FLAG,
        "message_grouping": "IN ('NONE', 'TRANSACTIONAL')",
    },
    "aq_queue": {
        "queue_type": "IN ('NORMAL_QUEUE', 'EXCEPTION_QUEUE')",
        "enqueue_enabled": "IN (0, 1, 2)",
        "dequeue_enabled": "IN (0, 1, 2)",
    },
    "aq_consumer": {
        "is_subscriber": _FLAG,
        "queue_to_queue": _FLAG,
        "delivery_mode": "IN ('PERSISTENT', 'BUFFERED', 'PERSISTENT_OR_BUFFERED')",
    },
    "aq_message": {"state": "IN (0, 1, 2, 3, 8, 9)", "body_type": "IN (0, 1, 2, 3, 4)"},
    "aq_entry": {"state": "IN (0, 1, 2, 3, 4, 8)"},
    "aq_view": {"kind": "IN ('MESSAGES', '_S', '_R')"},
    "aq_activity": {"kind": "IN ('QUEUE', 'CONSUMER', 'PUBLISHER')"},
    "aq_privilege": {
        "grantable": _FLAG,
        "privilege": "IN ('ENQUEUE', 'DEQUEUE', 'ENQUEUE_ANY', 'DEQUEUE_ANY', 'MANAGE_ANY')",
    },
    "aq_agent": {"enable_http": _FLAG, "enable_anyp": _FLAG, "automatic": _FLAG},
}


def _checks(changes: Changes) -> None:
    for table, conditions in _CHECKS_2.items():
        changes.add_checks(table, {column: f"{column} {condition}" for column, condition in conditions.items()})


def _written_by(changes: Changes) -> None:
    changes.add_column("aq_hub", "written_by TEXT")
    changes.add_column("aq_hub", "upgraded FLOAT")


def _functions(changes: Changes) -> None:
    changes.db.run("CREATE TABLE aq_module (name TEXT NOT NULL, created FLOAT NOT NULL, PRIMARY KEY (name))")
    changes.db.run(
        """CREATE TABLE aq_rule_function (name_key TEXT NOT NULL, name TEXT NOT NULL, function TEXT NOT NULL,
                                          created FLOAT NOT NULL, PRIMARY KEY (name_key))"""
    )


def _options(changes: Changes) -> None:
    for table in ("aq_queue_table", "aq_consumer"):
        changes.add_column(table, "options TEXT DEFAULT '{}' NOT NULL")


def _step_2(changes: Changes) -> None:
    _written_by(changes)
    _options(changes)
    _functions(changes)
    _checks(changes)


def _audit(changes: Changes) -> None:
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    table = sa.Table(
        "aq_audit",
        sa.MetaData(),
        sa.Column("id", number, primary_key=True, nullable=False),
        sa.Column("time", sa.Float(53), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("object", sa.Text, nullable=False),
        sa.Column("messages", number, nullable=False),
        sa.Column("oldest", sa.Float(53)),
        sa.Column("moved_to", sa.Text),
        sqlite_autoincrement=True,
    )
    table.create(changes.conn)


def _either(column: str, *values: int) -> str:
    return " OR ".join(f"{column} = {value:d}" for value in values)


def _checks_without_lists(changes: Changes) -> None:
    """SQLite builds the list of an IN again for every row that is inserted: 4 us for a message."""
    states, kinds = _either("state", 0, 1, 2, 3, 8, 9), _either("body_type", 0, 1, 2, 3, 4)
    changes.replace_checks("aq_message", {"aq_message_state": states, "aq_message_body_type": kinds})
    changes.replace_checks("aq_entry", {"aq_entry_state": _either("state", 0, 1, 2, 3, 4, 8)})


def _left_out(changes: Changes) -> None:
    changes.add_column(
        "aq_activity",
        "left_out BIGINT DEFAULT '0' NOT NULL" if changes.postgresql else "left_out INTEGER DEFAULT '0' NOT NULL",
    )


def _views(changes: Changes) -> None:
    """Every upgrade creates the views again."""


_READY, _PROCESSED, _CLAIMED = 0, 2, 8
#: Roles, in quotes where they need them, that may read the hub's queues without being its owner.
_READERS = """
    SELECT CAST(CAST(a.grantee AS regrole) AS text) FROM pg_class c, aclexplode(c.relacl) a
     WHERE c.oid = 'aq_queue'::regclass AND a.privilege_type = 'SELECT' AND a.grantee NOT IN (0, c.relowner)"""


def _totals(changes: Changes) -> None:
    """The numbers of messages are kept; what is there is counted once."""
    number = "BIGINT" if changes.postgresql else "INTEGER"
    changes.db.run(
        f"""CREATE TABLE aq_total (queue_id {number} NOT NULL, consumer_id {number} NOT NULL, state SMALLINT NOT NULL,
            messages {number} NOT NULL, enqueued {number} NOT NULL, ready {number} NOT NULL,
            CONSTRAINT aq_total_state CHECK ({_either("state", 0, 1, 3, 9)}))"""
    )
    if not changes.postgresql:
        changes.db.run("CREATE UNIQUE INDEX aq_total_key ON aq_total (queue_id, consumer_id, state)")
    else:
        for role in changes.db.column(_READERS):  # those of `mgw aq roles`
            changes.db.run(f"GRANT SELECT ON aq_total TO {role}")

    def hundredths(time: str) -> str:
        if changes.postgresql:
            return f"CAST(trunc((least({time}, 4000000000.0) - 1767225600.0) * 100) AS bigint)"
        return f"CAST((min({time}, 4000000000.0) - 1767225600.0) * 100 AS INTEGER)"

    changes.db.run(
        f"""INSERT INTO aq_total
            SELECT queue_id, 0, CASE state WHEN {_CLAIMED} THEN {_READY} ELSE state END, count(*),
                   sum({hundredths("enq_time")}), sum({hundredths("ready_at")})
              FROM aq_message WHERE state <> {_PROCESSED} GROUP BY 1, 3"""
    )
    changes.db.run(
        f"""INSERT INTO aq_total SELECT queue_id, consumer_id, {_READY}, count(*), 0, 0
              FROM aq_entry WHERE state IN ({_READY}, {_CLAIMED}) GROUP BY 1, 2"""
    )


def _changes(changes: Changes) -> None:
    """The audit keeps every change of administration, not removals alone."""
    whole = "BIGINT" if changes.postgresql else "INTEGER"
    for column in ("through", "kind", "before_change", "after_change"):
        changes.add_column("aq_audit", f"{column} TEXT")
    for column in ("generation", "version"):
        changes.add_column("aq_audit", f"{column} {whole}")
    changes.add_column("aq_audit", "result TEXT")
    changes.add_checks("aq_audit", {"through": "through IN ('python', 'cli', 'http', 'sql', 'agent')"})


STEPS = (
    Step(
        2,
        "the database refuses states and flags that have no meaning; the hub knows which release wrote it, and which "
        "modules and functions rules may call; queue tables and subscribers have options",
        _step_2,
    ),
    Step(3, "what administration removes is kept in an audit", _audit),
    Step(4, "SQLite checks the state of a message without building a list of states for each", _checks_without_lists),
    Step(5, "the hub counts what the rule of a subscriber refuses", _left_out),
    Step(6, "the view of a queue table shows its first rows at once, however many messages there are (SQLite)", _views),
    Step(7, "the number of messages in each queue and state is kept, so that views need not count them", _totals),
    Step(8, "the view of a queue table reads only its own messages and delayed ones, however many others have", _views),
    Step(9, "the audit keeps what administration changes, with what it was before and after", _changes),
)
