"""Triggers that keep ``aq_total``: all that change it on PostgreSQL, and on SQLite those for changes that are rare.

On PostgreSQL they count whatever changes messages: the hub, the functions of schema ``aq``, and people. They run with
the rights of the tables' owner, so that a login that may enqueue needs no right on the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mgw.gateway.aq.store.tables import State, states
from mgw.gateway.aq.store.totals_sql import COLUMNS, UPSERT, counted_as, hundredths

__all__ = ["FUNCTIONS", "TRIGGERS", "TRIGGERS_SQLITE"]

_TAKEABLE = states(State.READY, State.CLAIMED)
_HIDDEN = State.PROCESSED


def _is_counted_otherwise(new: str = "NEW", old: str = "OLD") -> str:
    """Whether a message is counted in another place than before; a claim and its end are not, and are frequent."""
    outside = " OR ".join(f"({row}.state <> {State.READY} AND {row}.state <> {State.CLAIMED})" for row in (new, old))
    return f"({outside} OR {new}.queue_id <> {old}.queue_id OR {new}.ready_at <> {old}.ready_at)"


def _was_taken() -> str:
    """Whether an entry can be taken now and could not before, or the other way round."""
    old, new = (f"({row}.state = {State.READY} OR {row}.state = {State.CLAIMED})" for row in ("OLD", "NEW"))
    return f"{old} <> {new}"


def _of(row: str, sign: str, *, postgresql: bool) -> str:
    """A message as a row of ``aq_total``; nothing where it is not counted."""
    sums = ", ".join(f"{sign}{hundredths(f'{row}.{each}', postgresql=postgresql)}" for each in ("enq_time", "ready_at"))
    return f"""SELECT {row}.queue_id, 0, {counted_as(f"{row}.state")}, {sign}1, {sums} WHERE {row}.state <> {_HIDDEN}"""


# -- SQLite ----------------------------------------------------------------------------------------------------------


def _sqlite() -> Iterator[tuple[str, str]]:
    adds = (_of("OLD", "-", postgresql=False), _of("NEW", "", postgresql=False))
    body = " ".join(f"INSERT INTO aq_total ({COLUMNS}) {each} {UPSERT};" for each in adds)
    yield (
        "aq_total_message_changed",
        f"AFTER UPDATE OF state, queue_id, ready_at ON aq_message WHEN {_is_counted_otherwise()} BEGIN {body} END",
    )
    change = f"CASE WHEN NEW.state IN {_TAKEABLE} THEN 1 ELSE -1 END"
    for name, event, when, number in (
        ("changed", "UPDATE OF state", _was_taken(), change),
        ("gone", "DELETE", f"OLD.state = {State.READY} OR OLD.state = {State.CLAIMED}", "-1"),
    ):
        values = f"OLD.queue_id, OLD.consumer_id, {State.READY:d}, {number}, 0, 0"
        body = f"INSERT INTO aq_total ({COLUMNS}) VALUES ({values}) {UPSERT};"
        yield f"aq_total_entry_{name}", f"AFTER {event} ON aq_entry WHEN {when} BEGIN {body} END"


#: By name; every one is complete but for CREATE TRIGGER and the name.
TRIGGERS_SQLITE: Mapping[str, str] = dict(_sqlite())


# -- PostgreSQL ------------------------------------------------------------------------------------------------------

#: Of about every 250 statements one merges the rows that nobody else merges. Not in a transaction that keeps to what it
#: saw first: it would fail where another one has merged rows since.
_MERGE = f"""
    IF FOUND AND random() < 0.004 AND current_setting('transaction_isolation') = 'read committed' THEN
        WITH gone AS (DELETE FROM aq_total WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM aq_total LIMIT 2000 FOR UPDATE SKIP LOCKED)) RETURNING {COLUMNS})
        INSERT INTO aq_total ({COLUMNS})
        SELECT queue_id, consumer_id, state, sum(messages), sum(enqueued), sum(ready) FROM gone
         GROUP BY queue_id, consumer_id, state
        HAVING sum(messages) <> 0 OR sum(enqueued) <> 0 OR sum(ready) <> 0;
    END IF;"""


def _function(name: str, body: str) -> str:
    # Temporary tables come first on a path that does not name pg_temp, and who makes one is not the owner.
    body = body.replace("aq_total ", "{schema}.aq_total ")
    return f"""
CREATE FUNCTION {{schema}}.aq_total_{name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN{body}
    RETURN NULL;
END $$"""


def _messages(sign: str) -> str:
    sums = ", ".join(f"{sign}sum({hundredths(each, postgresql=True)})" for each in ("enq_time", "ready_at"))
    return f"""
    INSERT INTO aq_total ({COLUMNS})
    SELECT queue_id, 0, {counted_as("state")}, {sign}count(*), {sums} FROM changed
     WHERE state <> {_HIDDEN} GROUP BY 1, 3;
    {_MERGE}"""


def _entries(*of: tuple[str, str]) -> str:
    rows = " UNION ALL ".join(
        f"SELECT queue_id, consumer_id, {number} AS number FROM {table} WHERE state IN {_TAKEABLE}"
        for table, number in of
    )
    return f"""
    INSERT INTO aq_total ({COLUMNS})
    SELECT queue_id, consumer_id, {State.READY:d}, sum(number), 0, 0 FROM ({rows}) x
     GROUP BY queue_id, consumer_id HAVING sum(number) <> 0;
    {_MERGE}"""


_CHANGED = f"""
    INSERT INTO aq_total ({COLUMNS})
    {_of("OLD", "-", postgresql=True)} UNION ALL {_of("NEW", "", postgresql=True)};
    {_MERGE}"""

#: By name; ``{schema}`` is that of the hub, as SQL.
FUNCTIONS: Mapping[str, str] = {
    f"aq_total_{name}": _function(name, body)
    for name, body in (
        ("messages_came", _messages("")),
        ("messages_gone", _messages("-")),
        ("message_changed", _CHANGED),
        ("entries_came", _entries(("changed", "1"))),
        ("entries_gone", _entries(("changed", "-1"))),
        ("entries_changed", _entries(("after", "1"), ("before", "-1"))),
    )
}


def _postgresql() -> Iterator[tuple[str, tuple[str, str]]]:
    for table, of in (("aq_message", "messages"), ("aq_entry", "entries")):
        for name, event, which in (("came", "INSERT", "NEW"), ("gone", "DELETE", "OLD")):
            trigger = f"""
CREATE TRIGGER aq_total_{of}_{name} AFTER {event} ON {table} REFERENCING {which} TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION aq_total_{of}_{name}()"""
            yield f"aq_total_{of}_{name}", (table, trigger)
    yield (
        "aq_total_message_changed",
        (
            "aq_message",
            f"""
CREATE TRIGGER aq_total_message_changed AFTER UPDATE OF state, queue_id, ready_at ON aq_message FOR EACH ROW
    WHEN {_is_counted_otherwise()} EXECUTE FUNCTION aq_total_message_changed()""",
        ),
    )
    yield (
        "aq_total_entries_changed",
        (
            "aq_entry",
            """
CREATE TRIGGER aq_total_entries_changed AFTER UPDATE ON aq_entry REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION aq_total_entries_changed()""",
        ),
    )


#: By name: table and definition.
TRIGGERS: Mapping[str, tuple[str, str]] = dict(_postgresql())
