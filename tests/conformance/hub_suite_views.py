"""What every hub database must show in its SQL views, to a reader without the hub. Run by test_hub_*.py."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, EnqueueOptions
from mgw.gateway.aq.queues import statistics, transfer
from mgw.gateway.aq.upkeep import time_manager
from mgw.gateway.aq.views import COLUMNS
from mgw.transforms.message import Message
from tests.conformance.hub_suite import NOW, HubCase, ManualClock, now
from tests.support.children import CHILDREN


class ViewCase(HubCase):
    """Reads with the database's plain driver."""

    def rows(self, sql: str, *parameters: str) -> list[dict[str, Any]]:
        """Rows with the names of their columns in upper case; ``?`` stands for a parameter."""
        with self.reader() as run:
            return run(sql, *parameters)

    def row(self, sql: str, *parameters: str) -> dict[str, Any]:
        (found,) = self.rows(sql, *parameters)
        return found

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """A connection that knows nothing of the hub, as a function that runs a query."""

        def run(sql: str, *parameters: str) -> list[dict[str, Any]]:
            cursor = connection.execute(
                sql.replace("?", "%s") if self.hub.postgresql else sql, parameters or None or ()
            )
            if cursor.description is None:
                return []
            names = [column[0].upper() for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        connection: Any
        if self.hub.postgresql:
            import psycopg

            url = self.hub.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
            assert self.hub.namespace is not None
            path = f"-csearch_path={self.hub.namespace.schema}"
            connection = psycopg.connect(url, autocommit=True, options=path)
        else:
            connection = sqlite3.connect(self.hub.path or "")
        with closing(connection):
            yield run

    def when(self, shown: Any) -> float | None:
        """Epoch seconds of a moment as a view shows it."""
        if shown is None:
            return None
        if not isinstance(shown, datetime):
            shown = datetime.fromisoformat(shown)
        assert shown.utcoffset() is not None
        return float(shown.astimezone(UTC).timestamp())

    def moments(self, row: dict[str, Any], *names: str) -> list[float | None]:
        return [None if row[name] is None else round(self.when(row[name]) or 0, 3) for name in names]


class CatalogueViewSuite(ViewCase):
    """Definitions."""

    def test_every_fixed_view_has_its_columns_in_order(self) -> None:
        with self.reader() as run:
            for view, columns in COLUMNS.items():
                if "<" in view:
                    continue
                names = [row["NAME"] for row in run(self._columns_of(view))]
                assert [name.upper() for name in names] == list(columns), view

    def _columns_of(self, view: str) -> str:
        if self.hub.postgresql:
            return (
                "SELECT attname AS name FROM pg_attribute WHERE attnum > 0"
                f" AND attrelid = to_regclass('{view.lower()}') ORDER BY attnum"
            )
        return f"SELECT name FROM pragma_table_info('{view}')"

    def test_queue_table_is_shown_as_documented(self) -> None:
        table = {"queue_payload_type": "RAW", "sort_list": "PRIORITY,ENQ_TIME", "comment": "of the plant"}
        self.queue("orders", table={**table, "multiple_consumers": True, "compatible": "12.2"})
        row = self.row("SELECT * FROM DBA_QUEUE_TABLES")
        assert row == {
            "OWNER": "MGW",
            "QUEUE_TABLE": "ORDERS_T",
            "TYPE": "RAW",
            "OBJECT_TYPE": None,
            "SORT_ORDER": "PRIORITY, ENQUEUE_TIME",
            "RECIPIENTS": "MULTIPLE",
            "MESSAGE_GROUPING": "NONE",
            "COMPATIBLE": "12.2",
            "PRIMARY_INSTANCE": 0,
            "SECONDARY_INSTANCE": 0,
            "OWNER_INSTANCE": 1,
            "USER_COMMENT": "of the plant",
            "SECURE": "NO",
            "REPLICATION_MODE": "NONE",
            "MAX_PAYLOAD": 32512,
            "MESSAGE_VIEW": "AQ$ORDERS_T",
            "OPTIONS": "{}",
        }
        self.admin.create_queue_table("Plain")
        row = self.row("SELECT * FROM DBA_QUEUE_TABLES WHERE QUEUE_TABLE = 'PLAIN'")
        shown = [row[name] for name in ("TYPE", "OBJECT_TYPE", "SORT_ORDER", "RECIPIENTS", "COMPATIBLE")]
        assert shown == ["OBJECT", "BASIC", "ENQUEUE_TIME", "SINGLE", "10.0"]

    def test_queue_is_shown_as_documented(self) -> None:
        self.queue("Orders", max_retries=3, retry_delay=1.5, retention_time=60, comment="to the mill")
        self.admin.stop_queue("Orders", enqueue=False)
        row = self.row("SELECT * FROM DBA_QUEUES WHERE QUEUE_TYPE = 'NORMAL_QUEUE'")
        created = row.pop("CREATED")
        assert self.when(created) == NOW
        qid = row.pop("QID")
        with self.hub.read() as conn:
            assert qid == transfer.resolve(conn, "orders").id
        assert row == {
            "OWNER": "MGW",
            "NAME": "ORDERS",
            "QUEUE_TABLE": "ORDERS_T",
            "QUEUE_TYPE": "NORMAL_QUEUE",
            "MAX_RETRIES": 3,
            "RETRY_DELAY": 1.5,
            "ENQUEUE_ENABLED": "YES",
            "DEQUEUE_ENABLED": "NO",
            "RETENTION": "60",
            "USER_COMMENT": "to the mill",
            "NETWORK_NAME": None,
            "SHARDED": "FALSE",
        }
        exceptions = self.row("SELECT * FROM DBA_QUEUES WHERE QUEUE_TYPE = 'EXCEPTION_QUEUE'")
        shown = [exceptions[name] for name in ("NAME", "MAX_RETRIES", "RETENTION", "ENQUEUE_ENABLED")]
        assert shown == ["AQ$_ORDERS_T_E", 0, "0", "NO"]

    @pytest.mark.parametrize(("seconds", "shown"), [(-1, "FOREVER"), (0, "0"), (0.5, "0.5"), (86400, "86400")])
    def test_retention_is_text(self, seconds: float, shown: str) -> None:
        self.queue(retention_time=seconds)
        assert self.row("SELECT RETENTION FROM DBA_QUEUES WHERE NAME = 'ORDERS'") == {"RETENTION": shown}

    def test_subscriber_is_shown_as_documented(self) -> None:
        self.topic("red")
        self.admin.add_subscriber("events", "Green", rule="tab.priority < 3", delivery_mode="PERSISTENT_OR_BUFFERED")
        self.send("events", "x", recipients=["nobody subscribed"])
        red, green = self.rows("SELECT * FROM DBA_QUEUE_SUBSCRIBERS ORDER BY CONSUMER_NAME DESC")
        assert red["CONSUMER_NAME"] == "RED"
        assert green.pop("SUBSCRIBER_ID") > red["SUBSCRIBER_ID"]
        assert green == {
            "OWNER": "MGW",
            "QUEUE_NAME": "EVENTS",
            "QUEUE_TABLE": "EVENTS_T",
            "CONSUMER_NAME": "GREEN",
            "ADDRESS": None,
            "PROTOCOL": 0,
            "TRANSFORMATION": None,
            "RULE": "tab.priority < 3",
            "DELIVERY_MODE": "PERSISTENT_OR_BUFFERED",
            "IF_NONDURABLE_SUBSCRIBER": "NO",
            "QUEUE_TO_QUEUE": "FALSE",
            "POS_BITMAP": None,
            "OPTIONS": "{}",
        }

    def test_user_views_show_the_schema_of_the_user_without_owner(self) -> None:
        self.topic("RED")
        self.admin.create_queue_table("mill.news_t", multiple_consumers=True)
        self.admin.create_queue("mill.news", "mill.news_t")
        self.admin.add_subscriber("mill.news", "GREEN")
        for kind, column, ours, theirs in (
            ("QUEUE_TABLES", "QUEUE_TABLE", "EVENTS_T", "NEWS_T"),
            ("QUEUES", "NAME", "EVENTS", "NEWS"),
            ("QUEUE_SUBSCRIBERS", "QUEUE_NAME", "EVENTS", "NEWS"),
        ):
            everything = {(row["OWNER"], row[column]) for row in self.rows(f"SELECT * FROM DBA_{kind}")}
            assert {("MGW", ours), ("MILL", theirs)} <= everything
            own = self.rows(f"SELECT * FROM USER_{kind}")
            names = {row[column] for row in own}
            assert ours in names
            assert theirs not in names
            assert "OWNER" not in own[0]
            if self.hub.postgresql:
                with self.reader() as run:
                    run("SET aq.username = 'Mill'")
                    names = {row[column] for row in run(f"SELECT * FROM USER_{kind}")}
                assert theirs in names
                assert ours not in names

    def test_transformations_are_shown_with_their_expressions(self) -> None:
        self.admin.create_type("mill.point", {"x": "NUMBER", "y": "NUMBER"})
        self.admin.create_transformation("Calm", "BASIC", "BASIC", "source.user_data", comment="nothing")
        self.admin.create_transformation("later", "JSON", "JSON", {"set": {"priority": "9"}})
        self.admin.create_transformation("mill.flip", "mill.point", "mill.point", "source.user_data")
        self.admin.modify_transformation("mill.flip", 2, "source.user_data.x")
        self.admin.modify_transformation("mill.flip", 1, "source.user_data.y")
        rows = self.rows("SELECT * FROM DBA_TRANSFORMATIONS ORDER BY OWNER, NAME")
        assert len({row.pop("TRANSFORMATION_ID") for row in rows}) == 3
        assert [tuple(row.values()) for row in rows] == [
            ("MGW", "CALM", "BASIC", "BASIC", "nothing"),
            ("MGW", "LATER", "JSON", "JSON", None),
            ("MILL", "FLIP", "MILL.POINT", "MILL.POINT", None),
        ]
        rows = self.rows("SELECT * FROM DBA_ATTRIBUTE_TRANSFORMATIONS ORDER BY OWNER, NAME, ATTRIBUTE")
        shown = [tuple(row[name] for name in ("NAME", "ATTRIBUTE", "ATTRIBUTE_TRANSFORMATION")) for row in rows]
        assert shown[0] == ("CALM", 0, "source.user_data")
        assert (*shown[1][:2], json.loads(shown[1][2])) == ("LATER", 0, {"set": {"priority": "9"}})
        assert [each for each in shown[2:] if each[1]] == [
            ("FLIP", 1, "source.user_data.y"),
            ("FLIP", 2, "source.user_data.x"),
        ]
        assert {row["NAME"] for row in self.rows("SELECT * FROM USER_TRANSFORMATIONS")} == {"CALM", "LATER"}
        own = self.rows("SELECT * FROM USER_ATTRIBUTE_TRANSFORMATIONS")
        assert {row["NAME"] for row in own} == {"CALM", "LATER"}
        assert "OWNER" not in own[0]

    def test_subscriber_shows_its_transformation_everywhere(self) -> None:
        self.topic()
        self.admin.create_transformation("calm", "BASIC", "BASIC", "source.user_data")
        self.admin.add_subscriber("events", "RED", rule="1 = 1", transformation="calm")
        for view in ("DBA_QUEUE_SUBSCRIBERS", '"AQ$EVENTS_T_S"', '"AQ$EVENTS_T_R"', '"AQ$EVENTS_S"', '"AQ$EVENTS_R"'):
            assert self.row(f"SELECT * FROM {view}")["TRANSFORMATION"] == "CALM"

    def test_names_that_are_no_ascii_are_shown_in_upper_case(self) -> None:
        self.topic("käufer", name="größe")
        assert self.row("SELECT QUEUE_NAME, CONSUMER_NAME FROM DBA_QUEUE_SUBSCRIBERS") == {
            "QUEUE_NAME": "GRÖSSE",
            "CONSUMER_NAME": "KÄUFER",
        }


class SecurityViewSuite(ViewCase):
    """Privileges and agents, and what they let one see."""

    def seen(self, user: str, sql: str) -> set[Any]:
        """First column of what a user is shown. PostgreSQL only: SQLite knows no users."""
        with self.reader() as run:
            run(f"SET aq.username = '{user}'")
            return {next(iter(row.values())) for row in run(sql)}

    def grants(self) -> None:
        """Three queues: MGW's orders and bills, and the mill's own."""
        self.queue("orders")
        self.topic("RED", name="bills")
        self.admin.create_queue_table("mill.corn_t")
        self.admin.create_queue("mill.corn", "mill.corn_t")
        self.admin.grant_queue_privilege("ALL", "orders", "Mill", grant_option=True)
        self.admin.grant_queue_privilege("DEQUEUE", "bills", "clerk")
        self.admin.grant_role("clerk", "carla")

    def test_privileges_are_shown_with_their_option(self) -> None:
        self.grants()
        QueueAdmin(self.hub, user="mill").grant_queue_privilege("ENQUEUE", "orders", "PUBLIC")
        rows = self.rows("SELECT * FROM QUEUE_PRIVILEGES ORDER BY NAME, GRANTEE")
        assert [tuple(row) for row in rows] == [COLUMNS["QUEUE_PRIVILEGES"]] * 3
        assert [tuple(row.values()) for row in rows] == [
            ("CLERK", "MGW", "BILLS", "MGW", 0, 1),
            ("MILL", "MGW", "ORDERS", "MGW", 2, 2),
            ("PUBLIC", "MGW", "ORDERS", "MILL", 1, 0),
        ]
        if self.hub.postgresql:
            sql = "SELECT name || ' ' || grantee FROM QUEUE_PRIVILEGES"
            assert self.seen("mill", sql) == {"ORDERS MILL", "ORDERS PUBLIC"}
            assert self.seen("Carla", sql) == {"BILLS CLERK", "ORDERS PUBLIC"}
            assert self.seen("otto", sql) == {"ORDERS PUBLIC"}
            assert self.seen("mgw", sql) == {"BILLS CLERK", "ORDERS MILL", "ORDERS PUBLIC"}
            assert self.seen("system", sql) == {"BILLS CLERK", "ORDERS MILL", "ORDERS PUBLIC"}

    def test_all_views_show_what_the_user_may_use(self) -> None:
        self.grants()
        normal = "SELECT name FROM ALL_QUEUES WHERE queue_type = 'NORMAL_QUEUE'"
        tables = "SELECT queue_table FROM ALL_QUEUE_TABLES"
        readers = "SELECT queue_name FROM ALL_QUEUE_SUBSCRIBERS"
        everything = {"ORDERS", "BILLS", "CORN"}
        assert {row["NAME"] for row in self.rows(normal)} == everything
        assert {row["QUEUE_TABLE"] for row in self.rows(tables)} == {"ORDERS_T", "BILLS_T", "CORN_T"}
        assert {row["QUEUE_NAME"] for row in self.rows(readers)} == {"BILLS"}
        if not self.hub.postgresql:
            return
        assert (self.seen("mill", normal), self.seen("mill", tables)) == ({"ORDERS", "CORN"}, {"ORDERS_T", "CORN_T"})
        assert (self.seen("carla", normal), self.seen("carla", readers)) == ({"BILLS"}, {"BILLS"})
        assert self.seen("mill", readers) == set()
        assert self.seen("otto", normal) == self.seen("otto", tables) == set()
        self.admin.grant_system_privilege("ENQUEUE_ANY", "otto")
        assert (self.seen("otto", normal), self.seen("otto", readers)) == (everything, set())
        self.admin.grant_system_privilege("DEQUEUE_ANY", "otto")
        assert self.seen("otto", readers) == {"BILLS"}
        self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "boss")
        assert (self.seen("boss", normal), self.seen("boss", readers)) == (everything, {"BILLS"})

    def test_agents_are_shown_with_their_users(self) -> None:
        self.admin.create_aq_agent("Web", enable_http=True)
        self.admin.create_aq_agent("idle")
        self.admin.enable_db_access("web", "carla")
        self.admin.enable_db_access("web", "otto")
        rows = self.rows("SELECT * FROM AQ$INTERNET_USERS ORDER BY AGENT_NAME, DB_USERNAME")
        assert [tuple(row.values()) for row in rows] == [
            ("IDLE", None, "NO", "NO"),
            ("WEB", "CARLA", "YES", "NO"),
            ("WEB", "OTTO", "YES", "NO"),
        ]


