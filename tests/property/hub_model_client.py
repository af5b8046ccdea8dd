"""The model of a session: its transaction, what it has in hand, and its place in every queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq.model import DequeueMode, Navigation, SortList
from tests.property.hub_model import (
    BLOCKED,
    EXPIRED,
    PROCESSED,
    READY,
    WAITING,
    Call,
    Consumer,
    Entry,
    Got,
    Model,
    New,
    Place,
    Queue,
    Refused,
    Stored,
)

__all__ = ["Client", "Mark"]


class Mark(NamedTuple):
    """A savepoint: what was enqueued and in hand then (True: removed)."""

    sent: list[Stored]
    hands: dict[Entry, bool]


class Client:
    """A session: its transaction, and its place in every queue."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sent: list[Stored] = []
        self.hands: dict[Entry, bool] = {}  # True: removed
        self.marks: dict[str, Mark] = {}
        self.places: dict[Queue, Place] = {}
        self.stamps: dict[tuple[Queue, str | None], float] = {}

    # -- enqueue ---------------------------------------------------------------------------------------------------

    def enqueue(self, queue: Queue, messages: Sequence[New], *, immediate: bool) -> list[Stored]:
        """All, or none where one has no recipient. The caller gives the numbers that the hub gave."""
        now, made = self.model.now, []
        for new in messages:
            ready_at = now + new.delay
            expires_at = None if new.expiration is None else ready_at + new.expiration
            message = Stored(
                0, queue, queue, new.body, new.priority, now, new.correlation, expires_at, new.exception_queue,
                None if immediate else self,
            )  # fmt: skip
            state = WAITING if new.delay else READY
            for consumer in self._recipients(queue, new, message) if queue.multiple else [None]:
                message.entries.append(Entry(message, consumer, state, ready_at))
            made.append(message)
        refused = not all(message.entries for message in made)
        if not refused or (self.model.database.keeps_names and not immediate):
            for name in {name for new in messages for name in new.recipients}:
                queue.consumers.setdefault(name, Consumer())
        if refused:
            raise Refused(24033)
        return made

    def store(self, made: Sequence[Stored], numbers: Sequence[int]) -> None:
        """The hub accepted them: numbers rise with the calls and, where priority is first, with it within a call."""
        for message, number in zip(made, numbers, strict=True):
            message.number = number
        if made and made[0].home.sort in (SortList.PRIORITY, SortList.PRIORITY_ENQ_TIME):
            made = sorted(made, key=lambda message: message.priority)
        for message in made:
            assert message.number > self.model.last
            self.model.last = message.number
        self.model.messages.extend(made)
        self.sent += [message for message in made if message.sender is self]

    @staticmethod
    def _recipients(queue: Queue, new: New, message: Stored) -> list[str]:
        if new.recipients:
            return list(new.recipients)
        return [
            name
            for name, consumer in queue.consumers.items()
            if consumer.subscriber and (consumer.rule is None or consumer.rule(message))
        ]

    # -- dequeue ---------------------------------------------------------------------------------------------------

    def dequeue(self, call: Call) -> list[Got]:
        """One dequeue, with its waiting: what is there now is all there will be."""
        self.model.count_uncounted()
        queue = call.queue
        found = self._attempt(call)
        if not found and call.waits:  # it waits at the head, for what was not there when it came
            self.places.pop(queue, None)
            found = self._attempt(call)
        if not found:
            raise Refused(25228)
        return found

    def _attempt(self, call: Call) -> list[Got]:
        queue = call.queue
        if queue.exceptions:
            if call.number is None and not queue.multiple and not call.browses:
                raise Refused(25239)  # of a single-consumer table: by id only
        elif queue.multiple and call.consumer not in queue.consumers:
            raise Refused(24035)
        if call.number is not None:
            found = [entry for entry in self._candidates(call) if entry.message.number == call.number]
            if not found:
                raise Refused(25263)
        else:
            found = self._walk(call)
        got = [self._got(call, entry) for entry in found]
        self._take(call, found)
        return got

    def _walk(self, call: Call) -> list[Entry]:
        queue, criteria = call.queue, call.criteria
        head = Place(call.consumer, criteria, None, self.model.last)
        place = self.places.get(queue)
        if place is None or call.navigation is Navigation.FIRST_MESSAGE:
            place = head
        elif place.ended:
            if not (call.removes or call.waits):
                raise Refused(25237)  # the end was reported; who only looks must begin again
            place = head
        elif place.consumer != call.consumer:
            raise Refused(25242)
        elif place.criteria != criteria:
            raise Refused(25241)
        found = self._behind(call, place)
        if not found and place.after is not None and call.removes:  # the snapshot is used up: a new one
            place = head
            found = self._behind(call, place)
        if found:
            self.places[queue] = place._replace(after=found[-1].message.key())
        elif place.after is not None and not call.removes:
            self.places[queue] = place._replace(ended=True)
        else:
            self.places.pop(queue, None)
        return found

    def _behind(self, call: Call, place: Place) -> list[Entry]:
        found = [
            entry
            for entry in self._candidates(call)
            if call.search(entry)
            and entry.message.number <= place.upto
            and (place.after is None or entry.message.key() > place.after)
        ]
        return sorted(found, key=lambda entry: entry.message.key())[: call.size]

    def _candidates(self, call: Call) -> list[Entry]:
        """The entries in a state that the call may find, except those in hands that keep them from it."""
        model, found = self.model, []
        for message in model.messages:
            mine = message.sender is self and model.database.sees_own_messages and not self._autonomous(call)
            if not (message.sender is None or mine):
                continue
            if call.queue.exceptions:
                entries = [message.whole] if message.whole else message.entries
                entries = entries if message.queue is call.queue else []
            else:
                entries = [entry for entry in message.entries if self._belongs(entry, call)]
            found += [entry for entry in entries if self._may_find(call, entry)]
        return found

    @staticmethod
    def _belongs(entry: Entry, call: Call) -> bool:
        """Whoever has consumed a message may look at it as long as it is stored, wherever that is by now."""
        message = entry.message
        there = message.home is call.queue and (call.queue.multiple or message.queue is call.queue)
        return there and entry.consumer == call.consumer

    @staticmethod
    def _autonomous(call: Call) -> bool:
        """A transaction of its own: what the session itself has in hand is in other hands."""
        return call.immediate and not call.browses

    def _may_find(self, call: Call, entry: Entry) -> bool:
        by_id, queue = call.number is not None, call.queue
        states = {EXPIRED} if queue.exceptions else {READY}
        if by_id and not queue.exceptions:
            states |= {WAITING, BLOCKED} if queue.multiple else {WAITING}
        if by_id and call.browses:
            states |= {PROCESSED}
        mine = entry.holder is self and not self._autonomous(call)
        if mine and entry.removed:
            return self._shows_own_removal(call)
        if call.browses and entry.holder is not None and not self.model.database.keeps_states:
            return True
        if call.browses or entry.holder is None:
            return entry.state in states
        if not mine:
            return False  # skipped, never waited for
        return by_id or not entry.hidden

    def _shows_own_removal(self, call: Call) -> bool:
        kept = not call.queue.exceptions and (call.queue.multiple or call.queue.retention != 0)
        return kept and call.browses and call.number is not None

    def _got(self, call: Call, entry: Entry) -> Got:
        state = entry.state
        if entry.holder is not None and not call.queue.exceptions:
            if not self.model.database.keeps_states:
                state = READY
            elif entry.holder is self and entry.removed:
                state = PROCESSED
        body = None if call.mode is DequeueMode.REMOVE_NODATA else entry.message.body
        return Got(entry.message.number, body, entry.attempts, state)

    def _take(self, call: Call, found: Sequence[Entry]) -> None:
        if call.browses or not found:
            return
        if call.immediate:
            if call.removes:
                for entry in found:
                    self._consume(entry, self.model.now)
            return
        for entry in found:
            if entry.holder is None:
                entry.holder, entry.removed = self, False
                entry.hidden = entry.state in (WAITING, BLOCKED)
            entry.removed = call.removes
            self.hands[entry] = entry.removed
            if entry.removed:
                entry.deq_time = self.model.now
                self.stamps[call.queue, entry.consumer] = self.model.now

    def _consume(self, entry: Entry, time: float) -> None:
        """Gone for this consumer; a message that nobody waits for any more is gone, or retained."""
        model, message = self.model, entry.message
        entry.holder, entry.deq_time = None, time
        if message.queue.exceptions or not (message.queue.multiple or message.queue.retention):
            model.messages.remove(message)
            return
        entry.state = PROCESSED
        if message.queue.multiple:
            model.log.add(message)
        else:
            message.done, message.expires_at = time, None

    # -- the end of a transaction ----------------------------------------------------------------------------------

    def commit(self) -> None:
        """What was enqueued is there for everybody; what was removed is gone; what was locked is free."""
        for message in self.sent:
            message.sender = None
        hands, self.hands = self.hands, {}
        for entry, removed in hands.items():
            if not removed:
                self._let_go(entry)
                continue
            stamp = self.stamps[entry.message.queue, entry.consumer]
            if self.model.database.stamps_each_call and entry.deq_time is not None:
                stamp = entry.deq_time
            self._consume(entry, stamp)
        self._begin()

    def rollback(self) -> None:
        """What was enqueued is gone; what was removed is back, with a failed attempt; what was locked is free."""
        self._go_back(Mark([], {}))
        self._begin()

    def _begin(self) -> None:
        self.sent, self.marks, self.stamps = [], {}, {}
        if self.hands:
            raise AssertionError("something is still in hand")

    def savepoint(self, name: str) -> None:
        """A name set again moves."""
        self.marks.pop(name, None)
        self.marks[name] = Mark(list(self.sent), dict(self.hands))

    def rollback_to(self, name: str) -> None:
        """As a rollback, of what was done after the savepoint, which stays."""
        if name not in self.marks:
            raise Refused(1086)
        mark = self.marks[name]
        self._forget_after(name)
        self._go_back(mark)

    def release(self, name: str) -> None:
        """It and later ones are forgotten; nothing is undone."""
        if name not in self.marks:
            raise Refused(1086)
        self._forget_after(name)
        del self.marks[name]

    def _forget_after(self, name: str) -> None:
        names = list(self.marks)
        for later in names[names.index(name) + 1 :]:
            del self.marks[later]

    def _go_back(self, mark: Mark) -> None:
        model = self.model
        self.places.clear()
        for message in self.sent[len(mark.sent) :]:
            model.messages.remove(message)
        self.sent = list(mark.sent)
        failed = [entry for entry, removed in self.hands.items() if removed and not mark.hands.get(entry)]
        free = [entry for entry, removed in self.hands.items() if not removed and entry not in mark.hands]
        locked_before = [entry for entry in failed if entry in mark.hands]
        self.hands = dict(mark.hands)
        for entry in free:
            self._let_go(entry)
        for entry in failed:
            entry.removed, entry.deq_time = False, None
            if model.database.counts_late or entry.message.queue.exceptions:
                entry.holder = None
        attempts = [entry for entry in failed if not entry.message.queue.exceptions]  # none is counted there
        if model.database.counts_late:
            self._count_late(attempts, locked_before)
        else:
            self._count_now(attempts, locked_before)

    def _count_late(self, attempts: Sequence[Entry], locked_before: Sequence[Entry]) -> None:
        for entry in locked_before:
            entry.holder = self
        self.model.uncounted.extend(self._by_consumer(attempts))
        if attempts:
            self.model.count_uncounted()

    def _count_now(self, attempts: Sequence[Entry], locked_before: Sequence[Entry]) -> None:
        for group in self._by_consumer(attempts):
            self.model.fail(group)
        for entry in locked_before:
            if entry not in attempts or (entry.state is READY and entry in entry.message.entries):
                entry.holder = self
            else:
                del self.hands[entry]

    def _by_consumer(self, entries: Sequence[Entry]) -> list[list[Entry]]:
        """Attempts are counted for each queue and consumer together, in the order of their first removals."""
        groups: dict[tuple[Queue, str | None], list[Entry]] = {key: [] for key in self.stamps}
        for entry in entries:
            groups[entry.message.queue, entry.consumer].append(entry)
        return [group for group in groups.values() if group]

    def _let_go(self, entry: Entry) -> None:
        entry.holder = None
        if not self.model.database.keeps_states and entry.state is WAITING and entry.ready_at <= self.model.now:
            entry.state = READY
