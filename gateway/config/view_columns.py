"""What the columns of the ``MGW_*`` views mean, for the reference page (AQ guide 12.2 §21)."""

from __future__ import annotations

from mgw.gateway.definitions.link_views import column_texts, view_texts

__all__ = ["COLUMN_TEXTS", "VIEW_TEXTS"]

VIEW_TEXTS = {
    "MGW_GATEWAY": "One row per agent: its settings, its status, its last error.",
    "MGW_AGENT_OPTIONS": "Options of agents.",
    "MGW_LINKS": "All links.",
    **view_texts(),
    "MGW_FOREIGN_QUEUES": "Registered foreign queues.",
    "MGW_JOBS": "Jobs: definition, state, counters, guarantee.",
    "MGW_TRANSFORMATIONS": "Transformations.",
    "MGW_MODULES": "Python modules whose functions transformations and rules may call.",
    "MGW_RULE_FUNCTIONS": "Python functions that rules and expressions may call by name.",
    "MGW_EVENTS": "What happened, kept for 14 days unless the agent option `event_retention` says otherwise.",
    "MGW_AUDIT": "Removals of objects that may hold messages: who removed them, and what happened to the messages; "
    "kept forever.",
    "MGW_LEDGER": "Batches of jobs, kept for 7 days unless the agent option `ledger_retention` says otherwise; "
    "`mgw prove` shows the messages in them. Each batch has its own row at first. Rows of small batches are merged "
    "later, up to a thousand into one; numbers of messages are then sums.",
}

_LAST_ERROR = "of the last error; stays until the next one or the next start."

