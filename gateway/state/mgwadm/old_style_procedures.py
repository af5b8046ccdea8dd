"""The procedures of schema ``mgwadm`` on subscribers and schedules of the old style (AQ guide 12.2 §19.6)."""

from __future__ import annotations

from mgw.gateway.definitions.attributes import JOB_ATTRIBUTES
from mgw.gateway.definitions.roles import Role
from mgw.gateway.state.mgwadm.parameters import KEEPS, MERGED, NO_CHANGE, OPTIONS, Parameter, Procedure

__all__ = ["AUDITED", "OLD_STYLE"]

_SECTION = "Subscribers and schedules"
_SUBSCRIBER = Parameter("subscriber_id", "text", "Name of the subscriber, and of its job.")
_SCHEDULE = Parameter("schedule_id", "text", "Name of the schedule.")
_TYPE = Parameter("propagation_type", "text", "INBOUND or OUTBOUND.")
_DURATION = Parameter("duration", "double precision", "Reserved; has no effect.", "NULL")
_NEXT_TIME = Parameter("next_time", "text", "Reserved; has no effect.", "NULL")
_LATENCY = Parameter("latency", "double precision", JOB_ATTRIBUTES["poll_interval"].description, "NULL")


def _end(name: str, attribute: str) -> Parameter:
    return Parameter(name, "text", JOB_ATTRIBUTES[attribute].description)


def _setting(name: str, default: str = "NULL", more: str = "") -> Parameter:
    return Parameter(name, "text", JOB_ATTRIBUTES[name].description + more, default)


OLD_STYLE = (
    Procedure(
        "add_subscriber",
        Role.ADMINISTRATOR,
        _SECTION,
        "Adds a subscriber; its subscription collects from the commit on. With a schedule of the same type, source and "
        "destination it is a job.",
        (
            _SUBSCRIBER,
            _TYPE,
            _end("queue_name", "source"),
            _end("destination", "destination"),
            _setting("rule", more=" It is compiled in Python: from SQL it must be NULL."),
            _setting("transformation"),
            _setting("exception_queue"),
            Parameter("options", "jsonb", OPTIONS, "NULL"),
        ),
    ),
    Procedure(
        "alter_subscriber",
        Role.ADMINISTRATOR,
        _SECTION,
        "Alters a subscriber of the old style, at once.",
        (
            _SUBSCRIBER,
            _setting("rule", f"'{NO_CHANGE}'", f"{KEEPS} Another one needs Python."),
            _setting("transformation", f"'{NO_CHANGE}'", KEEPS),
            _setting("exception_queue", f"'{NO_CHANGE}'", KEEPS),
            Parameter("options", "jsonb", MERGED, "NULL"),
        ),
    ),
    Procedure(
        "reset_subscriber",
        Role.OPERATOR,
        _SECTION,
        "Forgets the failures of a subscriber; its job is tried at once.",
        (_SUBSCRIBER,),
    ),
    Procedure(
        "remove_subscriber",
        Role.ADMINISTRATOR,
        _SECTION,
        "Removes a subscriber of the old style; its schedule stays. False: its job is SUBSCRIBER_DELETE_PENDING until "
        "its agent has finished that. It is refused while messages wait for it. One that reads from a messaging "
        "system is removed with `mgw subscribers remove`, which can reach it, or with force.",
        (
            _SUBSCRIBER,
            Parameter(
                "force",
                "boolean",
                "True: at once, with the messages that wait for it in the hub; a subscription in the messaging system "
                "is left there.",
                "false",
            ),
        ),
        "boolean",
    ),
    Procedure(
        "schedule_propagation",
        Role.ADMINISTRATOR,
        _SECTION,
        "Adds a schedule, enabled: messages move from the commit on if there is a subscriber of the same type, source "
        "and destination.",
        (
            _SCHEDULE,
            _TYPE,
            _end("source", "source"),
            _end("destination", "destination"),
            Parameter("start_time", "text", "Reserved; has no effect.", "NULL"),
            _DURATION,
            _NEXT_TIME,
            _LATENCY,
        ),
    ),
    Procedure(
        "alter_propagation_schedule",
        Role.ADMINISTRATOR,
        _SECTION,
        "Sets the latency of a schedule of the old style. It always overwrites: NULL restores the default.",
        (_SCHEDULE, _DURATION, _NEXT_TIME, _LATENCY),
    ),
    Procedure(
        "enable_propagation_schedule",
        Role.OPERATOR,
        _SECTION,
        "Lets the job of a schedule of the old style move messages.",
        (_SCHEDULE,),
    ),
    Procedure(
        "disable_propagation_schedule",
        Role.OPERATOR,
        _SECTION,
        "Stops the job of a schedule of the old style; its subscription keeps collecting.",
        (_SCHEDULE,),
    ),
    Procedure(
        "unschedule_propagation",
        Role.ADMINISTRATOR,
        _SECTION,
        "Removes a schedule of the old style at once; its subscriber stays and collects.",
        (_SCHEDULE,),
    ),
)

#: What the audit keeps of them; remove_subscriber keeps it itself.
AUDITED = {
    "add_subscriber": ("'subscriber'", "$1", "NULL", False),
    "alter_subscriber": ("'subscriber'", "$1", "NULL", False),
    "reset_subscriber": ("'subscriber'", "$1", "'reset'", True),
    "schedule_propagation": ("'schedule'", "$1", "NULL", False),
    "alter_propagation_schedule": ("'schedule'", "$1", "NULL", False),
    "enable_propagation_schedule": ("'schedule'", "$1", "'enable'", False),
    "disable_propagation_schedule": ("'schedule'", "$1", "'disable'", False),
    "unschedule_propagation": ("'schedule'", "$1", "NULL", False),
}
