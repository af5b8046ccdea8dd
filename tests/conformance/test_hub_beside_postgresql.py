"""A hub in the database of an application, on PostgreSQL: in a schema of its own, whatever the search_path is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.admin.roles_sql import role_statements
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, EnqueueOptions, SequenceDeviation
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.upgrade import upgrade
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import HubError, HubVersionMismatch
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.old_hubs import load_postgresql
from tests.support.ready_hubs import application_url, bait
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgresql

NOW = DequeueOptions(wait=0)


@pytest.fixture
def database(postgresql: PostgreSQL) -> Iterator[str]:
    yield postgresql.create_database("shop")
    postgresql.drop_database("shop")


@pytest.fixture
def shop(database: str) -> Iterator[psycopg.Connection[Any]]:
    """The application: it has a table in schema public."""
    with psycopg.connect(plain(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE purchase (id integer PRIMARY KEY)")
        yield connection


def plain(url: str) -> str:
    return url.partition("?")[0].replace("postgresql+psycopg://", "postgresql://")


def schemas_with(connection: psycopg.Connection[Any], table: str = "aq_hub") -> list[str]:
    """The schemas that have a table of this name."""
    found = connection.execute(
        "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = %s ORDER BY 1", (table,)
    )
    return [row[0] for row in found]


def with_queue(hub: Hub, name: str = "orders", payload_type: str = "TEXT") -> Hub:
    admin = QueueAdmin(hub)
    admin.create_queue_table(f"{name}_t", payload_type)
    admin.create_queue(name, f"{name}_t")
    admin.start_queue(name)
    return hub


def taken(hub: Hub, queue: str = "orders") -> list[Any]:
    """Everything that can be taken now."""
    with hub.session() as session:
        found = session.dequeue_array(queue, NOW, 100)
        session.commit()
    return [each.message.body for each in found]


class TestPlace:
    """Which schema it is."""

    def test_empty_database_has_the_hub_in_public(self, database: str) -> None:
        open_hub(database, create=True).close()
        with psycopg.connect(plain(database)) as connection:
            assert schemas_with(connection) == ["public"]

    def test_database_with_tables_gets_the_hub_in_a_schema_of_its_own(
        self, database: str, shop: psycopg.Connection[Any]
    ) -> None:
        with pytest.raises(HubError, match=r"does not exist.*mgw apply"):
            Hub.open(database)
        with open_hub(database, create=True) as hub:
            assert hub.namespace is not None
            assert hub.namespace.schema == "mgw"
        with open_hub(database) as again:
            assert again.hub_id == hub.hub_id
        assert (schemas_with(shop), schemas_with(shop, "mgw_jobs"), schemas_with(shop, "purchase")) == (
            ["mgw"],
            ["mgw"],
            ["public"],
        )

    def test_hub_in_public_is_found_when_the_application_comes_later(self, database: str) -> None:
        with open_hub(database, create=True) as hub:
            pass
        with psycopg.connect(plain(database), autocommit=True) as shop:
            shop.execute("CREATE TABLE purchase (id integer)")
        with open_hub(database, create=True) as again:
            assert again.hub_id == hub.hub_id

    def test_schema_of_the_url_is_made(self, database: str, shop: psycopg.Connection[Any]) -> None:
        url = f"{database}?schema=Messages"
        with open_hub(url, create=True) as hub:
            assert hub.name.endswith("?schema=Messages")
        with open_hub(url) as again:
            assert again.hub_id == hub.hub_id
        assert schemas_with(shop) == ['"Messages"']
        with pytest.raises(HubError, match="does not exist"):
            Hub.open(f"{database}?schema=messages")

    @pytest.mark.parametrize("schema", ["pg_hub", "1a", "a%22b", "a%27b", "x" * 64, "a&schema=b"])
    def test_schema_that_cannot_be_one_is_refused(self, database: str, schema: str) -> None:
        with pytest.raises(HubError, match=r"cannot be its schema.*cure: name one schema"):
            Hub.open(f"{database}?schema={schema}", create=True)

    @pytest.mark.parametrize("schema", ["public", "mgw"])
    def test_schema_with_tables_of_others_is_refused_untouched(
        self, database: str, shop: psycopg.Connection[Any], schema: str
    ) -> None:
        shop.execute("CREATE SCHEMA mgw; CREATE TABLE mgw.purchase (id integer)")
        url = database if schema == "mgw" else f"{database}?schema={schema}"
        with pytest.raises(HubVersionMismatch, match=rf"schema {schema}.*\(purchase\).*\?schema=NAME"):
            Hub.open(url, create=True)
        assert schemas_with(shop) == []

    def test_login_without_the_right_to_make_a_schema_is_told_who_can(
        self, database: str, shop: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        shop.execute("CREATE ROLE clerk LOGIN")
        try:
            url = sa.make_url(database).set(username="clerk").render_as_string(hide_password=False)
            with pytest.raises(HubError, match=r'cure: .*CREATE SCHEMA "mgw" AUTHORIZATION'):
                Hub.open(url, create=True)
            shop.execute("CREATE SCHEMA mgw AUTHORIZATION clerk; CREATE SCHEMA aq AUTHORIZATION clerk")
            with with_queue(open_hub(url, create=True)) as hub, hub.session() as session:
                session.enqueue("orders", Message("x"))
                session.commit()
            assert "CREATE SCHEMA mgwadm AUTHORIZATION that user" in caplog.text
            caplog.clear()
            open_hub(url).close()
            assert not caplog.text
            shop.execute("CREATE SCHEMA mgwadm AUTHORIZATION clerk")
            open_hub(url).close()
            with psycopg.connect(url.replace("+psycopg", "")) as clerk:
                clerk.execute("SELECT mgwadm.create_agent('second')")
        finally:
            shop.execute("DROP OWNED BY clerk CASCADE; DROP ROLE clerk")

    def test_a_hub_is_made_where_the_database_refuses_the_functions_of_the_administration(
        self, database: str, shop: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whatever its reason; they are made when that is gone."""
        shop.execute("""
            CREATE FUNCTION quota() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity = 'mgwadm') THEN
                    RAISE EXCEPTION USING ERRCODE = '53400', MESSAGE = 'there are too many schemas';
                END IF;
            END $$;
            CREATE EVENT TRIGGER quota ON ddl_command_end WHEN TAG IN ('CREATE SCHEMA') EXECUTE FUNCTION quota()""")
        open_hub(database, create=True).close()
        assert "cause: there are too many schemas" in caplog.text
        assert "cure: correct that, then open the hub again" in caplog.text
        shop.execute("DROP EVENT TRIGGER quota")
        open_hub(database).close()
        shop.execute("SELECT mgwadm.version()")


