"""Messages that were taken and not acknowledged yet, by somebody who cannot hold a session: a token stands for it.

A taking is a session with a transaction that is open. It ends with :meth:`Takings.acknowledge`, with
:meth:`Takings.release`, by itself after :data:`SECONDS`, and with the process, however that ends.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mgw.gateway.aq import Dequeued, DequeueMode, DequeueOptions, Hub, NoMessage, Session, resolve_queue
from mgw.gateway.services import lookup
from mgw.gateway.services.busy import Busy
from mgw.transforms.errors import GatewayError, HubError, LeaseLost

__all__ = ["AT_ONCE", "AT_ONCE_OF_ONE", "SECONDS", "Asked", "Taking", "Takings", "TokenEnded", "TokenUnknown"]

SECONDS = 60.0  # after which messages are given back
AT_ONCE, AT_ONCE_OF_ONE = 32, 16  # takings; on PostgreSQL each has a connection
_LOOK_SECONDS = 1.0  # between two looks for takings that have ended
_REMEMBERED = 1000  # tokens that were used


class TokenUnknown(lookup.NotFound):
    """There is no such token, or it is another's."""

    def __init__(self) -> None:
        GatewayError.__init__(
            self,
            "the token is not known",
            cause="it is of another queue or user, of another process, or was never given out",
            cure="dequeue again",
        )


class TokenEnded(GatewayError):
    """The token was used, or its time is over."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to take.

    Attributes:
        consumer: on multi-consumer queues.
        msgid: this message; on exception queues it must be given.
        keep: until the token is used; False: the messages are consumed by the call that takes them.
        browse: they stay where they are.
    """

    count: int = 1
    consumer: str | None = None
    correlation: str | None = None
    condition: str | None = None
    msgid: bytes | None = None
    keep: bool = True
    browse: bool = False

    @property
    def holds(self) -> bool:
        """Whether there is something to end afterwards."""
        return self.keep and not self.browse

    def options(self) -> DequeueOptions:
        """Of the dequeue, which does not wait."""
        return DequeueOptions(
            consumer_name=self.consumer,
            dequeue_mode=DequeueMode.BROWSE if self.browse else DequeueMode.REMOVE,
            wait=0,
            msgid=self.msgid,
            correlation=self.correlation,
            deq_condition=self.condition,
        )


@dataclass(eq=False)
class Taking:
    """Messages that were taken. ``token`` is empty where there is nothing to end."""

    messages: Sequence[Dequeued]
    token: str = ""
    queue: str = ""
    owner: str = ""
    session: Session | None = None
    end: float = 0.0  # monotonic
    mutex: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False


