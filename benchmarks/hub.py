"""Hub benchmark: ``python -m benchmarks.hub [--quick] [--rounds N] [--database sqlite|postgresql] [PART ...]``.

Parts: ``rates`` (enqueue and dequeue beside the bare SQL statements and beside PgQueuer), ``waiting`` (what a message
costs with 1,000,000 others waiting), ``fill`` (only fills the hubs of ``waiting`` and ``views``, in several runs where
one would be too long), ``views`` (how long they take with as many waiting), ``snapshot`` (2,000,000 messages through a
queue while somebody else reads).
The variants of a part are measured in turns in one run; a ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks import hub_growth, hub_views
from benchmarks.goals import HUB_PARTS
from benchmarks.hub_bare import BarePostgreSQL, BareSQLite, SessionPostgreSQL, SessionSQLite
from benchmarks.hub_peer import Peer
from benchmarks.measuring import body_of, machine, sync_seconds
from benchmarks.recorded import Recorder
from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, EnqueueOptions, Visibility
from mgw.gateway.aq.queues.codec import encode
from mgw.gateway.aq.queues.transfer import resolve
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL

BODY = 256
SAME = "same SQL"
SIZES = {1: 200, 30: 6_000, 500: 20_000}  # messages of a run
DATABASES = ("sqlite", "postgresql")


class Side(Protocol):
    """A queue: batches go in and come out, each call durable when it returns."""

    def enqueue(self, batch: Any) -> object: ...

    def dequeue(self, limit: int) -> Sequence[Any]: ...


class Measured(NamedTuple):
    """Seconds of one run."""

    enqueue: float
    dequeue: float


class Variant(NamedTuple):
    """A side, and what makes the batches for a run before the clock starts."""

    name: str
    side: Side
    batches: Callable[[int, int], list[Any]]  # messages of a batch, number of batches


class SessionSide:
    """A session of the hub: its own transactions, each ended by a commit."""

    def __init__(self, hub: Hub, queue: str = "bench") -> None:
        self._session = hub.session()
        self._queue = queue
        self._options = DequeueOptions(wait=0)

    def enqueue(self, batch: Sequence[Message]) -> None:
        """Enqueue and commit."""
        self._session.enqueue_array(self._queue, batch)
        self._session.commit()

    def dequeue(self, limit: int) -> Sequence[Any]:
        """Dequeue and commit."""
        found = self._session.dequeue_array(self._queue, self._options, limit)
        self._session.commit()
        return found

    def close(self) -> None:
        """End the session."""
        self._session.close()


class ImmediateSide(SessionSide):
    """The same with visibility IMMEDIATE: every call is a transaction of its own."""

    def enqueue(self, batch: Sequence[Message]) -> None:
        """Enqueue."""
        self._session.enqueue_array(self._queue, batch, EnqueueOptions(visibility=Visibility.IMMEDIATE))

    def dequeue(self, limit: int) -> Sequence[Any]:
        """Dequeue."""
        options = DequeueOptions(wait=0, visibility=Visibility.IMMEDIATE)
        return self._session.dequeue_array(self._queue, options, limit)


class ApplicationSide:
    """A session in the transactions of an application, which brings the connection and commits."""

    def __init__(self, hub: Hub, queue: str = "bench") -> None:
        self._connection = hub.engine.connect()
        self._session = hub.session(self._connection)
        self._queue = queue
        self._options = DequeueOptions(wait=0)

    def enqueue(self, batch: Sequence[Message]) -> None:
        """Enqueue and commit."""
        self._session.enqueue_array(self._queue, batch)
        self._connection.commit()

    def dequeue(self, limit: int) -> Sequence[Any]:
        """Dequeue and commit."""
        found = self._session.dequeue_array(self._queue, self._options, limit)
        self._connection.commit()
        return found

    def close(self) -> None:
        """End the session."""
        self._session.close()
        self._connection.close()


def run(variant: Variant, batch: int, total: int) -> Measured:
    """Put messages in, take them out."""
    batches = variant.batches(batch, total // batch)
    enqueue, dequeue = variant.side.enqueue, variant.side.dequeue
    begun = time.perf_counter()
    for each in batches:
        enqueue(each)
    filled = time.perf_counter()
    for _ in batches:
        found = dequeue(batch)
        if len(found) != batch:
            raise RuntimeError(f"{variant.name}: {len(found)} of {batch} messages came")
    return Measured(filled - begun, time.perf_counter() - filled)


# ------------------------------------------------------------------------------------------------------------ databases


class Stand:
    """What the parts share: a folder, a PostgreSQL server, how much to do."""

    def __init__(
        self,
        folder: Path,
        rounds: int,
        *,
        quick: bool,
        stack: ExitStack,
        waiting: int | None = None,
        filled: int = hub_growth.BATCH,
        sorts: Sequence[str] = hub_growth.SORTS,
        keep: Path | None = None,
        seconds: float | None = None,
    ) -> None:
        self.folder = folder
        self.rounds = rounds
        self.quick = quick
        self.waiting = waiting
        self.filled = filled
        self.sorts = sorts
        self.seconds = seconds
        self._keep = keep
        self._stack = stack
        self._server: PostgreSQL | None = None
        self._numbers = itertools.count(1)

    def record(self, database: str) -> None:
        """The figures from now on are those of this database: a part of their own."""
        sizes = {"waiting": self.waiting or hub_growth.MANY, "enqueued_together": self.filled}
        self.recorder = Recorder(HUB_PARTS[database], rounds=self.rounds, quick=self.quick, **sizes)

    def url(self, database: str) -> str:
        """Address of a new database; a server's memory is what a small production server would give it."""
        number = next(self._numbers)
        if database == "sqlite":
            return f"sqlite:///{self.folder}/hub-{number}.db"
        if self._server is None:
            self._server = self._stack.enter_context(PostgreSQL(settings=("shared_buffers=512MB", "max_wal_size=4GB")))
        return self._server.create_database(f"bench{number}")

    @contextmanager
    def hub(self, database: str, sort_list: str = "ENQ_TIME", kept: str = "") -> Iterator[Hub]:
        """A hub with the queue BENCH: a new one, or (SQLite) the one that an earlier run kept under this name."""
        file = None
        if kept and self._keep is not None and database == "sqlite":
            self._keep.mkdir(parents=True, exist_ok=True)
            file = self._keep / f"{kept}.db"
            if file.exists():
                with Hub.open(f"sqlite:///{file}") as hub:
                    yield hub
                return
        with Hub.open(f"sqlite:///{file}" if file else self.url(database), create=True) as hub:
            admin = QueueAdmin(hub)
            admin.create_queue_table("bench_table", "RAW", sort_list=sort_list)
            admin.create_queue("bench", "bench_table")
            admin.start_queue("bench")
            yield hub


