"""Attributes of agents, links, foreign queues and jobs, each described once.

The configuration file with its schema and reference page, the command line and the checks of the procedures take names,
meanings, defaults and ranges from here; ``tests/unit/test_attributes.py`` holds the typed procedures to them. Options
are described in :mod:`mgw.gateway.definitions.agent_options`, :mod:`mgw.gateway.definitions.job_options` and by the
types of links.
"""

from __future__ import annotations

from mgw.gateway.aq import by_name
from mgw.gateway.definitions.objects import DEFAULT_AGENT, DEFAULT_BATCH_SIZE, DEFAULT_POLL_INTERVAL, Propagation
from mgw.gateway.definitions.outbound import DEFAULT_LATENCY, MAX_SECONDS, PROTOCOL_NAMES
from mgw.links.contract import Field, Guarantee

__all__ = [
    "AGENT_ATTRIBUTES",
    "FOREIGN_QUEUE_ATTRIBUTES",
    "JOB_ATTRIBUTES",
    "LINK_ATTRIBUTES",
    "OUTBOUND_SCHEDULE_ATTRIBUTES",
]

COMMENT = Field("comment", "Free text.")

AGENT_ATTRIBUTES = by_name(
    Field("max_threads", "Jobs that may work at the same time.", int, 16, minimum=1, maximum=128),
    Field(
        "max_memory",
        "Memory that the agent uses without a warning (436), MB; with 64, the documented default, it is not watched.",
        int,
        64,
        minimum=1,
        maximum=1 << 20,
    ),
    Field("username", "Database user of the agent; stored, has no effect."),
    Field("password", "Password of the database user; a missing key keeps the stored one. Has no effect.", secret=True),
    Field("database", "Database the agent connects to; stored, has no effect."),
    Field("conntype", "Connection type; stored, has no effect.", default="JDBC_OCI", choices=("JDBC_OCI", "JDBC_THIN")),
    Field("service", "Database service; stored, has no effect."),
    Field(
        "initfile",
        "Initialization file that the agent reads at its start. Default: `mgw_<AGENT>.ora`, `mgw.ora` in `/etc/mgw`.",
    ),
    COMMENT,
)

LINK_ATTRIBUTES = by_name(
    Field("type", "Messaging system, such as rabbitmq.", required=True, alterable=False),
    Field(
        "agent",
        "Agent that runs every job of the link; cannot be changed later.",
        default=DEFAULT_AGENT,
        alterable=False,
    ),
    Field("username", "User name at the messaging system."),
    Field(
        "password",
        "Password; better `${VARIABLE}` or `password_file`. A missing key keeps the stored one.",
        secret=True,
    ),
    Field("max_connections", "Connections the link may hold open at once.", int, minimum=1),
    Field("inbound_log_queue", "Log destination of jobs that read from the link."),
    Field("outbound_log_queue", "Log destination of jobs that write to the link."),
    COMMENT,
)

FOREIGN_QUEUE_ATTRIBUTES = by_name(
    Field("provider_queue", "Its name in the messaging system; none: the part before the `@`.", alterable=False),
    Field(
        "domain",
        "Kind of queue; none: the messaging system decides.",
        choices=("QUEUE", "TOPIC"),
        alterable=False,
    ),
    COMMENT,
)

JOB_ATTRIBUTES = by_name(
    Field(
        "type",
        "INBOUND: from a messaging system into the hub. OUTBOUND: from the hub to a messaging system. THROUGH: from "
        "one messaging system to another, without a hub queue between them. LOCAL: from one hub queue to another.",
        required=True,
        choices=tuple(map(str, Propagation)),
        alterable=False,
    ),
    Field("source", "Where it reads: `queue@link` (INBOUND, THROUGH), or a hub queue.", required=True, alterable=False),
    Field(
        "destination",
        "Where it writes: `queue@link` (OUTBOUND, THROUGH), or a hub queue.",
        required=True,
        alterable=False,
    ),
    Field("rule", "Only messages for which it is true, e.g. `tab.user_data.temp > 80`."),
    Field("transformation", "Transformation applied to every message."),
    Field("exception_queue", "Queue for messages that can never be delivered; on the side of the source."),
    Field(
        "poll_interval",
        f"Longest interval between two checks of the source, seconds; default {DEFAULT_POLL_INTERVAL:g}.",
        float,
        minimum=0.1,
        maximum=60,
    ),
    Field(
        "batch_size",
        f"Messages per transaction, more under load (option max_batch_size); default {DEFAULT_BATCH_SIZE}.",
        int,
        minimum=1,
        maximum=10_000,
    ),
    Field(
        "require_guarantee",
        "Guarantee that the job must give, or it is refused.",
        choices=tuple(map(str, Guarantee)),
    ),
    Field("enabled", "False: the job keeps its subscription but moves nothing.", bool, True),
    COMMENT,
)

#: Of the schedules of the older gateway (DBMS_HQADM).
OUTBOUND_SCHEDULE_ATTRIBUTES = by_name(
    Field("queue_name", "RAW queue of the hub, `[schema.]queue`.", required=True, alterable=False),
    Field("destination", "Registered foreign queue, `queue@link`.", required=True, alterable=False),
    Field(
        "protocol",
        f"{', '.join(PROTOCOL_NAMES)}, or the number; MQSERIES_OUTBOUND goes with every link, the others with links of "
        "their type.",
        str,
        "MQSERIES_OUTBOUND",
        alterable=False,
    ),
    Field("start_time", "When the first window opens, ISO 8601, UTC unless it names a zone; default: now."),
    Field(
        "duration", "Seconds that a window is open; without it, it stays open.", float, minimum=1, maximum=MAX_SECONDS
    ),
    Field(
        "next_time",
        "When the next window opens: a date expression such as `SYSDATE + 1 - 600/86400`, in which SYSDATE is the end "
        "of the window before it, in UTC; without it there is no other window.",
    ),
    Field(
        "latency",
        "Seconds for which nothing is sent after the queue was found empty, at least 0.1; 0: a message is sent as soon "
        "as it is there.",
        float,
        DEFAULT_LATENCY,
        minimum=0,
        maximum=MAX_SECONDS,
    ),
)