class Takings:
    """What was taken through this process. Any thread may call."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._clock = hub.clock
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._open: dict[str, Taking] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()  # token -> owner, what became of it
        self._reserved: Counter[str] = Counter()  # by owner: those that wait, too
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """Takings that have not ended."""
        return len(self._open)

    @contextmanager
    def room(self, owner: str, asked: Asked) -> Iterator[None]:
        """Room for one more until the end of the block; a taking that comes out of it keeps it until it ends.

        Raises:
            Busy: there is none.
        """
        if not asked.holds:
            yield
            return
        with self._mutex:
            if self._reserved[owner] >= AT_ONCE_OF_ONE:
                raise Busy(
                    f"user {owner} has taken messages {AT_ONCE_OF_ONE} times without acknowledging them",
                    cure="acknowledge or release them",
                    of_one=True,
                )
            if self._reserved.total() >= AT_ONCE:
                raise Busy(f"messages are taken {AT_ONCE} times and not acknowledged", cure="try again later")
            self._reserved[owner] += 1
        try:
            yield
        finally:
            with self._mutex:
                self._free(owner)

    def watch(self, queue: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Have ``wake`` called, from any thread, when a queue may have got messages; ends with the call that it gives.

        Raises:
            NotFound: there is no queue of that name.
        """
        name = lookup.queue(self._hub, queue)
        with self._hub.read() as conn:
            number = resolve_queue(conn, name).id
        return self._hub.notifier.subscribe((number,), wake)

    def take(self, owner: str, queue: str, asked: Asked) -> Taking | None:
        """Take messages that are there now; None: there is none.

        Raises:
            NotFound: there is no queue of that name.
            AqError: as :meth:`mgw.gateway.aq.sessions.session.Session.dequeue_array`.
        """
        name = lookup.queue(self._hub, queue)
        session = self._hub.session()
        kept = False
        try:
            try:
                found = session.dequeue_array(name, asked.options(), asked.count)
            except NoMessage:
                return None
            if not asked.holds:
                if not asked.browse:
                    session.commit()
                return Taking(found)
            end = self._clock.monotonic() + SECONDS
            taking = Taking(found, secrets.token_urlsafe(32), name, owner, session, end)
            with self._mutex:
                self._open[taking.token] = taking
                self._reserved[owner] += 1
                if self._thread is None:
                    self._thread = threading.Thread(target=self._expire, name="takings", daemon=True)
                    self._thread.start()
            kept = True
            return taking
        finally:
            if not kept:
                session.close()

    def acknowledge(self, owner: str, queue: str, token: str) -> int:
        """Remove the messages for good; how many they were.

        Raises:
            TokenUnknown, TokenEnded: it does not stand for messages any more.
            HubError: the hub refused; where the token is still good, the same may be tried again.
        """
        taking = self._of(owner, queue, token)
        with taking.mutex:
            session = self._still(taking)
            try:
                session.commit()
            except LeaseLost:
                self._end(taking, "its messages were given back, because the hub did not answer for too long")
                raise self._told(token) from None
            except HubError:
                if self._hub.postgresql:  # whether it was done is not known
                    self._end(taking, "the hub did not say whether its messages were removed")
                raise
            self._end(taking, "it was acknowledged")
        return len(taking.messages)

    def release(self, owner: str, queue: str, token: str) -> int:
        """Give the messages back; how many they were. Each counts a failed attempt.

        Raises:
            TokenUnknown, TokenEnded: it does not stand for messages any more.
        """
        taking = self._of(owner, queue, token)
        with taking.mutex:
            self._still(taking)
            self._end(taking, "its messages were released")
        return len(taking.messages)

    def _of(self, owner: str, queue: str, token: str) -> Taking:
        name = lookup.queue(self._hub, queue)
        with self._mutex:
            taking = self._open.get(token)
            who = taking.owner if taking is not None else self._ended.get(token, ("", ""))[0]
        if who != owner or (taking is not None and taking.queue != name):
            raise TokenUnknown
        if taking is None:
            raise self._told(token)
        return taking

    def _still(self, taking: Taking) -> Session:
        """The session of a taking whose mutex is held."""
        if taking.over or taking.session is None:
            raise self._told(taking.token)
        if self._clock.monotonic() >= taking.end:
            self._end(taking, f"its messages were given back after {SECONDS:g} s")
            raise self._told(taking.token)
        return taking.session

    def _told(self, token: str) -> TokenEnded:
        _, word = self._ended.get(token, ("", "its messages were given back"))
        return TokenEnded("the token cannot be used any more", cause=word, cure="dequeue again")

    def _end(self, taking: Taking, word: str) -> None:
        """Its mutex is held."""
        if taking.over:
            return
        taking.over = True
        with self._mutex:
            self._open.pop(taking.token, None)
            self._ended[taking.token] = (taking.owner, word)
            while len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)
            self._free(taking.owner)
        if taking.session is not None:
            with suppress(GatewayError):  # they come back all the same, in time
                taking.session.close()

    def _free(self, owner: str) -> None:
        self._reserved[owner] -= 1
        if self._reserved[owner] <= 0:
            del self._reserved[owner]

    def _expire(self) -> None:
        """Give back what nobody acknowledged; the thread ends when nothing is taken."""
        while True:
            with self._mutex:
                if not self._open or not self._hub.is_open:
                    self._thread = None
                    return
                now = self._clock.monotonic()
                due = [taking for taking in self._open.values() if taking.end <= now]
                if not due:
                    self._changed.wait(_LOOK_SECONDS)
                    continue
            for taking in due:
                with taking.mutex:
                    self._end(taking, f"its messages were given back after {SECONDS:g} s")
