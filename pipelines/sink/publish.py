"""What the driver does: it seals a batch, and makes messages of what is sealed, chunk by chunk, each exactly once.

Wherever the process is killed, the next commit of the same batch continues: before the seal nothing of the batch is in
the queue; after it the batch is what was sealed, whatever the tasks of a second attempt staged; and a chunk leaves the
staging in the transaction that stores its messages.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from mgw.gateway.aq import Db, Hub, message_number, transfer
from mgw.gateway.aq import queue_catalog as catalog
from mgw.pipelines.hub import open_hub
from mgw.pipelines.sink import chunks, statements
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.rows import Made
from mgw.pipelines.sink.statements import Batch, Query, Staged
from mgw.pipelines.sink.target import Target, target_of
from mgw.transforms.errors import GatewayError

__all__ = ["KEPT_BATCHES", "WriteInterrupted", "WriteRefused", "abort", "commit", "record_of", "resume"]

KEPT_BATCHES: Final = 100  # records of done batches, per streaming query
_ABANDONED: Final = 86400.0  # seconds after which a staging that nobody touched is removed
_UNNAMED: Final = 7 * 86400.0  # seconds for which writes without a name are listed
_DONE: Final = "DONE"
_log = logging.getLogger(__name__)


class WriteRefused(GatewayError):
    """A batch cannot be written under this name."""


class WriteInterrupted(GatewayError):
    """A batch is sealed and could not be published whole; the next commit of the same batch continues."""


def commit(
    options: WriteOptions, batch: int, staged: Sequence[Staged], origin: str | None, *, consecutive: bool = False
) -> Batch:
    """Make the batch messages of the queue, once, whatever was done for it before; returns its record.

    Args:
        staged: what the tasks staged, in the order of the partitions.
        origin: id of the streaming query in its checkpoint; None: no stream.
        consecutive: the batches of the query are numbered one after another, and only the last one may come again.

    Raises:
        WriteRefused: the name is used for another queue or by another stream, staged rows are gone, or the batch is not
            the next one.
        WriteInterrupted: the queue refused; what is published stays so, and the batch continues when it is written
            again.
    """
    with open_hub(options.url) as hub:
        with hub.read() as conn:
            target = target_of(hub, conn, options)
        write = _Write(hub, target, options, batch, origin, consecutive)
        with hub.write() as conn:
            known = write.seal(Db(conn), [each for each in staged if each.rows])
        return known if known.state == _DONE else write.publish()


def resume(options: WriteOptions, batch: int = 0) -> Batch | None:
    """Publish what is left of a batch that was sealed before; None: it was never sealed.

    Raises:
        WriteInterrupted: as :func:`commit`.
    """
    with open_hub(options.url) as hub:
        with hub.read() as conn:
            known = statements.peek_batch(Db(conn), options.query, batch)
            query = statements.query_of(Db(conn), options.query)
        if known is None or query is None or known.state == _DONE:
            return known
        with hub.read() as conn:
            target = target_of(hub, conn, options)
        _check_query(options.query, query, query._replace(queue_id=target.queue.id, queue_name=target.queue.full_name))
        return _Write(hub, target, options, batch, query.origin).publish()


def record_of(options: WriteOptions, batch: int = 0) -> Batch | None:
    """What is known of a batch; None: it was never sealed."""
    with open_hub(options.url) as hub, hub.read() as conn:
        return statements.peek_batch(Db(conn), options.query, batch)


def abort(options: WriteOptions, staged: Sequence[Staged]) -> None:
    """The write failed: remove what its tasks staged, unless it was sealed."""
    if staged:
        with open_hub(options.url) as hub, hub.write() as conn:
            statements.discard(Db(conn), [each.id for each in staged])


@dataclass(frozen=True, slots=True)
class _Write:
    """The commit of one batch."""

    hub: Hub
    target: Target
    options: WriteOptions
    batch: int
    origin: str | None
    consecutive: bool = False

    # -- seal ----------------------------------------------------------------------------------------------------------

    def seal(self, db: Db, staged: Sequence[Staged]) -> Batch:
        """Fix what the batch consists of, unless that was done before."""
        now, name, batch = self.hub.clock.now(), self.options.query, self.batch
        statements.discard_abandoned(db, now - _ABANDONED)
        mine = Query(self.target.queue.id, self.target.queue.full_name, self.origin)
        statements.add_query(db, name, mine, unnamed=self.options.unnamed, now=now)
        query = statements.query_of(db, name) or mine
        _check_query(name, query, mine)
        if self.consecutive:
            _check_next(name, batch, statements.last_batch(db, name))
        new = Batch("SEALED", sum(each.rows for each in staged), 0, 0, sum(each.digest for each in staged))
        if batch <= query.pruned:
            _log.warning("batch %d of query %s was written before; its rows are dropped", batch, name)
            self._discard(db, staged)
            return new._replace(state=_DONE)
        if statements.seal(db, name, batch, rows=new.rows, digest=new.digest, now=now):
            if statements.seal_stagings(db, name, batch, staged) is not None:
                raise WriteRefused(
                    f"rows staged for batch {batch} of query {name} are gone",
                    cause="the commit came more than a day after they were staged",
                    cure="write the batch again; none of it was published",
                )
            statements.discard_rivals(db, name, batch)
            return new if new.rows else self._finished(db, new)
        self._discard(db, staged)
        known = statements.hold_batch(db, name, batch)
        if known is None:
            raise WriteRefused(f"batch {batch} of query {name} vanished", cure="write the batch again")
        if (known.rows, known.digest) != (new.rows, new.digest):
            _log.warning(
                "batch %d of query %s was sealed with %d rows; the %d that came now are different, and are dropped",
                *(batch, name, known.rows, new.rows),
            )
        return known

    def _discard(self, db: Db, staged: Sequence[Staged]) -> None:
        """What came for a batch that is sealed is of no use, nor is what other attempts left that were killed."""
        statements.discard(db, [each.id for each in staged])
        statements.discard_rivals(db, self.options.query, self.batch)

    def _finished(self, db: Db, record: Batch) -> Batch:
        now = self.hub.clock.now()
        statements.finish(db, self.options.query, self.batch, now)
        if self.origin is not None:
            statements.prune(db, self.options.query, self.batch - KEPT_BATCHES)
        statements.prune_unnamed(db, now - _UNNAMED)
        return record._replace(state=_DONE)

    # -- publish -------------------------------------------------------------------------------------------------------

    def publish(self) -> Batch:
        """Make messages of what is left of the batch."""
        rate, began, done = self.options.rate, time.monotonic(), 0
        while True:
            try:
                with self.hub.write() as conn:
                    record, rows = self._publish_chunk(conn)
            except GatewayError as error:
                raise self._interrupted(error) from error
            self.hub.notifier.committed((self.target.queue.id,))
            if record.state == _DONE:
                return record
            done += rows
            if rate:
                time.sleep(max(began + done / rate - time.monotonic(), 0.0))

    def _publish_chunk(self, conn: sa.Connection) -> tuple[Batch, int]:
        """One chunk becomes messages; the record of the batch after that, and how many rows it were."""
        db, name, target = Db(conn), self.options.query, self.target
        record = statements.hold_batch(db, name, self.batch)
        if record is None:
            raise WriteRefused(f"batch {self.batch} of query {name} vanished", cure="write the batch again")
        if record.state == _DONE:
            return record, 0
        chunk = statements.next_chunk(db, name, self.batch)
        made, exceptions = ([], ()) if chunk is None else chunks.unpack(db, chunk)
        kept = self._removed(conn, made, exceptions) if exceptions else made
        transfer.put(conn, target.queue, [each.message for each in kept], user=target.user)
        skipped = len(made) - len(kept)
        statements.progress(db, name, self.batch, len(kept), skipped)
        record = record._replace(published=record.published + len(kept), skipped=record.skipped + skipped)
        if chunk is None or record.published + record.skipped >= record.rows:
            record = self._finished(db, record)
        return record, len(made)

    def _removed(self, conn: sa.Connection, made: Sequence[Made], exceptions: Sequence[int]) -> list[Made]:
        """Those rows whose messages were in an exception queue until now; the others were taken by somebody else."""
        numbers = [message_number(self.hub.hub_id, each.source) or 0 for each in made]
        there: set[int] = set()
        for each in exceptions:
            queue = catalog.find_queue_by_id(Db(conn), each)
            if queue is not None:
                there |= transfer.take_exceptions(conn, queue, numbers)
        kept = []
        for number, row in zip(numbers, made, strict=True):
            if number in there:
                there.discard(number)
                kept.append(row)
        return kept

    def _interrupted(self, error: GatewayError) -> WriteInterrupted:
        name = self.options.query
        try:
            with self.hub.read() as conn:
                record = statements.peek_batch(Db(conn), name, self.batch)
        except GatewayError:
            record = None
        so_far = "" if record is None else f" after {record.published + record.skipped} of {record.rows} rows"
        again = "start the query again" if self.options.batch is None else f"write again, with query={name!r}"
        return WriteInterrupted(
            f"batch {self.batch} of query {name} stopped{so_far} on its way into queue {self.target.queue.full_name}",
            cause="; ".join(filter(None, (error.what, error.cause))),
            cure=f"{error.cure or 'remove the cause'}; then {again}: the batch continues, nothing is lost or "
            f"duplicated",
            number=error.number,
        )


def _check_query(name: str, query: Query, mine: Query) -> None:
    if query.queue_id != mine.queue_id:
        again = ", which was re-created since" if query.queue_name == mine.queue_name else ""
        raise WriteRefused(
            f"query {name} cannot write to queue {mine.queue_name}",
            cause=f"that name belongs to a query that writes to queue {query.queue_name}{again}",
            cure="give it another name: option 'query'",
        )
    if query.origin != mine.origin:
        raise WriteRefused(
            f"query {name} cannot continue with this checkpoint",
            cause="that name belongs to a write that is not a stream"
            if query.origin is None
            else "its batches were numbered by another checkpoint, which was lost or belongs to another query",
            cure="use the checkpoint that it started with, or give it another name: option 'query'",
        )


def _check_next(name: str, batch: int, last: int | None) -> None:
    """Spark writes its last batch again or the next one; a checkpoint that is older numbers other rows as before."""
    if last is not None and not last <= batch <= last + 1:
        raise WriteRefused(
            f"batch {batch} of query {name} cannot be written",
            cause=f"batch {last} was written last, so checkpoint and hub are from different times: "
            + ("rows since then would be taken for those written before" if batch < last else "rows between are lost"),
            cure="restore hub and checkpoint from the same time, or start with a new checkpoint under another name: "
            "option 'query'",
        )
