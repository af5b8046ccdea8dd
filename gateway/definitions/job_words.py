"""The states of a job, described once: word, order of trouble, meaning, cure and symbol.

Views, ``mgw status``, ``mgw top``, the metrics, REST, the page and the reference say what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "ACTIVITIES",
    "BY_WORD",
    "JOB_STATES",
    "JOB_WORDS",
    "LEAVING",
    "TROUBLES",
    "JobWord",
    "Mood",
    "activity_text",
    "word_of",
]

#: What a state means to a person: somebody must do something; it tries by itself; somebody wanted it so; all is well.
Mood = Literal["need", "trying", "paused", "fine"]


@dataclass(frozen=True, slots=True)
class JobWord:
    """One state.

    Attributes:
        mood: what it means while the job is not yet overdue; what is overdue needs somebody in any case.
        meaning: what the job does, one sentence or part of one.
        cure: what to do about it; empty where nothing is to be done.
        shape: name of the symbol that the page draws next to the word.
        colour: of the word on a terminal.
        trouble: whether somebody wants to know of it: messages do not move although they should.
        activity: whether it is a value of ACTIVITY, which the agent writes; else STATUS and ENABLED say so.
        works: whether the job carries messages, or would if there were any.
    """

    word: str
    mood: Mood
    meaning: str
    cure: str = ""
    shape: str = "square"
    colour: str = ""
    trouble: bool = False
    activity: bool = False
    works: bool = False


#: Every state, worst first. A job is in one of them.
JOB_WORDS: tuple[JobWord, ...] = (
    JobWord(
        "FAILED",
        "need",
        "it failed at the same message or setting too often, or a log does not match its queue, and tries no more",
        "read LAST_ERROR_MSG, remove the cause, then: mgw jobs reset JOB",
        "cross",
        "bold red",
        trouble=True,
    ),
    JobWord(
        "STUCK",
        "need",
        "messages are in flight or wait at the source, and none has moved for `stuck_after` seconds, or its thread is "
        "blocked in the client library or waits for the hub; never while it waits for the next attempt",
        "make sure that the broker and the hub answer: mgw links test LINK",
        "diamond",
        "bold red",
        trouble=True,
        activity=True,
    ),
    JobWord(
        "BLOCKED",
        "trying",
        "a limit keeps messages back, of the broker, the destination, the link or the hub; ACTIVITY_REASON names it; "
        "it goes on by itself as soon as there is room",
        "make room where ACTIVITY_REASON says, or raise that limit",
        "bar",
        "yellow",
        trouble=True,
        activity=True,
    ),
    JobWord(
        "RETRY",
        "trying",
        "an attempt failed, and the job tries again by itself",
        "read LAST_ERROR_MSG; mgw jobs reset JOB tries at once",
        "triangle",
        "yellow",
        trouble=True,
    ),
    JobWord(
        "BACKOFF",
        "trying",
        "it waits for the next attempt",
        "read LAST_ERROR_MSG; NEXT_ATTEMPT says when it tries again",
        "triangle",
        "yellow",
        trouble=True,
        activity=True,
    ),
    JobWord("CONNECTING", "trying", "it connects, and recovers what it left", "", "dots", activity=True),
    JobWord(
        "DRAINING",
        "paused",
        "it is about to stop or to reconnect, and waits at most five seconds for what is in flight",
        "",
        "dots",
        activity=True,
    ),
    JobWord("RUNNING", "fine", "it moves messages", "", "disc", "green", activity=True, works=True),
    JobWord("IDLE", "fine", "nothing waits and nothing is in flight", "", "ring", activity=True, works=True),
    JobWord(
        "STOPPED",
        "fine",
        "its agent does not run it, or the window of its schedule is closed; or it waits until a removed job of its "
        "name is cleaned up, as ACTIVITY_REASON says then",
        "start the agent: mgw run --agent AGENT; mgw outbound-schedules list shows windows",
        activity=True,
    ),
    JobWord("DISABLED", "paused", "somebody disabled it", "mgw jobs enable JOB", "pause"),
    JobWord(
        "DELETE_PENDING",
        "paused",
        "it is being removed, and its subscription in the messaging system with it",
        "have its messaging system reachable, or use mgw jobs remove JOB --force",
    ),
    JobWord(
        "SUBSCRIBER_DELETE_PENDING",
        "paused",
        "its subscriber is being removed, and the subscription in the messaging system with it; its schedule stays",
        "have its messaging system reachable, or use mgw subscribers remove SUBSCRIBER --force",
    ),
)

BY_WORD = {each.word: each for each in JOB_WORDS}
#: The words, worst first.
JOB_STATES: tuple[str, ...] = tuple(BY_WORD)
#: Those of them that somebody wants to know of, worst first.
TROUBLES: tuple[str, ...] = tuple(each.word for each in JOB_WORDS if each.trouble)
#: Those of a job that is marked for removal: it moves nothing any more, and its clean-up is not complete.
LEAVING = ("DELETE_PENDING", "SUBSCRIBER_DELETE_PENDING")
#: The values of ACTIVITY.
ACTIVITIES: tuple[str, ...] = tuple(each.word for each in JOB_WORDS if each.activity)


def word_of(job_status: str, activity: str, enabled: bool) -> str:
    """One word for a job: its status where that is bad news, otherwise what it does."""
    if job_status in ("FAILED", *LEAVING):
        return job_status
    if activity == "DRAINING":
        return activity
    if not enabled:
        return "DISABLED"
    return "RETRY" if job_status == "RETRY" and activity != "BLOCKED" else activity


def activity_text() -> str:
    """What the values of ACTIVITY mean, in a sentence."""
    return "; ".join(f"{each.word}: {each.meaning}" for each in JOB_WORDS if each.activity) + "."