class TestApplication:
    """Sessions on the application's connection."""

    @pytest.fixture(autouse=True)
    def _hub(self, database: str, shop: psycopg.Connection[Any]) -> Iterator[None]:
        with with_queue(open_hub(database, create=True)) as self.hub:
            bait(shop, "mgw")
            self.engine = sa.create_engine(application_url(f"{database}?schema=mgw"))
            yield
            self.engine.dispose()

    def test_path_may_change_in_the_middle(self) -> None:
        with self.engine.begin() as conn:
            session = self.hub.session(conn)
            for number, path in enumerate(["public", "bait, public", "pg_catalog", "nowhere", ""]):
                conn.exec_driver_sql("SELECT set_config('search_path', %s, true)", (path,))
                session.enqueue("orders", Message(str(number)))
                assert conn.exec_driver_sql("SHOW search_path").scalar() == path
            conn.exec_driver_sql("SET LOCAL search_path = bait")
        assert taken(self.hub) == list("01234")

    def test_each_transaction_may_be_on_another_connection_of_a_pool(self, database: str) -> None:
        """As pgbouncer does it: what a session of the server remembers is gone with every transaction."""
        url = application_url(f"{database}?schema=mgw")
        engine = sa.create_engine(url, connect_args={"prepare_threshold": None})
        with engine.connect() as conn:
            session = self.hub.session(conn)
            driver: Any = conn.connection.driver_connection
            for number in range(8):
                session.enqueue("orders", Message(str(number)))
                conn.exec_driver_sql("SET LOCAL search_path = bait")
                conn.commit()
                driver.autocommit = True
                driver.execute("DISCARD ALL")
                driver.autocommit = False
            assert session.dequeue("orders", NOW).message.body == "0"
            conn.commit()
        engine.dispose()
        assert taken(self.hub) == list("1234567")

    def test_many_at_once(self) -> None:
        with self.engine.begin() as conn:
            self.hub.session(conn).enqueue_array("orders", [Message(str(number)) for number in range(60)])
        assert len(taken(self.hub)) == 60

    def test_path_is_the_applications_after_administration(self) -> None:
        with self.engine.connect() as conn:
            conn.exec_driver_sql("SET LOCAL search_path = public, bait")
            admin = QueueAdmin(self.hub, conn)
            admin.create_queue_table("more_t")
            admin.create_queue("more", "more_t")
            assert [each.name for each in admin.queue_tables()] == ["more_t", "orders_t"]
            assert conn.exec_driver_sql("SHOW search_path").scalar() == "public, bait"
            conn.commit()
            assert conn.exec_driver_sql("SHOW search_path").scalar() == "application,bait"
            views = conn.exec_driver_sql(
                "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'AQ$MORE_T'"
            )
            assert views.scalars().all() == ["mgw"]

    def test_waiting_program_is_woken_by_the_applications_commit(self) -> None:
        got: list[Any] = []

        def wait() -> None:
            with Hub.open(self.hub.engine.url.render_as_string(hide_password=False)) as hub, hub.session() as session:
                got.append(session.dequeue("orders", DequeueOptions(wait=60)).message.body)
                session.commit()

        thread = threading.Thread(target=wait)
        thread.start()
        with closing(psycopg.connect(plain(str(self.engine.url)), autocommit=True)) as look:
            listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN \"mgw_hub_mgw\"'"
            eventually(lambda: look.execute(listening).fetchone() == (1,))
        with self.engine.begin() as conn:
            self.hub.session(conn).enqueue("orders", Message("x"))
        thread.join(20)
        assert got == ["x"]

    def test_texts_and_names_that_look_like_the_hubs_are_left_alone(self) -> None:
        with_queue(self.hub, "documents", "JSON")
        with self.engine.begin() as conn:
            session = self.hub.session(conn)
            session.enqueue("documents", Message('{"aq_hub": "other"}'))
            session.enqueue("documents", Message('{"aq_hub": "aq_message"}', correlation="aq_queue"))
            condition = "tab.user_data.aq_hub = 'aq_message' AND tab.corrid = 'aq_queue'"
            found = session.dequeue("documents", DequeueOptions(wait=0, deq_condition=condition))
            assert found.message.correlation == "aq_queue"

    def test_prepared_statement_follows_its_hub(self, database: str) -> None:
        """The driver prepares what it has run a few times; on one connection that may be for two hubs."""
        with with_queue(open_hub(f"{database}?schema=other", create=True)) as other, self.engine.connect() as conn:
            for number in range(10):
                for hub in (self.hub, other):
                    hub.session(conn).enqueue("orders", Message(str(number)))
                conn.commit()
            assert taken(self.hub) == taken(other) == list("0123456789")


