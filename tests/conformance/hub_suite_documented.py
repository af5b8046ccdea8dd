"""What every hub database must do: the documented limits, to the last that is allowed, columns, and single rules.

Run by test_hub_*.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mgw.gateway.aq.model import Agent, DequeueOptions
from mgw.gateway.aq.views import COLUMNS
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, now, refused
from tests.conformance.hub_suite_views import ViewCase

_A, _E = "a", "é"  # one byte, two bytes

_QUEUE_TABLES = (
    "OWNER QUEUE_TABLE TYPE OBJECT_TYPE SORT_ORDER RECIPIENTS MESSAGE_GROUPING COMPATIBLE PRIMARY_INSTANCE"
    " SECONDARY_INSTANCE OWNER_INSTANCE USER_COMMENT SECURE REPLICATION_MODE"
)
_QUEUES = (
    "OWNER NAME QUEUE_TABLE QID QUEUE_TYPE MAX_RETRIES RETRY_DELAY ENQUEUE_ENABLED DEQUEUE_ENABLED RETENTION"
    " USER_COMMENT NETWORK_NAME SHARDED"
)
_SUBSCRIBERS = (
    "OWNER QUEUE_NAME QUEUE_TABLE CONSUMER_NAME ADDRESS PROTOCOL TRANSFORMATION RULE DELIVERY_MODE"
    " IF_NONDURABLE_SUBSCRIBER QUEUE_TO_QUEUE SUBSCRIBER_ID POS_BITMAP"
)
_TRANSFORMATIONS = "TRANSFORMATION_ID OWNER NAME FROM_TYPE TO_TYPE"
_ATTRIBUTES = f"{_TRANSFORMATIONS} ATTRIBUTE ATTRIBUTE_TRANSFORMATION"
_COORDINATOR = "PROCESS_ID PROCESS_NAME NUM_JOBS JOB_LATENCY NUM_COORDINATORS CON_ID"
_JOBS = "COORDINATOR_ID PROCESS_ID PROCESS_NAME JOB_NAME JOB_TYPE SERVER_COUNT MAX_SERVER_COUNT CON_ID"
_SERVERS = "COORDINATOR_ID COORDINATOR_INSTANCE_ID PROCESS_ID PROCESS_NAME JOB_NAME POOL_STATE CON_ID"
_AQ = "QID WAITING READY EXPIRED TOTAL_WAIT AVERAGE_WAIT CON_ID"
_SUBSCRIBER = "QUEUE NAME ADDRESS PROTOCOL TRANSFORMATION"
_RULE = "QUEUE NAME ADDRESS PROTOCOL RULE RULE_SET TRANSFORMATION"

#: AQ guide 12.2 chapter 9. SHARD_ID and SUBSHARD_ID of the view of messages belong to sharded queues, as do the
#: views of buffered messages, propagation, registrations and message caches to what is not there yet.
DOCUMENTED = {
    "AQ$<queue table>": "QUEUE MSG_ID CORR_ID MSG_PRIORITY MSG_STATE DELAY DELAY_TIMESTAMP EXPIRATION"
    " RETENTION_TIMESTAMP ENQ_TIME ENQ_TIMESTAMP ENQ_USER_ID ENQ_TXN_ID DEQ_TIME DEQ_TIMESTAMP DEQ_USER_ID DEQ_TXN_ID"
    " RETRY_COUNT EXCEPTION_QUEUE_OWNER EXCEPTION_QUEUE USER_DATA SENDER_NAME SENDER_ADDRESS SENDER_PROTOCOL"
    " ORIGINAL_MSGID CONSUMER_NAME ADDRESS PROTOCOL PROPAGATED_MSGID ORIGINAL_QUEUE_NAME ORIGINAL_QUEUE_OWNER"
    " EXPIRATION_REASON",
    "AQ$<queue table>_S": _SUBSCRIBER,
    "AQ$<queue table>_R": _RULE,
    "AQ$<queue>_R": _RULE,
    "AQ$<queue>_S": f"{_SUBSCRIBER} QUEUE_TO_QUEUE",
    "DBA_QUEUE_TABLES": _QUEUE_TABLES,
    "ALL_QUEUE_TABLES": _QUEUE_TABLES,
    "USER_QUEUE_TABLES": _QUEUE_TABLES.removeprefix("OWNER "),
    "DBA_QUEUES": _QUEUES,
    "ALL_QUEUES": _QUEUES,
    "USER_QUEUES": _QUEUES.removeprefix("OWNER "),
    "QUEUE_PRIVILEGES": "GRANTEE OWNER NAME GRANTOR ENQUEUE_PRIVILEGE DEQUEUE_PRIVILEGE",
    "DBA_QUEUE_SUBSCRIBERS": _SUBSCRIBERS,
    "ALL_QUEUE_SUBSCRIBERS": _SUBSCRIBERS,
    "USER_QUEUE_SUBSCRIBERS": _SUBSCRIBERS.removeprefix("OWNER "),
    "DBA_TRANSFORMATIONS": _TRANSFORMATIONS,
    "USER_TRANSFORMATIONS": _TRANSFORMATIONS.replace("OWNER ", ""),
    "DBA_ATTRIBUTE_TRANSFORMATIONS": _ATTRIBUTES,
    "USER_ATTRIBUTE_TRANSFORMATIONS": _ATTRIBUTES.replace("OWNER ", ""),
    "AQ$INTERNET_USERS": "AGENT_NAME DB_USERNAME HTTP_ENABLED FTP_ENABLED",
    "V$AQ": _AQ,
    "GV$AQ": f"INST_ID {_AQ}",
    "V$PERSISTENT_QUEUES": "QUEUE_ID QUEUE_TABLE_ID QUEUE_SCHEMA QUEUE_NAME FIRST_ACTIVITY_TIME ENQUEUED_MSGS"
    " DEQUEUED_MSGS BROWSED_MSGS ELAPSED_ENQUEUE_TIME ELAPSED_DEQUEUE_TIME ENQUEUE_CPU_TIME DEQUEUE_CPU_TIME"
    " AVG_MSG_AGE DEQUEUED_MSG_LATENCY ELAPSED_TRANSFORMATION_TIME ELAPSED_RULE_EVALUATION_TIME ENQUEUED_EXPIRY_MSGS"
    " ENQUEUED_DELAY_MSGS MSGS_MADE_EXPIRED MSGS_MADE_READY LAST_ENQUEUE_TIME LAST_DEQUEUE_TIME",
    "V$PERSISTENT_QMN_CACHE": "QUEUE_TABLE_ID TYPE STATUS NEXT_SERVICE_TIME WINDOW_END_TIME TOTAL_RUNS TOTAL_LATENCY"
    " TOTAL_ELAPSED_TIME TOTAL_CPU_TIME TMGR_ROWS_PROCESSED TMGR_ELAPSED_TIME TMGR_CPU_TIME LAST_TMGR_PROCESSING_TIME"
    " DEQLOG_ROWS_PROCESSED DEQLOG_PROCESSING_ELAPSED_TIME DEQLOG_PROCESSING_CPU_TIME LAST_DEQLOG_PROCESSING_TIME",
    "V$PERSISTENT_SUBSCRIBERS": "QUEUE_ID QUEUE_SCHEMA QUEUE_NAME SUBSCRIBER_ID SUBSCRIBER_NAME SUBSCRIBER_ADDRESS"
    " PROTOCOL SUBSCRIBER_TYPE FIRST_ACTIVITY_TIME ENQUEUED_MSGS DEQUEUED_MSGS BROWSED_MSGS EXPIRED_MSGS"
    " DEQUEUED_MSG_LATENCY LAST_ENQUEUE_TIME LAST_DEQUEUE_TIME",
    "V$PERSISTENT_PUBLISHERS": "QUEUE_ID QUEUE_SCHEMA QUEUE_NAME PUBLISHER_NAME PUBLISHER_ADDRESS PROTOCOL"
    " ENQUEUED_MSGS ELAPSED_ENQUEUE_TIME ENQUEUE_CPU_TIME LAST_ENQUEUE_TIME ENQUEUE_TRANSACTIONS",
    "V$METRICGROUP": "GROUP_ID NAME INTERVAL_SIZE MAX_INTERVAL",
    "V$AQ_BACKGROUND_COORDINATOR": _COORDINATOR,
    "V$AQ_JOB_COORDINATOR": _JOBS,
    "V$AQ_SERVER_POOL": _SERVERS,
    "GV$AQ_BACKGROUND_COORDINATOR": f"INST_ID {_COORDINATOR}",
    "GV$AQ_JOB_COORDINATOR": f"INST_ID {_JOBS}",
    "GV$AQ_SERVER_POOL": f"INST_ID {_SERVERS}",
}


class LimitSuite(HubCase):
    """Names, texts, numbers, lists."""

    @pytest.mark.parametrize("letter", [_A, _E])
    def test_names_of_objects_are_measured_in_bytes(self, letter: str) -> None:
        def name(length: int) -> str:
            return letter * (length // len(letter.encode()))

        admin = self.admin
        admin.create_queue_table("t")
        calls: list[tuple[int, Callable[[str], Any]]] = [
            (122, admin.create_queue_table),
            (122, lambda text: admin.create_queue(text, "t")),
            (128, lambda text: admin.create_queue_table(f"{text}.t")),
            (128, lambda text: admin.create_type(text, {"x": "NUMBER"})),
            (128, lambda text: admin.create_transformation(text, "BASIC", "BASIC", "source.user_data")),
            (128, lambda text: admin.grant_queue_privilege("ENQUEUE", "t.q", text)),
            (128, lambda text: admin.grant_system_privilege("ENQUEUE_ANY", text)),
        ]
        admin.create_queue_table("t.t")
        admin.create_queue("t.q", "t.t")
        for most, call in calls:
            with refused(24019):
                call(name(most + 2))
            call(name(most))
        longest = admin.queue_table(name(122))
        assert longest is not None
        assert f"AQ$_{name(122)}_E" in {queue.name for queue in admin.queues()}  # 128 bytes, as documented

    @pytest.mark.parametrize("letter", [_A, _E])
    def test_names_of_agents_are_measured_in_characters(self, letter: str) -> None:
        self.topic("RED")
        longest, longer = letter * 128, letter * 129
        for call in (
            self.admin.create_aq_agent,
            lambda text: self.admin.add_subscriber("events", text),
            lambda text: self.send("events", "x", recipients=[text]),
        ):
            with refused(24019):
                call(longer)
            if call != self.admin.create_aq_agent:
                call(longest)
        assert self.take("events", longest) == ["x"]
        assert [agent.name for agent in self.admin.aq_agents()] == sorted(["RED", longest], key=str.upper)

    def test_properties_of_messages(self) -> None:
        self.queue()
        limits: list[tuple[str, int]] = [
            ("correlation", 128),
            ("sender_name", 128),
            ("sender_address", 1024),
            ("user_property", 4000),
        ]
        for name, most in limits:
            for letter in (_A, _E):
                with pytest.raises(AqError, match=f"message 0 has {most + 1} characters; cause: at most {most} are"):
                    self.send("orders", "x", **{name: letter * (most + 1)})
                self.send("orders", "x", **{name: letter * most})
                with self.hub.session() as session:
                    found = session.dequeue("orders", now()).message
                    session.commit()
                assert getattr(found, name) == letter * most
        for priority in (2**63 - 1, -(2**63)):
            self.send("orders", str(priority), priority=priority)
        for priority in (2**63, -(2**63) - 1):
            with pytest.raises(AqError, match="out of range"):
                self.send("orders", "x", priority=priority)
        with self.hub.session() as session:
            found_all = session.dequeue_array("orders", now(), 10)
            session.commit()
        assert [int(str(each.message.body)) for each in found_all] == [each.message.priority for each in found_all]
        assert len(found_all) == 2
        for times in ({"delay": 0}, {"delay": 0.001}, {"expiration": 0}, {"delay": 2**39, "expiration": 2**39}):
            self.send("orders", "x", **times)
        for number, times in ((25203, {"delay": -0.001}), (25209, {"expiration": -0.001}), (25203, {"delay": 2**40})):
            with refused(number):
                self.send("orders", "x", **times)

    def test_texts_of_rules_conditions_and_transformations(self) -> None:
        self.topic("RED")
        longest = "priority = 1 --".replace(" --", "").ljust(4000)

        def dequeue(text: str) -> None:
            with self.hub.session() as session:
                session.dequeue("events", DequeueOptions("RED", wait=0, deq_condition=text, dequeue_mode="BROWSE"))  # type: ignore[arg-type]

        self.send("events", "x")
        for number, call in (
            (25448, lambda text: self.admin.alter_subscriber("events", "RED", rule=text)),
            (25448, dequeue),
        ):
            with refused(number):
                call(longest + " ")
            call(longest)
        expression = "source.user_data".ljust(4000)
        with refused(24095):
            self.admin.create_transformation("t", "BASIC", "BASIC", expression + " ")
        self.admin.create_transformation("t", "BASIC", "BASIC", expression)
        with refused(24095):
            self.admin.modify_transformation("t", 0, expression + " ")

    def test_numbers_of_queues(self) -> None:
        self.queue(max_retries=0)
        for most in (0, 2**31 - 1):
            assert self.admin.alter_queue("orders", max_retries=most).max_retries == most
        for number, settings in (
            (24013, {"max_retries": -1}),
            (24013, {"max_retries": 2**31}),
            (24013, {"retry_delay": -0.001}),
            (24014, {"retention_time": -0.5}),
            (24014, {"retention_time": -2}),
        ):
            with refused(number):
                self.admin.alter_queue("orders", **settings)
        assert self.admin.alter_queue("orders", retention_time=-1).retention_time == -1

    def test_recipients_of_a_message(self) -> None:
        self.topic()
        names = [f"R{number}" for number in range(1025)]
        with refused(25251):
            self.send("events", "x", recipients=names)
        self.send("events", "x", recipients=names[:1024])
        assert self.take("events", "R1023") == ["x"]
        assert len(self.view("events_t")) == 1024

    def test_address_of_an_agent(self) -> None:
        self.topic()
        with pytest.raises(AqError, match="has 1025 characters; cause: at most 1024 are allowed"):
            self.admin.add_subscriber("events", Agent("RED", "x" * 1025))
        with self.hub.session() as session, pytest.raises(AqError, match="propagation to other queues"):
            session.enqueue("events", Message("x"), recipients=[Agent("RED", "x" * 1024)])


class SingleRuleSuite(HubCase):
    """Single documented rules that nothing else holds."""

    def test_altered_rule_is_for_messages_to_come(self) -> None:
        self.topic("RED")
        self.send("events", "old", priority=9)
        self.admin.alter_subscriber("events", "RED", rule="priority < 5")
        with refused(24033):
            self.send("events", "new", priority=9)
        assert self.take("events", "RED") == ["old"]

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_retention_that_was_taken_away_holds_for_what_was_retained(self, consumer: str | None) -> None:
        queue = self.topic("RED", retention_time=-1) if consumer else self.queue("events", retention_time=-1)
        self.send(queue, "x")
        assert self.take(queue, consumer, dequeue_mode="REMOVE_NODATA") == [None]
        assert self.run_time(10**9).removed == bool(consumer)  # its entries are all consumed now
        assert self.states("events_t") == ["PROCESSED"]
        self.admin.alter_queue(queue, retention_time=0)
        self.run_time(1)
        assert self.view("events_t") == []

    def test_message_id_is_one_of_this_consumer_and_this_queue(self) -> None:
        self.topic("RED", "GREEN")
        self.queue()
        (msgid,) = self.send("events", "x", recipients=["RED"])
        with self.hub.session() as session:
            for queue, consumer in (("events", "GREEN"), ("orders", None)):
                for mode in ("REMOVE", "BROWSE", "LOCKED"):
                    with refused(25263):
                        session.dequeue(queue, now(consumer_name=consumer, msgid=msgid, dequeue_mode=mode))  # type: ignore[arg-type]
            assert session.dequeue("events", now(consumer_name="RED", msgid=msgid)).message.body == "x"

    def test_exception_message_of_a_topic_is_taken_by_its_id_too(self) -> None:
        self.topic("RED", "GREEN")
        (msgid,) = self.send("events", "x", expiration=1)
        self.run_time(1)
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        assert self.take("AQ$_events_t_E", msgid=msgid) == ["x"]
        assert self.view("events_t") == []

    def test_plain_name_of_an_exception_queue_is_one_in_the_schema_of_the_queue(self) -> None:
        self.admin.create_queue_table("oe.t")
        self.admin.create_queue("oe.q", "oe.t")
        self.admin.create_queue("oe.bad", "oe.t", queue_type="EXCEPTION_QUEUE")
        self.admin.start_queue("oe.q")
        self.send("oe.q", "x", expiration=1, exception_queue="bad")
        self.run_time(1)
        (row,) = self.view("oe.t")
        assert [row[name] for name in ("QUEUE", "EXCEPTION_QUEUE", "EXCEPTION_QUEUE_OWNER")] == ["BAD", "BAD", "OE"]
        assert (row["ORIGINAL_QUEUE_NAME"], row["ORIGINAL_QUEUE_OWNER"]) == ("Q", "OE")

    def test_purge_by_the_sender(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x", sender_name="bob")
        self.send("events", "y", sender_name="ann")
        self.send("events", "z")
        assert self.admin.purge_queue_table("events_t", "qtview.sender_name = 'bob'") == (1, 2)
        assert self.take("events", "RED") == self.take("events", "GREEN") == ["y", "z"]

    def test_what_has_the_wrong_type_is_refused_by_its_number(self) -> None:
        self.topic("RED")
        admin: Any = self.admin
        wrong: Any = 5
        for number, call in (
            (25200, lambda: admin.create_queue_table(None)),
            (25200, lambda: admin.create_queue(wrong, "events_t")),
            (25200, lambda: admin.grant_queue_privilege("ALL", "events", None)),
            (24047, lambda: admin.add_subscriber("events", None)),
            (24047, lambda: admin.add_subscriber("events", wrong)),
            (24047, lambda: admin.create_aq_agent(wrong)),
            (25216, lambda: self.send("events", "x", recipients=[None])),
            (24047, lambda: self.send("events", "x", recipients=["BLUE", wrong])),
        ):
            with refused(number):
                call()
        with self.hub.session() as session:
            for size in (1.5, "1", None, 2**31, 10**30):
                with refused(25286):
                    session.dequeue_array("events", now(consumer_name="RED"), size)  # type: ignore[arg-type]
            for size in (1.5, "1"):
                with refused(25286):
                    session.enqueue_array("events", [Message("x")] * 2, array_size=size)  # type: ignore[arg-type]
            with refused(25200):
                session.enqueue(wrong, Message("x"))
            for text, options in (
                ("ORA-24047: consumer name is 5", {"consumer_name": 5}),
                ("correlation is 5", {"consumer_name": "RED", "correlation": 5}),
                ("ORA-25448: deq_condition is 5", {"consumer_name": "RED", "deq_condition": 5}),
                ("ORA-25200: transformation name 5", {"consumer_name": "RED", "transformation": 5}),
            ):
                with pytest.raises(AqError, match=f"^{text}"):
                    session.dequeue("events", now(**options))
        assert self.view("events_t") == []

    def test_dropped_agent_leaves_its_subscription(self) -> None:
        self.topic("RED")
        self.admin.drop_aq_agent("RED")
        self.send("events", "x")
        assert self.take("events", "RED") == ["x"]


class ColumnSuite(ViewCase):
    """Every documented view with every documented column, in the documented order; ours may stand between them."""

    def test_views_have_the_documented_columns(self) -> None:
        self.topic("RED")
        assert set(DOCUMENTED) == set(COLUMNS)
        for name, columns in DOCUMENTED.items():
            shown = name.replace("<queue table>", "EVENTS_T").replace("<queue>", "EVENTS")
            with self.reader() as run:
                names = [row["NAME"].upper() for row in run(self._names_of(shown))]
            assert [each for each in names if each in columns.split()] == columns.split(), name

    def _names_of(self, view: str) -> str:
        if not self.hub.postgresql:
            return f"SELECT name FROM pragma_table_info('{view}')"
        quoted = f'"{view}"' if view.startswith("AQ$EVENTS") else view.lower()
        return (
            "SELECT attname AS name FROM pg_attribute WHERE attnum > 0"
            f" AND attrelid = to_regclass('{quoted}') ORDER BY attnum"
        )