#: By column, or by ``VIEW.COLUMN`` where a column means something else there.
COLUMN_TEXTS = {
    **column_texts(),
    "ACTION": "drop queue, drop queue table, remove subscriber, remove job, purge.",
    "ACTOR": "User of the hub, or account and host of the program.",
    "AUDIT_ID": "Increasing number.",
    "AUDIT_TIME": "When.",
    "HELD": "Messages in it that nobody had consumed.",
    "MOVED_TO": "Queue that got them; null: they were deleted.",
    "OLDEST": "When the oldest of them was enqueued.",
    "MGW_AUDIT.OBJECT_NAME": "What was removed.",
    "ACTIVITY": "STOPPED, CONNECTING, RUNNING, IDLE (nothing waits), BACKOFF (waits for the next attempt), STUCK "
    "(its thread is blocked in the client library or waits for the hub; never while it waits for the next attempt).",
    "AGENT_DATABASE": "Database that was given for the agent; has no effect.",
    "AGENT_HOST": "Machine the agent runs on.",
    "AGENT_INSTANCE": "1 while the agent runs.",
    "AGENT_JOB": "Always null; kept for compatibility.",
    "AGENT_NAME": "Agent.",
    "AGENT_PID": "Process of the agent.",
    "AGENT_PING": "REACHABLE, UNREACHABLE, or null where no process is expected.",
    "AGENT_START_TIME": "When the agent started.",
    "AGENT_STOP_TIME": "When the agent was last stopped; null while it runs.",
    "AGENT_STATUS": "NOT_STARTED, START_SCHEDULED, STARTING, INITIALIZING, RUNNING, SHUTTING_DOWN, BROKEN.",
    "AGENT_USER": "Database user that was given for the agent; has no effect: it runs with the login of its process.",
    "ALLOWED_SINCE": "When the module was allowed.",
    "BACKLOG": "Messages that wait; inbound: at the last sample, null where the messaging system does not report it.",
    "BATCH": "Number of the record, increasing by one per job; of merged records, the last.",
    "COMMENTS": "Free text.",
    "CONNTYPE": "As it was given; has no effect.",
    "DEFINED": "When the function was first defined.",
    "DEFINITION": "What it does, JSON.",
    "DESTINATION": "Where the job writes.",
    "DISCARDED": "Messages of the batch that had expired before they arrived (inbound) or were sent (outbound), or "
    "that no subscriber wanted.",
    "DISCARDED_MSGS": "Messages that had expired before they arrived (inbound) or were sent (outbound), and inbound "
    "ones that no subscriber wanted, since agent start.",
    "DISCARDED_TOTAL": "The same since the job was created.",
    "DOMAIN": "QUEUE, TOPIC, or null: the messaging system decides.",
    "ENABLED": "TRUE or FALSE.",
    "ENCRYPTED": "TRUE: the value is stored encrypted and not shown.",
    "EVENT_ID": "Increasing number.",
    "EVENT_LEVEL": "INFO, WARNING, ERROR.",
    "EVENT_NAME": "Kind of event, a fixed name.",
    "EVENT_TEXT": "What happened, in words.",
    "EVENT_TIME": "When.",
    "EXCEPTIONQ_MSGS": "Messages moved to the exception queue since agent start.",
    "EXCEPTIONQ_TOTAL": "The same since the job was created.",
    "EXCEPTIONED": "Messages of the batch that went to the exception queue.",
    "EXCEPTION_QUEUE": "Queue for messages that can never be delivered.",
    "FAILURES": "Failures of the same kind as the last one, since the last recovery; the 16th that counts makes it "
    "FAILED.",
    "FILTERED": "Messages of the batch left out by rule or transformation.",
    "FILTERED_MSGS": "Messages left out by rule or transformation since agent start.",
    "FILTERED_TOTAL": "The same since the job was created.",
    "FINISHED": "When the batch was stored (inbound) or completed (outbound); of merged batches, the last.",
    "FIRST_MESSAGE": "Smallest number of a message in the batch; the second half of its id.",
    "FROM_TYPE": "Payload type it takes.",
    "FUNCTION": "`package.module:function` of an allowed module.",
    "GUARANTEE": "Guarantee of the job: exact, exact-unless-broker-crash, at-least-once, at-most-once; null until it "
    "has connected.",
    "GUARANTEE_NOTE": "The first condition that prevents a higher guarantee.",
    "INBOUND_LOG_QUEUE": "Log destination of jobs that read from the link.",
    "INITFILE": "As it was given; has no effect.",
    "JOB_NAME": "Job.",
    "LAST_ERROR_DATE": f"Day {_LAST_ERROR}",
    "LAST_ERROR_MSG": f"Text {_LAST_ERROR}",
    "LAST_ERROR_TIME": f"Time {_LAST_ERROR}",
    "LAST_MESSAGE": "Largest number of a message in the batch.",
    "LAST_PROGRESS": "When the job last moved a message.",
    "KIND": "RECEIVED (inbound), COMPLETED (outbound), RETURNED (planned, not sent, READY again), "
    "BREAK (a reset, or the ledger was off).",
    "LEFT_OUT_TOTAL": "Messages that a rule kept from the job or from its destination, since the job was created: its "
    "own rule or transformation (FILTERED_TOTAL), its rule as a subscriber of the queue that it reads, and the rules "
    "of all subscribers of the queue that it writes. Messages that expired are not among them.",
    "LINK_COMMENT": "Free text.",
    "LINK_NAME": "Link.",
    "LINK_TYPE": "RABBITMQ, KAFKA, MQTT, MEMORY.",
    "LOG_LEVEL": "0 (basic) to 4, as set while the agent runs.",
    "MAX_CONNECTIONS": "Connections the link may hold; null: as many as its jobs need.",
    "MAX_MEMORY": "MB, as it was given; has no effect.",
    "MAX_THREADS": "Jobs that may work at the same time.",
    "MESSAGES": "Messages in the batch.",
    "MGW_GATEWAY.MAX_CONNECTIONS": "Always null; kept for compatibility.",
    "NAME": "Name.",
    "NEXT_ATTEMPT": "Time of the next attempt of a job in RETRY.",
    "NOT_WORKING_SINCE": "Since when the job has been connecting, in RETRY, stuck or FAILED; null while it works.",
    "OBJECT_NAME": "Job, link, agent or queue it happened to.",
    "OLDEST_MESSAGE_AGE": "Seconds the oldest waiting message has waited.",
    "OPTIONS": "Options, JSON.",
    "OUTBOUND_LOG_QUEUE": "Log destination of jobs that write to the link.",
    "POLL_INTERVAL": "Seconds; of the job, else of the agent option `oracle.mgw.polling_interval`, else 5.",
    "PROPAGATED": "Messages of the batch that were stored or sent.",
    "PROPAGATED_MSGS": "Messages moved since agent start.",
    "PROPAGATED_TOTAL": "The same since the job was created.",
    "PROPAGATION_TYPE": "INBOUND, OUTBOUND, THROUGH (link to link) or LOCAL (hub queue to hub queue).",
    "PROP_STYLE": "NATIVE.",
    "PROVIDER_QUEUE": "Name in the messaging system.",
    "QUEUE_COMMENT": "Free text.",
    "REQUIRE_GUARANTEE": "Guarantee without which the job does not run.",
    "RULE": "Only messages for which it is true.",
    "SEQUENCE": "Sequence of the outbound batch, as in the sending log; null for inbound ones; of merged batches, the "
    "last.",
    "SERVICE": "As it was given; has no effect.",
    "SOURCE": "Where the job reads.",
    "STARTED": "When the batch was read (inbound) or planned (outbound); of merged batches, the first.",
    "STATUS": "READY, RETRY, FAILED, DELETE_PENDING.",
    "SUPPRESSED": "Messages of the batch that were delivered again and recognised.",
    "SUPPRESSED_MSGS": "Messages that were delivered again, recognised and not stored twice, since agent start.",
    "SUPPRESSED_TOTAL": "The same since the job was created.",
    "TO_TYPE": "Payload type it gives.",
    "TRANSFORMATION": "Transformation applied to every message.",
    "TYPE": "JAVA_SYSTEM_PROP, as documented.",
    "VALUE": "Value, or <<ENCRYPTED>>.",
}
