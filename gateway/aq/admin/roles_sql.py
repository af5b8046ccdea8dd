"""What a PostgreSQL login needs to work with the hub's queues without being the owner of its tables.

The statements are given as text: the owner of the tables runs them, or reads them first.
"""

from __future__ import annotations

import re

from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import metadata
from mgw.gateway.aq.views import VIEWS_OF_THE_USER
from mgw.transforms.errors import AqError

__all__ = ["role_statements"]

# Whoever names a new recipient stores it. Subscriptions are the owner's: their rules run with its rights.
_RECIPIENT = "queue_id, name, name_key, address, protocol, delivery_mode, queue_to_queue, created"
#: What sessions change; everything else of the hub they only read.
_CHANGED = {
    "aq_message": "SELECT, INSERT, UPDATE, DELETE",
    "aq_entry": "SELECT, INSERT, UPDATE, DELETE",
    "aq_dequeue_log": "SELECT, INSERT, DELETE",
    "aq_consumer": f"SELECT, INSERT ({_RECIPIENT})",
    "aq_unplaced": "SELECT, INSERT, DELETE",
    "aq_reopened": "SELECT, INSERT",
    "aq_process": "SELECT, INSERT, UPDATE, DELETE",
    "aq_activity": "SELECT, INSERT, UPDATE, DELETE",
}
_SEQUENCES = ("aq_message_id", "aq_commit_number", "aq_dequeue_log_id_seq", "aq_consumer_id_seq")
_SCHEMA = """
    SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'aq_hub'::regclass"""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


def role_statements(db: Db, role: str) -> list[str]:
    """Statements that make a role for sessions with a login of their own, or complete it.

    Members read and change messages of every queue as far as PostgreSQL is concerned; what they are granted is checked
    by this package. They can change nothing else of the hub, and see nothing of the gateway. Of the views they read
    those that answer the user: ALL_, USER_ and QUEUE_PRIVILEGES.

    Raises:
        AqError: the hub is not on PostgreSQL, or the name cannot be that of a role.
    """
    if not db.postgresql:
        raise AqError(
            f"role {role} cannot be created",
            cause="the hub is an SQLite file, and SQLite has no roles",
            cure="use one service that owns the file, or keep the hub on PostgreSQL",
        )
    if not _NAME.fullmatch(role) or role.lower().startswith("pg_"):
        raise AqError(
            f"role {role[:70]!r} cannot be created",
            cause="a role has 1 to 63 letters, digits, _ and -, begins with a letter, and not with pg_",
            cure="use another name",
        )
    schema, name = _quoted(db.scalar(_SCHEMA) or "public"), _quoted(role)
    lines = [
        f"DO $$BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}')"
        f" THEN CREATE ROLE {name} NOLOGIN; END IF; END$$;",
        f"GRANT USAGE ON SCHEMA {schema} TO {name};",
    ]
    read = [table for table in sorted(metadata.tables) if table not in _CHANGED]
    lines.append(f"GRANT SELECT ON {', '.join(f'{schema}.{table}' for table in read)} TO {name};")
    lines.append(f"GRANT SELECT ON {', '.join(f'{schema}.{view}' for view in VIEWS_OF_THE_USER)} TO {name};")
    lines.append(f"REVOKE INSERT ON {schema}.aq_consumer FROM {name};")  # of the whole row
    lines += [f"GRANT {rights} ON {schema}.{table} TO {name};" for table, rights in _CHANGED.items()]
    lines.append(f"GRANT USAGE, SELECT ON SEQUENCE {', '.join(f'{schema}.{each}' for each in _SEQUENCES)} TO {name};")
    return lines


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
