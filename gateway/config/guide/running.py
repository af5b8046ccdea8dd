"""Agents, jobs and what they do (AQ guide 12.2 §17 to §19, §21.1, §21.2)."""

from __future__ import annotations

from mgw.gateway.config.guide.model import Coming, Row

__all__ = [
    "AGENT_LIFE",
    "AGENT_STATUS",
    "CLEANUP",
    "COMPONENTS",
    "JOB_STATUS",
    "LOG",
    "PROPAGATION",
    "RETRIES",
    "WHEN_IN_FORCE",
]

COMPONENTS = (
    Row(
        "DBMS_MGWADM, DBMS_MGWMSG",
        "differs",
        "`GatewayAdmin` in Python, `mgw`, [REST](how-to/rest.md); the helpers of `mgw`",
    ),
    Row("one administration lock", "yes", "every call is one serialized transaction, whether an agent runs or not"),
    Row(
        "the agent, an external process of the database",
        "differs",
        "`mgw run`, a service of the operating system, or a container",
    ),
    Row(
        "several agents, one process each",
        "yes",
        "`mgw run --agent NAME`; a second process waits (`--standby`) or is refused",
    ),
    Row("AQ at one end of every job", "differs", "THROUGH jobs go from link to link, LOCAL jobs from queue to queue"),
    Row("NATIVE and JMS jobs", "differs", "all jobs are NATIVE; JMS is a matter of the payload type"),
    Row(
        "MGW_ADMINISTRATOR_ROLE",
        "differs",
        "who may write the hub's file or database; over HTTP the role ADMINISTRATOR of `mgw users add`",
        Coming("mgwadm.create_job", "the role ADMINISTRATOR: of schema mgwadm in SQL, of `mgw users add` over HTTP"),
    ),
    Row(
        "configuration is visible in the views only",
        "yes",
        "in the same views, and `mgw export` writes it as a file",
    ),
    Row("service of an agent: on which instance it runs", "no", "`mgw run --agent NAME` on the host of your choice"),
    Row("buffered messages and sharded queues are not propagated", "yes", "the hub has neither"),
    Row(
        "uninstall: agents, queues of canonical types, gateway objects",
        "differs",
        "stop the agents, then `mgw hub drop`; it refuses while messages wait",
    ),
    Row("MGW_AGENT_ROLE", "no", "the agent has the rights of the hub's login"),
    Row("EXECUTE on transformations", "differs", "`mgw modules allow` says which Python modules may be called"),
    Row(
        "one scheduler slot for each running agent",
        "differs",
        "no slots: the process of `mgw run` has its own scheduler job, `MGW_JOB_<agent>`",
    ),
    Row(
        "driver for each messaging system",
        "yes",
        "link types, and those of other packages: [add a link](how-to/add-a-link.md)",
    ),
    Row(
        "MQSeries and TIB/Rendezvous", "no", "RabbitMQ, Kafka, MQTT; a link type for another system is a Python package"
    ),
)

AGENT_STATUS = (
    "NOT_STARTED",
    "START_SCHEDULED",
    "STARTING",
    "INITIALIZING",
    "RUNNING",
    "SHUTTING_DOWN",
    "BROKEN",
)

AGENT_LIFE = (
    Row(
        "STARTUP: START_SCHEDULED, last error cleared, repeated every minute",
        "yes",
        "the same; started at once where `mgw run` waits",
    ),
    Row("a slot: STARTING, then INITIALIZING, RUNNING", "yes", "the same"),
    Row(
        "at RUNNING: log queues cleaned, counters at zero, FAILED jobs tried again, pending removals finished",
        "yes",
        "the same; totals go on in `PROPAGATED_TOTAL` and the like",
    ),
    Row("SHUTDOWN while START_SCHEDULED: NOT_STARTED", "yes", "the same"),
    Row("SHUTDOWN: work in flight is finished, SHUTTING_DOWN, NOT_STARTED", "yes", "the same"),
    Row(
        "an error that passes, or a crash: START_SCHEDULED, started again",
        "yes",
        "the same; the service manager starts a process that died",
    ),
    Row("another error: NOT_STARTED, LAST_ERROR_MSG", "yes", "the same, with the result code"),
    Row(
        "a second process: BROKEN until CLEAN_STARTUP_STATE",
        "differs",
        "the second one is refused with -105 and the first goes on: "
        "[why](decisions/0003-second-agent-process-is-refused.md). `mgw agents clean` ends what is left behind",
    ),
    Row(
        "AGENT_PING asks when it is read, up to 5 s",
        "differs",
        "`mgw agents ping` asks, up to 5 s; the column says whether the lease is in force",
    ),
    Row(
        "the instance goes down: the agent ends and keeps its job",
        "yes",
        "the process ends with the machine; another one on standby takes over",
    ),
    Row("job class and job in the database scheduler", "differs", "a job of the process; SIGUSR2 shows it"),
)

CLEANUP = (
    Row(
        "CLEAN_STARTUP_STATE, refused while the agent answers or no shutdown was tried",
        "yes",
        "`mgw agents clean`: refused in the same cases (ORA-32802)",
    ),
    Row(
        "CLEAN_LOG_QUEUES: the agent must run, and ignores it, as every start cleans",
        "differs",
        "the agent must run (ORA-32828), and the records are removed now",
    ),
    Row(
        "RESET_SUB_MISSING_LOG_REC, after 416 or 417: the agent must run; else nothing happens",
        "yes",
        "the same; the last batches may come twice. The command refuses a job that is not FAILED",
    ),
    Row(
        "RESET_SUB_MISSING_MESSAGE, after 415",
        "yes",
        "the same; the missing messages are given up, and the ledger (`mgw prove`) names them",
    ),
)

