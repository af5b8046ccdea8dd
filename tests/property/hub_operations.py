"""What is done to the hub and to its model: operations, and how Hypothesis chooses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from mgw.gateway.aq.model import INFINITE, DequeueMode, Navigation, SortList
from tests.property.hub_model import Entry, New, Stored

__all__ = [
    "OPERATION",
    "RULES",
    "SEARCHES",
    "SETTINGS",
    "SORTS",
    "Dequeue",
    "DequeueById",
    "DequeueExceptions",
    "End",
    "Enqueue",
    "Rule",
    "Savepoint",
    "Search",
    "Subscribe",
    "Time",
]

SORTS = [SortList.ENQ_TIME, SortList.PRIORITY_ENQ_TIME, SortList.ENQ_TIME_PRIORITY]


class Rule(NamedTuple):
    """A condition as the hub reads it, and as Python."""

    text: str
    holds: Callable[[Stored], bool]


RULES = [
    Rule("priority > 0", lambda message: message.priority > 0),
    Rule("corrid LIKE 'a%'", lambda message: (message.correlation or "").startswith("a")),
    Rule("priority < 1 OR corrid IS NULL", lambda message: message.priority < 1 or message.correlation is None),
    Rule("is_even(priority) = 'yes'", lambda message: message.priority % 2 == 0),  # only Python can say
]


class Search(NamedTuple):
    """What a dequeue looks for beside its place: a correlation or a condition."""

    options: dict[str, str]
    matches: Callable[[Entry], bool]


def _as_search(rule: Rule) -> Search:
    return Search({"deq_condition": rule.text}, lambda entry: rule.holds(entry.message))


SEARCHES = [
    Search({"correlation": "ab"}, lambda entry: entry.message.correlation == "ab"),
    Search({"correlation": "a%"}, lambda entry: (entry.message.correlation or "").startswith("a")),
    Search({"correlation": "_b"}, lambda entry: entry.message.correlation in ("ab", "bb")),
    Search({"deq_condition": "retry_count > 0"}, lambda entry: entry.attempts > 0),
    *map(_as_search, RULES),
]

WHO = st.sampled_from([0, 0, 0, 1, 1, 2])
QUEUES = st.sampled_from(["s", "m", "m"])
CONSUMERS = st.sampled_from(["RED", "RED", "GREEN", "BLUE"])
FIRST_OR_NEXT = st.sampled_from([Navigation.FIRST_MESSAGE, Navigation.NEXT_MESSAGE])
SELDOM = st.sampled_from([False, False, False, False, True])
PLAIN = st.integers(-1, 2).map(lambda priority: New(priority=priority))
NEW = st.tuples(
    st.integers(-1, 2),
    st.sampled_from([0, 0, 0, 10]),
    st.sampled_from([None, None, None, 5, 20]),
    st.sampled_from([None, "a", "ab", "bb"]),
    st.sampled_from([None, None, "own", "missing", "other"]),
    st.sampled_from([(), (), (), ("BLUE",), ("RED", "BLUE")]),
).map(lambda drawn: New(*drawn))


class Enqueue(NamedTuple):
    """Messages for a queue."""

    who: int
    name: str
    news: list[New]
    immediate: bool


class Dequeue(NamedTuple):
    """The next messages, of some kind or of any; ``size`` None: one message and no array."""

    who: int
    name: str
    consumer: str
    mode: DequeueMode
    navigation: Navigation
    size: int | None
    search: Search | None = None
    immediate: bool = False
    waits: bool = False


class DequeueById(NamedTuple):
    """One of the newest messages; ``exceptions``: from where it is, if that is an exception queue."""

    who: int
    which: int
    mode: DequeueMode
    consumer: str
    exceptions: bool
    immediate: bool


class DequeueExceptions(NamedTuple):
    """From the exception queue of the table, or the one that messages name."""

    who: int
    name: str
    own: bool
    mode: DequeueMode
    navigation: Navigation
    size: int


class End(NamedTuple):
    """The end of a transaction: ``commit``, ``roll_back``, ``close``."""

    who: int
    how: str


class Savepoint(NamedTuple):
    """``savepoint``, ``roll_back_to``, ``release``."""

    who: int
    what: str
    name: str


class Subscribe(NamedTuple):
    """``add_subscriber``, ``alter_subscriber``, ``remove_subscriber``."""

    what: str
    name: str
    subscription: Rule | None


class Time(NamedTuple):
    """Seconds go by; the time manager passes, or not."""

    seconds: float
    passes: bool


MODES = st.sampled_from([*DequeueMode, DequeueMode.REMOVE])
TAKE = st.sampled_from([DequeueMode.REMOVE, DequeueMode.REMOVE, DequeueMode.LOCKED])
FIRST = st.just(Navigation.FIRST_MESSAGE)
SIZES = st.sampled_from([None, 1, 2, 3, 100])
SEARCH = st.none() | st.none() | st.sampled_from(SEARCHES)
ENQUEUE_PLAIN = st.builds(Enqueue, WHO, QUEUES, st.lists(PLAIN, min_size=1, max_size=3), st.just(True))
ENQUEUE = st.builds(Enqueue, WHO, QUEUES, st.lists(NEW, min_size=1, max_size=4), SELDOM)
DEQUEUE_PLAIN = st.tuples(WHO, QUEUES, CONSUMERS, TAKE, FIRST, SIZES).map(lambda drawn: Dequeue(*drawn))
DEQUEUE = st.builds(Dequeue, WHO, QUEUES, CONSUMERS, MODES, FIRST_OR_NEXT, SIZES, SEARCH, SELDOM, SELDOM)
BY_ID = st.builds(DequeueById, WHO, st.integers(0, 7), MODES, CONSUMERS, st.booleans(), SELDOM)
EXCEPTIONS = st.builds(DequeueExceptions, WHO, QUEUES, SELDOM, MODES, FIRST_OR_NEXT, st.integers(1, 3))
END = st.builds(End, WHO, st.sampled_from(["commit", "roll_back", "roll_back", "close"]))
SAVEPOINT = st.builds(Savepoint, WHO, st.sampled_from(["savepoint", "roll_back_to"]), st.just("a"))
SAVEPOINTS = st.builds(
    Savepoint, WHO, st.sampled_from(["savepoint", "roll_back_to", "release"]), st.sampled_from(["a", "b"])
)
CHANGES = st.sampled_from(["add_subscriber", "add_subscriber", "alter_subscriber", "remove_subscriber"])
SUBSCRIBE = st.builds(Subscribe, CHANGES, CONSUMERS, st.none() | st.sampled_from(RULES))
TIME = st.builds(Time, st.sampled_from([0, 0.25, 5, 10, 40]), st.sampled_from([True, True, False]))
OFTEN = [ENQUEUE_PLAIN, ENQUEUE, DEQUEUE_PLAIN, DEQUEUE_PLAIN, DEQUEUE, DEQUEUE, BY_ID, END, END, SAVEPOINT]
OPERATION = st.sampled_from([*OFTEN, *OFTEN, EXCEPTIONS, SAVEPOINTS, SUBSCRIBE, TIME, TIME]).flatmap(lambda each: each)
SETTINGS = st.fixed_dictionaries(
    {
        "max_retries": st.sampled_from([0, 1, 3]),
        "retry_delay": st.sampled_from([0, 0, 10]),
        "retention_time": st.sampled_from([0, 0, 15, INFINITE]),
    }
)
