"""What the columns of the hub's views mean, for the reference page (AQ guide 12.2 §9)."""

from __future__ import annotations

__all__ = ["HUB_COLUMN_TEXTS", "HUB_TEXT", "HUB_VIEW_TEXTS"]

HUB_TEXT = (
    "Views of the hub: moments are timestamps on PostgreSQL, and ISO text in UTC on SQLite; a DATE has whole "
    "seconds. Elapsed times are hundredths of a second. DBA_ views show everything. USER_ views show what is in the "
    "schema called like the user. ALL_ views show what the user may use. On PostgreSQL the user is the login; the "
    "owner of the hub sees everything in ALL_ views and the default schema MGW in USER_ views, and may ask in the "
    "name of a user: `SET aq.username = 'MILL'`. A file of SQLite knows no users: who reads it is the owner. The "
    "columns of the views `AQ$<...>` need double quotes on PostgreSQL, and so do their names.\n"
)

HUB_VIEW_TEXTS = {
    "AQ$<queue table>": "Messages of a queue table; one row per message, on multi-consumer queues one per message "
    "and consumer. The columns after `EXPIRATION_REASON` are ours. A name that is too long for PostgreSQL or taken "
    "becomes `AQ$#<number>`; `DBA_QUEUE_TABLES.MESSAGE_VIEW` tells it.",
    "AQ$<queue table>_S": "Subscribers of all queues of a multi-consumer queue table.",
    "AQ$<queue table>_R": "Of these, the subscribers with a rule.",
    "AQ$<queue>_S": "Subscribers of a multi-consumer queue. A queue called like its queue table has no view of its "
    "own: that of the table shows it. Where the name is too long for PostgreSQL, or another view has it, the view "
    "is called `AQ$#Q<number of the queue>_S`.",
    "AQ$<queue>_R": "Of these, the subscribers with a rule; named in the same way.",
    "DBA_QUEUE_TABLES": "Queue tables.",
    "USER_QUEUE_TABLES": "Queue tables in the user's schema.",
    "ALL_QUEUE_TABLES": "Queue tables with a queue the user may use.",
    "DBA_QUEUES": "Queues, exception queues included.",
    "USER_QUEUES": "Queues in the user's schema.",
    "ALL_QUEUES": "Queues the user may use.",
    "DBA_QUEUE_SUBSCRIBERS": "Subscribers.",
    "USER_QUEUE_SUBSCRIBERS": "Subscribers of queues in the user's schema.",
    "ALL_QUEUE_SUBSCRIBERS": "Subscribers of queues the user may dequeue from.",
    "QUEUE_PRIVILEGES": "Privileges on queues that the user owns, or gave or got, directly, through a role or as "
    "everybody.",
    "AQ$INTERNET_USERS": "AQ agents with the users whose privileges they have, a row per pair.",
    "V$AQ": "Messages per queue and state, now. The numbers are counted from indexes (a million READY messages in "
    "about a tenth of a second); TOTAL_WAIT and AVERAGE_WAIT read every READY message of the queue, and nothing "
    "where they are not selected.",
    "GV$AQ": "The same with the number of the instance; the database is the one there is.",
    "V$PERSISTENT_QUEUES": "What was done with each queue by the processes that have the hub open now, since each "
    "opened it; the numbers of a process go when it ends. A process stores them with every pass of its time manager "
    "and at the end of a session, at most ten seconds late. A transaction counts when it commits; only an "
    "application's own transaction that enqueues and does not dequeue counts at the call. What SQL functions do in "
    "the database is not counted.",
    "V$PERSISTENT_SUBSCRIBERS": "The same per consumer of a queue.",
    "V$PERSISTENT_PUBLISHERS": "The same per publisher and queue. A process tells 1000 publishers apart; the rest "
    "are together in a row called (others).",
    "V$PERSISTENT_QMN_CACHE": "What the time managers of these processes did, per queue table.",
}

_ELAPSED = "Hundredths of a second spent"
_NOT_MEASURED = "Always null: not measured."