class SubscriberViewSuite(ViewCase):
    """``AQ$<queue table>_S``, ``_R`` and those of queues."""

    def names(self) -> set[str]:
        """Of all views made with queue tables and queues."""
        if self.hub.postgresql:
            rows = self.rows("SELECT viewname AS name FROM pg_views WHERE schemaname = current_schema()")
        else:
            rows = self.rows("SELECT name FROM sqlite_master WHERE type = 'view'")
        return {row["NAME"] for row in rows if row["NAME"].startswith("AQ$") and row["NAME"] != "AQ$INTERNET_USERS"}

    def test_views_come_and_go_with_their_objects(self) -> None:
        self.topic()
        table = {"AQ$EVENTS_T", "AQ$EVENTS_T_S", "AQ$EVENTS_T_R"}
        assert self.names() == table | {"AQ$EVENTS_S", "AQ$EVENTS_R"}
        self.admin.stop_queue("events")
        self.admin.drop_queue("events")
        assert self.names() == table
        self.admin.create_queue("again", "events_t")
        self.admin.drop_queue_table("events_t", force=True)
        assert self.names() == set()

    def test_single_consumer_queues_have_no_subscriber_views(self) -> None:
        self.queue()
        assert self.names() == {"AQ$ORDERS_T"}

    def test_subscribers_and_rules_are_shown(self) -> None:
        self.topic("RED", name="events")
        self.admin.create_queue("news", "events_t")
        self.admin.add_subscriber("news", "press", rule="tab.priority < 3")
        red = {"QUEUE": "EVENTS", "NAME": "RED", "ADDRESS": None, "PROTOCOL": 0, "TRANSFORMATION": None}
        press = {**red, "QUEUE": "NEWS", "NAME": "PRESS"}
        not_q2q = {"QUEUE_TO_QUEUE": "FALSE"}
        assert self.rows('SELECT * FROM "AQ$EVENTS_T_S" ORDER BY "QUEUE"') == [red | not_q2q, press | not_q2q]
        assert self.rows('SELECT * FROM "AQ$NEWS_S"') == [press | not_q2q]
        assert self.rows('SELECT * FROM "AQ$EVENTS_S"') == [red | not_q2q]
        ruled = press | {"RULE": "tab.priority < 3", "RULE_SET": None}
        assert self.rows('SELECT * FROM "AQ$EVENTS_T_R"') == [ruled]
        assert self.rows('SELECT * FROM "AQ$NEWS_R"') == [ruled]
        assert self.rows('SELECT * FROM "AQ$EVENTS_R"') == []
        self.admin.remove_subscriber("news", "press")
        assert self.rows('SELECT * FROM "AQ$NEWS_S"') == []

    def test_columns_are_the_documented_ones(self) -> None:
        self.topic("RED")
        self.send("events", "x")
        self.admin.alter_subscriber("events", "RED", rule="1 = 1")
        for view, name in (
            ("AQ$<queue table>", "AQ$EVENTS_T"),
            ("AQ$<queue table>_S", "AQ$EVENTS_T_S"),
            ("AQ$<queue table>_R", "AQ$EVENTS_T_R"),
            ("AQ$<queue>_S", "AQ$EVENTS_S"),
            ("AQ$<queue>_R", "AQ$EVENTS_R"),
        ):
            assert tuple(self.row(f'SELECT * FROM "{name}"')) == COLUMNS[view], name

    def test_messages_go_first_where_two_views_want_one_name(self) -> None:
        self.topic("RED", name="a")  # AQ$A_S
        self.admin.create_queue_table("a_s")  # wants it, too
        self.admin.create_queue("plain", "a_s")
        self.admin.start_queue("plain")
        self.send("plain", "x")
        assert self.row('SELECT "QUEUE" FROM "AQ$A_S"') == {"QUEUE": "PLAIN"}
        qid = self.row("SELECT QID FROM DBA_QUEUES WHERE NAME = 'A'")["QID"]
        assert self.row(f'SELECT "NAME" FROM "AQ$#Q{qid}_S"') == {"NAME": "RED"}
        self.topic("GREEN", name="b")
        self.admin.create_queue("a_t", "b_t")  # AQ$A_T_S is the view of queue table a_t
        qid = self.row("SELECT QID FROM DBA_QUEUES WHERE NAME = 'A_T'")["QID"]
        assert self.rows(f'SELECT "NAME" FROM "AQ$#Q{qid}_S"') == []
        assert self.row('SELECT "NAME" FROM "AQ$A_T_S"') == {"NAME": "RED"}
        for table in ("a_t", "b_t", "a_s"):
            self.admin.drop_queue_table(table, force=True)
        assert self.names() == set()

    def test_queue_called_like_its_table_is_shown_by_the_views_of_the_table(self) -> None:
        self.admin.create_queue_table("events", multiple_consumers=True)
        self.admin.create_queue("events", "events")
        self.admin.add_subscriber("events", "RED")
        assert self.names() == {"AQ$EVENTS", "AQ$EVENTS_S", "AQ$EVENTS_R"}
        assert self.row('SELECT "QUEUE", "NAME" FROM "AQ$EVENTS_S"') == {"QUEUE": "EVENTS", "NAME": "RED"}
        self.admin.drop_queue("events")
        self.admin.drop_queue_table("events")
        assert self.names() == set()

    def test_names_that_collide_with_a_view_of_the_hub_or_look_alike(self) -> None:
        self.admin.create_queue_table("internet_users")
        self.admin.create_queue_table('"mill.t"')
        self.admin.create_queue_table("mill.t")
        shown = {row["QUEUE_TABLE"]: row["MESSAGE_VIEW"] for row in self.rows("SELECT * FROM DBA_QUEUE_TABLES")}
        assert shown["MILL.T"] == "AQ$MILL.T"
        assert set(shown.values()) == self.names()
        assert len(self.names()) == 3
        for table in ("internet_users", '"mill.t"', "mill.t"):
            self.admin.drop_queue_table(table)
        assert self.names() == set()

    def test_long_names_have_views_and_say_which(self) -> None:
        queue, table = "q" * 100, "t" * 100
        self.admin.create_queue_table(table, multiple_consumers=True)
        self.admin.create_queue(queue, table)
        self.admin.start_queue(queue)
        self.admin.add_subscriber(queue, "RED", rule="1 = 1")
        self.send(queue, "x")
        assert len(self.names()) == 5
        view = self.row("SELECT MESSAGE_VIEW FROM DBA_QUEUE_TABLES")["MESSAGE_VIEW"]
        assert self.row(f'SELECT "QUEUE", "CONSUMER_NAME" FROM "{view}"') == {
            "QUEUE": queue.upper(),
            "CONSUMER_NAME": "RED",
        }
        for name in self.names() - {view}:
            assert self.row(f'SELECT "QUEUE", "NAME" FROM "{name}"') == {"QUEUE": queue.upper(), "NAME": "RED"}
        self.admin.drop_queue_table(table, force=True)
        assert self.names() == set()


