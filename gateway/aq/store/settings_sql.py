"""The settings of a hub's connections to PostgreSQL."""

from __future__ import annotations

from typing import Any

__all__ = ["settle"]

# A queue is empty at one moment and holds millions at the next, and a statement is planned once: what was planned for
# the empty queue must not read and sort the full one. So the plans that follow an index in its order are preferred,
# whatever the statistics say. Where no index serves, the others are used still; their cost must not start the compiler.
# Plans and large bodies are compressed, by default with a method that takes longer for a plan of 500 messages than to
# delete them.
_SETTLE = """
    SELECT set_config('search_path', %s, false), set_config('synchronous_commit', %s, false),
           set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
           set_config('enable_sort', 'off', false), set_config('jit', 'off', false),
           (SELECT set_config(name, 'lz4', false) FROM pg_settings
             WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)),
           (SELECT oid FROM pg_database WHERE datname = current_database()), pg_postmaster_start_time()::text,
           (SELECT stats_reset::text FROM pg_stat_bgwriter)"""


def settle(connection: Any, synchronous_commit: str, search_path: str) -> object:
    """Give a driver's new connection its settings; returns what tells a server from another, or from its restart.

    When one process of a server crashes, all others start again but the first; it begins to count again then.
    """
    *_settings, database, started, reset = connection.execute(_SETTLE, (search_path, synchronous_commit)).fetchone()
    connection.commit()
    return database, started, reset
