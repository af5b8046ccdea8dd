"""Where a session is in each queue, and the rules about continuing from there (AQ guide 12.2 §1.7, §10.5, §10.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mgw.gateway.aq.errors import (
    AgentNameInvalid,
    ArraySizeInvalid,
    ConsumerChanged,
    CorrelationChanged,
    DeliveryModeInvalid,
    DequeueModeInvalid,
    ImmediateRequired,
    MessageIdNotAlone,
    NavigationInvalid,
    NavigationOutOfSequence,
    NoTransactionGroups,
    RuleInvalid,
    VisibilityInvalid,
    WaitInvalid,
)
from mgw.gateway.aq.model import DeliveryMode, DequeueMode, DequeueOptions, Navigation, Visibility
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import group_search
from mgw.gateway.aq.queues.messages_sql import keys_of
from mgw.gateway.aq.queues.search import (
    Found,
    Place,
    Request,
    at_the_end,
    find_next,
    find_one,
    head,
    no_such_message,
    upto,
)
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Application
    from mgw.gateway.aq.sessions.unit_of_work.base import Work

__all__ = ["Finder", "check_options", "check_wait"]

_SINGLE = (Navigation.NEXT_MESSAGE, Navigation.FIRST_MESSAGE, Navigation.NEXT_TRANSACTION)
_FROM_THE_HEAD = (
    Navigation.FIRST_MESSAGE,
    Navigation.FIRST_MESSAGE_ONE_GROUP,
    Navigation.FIRST_MESSAGE_MULTI_GROUP,
)
_ONLY_GROUPED = (
    Navigation.NEXT_TRANSACTION,
    Navigation.NEXT_MESSAGE_ONE_GROUP,
    Navigation.FIRST_MESSAGE_ONE_GROUP,
)
_MAX_CONDITION = 4000


class Finder:
    """The positions of one session, one per queue.

    A position is there from the first call that finds something, which behaves as FIRST_MESSAGE, to the next
    FIRST_MESSAGE, the end of the queue or a rollback. It belongs to one consumer and one search; a dequeue by message
    id neither uses nor moves it.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._places: dict[int, Place] = {}
        self._turn = 0
        self._undone = 0
        self._transaction: object = None

    def committed(self) -> None:
        """The session's transaction ended well: positions stay, the locks of groups are gone."""
        self._turn += 1

    def rolled_back(self) -> None:
        """The session's transaction was undone, and its positions with it."""
        self._turn += 1
        self._places.clear()

    def restart(self, queue_id: int) -> None:
        """The next call looks from the head, at what is there then."""
        self._places.pop(queue_id, None)

    def find(self, db: Db, request: Request, *, autonomous: bool = False) -> Found:
        """What the request asks for; nothing is remembered before :meth:`keep`.

        Args:
            autonomous: the call is a transaction of its own, so what this session holds is in other hands.

        Raises:
            AqError: 25234, 25235, 25237, 25241, 25242, 25263.
        """
        queue_id = request.queue.id
        if self._work.within is not None:
            self._follow(self._work.within)
        claim = None if autonomous else self._work.claim
        removed = self._work.taken(request.queue, request.consumer)
        if request.number is not None:
            if request.number in removed and not (request.browse and _kept(db, request)):
                raise no_such_message(request.queue, request.options.msgid)
            return Found(find_one(db, request, request.number, claim), self._places.get(queue_id), [])
        if removed and request.browse:
            request = request._replace(removed=removed)
        place = self._start(db, request)
        if request.queue.grouped and not request.exceptions:
            if request.criteria == (None, None):
                turn = -1 if autonomous else self._turn
                taken = [] if claim is None else self._work.taken(request.queue, request.consumer)
                hand = group_search.Hand(claim, taken, turn)
                return group_search.find(db, request, place, hand)
            if request.options.navigation is Navigation.NEXT_TRANSACTION and place.after is not None:
                place = place._replace(after=group_search.beyond(place.after))
        locked = () if claim is None else self._work.locked(request.queue, request.consumer)
        rows = find_next(db, request, place, claim, locked)
        if not rows and place.after is not None and request.takes:  # the snapshot is used up: a new one
            place = head(db, request)
            rows = find_next(db, request, place, claim, locked)
        if rows:
            return Found(rows, place._replace(after=keys_of(rows[-1], request.queue)), [])
        return Found([], at_the_end(request, place), [])

    def _follow(self, application: Application) -> None:
        """The application ends its transactions itself, and tells nobody."""
        if self._undone != self._work.undone:
            self._undone = self._work.undone
            self._places.clear()
        transaction = application.connection().get_transaction()
        if transaction is not self._transaction:
            self._transaction = transaction
            self._turn += 1

    def keep(self, queue_id: int, found: Found) -> None:
        """The call succeeded: remember where it ended."""
        if found.place is None:
            self._places.pop(queue_id, None)
        else:
            self._places[queue_id] = found.place

    def skip(self, request: Request, found: Found) -> None:
        """The call failed at the first message found: go on behind it. What was locked for it is free again."""
        failed = upto(request, found, 1)
        place, before = failed.place, self._places.get(request.queue.id)
        if place is not None and place.group is not None and (before is None or before.group != place.group):
            failed = failed._replace(place=place._replace(turn=-1))
        self.keep(request.queue.id, failed)

    def _start(self, db: Db, request: Request) -> Place:
        options = request.options
        if options.navigation in _ONLY_GROUPED and (not request.queue.grouped or request.exceptions):
            raise NoTransactionGroups(
                f"{options.navigation} cannot be used on queue {request.queue.full_name}",
                cause="its messages are not grouped by transaction",
                cure="use NEXT_MESSAGE, or a queue table with message_grouping TRANSACTIONAL",
            )
        place = self._places.get(request.queue.id)
        if place is None or options.navigation in _FROM_THE_HEAD:
            return head(db, request)
        if place.ended:
            if request.takes or options.wait > 0:
                return head(db, request)
            raise NavigationOutOfSequence(
                f"there is no position to continue from in queue {request.queue.full_name}",
                cause="the call before this one reached the end of the queue",
                cure="use FIRST_MESSAGE",
            )
        if place.consumer != request.consumer:
            raise ConsumerChanged(
                f"the consumer of queue {request.queue.full_name} changed between two calls",
                cause="a position in a queue belongs to one consumer",
                cure="use FIRST_MESSAGE for the first call of another consumer",
            )
        if place.criteria != request.criteria:
            raise CorrelationChanged(
                f"the search in queue {request.queue.full_name} changed between two calls",
                cause="correlation and deq_condition apply from one FIRST_MESSAGE to the next",
                cure="use FIRST_MESSAGE for the first call with new ones",
            )
        return head(db, request) if request.takes and place.used_up(request.queue) else place


