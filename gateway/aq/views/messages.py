"""The view ``AQ$<queue table>``: one row per message, or per message and consumer (AQ guide 12.2 §9.10)."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.aq.model import PayloadType, QueueTableInfo
from mgw.gateway.aq.store.tables import MESSAGE_STATES, BodyType, State, states
from mgw.gateway.aq.views.dialect import SQLITE, Dialect, name_of, owner_of

__all__ = ["COLUMNS", "message_view"]

_SHOWN = {
    State.READY: "READY",
    State.WAITING: "WAIT",
    State.PROCESSED: "PROCESSED",
    State.EXPIRED: "EXPIRED",
    State.UNDELIVERABLE: "UNDELIVERABLE",
    State.CLAIMED: "READY",
}
_STATES = " ".join(f"WHEN {state:d} THEN '{name}'" for state, name in _SHOWN.items())
#: Payload types of which every message is text.
_TEXTS = frozenset(PayloadType) - {PayloadType.RAW, PayloadType.BASIC}
_IS_TEXT = f"m.body_type IN {states(BodyType.TEXT, BodyType.FIELDS, BodyType.VALUE)}"


def _exception_queue(d: Dialect) -> tuple[str, str]:
    """Owner and name of ``m.exception_queue``, which is ``[schema.]queue`` and may be quoted."""
    given = "m.exception_queue"
    closing = d.position.format(f"substr({given}, 2)", "'\"'")
    dot = d.position.format(given, "'.'")
    quoted = f"{given} LIKE '\"%'"
    unclosed = f"{quoted} AND {closing} = 0"  # no name: whoever enqueued wrote what he liked
    first = f"CASE WHEN {unclosed} THEN {given} WHEN {quoted} THEN substr({given}, 2, {closing} - 1) " \
            f"WHEN {dot} > 0 THEN substr({given}, 1, {dot} - 1) ELSE {given} END"  # fmt: skip
    rest = f"CASE WHEN {unclosed} THEN '' WHEN {quoted} THEN substr({given}, {closing} + 3) " \
           f"WHEN {dot} > 0 THEN substr({given}, {dot} + 1) ELSE '' END"  # fmt: skip
    owner = f"CASE WHEN {given} IS NULL THEN NULL WHEN {rest} = '' THEN {owner_of('q')} ELSE upper({first}) END"
    name = f"upper(CASE WHEN {rest} = '' THEN {first} ELSE trim({rest}, '\"') END)"
    return owner, name


def _columns(d: Dialect, *, split: bool, payload: PayloadType) -> dict[str, str]:
    a = "e" if split else "m"
    state = f"CASE {a}.state {_STATES} END"
    if split:  # nobody waits any more for a message without entries; the time manager has not yet removed it
        state = f"CASE WHEN e.message_id IS NULL THEN 'PROCESSED' ELSE {state} END"
    text = "convert_from(m.body, 'UTF8')" if d.postgresql else "CAST(m.body AS TEXT)"
    readable = f"{_IS_TEXT} AND position(decode('00', 'hex') IN m.body) = 0" if d.postgresql else _IS_TEXT
    as_text = f"CASE WHEN {readable} THEN {text} END"  # PostgreSQL has no text with a NUL character
    if d.postgresql:
        data = as_text if payload in _TEXTS else "m.body"
    else:
        data = f"CASE WHEN {_IS_TEXT} THEN CAST(m.body AS TEXT) ELSE m.body END"
    number = "int8send(m.id)" if d.postgresql else "printf('%016X', m.id)"
    retained = "coalesce(m.deq_time, e.deq_time)" if split else "m.deq_time"
    owner, name = _exception_queue(d)
    return {
        "QUEUE": name_of("q"),
        "MSG_ID": f"upper(encode(h.hub_id || {number}, 'hex'))" if d.postgresql else f"hex(h.hub_id) || {number}",
        "CORR_ID": "m.correlation",
        "MSG_PRIORITY": "m.priority",
        "MSG_STATE": f"CASE WHEN m.expiration_reason IS NOT NULL THEN 'EXPIRED' ELSE {state} END",
        "DELAY": d.date.format(f"coalesce({a}.ready_at, m.ready_at)"),
        "DELAY_TIMESTAMP": d.moment.format(f"coalesce({a}.ready_at, m.ready_at)"),
        "EXPIRATION": "m.expiration",
        "RETENTION_TIMESTAMP": f"CASE WHEN q.retention_time > 0 AND {retained} IS NOT NULL"
        f" THEN {d.moment.format(f'{retained} + q.retention_time')} END",
        "ENQ_TIME": d.date.format("m.enq_time"),
        "ENQ_TIMESTAMP": d.moment.format("m.enq_time"),
        "ENQ_USER_ID": "m.enq_user",
        "ENQ_TXN_ID": "m.enq_txn",
        "DEQ_TIME": d.date.format(f"{a}.deq_time"),
        "DEQ_TIMESTAMP": d.moment.format(f"{a}.deq_time"),
        "DEQ_USER_ID": f"{a}.deq_user",
        "DEQ_TXN_ID": f"{a}.deq_txn",
        "RETRY_COUNT": f"coalesce({a}.attempts, m.attempts)",
        "EXCEPTION_QUEUE_OWNER": owner,
        "EXCEPTION_QUEUE": name,
        "USER_DATA": data,
        "SENDER_NAME": "m.sender_name",
        "SENDER_ADDRESS": "m.sender_address",
        "SENDER_PROTOCOL": "m.sender_protocol",
        "ORIGINAL_MSGID": d.hexadecimal.format("m.original_msgid"),
        "CONSUMER_NAME": "nullif(c.name_key, '')" if split else "CAST(NULL AS TEXT)",
        "ADDRESS": "nullif(c.address, '')" if split else "CAST(NULL AS TEXT)",
        "PROTOCOL": "c.protocol" if split else "CAST(NULL AS INTEGER)",
        "PROPAGATED_MSGID": d.hexadecimal.format("e.propagated_msgid") if split else "CAST(NULL AS TEXT)",
        "ORIGINAL_QUEUE_NAME": name_of("o"),
        "ORIGINAL_QUEUE_OWNER": owner_of("o"),
        "EXPIRATION_REASON": "m.expiration_reason",
        "IN_TRANSACTION": f"({a}.state = {State.CLAIMED} OR m.state = {State.CLAIMED})"
        if split
        else f"m.state = {State.CLAIMED}",
        "HEADERS": "m.headers",
        "USER_DATA_TEXT": as_text,
        "USER_DATA_TYPE": "m.type_name",
    }


#: Columns of every ``AQ$<queue table>``, in order; what follows EXPIRATION_REASON is ours.
COLUMNS: tuple[str, ...] = tuple(_columns(SQLITE, split=True, payload=PayloadType.BASIC))


#: The order of the index of each state, where it has one that PostgreSQL can be held to.
_ORDER = {
    State.READY: "k1, k2, k3",
    State.WAITING: "ready_at",
    State.PROCESSED: "deq_time",
    State.EXPIRED: "k1, k2, k3",
    State.CLAIMED: "claim",
}


def _messages(d: Dialect, mine: str) -> str:
    """The queues of a queue table and their messages, by the index of each state.

    No index has the messages of a queue in all states, and those of all queue tables must not be looked through.
    """
    if d.postgresql:
        # It would look through the table where all messages of a state are of one queue, so that any seem to be of this
        # one: not if they have to come in the order of an index, nor if their queue is in a range that it cannot know.
        found = " UNION ALL ".join(
            f"(SELECT x.* FROM aq_message x WHERE x.state = {state:d} AND x.queue_id "
            f"{f'= q.id ORDER BY {_ORDER[state]}' if state in _ORDER else 'BETWEEN q.id AND q.id'})"
            for state in MESSAGE_STATES
        )
        return f"aq_hub h CROSS JOIN aq_queue q CROSS JOIN LATERAL ({found}) m"
    queues = f"SELECT id FROM aq_queue WHERE {mine}"
    numbers = " UNION ALL ".join(
        f"SELECT x.id FROM aq_message x WHERE x.state = {state:d} AND x.queue_id IN ({queues})"
        for state in MESSAGE_STATES
    )
    # A compound query that stands first is read row by row; elsewhere SQLite would make a table of it first.
    return f"""({numbers}) s CROSS JOIN aq_hub h
       CROSS JOIN aq_message m ON m.id = s.id CROSS JOIN aq_queue q ON q.id = m.queue_id"""


def message_view(d: Dialect, table: QueueTableInfo) -> tuple[Mapping[str, str], str]:
    """Columns and source of the view of a queue table."""
    split = table.multiple_consumers
    entries = "LEFT JOIN aq_entry e ON e.message_id = m.id LEFT JOIN aq_consumer c ON c.id = e.consumer_id"
    mine = f"queue_table_id = {int(table.id)}"
    source = f"""{_messages(d, mine)}
       {entries if split else ""} LEFT JOIN aq_queue o ON o.id = m.original_queue_id
 WHERE q.{mine}"""
    return _columns(d, split=split, payload=table.payload_type), source