def messages(batch: int, number: int) -> list[list[Message]]:
    """Messages of the usual size in batches."""
    return [[Message(body_of(BODY, each)) for each in range(batch)] for _ in range(number)]


def bodies(batch: int, number: int) -> list[list[bytes]]:
    """Bodies of the usual size in batches."""
    return [[body_of(BODY, each) for each in range(batch)] for _ in range(number)]


def rows_for(hub: Hub) -> Callable[[int, int], list[Any]]:
    """Makes batches of rows, complete with ids, as the hub would make them."""
    with hub.read() as conn:
        queue = resolve(conn, "bench")
    numbers = itertools.count(1)

    def rows(batch: int, number: int) -> list[Any]:
        now = time.time()
        many = messages(batch, number)
        return [encode(queue, each, [next(numbers) for _ in each], now, None, "1.1.1") for each in many]

    return rows


# ---------------------------------------------------------------------------------------------------------------- rates


def rates(stand: Stand, database: str) -> None:
    """Messages per second in and out again, beside the bare statements and the peer."""
    with ExitStack() as stack:
        variants = []
        plain = stack.enter_context(stand.hub(database))
        with plain.read() as conn:
            queue_id = resolve(conn, "bench").id
        own = stack.enter_context(stand.hub(database))
        bare: Any
        statements: Any
        if database == "sqlite":
            bare, statements = BareSQLite(plain.path or "", queue_id), SessionSQLite(own.path or "", queue_id)
        else:
            bare, statements = (
                kind(hub.engine.url.render_as_string(hide_password=False), queue_id)
                for kind, hub in ((BarePostgreSQL, plain), (SessionPostgreSQL, own))
            )
        for name, each in (("table alone", bare), (SAME, statements)):
            stack.callback(each.close)
            variants.append(Variant(name, each, rows_for(plain)))
        kinds: dict[str, Any] = {"session": SessionSide, "IMMEDIATE": ImmediateSide, "application": ApplicationSide}
        for name, kind in kinds.items():
            side = kind(stack.enter_context(stand.hub(database)))
            stack.callback(side.close)
            variants.append(Variant(name, side, messages))
        if database == "postgresql":
            try:
                peer = Peer(stand.url(database))
            except ImportError as missing:
                print(f"{Peer.name} is left out: {missing}")
            else:
                stack.callback(peer.close)
                variants.append(Variant(peer.name, peer, bodies))
        for batch, total in SIZES.items():
            size = max(total // 10, batch * 4) if stand.quick else total
            _compare(database, variants, batch, size, stand.rounds)


def _compare(database: str, variants: Sequence[Variant], batch: int, total: int, rounds: int) -> None:
    runs: dict[str, list[Measured]] = {variant.name: [] for variant in variants}
    for variant in variants:
        run(variant, batch, max(batch * 2, total // 4))
    for turn in range(rounds):
        order = [*variants[turn % len(variants) :], *variants[: turn % len(variants)]]
        for variant in order:
            runs[variant.name].append(run(variant, batch, total))
    first = runs[variants[0].name]
    peer = runs.get(Peer.name)
    for name, measured in runs.items():
        told = f"{database:<11}batch {batch:>3}  {name:<12}"
        told += f"{_rate(total, [sum(each) for each in measured]):>9,.0f}/s"
        told += f"  in {_rate(total, [each.enqueue for each in measured]):>9,.0f}/s"
        told += f"  out {_rate(total, [each.dequeue for each in measured]):>9,.0f}/s"
        if measured is not first:
            told += f"  {_ratio(measured, first)} of table alone"
        if name == "session":
            told += f"  {_ratio(measured, runs[SAME])} of {SAME}"
        if peer is not None and measured is not peer and measured is not first:
            told += f"  {_ratio(measured, peer)} of PgQueuer"
        print(told, flush=True)


def _rate(total: int, seconds: Sequence[float]) -> float:
    return total / statistics.median(seconds)


def _ratio(measured: Sequence[Measured], other: Sequence[Measured]) -> str:
    ratios = sorted(sum(b) / sum(a) for a, b in zip(measured, other, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


PARTS: Mapping[str, Callable[[Stand, str], None]] = {
    "rates": rates,
    "fill": hub_growth.fill,
    "waiting": hub_growth.waiting,
    "views": hub_views.views,
    "snapshot": hub_growth.snapshot,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts asked for and print every line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--database", choices=DATABASES, help="default: both")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages: figures are rough")
    parser.add_argument("--waiting", type=int, help="messages that wait in part waiting; default 1,000,000")
    parser.add_argument(
        "--filled", type=int, default=hub_growth.BATCH, help="messages that were enqueued together; default 500"
    )
    parser.add_argument("--sort", choices=hub_growth.SORTS, help="sort list in part waiting; default: both")
    parser.add_argument("--keep", type=Path, help="folder where part waiting keeps its full SQLite hubs (part fill)")
    parser.add_argument("--seconds", type=float, help="for how long part fill fills a hub, at most")
    chosen: Any = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mgw-bench-")))
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}")
        print(f"bodies of {BODY} bytes; one sync of the disk: {sync_seconds(folder) * 1000:.2f} ms\n")
        stand = Stand(
            folder,
            chosen.rounds,
            quick=chosen.quick,
            stack=stack,
            waiting=chosen.waiting,
            filled=chosen.filled,
            sorts=(chosen.sort,) if chosen.sort else hub_growth.SORTS,
            keep=chosen.keep,
            seconds=chosen.seconds,
        )
        for database in [chosen.database] if chosen.database else DATABASES:
            stand.record(database)
            for part in chosen.parts or [part for part in PARTS if part != "fill"]:
                PARTS[part](stand, database)
                stand.recorder.part().write()


if __name__ == "__main__":
    main()