class TestTwoHubs:
    """Hubs in schemas of one database do not disturb each other."""

    @pytest.fixture(autouse=True)
    def _hubs(self, database: str) -> Iterator[None]:
        self.one = with_queue(open_hub(f"{database}?schema=one", create=True))
        self.two = with_queue(open_hub(f"{database}?schema=two", create=True))
        yield
        self.one.close()
        self.two.close()

    def test_wake_up_goes_to_one(self, database: str) -> None:
        with psycopg.connect(plain(database), autocommit=True) as listener:
            for channel in ("mgw_hub", "mgw_hub_one", "mgw_hub_two", "mgw_change", "mgw_change_one", "mgw_change_two"):
                listener.execute(f"LISTEN {channel}")
            with self.one.session() as session:
                session.enqueue("orders", Message("x"))
                session.commit()
            GatewayAdmin(self.two).create_agent("A")
            listener.execute("SELECT aq.enqueue('orders', 'x')")
            heard = [notice.channel for notice in listener.notifies(timeout=10, stop_after=3)]
        assert sorted(heard) == ["mgw_change_two", "mgw_hub_one", "mgw_hub_one"]

    def test_administration_of_one_does_not_wait_for_the_other(self) -> None:
        from mgw.gateway.state.catalog import lock_administration

        with self.one.write() as conn:
            lock_administration(conn)
            GatewayAdmin(self.two).create_agent("A")
            QueueAdmin(self.two).stop_queue("orders", wait=False)
        assert [agent.name for agent in GatewayAdmin(self.two).list_agents()] == ["A", "DEFAULT_AGENT"]

    def test_sequence_deviation_of_one_does_not_keep_the_other_in_place(self) -> None:
        """Queues of the same number: who puts messages before others has the places of its own hub's to itself."""
        ids = []
        for hub in (self.one, self.two):
            with hub.session() as session:
                ids.append(session.enqueue_array("orders", [Message("a"), Message("b")]))
                session.commit()
        before = [EnqueueOptions(sequence_deviation=SequenceDeviation.BEFORE, relative_msgid=each[1]) for each in ids]
        with self.one.session() as first, self.two.session() as second:
            first.enqueue("orders", Message("first"), before[0])
            second.enqueue("orders", Message("second"), before[1])
            second.commit()
            first.commit()
        assert (taken(self.one), taken(self.two)) == (["a", "first", "b"], ["a", "second", "b"])

    def test_role_of_one_may_do_nothing_in_the_other(self, database: str) -> None:
        with self.one.write() as conn:
            for statement in role_statements(Db(conn), "shop_clients"):
                conn.exec_driver_sql(statement)
            conn.exec_driver_sql("CREATE ROLE teller2 LOGIN IN ROLE shop_clients")
        try:
            QueueAdmin(self.one).grant_queue_privilege("ENQUEUE", "orders", "teller2")
            mine = sa.make_url(database).set(username="teller2")
            url = mine.render_as_string(hide_password=False)
            engine = sa.create_engine(mine, poolclass=sa.NullPool)
            with Hub.open(f"{url}?schema=one") as hub, engine.begin() as conn:
                conn.exec_driver_sql("SET LOCAL search_path = pg_catalog")
                hub.session(conn).enqueue("orders", Message("x"))
            with pytest.raises(HubError, match="permission denied for schema two"):
                Hub.open(f"{url}?schema=two")
            assert taken(self.one) == ["x"]
        finally:
            with self.one.write() as conn:
                conn.exec_driver_sql("DROP OWNED BY teller2, shop_clients; DROP ROLE teller2; DROP ROLE shop_clients")