class MessageViewSuite(ViewCase):
    """``AQ$<queue table>`` along the life of messages."""

    def only(self, table: str = "orders_t") -> dict[str, Any]:
        return self.row(f'SELECT * FROM "AQ${table.upper()}"')

    def test_new_message_shows_what_it_was_sent_with(self) -> None:
        self.queue("Orders")
        self.admin.create_queue("broken", "orders_t", queue_type="EXCEPTION_QUEUE")
        self.clock.time = NOW + 0.25
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "maya")
        with self.hub.session(user="maya") as session:
            message = Message(
                "two pumps",
                priority=-3,
                correlation="customer-7",
                expiration=90,
                exception_queue="broken",
                sender_name="shop",
                sender_address="MGW.FRONT",
                sender_protocol=7,
            )
            msgid = session.enqueue("orders", message)
            transaction = session.transaction_id
            session.commit()
        row = self.only()
        assert self.moments(row, "ENQ_TIME", "ENQ_TIMESTAMP", "DELAY", "DELAY_TIMESTAMP") == [
            NOW,
            NOW + 0.25,
            NOW,
            NOW + 0.25,
        ]
        assert {name: value for name, value in row.items() if value is not None and "TIME" not in name} == {
            "QUEUE": "ORDERS",
            "MSG_ID": msgid.hex().upper(),
            "CORR_ID": "customer-7",
            "MSG_PRIORITY": -3,
            "MSG_STATE": "READY",
            "DELAY": row["DELAY"],
            "EXPIRATION": 90,
            "ENQ_USER_ID": "maya",
            "ENQ_TXN_ID": transaction,
            "RETRY_COUNT": 0,
            "EXCEPTION_QUEUE_OWNER": "MGW",
            "EXCEPTION_QUEUE": "BROKEN",
            "USER_DATA": b"two pumps" if self.hub.postgresql else "two pumps",
            "USER_DATA_TEXT": "two pumps",
            "SENDER_NAME": "shop",
            "SENDER_ADDRESS": "MGW.FRONT",
            "SENDER_PROTOCOL": 7,
            "IN_TRANSACTION": False,
        }

    def test_delayed_message_waits_until_its_delay_is_over(self) -> None:
        self.queue()
        self.send("orders", "x", delay=60, expiration=30)
        row = self.only()
        assert (row["MSG_STATE"], self.when(row["DELAY_TIMESTAMP"])) == ("WAIT", NOW + 60)
        assert self.moments(row, "DELAY", "ENQ_TIMESTAMP") == [NOW + 60, NOW]
        self.run_time(60)
        assert self.only()["MSG_STATE"] == "READY"
        self.run_time(30)
        row = self.only()
        assert (row["MSG_STATE"], row["EXPIRATION_REASON"]) == ("EXPIRED", "TIME_EXPIRATION")
        assert (row["QUEUE"], row["ORIGINAL_QUEUE_OWNER"], row["ORIGINAL_QUEUE_NAME"]) == (
            "AQ$_ORDERS_T_E",
            "MGW",
            "ORDERS",
        )
        assert row["EXPIRATION"] == 30

    def test_retained_message_shows_who_took_it_and_until_when_it_stays(self) -> None:
        self.queue(retention_time=100)
        self.send("orders", "x")
        assert self.moments(self.only(), "RETENTION_TIMESTAMP", "DEQ_TIMESTAMP") == [None, None]
        self.clock.time += 7
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "paul")
        with self.hub.session(user="paul") as session:
            session.dequeue("orders", now())
            transaction = session.transaction_id
            if not self.hub.postgresql:
                assert (self.only()["MSG_STATE"], self.only()["IN_TRANSACTION"]) == ("READY", True)
            session.commit()
        row = self.only()
        assert self.moments(row, "DEQ_TIME", "DEQ_TIMESTAMP", "RETENTION_TIMESTAMP") == [NOW + 7, NOW + 7, NOW + 107]
        assert (row["MSG_STATE"], row["DEQ_USER_ID"], row["DEQ_TXN_ID"]) == ("PROCESSED", "paul", transaction)
        self.run_time(100)
        assert self.rows('SELECT * FROM "AQ$ORDERS_T"') == []

    def test_failed_attempts_are_counted_and_end_in_the_exception_queue(self) -> None:
        self.queue(max_retries=1, retry_delay=20)
        self.send("orders", "x")
        self.fail("orders")
        row = self.only()
        assert (row["MSG_STATE"], row["RETRY_COUNT"], self.when(row["DELAY_TIMESTAMP"])) == ("WAIT", 1, NOW + 20)
        self.run_time(20)
        self.fail("orders")
        row = self.only()
        assert (row["MSG_STATE"], row["RETRY_COUNT"]) == ("EXPIRED", 2)
        assert (row["EXPIRATION_REASON"], row["ORIGINAL_QUEUE_NAME"]) == ("MAX_RETRY_EXCEEDED", "ORDERS")
        assert (row["EXCEPTION_QUEUE_OWNER"], row["EXCEPTION_QUEUE"]) == (None, None)

    def test_message_taken_from_its_exception_queue_is_expired_until_the_commit(self) -> None:
        self.queue(max_retries=0)
        (msgid,) = self.send("orders", "x")
        self.fail("orders")
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        with self.hub.session() as session:
            session.dequeue("AQ$_orders_t_E", now(msgid=msgid))
            assert self.only()["MSG_STATE"] == "EXPIRED"
            if not self.hub.postgresql:
                assert self.only()["IN_TRANSACTION"]
                assert self.row("SELECT EXPIRED FROM V$AQ WHERE EXPIRED > 0") == {"EXPIRED": 1}

    def test_every_consumer_has_a_row_and_a_state(self) -> None:
        self.topic("RED", "GREEN", "BLUE", max_retries=0, retention_time=50)
        (msgid,) = self.send("events", "x", expiration=40)
        self.admin.grant_queue_privilege("DEQUEUE", "events", "rita")
        with self.hub.session(user="rita") as session:
            session.dequeue("events", now(consumer_name="RED"))
            session.commit()
        self.fail("events", "GREEN")
        rows = {row["CONSUMER_NAME"]: row for row in self.rows('SELECT * FROM "AQ$EVENTS_T"')}
        assert {name: row["MSG_STATE"] for name, row in rows.items()} == {
            "RED": "PROCESSED",
            "GREEN": "UNDELIVERABLE",
            "BLUE": "READY",
        }
        assert {row["MSG_ID"] for row in rows.values()} == {msgid.hex().upper()}
        assert (rows["RED"]["DEQ_USER_ID"], self.when(rows["RED"]["DEQ_TIMESTAMP"])) == ("rita", NOW)
        assert self.when(rows["RED"]["RETENTION_TIMESTAMP"]) == NOW + 50
        assert (rows["GREEN"]["RETRY_COUNT"], rows["BLUE"]["RETRY_COUNT"]) == (1, 0)
        assert {(row["ADDRESS"], row["PROTOCOL"], row["PROPAGATED_MSGID"]) for row in rows.values()} == {
            (None, 0, None)
        }
        self.run_time(40)
        rows = {row["CONSUMER_NAME"]: row for row in self.rows('SELECT * FROM "AQ$EVENTS_T"')}
        assert {(row["MSG_STATE"], row["QUEUE"], row["ORIGINAL_QUEUE_NAME"]) for row in rows.values()} == {
            ("EXPIRED", "AQ$_EVENTS_T_E", "EVENTS")
        }
        assert rows["RED"]["DEQ_USER_ID"] == "rita"
        assert self.moments(rows["RED"], "RETENTION_TIMESTAMP") == [None]

    def test_message_stays_until_the_retention_after_its_last_consumer(self) -> None:
        self.topic("RED", "GREEN", retention_time=50)
        self.send("events", "x")
        assert self.take("events", "RED") == ["x"]
        self.clock.time += 30
        assert self.take("events", "GREEN") == ["x"]
        self.run_time()
        rows = self.rows('SELECT * FROM "AQ$EVENTS_T"')
        assert [(row["MSG_STATE"], self.when(row["RETENTION_TIMESTAMP"])) for row in rows] == [
            ("PROCESSED", NOW + 80)
        ] * 2
        self.run_time(50)
        assert self.rows('SELECT * FROM "AQ$EVENTS_T"') == []

    def test_message_nobody_waits_for_any_more_is_processed(self) -> None:
        self.topic("RED")
        self.send("events", "x")
        self.admin.remove_subscriber("events", "RED")
        row = self.only("events_t")
        assert (row["MSG_STATE"], row["CONSUMER_NAME"]) == ("PROCESSED", None)
        self.run_time()
        assert self.rows('SELECT * FROM "AQ$EVENTS_T"') == []

    @pytest.mark.parametrize(
        ("given", "owner", "name"),
        [
            ("broken", "MGW", "BROKEN"),
            ("mill.broken", "MILL", "BROKEN"),
            ('"mill"."a.b"', "MILL", "A.B"),
            ('"a.b"', "MGW", "A.B"),
            ('mill."a.b"', "MILL", "A.B"),
            (None, None, None),
        ],
    )
    def test_exception_queue_is_shown_with_its_owner(self, given: str | None, owner: str | None, name: str) -> None:
        self.queue()
        self.send("orders", "x", exception_queue=given)
        row = self.only()
        assert (row["EXCEPTION_QUEUE_OWNER"], row["EXCEPTION_QUEUE"]) == (owner, name)

    @pytest.mark.parametrize(
        ("payload", "body", "data", "text"),
        [
            ("RAW", b"\x00\xff", b"\x00\xff", None),
            ("RAW", b"", b"", None),
            ("RAW", None, None, None),
            ("TEXT", "grün", "grün", "grün"),
            ("JSON", '{"a": 1}', '{"a": 1}', '{"a": 1}'),
            ("XMLTYPE", "<a/>", "<a/>", "<a/>"),
        ],
    )
    def test_user_data_is_of_the_payload_type(self, payload: str, body: Any, data: Any, text: str | None) -> None:
        self.queue(table={"queue_payload_type": payload})
        self.send("orders", body)
        row = self.only()
        assert (row["USER_DATA"], row["USER_DATA_TEXT"]) == (data, text)


