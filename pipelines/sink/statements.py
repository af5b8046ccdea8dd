"""Statements on the sink's tables. Every function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq import Db

__all__ = [
    "Batch",
    "Query",
    "Staged",
    "add_chunk",
    "add_query",
    "add_staging",
    "discard",
    "discard_abandoned",
    "discard_rivals",
    "finish",
    "hold_batch",
    "last_batch",
    "next_chunk",
    "peek_batch",
    "progress",
    "prune",
    "prune_unnamed",
    "query_of",
    "seal",
    "seal_stagings",
    "unfinished",
]


class Query(NamedTuple):
    """A name under which batches are written."""

    queue_id: int
    queue_name: str
    origin: str | None
    pruned: int = -1


class Batch(NamedTuple):
    """A sealed batch."""

    state: str
    rows: int
    published: int
    skipped: int
    digest: int


class Staged(NamedTuple):
    """A staging: rows of one attempt of a task."""

    id: str
    rows: int
    digest: int


# -- tasks -------------------------------------------------------------------------------------------------------------

_STAGING_ADD = (
    "INSERT INTO gw_sink_staging (id, query, wanted, chunks, row_count, digest, touched) VALUES (?, ?, ?, 0, 0, 0, ?)"
)
_STAGING_GROW = (
    "UPDATE gw_sink_staging SET chunks = chunks + 1, row_count = row_count + ?, digest = ?, touched = ? "
    "WHERE id = ? AND batch IS NULL AND chunks = ?"
)
_CHUNK_ADD = "INSERT INTO gw_sink_chunk (staging, number, row_count, body) VALUES (?, ?, ?, ?)"


def add_staging(db: Db, identity: str, query: str, wanted: int | None, now: float) -> None:
    """Begin a staging."""
    db.run(_STAGING_ADD, (identity, query, wanted, now))


def add_chunk(db: Db, staged: Staged, *, number: int, rows: int, body: bytes, now: float) -> bool:
    """Add a chunk; ``staged`` is the staging as it is with it. False: the staging was sealed or removed meanwhile."""
    if db.run(_STAGING_GROW, (rows, staged.digest, now, staged.id, number)) != 1:
        return False
    db.run(_CHUNK_ADD, (staged.id, number, rows, body))
    return True


# -- queries and batches -----------------------------------------------------------------------------------------------

_QUERY_ADD = (
    "INSERT INTO gw_sink_query (name, queue_id, queue_name, origin, unnamed, pruned, created) "
    "VALUES (?, ?, ?, ?, ?, -1, ?) "
    "ON CONFLICT (name) DO NOTHING"
)
_QUERY = "SELECT queue_id, queue_name, origin, pruned FROM gw_sink_query WHERE name = ?"
_SEAL = (
    "INSERT INTO gw_sink_batch (query, batch, state, row_count, published, skipped, digest, sealed) "
    "VALUES (?, ?, 'SEALED', ?, 0, 0, ?, ?) ON CONFLICT (query, batch) DO NOTHING"
)
_SEAL_STAGING = (
    "UPDATE gw_sink_staging SET batch = ?, place = ? "
    "WHERE id = ? AND query = ? AND batch IS NULL AND row_count = ? AND digest = ?"
)
_BATCH = "SELECT state, row_count, published, skipped, digest FROM gw_sink_batch WHERE query = ? AND batch = ?"
_LAST = (
    "SELECT max(b.batch), max(q.pruned) FROM gw_sink_query q LEFT JOIN gw_sink_batch b ON b.query = q.name "
    "WHERE q.name = ?"
)
_UNFINISHED = "SELECT batch FROM gw_sink_batch WHERE query = ? AND state = 'SEALED' ORDER BY batch"
_RIVALS = "SELECT id FROM gw_sink_staging WHERE query = ? AND batch IS NULL AND wanted = ?"
_ABANDONED = "SELECT id FROM gw_sink_staging WHERE batch IS NULL AND touched < ?"
_UNSEALED = "SELECT id FROM gw_sink_staging WHERE id {texts} AND batch IS NULL"
_CHUNKS_DROP = "DELETE FROM gw_sink_chunk WHERE staging {texts}"
_STAGINGS_DROP = "DELETE FROM gw_sink_staging WHERE id {texts}"


def add_query(db: Db, name: str, query: Query, *, unnamed: bool, now: float) -> None:
    """Store a query, unless it is known. ``unnamed``: nobody chose its name."""
    db.run(_QUERY_ADD, (name, query.queue_id, query.queue_name, query.origin, int(unnamed), now))


def query_of(db: Db, name: str) -> Query | None:
    """What is known of a query."""
    row = db.row(_QUERY, (name,))
    return None if row is None else Query(*row)


def seal(db: Db, query: str, batch: int, *, rows: int, digest: int, now: float) -> bool:
    """Fix a batch; False: it is fixed already."""
    return db.run(_SEAL, (query, batch, rows, digest, now)) == 1


def seal_stagings(db: Db, query: str, batch: int, staged: Sequence[Staged]) -> str | None:
    """Say what the batch consists of; returns the first staging that is not there as the task left it."""
    for place, each in enumerate(staged):
        if db.run(_SEAL_STAGING, (batch, place, each.id, query, each.rows, each.digest)) != 1:
            return each.id
    return None


def hold_batch(db: Db, query: str, batch: int) -> Batch | None:
    """A batch, which nobody else changes before the transaction ends; None: it is not sealed."""
    row = db.row(_BATCH + (" FOR UPDATE" if db.postgresql else ""), (query, batch))
    return None if row is None else Batch(*row)


def peek_batch(db: Db, query: str, batch: int) -> Batch | None:
    """A batch as it is now; None: it is not sealed."""
    row = db.row(_BATCH, (query, batch))
    return None if row is None else Batch(*row)


def last_batch(db: Db, query: str) -> int | None:
    """The highest batch that was ever sealed; None: none was."""
    highest, pruned = db.row(_LAST, (query,)) or (None, None)
    if highest is not None:
        return int(highest)
    return None if pruned is None or pruned < 0 else int(pruned)


def unfinished(db: Db, query: str) -> list[int]:
    """Numbers of the batches that are sealed and not done."""
    return [number for (number,) in db.rows(_UNFINISHED, (query,))]


def discard(db: Db, stagings: Sequence[str]) -> int:
    """Remove stagings with their rows, but those that are sealed; returns how many."""
    found = [identity for (identity,) in db.rows(_UNSEALED, (db.texts(stagings),))] if stagings else []
    return _drop(db, found)


def discard_rivals(db: Db, query: str, batch: int) -> int:
    """Remove what tasks staged for this batch and what did not become part of it."""
    return _drop(db, [identity for (identity,) in db.rows(_RIVALS, (query, batch))])


def discard_abandoned(db: Db, before: float) -> int:
    """Remove stagings that nobody touched since a time."""
    return _drop(db, [identity for (identity,) in db.rows(_ABANDONED, (before,))])


def _drop(db: Db, stagings: Sequence[str]) -> int:
    if stagings:
        db.run(_CHUNKS_DROP, (db.texts(stagings),))
        db.run(_STAGINGS_DROP, (db.texts(stagings),))
    return len(stagings)


# -- publishing --------------------------------------------------------------------------------------------------------

_CHUNK_TAKE = """
    DELETE FROM gw_sink_chunk
     WHERE (staging, number) = (SELECT c.staging, c.number
                                  FROM gw_sink_staging s JOIN gw_sink_chunk c ON c.staging = s.id
                                 WHERE s.query = ? AND s.batch = ? ORDER BY s.place, c.number LIMIT 1)
    RETURNING body"""
_PROGRESS = "UPDATE gw_sink_batch SET published = published + ?, skipped = skipped + ? WHERE query = ? AND batch = ?"
_FINISH = "UPDATE gw_sink_batch SET state = 'DONE', finished = ? WHERE query = ? AND batch = ?"
_FINISHED_STAGINGS = "DELETE FROM gw_sink_staging WHERE query = ? AND batch = ?"
_PRUNE = "DELETE FROM gw_sink_batch WHERE query = ? AND batch <= ? AND state = 'DONE'"
_PRUNED = "UPDATE gw_sink_query SET pruned = ? WHERE name = ? AND pruned < ?"
_OLDEST_UNFINISHED = "SELECT min(batch) FROM gw_sink_batch WHERE query = ? AND state = 'SEALED'"
_UNNAMED = (
    "SELECT b.query FROM gw_sink_batch b JOIN gw_sink_query q ON q.name = b.query "
    "WHERE q.unnamed = 1 AND b.state = 'DONE' AND b.finished < ?"
)
_UNNAMED_BATCHES = "DELETE FROM gw_sink_batch WHERE query {texts}"
_UNNAMED_QUERIES = "DELETE FROM gw_sink_query WHERE name {texts}"


def next_chunk(db: Db, query: str, batch: int) -> bytes | None:
    """Take the first chunk that is left of a batch; None: there is none."""
    content = db.scalar(_CHUNK_TAKE, (query, batch))
    return None if content is None else bytes(content)


def progress(db: Db, query: str, batch: int, published: int, skipped: int) -> None:
    """So many rows more have become messages, or have become none."""
    db.run(_PROGRESS, (published, skipped, query, batch))


def finish(db: Db, query: str, batch: int, now: float) -> None:
    """All of a batch is published."""
    db.run(_FINISH, (now, query, batch))
    db.run(_FINISHED_STAGINGS, (query, batch))


def prune(db: Db, query: str, upto: int) -> None:
    """Forget batches up to a number, as far as all up to there are done."""
    unfinished = db.scalar(_OLDEST_UNFINISHED, (query,))
    if unfinished is not None:
        upto = min(upto, unfinished - 1)
    if upto >= 0 and db.run(_PRUNED, (upto, query, upto)):
        db.run(_PRUNE, (query, upto))


def prune_unnamed(db: Db, before: float) -> None:
    """Forget writes that were given no name and were done before a time: nobody can name them again."""
    found = [name for (name,) in db.rows(_UNNAMED, (before,))]
    if found:
        db.run(_UNNAMED_BATCHES, (db.texts(found),))
        db.run(_UNNAMED_QUERIES, (db.texts(found),))