def test_older_hub_in_a_schema_is_upgraded_next_to_the_applications_tables(postgresql: PostgreSQL) -> None:
    url = load_postgresql(postgresql, "old_shop")
    try:
        with psycopg.connect(plain(url), autocommit=True) as shop:
            shop.execute("ALTER SCHEMA public RENAME TO mgw; CREATE SCHEMA public")
            shop.execute("CREATE TABLE public.purchase (id integer); INSERT INTO public.purchase VALUES (1)")
            bait(shop, "mgw")
            with pytest.raises(HubVersionMismatch, match="mgw upgrade"):
                Hub.open(url)
            assert upgrade(url).needed
            engine = sa.create_engine(application_url(f"{url}?schema=mgw"), poolclass=sa.NullPool)
            with with_queue(open_hub(url), "more") as hub, engine.begin() as conn:
                assert hub.schema == "mgw"
                hub.session(conn).enqueue("more", Message("x"))
            shop.execute("SELECT aq.enqueue('more', 'y')")
            with open_hub(url) as hub:
                assert taken(hub, "more") == ["x", "y"]
            assert shop.execute("SELECT id FROM public.purchase").fetchall() == [(1,)]
            assert schemas_with(shop, "aq_message") == ["bait", "mgw"]
    finally:
        postgresql.drop_database("old_shop")
