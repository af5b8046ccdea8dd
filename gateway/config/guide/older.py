"""The older interfaces: subscribers and schedules of DBMS_MGWADM (AQ guide 12.2 §19.6), and DBMS_HQADM."""

from __future__ import annotations

from mgw.gateway.config.guide.model import Coming, Parameter, Procedure, Row

__all__ = ["HQADM", "HQADM_RULES", "SUBSCRIBERS", "SUBSCRIBER_RULES"]

_SUBSCRIBER = Parameter("subscriber_id", option="SUBSCRIBER")
_SCHEDULE = Parameter("schedule_id", option="SCHEDULE")
_KEEP = "NO_CHANGE"
_IGNORED = "taken and ignored; left out of `mgw`"

SUBSCRIBERS = (
    Procedure(
        "ADD_SUBSCRIBER",
        "add_subscriber",
        "subscribers create",
        instead="`mgw jobs create`: one call makes the subscriber and the schedule",
        parameters=(
            _SUBSCRIBER,
            Parameter("propagation_type", option="--type"),
            Parameter("queue_name", option="--source"),
            Parameter("destination", option="--destination"),
            Parameter("rule", "NULL", option="--rule"),
            Parameter("transformation", "NULL", option="--transformation"),
            Parameter("exception_queue", "NULL", option="--exception-queue"),
            Parameter("options", "NULL", option="--option"),
        ),
    ),
    Procedure(
        "ALTER_SUBSCRIBER",
        "alter_subscriber",
        "subscribers alter",
        instead="`mgw jobs alter`",
        parameters=(
            _SUBSCRIBER,
            Parameter("rule", _KEEP, option="--rule"),
            Parameter("transformation", _KEEP, option="--transformation"),
            Parameter("exception_queue", _KEEP, option="--exception-queue"),
            Parameter("options", "NULL: keep", option="--option"),
        ),
    ),
    Procedure(
        "REMOVE_SUBSCRIBER",
        "remove_subscriber",
        "subscribers remove",
        "In SQL without `move_to` and `drop_messages`: `mgw subscribers remove`.",
        "`mgw jobs remove`",
        parameters=(_SUBSCRIBER, Parameter("force", "NO_FORCE", option="--force")),
    ),
    Procedure(
        "RESET_SUBSCRIBER",
        "reset_subscriber",
        "subscribers reset",
        instead="`mgw jobs reset`",
        parameters=(_SUBSCRIBER,),
    ),
    Procedure(
        "SCHEDULE_PROPAGATION",
        "schedule_propagation",
        "schedules create",
        instead="`mgw jobs create`; `latency` is `poll_interval`",
        parameters=(
            _SCHEDULE,
            Parameter("propagation_type", option="--type"),
            Parameter("source", option="--source"),
            Parameter("destination", option="--destination"),
            Parameter("start_time", "SYSDATE, ignored", note=_IGNORED),
            Parameter("duration", "NULL, ignored", note=_IGNORED),
            Parameter("next_time", "NULL, ignored", note=_IGNORED),
            Parameter("latency", "NULL: 5 s", option="--latency"),
        ),
    ),
    Procedure(
        "ALTER_PROPAGATION_SCHEDULE",
        "alter_propagation_schedule",
        "schedules alter",
        instead="`mgw jobs alter`",
        parameters=(
            _SCHEDULE,
            Parameter("duration", "NULL, ignored", note=_IGNORED),
            Parameter("next_time", "NULL, ignored", note=_IGNORED),
            Parameter("latency", "NULL: back to the default", option="--latency"),
        ),
    ),
    Procedure(
        "ENABLE_PROPAGATION_SCHEDULE",
        "enable_propagation_schedule",
        "schedules enable",
        instead="`mgw jobs enable`",
        parameters=(_SCHEDULE,),
    ),
    Procedure(
        "DISABLE_PROPAGATION_SCHEDULE",
        "disable_propagation_schedule",
        "schedules disable",
        instead="`mgw jobs disable`",
        parameters=(_SCHEDULE,),
    ),
    Procedure(
        "UNSCHEDULE_PROPAGATION",
        "unschedule_propagation",
        "schedules remove",
        instead="`mgw jobs remove`, or `mgw jobs disable` to keep the subscription",
        parameters=(_SCHEDULE,),
    ),
)

_OLD = "add_subscriber"
SUBSCRIBER_RULES = (
    Row(
        "a subscriber and a schedule with equal type, source and destination are a job",
        "no",
        "jobs are made whole",
        Coming(_OLD, "shown in `MGW_JOBS` under the id of the subscriber"),
    ),
    Row(
        "job procedures on such a pair do what the old calls do",
        "no",
        "there is no such pair",
        Coming(_OLD, "as there"),
    ),
    Row(
        "old calls on a job of CREATE_JOB are refused (ORA-32856)",
        "no",
        "there are no old calls",
        Coming(_OLD, "as there"),
    ),
    Row(
        "an unmatched subscriber or schedule is in its own view only",
        "no",
        "there is neither",
        Coming("MGW_SUBSCRIBERS", "in `MGW_SUBSCRIBERS` and `MGW_SCHEDULES`"),
    ),
    Row(
        "UNSCHEDULE first: the schedule is gone, REMOVE_SUBSCRIBER is still needed; REMOVE_JOB first: the pair goes "
        "together",
        "no",
        "`mgw jobs remove` removes both at once",
        Coming(_OLD, "as there"),
    ),
)

