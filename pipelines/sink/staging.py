"""What a task does: its rows become messages, are checked against the queue, and wait in the hub for the commit."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from mgw.gateway.aq import Db, Hub, MessageRefused, NotEnabledForEnqueue, message_number, queue_settings, transfer
from mgw.gateway.aq import payload_forms as payloads
from mgw.gateway.aq import type_catalog as types_sql
from mgw.pipelines.hub import open_hub
from mgw.pipelines.sink import chunks, statements
from mgw.pipelines.sink.layout import Layout
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.rows import Made, Maker, RowRefused
from mgw.pipelines.sink.statements import Staged
from mgw.pipelines.sink.target import Target, target_of
from mgw.transforms.errors import GatewayError
from mgw.transforms.payloads.sql_types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CHUNK_BYTES", "CHUNK_ROWS", "stage"]

CHUNK_ROWS: Final = 2000  # that become messages in one transaction, which on SQLite keeps all others waiting
CHUNK_BYTES: Final = 4 << 20
_OTHER: Final = 500  # bytes that are counted for a message in addition to its body


def stage(options: WriteOptions, layout: Layout, wanted: int | None, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Store the rows of one partition in the hub, not as messages yet.

    Args:
        wanted: the batch they are for, where it is known.

    Raises:
        RowRefused: a row cannot become a message of the queue.
        GatewayError: the queue cannot be written to, or the staging was removed meanwhile.
    """
    with open_hub(options.url) as hub:
        with hub.read() as conn:
            target = target_of(hub, conn, options)
            check_enabled(conn, target)
            declared = payloads.object_type_of(conn, target.queue)
        maker = Maker(target.queue, layout, declared, lambda name: _type_of(hub, name), system=target.rights is None)
        stager = _Stager(hub, options, target, wanted)
        try:
            for batch in batches:
                for made in maker.messages(batch, stager.taken):
                    stager.add(made)
            stager.flush()
        except BaseException:
            stager.drop()
            raise
        return stager.staged


def check_enabled(conn: sa.Connection, target: Target) -> None:
    """Refuse queues that are stopped, before anything is staged for them.

    Raises:
        AqError: 25207 the queue takes nothing; 25226 an exception queue gives nothing.
    """
    for each in target.exceptions:
        transfer.check_dequeue(Db(conn), each, browse=True)
    if not queue_settings(Db(conn), target.queue).enqueue_enabled:
        raise NotEnabledForEnqueue(
            f"queue {target.queue.full_name} is not enabled for enqueue",
            cause="it was not started, or stopped",
            cure="start it: start_queue",
        )


def _type_of(hub: Hub, name: str) -> SqlType | None:
    with hub.read() as conn:
        found = types_sql.find_types(Db(conn), [name])
    return found[name].type if name in found else None


class _Stager:
    """Collects messages and stores them chunk by chunk."""

    def __init__(self, hub: Hub, options: WriteOptions, target: Target, wanted: int | None) -> None:
        self._hub = hub
        self._options = options
        self._target = target
        self._wanted = wanted
        self._rows = min(CHUNK_ROWS, options.rate or CHUNK_ROWS)
        self._made: list[Made] = []
        self._bytes = 0
        self._chunks = 0
        self.taken = 0  # rows so far
        self.staged = Staged(secrets.token_hex(16), 0, 0)

    def add(self, made: Made) -> None:
        body = made.message.body
        self._made.append(made)
        self._bytes += _OTHER + (len(body) if isinstance(body, (bytes, str)) else _OTHER)
        self.taken += 1
        if len(self._made) >= self._rows or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Check what was collected against the queue as it is now, and store it."""
        made, self._made, self._bytes = self._made, [], 0
        if not made:
            return
        first = self.taken - len(made)
        queue = self._target.queue
        messages = [each.message for each in made]
        try:
            with self._hub.read() as conn:
                if self._target.rights is not None:
                    self._target.rights.check_senders(Db(conn), queue, messages)
                rows = transfer.check(conn, queue, messages)
        except MessageRefused as error:
            raise RowRefused(
                f"row {first + error.index} of its partition is refused by queue {queue.full_name}",
                cause="; ".join(filter(None, (error.what, error.cause))),
                cure=error.cure or "correct the row; none of the batch was published",
            ) from None
        if self._target.exceptions:
            self._check_sources(made, first)
        body = chunks.pack(rows, made, [each.id for each in self._target.exceptions])
        before = self.staged
        self.staged = Staged(before.id, before.rows + len(made), before.digest + chunks.digest(rows))
        now = self._hub.clock.now()
        with self._hub.write(durable=False) as conn:  # the seal reaches the disk, and this with it
            db = Db(conn)
            if not self._chunks:
                statements.add_staging(db, before.id, self._options.query, self._wanted, now)
            if not statements.add_chunk(db, self.staged, number=self._chunks, rows=len(made), body=body, now=now):
                raise GatewayError(
                    f"rows staged for query {self._options.query} are gone",
                    cause="the same batch was committed by another process in the meantime, or the task was suspended "
                    "for a day",
                    cure="let one process write under a name; the committed batch stays",
                )
        self._chunks += 1

    def _check_sources(self, made: list[Made], first: int) -> None:
        for index, each in enumerate(made):
            if each.source is None or message_number(self._hub.hub_id, each.source) is None:
                shown = "NULL" if each.source is None else each.source.hex()
                raise RowRefused(
                    f"row {first + index} of its partition has the msgid {shown}",
                    cause="option removeFrom removes the message of that id, which is not from this hub",
                    cure="write rows that were read from the exception queue, or leave removeFrom out",
                )

    def drop(self) -> None:
        """The task failed: what it staged is of no use."""
        if self._chunks:
            with suppress(GatewayError), self._hub.write() as conn:
                statements.discard(Db(conn), [self.staged.id])
