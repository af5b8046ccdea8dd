"""Numbers of errors of the documented gateway (AQ guide 12.2 §21, database error reference)."""

from __future__ import annotations

from mgw.gateway.config.guide.model import Number, Row

__all__ = ["ENGINE", "ORA", "OTHER_ENDINGS", "RESULTS"]

_OLD = "for the older interface of subscribers and schedules, which is not here: ORA-32854, ORA-32855 for jobs"
_LOGIN = "an agent needs no user: it runs with the login of its process"

ORA = (
    Number(32800, "internal error", "an unexpected error says that it is one; `MGW_DEBUG=1` adds the traceback"),
    Number(32801, "a value is invalid"),
    Number(32802, "a value must be one of some"),
    Number(32803, "cannot be altered"),
    Number(32804, "has another form"),
    Number(32805, "an identifier is too long"),
    Number(32806, "a value is too long"),
    Number(32807, "the link exists"),
    Number(32808, "no such link"),
    Number(32809, "the foreign queue is registered"),
    Number(32810, "no such foreign queue"),
    Number(32811, "the subscriber exists", _OLD),
    Number(32812, "no such subscriber", _OLD),
    Number(32813, "the schedule exists", _OLD),
    Number(32814, "no such schedule", _OLD),
    Number(32815, "foreign queues refer to the link"),
    Number(32816, "jobs refer to the foreign queue"),
    Number(
        32817,
        "the link has no log queue for the direction",
        "not refused: `GUARANTEE_NOTE` says so, `require_guarantee` refuses it, `mgw links prepare` makes one",
    ),
    Number(32818, "no such AQ queue"),
    Number(32819, "the AQ queue must be a normal one"),
    Number(32820, "the exception queue is on another link"),
    Number(32821, "the exception queue has another payload type"),
    Number(32822, "marked for removal"),
    Number(32823, "source and destination are subscribed"),
    Number(32824, "source and destination are scheduled", _OLD),
    Number(32825, "the agent is not started"),
    Number(32827, "the agent must be shut down"),
    Number(32828, "the agent must run"),
    Number(32829, "the agent is starting"),
    Number(32830, "the agent ended with a result code", "in `LAST_ERROR_MSG`, with the result codes below"),
    Number(32834, "the agent has no user", _LOGIN),
    Number(32836, "the user lacks the role of agents", _LOGIN),
    Number(32840, "the property is unknown or has no name"),
    Number(32841, "the value of a property is invalid"),
    Number(32842, "the option cannot be altered"),
    Number(32843, "out of range"),
    Number(32845, "the agent runs already"),
    Number(32846, "the agent cannot start in this status"),
    Number(32848, "the domain is required"),
    Number(32850, "no such agent"),
    Number(32851, "the agent exists"),
    Number(32852, "the default agent cannot be removed"),
    Number(32853, "links refer to the agent"),
    Number(32854, "the job exists"),
    Number(32855, "no such job"),
    Number(
        32856,
        "the job procedures must be used",
        "there are only the job procedures",
    ),
)

ENGINE = (
    Row("221", "differs", "`QueueMissing` [434], or the ORA number of the hub queue"),
    Row("241", "yes", "`HubUnavailable`"),
    Row("415", "yes", "ends the job; `mgw agents cleanup RESET_SUB_MISSING_MESSAGE`"),
    Row(
        "416",
        "differs",
        "the log is ahead of the hub (a restored backup); `mgw agents cleanup RESET_SUB_MISSING_LOG_REC`",
    ),
    Row("417", "yes", "records of the sending log are missing; the same action"),
    Row("421", "yes", "no connection of the link is free; the job waits, without a failure"),
    Row("434", "yes", "`QueueMissing`"),
    Row("436", "yes", "the agent uses more than `max_memory`"),
    Row("703", "yes", "the transformation of a job is gone, or a step of it"),
    Row("720", "yes", "the payload cannot go to the destination"),
    Row("721", "differs", "a transformation may have any types; 724 where its result does not fit"),
    Row("722", "yes", "`TransformFailed`"),
    Row("724", "yes", "what arrived does not fit the payload type of the queue"),
    Row("725", "yes", "text for a RAW queue"),
    Row("726", "yes", "larger than the queue table allows"),
    Row("728, 729", "no", "no limit on large fields"),
    Row("805", "yes", "`DeliveryRejected`, `MessageRejected`"),
)

RESULTS = (
    Number(-2, "initialization file cannot be read"),
    Number(-3, "log file cannot be created"),
    Number(-8, "Java could not start", "there is no Java"),
    Number(-12, "log could not be written", "a warning: the agent goes on without the log, messages come first"),
    Number(
        -17,
        "agent program cannot be called",
        "a missing client library is an error of the job, which says what to install",
    ),
    Number(-19, "initialization file does not exist"),
    Number(-100, "error before logging", "on the standard error of the process"),
    Number(-101, "error that does not pass"),
    Number(
        -102,
        "versions differ",
        "a hub of another release is refused before the agent starts: [upgrade](how-to/upgrade.md)",
    ),
    Number(-103, "database goes down"),
    Number(-104, "database goes down", "-103"),
    Number(-105, "agent runs already"),
    Number(-106, "agent runs where it should not"),
)

OTHER_ENDINGS = (
    Row("ORA-01089, instance shut down", "differs", "-103: tried again as soon as the hub answers"),
    Row("ORA-28575, external process not reachable", "no", "there is no listener: the process starts itself"),
    Row("ORA-28576, process ended", "yes", "the same number; started again"),
    Row("ORA-06520, library not loadable", "no", "Python imports its libraries: the start says which one is missing"),
)