JOB_STATUS = (
    Row("READY", "yes", "`READY`; `ACTIVITY` says what the job does"),
    Row("RETRY", "yes", "`RETRY`, with `NEXT_ATTEMPT`"),
    Row("FAILED", "yes", "`FAILED`"),
    Row("DELETE_PENDING", "yes", "`DELETE_PENDING`"),
    Row(
        "SUBSCRIBER_DELETE_PENDING",
        "no",
        "for old-style jobs, which there are none of: `DELETE_PENDING`",
        Coming("SUBSCRIBER_DELETE_PENDING", "`SUBSCRIBER_DELETE_PENDING`"),
    ),
)

RETRIES = (
    Row(
        "delays double from 2 s to 30 min; the 16th failure: FAILED",
        "differs",
        "the same for what a message or the configuration causes. A broker or hub that is away never fails a job: "
        "it is tried at least every minute (`retry_max_delay`) and at once when it answers. `retry_policy` "
        "documented: as there",
    ),
    Row("FAILURES is 0 after a success", "yes", "the same"),
    Row(
        "conversion failure with exception queue: moved at once",
        "yes",
        "the same; `mgw exceptions` shows, edits and replays it",
    ),
    Row(
        "conversion failure without one: FAILED, the queue is blocked",
        "yes",
        "the same; `park_key` lets other keys pass",
    ),
    Row("other errors never move a message", "yes", "the same"),
    Row("FAILED ends with RESET_JOB or the start of the agent", "yes", "`mgw jobs reset`, or the start"),
    Row(
        "REMOVE_JOB cleans up at both ends, else DELETE_PENDING; FORCE skips it",
        "yes",
        "the same; with the agent down the command itself removes the subscription at the broker",
    ),
    Row("a job that is marked for removal refuses every call but REMOVE_JOB", "yes", "ORA-32822"),
)

WHEN_IN_FORCE = (
    Row("jobs, foreign queues, new and removed links: at once", "yes", "within a second"),
    Row(
        "max_connections, login, log queues of a link: at once",
        "yes",
        "at once, or at the reconnect of its jobs, which follows at once",
    ),
    Row("channel, link options: after a restart", "differs", "at the reconnect of its jobs, which follows at once"),
    Row(
        "queue_manager, hostname, port, TIB/RV attributes: never",
        "differs",
        "`mgw links alter`; [move a link](how-to/move-a-link.md)",
    ),
    Row("agent of a link: never", "yes", "the same: remove the link and create it again"),
    Row("memory, threads, initfile, properties of an agent: next start", "yes", "the same"),
    Row("log level: at once, until the next start", "yes", "the same"),
    Row("foreign queues: never", "yes", "the same: unregister and register"),
)

PROPAGATION = (
    Row(
        "queue source: every message; topic source: from the subscription on",
        "yes",
        "the same; Kafka with `KAFKA_StartAt`, streams with `AMQP_StreamOffset`",
    ),
    Row(
        "subscriber MGW_<job>, made with the job", "yes", "the same on hub queues; at a broker when the agent connects"
    ),
    Row("one job for each queue source, many for a topic; unique type, source and destination", "yes", "ORA-32823"),
    Row("a disabled job keeps collecting", "yes", "the same"),
    Row(
        "every poll interval, at once while messages are there",
        "yes",
        "and at once when a message is committed or the broker has one",
    ),
    Row("max_threads jobs at a time, each a batch, then the back of the line", "yes", "the same"),
    Row(
        "order of the source within a job",
        "yes",
        "the same, except where [the page on guarantees](delivery-guarantees.md) says it",
    ),
    Row("AQ side always persistent", "yes", "the same"),
    Row("source queue: MAX_RETRIES well above 16", "yes", "`max_retries: 100` in the examples"),
    Row(
        "exactly once: both transactional, persistent, log queues",
        "differs",
        "`GUARANTEE` of each job, checked at the broker: [guarantees](delivery-guarantees.md)",
    ),
    Row("at most once for non-persistent messages and TIB/RV", "differs", "at least once, unless you chose otherwise"),
    Row("exception queue on the side of the source, of the same payload type", "yes", "the same"),
)

LOG = (
    Row(
        "oramgw-[AGENT-]host-timestamp-pid.log for each start",
        "yes",
        "the same; the same records also to stdout, as text or JSON",
    ),
    Row(">>time MGW component level id thread, then text", "yes", "the same"),
    Row("[Linked-exception]", "yes", "the same"),
    Row("components C-Bootstrap, Engine, AdminMgr, MQD, AQN", "differs", "Engine, AdminMgr, AQN, MSGD (links), HTTP"),
    Row("numbers 1, 2, 4, 7, 19, 22, 23, 25, 200", "yes", "the same events"),
    Row("numbers 9 (schedule), 14 (job added)", "yes", "the same events"),
    Row("passwords are never logged", "yes", "the same, in errors of libraries, too"),
)
