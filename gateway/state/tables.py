"""The gateway's own tables in the hub database (prefix ``gw_``): definitions and run state.

Names of objects keep the case they were given in ``name``; ``name_key`` is the upper-case form that compares and is
unique. Times are epoch seconds. Lists and mappings are JSON text. Statements on the definitions are in
:mod:`state.catalog`, on the run state in :mod:`state.run_state`; the views for people are in :mod:`state.views`.
"""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq import FLAG_CHECK as FLAG
from mgw.gateway.aq import add_checks
from mgw.gateway.aq import one_of_check as one_of
from mgw.gateway.definitions.job_words import ACTIVITIES, LEAVING
from mgw.gateway.definitions.outbound import MAX_PROTOCOL, MIN_PROTOCOL
from mgw.gateway.definitions.roles import ROLES

__all__ = [
    "CHANGE_CHANNEL",
    "agent",
    "agent_option",
    "change",
    "desk_done",
    "desk_queue",
    "event",
    "foreign_queue",
    "job",
    "job_state",
    "ledger",
    "link",
    "metadata",
    "outbound_schedule",
    "parked",
    "plan",
    "position",
    "received",
    "schedule",
    "tap",
    "tapped",
    "token",
    "user",
    "web_session",
    "worker",
]


CHANGE_CHANNEL = "mgw_change"  # NOTIFY on PostgreSQL, at every committed change of the definitions

metadata = sa.MetaData()

_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_time = sa.Double
_JOB_STATUS = "status IN ({})".format(",".join(f"'{each}'" for each in ("READY", "RETRY", "FAILED", *LEAVING)))
_ACTIVITIES = f"activity {one_of(sorted(ACTIVITIES))}"

