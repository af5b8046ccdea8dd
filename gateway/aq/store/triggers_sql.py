"""Triggers of the hub's tables, and the functions that they and conditions on payloads call (PostgreSQL).

They are derived from the tables: made with a hub, and made again by every upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq.store import total_triggers_sql as totals
from mgw.gateway.aq.store.tables import MAX_BRACKETS, State

__all__ = ["PLACE", "create_triggers", "drop_triggers"]

#: Places of transactions in commit-time queues. The locks are taken in one order, so that no two transactions wait for
#: each other; they end after the commit is visible, so whoever is placed later is seen later.
PLACE = """
CREATE FUNCTION aq_place() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    hub text;
    waiting record;
    place float8;
BEGIN
    IF NOT EXISTS (SELECT FROM aq_unplaced) THEN
        RETURN NULL;
    END IF;
    SELECT encode(hub_id, 'hex') INTO hub FROM aq_hub;
    FOR waiting IN SELECT DISTINCT queue_id FROM aq_unplaced ORDER BY queue_id LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('mgw commit ' || hub || ' ' || waiting.queue_id, 0));
    END LOOP;
    FOR waiting IN SELECT DISTINCT group_id FROM aq_unplaced ORDER BY group_id LOOP
        SELECT min(k2) INTO place FROM aq_message WHERE group_id = waiting.group_id;
        IF place = 'Infinity' THEN
            place := nextval('aq_commit_number');
        END IF;
        UPDATE aq_message SET k2 = place WHERE group_id = waiting.group_id AND k2 = 'Infinity';
        UPDATE aq_entry SET k2 = place WHERE group_id = waiting.group_id AND k2 = 'Infinity';
    END LOOP;
    DELETE FROM aq_unplaced;
    RETURN NULL;
END $$"""
_PLACE_AT_COMMIT = """
CREATE CONSTRAINT TRIGGER aq_place AFTER INSERT ON aq_unplaced DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION aq_place()"""

#: Notes every message that becomes READY behind the back of those who remember where a queue begins: whatever does it.
#: In queues in the order of arrival the first two keys are 0, or the first one -1e19 for what goes ahead of all others.
_REOPENED = """
CREATE FUNCTION aq_reopen() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO aq_reopened (queue_id, k3, message_id)
    VALUES (NEW.queue_id, CASE WHEN NEW.k1 < 0 THEN '-Infinity' ELSE NEW.k3 END, NEW.id);
    RETURN NULL;
END $$"""
_REOPENED_BY_UPDATE = f"""
CREATE TRIGGER aq_reopened_by_update AFTER UPDATE OF state, queue_id, k1, k2, k3 ON aq_message FOR EACH ROW
    WHEN (NEW.state = {State.READY} AND NEW.k1 IN (0, -1e19) AND NEW.k2 = 0
          AND (OLD.state <> {State.READY} OR OLD.k1 <> NEW.k1 OR OLD.k2 <> 0 OR OLD.k3 <> NEW.k3
               OR OLD.queue_id <> NEW.queue_id))
    EXECUTE FUNCTION aq_reopen()"""
_REOPENED_BY_INSERT = f"""
CREATE TRIGGER aq_reopened_by_insert AFTER INSERT ON aq_message FOR EACH ROW
    WHEN (NEW.k3 <> NEW.id AND NEW.state = {State.READY} AND NEW.k1 IN (0, -1e19) AND NEW.k2 = 0)
    EXECUTE FUNCTION aq_reopen()"""

# What PostgreSQL makes of a payload: NULL where it can make nothing of it, never an error.
_PAYLOADS = (
    """CREATE FUNCTION aq_text(body bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN convert_from(body, 'UTF8');
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$""",
    f"""CREATE FUNCTION aq_json(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    content text;
BEGIN
    content := convert_from(body, 'UTF8');
    IF length(content) - length(translate(content, '[{{', '')) > {MAX_BRACKETS} THEN
        RETURN NULL;
    END IF;
    RETURN content::jsonb;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$""",
)

_FUNCTIONS = (PLACE, _REOPENED, *_PAYLOADS)
_TRIGGERS = {
    "aq_place": ("aq_unplaced", _PLACE_AT_COMMIT),
    "aq_reopened_by_update": ("aq_message", _REOPENED_BY_UPDATE),
    "aq_reopened_by_insert": ("aq_message", _REOPENED_BY_INSERT),
    **totals.TRIGGERS,
}


def create_triggers(conn: sa.Connection) -> None:
    """Create the triggers of the tables and the functions that they and conditions on payloads call."""
    if conn.dialect.name != "postgresql":
        for name, trigger in totals.TRIGGERS_SQLITE.items():
            conn.exec_driver_sql(f"CREATE TRIGGER {name} {trigger}")
        return
    schema = str(conn.exec_driver_sql("SELECT quote_ident(current_schema())").scalar())
    counting = [each.replace("{schema}", schema) for each in totals.FUNCTIONS.values()]
    for function in (*_FUNCTIONS, *counting):  # replaced, so that who was granted one keeps it
        conn.exec_driver_sql(function.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace("%", "%%"))
    for name in totals.FUNCTIONS:  # asked for where a trigger is created only
        conn.exec_driver_sql(f"REVOKE ALL ON FUNCTION {name}() FROM PUBLIC")
    for _, trigger in _TRIGGERS.values():
        conn.exec_driver_sql(trigger)


def drop_triggers(conn: sa.Connection) -> None:
    """Drop the triggers. Their functions stay, until they are replaced."""
    if conn.dialect.name == "postgresql":
        for name, (table, _) in _TRIGGERS.items():
            conn.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        return
    for name in totals.TRIGGERS_SQLITE:
        conn.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