class ActivityViewSuite(ViewCase):
    """V$AQ and the V$PERSISTENT_ views."""

    def numbers(self, queue: str) -> dict[str, Any]:
        return self.row("SELECT v.* FROM V$AQ v JOIN DBA_QUEUES q ON q.QID = v.QID WHERE q.NAME = ?", queue.upper())

    def counts(self, queue: str) -> tuple[int, int, int]:
        row = self.numbers(queue)
        return row["WAITING"], row["READY"], row["EXPIRED"]

    def activity(self, kind: str, queue: str, **where: str) -> dict[str, Any]:
        more = "".join(f" AND {column} = ?" for column in where)
        return self.row(f"SELECT * FROM V$PERSISTENT_{kind} WHERE QUEUE_NAME = ?{more}", queue.upper(), *where.values())

    def test_messages_are_counted_by_state(self) -> None:
        self.queue(max_retries=0)
        assert self.counts("orders") == (0, 0, 0)
        self.send("orders", "a", "b", "c")
        self.send("orders", "later", delay=60)
        assert self.counts("orders") == (1, 3, 0)
        self.fail("orders")
        assert self.counts("orders") == (1, 2, 0)
        assert self.counts("AQ$_orders_t_E") == (0, 0, 1)
        with self.hub.session() as session:
            session.dequeue("orders", now())
            assert self.counts("orders") == (1, 2, 0)  # in a transaction, and still there
            session.commit()
        self.run_time(60)
        assert self.counts("orders") == (0, 2, 0)
        everywhere = self.rows("SELECT * FROM GV$AQ ORDER BY QID")
        assert [{"INST_ID": 1, **row} for row in self.rows("SELECT * FROM V$AQ ORDER BY QID")] == [
            {**row, "TOTAL_WAIT": pytest.approx(row["TOTAL_WAIT"]), "AVERAGE_WAIT": pytest.approx(row["AVERAGE_WAIT"])}
            for row in everywhere
        ]

    def test_multi_consumer_message_counts_once_and_waits_only_if_all_wait(self) -> None:
        self.topic("RED", "GREEN", retry_delay=60)
        self.send("events", "a", "b")
        self.send("events", "later", delay=60)
        assert self.counts("events") == (1, 2, 0)
        self.fail("events", "RED")
        assert self.counts("events") == (1, 2, 0)  # GREEN could have it
        self.fail("events", "GREEN")
        assert self.counts("events") == (2, 1, 0)
        assert self.take("events", "RED") == ["b"]
        assert self.counts("events") == (2, 1, 0)

    def test_wait_is_told_in_seconds(self) -> None:
        self.clock.time = datetime.now(UTC).timestamp() - 100
        self.queue()
        self.send("orders", "a", "b")
        self.clock.time += 50
        self.send("orders", "c")
        row = self.numbers("orders")
        assert row["TOTAL_WAIT"] == pytest.approx(250, abs=30)
        assert row["AVERAGE_WAIT"] == pytest.approx(row["TOTAL_WAIT"] / 3, abs=10)
        assert row["CON_ID"] == 0

    def test_queue_that_did_nothing_has_no_activity(self) -> None:
        self.queue()
        assert self.take("orders") == []
        self.run_time()
        assert self.rows("SELECT * FROM V$PERSISTENT_QUEUES") == []

    def test_activity_of_a_queue(self) -> None:
        self.queue()
        self.send("orders", "a", "b", "c")
        self.clock.time += 10
        self.send("orders", "soon", delay=5)
        self.send("orders", "short", expiration=7)
        with self.hub.session() as session:
            browse = DequeueOptions(wait=0, dequeue_mode=DequeueMode.BROWSE)
            session.dequeue_array("orders", browse, 2)
        self.clock.time += 1
        with self.hub.session() as session:
            session.dequeue_array("orders", now(), 2)
            session.rollback()
            session.dequeue_array("orders", now(), 2)
            session.commit()
        self.run_time(10)
        row = self.activity("QUEUES", "orders")
        assert self.moments(
            row,
            "FIRST_ACTIVITY_TIME",
            "LAST_ENQUEUE_TIME",
            "LAST_DEQUEUE_TIME",
            "LAST_TM_EXPIRY_TIME",
            "LAST_TM_READY_TIME",
        ) == [NOW, NOW + 10, NOW + 11, NOW + 21, NOW + 21]
        counted = {name: value for name, value in row.items() if name.endswith(("_MSGS", "_TRANSACTIONS"))}
        assert counted == {
            "ENQUEUED_MSGS": 5,
            "DEQUEUED_MSGS": 2,
            "BROWSED_MSGS": 2,
            "ENQUEUED_EXPIRY_MSGS": 1,
            "ENQUEUED_DELAY_MSGS": 1,
            "ENQUEUE_TRANSACTIONS": 3,
            "DEQUEUE_TRANSACTIONS": 1,
        }
        assert (row["MSGS_MADE_EXPIRED"], row["MSGS_MADE_READY"], row["DEQUEUED_MSG_LATENCY"]) == (1, 1, 11)
        assert 0 < row["ELAPSED_ENQUEUE_TIME"] < 1000
        assert 0 < row["ELAPSED_DEQUEUE_TIME"] < 1000
        assert row["ELAPSED_RULE_EVALUATION_TIME"] == 0
        assert (row["ENQUEUE_CPU_TIME"], row["DEQUEUE_CPU_TIME"]) == (None, None)
        with self.hub.read() as conn:
            ref = transfer.resolve(conn, "orders")
        assert (row["QUEUE_ID"], row["QUEUE_TABLE_ID"], row["QUEUE_SCHEMA"]) == (ref.id, ref.queue_table_id, "MGW")

    def test_what_is_rolled_back_does_not_count(self) -> None:
        self.queue()
        self.send("orders", "kept")
        with self.hub.session() as session:
            session.enqueue("orders", Message("undone"))
            session.rollback()
            session.enqueue("orders", Message("kept, too"))
            session.commit()
        with self.hub.engine.connect() as connection:
            session = self.hub.session(connection)
            session.dequeue("orders", now())
            session.enqueue("orders", Message("undone"))
            connection.rollback()
        self.run_time()
        row = self.activity("QUEUES", "orders")
        assert (row["ENQUEUED_MSGS"], row["DEQUEUED_MSGS"]) == (2, 0)
        with self.hub.engine.connect() as connection:
            session = self.hub.session(connection)
            session.dequeue("orders", now())
            session.enqueue("orders", Message("answer"))
            connection.commit()
        self.run_time()
        row = self.activity("QUEUES", "orders")
        assert (row["ENQUEUED_MSGS"], row["DEQUEUED_MSGS"]) == (3, 1)

    def test_retained_and_shared_messages_count_as_dequeued_when_they_go(self) -> None:
        self.queue(retention_time=10)
        self.topic("RED", "GREEN")
        self.send("orders", "x")
        self.send("events", "y")
        assert self.take("orders") == ["x"]
        assert self.take("events", "RED") == ["y"]
        self.run_time()
        assert self.activity("QUEUES", "orders")["DEQUEUED_MSGS"] == 0
        assert self.activity("QUEUES", "events")["DEQUEUED_MSGS"] == 0
        assert self.activity("SUBSCRIBERS", "events", SUBSCRIBER_NAME="RED")["DEQUEUED_MSGS"] == 1
        assert self.take("events", "GREEN") == ["y"]
        self.run_time(10)
        assert self.activity("QUEUES", "orders")["DEQUEUED_MSGS"] == 1
        assert self.activity("QUEUES", "events")["DEQUEUED_MSGS"] == 1

    def test_activity_of_consumers(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "a", "b", expiration=60)
        self.clock.time += 2
        self.send("events", "c", recipients=["BLUE"])
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="GREEN", dequeue_mode=DequeueMode.BROWSE))
        assert self.take("events", "RED") == ["a", "b"]
        self.run_time(60)
        red = self.activity("SUBSCRIBERS", "events", SUBSCRIBER_NAME="RED")
        assert self.moments(red, "FIRST_ACTIVITY_TIME", "LAST_ENQUEUE_TIME", "LAST_DEQUEUE_TIME") == [NOW, NOW, NOW + 2]
        assert (red["SUBSCRIBER_TYPE"], red["SUBSCRIBER_ADDRESS"], red["PROTOCOL"]) == ("SUBSCRIBER", None, 0)
        assert (red["ENQUEUED_MSGS"], red["DEQUEUED_MSGS"], red["BROWSED_MSGS"], red["EXPIRED_MSGS"]) == (2, 2, 0, 0)
        assert red["DEQUEUED_MSG_LATENCY"] == 2
        green = self.activity("SUBSCRIBERS", "events", SUBSCRIBER_NAME="GREEN")
        counted = [green[f"{what}_MSGS"] for what in ("ENQUEUED", "DEQUEUED", "BROWSED", "EXPIRED")]
        assert counted == [2, 0, 1, 2]
        assert (green["DEQUEUED_MSG_LATENCY"], green["LAST_DEQUEUE_TIME"]) == (None, None)
        blue = self.activity("SUBSCRIBERS", "events", SUBSCRIBER_NAME="BLUE")
        assert (blue["SUBSCRIBER_TYPE"], blue["ENQUEUED_MSGS"]) == ("RECIPIENT", 1)
        assert self.activity("QUEUES", "events")["MSGS_MADE_EXPIRED"] == 2

    def test_activity_of_publishers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue()
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "maya")
        with self.hub.session(user="maya") as session:
            session.enqueue_array("orders", [Message("a", sender_name="shop"), Message("b"), Message("c")])
            session.enqueue("orders", Message("d", sender_name="shop"))
            session.commit()
            session.enqueue("orders", Message("e", sender_name="shop"))
            session.commit()
        self.send("orders", "f")
        self.send("orders", "g", sender_name="shop", sender_address="MGW.FRONT", sender_protocol=7)
        self.run_time()
        remote = self.row("SELECT * FROM V$PERSISTENT_PUBLISHERS WHERE PROTOCOL = 7")
        assert (remote["PUBLISHER_NAME"], remote["PUBLISHER_ADDRESS"], remote["ENQUEUED_MSGS"]) == (
            "shop",
            "MGW.FRONT",
            1,
        )
        with self.hub.write() as conn:
            conn.exec_driver_sql("DELETE FROM aq_activity WHERE protocol = 7")
        rows = {row["PUBLISHER_NAME"]: row for row in self.rows("SELECT * FROM V$PERSISTENT_PUBLISHERS")}
        assert {
            name: (row["ENQUEUED_MSGS"], row["ENQUEUE_TRANSACTIONS"], row["PUBLISHER_ADDRESS"], row["PROTOCOL"])
            for name, row in rows.items()
        } == {"shop": (3, 2, None, 0), "maya": (2, 1, None, 0), None: (1, 1, None, 0)}
        assert all(self.when(row["LAST_ENQUEUE_TIME"]) == NOW for row in rows.values())
        assert all(row["ELAPSED_ENQUEUE_TIME"] > 0 for row in rows.values())
        monkeypatch.setattr(statistics, "MAX_PUBLISHERS", 5)
        for number in range(5):
            self.send("orders", "x", sender_name=f"sender {number}")
        self.run_time()
        names = {
            row["PUBLISHER_NAME"]: row["ENQUEUED_MSGS"] for row in self.rows("SELECT * FROM V$PERSISTENT_PUBLISHERS")
        }
        assert names == {"shop": 3, "maya": 2, None: 1, "sender 0": 1, "(others)": 4}

    def test_jobs_count_what_they_move(self) -> None:
        self.topic("RED")
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, "events")
        with self.hub.write() as conn:
            transfer.put(conn, queue, [Message(str(n)) for n in range(10)])
        self.clock.time += 3
        with self.hub.write() as conn:
            claimed = transfer.claim(conn, queue, "RED", 6)
        with self.hub.write() as conn:
            transfer.complete(conn, queue, "RED", [one.id for one in claimed[:4]])
            transfer.release(conn, queue, "RED", [one.id for one in claimed[4:]])
        with pytest.raises(ZeroDivisionError):
            self.put_and_fail(queue)
        self.run_time()
        row = self.activity("QUEUES", "events")
        assert (row["ENQUEUED_MSGS"], row["DEQUEUED_MSGS"], row["DEQUEUED_MSG_LATENCY"]) == (10, 4, 3)
        row = self.activity("SUBSCRIBERS", "events", SUBSCRIBER_NAME="RED")
        assert (row["ENQUEUED_MSGS"], row["DEQUEUED_MSGS"]) == (10, 4)

    def put_and_fail(self, queue: transfer.QueueRef) -> None:
        with self.hub.write() as conn:
            transfer.put(conn, queue, [Message("undone")])
            raise ZeroDivisionError

    def test_time_of_transformations_is_told(self) -> None:
        self.topic()
        self.admin.create_transformation("calm", "BASIC", "BASIC", "source.user_data")
        self.admin.add_subscriber("events", "RED", transformation="calm")
        self.send("events", "x")
        self.run_time()
        assert self.activity("QUEUES", "events")["ELAPSED_TRANSFORMATION_TIME"] == 0
        assert self.take("events", "RED") == ["x"]
        self.run_time()
        told = self.activity("QUEUES", "events")["ELAPSED_TRANSFORMATION_TIME"]
        assert told > 0
        with self.hub.session() as session:
            session.enqueue("events", Message("y"), EnqueueOptions(transformation="calm"))
            session.commit()
        self.run_time()
        assert self.activity("QUEUES", "events")["ELAPSED_TRANSFORMATION_TIME"] > told

    def test_time_of_rules_is_told(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "RED", rule="tab.priority < 3")
        self.send("events", "x")
        self.run_time()
        assert self.activity("QUEUES", "events")["ELAPSED_RULE_EVALUATION_TIME"] > 0

    def test_time_manager_is_shown_per_queue_table(self) -> None:
        self.queue()
        self.topic("RED", "GREEN", retention_time=30)
        self.send("orders", "later", delay=60, expiration=10)
        self.send("events", "x")
        rows = (
            "SELECT c.* FROM V$PERSISTENT_QMN_CACHE c JOIN aq_queue_table t ON t.id = c.QUEUE_TABLE_ID WHERE t.name = ?"
        )
        row = self.row(rows, "orders_t")
        assert (row["STATUS"], row["TOTAL_RUNS"], row["TMGR_ROWS_PROCESSED"]) == (0, 0, 0)
        assert self.moments(row, "NEXT_SERVICE_TIME", "LAST_TMGR_PROCESSING_TIME") == [NOW + 60, None]
        assert self.take("events", "RED") == self.take("events", "GREEN") == ["x"]
        self.run_time()
        row = self.row(rows, "events_t")
        assert (row["STATUS"], row["TOTAL_RUNS"], row["DEQLOG_ROWS_PROCESSED"]) == (1, 1, 2)
        assert self.moments(row, "LAST_DEQLOG_PROCESSING_TIME", "NEXT_SERVICE_TIME") == [NOW, None]
        self.run_time(60)
        self.run_time(10)
        row = self.row(rows, "orders_t")
        assert (row["TOTAL_RUNS"], row["TMGR_ROWS_PROCESSED"]) == (3, 2)
        assert self.moments(row, "LAST_TMGR_PROCESSING_TIME", "NEXT_SERVICE_TIME") == [NOW + 70, None]
        assert row["TMGR_ELAPSED_TIME"] > 0
        assert row["TOTAL_ELAPSED_TIME"] == pytest.approx(
            row["TMGR_ELAPSED_TIME"] + row["DEQLOG_PROCESSING_ELAPSED_TIME"]
        )
        assert self.row(rows, "events_t")["TMGR_ROWS_PROCESSED"] == 1  # its retention was over

    def test_processes_are_shown_with_what_they_do_in_the_background(self) -> None:
        self.queue()
        self.send("orders", "x")
        views = ("AQ_BACKGROUND_COORDINATOR", "AQ_JOB_COORDINATOR", "AQ_SERVER_POOL")
        assert [self.rows(f"SELECT * FROM V${view}") for view in views] == [[], [], []]
        self.hub.statistics.flush(self.hub)
        idle = self.row("SELECT * FROM V$AQ_SERVER_POOL")
        assert (idle["PROCESS_ID"], idle["POOL_STATE"], idle["JOB_NAME"]) == (os.getpid(), "IDLE", None)
        assert self.rows("SELECT * FROM V$AQ_BACKGROUND_COORDINATOR") == []
        self.send("orders", "y")  # a pass after which there is nothing new to count stores nothing
        self.run_time()
        coordinator, job, server = (self.row(f"SELECT * FROM V${view}") for view in views)
        assert (coordinator["PROCESS_ID"], coordinator["NUM_JOBS"]) == (os.getpid(), 1)
        assert coordinator["JOB_LATENCY"] > 0
        assert (job["JOB_NAME"], job["SERVER_COUNT"]) == ("TIME MANAGER", 1)
        assert (server["COORDINATOR_ID"], server["POOL_STATE"]) == (job["COORDINATOR_ID"], "ACTIVE")
        for view, row in zip(views, (coordinator, job, server), strict=True):
            assert self.row(f"SELECT * FROM GV${view}") == {"INST_ID": 1, **row}
        assert self.row("SELECT * FROM V$METRICGROUP")["INTERVAL_SIZE"] == statistics.FLUSH_SECONDS * 100

    def test_processes_add_up_and_vanish_when_they_close(self) -> None:
        self.queue()
        self.send("orders", "mine")
        self.run_time()
        with Hub.open(self.url, clock=self.clock) as other:
            with other.session() as session:
                session.enqueue_array("orders", [Message("theirs")] * 2)
                session.commit()
            self.clock.time += 5
            with other.session() as session:
                session.dequeue("orders", now())
                session.commit()
            time_manager.run_once(other)
            row = self.activity("QUEUES", "orders")
            assert (row["ENQUEUED_MSGS"], row["DEQUEUED_MSGS"], row["DEQUEUED_MSG_LATENCY"]) == (3, 1, 5)
            assert self.moments(row, "FIRST_ACTIVITY_TIME", "LAST_DEQUEUE_TIME") == [NOW, NOW + 5]
            assert self.activity("PUBLISHERS", "orders")["ENQUEUED_MSGS"] == 3
        row = self.activity("QUEUES", "orders")
        assert (row["ENQUEUED_MSGS"], row["DEQUEUED_MSGS"]) == (1, 0)

    def test_killed_process_is_forgotten(self) -> None:
        self.queue()
        here, there = CHILDREN.Pipe()
        process = CHILDREN.Process(target=_count_and_hang, args=(self.url, there))
        process.start()
        there.close()
        assert here.recv() == "counted"
        assert self.activity("QUEUES", "orders")["ENQUEUED_MSGS"] == 1
        self.run_time()
        assert self.activity("QUEUES", "orders")["ENQUEUED_MSGS"] == 1
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(timeout=20)
        here.close()
        self.run_time()
        assert self.rows("SELECT * FROM V$PERSISTENT_QUEUES") == []

    def test_process_taken_for_ended_comes_back_with_all_it_counted(self) -> None:
        self.queue()
        self.queue("other")
        self.send("orders", "x")
        self.run_time()
        with self.hub.write() as conn:
            conn.exec_driver_sql("DELETE FROM aq_activity")
            conn.exec_driver_sql("DELETE FROM aq_process")
        self.send("other", "y")
        self.run_time()
        assert self.activity("QUEUES", "orders")["ENQUEUED_MSGS"] == 1
        assert self.activity("QUEUES", "other")["ENQUEUED_MSGS"] == 1

    def test_session_stores_the_numbers_now_and_then(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue()
        self.send("orders", "x")
        assert self.rows("SELECT * FROM V$PERSISTENT_QUEUES") == []
        monkeypatch.setattr(statistics.time, "monotonic", lambda: 1e12)
        self.send("orders", "y")
        assert self.activity("QUEUES", "orders")["ENQUEUED_MSGS"] == 2

    def test_dropped_queue_is_not_shown(self) -> None:
        self.queue()
        self.send("orders", "x")
        self.run_time()
        self.admin.drop_queue_table("orders_t", force=True)
        assert self.rows("SELECT * FROM V$PERSISTENT_QUEUES") == []
        assert self.rows("SELECT * FROM V$AQ") == []


def _count_and_hang(url: str, pipe: Connection) -> None:
    with Hub.open(url, clock=ManualClock()) as hub:
        with hub.session() as session:
            session.enqueue("orders", Message("x"))
            session.commit()
        hub.statistics.flush(hub)
        pipe.send("counted")
        pipe.poll(60)