_PROTOCOL = Parameter(
    "protocol", option="--protocol", note="`MQSERIES_OUTBOUND` goes with every link, or the protocol of its type"
)
_QUEUE = Parameter("queue_name", option="QUEUE")

HQADM = (
    Procedure(
        "SCHEDULE_PROPAGATION",
        "hq_schedule_propagation",
        "outbound-schedules create",
        note="it makes a job, which is in `MGW_JOBS`, too. Not from SQL: it also makes a queue table, and its dates "
        "are reckoned, in Python; `mgw`, REST (outbound schedules) or Python do it. "
        "`DBA_OUTBOUND_SCHEDULES` shows it in SQL",
        instead="`mgw jobs create --type outbound`",
        parameters=(
            _QUEUE,
            _PROTOCOL,
            Parameter("destination", option="DESTINATION", note="a registered foreign queue"),
            Parameter("start_time", "SYSDATE", option="--start-time", note="UTC"),
            Parameter("duration", "NULL: no end", option="--duration"),
            Parameter(
                "next_time",
                "NULL",
                option="--next-time",
                note="SYSDATE, SYSTIMESTAMP, numbers of days, intervals, TRUNC, NEXT_DAY, LAST_DAY, ADD_MONTHS, "
                "NUMTODSINTERVAL; SYSDATE is the end of the window, in UTC",
            ),
            Parameter("latency", "60 s", option="--latency"),
        ),
    ),
    Procedure(
        "UNSCHEDULE_PROPAGATION",
        "hq_unschedule_propagation",
        "outbound-schedules remove",
        note="Not from SQL: it drops a queue table",
        instead="`mgw jobs remove`",
        parameters=(
            _QUEUE,
            _PROTOCOL,
            Parameter("destination", "NULL, refused", option="DESTINATION"),
            Parameter("force", "FALSE", option="--force"),
        ),
    ),
)

HQADM_RULES = (
    Row("outbound only, RAW only", "yes", "a job has both directions, and every payload type of the hub"),
    Row(
        "one propagation process for each protocol",
        "differs",
        "each schedule is a job, which the agent of its link runs",
    ),
    Row(
        "recipients `queue@database_link` with protocol MQSERIES_OUTBOUND in the recipient list, or as subscribers",
        "differs",
        "the schedule is a subscriber of a multi-consumer queue and gets every message. A recipient list names that "
        "subscriber (`DBA_OUTBOUND_SCHEDULES.TRANSMIT_CONSUMER`), not an address",
    ),
    Row(
        "a schedule serves all recipients of one destination; one copy for each recipient",
        "differs",
        "one copy for each schedule, and one schedule for each destination",
    ),
    Row(
        "a window opens at `start_time` for `duration` seconds; `next_time` says when the next one opens",
        "yes",
        "in UTC; `next_time` is reckoned from the end of the window, so that windows do not drift. Outside of a window "
        "the job is STOPPED, and messages wait in their queue",
    ),
    Row(
        "latency: the longest wait of a message in a window; 0: sent at once; after an empty look nothing for at least "
        "that long",
        "yes",
        "of schedules. Of a job, `poll_interval` is the longest time between two looks; a message that is committed "
        "wakes the job before that",
    ),
    Row(
        "a transmit queue for each schedule, an inactive one for messages without a schedule",
        "differs",
        "the hub reads a queue by consumer, so messages stay in their queue until they are confirmed: "
        "`DBA_OUTBOUND_SCHEDULES.TRANSMIT_QUEUE` is the source. Messages of other consumers wait there, too",
    ),
    Row(
        "an exception queue for each schedule, made with it",
        "yes",
        "`DBA_OUTBOUND_SCHEDULES.EXCEPTION_QUEUE`; `mgw exceptions` lists, edits and replays it",
    ),
    Row(
        "dropping a schedule fails while messages are left (ORA-20004); force purges them",
        "yes",
        "those of its subscriber and of its exception queue. Messages in a single-consumer queue stay there",
    ),
    Row(
        "the message group of a transaction becomes visible whole",
        "differs",
        "whole within a batch: a group is not split, whatever `MsgBatchSize`; the destination shows a batch at once "
        "where it has transactions (Kafka)",
    ),
    Row(
        "expiration counted from the enqueue time", "differs", "from when the message became available, as MGWADM does"
    ),
    Row("correlation sent as binary, cut at 24 bytes", "differs", "sent as text, whole"),
    Row("payload up to 32 KB", "differs", "up to the limit of the broker, and `max_payload` of the queue table"),
    Row("DBA_OUTBOUND_SCHEDULES", "yes", "`DBA_OUTBOUND_SCHEDULES`"),
    Row(
        "ORA-20001 to ORA-20004",
        "yes",
        "ORA-20003 says that the link of the destination cannot be used, and why",
    ),
    Row("the sender needs no right at the destination, the link's user does", "yes", "the user of the link does"),
)