agent = sa.Table(
    "gw_agent",
    metadata,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("username", sa.Text),
    sa.Column("password", sa.Text),  # encrypted
    sa.Column("database", sa.Text),
    sa.Column("conntype", sa.Text, nullable=False),
    sa.Column("max_memory", sa.Integer, nullable=False),  # MB
    sa.Column("max_threads", sa.Integer, nullable=False),
    sa.Column("service", sa.Text),
    sa.Column("initfile", sa.Text),
    sa.Column("comments", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("log_level", sa.Integer, nullable=False, server_default="0"),
    sa.Column("start_time", _time),
    sa.Column("last_error_msg", sa.Text),
    sa.Column("last_error_time", _time),
    # The lease: who runs the agent. The token only grows; every hub transaction of a job checks it.
    sa.Column("token", _id, nullable=False, server_default="0"),
    sa.Column("heartbeat", _time),
    sa.Column("lease_expires", _time),
    sa.Column("host", sa.Text),
    sa.Column("pid", sa.Integer),
    sa.Column("process_key", sa.Text),  # boot id and start time: tells a living process from a reused pid
    sa.Column("stopped", _time),  # when it last gave up the lease; NULL while it runs
    sa.Column("secret_keys", sa.Text),  # ids of the keys that its process can read secrets with; NULL: not known
    sa.CheckConstraint(
        "status IN ('NOT_STARTED','START_SCHEDULED','STARTING','INITIALIZING','RUNNING','SHUTTING_DOWN','BROKEN')",
        name="gw_agent_status",
    ),
    sa.CheckConstraint("max_threads BETWEEN 1 AND 128", name="gw_agent_threads"),
)

agent_option = sa.Table(
    "gw_agent_option",
    metadata,
    sa.Column("agent_key", sa.Text, sa.ForeignKey("gw_agent.name_key", ondelete="CASCADE"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text),
    sa.Column("encrypted", sa.Boolean, nullable=False),
)

#: The fencing token of each worker process of an agent; every hub transaction of the jobs in it checks that.
worker = sa.Table(
    "gw_worker",
    metadata,
    sa.Column("worker_key", sa.Text, primary_key=True),  # of the agent, with the number of the worker
    sa.Column("agent_key", sa.Text, sa.ForeignKey("gw_agent.name_key", ondelete="CASCADE"), nullable=False),
    sa.Column("token", _id, nullable=False),
)

link = sa.Table(
    "gw_link",
    metadata,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("agent_key", sa.Text, sa.ForeignKey("gw_agent.name_key"), nullable=False),
    sa.Column("attributes", sa.Text, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("username", sa.Text),
    sa.Column("password", sa.Text),  # encrypted
    sa.Column("max_connections", sa.Integer),
    sa.Column("inbound_log_queue", sa.Text),
    sa.Column("outbound_log_queue", sa.Text),
    sa.Column("comments", sa.Text),
)

foreign_queue = sa.Table(
    "gw_foreign_queue",
    metadata,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("link_key", sa.Text, sa.ForeignKey("gw_link.name_key"), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("domain", sa.Text),
    sa.Column("provider_queue", sa.Text, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("comments", sa.Text),
    sa.CheckConstraint("domain IS NULL OR domain IN ('QUEUE','TOPIC')", name="gw_foreign_queue_domain"),
)

job = sa.Table(
    "gw_job",
    metadata,
    sa.Column("id", _id, primary_key=True, autoincrement=True),
    sa.Column("name_key", sa.Text, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("agent_key", sa.Text, sa.ForeignKey("gw_agent.name_key"), nullable=False),
    sa.Column("link_key", sa.Text, sa.ForeignKey("gw_link.name_key")),  # NULL: both ends are in the hub
    sa.Column("propagation_type", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("destination", sa.Text, nullable=False),
    sa.Column("source_key", sa.Text, nullable=False),
    sa.Column("destination_key", sa.Text, nullable=False),
    sa.Column("rule", sa.Text),
    sa.Column("transformation", sa.Text),
    sa.Column("exception_queue", sa.Text),
    sa.Column("poll_interval", sa.Double),  # seconds, NULL = default
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("require_guarantee", sa.Text),
    sa.Column("prop_style", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("comments", sa.Text),
    sa.Column("created", _time, nullable=False),
    sa.Column("old_style", sa.Integer, nullable=False, server_default="0"),  # 1: made by ADD_SUBSCRIBER
    # Its schedule: of a new-style job its own name. NULL: a subscriber without one, which is no job and moves nothing.
    sa.Column("schedule", sa.Text),
    sa.Column("schedule_key", sa.Text),
    sa.UniqueConstraint("propagation_type", "source_key", "destination_key", name="gw_job_triplet"),
    sa.CheckConstraint("propagation_type IN ('INBOUND','OUTBOUND','THROUGH','LOCAL')", name="gw_job_type"),
    sa.Index("gw_job_schedule", "schedule_key", unique=True),
    sqlite_autoincrement=True,
)

#: Schedules without a subscriber (SCHEDULE_PROPAGATION); one with a subscriber is part of the row of its job.
schedule = sa.Table(
    "gw_schedule",
    metadata,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("link_key", sa.Text, sa.ForeignKey("gw_link.name_key"), nullable=False),
    sa.Column("propagation_type", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("destination", sa.Text, nullable=False),
    sa.Column("source_key", sa.Text, nullable=False),
    sa.Column("destination_key", sa.Text, nullable=False),
    sa.Column("latency", _time),  # seconds, NULL = default
    sa.Column("enabled", sa.Integer, nullable=False),
    sa.UniqueConstraint("propagation_type", "source_key", "destination_key", name="gw_schedule_triplet"),
)

#: Schedules of the older gateway (DBMS_HQADM), each of the job that it made.
outbound_schedule = sa.Table(
    "gw_outbound_schedule",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    sa.Column("protocol", sa.Integer, nullable=False),
    sa.Column("latency", _time, nullable=False),  # seconds
    sa.Column("start_time", _time, nullable=False),
    sa.Column("duration", _time),  # seconds, NULL: the window stays open
    sa.Column("next_time", sa.Text),
    sa.Column("exception_queue", sa.Text, nullable=False),
    sa.Column("window_begin", _time, nullable=False),  # of the window that is open, opens next or was the last
    sa.CheckConstraint(f"protocol BETWEEN {MIN_PROTOCOL} AND {MAX_PROTOCOL}", name="gw_outbound_schedule_protocol"),
    sa.CheckConstraint("latency >= 0", name="gw_outbound_schedule_latency"),
    sa.CheckConstraint("duration IS NULL OR duration > 0", name="gw_outbound_schedule_duration"),
)

job_state = sa.Table(
    "gw_job_state",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("activity", sa.Text, nullable=False, server_default="STOPPED"),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("next_attempt", _time),
    sa.Column("resets", _id, nullable=False, server_default="0"),  # counts RESET_JOB calls
    sa.Column("last_error_msg", sa.Text),
    sa.Column("last_error_time", _time),
    # Since agent start, as documented; the totals never go back.
    sa.Column("propagated", _id, nullable=False, server_default="0"),
    sa.Column("exceptioned", _id, nullable=False, server_default="0"),
    sa.Column("filtered", _id, nullable=False, server_default="0"),
    sa.Column("discarded", _id, nullable=False, server_default="0"),
    sa.Column("suppressed", _id, nullable=False, server_default="0"),
    sa.Column("propagated_total", _id, nullable=False, server_default="0"),
    sa.Column("exceptioned_total", _id, nullable=False, server_default="0"),
    sa.Column("filtered_total", _id, nullable=False, server_default="0"),
    sa.Column("discarded_total", _id, nullable=False, server_default="0"),
    sa.Column("suppressed_total", _id, nullable=False, server_default="0"),
    sa.Column("last_progress", _time),
    sa.Column("guarantee", sa.Text),
    sa.Column("guarantee_note", sa.Text),
    sa.Column("backlog", _id),  # inbound only, sampled by the agent
    sa.Column("oldest", _time),  # inbound only, sampled by the agent
    sa.Column("sampled", _time),
    sa.Column("plan_sequence", _id, nullable=False, server_default="0"),
    sa.Column("log_sequence", _id),  # last completed sequence that the sending log must hold; NULL: no log so far
    sa.Column("not_working_since", _time),  # since when it connects, waits after a failure or is stuck; NULL: it works
    sa.Column("unrouted_total", _id, nullable=False, server_default="0"),  # of the discarded: no subscriber wanted them
    sa.Column("activity_reason", sa.Text),  # why it is BLOCKED, STUCK, or STOPPED and kept back
    sa.Column("nodes", sa.Text),  # of links with several, to which it is connected
    sa.CheckConstraint(_JOB_STATUS, name="gw_job_state_status"),
    sa.CheckConstraint(_ACTIVITIES, name="gw_job_state_activity"),
)

position = sa.Table(
    "gw_position",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("part", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("updated", _time, nullable=False),
)

#: Keys of received messages that their publishers make unique (receiving log by id).
received = sa.Table(
    "gw_received",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("message_key", sa.Text, primary_key=True),
    sa.Column("received", _time, nullable=False),
    sa.Index("gw_received_time", "received"),
    sqlite_with_rowid=False,
)

plan = sa.Table(
    "gw_plan",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id"), primary_key=True),
    sa.Column("sequence", _id, primary_key=True),
    sa.Column("token", _id, nullable=False),
    sa.Column("message_ids", sa.LargeBinary, nullable=False),  # 8 bytes big-endian each, in order
    sa.Column("created", _time, nullable=False),
    sa.Column("detail", sa.LargeBinary),  # from a link: what the hub keeps of the batch when it is completed
)

#: Keys whose messages wait behind one that cannot be delivered. Their numbers are in the plan with sequence -number, so
#: that nothing takes them for messages without an outcome.
parked = sa.Table(
    "gw_parked",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", _id, primary_key=True),
    sa.Column("message_key", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("head", _id, nullable=False),  # the message that cannot be delivered
    sa.Column(
        "sequence", _id, nullable=False
    ),  # of the plan that it left: what is left of it, and earlier ones, precede
    sa.Column("attempts", _id, nullable=False),
    sa.Column("give_up", sa.Integer, nullable=False),  # 1: the next attempt moves it to the exception queue
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("error_number", _id),
    sa.Column("since", _time, nullable=False),
    sa.Column("next_attempt", _time, nullable=False),
    sa.UniqueConstraint("job_id", "message_key", name="gw_parked_key"),
)

#: Exception queues outside the hub of which the desk keeps something: ``place`` and ``queue`` name one, ``identity`` is
#: what its system calls it, another one for a queue that was made again; "" where it says nothing.
desk_queue = sa.Table(
    "gw_desk_queue",
    metadata,
    sa.Column("id", _id, primary_key=True),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("deliveries", _id, nullable=False, server_default="0"),  # of any message in it, at most; counted by looks
    sa.UniqueConstraint("place", "queue", name="gw_desk_queue_name"),
    sqlite_autoincrement=True,
)

#: Messages of a log that the desk replayed, edited or discarded; the log itself gives none up.
desk_done = sa.Table(
    "gw_desk_done",
    metadata,
    sa.Column("desk_queue_id", _id, sa.ForeignKey("gw_desk_queue.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("part", _id, primary_key=True),
    sa.Column("position", _id, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),  # of the message that was there
)

#: What happened to every message, one row per batch or for several small ones; no foreign key, so that it outlives the
#: job (ledger.store). No other index than the key: one more page to write per batch doubles what a row costs.
ledger = sa.Table(
    "gw_ledger",
    metadata,
    sa.Column("job_id", _id, primary_key=True, autoincrement=False),
    sa.Column("number", _id, primary_key=True, autoincrement=False),  # grows by one per job; of several, the last
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("sequence", _id),  # of the plan; NULL inbound
    sa.Column("started", _time),  # read, planned
    sa.Column("finished", _time, nullable=False),  # stored, completed
    sa.Column("messages", _id, nullable=False),
    sa.Column("propagated", _id, nullable=False),
    sa.Column("exceptioned", _id, nullable=False),
    sa.Column("filtered", _id, nullable=False),
    sa.Column("discarded", _id, nullable=False),
    sa.Column("suppressed", _id, nullable=False),
    sa.Column("first_id", _id),  # smallest and largest message number in the row
    sa.Column("last_id", _id),
    sa.Column("message_ids", sa.LargeBinary),  # outbound: the plan's
    sa.Column("detail", sa.LargeBinary),  # zlib JSON; of several, what they were
    sa.Column("digest", _id, nullable=False),  # CRC-32 over all of it but these times
    sqlite_with_rowid=False,
)

change = sa.Table(
    "gw_change",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("version", _id, nullable=False),
    sa.CheckConstraint("id = 1", name="gw_change_single"),
)

event = sa.Table(
    "gw_event",
    metadata,
    sa.Column("id", _id, primary_key=True, autoincrement=True),
    sa.Column("time", _time, nullable=False),
    sa.Column("level", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("agent", sa.Text),
    sa.Column("object", sa.Text),
    sa.Column("text", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)

#: Commands that look at the messages of a job while it carries them.
tap = sa.Table(
    "gw_tap",
    metadata,
    sa.Column("id", _id, primary_key=True, autoincrement=True),
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), nullable=False),
    sa.Column("until", _time, nullable=False),  # the command says again and again that it is there
    sa.Column("per_second", sa.Integer, nullable=False),
    sa.Column("remaining", _id, nullable=False),  # messages to be shown
    sa.Column("size", _id, nullable=False),  # characters of a body that are shown
    sa.Column("began", _time),  # when the job began to show messages; NULL: it does not yet
    sa.Column("missed", _id, nullable=False, server_default="0"),  # messages that were too many
    sqlite_autoincrement=True,
)

#: What they see, as JSON.
tapped = sa.Table(
    "gw_tapped",
    metadata,
    sa.Column("id", _id, primary_key=True, autoincrement=True),
    sa.Column("tap_id", _id, sa.ForeignKey("gw_tap.id", ondelete="CASCADE"), nullable=False),
    sa.Column("seen", sa.Text, nullable=False),
    sa.Index("gw_tapped_tap", "tap_id"),
    sqlite_autoincrement=True,
)

#: Who may use the web face; nobody here: everybody of this machine.
user = sa.Table(
    "gw_user",
    metadata,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("password", sa.Text),  # Argon2id with its parameters; NULL: tokens alone
    sa.Column("created", _time, nullable=False),
)

#: What programs show instead of a password.
token = sa.Table(
    "gw_token",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("user_key", sa.Text, sa.ForeignKey("gw_user.name_key", ondelete="CASCADE"), nullable=False),
    sa.Column("digest", sa.Text, nullable=False),  # SHA-256 of its random part
    sa.Column("role", sa.Text, nullable=False),  # at most; the role of the user is the limit
    sa.Column("comments", sa.Text),
    sa.Column("created", _time, nullable=False),
    sa.Column("expires", _time),  # NULL: never
    sa.Column("used", _time),  # to about an hour
    sa.Index("gw_token_user", "user_key"),
)

#: Browsers that are logged in.
web_session = sa.Table(
    "gw_session",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),  # SHA-256 of what the cookie holds
    sa.Column("user_key", sa.Text, sa.ForeignKey("gw_user.name_key", ondelete="CASCADE"), nullable=False),
    sa.Column("created", _time, nullable=False),
    sa.Column("seen", _time, nullable=False),  # to about a minute
    sa.Index("gw_session_user", "user_key"),
)

#: What each job did in each interval (:mod:`mgw.gateway.state.history`).
job_history = sa.Table(
    "gw_job_history",
    metadata,
    sa.Column("job_id", _id, sa.ForeignKey("gw_job.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("begun", _time, primary_key=True),
    sa.Column("ended", _time, nullable=False),
    sa.Column("grain", sa.Integer, nullable=False),
    sa.Column("moved", _id, nullable=False),
    sa.Column("exceptioned", _id, nullable=False),
    sa.Column("filtered", _id, nullable=False),
    sa.Column("discarded", _id, nullable=False),
    sa.Column("failures", _id, nullable=False),
    sa.Column("batches", _id, nullable=False),
    sa.Column("bytes", _id, nullable=False),
    sa.Column("stored", _time),
    sa.Column("confirmed", _time),
    sa.Column("origin", _time),
    sa.Column("backlog", _id),
    sa.Column("oldest", _time),
    sa.Column("enabled", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("activity", sa.Text, nullable=False),
    sa.CheckConstraint(_JOB_STATUS, name="gw_job_history_status"),
    sa.CheckConstraint(_ACTIVITIES, name="gw_job_history_activity"),
)

#: Certificates of links and of their brokers, as the agents last saw them.
certificate = sa.Table(
    "gw_certificate",
    metadata,
    sa.Column("link_key", sa.Text, sa.ForeignKey("gw_link.name_key", ondelete="CASCADE"), primary_key=True),
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("place", sa.Text, primary_key=True),  # the file, or host and port
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("expires", _time, nullable=False),
    sa.Column("seen", _time, nullable=False),
)

add_checks(metadata, {"gw_agent_option": {"encrypted": FLAG}, "gw_job": {"enabled": FLAG}}, dialect="sqlite")
add_checks(
    metadata,
    {
        "gw_job": {"old_style": FLAG},
        "gw_schedule": {"enabled": FLAG, "propagation_type": one_of(("INBOUND", "OUTBOUND"))},
        "gw_job_history": {"enabled": FLAG},
        "gw_parked": {"state": one_of(("PARKED", "TRYING", "PASSED")), "give_up": FLAG},
        "gw_certificate": {"owner": one_of(("LINK", "BROKER"))},
        "gw_user": {"role": one_of(ROLES)},
        "gw_token": {"role": one_of(ROLES)},
        "gw_ledger": {"kind": one_of(("RECEIVED", "CARRIED", "COMPLETED", "RETURNED", "BREAK"))},
        "gw_event": {"level": one_of(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))},
    },
)
