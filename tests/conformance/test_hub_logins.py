"""Programs that use the hub with a PostgreSQL login of their own: what they may do, and what they may not."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.admin.roles_sql import role_statements
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import Agent, DequeueMode, DequeueOptions, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import AqError, HubError
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw
from tests.conformance.hub_suite import ManualClock, now, refused
from tests.conformance.hub_suite_security import SecurityCase
from tests.support.brokers import PostgreSQL
from tests.support.kept_totals import differences
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgresql

_number = itertools.count(1)


@pytest.fixture(scope="module")
def database(postgresql: PostgreSQL) -> Iterator[str]:
    yield postgresql.create_database("hub_logins")
    postgresql.drop_database("hub_logins")


@pytest.fixture
def hub_url(database: str) -> Iterator[str]:
    name = f"hub{next(_number)}"
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as conn:
        conn.exec_driver_sql(f"CREATE SCHEMA {name}")
        conn.exec_driver_sql("CREATE ROLE teller LOGIN")
    try:
        yield f"{database}?options=-csearch_path%3D{name}"
    finally:
        with engine.begin() as conn:
            conn.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")
            conn.exec_driver_sql("DROP SCHEMA IF EXISTS aq CASCADE")
            conn.exec_driver_sql("DROP OWNED BY teller; DROP ROLE teller; DROP ROLE IF EXISTS queue_clients")


class TestGrantsAtTheSameTime(SecurityCase):
    """A grant that is being revoked cannot be passed on meanwhile."""

    def test_who_passes_on_waits_for_who_revokes(self) -> None:
        self.queue()
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "a", grant_option=True)
        refusals: list[AqError] = []

        def pass_on() -> None:
            try:
                self.as_admin("a").grant_queue_privilege("ENQUEUE", "orders", "b")
            except AqError as error:
                refusals.append(error)

        def waits() -> bool:
            with self.hub.read() as conn:
                return bool(Db(conn).rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))

        thread = threading.Thread(target=pass_on)
        with self.hub.engine.connect() as conn:
            QueueAdmin(self.hub, conn).revoke_queue_privilege("ENQUEUE", "orders", "a")
            thread.start()
            eventually(waits)
            conn.commit()
        thread.join()
        assert [error.number for error in refusals] == [24010]
        assert self.holders() == {}


class TestLogins(SecurityCase):
    """``teller`` is a member of a role made by the statements of ``mgw aq database-role``."""

    clock: ManualClock

    @pytest.fixture(autouse=True)
    def _teller(self, _hub: None) -> Iterator[None]:
        with open_hub(self.url, create=True):  # the gateway's tables beside the hub's
            pass
        with self.hub.write() as conn:
            for _ in range(2):  # it may be run again
                for statement in role_statements(Db(conn), "queue_clients"):
                    conn.exec_driver_sql(statement)
            conn.exec_driver_sql("GRANT queue_clients TO teller")
        url = sa.make_url(self.url).set(username="teller").render_as_string(hide_password=False)
        self.queue(max_retries=1)
        with Hub.open(url, clock=self.clock) as self.foreign:
            yield

    def test_a_table_of_its_own_changes_nothing_of_the_kept_numbers(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "TELLER")
        with self.foreign.engine.connect() as conn:
            columns = ", ".join(
                f"{name} bigint" for name in ("queue_id", "consumer_id", "messages", "enqueued", "ready")
            )
            conn.exec_driver_sql(f"CREATE TEMP TABLE aq_total (state smallint, {columns})")
            conn.exec_driver_sql("CREATE TEMP TABLE changed (LIKE aq_message)")
            self.foreign.session(conn).enqueue("orders", Message("x"))
            conn.commit()
            assert conn.exec_driver_sql("SELECT count(*) FROM pg_temp.aq_total").scalar() == 0
        with self.hub.read() as conn:
            assert differences(conn) == []
            assert Db(conn).scalar("SELECT sum(messages) FROM aq_total") == 1

    def test_nobody_else_lets_a_trigger_count(self) -> None:
        with self.foreign.engine.connect() as conn:
            conn.exec_driver_sql("CREATE TEMP TABLE mine (LIKE aq_message)")
            with pytest.raises(sa.exc.ProgrammingError, match="permission denied for function"):
                conn.exec_driver_sql(
                    "CREATE TRIGGER mine AFTER INSERT ON mine REFERENCING NEW TABLE AS changed"
                    " FOR EACH STATEMENT EXECUTE FUNCTION aq_total_messages_came()"
                )

    def test_a_login_is_its_own_user(self) -> None:
        assert (self.hub.login, self.foreign.login) == (None, "teller")
        for user in (None, "TELLER"):
            with self.foreign.session(user=user) as session, refused(25205) as caught:
                session.enqueue("orders", Message("x"))
            assert "teller" in str(caught.value)
        for user in ("mgw", "SYS", "scott", ""):
            with refused(1031):
                self.foreign.session(user=user)
            with refused(1031):
                QueueAdmin(self.foreign, user=user)

    def test_a_login_with_quotes_in_its_name_is_nobody_else(self) -> None:
        for name in ('"sys"', '"scott"', " teller", 'a"b'):
            quoted = name.replace('"', '""')
            with self.hub.write() as conn:
                conn.exec_driver_sql(f'CREATE ROLE "{quoted}" LOGIN')
                conn.exec_driver_sql(f'GRANT queue_clients TO "{quoted}"')
            url = sa.make_url(self.url).set(username=name).render_as_string(hide_password=False)
            try:
                with Hub.open(url) as foreign:
                    for user in (None, name, name.strip('" ')):
                        with refused(1031):
                            foreign.session(user=user)
                        with refused(1031):
                            QueueAdmin(foreign, user=user)
            finally:
                with self.hub.write() as conn:
                    conn.exec_driver_sql(f'DROP ROLE "{quoted}"')

    def test_sessions_work_with_what_is_granted(self) -> None:
        self.topic("reader", name="events")
        self.queue("vault", table={"secure": True})
        for queue in ("orders", "events", "vault"):
            self.admin.grant_queue_privilege("ALL", queue, "teller")
        self.admin.create_aq_agent("till")
        self.admin.enable_db_access("till", "teller")
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        with self.foreign.session() as session:
            session.enqueue_array("orders", [Message(str(n)) for n in range(30)])
            session.enqueue("events", Message("a"))
            session.enqueue("events", Message("b"), recipients=["somebody"])
            session.enqueue("orders", Message("i"), EnqueueOptions(Visibility.IMMEDIATE))
            session.enqueue("vault", Message("v", sender_name="till"))
            session.commit()
            assert session.dequeue("vault", now()).message.body == "v"
            for consumer, body in (("reader", "a"), ("somebody", "b")):
                first_of = DequeueOptions(consumer, wait=5, navigation=Navigation.FIRST_MESSAGE)
                assert session.dequeue("events", first_of).message.body == body
            assert session.listen([Agent(None, "orders")], 0).address == "orders"
            session.commit()
            look = now(dequeue_mode=DequeueMode.BROWSE, deq_condition="tab.priority = 1")
            assert len(session.dequeue_array("orders", look, 100)) == 31
            for _ in range(2):  # over the retry limit: the message moves
                first = session.dequeue("orders", now(navigation=Navigation.FIRST_MESSAGE)).msgid
                session.rollback()
            assert len(session.dequeue_array("orders", now(), 100)) == 30
            session.commit()
        with self.hub.session() as session:
            assert session.dequeue("AQ$_orders_t_E", now(msgid=first)).message.attempts == 2
        self.run_time()
        self.foreign.statistics.flush(self.foreign)
        with self.hub.read() as conn:
            assert Db(conn).rows("SELECT count(*) FROM aq_activity") != [(0,)]

    def test_groups_and_commit_order_are_for_logins_too(self) -> None:
        shape = {"multiple_consumers": True, "message_grouping": "TRANSACTIONAL", "sort_list": "COMMIT_TIME"}
        self.queue("groups", table=shape)
        self.admin.add_subscriber("groups", "reader")
        self.admin.grant_queue_privilege("ALL", "groups", "teller")
        with self.foreign.session() as session:
            for group in (("a", "b"), ("c",)):
                session.enqueue_array("groups", [Message(body) for body in group])
                session.commit()
            found = session.dequeue_array("groups", now(consumer_name="reader"), 10)
            assert [each.message.body for each in found] == ["a", "b"]
            session.commit()

    def test_the_applications_transaction_may_be_that_of_the_login(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "teller")
        with self.foreign.engine.connect() as conn:
            session = self.foreign.session(conn)
            session.enqueue("orders", Message("x"))
            with refused(1031):
                session.dequeue("orders", now())
            conn.commit()
        assert self.view("orders_t")[0]["ENQ_USER_ID"].upper() == "TELLER"

    def test_the_database_refuses_what_the_hub_would_not_be_asked_for(self) -> None:
        for statement in (
            "INSERT INTO aq_privilege (queue_id, privilege, grantee, grantee_key, grantor, grantor_key, grantable,"
            " created) VALUES (0, 'MANAGE_ANY', 'teller', 'TELLER', 'SYS', 'SYS', 1, 0)",
            "INSERT INTO aq_role VALUES ('AQ_ADMINISTRATOR_ROLE', 'TELLER', 'x', 'teller', 'SYS', 0)",
            "INSERT INTO aq_agent_user VALUES ('TILL', 'TELLER', 'teller')",
            "UPDATE aq_counter SET value = 0",
            "UPDATE aq_queue SET enqueue_enabled = 1",
            "DELETE FROM aq_consumer",
            "SELECT * FROM gw_link",
            "UPDATE gw_job SET enabled = true",
            "DROP TABLE aq_message",
        ):
            with pytest.raises(HubError, match=r"permission denied|must be owner"), self.foreign.write() as conn:
                conn.exec_driver_sql(statement)
        self.admin.grant_role(
            "AQ_ADMINISTRATOR_ROLE", "teller"
        )  # an administrator of the hub is no owner of its tables
        with pytest.raises(HubError, match="permission denied"):
            QueueAdmin(self.foreign).stop_queue("orders")

    def test_a_login_stores_recipients_and_never_a_subscription(self) -> None:
        self.topic("reader", name="events")
        self.admin.grant_queue_privilege("ENQUEUE", "events", "teller")
        with self.hub.write() as conn:  # a role that an earlier release gave too much
            conn.exec_driver_sql("GRANT INSERT ON aq_consumer TO queue_clients")
            for statement in role_statements(Db(conn), "queue_clients"):
                conn.exec_driver_sql(statement)
        row = {
            "queue_id": "(SELECT id FROM aq_queue WHERE name = 'events')",
            "name": "'mallory'",
            "name_key": "'MALLORY'",
            "address": "''",
            "protocol": "0",
            "delivery_mode": "'PERSISTENT'",
            "queue_to_queue": "0",
            "created": "0",
        }

        def insert(**more: str) -> None:
            columns, values = ", ".join([*row, *more]), ", ".join([*row.values(), *more.values()])
            with self.foreign.write() as conn:
                conn.exec_driver_sql(f"INSERT INTO aq_consumer ({columns}) VALUES ({values})")

        for more in (
            {"rule": "'1 = 1'", "rule_sql": "'1 / 0 = 1'"},
            {"rule_sql": "'true'"},
            {"rule": "'1 = 1'"},
            {"is_subscriber": "1"},
            {"is_subscriber": "0"},
            {"transformation": "'x'"},
            {"removed_upto": "0"},
            {"id": "1000"},
        ):
            with pytest.raises(HubError, match="permission denied"):
                insert(**more)
        insert()  # a mere recipient
        for change in ("is_subscriber = 1", "rule_sql = 'true'", "rule = '1 = 1'"):
            with pytest.raises(HubError, match="permission denied"), self.foreign.write() as conn:
                conn.exec_driver_sql(f"UPDATE aq_consumer SET {change}")
        with self.foreign.session() as session:
            session.enqueue("events", Message("to all"))
            session.enqueue("events", Message("to some"), recipients=["mallory", "new"])
            session.commit()
        assert {name: self.take("events", name) for name in ("reader", "mallory", "new")} == {
            "reader": ["to all"],
            "mallory": ["to some"],
            "new": ["to some"],
        }
        assert [each.name for each in self.admin.queue_subscribers("events")] == ["reader"]

    def test_a_login_reads_what_is_its_own_in_whatever_name_it_asks(self) -> None:
        self.queue("bills")
        self.admin.create_queue_table("teller.till_t")
        self.admin.grant_queue_privilege("DEQUEUE", "bills", "teller")
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "scott")
        for name in ("", "scott", "SYS", "MGW"):
            with self.foreign.read() as conn:
                conn.exec_driver_sql(f"SET LOCAL aq.username = '{name}'")
                rows = Db(conn).rows("SELECT name FROM ALL_QUEUES WHERE queue_type = 'NORMAL_QUEUE'")
                assert rows == [("BILLS",)]
                assert Db(conn).rows("SELECT queue_table FROM USER_QUEUE_TABLES") == [("TILL_T",)]
                assert Db(conn).rows("SELECT name, grantee FROM QUEUE_PRIVILEGES") == [("BILLS", "TELLER")]
        for view in ("DBA_QUEUES", "V$AQ", '"AQ$ORDERS_T"'):
            with pytest.raises(HubError, match="permission denied"), self.foreign.read() as conn:
                conn.exec_driver_sql(f"SELECT * FROM {view}")

    def test_a_function_of_the_reader_sees_no_row_that_the_view_leaves_out(self) -> None:
        self.queue("mine")
        self.admin.grant_queue_privilege("DEQUEUE", "mine", "teller")
        url = sa.make_url(self.url).set(username="teller", drivername="postgresql")
        heard: list[str] = []
        with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as teller:
            teller.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
            teller.execute(
                """CREATE FUNCTION pg_temp.tell(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
                   $$ BEGIN RAISE NOTICE '%', value; RETURN true; END $$"""
            )
            for view, column in (("ALL_QUEUES", "NAME"), ("USER_QUEUES", "NAME"), ("ALL_QUEUE_TABLES", "QUEUE_TABLE"),
                                 ("QUEUE_PRIVILEGES", "NAME")):  # fmt: skip
                teller.execute(f"SELECT * FROM {view} WHERE pg_temp.tell({column}::text)")
        assert "MINE" in heard
        assert not [name for name in heard if "ORDERS" in name.upper()]

    def test_a_login_without_the_role_gets_nowhere(self) -> None:
        with self.hub.write() as conn:
            conn.exec_driver_sql("REVOKE queue_clients FROM teller")
        with pytest.raises(HubError, match="permission denied"), self.foreign.session() as session:
            session.enqueue("orders", Message("x"))

    def test_the_command_prints_the_statements_or_runs_them(self, tmp_path: Path) -> None:
        mgw = Mgw(tmp_path)
        url = f"--hub={self.url}"
        printed = mgw.ok("aq", "database-role", "queue_clients", url)
        with self.hub.read() as conn:
            assert printed.splitlines() == role_statements(Db(conn), "queue_clients")
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "teller")
        with self.hub.write() as conn:
            conn.exec_driver_sql("DROP OWNED BY queue_clients; DROP ROLE queue_clients")
        with pytest.raises(HubError), self.foreign.session() as session:
            session.enqueue("orders", Message("x"))
        mgw.ok("aq", "database-role", "queue_clients", "--apply", url)
        with self.hub.write() as conn:
            conn.exec_driver_sql("GRANT queue_clients TO teller")
        with self.foreign.session() as session:
            session.enqueue("orders", Message("x"))
            session.commit()
        result = mgw("aq", "database-role", "queue clients", url)
        assert (result.code, "cannot be created" in result.err) == (1, True)
        mgw.ok("apply", mgw.file("queues: {Q: {}}\n"))
        result = mgw("aq", "database-role", "queue_clients")
        assert (result.code, "SQLite" in result.err) == (1, True)

    def test_bad_role_names_are_refused(self) -> None:
        for name in ("", "pg_all", "a b", 'a"b', "a$$b", "x" * 64):
            with self.hub.read() as conn, pytest.raises(AqError, match="cannot be created"):
                role_statements(Db(conn), name)