#: By column, or by ``VIEW.COLUMN`` where a column means something else there.
HUB_COLUMN_TEXTS = {
    "AGENT_NAME": "Agent.",
    "DB_USERNAME": "User; null: the agent has nobody's privileges.",
    "HTTP_ENABLED": "YES or NO.",
    "FTP_ENABLED": "Always NO.",
    "GRANTEE": "User, role or PUBLIC.",
    "GRANTOR": "Who granted it.",
    "ENQUEUE_PRIVILEGE": "0 no, 1 yes, 2 with grant option.",
    "DEQUEUE_PRIVILEGE": "0 no, 1 yes, 2 with grant option.",
    "QUEUE_PRIVILEGES.NAME": "Queue.",
    "ADDRESS": "Queue of the consumer; null: it reads from this queue.",
    "AVERAGE_WAIT": "Seconds READY messages have waited on average.",
    "AVG_MSG_AGE": "Average seconds since the enqueue of the messages that lie in the queue; reads them all where "
    "it is selected.",
    "BROWSED_MSGS": "Messages looked at without taking them.",
    "COMPATIBLE": "8.1, 10.0 or 12.2.",
    "CONSUMER_NAME": "Consumer; null on single-consumer queues.",
    "CON_ID": "Always 0; kept for compatibility.",
    "CORR_ID": "Correlation.",
    "CREATED": "When it was made. Ours.",
    "DELAY": "When it became READY, or becomes: enqueue time and delay, or the end of a retry delay. DATE.",
    "DELAY_TIMESTAMP": "The same with fractions of a second.",
    "DELIVERY_MODE": "PERSISTENT, BUFFERED or PERSISTENT_OR_BUFFERED: which messages it gets.",
    "DEQLOG_PROCESSING_CPU_TIME": _NOT_MEASURED,
    "DEQLOG_PROCESSING_ELAPSED_TIME": f"{_ELAPSED} on them.",
    "DEQLOG_ROWS_PROCESSED": "Rows of the dequeue log worked off: consumptions of multi-consumer messages.",
    "DEQUEUED_MSGS": "Messages dequeued; they count when all consumers have taken them and their retention is over.",
    "DEQUEUED_MSG_LATENCY": "Seconds from enqueue to dequeue of the message that was handed out last.",
    "DEQUEUE_CPU_TIME": _NOT_MEASURED,
    "DEQUEUE_ENABLED": "YES or NO.",
    "DEQUEUE_TRANSACTIONS": "Transactions that dequeued.",
    "DEQ_TIME": "When it was dequeued. DATE.",
    "DEQ_TIMESTAMP": "When it was dequeued.",
    "DEQ_TXN_ID": "Transaction that dequeued it.",
    "DEQ_USER_ID": "User who dequeued it.",
    "ELAPSED_DEQUEUE_TIME": f"{_ELAPSED} in dequeue calls, without waiting.",
    "ELAPSED_ENQUEUE_TIME": f"{_ELAPSED} in enqueue calls.",
    "ELAPSED_RULE_EVALUATION_TIME": f"{_ELAPSED} with the rules of subscribers.",
    "ELAPSED_TRANSFORMATION_TIME": _NOT_MEASURED,
    "ENQUEUED_DELAY_MSGS": "Messages enqueued with a delay.",
    "ENQUEUED_EXPIRY_MSGS": "Messages enqueued with an expiration.",
    "ENQUEUED_MSGS": "Messages enqueued.",
    "ENQUEUE_CPU_TIME": _NOT_MEASURED,
    "ENQUEUE_ENABLED": "YES or NO.",
    "ENQUEUE_TRANSACTIONS": "Transactions that enqueued.",
    "ENQ_TIME": "When it was enqueued. DATE.",
    "ENQ_TIMESTAMP": "When it was enqueued.",
    "ENQ_TXN_ID": "Transaction that enqueued it.",
    "ENQ_USER_ID": "User who enqueued it.",
    "EXCEPTION_QUEUE": "Exception queue it names; null: the default one of the queue table.",
    "EXCEPTION_QUEUE_OWNER": "Schema of that queue.",
    "EXPIRATION": "Seconds it stays available once it is READY; null: for ever.",
    "EXPIRATION_REASON": "Why it is in an exception queue: TIME_EXPIRATION, MAX_RETRY_EXCEEDED, PROPAGATION_FAILURE.",
    "EXPIRED": "Messages in this exception queue.",
    "EXPIRED_MSGS": "Messages it did not take in time.",
    "FIRST_ACTIVITY_TIME": "When something was first done.",
    "HEADERS": "Header array, JSON. Ours.",
    "IF_NONDURABLE_SUBSCRIBER": "Always NO.",
    "INST_ID": "Always 1.",
    "IN_TRANSACTION": "True: a session or a job has it in hand. PostgreSQL knows this of jobs only. Ours.",
    "LAST_DEQLOG_PROCESSING_TIME": "When that was last done.",
    "LAST_DEQUEUE_TIME": "Last dequeue.",
    "LAST_ENQUEUE_TIME": "Last enqueue.",
    "LAST_TMGR_PROCESSING_TIME": "When that was last done.",
    "LAST_TM_EXPIRY_TIME": "When the time manager last moved an expired message.",
    "LAST_TM_READY_TIME": "When the time manager last made a message READY.",
    "MAX_PAYLOAD": "Largest body, bytes. Ours.",
    "MAX_RETRIES": "Failed attempts a message survives.",
    "MESSAGE_GROUPING": "NONE or TRANSACTIONAL.",
    "MESSAGE_VIEW": "Name of its view of messages. Ours.",
    "MSGS_MADE_EXPIRED": "Messages the time manager moved to an exception queue because their time was over.",
    "MSGS_MADE_READY": "Messages (multi-consumer queues: entries) whose delay or retry delay ended.",
    "MSG_ID": "Message id, 32 hexadecimal digits.",
    "MSG_PRIORITY": "Priority; smaller is more important.",
    "MSG_STATE": "READY, WAIT (delay or retry delay), PROCESSED (consumed, still stored), EXPIRED (in an exception "
    "queue), UNDELIVERABLE (this consumer failed too often). For each consumer its own.",
    "NAME": "Agent.",
    "NETWORK_NAME": "Always null; kept for compatibility.",
    "NEXT_SERVICE_TIME": "When time next does something to a message of the queue table; null: nothing is due.",
    "OBJECT_TYPE": "Payload type; null for RAW.",
    "ORIGINAL_MSGID": "Its id in the queue it was propagated from.",
    "ORIGINAL_QUEUE_NAME": "Queue it was in before it went to the exception queue.",
    "ORIGINAL_QUEUE_OWNER": "Schema of that queue.",
    "OWNER": "Schema.",
    "OWNER_INSTANCE": "Always 1: the database is the one instance.",
    "POS_BITMAP": "Always null; kept for compatibility.",
    "PRIMARY_INSTANCE": "As given; 0: any.",
    "PROPAGATED_MSGID": "Its id in the queue of the consumer.",
    "PROTOCOL": "Protocol of the address; 0.",
    "PUBLISHER_ADDRESS": "Address of the sender.",
    "PUBLISHER_NAME": "Sender the messages name, else the user of the session; null: neither.",
    "QID": "Number of the queue.",
    "QUEUE": "Queue.",
    "QUEUE_ID": "Number of the queue.",
    "QUEUE_NAME": "Queue.",
    "QUEUE_SCHEMA": "Schema of the queue.",
    "QUEUE_TABLE": "Queue table.",
    "QUEUE_TABLE_ID": "Number of the queue table.",
    "QUEUE_TO_QUEUE": "TRUE or FALSE.",
    "QUEUE_TYPE": "NORMAL_QUEUE or EXCEPTION_QUEUE.",
    "DBA_QUEUES.NAME": "Queue.",
    "USER_QUEUES.NAME": "Queue.",
    "ALL_QUEUES.NAME": "Queue.",
    "READY": "Messages that can be dequeued, or are in a transaction; a multi-consumer message counts once, until "
    "everybody has consumed it.",
    "RECIPIENTS": "SINGLE or MULTIPLE.",
    "REPLICATION_MODE": "Always NONE; kept for compatibility.",
    "RETENTION": "Seconds consumed messages are kept, or FOREVER.",
    "RETENTION_TIMESTAMP": "Until when it is kept after it was consumed; null: not consumed, not kept, or for ever.",
    "RETRY_COUNT": "Failed attempts.",
    "RETRY_DELAY": "Seconds a message waits after a failed attempt.",
    "RULE": "Only messages for which it is true.",
    "RULE_SET": "Always null: rules belong to their subscribers.",
    "SECONDARY_INSTANCE": "As given; 0: any.",
    "SECURE": "YES or NO.",
    "SENDER_ADDRESS": "Queue it was last propagated from.",
    "SENDER_NAME": "Agent that sent it.",
    "SENDER_PROTOCOL": "Reserved.",
    "SHARDED": "Always FALSE.",
    "SORT_ORDER": "What messages are dequeued by: ENQUEUE_TIME, PRIORITY, COMMIT_TIME, or two of them.",
    "STATUS": "1: a time manager runs; 0: none has made a pass and stored it.",
    "SUBSCRIBER_ADDRESS": "Queue of the consumer; null: it reads from this queue.",
    "SUBSCRIBER_ID": "Number of the consumer.",
    "SUBSCRIBER_NAME": "Consumer.",
    "SUBSCRIBER_TYPE": "SUBSCRIBER, RECIPIENT (only named by messages), or PROXY (has an address).",
    "TMGR_CPU_TIME": _NOT_MEASURED,
    "TMGR_ELAPSED_TIME": f"{_ELAPSED} on them.",
    "TMGR_ROWS_PROCESSED": "Messages and entries made READY, expired, or removed after their retention.",
    "TOTAL_CPU_TIME": _NOT_MEASURED,
    "TOTAL_ELAPSED_TIME": f"{_ELAPSED} on the queue table.",
    "TOTAL_LATENCY": _NOT_MEASURED,
    "TOTAL_RUNS": "Passes of the time managers; each looks after every queue table.",
    "TOTAL_WAIT": "Seconds READY messages have waited, together.",
    "TRANSFORMATION": "Transformation applied for the subscriber.",
    "TYPE": "RAW, OBJECT or VARIANT.",
    "USER_COMMENT": "Free text.",
    "USER_DATA": "Payload: text or bytes on SQLite; on PostgreSQL text in queue tables of text, else bytes.",
    "USER_DATA_TEXT": "Payload where it is text, else null. Ours.",
    "V$PERSISTENT_QMN_CACHE.TYPE": "Always TIME MANAGER.",
    "V$PERSISTENT_SUBSCRIBERS.DEQUEUED_MSGS": "Messages dequeued.",
    "WAITING": "Messages that wait for the end of a delay or retry delay.",
    "WINDOW_END_TIME": "Always null; kept for compatibility.",
}