def _kept(db: Db, request: Request) -> bool:
    """Whether a message that was removed is still in its queue: for other consumers, or because it is retained."""
    if request.exceptions:
        return False
    return bool(request.consumer or catalog.queue_settings(db, request.queue).retention_time)


def check_options(options: DequeueOptions, array_size: int, *, array: bool) -> DequeueOptions:
    """The options with their enumerations read, whatever case they were written in.

    Raises:
        AqError: 25225 mode, 25233 navigation, 25201 visibility, 25299, 25298 delivery mode, 25230 wait, 25286 array
            size, 25240 a message id is not alone, 25448 the condition is too long.
    """
    if type(options.dequeue_mode) is not DequeueMode:
        mode: Any = _read(DequeueMode, options.dequeue_mode, "dequeue mode", DequeueModeInvalid)
        options = replace(options, dequeue_mode=mode)
    if type(options.navigation) is not Navigation:
        navigation: Any = _read(Navigation, options.navigation, "navigation", NavigationInvalid)
        options = replace(options, navigation=navigation)
    if type(options.visibility) is not Visibility:
        visibility: Any = _read(Visibility, options.visibility, "visibility", VisibilityInvalid)
        options = replace(options, visibility=visibility)
    if options.delivery_mode is not DeliveryMode.PERSISTENT:
        _check_delivery_mode(options)
    if not array and options.navigation not in _SINGLE:
        raise NavigationInvalid(
            f"{options.navigation} cannot be used for one message",
            cause="it asks for an array of messages",
            cure="use dequeue_array, or FIRST_MESSAGE, NEXT_MESSAGE or NEXT_TRANSACTION",
        )
    check_wait(options.wait)
    if not isinstance(array_size, int) or not 1 <= array_size < 2**31:
        raise ArraySizeInvalid(f"array size is {array_size!r}", cause="it must be 1 to 2147483647")
    if options.msgid is not None and (options.correlation is not None or options.deq_condition is not None):
        raise MessageIdNotAlone(
            "msgid given together with a correlation or a condition",
            cause="a message id already selects one message",
            cure="leave the others out",
        )
    _check_texts(options)
    if options.deq_condition is not None and not isinstance(options.deq_condition, str):
        raise RuleInvalid(f"deq_condition is {options.deq_condition!r:.80}", cause="it must be text")
    if options.deq_condition is not None and len(options.deq_condition) > _MAX_CONDITION:
        raise RuleInvalid("deq_condition is too long", cause=f"at most {_MAX_CONDITION} characters are allowed")
    return options


def _check_delivery_mode(options: DequeueOptions) -> None:
    """There are no buffered messages; a call that would take them, too, must be one that may (AQ guide 12.2 §10.5)."""
    mode: Any = _read(DeliveryMode, options.delivery_mode, "delivery mode", DeliveryModeInvalid)
    if mode is DeliveryMode.BUFFERED:
        raise DeliveryModeInvalid(
            "delivery mode BUFFERED cannot be used for a dequeue",
            cause="buffered messages are not part of this release",
            cure="use PERSISTENT",
        )
    if (
        mode is DeliveryMode.PERSISTENT_OR_BUFFERED
        and options.visibility is Visibility.ON_COMMIT
        and options.dequeue_mode is not DequeueMode.BROWSE
    ):
        raise ImmediateRequired(
            f"delivery mode {mode.value} cannot be used with visibility ON_COMMIT",
            cause="buffered messages are never part of a transaction",
            cure="use visibility IMMEDIATE, or delivery mode PERSISTENT",
        )


def _check_texts(options: DequeueOptions) -> None:
    """Refuse what no database can look for, before one of them fails at it."""
    for what, text, error in (
        ("consumer name", options.consumer_name, AgentNameInvalid),
        ("correlation", options.correlation, AqError),
    ):
        if text is None:
            continue
        if not isinstance(text, str):
            raise error(f"{what} is {text!r:.80}", cause="it must be text")
        if text.isascii() and "\x00" not in text:
            continue
        if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise error(
                f"{what} {text!r:.80} cannot be searched for",
                cause="it contains a NUL character or half a character, which no message or consumer can have",
                cure="correct it",
            )


def check_wait(wait: object) -> None:
    """Refuse a wait that is not a number of seconds (25230)."""
    if not isinstance(wait, int | float) or not wait >= 0:
        raise WaitInvalid(f"wait is {wait!r}", cause="allowed are 0 and more seconds, or FOREVER")


def _read(kind: Any, value: object, what: str, error: type[AqError]) -> Any:
    try:
        return kind(str(value).upper())
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise error(f"{what} is {value!r}", cause=f"allowed are {allowed}") from None
