"""What does not stay the same when a queue grows, or when somebody keeps reading: parts of ``benchmarks.hub``."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from benchmarks.recorded import Recorder
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.queues import transfer
from mgw.transforms.message import Message

__all__ = ["BATCH", "MANY", "SORTS", "fill", "filled", "snapshot", "waiting"]

BATCH = 500
SORTS = ("ENQ_TIME", "PRIORITY")
FEW, MANY = 1_000, 1_000_000
THROUGH = 2_000_000
BODY = b"x" * 256


class Stand(Protocol):
    """What these parts need of the benchmark."""

    rounds: int
    quick: bool
    recorder: Recorder
    waiting: int | None
    filled: int
    sorts: Sequence[str]
    seconds: float | None

    def hub(self, database: str, sort_list: str = ..., kept: str = ...) -> Any: ...


def _fill(hub: Hub, number: int, batch: int = BATCH, seconds: float | None = None) -> bool:
    """Messages of ten priorities, enqueued in batches: of what is enqueued together, one priority lies together.

    Continues where it ended before; whether all are there. ``seconds``: for how long at most.
    """
    with hub.read() as conn:
        queue = transfer.resolve(conn, "bench")
        made: int = conn.exec_driver_sql("SELECT count(*) FROM aq_message").scalar_one()
    end = time.monotonic() + (seconds or math.inf)
    while made < number and time.monotonic() < end:
        with hub.write() as conn:
            for _ in range(max(5_000 // batch, 1)):
                size = min(batch, number - made)
                if size > 0:
                    transfer.put(conn, queue, [Message(BODY, priority=1 + (made + each) % 10) for each in range(size)])
                made += size
    return made >= number


def fill(stand: Stand, database: str) -> None:
    """Only fill the hubs that ``--keep`` keeps for part ``waiting``: in several runs, where one would be too long."""
    for sort_list in stand.sorts:
        with stand.hub(database, sort_list, _kept(stand, sort_list)) as hub:
            done = _fill(hub, _many(stand), stand.filled, stand.seconds)
        print(f"{database:<11}{sort_list:<9}{'filled' if done else 'to be continued'}", flush=True)


@contextmanager
def filled(stand: Stand, database: str, sort_list: str) -> Iterator[tuple[Hub, int]]:
    """A hub in which many messages wait, and how many."""
    with stand.hub(database, sort_list, _kept(stand, sort_list)) as hub:
        _fill(hub, _many(stand), stand.filled)
        yield hub, _many(stand)


def _many(stand: Stand) -> int:
    return stand.waiting or (MANY // 10 if stand.quick else MANY)


def _kept(stand: Stand, sort_list: str) -> str:
    return f"{sort_list.lower()}-{_many(stand)}-by-{stand.filled}"


class _Consumer:
    """Moves batches through a queue that keeps its length: in at the end, out at the head."""

    def __init__(self, hub: Hub, batch: int) -> None:
        self._session = hub.session()
        self._batch = batch
        self._messages = [Message(BODY, priority=1 + each % 10) for each in range(batch)]

    def move(self, batches: int) -> float:
        """Seconds per message, in and out."""
        session, options, batch = self._session, DequeueOptions(wait=0), self._batch
        began = time.perf_counter()
        for _ in range(batches):
            session.enqueue_array("bench", self._messages)
            session.commit()
            taken = 0
            while taken < batch:  # an array ends where the messages end that were there when the position began
                taken += len(session.dequeue_array("bench", options, batch - taken))
                session.commit()
        return (time.perf_counter() - began) / (batches * batch)

    def close(self) -> None:
        self._session.close()


def waiting(stand: Stand, database: str) -> None:
    """The cost of a message with many others waiting, beside that with few."""
    many = _many(stand)
    for sort_list in stand.sorts:
        with ExitStack() as stack:
            hubs = [stack.enter_context(stand.hub(database, sort_list, kept)) for kept in ("", _kept(stand, sort_list))]
            for hub, number in zip(hubs, (FEW, many), strict=True):
                _fill(hub, number, stand.filled)
            for batch, batches in ((30, 60), (BATCH, 8)):
                few, full = (_Consumer(hub, batch) for hub in hubs)
                for consumer in (few, full):
                    stack.callback(consumer.close)
                    consumer.move(batches)
                ratios, costs = [], []
                for turn in range(stand.rounds):
                    first, second = (few, full) if turn % 2 else (full, few)
                    one, other = first.move(batches), second.move(batches)
                    cost = (one, other) if first is few else (other, one)
                    costs.append(cost)
                    ratios.append(cost[1] / cost[0])
                what = f"{database}, {sort_list}, batch {batch}"
                stand.recorder.add(what, "hub", "cost with many waiting", *ratios)
                told = " and ".join(f"{statistics.median(each) * 1e6:.1f}" for each in zip(*costs, strict=True))
                print(
                    f"{database:<11}{sort_list:<9}batch {batch:>3}  {FEW:,} and {many:,} waiting: {told} us a message"
                    f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                    flush=True,
                )


# ------------------------------------------------------------------------------------------------------------- snapshot


@contextmanager
def _holding(hub: Hub) -> Iterator[Callable[[], None]]:
    """Another session that reads, and keeps what it saw."""
    engine = sa.create_engine(hub.engine.url)
    with engine.connect() as conn:
        if hub.postgresql:
            conn.execution_options(isolation_level="REPEATABLE READ")
        else:
            conn.exec_driver_sql("BEGIN")
        conn.exec_driver_sql("SELECT count(*) FROM aq_queue").scalar()
        yield lambda: None
        conn.rollback()
    engine.dispose()


@contextmanager
def _now_and_then(hub: Hub) -> Iterator[Callable[[], None]]:
    """Another session that begins to read every now and then, and reads for as long as ten steps take."""
    engine = sa.create_engine(hub.engine.url)
    turns = [0]
    with engine.connect() as conn:

        def look() -> None:
            with suppress(sa.exc.DBAPIError):
                conn.rollback()
                turns[0] += 1
                if turns[0] % 2:
                    if not hub.postgresql:
                        conn.exec_driver_sql("BEGIN")
                    conn.exec_driver_sql("SELECT count(*) FROM aq_queue").scalar()

        yield look
        conn.rollback()
    engine.dispose()


@contextmanager
def _browsing(hub: Hub) -> Iterator[Callable[[], None]]:
    """A session of the hub that has begun to browse, and keeps its position in what was there then."""
    with hub.session() as session:
        session.enqueue("bench", Message(BODY))
        session.commit()
        session.dequeue("bench", DequeueOptions(dequeue_mode=DequeueMode.BROWSE, wait=0))
        yield lambda: None


@contextmanager
def _nobody(hub: Hub) -> Iterator[Callable[[], None]]:  # noqa: ARG001
    yield lambda: None


def snapshot(stand: Stand, database: str) -> None:
    """Messages through a short queue while another session reads; how it slows down, and how the files grow."""
    total = THROUGH // 10 if stand.quick else THROUGH
    kinds = [("nobody reads", _nobody), ("a session of the hub browses", _browsing), ("a snapshot is kept", _holding)]
    if database == "sqlite":
        kinds.append(("somebody reads now and then", _now_and_then))
    for name, reading in kinds:
        with stand.hub(database) as hub:
            consumer = _Consumer(hub, BATCH)
            consumer.move(20)
            costs, sizes = [], []
            with reading(hub) as look:
                for _ in range(40):
                    costs.append(consumer.move(total // 40 // BATCH))
                    sizes.append(_files(hub))
                    look()
            consumer.close()
            first, last = statistics.median(costs[:4]), statistics.median(costs[-4:])
            told = f"{database:<11}{total:,} messages, {name:<28}{1 / first:>9,.0f}/s first, {1 / last:>9,.0f}/s last"
            told += f"  tenth, slower by {last / first:.2f}"
            if sizes[0]:
                told += f"; files {sizes[0] / 1e6:,.0f} MB, most {max(sizes) / 1e6:,.0f} MB, at last"
                told += f" {sizes[-1] / 1e6:,.0f} MB"
            print(told, flush=True)


def _files(hub: Hub) -> int:
    """Bytes of an SQLite hub with its log; 0 on PostgreSQL."""
    if hub.path is None:
        return 0
    return sum(Path(hub.path + end).stat().st_size for end in ("", "-wal") if Path(hub.path + end).exists())
