"""What a route asks of its two ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from mgw.gateway.aq import MessageRefused, transfer
from mgw.gateway.observe.events import Event
from mgw.gateway.runtime.hindrance import Hindrance
from mgw.gateway.runtime.job_steps import See
from mgw.gateway.runtime.sizing import Sizing
from mgw.gateway.state.run_state import Counts, JobRow
from mgw.links.contract import Backlog, Recovered
from mgw.links.place import Place
from mgw.links.placement import Placement
from mgw.transforms.message import Message

__all__ = ["DestinationEnd", "Encode", "InFlight", "RefusedByHub", "SourceEnd", "Stored"]

#: Brings a message into the form the destination takes; None: it takes messages as they are.
Encode = Callable[[Message], Any] | None


@dataclass(slots=True)
class Stored:
    """What the transaction that stores and completes batches has to tell when it is committed."""

    counts: Counts = field(default_factory=Counts)
    events: list[Event] = field(default_factory=list)
    queues: list[int] = field(default_factory=list)  # hub queues that got messages


class RefusedByHub(Exception):
    """A queue of the hub refused one message of a batch for what it is; ends the transaction.

    ``index`` counts the messages that were written for the batch.
    """

    def __init__(self, error: MessageRefused, batch: Any) -> None:
        super().__init__(error)
        self.error = error
        self.batch = batch
        self.index = error.index


class InFlight(Protocol):
    """A batch on its way from a source to a destination; what else it holds is for its source."""

    sequence: int  # of its plan; 0 where none is made
    sent: int  # messages that were written for it
    sent_at: float  # epoch seconds
    confirmed_at: float
    placement: Placement | None

    @property
    def size(self) -> int:
        """Messages of the source in it."""
        ...

    @property
    def ids(self) -> Sequence[object]:
        """What names each of them, for the log."""
        ...

    def outgoing(self) -> Sequence[Message]:
        """Messages to be put into a queue of the hub."""
        ...

    def was_put(self, put: transfer.PutResult) -> None:
        """The queue has them, in the transaction that is open."""
        ...


class SourceEnd:
    """Where a route reads. What it plans and reads is opaque to the route: ``Any``.

    The methods on plans are for a source that makes plans, ``read`` is for one that is read.
    """

    planned = False  # a batch is planned in the hub before the first byte of it is written
    reads = False  # it is read outside of a transaction: a link
    awaited: int | None = None  # id of the queue of the hub whose messages it plans

    @property
    def rest(self) -> float:
        """Seconds for which nothing is planned yet, as the latency of its schedule asks; 0: it may be."""
        return 0.0

    @property
    def patient(self) -> bool:
        """Whether ``read`` waits for messages by itself, and keeps all connections alive."""
        return False

    def load(self) -> tuple[JobRow, Sequence[Any]]:
        """The run state of the job and the plans that its predecessor left, in order."""
        raise NotImplementedError

    def revive(self, plan: Any, encode: Encode) -> Any:
        """The batch of a plan that the destination has, to be completed."""
        raise NotImplementedError

    def begin(self, left: Sequence[Any]) -> Sequence[Any]:
        """Connect; of the plans that the destination does not have those that are sent again."""
        raise NotImplementedError

    def read(self, limit: int, wait: float) -> Any | None:
        """A batch of up to ``limit`` messages, with its ``size`` and its ``weight`` in bytes; None: there was none
        within ``wait`` seconds, or the source plans its batches by itself."""
        raise NotImplementedError

    def select(self, taken: Any, encode: Encode, remark: str = "") -> tuple[Any, Sequence[Any]]:
        """Select, convert and transform what was read or planned: the batch, and what is to be written.

        Raises:
            ConversionFailure: of one message, and there is no exception queue.
        """
        raise NotImplementedError

    def plans(self, room: int) -> bool:
        """Whether there may be something to plan."""
        raise NotImplementedError

    def plan(self, conn: sa.Connection, sequence: int, size: int, room: int, *, completes: bool) -> Sequence[Any]:
        """Plan batches of ``size`` messages with numbers after ``sequence``, ``room`` messages at most. Each has a
        ``size``, and a ``weight`` in bytes."""
        raise NotImplementedError

    def sequence_of(self, planned: Any) -> int:
        """The number of a plan."""
        raise NotImplementedError

    def prepare(self, finished: Sequence[Any]) -> None:
        """What must be durable elsewhere before batches are completed; no transaction is open."""

    def admit(self, conn: sa.Connection, finished: Sequence[Any], now: float) -> None:
        """Find out what of the batches is new, in the transaction that stores them."""

    def complete(self, conn: sa.Connection, finished: Sequence[Any], stored: Stored, now: float) -> None:
        """The destination has these batches, in order: write it down where this source keeps its progress."""

    def record(self, conn: sa.Connection, finished: Sequence[Any], now: float) -> None:
        """Tell the ledger, before the plans are deleted."""

    def committed(self, finished: Sequence[Any], now: float) -> None:
        """The transaction is committed (epoch seconds): count how long the batches took."""

    def settle(self, finished: Sequence[Any]) -> None:
        """The transaction is committed: acknowledge."""

    def await_settled(self, seconds: float) -> None:
        """Wait up to ``seconds`` until the source has taken what was acknowledged; never raises."""

    def refuse(self, refusal: RefusedByHub) -> None:
        """Leave a message out that the hub refused; it goes to the exception queue.

        Raises:
            MessageRefused: there is none.
        """

    def take_back(self, conn: sa.Connection, plans: Sequence[Any], now: float, note: str) -> None:
        """Plans of which not one byte was written do not count any more."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None] | None:  # noqa: ARG002
        """Call ``wake`` when something arrives; returns what ends that, None where the source itself waits."""
        return None

    def tap(self, see: See | None) -> None:
        """From any thread: let somebody see what messages become; None: nobody any more."""
        raise NotImplementedError

    def backlog(self) -> Backlog | None:
        """What waits, where only the source can tell."""
        return None

    def hindrance(self, patience: float) -> Hindrance | None:  # noqa: ARG002
        """Why nothing has been read for longer than ``patience`` seconds although messages wait; from any thread."""
        return None

    def check_stall(self, backlog: Backlog | None) -> None:
        """Refuse to look healthy while messages wait and none moves (LinkTimeout)."""

    def state(self) -> str:
        """Where it is, and what it has in hand, for the log; from any thread."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """From any thread: make a waiting ``read`` return."""

    def close(self) -> None:
        """Disconnect; what was not settled comes again."""


class DestinationEnd:
    """Where a route writes."""

    planned = False  # what is written may be there in part, or twice: it needs a plan
    logged = False  # it keeps a sending log
    encode: Encode = None

    @property
    def room(self) -> int:
        """Messages that may be written now, in addition to those on their way."""
        raise NotImplementedError

    @property
    def largest_batch(self) -> int | None:
        """Messages that batches may grow to, when it is open; None: as the job says."""
        return None

    def weigh(self, sizing: Sizing) -> None:
        """How heavy messages are now, so that what is on its way does not fill the memory."""

    @property
    def busy(self) -> bool:
        """Whether something is on its way."""
        raise NotImplementedError

    @property
    def confirms(self) -> bool:
        """Whether what was written is finished only when somebody else confirms it."""
        return False

    def open(self) -> Recovered | None:
        """Connect, and read the sending log; None: there is none."""
        raise NotImplementedError

    def place(self) -> Place | None:
        """Where it is connected; None: the hub, or nobody can say."""
        return None

    def write(self, batch: Any, forms: Sequence[Any]) -> None:
        """Begin to write; ``forms`` are messages as :attr:`encode` makes them."""

    def finished(self) -> Sequence[Any]:
        """Batches that it has, in the order they were written; at once."""
        raise NotImplementedError

    def store(self, conn: sa.Connection, finished: Sequence[Any], stored: Stored, now: float) -> None:
        """Put batches that are written in the transaction which completes them.

        Raises:
            RefusedByHub: it refuses one message.
        """

    def wait(self, seconds: float) -> None:
        """Wait for something to be finished, or for :meth:`interrupt`."""

    def hindrance(self, patience: float) -> Hindrance | None:  # noqa: ARG002
        """Which limit keeps back what is on its way, or that nothing of it has been confirmed for longer than
        ``patience`` seconds; from any thread."""
        return None

    def check_stall(self) -> None:
        """Refuse to look healthy while nothing is confirmed (LinkTimeout)."""

    def state(self) -> str:
        """What it has in hand, for the log; from any thread."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """From any thread: make a waiting ``wait`` return."""

    def close(self) -> None:
        """Disconnect."""
