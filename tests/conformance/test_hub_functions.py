"""The hub from SQL: functions of schema aq on PostgreSQL, and that they do what sessions in Python do."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.functions import functions_sql as functions
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.names import bare_agent
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError, HubError
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.conformance import hub_suite as base
from tests.support.brokers import PostgreSQL
from tests.support.ready_hubs import ready_hubs
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgresql

_number = itertools.count(1)

Row = dict[str, Any]

ALL_HEADERS = (
    Header("text", ValueType.TEXT, 'ä "quoted" \\ \n'),
    Header("raw", ValueType.RAW, bytes(range(256))),
    Header("flag", ValueType.BOOLEAN, True),
    Header("byte", ValueType.BYTE, -128),
    Header("short", ValueType.SHORT, 32767),
    Header("integer", ValueType.INTEGER, -(2**31)),
    Header("long", ValueType.LONG, 2**63 - 1),
    Header("float", ValueType.FLOAT, 0.1),
    Header("double", ValueType.DOUBLE, -1.5e300),
    Header("inf", ValueType.DOUBLE, math.inf),
    Header("date", ValueType.DATE, 1_800_000_000.25),
    Header("text", ValueType.TEXT, "again"),
)


PAYLOADS: list[tuple[str, str, Any, PayloadKind]] = [
    ("RAW", "'\\x00ff'::bytea", b"\x00\xff", PayloadKind.RAW),
    ("RAW", "''::bytea", b"", PayloadKind.RAW),
    ("RAW", "NULL", None, PayloadKind.RAW),
    ("BASIC", "'ü'", "ü", PayloadKind.BASIC),
    ("BASIC", "''", "", PayloadKind.BASIC),
    ("BASIC", "'\\xff'::bytea", b"\xff", PayloadKind.BASIC),
    ("BASIC", "'{\"a\": 1}'::jsonb", '{"a": 1}', PayloadKind.BASIC),
    ("BASIC", "NULL", None, PayloadKind.BASIC),
    ("TEXT", "'x'", "x", PayloadKind.BASIC),
    ("TEXT", "'[]'::jsonb", "[]", PayloadKind.BASIC),
    ("JSON", "'[1, null]'", "[1, null]", PayloadKind.BASIC),
    ("JSON", "'[1]'::jsonb", "[1]", PayloadKind.BASIC),
    (
        "FIELDS",
        """'[["a", 6, 1], ["a", "raw", "AA=="]]'::jsonb""",
        (Header("a", ValueType.INTEGER, 1), Header("a", ValueType.RAW, b"\x00")),
        PayloadKind.FIELDS,
    ),
    ("FIELDS", "'[]'::jsonb", (), PayloadKind.FIELDS),
]
BAD_PAYLOADS = [
    ("RAW", "'text'"),
    ("RAW", "'{}'::jsonb"),
    ("TEXT", "'\\x00'::bytea"),
    ("JSON", "'{}'::bytea"),
    ("JSON", "'{'"),
    ("FIELDS", "'[]'"),
    ("BASIC", "repeat('ü', 51)"),
]
SHOWN: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("BASIC", None, (None, None, None)),
    ("BASIC", "", (b"", "", "TEXT")),
    ("BASIC", b"\xff\x00", (b"\xff\x00", None, "RAW")),
    ("BASIC", "nul \x00", (b"nul \x00", None, "TEXT")),  # text of PostgreSQL cannot hold it; payload does
    ("RAW", b"", (b"", None, "RAW")),
    ("JSON", '{"a": 1}', (b'{"a": 1}', '{"a": 1}', "TEXT")),
    ("FIELDS", (Header("a", ValueType.LONG, 1),), (b'[["a",7,1]]', '[["a",7,1]]', "FIELDS")),
]
BAD_ENQUEUES = [
    (25205, "'missing', 'x'"),
    (25205, "'public.orders', 'x'"),
    (25200, "'a b', 'x'"),
    (25200, "NULL, 'x'"),
    (24019, "repeat('x', 200), 'x'"),
    (25206, "'AQ$_orders_t_E', 'x'"),
    (25207, "'stopped', 'x'"),
    (25203, "'orders', 'x', delay => -1"),
    (25203, "'orders', 'x', delay => 'NaN'"),
    (25203, "'orders', 'x', delay => 'Infinity'"),
    (25209, "'orders', 'x', expiration => -1"),
    (25216, "'orders', 'x', recipients => '{a}'"),
    (0, "'orders', 'x', correlation => repeat('x', 129)"),
    (0, "'orders', 'x', exception_queue => repeat('x', 260)"),
    (0, "'orders', 'x', sender_name => repeat('x', 129)"),
    (0, "'orders', 'x', sender_address => repeat('x', 1025)"),
    (0, "'orders', 'x', kind => 'JMS'"),
    (0, "'orders', 'x', user_property => repeat('x', 4001)"),
    (0, "'orders', 'x', sender_protocol => 256"),
    (0, "'orders', 'x', headers => '7'"),
    (0, "'orders', 'x', headers => '[7]'"),
    (0, "'orders', 'x', headers => '{\"a\": null}'"),
    (0, "'orders', 'x', headers => '[[\"a\", 11, 1]]'"),
    (0, "'orders', 'x', headers => '[[\"a\", \"CLOB\", \"x\"]]'"),
    (0, "'orders', 'x', headers => '[[\"a\", 6, 1.5]]'"),
    (0, "'orders', 'x', headers => '[[\"a\", 2, \"#\"]]'"),
    (0, "'orders', 'x', headers => '[[\"a\", 9, 1e400]]'"),
    (0, "'orders', 'x', headers => '[[\"a\", 9, \"many\"]]'"),
    (0, "'orders', 'x', headers => jsonb_build_object(repeat('x', 251), 1)"),
    (0, "'orders', 'x', headers => jsonb_build_object('a', repeat('x', 4001))"),
    (0, "'orders', 'x', headers => (SELECT jsonb_object_agg(i, i) FROM generate_series(1, 1025) i)"),
    (
        0,
        "'orders', 'x', headers => jsonb_build_array(jsonb_build_array('a', 2, encode(repeat('x', 2001)::bytea,"
        " 'base64')))",
    ),
]
BAD_RECIPIENTS = [
    (25232, "ARRAY['red', 'RED']"),
    (25216, "ARRAY['red', NULL]"),
    (24047, "ARRAY['']"),
    (24019, "ARRAY[repeat('x', 129)]"),
    (24047, "ARRAY[E'a\\nb']"),
    (24049, "ARRAY['aq$_x']"),
    (25251, "(SELECT array_agg('r' || i) FROM generate_series(1, 1025) i)"),
]
BAD_DEQUEUES = [
    (25205, "'missing'"),
    (25226, "'stopped'"),
    (25256, "'orders', 'red'"),
    (25231, "'events'"),
    (24035, "'events', 'nobody'"),
    (25225, "'orders', dequeue_mode => 'KEEP'"),
    (25230, "'orders', wait => -1"),
    (25230, "'orders', wait => 61"),
    (25230, "'orders', wait => 'NaN'"),
    (25240, "'orders', msgid => 'x', correlation => 'x'"),
    (25263, "'orders', msgid => 'x'"),
    (25263, "'orders', msgid => decode(repeat('ff', 16), 'hex')"),
]


@pytest.fixture(scope="module")
def hubs(postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    with ready_hubs(postgresql, "hub_functions", partial(Hub.open, create=True)) as made:
        yield made


@pytest.fixture
def hub_url(hubs: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """A schema of its own; functions are called by clients that do not have it on their search path."""
    with hubs() as url:
        yield url


def _plain(url: str) -> str:
    return url.partition("?")[0].replace("postgresql+psycopg://", "postgresql://")


def stored(headers: tuple[Header, ...]) -> list[list[Any]]:
    """Headers as the functions take and give them."""
    from mgw.transforms.message import encode_headers

    return json.loads(encode_headers(headers) or "[]")  # type: ignore[no-any-return]


@contextmanager
def refused(number: int, text: str = "") -> Iterator[None]:
    """The call fails with this ORA number, in message and SQLSTATE, and says why and what to do."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    error = caught.value
    assert error.sqlstate == f"MG{number % 1000:03}", error
    assert error.diag.message_primary
    if number:
        assert error.diag.message_primary.startswith(f"ORA-{number:05}: ")
    assert re.search(text, f"{error.diag.message_primary} {error.diag.message_detail}"), error
    assert (error.diag.message_detail or "").startswith("cause: ")
    assert error.diag.message_hint


class SqlCase(base.HubCase):
    """A client that knows nothing but SQL."""

    sql: psycopg.Connection[Row]

    @pytest.fixture(autouse=True)
    def _client(self, _hub: None) -> Iterator[None]:
        with self.client() as self.sql:
            yield

    def client(self, user: str | None = None) -> psycopg.Connection[Row]:
        more = {"user": user} if user else {}
        return psycopg.connect(_plain(self.url), row_factory=dict_row, autocommit=True, **more)

    def call(self, sql: str, *parameters: Any) -> Any:
        """The one value of a query, in a transaction of its own."""
        row = self.sql.execute(sql, parameters or None).fetchone()
        assert row is not None
        return next(iter(row.values()))

    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        return self.sql.execute(sql, parameters or None).fetchall()

    def queue_of(self, payload_type: str) -> str:
        """A started queue of this payload type whose bodies have at most 100 bytes."""
        if self.admin.queue(payload_type) is None:
            self.queue(payload_type, table={"queue_payload_type": payload_type, "max_payload": 100})
        return payload_type

    def taken(self, queue: str = "orders", consumer: str | None = None) -> list[str]:
        """Texts of everything SQL can take now."""
        rows = self.rows("SELECT payload_text FROM aq.dequeue_array(%s, %s, 1000)", queue, consumer)
        return [row["payload_text"] for row in rows]


class TestEnqueue(SqlCase):
    """What SQL enqueues."""

    def test_message_of_sql_is_a_message_like_any_other(self) -> None:
        self.queue()
        before = time.time()
        msgid = self.call("SELECT aq.enqueue('orders', 'two pumps')")
        with self.hub.session() as session:
            found = session.dequeue("orders", base.now())
            session.commit()
        expected = Message("two pumps", msgid=msgid, enqueue_time=found.message.enqueue_time)
        assert found.message == expected
        assert before <= (found.message.enqueue_time or 0) <= time.time()
        assert msgid[:8] == self.hub.hub_id

    def test_every_property_of_sql_arrives(self) -> None:
        self.queue()
        msgid = self.call(
            """SELECT aq.enqueue('orders', %s::bytea, priority => -3, expiration => 60, correlation => 'c%%_1',
                      headers => %s, exception_queue => 'other', sender_name => 'me', sender_address => 'there',
                      sender_protocol => 7, user_property => 'more', kind => 'raw')""",
            b"\x00\xff",
            json.dumps(stored(ALL_HEADERS)),
        )
        with self.hub.session() as session:
            found = session.dequeue("orders", base.now()).message
        sent = Message(
            b"\x00\xff",
            ALL_HEADERS,
            PayloadKind.RAW,
            priority=-3,
            correlation="c%_1",
            expiration=60,
            expires_at=found.expires_at,
            msgid=msgid,
            enqueue_time=found.enqueue_time,
            exception_queue="other",
            sender_name="me",
            sender_address="there",
            sender_protocol=7,
            user_property="more",
        )
        assert found == sent
        assert found.expires_at == pytest.approx((found.enqueue_time or 0) + 60)
        assert [type(header.value) for header in found.headers] == [type(header.value) for header in ALL_HEADERS]

    def test_headers_may_be_an_object(self) -> None:
        self.queue()
        self.call(
            "SELECT aq.enqueue('orders', 'x', headers => %s)", '{"a": "x", "b": true, "c": 7, "d": 1.5, "e": 3e9}'
        )
        with self.hub.session() as session:
            found = session.dequeue("orders", base.now()).message.headers
        assert set(found) == {
            Header("a", ValueType.TEXT, "x"),
            Header("b", ValueType.BOOLEAN, True),
            Header("c", ValueType.INTEGER, 7),
            Header("d", ValueType.DOUBLE, 1.5),
            Header("e", ValueType.LONG, 3_000_000_000),
        }

    @pytest.mark.parametrize("order", ["ENQ_TIME", "ENQ_TIME,PRIORITY", "PRIORITY", "PRIORITY,ENQ_TIME"])
    def test_order_is_one_whoever_enqueues(self, order: str) -> None:
        self.queue(table={"sort_list": order})
        self.clock.time = 1_000_000.9
        self.send("orders", "early 9", priority=9)
        self.clock.time = time.time()
        sent = ["early 9"]
        with self.sql.transaction(), self.hub.session() as session:
            for number, priority in enumerate((5, 1, 3, 1, 5, -2)):
                sent.append(f"{number} {priority}")
                if number % 2:
                    self.call("SELECT aq.enqueue('orders', %s, priority => %s)", sent[-1], priority)
                else:
                    session.enqueue("orders", Message(sent[-1], priority=priority))
            session.commit()
        found = self.rows("SELECT payload_text, enqueue_time FROM aq.browse('orders')")

        def key(text: str) -> Any:
            return 0 if order == "ENQ_TIME" else int(text.rpartition(" ")[2])

        if order != "ENQ_TIME,PRIORITY":
            assert [row["payload_text"] for row in found] == sorted(sent, key=key)
        else:
            expected = sorted(
                found, key=lambda row: (int(row["enqueue_time"].timestamp()), int(row["payload_text"].split()[-1]))
            )
            assert [row["payload_text"] for row in found] == [row["payload_text"] for row in expected]
            assert found[0]["payload_text"] == "early 9"
        assert self.take("orders") == [row["payload_text"] for row in found]

    def test_payloads_arrive(self) -> None:
        for payload_type, value, body, kind in PAYLOADS:
            queue = self.queue_of(payload_type)
            self.call(f"SELECT aq.enqueue('{queue}', {value})")
            with self.hub.session() as session:
                found = session.dequeue(queue, base.now()).message
                session.commit()
            assert (found.body, found.kind) == (body, kind)

    def test_payload_that_does_not_fit_is_refused(self) -> None:
        for payload_type, value in BAD_PAYLOADS:
            queue = self.queue_of(payload_type)
            with refused(25215):
                self.call(f"SELECT aq.enqueue('{queue}', {value})")
            assert self.take(queue) == []

    def test_bad_calls_are_refused_and_named(self) -> None:
        self.queue()
        self.queue("stopped")
        self.admin.stop_queue("stopped")
        for number, arguments in BAD_ENQUEUES:
            with refused(number):
                self.call(f"SELECT aq.enqueue({arguments})")
        assert self.take("orders") == []

    def test_names_are_read_as_everywhere(self) -> None:
        self.admin.create_queue_table("other.t")
        self.admin.create_queue('other."with space"', "other.t")
        self.admin.start_queue('other."with space"')
        self.queue()
        for name in ("orders", "ORDERS", " Orders ", '"orders"', "mgw.orders", 'MGW."ORDERS"'):
            self.call("SELECT aq.enqueue(%s, 'x')", name)
        assert self.take("orders") == ["x"] * 6
        self.call("""SELECT aq.enqueue('OTHER."With Space"', 'y')""")
        assert self.take('other."with space"') == ["y"]

    def test_name_with_a_dot_is_one_queue_only(self) -> None:
        for name in ('"anna.smith".q', 'anna."smith.q"'):
            table = name.replace("q", "t")
            self.admin.create_queue_table(table)
            self.admin.create_queue(name, table, max_retries=0)
            self.admin.start_queue(name)
            self.call("SELECT aq.enqueue(%s, %s)", name, name)
        with refused(25205):
            self.call("SELECT aq.enqueue('\"anna.smith.q\"', 'x')")
        for name in ('"anna.smith".q', 'anna."smith.q"'):
            msgid = self.call("SELECT msgid FROM aq.browse(%s)", name)
            assert self.call("SELECT aq.fail(%s, %s)", name, msgid) == "EXPIRED"
            table = self.admin.queue_table(name.replace("q", "t"))
            assert table is not None
            found = [each for each in self.admin.queues() if each.queue_table == table.full_name]
            (exceptions,) = [each.full_name for each in found if each.queue_type == "EXCEPTION_QUEUE"]
            self.admin.start_queue(exceptions, enqueue=False)
            assert self.call("SELECT payload_text FROM aq.browse(%s)", exceptions) == name

    def test_rollback_leaves_nothing_and_commit_brings_all(self) -> None:
        self.queue()
        with self.sql.transaction(force_rollback=True):
            self.call("SELECT aq.enqueue('orders', 'never')")
        with self.sql.transaction():
            self.call("SELECT aq.enqueue('orders', 'kept')")
            with self.sql.transaction(force_rollback=True):
                self.call("SELECT aq.enqueue('orders', 'not kept')")
            assert self.take("orders") == []
        assert self.take("orders") == ["kept"]

    def test_trigger_makes_a_table_an_outbox(self) -> None:
        self.queue(table={"queue_payload_type": "JSON"})
        self.sql.execute("""
            CREATE TABLE purchase (id integer PRIMARY KEY, item text);
            CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM aq.enqueue('orders', to_jsonb(NEW), correlation => NEW.id::text);
                RETURN NULL;
            END $$;
            CREATE TRIGGER tell AFTER INSERT ON purchase FOR EACH ROW EXECUTE FUNCTION tell()""")
        try:
            with pytest.raises(psycopg.errors.UniqueViolation):
                self.sql.execute("INSERT INTO purchase VALUES (1, 'pump'), (1, 'pump')")
            with self.sql.transaction(force_rollback=True):
                self.sql.execute("INSERT INTO purchase VALUES (1, 'pump')")
            self.sql.execute("INSERT INTO purchase SELECT i, 'pump' FROM generate_series(1, 3) i")
            assert [json.loads(body)["id"] for body in self.take("orders")] == [1, 2, 3]
        finally:
            self.sql.execute("DROP TABLE purchase; DROP FUNCTION tell()")

    def test_other_processes_hear_of_the_commit_and_of_nothing_else(self) -> None:
        self.queue()
        number = self.call("SELECT aq.enqueue('orders', 'first')")
        with self.client() as listener, self.hub.read() as conn:
            queue_id = Db(conn).rows("SELECT id FROM aq_queue WHERE name = 'orders'")[0][0]
            listener.execute("LISTEN mgw_hub_hub")
            with self.sql.transaction(force_rollback=True):
                self.call("SELECT aq.enqueue('orders', 'x')")
            self.call("SELECT aq.enqueue('orders', 'x', delay => 60)")
            with self.sql.transaction():
                self.call("SELECT aq.enqueue('orders', 'x')")
                self.call("SELECT aq.enqueue('orders', 'x')")
            self.sql.execute("NOTIFY mgw_hub_hub, 'end'")
            heard = []
            for notice in listener.notifies(timeout=20):
                heard.append(notice.payload)
                if notice.payload == "end":
                    break
        assert number
        assert heard == [str(queue_id), "end"]

    def test_session_that_waits_in_python_gets_what_sql_commits(self) -> None:
        self.queue()
        found: list[Any] = []

        def wait() -> None:
            with self.hub.session() as session:
                found.append(session.dequeue("orders", DequeueOptions(wait=20)).message.body)
                session.commit()

        thread = threading.Thread(target=wait)
        thread.start()
        self.call("SELECT aq.enqueue('orders', 'woken')")
        thread.join(30)
        assert found == ["woken"]

    def test_delayed_message_waits_for_the_time_manager(self) -> None:
        self.queue()
        self.call("SELECT aq.enqueue('orders', 'later', delay => 60)")
        assert self.states("orders_t") == ["WAIT"]
        assert self.take("orders") == []
        self.clock.time = time.time() + 61
        self.run_time()
        assert self.take("orders") == ["later"]

    def test_who_enqueued_is_recorded(self) -> None:
        self.queue()
        with self.sql.transaction():
            self.call("SELECT aq.enqueue('orders', 'a')")
            self.call("SELECT aq.enqueue('orders', 'b')")
        self.call("SELECT aq.enqueue('orders', 'c')")
        rows = self.view("orders_t")
        assert {row["ENQ_USER_ID"] for row in rows} == {"mgw"}
        first, second, third = (row["ENQ_TXN_ID"] for row in rows)
        assert first == second != third


class TestEnqueueArray(SqlCase):
    """Many messages with one call."""

    def test_array_keeps_its_order_and_each_its_properties(self) -> None:
        self.queue()
        ids = self.call(
            """SELECT aq.enqueue_array('orders', ARRAY['a', NULL, 'c'], priorities => '{1, 2, 3}',
                      delays => '{0, 0, 60}', expirations => '{NULL, 5, NULL}', correlations => '{x, y, NULL}',
                      user_properties => '{NULL, p, NULL}',
                      headers => ARRAY['{"n": 1}', NULL, '[]']::jsonb[], sender_name => 'me')"""
        )
        with self.hub.session() as session:
            found = [each.message for each in session.dequeue_array("orders", base.now(), 10)]
        assert [(m.msgid, m.body, m.priority, m.expiration, m.correlation) for m in found] == [
            (ids[0], "a", 1, None, "x"),
            (ids[1], None, 2, 5, "y"),
        ]
        assert [m.headers for m in found] == [(Header("n", ValueType.INTEGER, 1),), ()]
        assert {m.sender_name for m in found} == {"me"}
        assert [m.user_property for m in found] == [None, "p"]
        assert len(set(ids)) == 3
        with self.hub.session() as session:
            late = session.dequeue("orders", base.now(msgid=ids[2]))
        assert (late.message.body, late.message.priority) == ("c", 3)

    def test_array_of_each_kind_and_of_nothing(self) -> None:
        self.queue()
        self.call("SELECT aq.enqueue_array('orders', ARRAY['\\x00', NULL]::bytea[])")
        self.call("SELECT aq.enqueue_array('orders', ARRAY['{}', NULL]::jsonb[])")
        assert self.call("SELECT aq.enqueue_array('orders', '{}'::text[])") == []
        assert self.call("SELECT aq.enqueue_array('orders', NULL::text[])") == []
        assert self.take("orders") == [b"\x00", None, "{}", None]

    def test_arrays_of_different_lengths_are_refused(self) -> None:
        self.queue()
        with refused(25287):
            self.call("SELECT aq.enqueue_array('orders', ARRAY['a', 'b'], priorities => '{1}')")

    def test_one_bad_message_refuses_all(self) -> None:
        self.queue(table={"queue_payload_type": "JSON"})
        with refused(25215, "message 1 "):
            self.call("SELECT aq.enqueue_array('orders', ARRAY['{}', '{', '{}'])")
        with refused(25203, "message 2"):
            self.call("SELECT aq.enqueue_array('orders', ARRAY['{}', '{}', '{}'], delays => '{0, 0, -1}')")
        assert self.take("orders") == []


class TestRecipients(SqlCase):
    """Multi-consumer queues."""

    def test_subscribers_get_it_once_each(self) -> None:
        self.topic("red", "green")
        self.call("SELECT aq.enqueue('events', 'x')")
        assert (self.take("events", "red"), self.taken("events", "green")) == (["x"], ["x"])
        assert (self.taken("events", "red"), self.take("events", "green")) == ([], [])
        self.run_time()
        assert self.view("events_t") == []

    def test_recipients_replace_the_subscribers(self) -> None:
        self.topic("red", "green")
        self.call("""SELECT aq.enqueue('events', 'x', recipients => ARRAY['RED', ' "blue" '])""")
        assert [self.take("events", name) for name in ("red", "green", "blue")] == [["x"], [], ["x"]]
        self.call("SELECT aq.enqueue('events', 'y')")
        assert [self.take("events", name) for name in ("red", "green", "blue")] == [["y"], ["y"], []]

    def test_bad_recipients_are_refused(self) -> None:
        self.topic("red")
        for number, recipients in BAD_RECIPIENTS:
            with refused(number):
                self.call(f"SELECT aq.enqueue('events', 'x', recipients => {recipients})")
        assert self.view("events_t") == []

    def test_message_without_recipient_is_refused(self) -> None:
        self.topic()
        with refused(24033):
            self.call("SELECT aq.enqueue('events', 'x')")

    def test_rules_route_as_they_do_from_python(self) -> None:
        self.topic("all")
        rules = {
            "urgent": "tab.priority < 3",
            "hot": "tab.user_data.temperature > 80",
            "odd": "tab.corrid LIKE 'it''s!_%' ESCAPE '!' OR HEADER('K') = '?'",
            "late": "tab.delay > 5",
            "new": "tab.enq_time IS NULL AND tab.msgid IS NULL AND tab.attempts = 0",
        }
        for name, rule in rules.items():
            self.admin.add_subscriber("events", name, rule=rule)
        messages = (
            Message('{"temperature": 90}', priority=5),
            Message('{"temperature": 20}', priority=-1),
            Message("{}", priority=9, correlation="it's_here"),
            Message(None, (Header("K", ValueType.TEXT, "?"),), priority=9, delay=6),
        )
        ids = self.call(
            """SELECT aq.enqueue_array('events', %s::text[], priorities => %s, correlations => %s, delays => %s,
                      headers => %s::jsonb[])""",
            [message.body for message in messages],
            [message.priority for message in messages],
            [message.correlation for message in messages],
            [float(message.delay) for message in messages],
            [json.dumps(stored(message.headers)) for message in messages],
        )
        with self.hub.session() as session:
            ids += [session.enqueue("events", message) for message in messages]
            session.commit()
        routed = self.recipients_of()
        assert [routed[msgid] for msgid in ids[:4]] == [routed[msgid] for msgid in ids[4:]]
        assert [routed[msgid] for msgid in ids[:4]] == [
            {"all", "hot", "new"},
            {"all", "urgent", "new"},
            {"all", "odd", "new"},
            {"all", "odd", "late", "new"},
        ]

    def recipients_of(self) -> dict[bytes, set[str]]:
        routed: dict[bytes, set[str]] = {}
        for row in self.view("events_t"):
            routed.setdefault(bytes.fromhex(row["MSG_ID"]), set()).add(row["CONSUMER_NAME"].lower())
        return routed

    def test_message_no_rule_is_true_for_is_refused(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "urgent", rule="tab.priority < 3")
        with refused(24033, "message 1 "):
            self.call("SELECT aq.enqueue_array('events', ARRAY['a', 'b'], priorities => '{1, 5}')")
        assert self.view("events_t") == []
        self.call("SELECT aq.enqueue('events', 'a')")
        self.admin.alter_subscriber("events", "urgent", rule="tab.priority > 3")
        with refused(24033):
            self.call("SELECT aq.enqueue('events', 'a')")
        self.admin.alter_subscriber("events", "urgent", rule=None)
        self.call("SELECT aq.enqueue('events', 'a')")
        assert len(self.taken("events", "urgent")) == 2

    def test_rule_that_only_python_can_evaluate_refuses_and_names_the_subscriber(self) -> None:
        self.topic("all")
        self.admin.add_subscriber("events", "ghost", rule="tab.user_data.a = tab.user_data.b")
        with refused(25449, "subscriber ghost"):
            self.call("SELECT aq.enqueue('events', '{}')")
        self.call("SELECT aq.enqueue('events', 'x', recipients => '{all}')")
        self.admin.remove_subscriber("events", "ghost")
        self.call("SELECT aq.enqueue('events', 'y')")
        assert self.taken("events", "all") == ["x", "y"]

    def test_message_that_only_python_can_judge_is_refused_and_named(self) -> None:
        self.topic("all")
        self.admin.add_subscriber("events", "hot", rule="tab.user_data.temperature > 80")
        for body in ('{"temperature": "hot"}', '{"temperature": 80.0000000000000001}'):
            with refused(25449, "message 1 .*subscriber hot"):
                self.call("SELECT aq.enqueue_array('events', ARRAY['{}', %s])", body)
        assert self.view("events_t") == []

    def test_literals_of_rules_mean_the_same_whatever_the_client_has_set(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "odd", rule=r"tab.corrid = 'a\''b'")
        self.sql.execute("SET standard_conforming_strings = off; SET escape_string_warning = off")
        self.call("SELECT aq.enqueue('events', 'x', correlation => %s)", r"a\'b")
        assert self.taken("events", "odd") == ["x"]

    def test_delay_holds_for_every_recipient(self) -> None:
        self.topic("red", "green")
        ids = self.call("SELECT aq.enqueue_array('events', ARRAY['a', 'b'], delays => '{60, 0}')")
        assert self.taken("events", "red") == ["b"]
        found = self.rows("SELECT * FROM aq.dequeue('events', 'green', msgid => %s)", ids[0])
        assert [(row["payload_text"], row["state"]) for row in found] == [("a", "WAITING")]


class TestDequeue(SqlCase):
    """What SQL takes."""

    def test_every_property_of_python_is_shown(self) -> None:
        self.queue()
        sent = Message(
            "body ✓",
            ALL_HEADERS,
            priority=7,
            correlation="c",
            expiration=60,
            exception_queue="other",
            sender_name="me",
            sender_address="there",
            sender_protocol=7,
            user_property="more",
        )
        with self.hub.session() as session:
            msgid = session.enqueue("orders", sent)
            session.commit()
        (row,) = self.rows("SELECT * FROM aq.dequeue('orders')")
        times = row.pop("enqueue_time").timestamp(), row.pop("expires_at").timestamp()
        assert times == (base.NOW, base.NOW + 60)
        assert row == {
            "msgid": msgid,
            "payload": "body ✓".encode(),
            "payload_text": "body ✓",
            "body_type": "TEXT",
            "headers": stored(ALL_HEADERS),
            "kind": "BASIC",
            "priority": 7,
            "correlation": "c",
            "expiration": 60,
            "attempts": 0,
            "state": "READY",
            "exception_queue": "other",
            "sender_name": "me",
            "sender_address": "there",
            "original_msgid": None,
            "user_property": "more",
            "sender_protocol": 7,
        }
        assert self.taken() == []

    def test_payloads_are_shown(self) -> None:
        for payload_type, body, shown in SHOWN:
            queue = self.queue_of(payload_type)
            self.send(queue, body)
            (row,) = self.rows("SELECT payload, payload_text, body_type FROM aq.dequeue(%s)", queue)
            assert tuple(row.values()) == shown

    def test_objects_are_shown_as_json_and_enqueued_in_python(self) -> None:
        self.admin.create_type("address", {"street": "VARCHAR2(30)", "zip": "NUMBER"})
        self.queue(table={"queue_payload_type": "address"})
        with self.hub.session() as session:
            session.enqueue("orders", Message({"STREET": "Main", "ZIP": 7}))
            session.commit()
        with refused(25215, "checked in Python"):
            self.call("SELECT aq.enqueue('orders', '{}'::jsonb)")
        (row,) = self.rows("SELECT payload_text, body_type FROM aq.dequeue('orders')")
        assert row["body_type"] == "VALUE"
        assert "Main" in row["payload_text"]

    def test_header_whose_text_sql_cannot_hold_does_not_block_the_queue(self) -> None:
        self.queue()
        self.send("orders", "x", headers=(Header("a", ValueType.TEXT, "\x00"), Header("b", ValueType.TEXT, "fine")))
        with self.sql.transaction():
            (row,) = self.rows(
                "SELECT headers, aq.header(headers, 'b') b, aq.header(headers, 'a') a FROM aq.dequeue('orders')"
            )
        assert (row["headers"][0], row["b"], row["a"]) == (["a", 1, "\x00"], "fine", None)

    def test_empty_queue_gives_no_row_and_the_transaction_goes_on(self) -> None:
        self.queue()
        with self.sql.transaction():
            assert self.rows("SELECT * FROM aq.dequeue('orders')") == []
            self.call("SELECT aq.enqueue('orders', 'x')")
            assert self.taken() == ["x"]

    def test_rollback_gives_it_back_and_is_no_failed_attempt(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.sql.transaction(force_rollback=True):
            assert self.taken() == ["x"]
        (row,) = self.rows("SELECT payload_text, attempts FROM aq.dequeue('orders')")
        assert row == {"payload_text": "x", "attempts": 0}

    def test_sql_and_python_skip_what_the_other_has_in_hand(self) -> None:
        self.queue()
        self.send("orders", "a", "b", "c")
        with self.sql.transaction(), self.hub.session() as session:
            assert self.rows("SELECT payload_text t FROM aq.dequeue('orders')") == [{"t": "a"}]
            assert session.dequeue("orders", base.now()).message.body == "b"
            assert self.rows("SELECT payload_text t FROM aq.dequeue('orders')") == [{"t": "c"}]
            assert self.rows("SELECT payload_text t FROM aq.browse('orders')") == [{"t": "b"}]
            session.commit()
        assert self.take("orders") == []

    def test_modes(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        assert [row["payload_text"] for row in self.rows("SELECT * FROM aq.browse('orders')")] == ["a", "b"]
        assert len(self.rows("SELECT * FROM aq.dequeue('orders', dequeue_mode => 'browse')")) == 1
        with self.sql.transaction():
            (row,) = self.rows("SELECT * FROM aq.dequeue('orders', dequeue_mode => 'LOCKED')")
            assert row["payload_text"] == "a"
            assert self.take("orders") == ["b"]
        (row,) = self.rows("SELECT * FROM aq.dequeue('orders', dequeue_mode => 'REMOVE_NODATA')")
        assert (row["payload"], row["payload_text"], row["body_type"]) == (None, None, None)
        assert self.take("orders") == []

    def test_choice_by_correlation_and_by_message_id(self) -> None:
        self.queue()
        with self.hub.session() as session:
            ids = [session.enqueue("orders", Message(c, correlation=c)) for c in ("a1", "b_", "bx", "a2")]
            session.commit()
        browse = "SELECT payload_text t FROM aq.browse('orders', correlation => %s)"
        assert [row["t"] for row in self.rows(browse, "a%")] == ["a1", "a2"]
        assert [row["t"] for row in self.rows(browse, "A%")] == []
        assert [row["t"] for row in self.rows(browse, "a1")] == ["a1"]
        assert [row["t"] for row in self.rows(browse, "b_")] == ["b_", "bx"]
        assert self.call("SELECT payload_text FROM aq.dequeue('orders', msgid => %s)", ids[2]) == "bx"
        assert self.call("SELECT payload_text FROM aq.dequeue('orders', correlation => 'a2')") == "a2"
        assert self.take("orders") == ["a1", "b_"]

    def test_retained_messages_stay_and_are_found_by_their_id(self) -> None:
        self.queue(retention_time=100)
        (msgid,) = self.send("orders", "x", expiration=60)
        assert self.taken() == ["x"]
        (row,) = self.rows("SELECT * FROM aq.browse('orders', msgid => %s)", msgid)
        assert (row["payload_text"], row["state"]) == ("x", "PROCESSED")
        assert (row["expiration"], row["expires_at"]) == (60, None)
        with refused(25263):
            self.rows("SELECT * FROM aq.dequeue('orders', msgid => %s)", msgid)
        (shown,) = self.view("orders_t")
        assert (shown["DEQ_USER_ID"], shown["MSG_STATE"]) == ("mgw", "PROCESSED")

    def test_exception_queues(self) -> None:
        self.queue(max_retries=0)
        (msgid,) = self.send("orders", "x")
        self.fail("orders")
        exceptions = "AQ$_orders_t_E"
        self.admin.start_queue(exceptions, enqueue=False)
        assert [row["state"] for row in self.rows("SELECT * FROM aq.browse(%s)", exceptions)] == ["EXPIRED"]
        with refused(25239):
            self.rows("SELECT * FROM aq.dequeue(%s)", exceptions)
        with refused(25243):
            self.rows("SELECT * FROM aq.dequeue(%s, 'red')", exceptions)
        (row,) = self.rows("SELECT * FROM aq.dequeue(%s, msgid => %s)", exceptions, msgid)
        assert (row["payload_text"], row["attempts"]) == ("x", 1)
        assert self.view("orders_t") == []

    def test_exceptions_of_topics_are_taken_once_for_all(self) -> None:
        self.topic("red", "green", max_retries=0)
        self.send("events", "x")
        self.fail("events", "red")
        self.fail("events", "green")
        exceptions = "AQ$_events_t_E"
        self.admin.start_queue(exceptions, enqueue=False)
        assert self.taken(exceptions) == ["x"]
        assert self.view("events_t") == []

    def test_bad_calls_are_refused_and_named(self) -> None:
        self.queue()
        self.queue("stopped")
        self.admin.stop_queue("stopped")
        self.topic("red")
        for number, arguments in BAD_DEQUEUES:
            with refused(number):
                self.rows(f"SELECT * FROM aq.dequeue({arguments})")
        with refused(25286):
            self.rows("SELECT * FROM aq.dequeue_array('orders', array_size => 0)")

    def test_wait_sees_what_others_commit_meanwhile(self) -> None:
        self.queue()
        found: list[Any] = []

        def wait() -> None:
            with self.client() as client, client.transaction():
                client.execute("SELECT 1")
                row = client.execute("SELECT payload_text FROM aq.dequeue('orders', wait => 30)").fetchone()
                found.append(row)

        thread = threading.Thread(target=wait)
        thread.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%aq.dequeue%wait%'"
        eventually(lambda: self.rows(waiting))
        self.send("orders", "x")
        thread.join(30)
        assert found == [{"payload_text": "x"}]

    def test_wait_ends_without_a_row(self) -> None:
        self.queue()
        assert self.rows("SELECT * FROM aq.dequeue('orders', wait => 0.05)") == []

    def test_wait_is_refused_where_it_could_not_see_anything(self) -> None:
        self.queue()
        self.sql.execute("SET default_transaction_isolation = 'repeatable read'")
        with refused(25230, "repeatable read"):
            self.rows("SELECT * FROM aq.dequeue('orders', wait => 1)")
        assert self.rows("SELECT * FROM aq.dequeue('orders')") == []


class TestFailedAttempts(SqlCase):
    """aq.fail counts what a rollback cannot."""

    def test_attempts_count_up_to_the_exception_queue(self) -> None:
        self.queue(max_retries=2)
        (msgid,) = self.send("orders", "x")
        states = [self.call("SELECT aq.fail('orders', %s)", msgid) for _ in range(3)]
        assert states == ["READY", "READY", "EXPIRED"]
        (row,) = self.view("orders_t")
        assert (row["QUEUE"], row["RETRY_COUNT"], row["EXPIRATION_REASON"]) == (
            "AQ$_ORDERS_T_E",
            3,
            "MAX_RETRY_EXCEEDED",
        )
        assert (row["ORIGINAL_QUEUE_NAME"], row["MSG_STATE"]) == ("ORDERS", "EXPIRED")

    def test_sql_counts_as_python_does(self) -> None:
        for name in ("sql", "python"):
            self.queue(name, max_retries=1, retry_delay=60)
            self.admin.create_queue(f"{name}_exceptions", f"{name}_t", queue_type="EXCEPTION_QUEUE")
        for named in ("exceptions", "missing"):
            self.clock.time = time.time()
            (in_sql,) = self.send("sql", "x", exception_queue=f"sql_{named}", expiration=1000)
            self.send("python", "x", exception_queue=f"python_{named}", expiration=1000)
            assert self.call("SELECT aq.fail('sql', %s)", in_sql) == "WAITING"
            self.fail("python")
            self.compare()
            self.clock.time = time.time() + 61
            self.run_time()
            self.compare()
            assert self.call("SELECT aq.fail('sql', %s)", in_sql) == "EXPIRED"
            self.fail("python")
            self.compare()

    def compare(self) -> None:
        """Both queue tables look the same, up to names, ids and half a minute."""
        shown = []
        for name in ("sql", "python"):
            rows = []
            for row in self.view(f"{name}_t"):
                delay = row.pop("DELAY_TIMESTAMP").timestamp()
                own = ("MSG_ID", "ENQ_TIME", "ENQ_TIMESTAMP", "ENQ_TXN_ID", "DELAY")
                kept = {key: value for key, value in row.items() if key not in own}
                rows.append(
                    json.loads(json.dumps(kept, default=str).replace(name.upper(), "-"))
                    | {"late": delay > time.time() + 30}
                )
            shown.append(rows)
        assert shown[0] == shown[1]

    def test_every_recipient_has_its_own_attempts(self) -> None:
        self.topic("red", "green", max_retries=0)
        (msgid,) = self.send("events", "x")
        assert self.call("SELECT aq.fail('events', %s, 'red')", msgid) == "UNDELIVERABLE"
        assert self.taken("events", "red") == []
        self.run_time()
        assert [row["payload_text"] for row in self.rows("SELECT * FROM aq.browse('events', 'green')")] == ["x"]
        assert self.call("SELECT aq.fail('events', %s, 'green')", msgid) == "EXPIRED"
        self.run_time()
        assert {row["QUEUE"] for row in self.view("events_t")} == {"AQ$_EVENTS_T_E"}
        assert {row["MSG_STATE"] for row in self.view("events_t")} == {"EXPIRED"}

    def test_who_has_the_message_of_a_blocked_recipient_in_hand_is_not_waited_for(self) -> None:
        self.topic("red", "green", max_retries=0)
        (msgid,) = self.send("events", "x")
        assert self.call("SELECT aq.fail('events', %s, 'red')", msgid) == "UNDELIVERABLE"
        with self.hub.session() as session:
            session.dequeue("events", DequeueOptions("red", DequeueMode.LOCKED, msgid=msgid, wait=0))
            self.call("SELECT set_config('statement_timeout', '10s', false)")
            assert self.call("SELECT aq.fail('events', %s, 'green')", msgid) == "UNDELIVERABLE"
            self.run_time()
        self.run_time()
        assert {row["QUEUE"] for row in self.view("events_t")} == {"AQ$_EVENTS_T_E"}

    def test_blocked_recipient_can_still_take_its_message_by_id(self) -> None:
        self.topic("red", "green", max_retries=0)
        (msgid,) = self.send("events", "x")
        assert self.call("SELECT aq.fail('events', %s, 'red')", msgid) == "UNDELIVERABLE"
        assert self.taken("events", "red") == []
        (row,) = self.rows("SELECT payload_text, state, attempts FROM aq.dequeue('events', 'red', msgid => %s)", msgid)
        assert row == {"payload_text": "x", "state": "UNDELIVERABLE", "attempts": 1}
        assert self.taken("events", "green") == ["x"]
        self.run_time()
        assert self.view("events_t") == []

    def test_block_that_fails_counts_in_the_same_transaction(self) -> None:
        self.queue(max_retries=1)
        self.send("orders", "bad")
        work = """
            DO $$
            DECLARE
                message aq.message;
            BEGIN
                BEGIN
                    SELECT * INTO message FROM aq.dequeue('orders');
                    PERFORM message.payload_text::integer;
                EXCEPTION WHEN invalid_text_representation THEN
                    PERFORM aq.fail('orders', message.msgid);
                END;
            END $$"""
        self.sql.execute(work)
        assert [(row["payload_text"], row["attempts"]) for row in self.rows("SELECT * FROM aq.browse('orders')")] == [
            ("bad", 1)
        ]
        self.sql.execute(work)
        assert self.states("orders_t") == ["EXPIRED"]

    def test_what_is_not_there_cannot_fail(self) -> None:
        self.queue()
        (msgid,) = self.send("orders", "x")
        with self.sql.transaction(), self.client() as other:
            assert self.taken() == ["x"]
            with refused(25263):
                other.execute("SELECT aq.fail('orders', %s)", (msgid,))
        with refused(25263):
            self.call("SELECT aq.fail('orders', %s)", msgid)
        with refused(25263):
            self.call("SELECT aq.fail('AQ$_orders_t_E', %s)", msgid)


class TestGroups(SqlCase):
    """Queues whose messages are grouped by transaction."""

    def groups(self) -> list[list[str]]:
        """What a session in Python gets, group by group."""
        found = []
        with self.hub.session() as session:
            while True:
                try:
                    options = base.now(navigation="NEXT_TRANSACTION" if found else "FIRST_MESSAGE")
                    found.append([each.message.body for each in session.dequeue_array("orders", options, 100)])
                except AqError as error:
                    if error.number != 25228:
                        raise
                    return found

    def test_messages_of_one_transaction_are_one_group(self) -> None:
        self.queue(table={"message_grouping": "TRANSACTIONAL", "sort_list": "PRIORITY,ENQ_TIME"})
        with self.sql.transaction():
            self.call("SELECT aq.enqueue('orders', 'late', priority => 5)")
            self.call("SELECT aq.enqueue_array('orders', ARRAY['later', 'last'], priorities => '{1, 9}')")
        self.send("orders", "early", priority=3)
        with self.sql.transaction():
            self.call("SELECT aq.enqueue('orders', 'alone', priority => 9)")
            with self.sql.transaction(force_rollback=True):
                self.call("SELECT aq.enqueue('orders', 'never')")
        with self.hub.read() as conn:
            rows = Db(conn).rows("SELECT group_id, priority, count(*) FROM aq_message GROUP BY 1, 2 ORDER BY 1")
        assert [(row[1], row[2]) for row in rows] == [(5, 3), (3, 1), (9, 1)]
        assert self.groups() == [["early"], ["late", "later", "last"], ["alone"]]

    @pytest.mark.parametrize("python_first", [True, False])
    def test_both_ends_of_a_transaction_share_its_group(self, python_first: bool) -> None:
        self.queue(table={"message_grouping": "TRANSACTIONAL"})
        sent = ["first", "second", "third"]
        with self.hub.engine.connect() as conn:
            session = self.hub.session(conn)
            for number, body in enumerate(sent):
                if (number % 2 == 0) is python_first:
                    session.enqueue("orders", Message(body, priority=number, expiration=100 + number))
                else:
                    conn.execute(
                        base.sa.text("SELECT aq.enqueue('orders', :body, priority => :n, expiration => 100 + :n)"),
                        {"body": body, "n": number},
                    )
            conn.commit()
        with self.hub.read() as conn:
            rows = Db(conn).rows("SELECT id, group_id, priority, expiration, k1, k2, k3, ready_at FROM aq_message")
        assert {row[1] for row in rows} == {min(row[0] for row in rows)}
        assert {row[2:4] for row in rows} == {(0, 100)}
        assert len({row[4:] for row in rows}) == 1

    def test_commit_decides_the_order_of_commit_time_queues(self) -> None:
        table = {"message_grouping": "TRANSACTIONAL", "sort_list": "COMMIT_TIME", "multiple_consumers": True}
        self.queue(table=table)
        self.admin.add_subscriber("orders", "red")
        self.sql.execute("CREATE ROLE clerk LOGIN")
        try:
            self.sql.execute("GRANT USAGE ON SCHEMA aq TO clerk")
            self.sql.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aq TO clerk")
            self.admin.grant_queue_privilege("ENQUEUE", "orders", "clerk")
            with self.client("clerk") as clerk:
                clerk.autocommit = False
                clerk.execute("SELECT aq.enqueue('orders', 'begun first', delay => 0)")
                self.call("SELECT aq.enqueue('orders', 'committed first')")
                clerk.execute("SELECT aq.enqueue('orders', 'begun third')")
                clerk.commit()
        finally:
            self.sql.execute("DROP OWNED BY clerk; DROP ROLE clerk")
        with self.hub.read() as conn:
            rows = Db(conn).rows(
                "SELECT convert_from(m.body, 'UTF8') FROM aq_entry e JOIN aq_message m ON m.id = e.message_id"
                " WHERE e.k2 < 1e300 ORDER BY e.k1, e.k2, e.k3, m.id"
            )
        assert [row[0] for row in rows] == ["committed first", "begun first", "begun third"]

    @pytest.fixture
    def eve(self) -> Iterator[psycopg.Connection[Row]]:
        """A login that may enqueue, and nothing else."""
        self.sql.execute("CREATE ROLE eve LOGIN")
        try:
            self.sql.execute("GRANT USAGE ON SCHEMA aq TO eve")
            self.sql.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aq TO eve")
            with self.client("eve") as client:
                yield client
        finally:
            self.sql.execute("DROP OWNED BY eve; DROP ROLE eve")

    def pretend(self, client: psycopg.Connection[Row], queue: str, group: int) -> None:
        """Name a group in the setting that remembers the transaction's own."""
        with self.hub.read() as conn:
            (queue_id,) = Db(conn).rows("SELECT id FROM aq_queue WHERE name = ?", (queue,))[0]
        head = f'[{group}, "true", -1, -1, -1, -1, 1e300, null, null]'
        name = f"mgw.group_{self.hub.hub_id.hex()}_{queue_id}"
        client.execute("SELECT set_config(%s, %s, true)", (name, head))

    @pytest.mark.parametrize(("order", "multiple"), [("ENQ_TIME", False), ("ENQ_TIME", True), ("COMMIT_TIME", True)])
    def test_nobody_gets_into_the_group_of_another(
        self, eve: psycopg.Connection[Row], order: str, multiple: bool
    ) -> None:
        table = {"message_grouping": "TRANSACTIONAL", "sort_list": order, "multiple_consumers": multiple}
        self.queue(table=table)
        if multiple:
            self.admin.add_subscriber("orders", "red")
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "eve")
        with self.sql.transaction():
            msgid = self.call("SELECT aq.enqueue('orders', 'one')")
            self.call("SELECT aq.enqueue('orders', 'two')")
        victim = int.from_bytes(msgid[8:], "big")
        with eve.transaction():
            self.pretend(eve, "orders", victim)
            eve.execute("SELECT aq.enqueue('orders', 'three')")
            self.pretend(eve, "orders", victim)
            eve.execute("SELECT aq.enqueue('orders', 'four')")
        with self.hub.read() as conn:
            rows = Db(conn).rows(
                "SELECT convert_from(body, 'UTF8'), group_id = id, state, k1, k3 = id FROM aq_message ORDER BY id"
            )
            assert Db(conn).rows(f"SELECT count(*) FROM aq_message WHERE group_id = {victim}") == [(2,)]
        state = 9 if multiple else 0
        assert rows == [(body, body != "two", state, 0, body != "two") for body in ("one", "two", "three", "four")]

    def test_the_group_of_the_transaction_itself_has_its_place_from_its_first_message(
        self, eve: psycopg.Connection[Row]
    ) -> None:
        self.queue(table={"message_grouping": "TRANSACTIONAL"})
        self.queue("others", table={"message_grouping": "TRANSACTIONAL"})
        for queue in ("orders", "others"):
            self.admin.grant_queue_privilege("ENQUEUE", queue, "eve")
        with eve.transaction():
            with eve.transaction():  # a savepoint
                msgid = eve.execute("SELECT aq.enqueue('orders', 'one', priority => 3) AS id").fetchone()
            assert msgid is not None
            first = int.from_bytes(msgid["id"][8:], "big")
            self.pretend(eve, "orders", first)
            with self.client() as other:
                other.execute("SELECT pg_current_xact_id()")  # numbers between those of the transaction
            with eve.transaction():
                eve.execute("SELECT aq.enqueue('orders', 'two')")
            self.pretend(eve, "others", first)
            eve.execute("SELECT aq.enqueue('others', 'elsewhere')")
        with self.hub.read() as conn:
            rows = Db(conn).rows(
                "SELECT group_id, priority, state, k1, k3, ready_at < 1e300 FROM aq_message ORDER BY id"
            )
        assert rows[:2] == [(first, 3, 0, 0, first, True)] * 2
        assert rows[2][0] > first
        assert self.groups() == [["one", "two"]]

    def grouped(self, *groups: Sequence[str], **table: Any) -> None:
        """A queue ``orders`` with a group of messages per sequence."""
        self.queue(table={"message_grouping": "TRANSACTIONAL", **table})
        if table.get("multiple_consumers"):
            self.admin.add_subscriber("orders", "red")
            self.admin.add_subscriber("orders", "blue")
        for group in groups:
            self.send("orders", *group)

    @staticmethod
    def take(client: psycopg.Connection[Row], *more: str, call: str = "dequeue") -> str:
        """Texts of what a client gets, in its transaction."""
        arguments = ", ".join(("'orders'", *more))
        rows = client.execute(f"SELECT payload_text FROM aq.{call}({arguments})").fetchall()
        return " ".join(row["payload_text"] for row in rows)

    @pytest.mark.parametrize(
        "table", [{"sort_list": "PRIORITY"}, {"multiple_consumers": True, "sort_list": "COMMIT_TIME"}]
    )
    def test_whole_groups_go_to_one_consumer_each(self, table: dict[str, Any]) -> None:
        self.grouped(["a1", "a2", "a3"], ["b1", "b2"], ["c1"], **table)
        red, blue = ("consumer => 'red'", "consumer => 'blue'") if table.get("multiple_consumers") else ("NULL", "NULL")
        with self.client() as one, self.client() as two:
            one.autocommit = two.autocommit = False
            assert self.take(one, red) == "a1"
            assert self.take(two, red) == "b1"
            assert self.take(self.sql, red, "array_size => 9", call="dequeue_array") == "c1"
            assert self.take(self.sql, red, "array_size => 9", call="dequeue_array") == ""
            assert [self.take(one, red) for _ in range(3)] == ["a2", "a3", ""]
            assert self.take(one, red, "navigation => 'NEXT_TRANSACTION'") == ""
            assert self.take(one, red, "navigation => 'first_message'") == ""
            two.rollback()
            assert self.take(one, red, "navigation => 'NEXT_TRANSACTION'") == "b1"
            assert self.take(one, red, "wait => 60") == "b2"
            assert self.take(one, red, "wait => 60") == ""  # nothing can come to this group
            one.commit()
            assert self.take(two, red) == ""
            two.rollback()
            if blue != red:
                assert self.take(two, blue, "array_size => 9", call="dequeue_array") == "a1 a2 a3"

    def test_what_a_commit_leaves_of_a_group_is_a_smaller_group(self) -> None:
        self.grouped(["a1", "a2", "a3", "a4"], ["b1"])
        assert self.take(self.sql) == "a1"  # in a transaction of its own
        with self.client() as one:
            one.autocommit = False
            assert self.take(one, "array_size => 2", call="dequeue_array") == "a2 a3"
            assert self.take(self.sql, "array_size => 9", call="dequeue_array") == "b1"
            one.commit()
            assert self.take(one, "navigation => 'NEXT_TRANSACTION'") == "a4"

    def test_position_goes_back_with_a_savepoint(self) -> None:
        self.grouped(["a1", "a2"], ["b1", "b2"])
        with self.sql.transaction():
            with self.sql.transaction(force_rollback=True):
                assert self.take(self.sql, "navigation => 'NEXT_TRANSACTION'") == "a1"
            assert self.take(self.sql) == "a1"
            with self.sql.transaction(force_rollback=True):
                assert self.take(self.sql, "navigation => 'NEXT_TRANSACTION'") == "b1"
            assert [self.take(self.sql), self.take(self.sql)] == ["a2", ""]

    def test_a_group_in_other_hands_is_left_alone(self) -> None:
        self.grouped(["a1", "a2"], ["b1", "b2"], ["c1", "c2"], ["d1"])
        with self.client() as other, self.hub.session() as session:
            other.autocommit = False
            msgid = self.call("SELECT msgid FROM aq.browse('orders') WHERE payload_text = 'a2'")
            other.execute("SELECT aq.dequeue('orders', msgid => %s)", (msgid,))
            assert session.dequeue("orders", base.now()).message.body == "b1"
            failed = self.call("SELECT msgid FROM aq.browse('orders') WHERE payload_text = 'c2'")
            self.admin.alter_queue("orders", retry_delay=60)
            assert self.call("SELECT aq.fail('orders', %s)", failed) == "WAITING"
            self.admin.alter_queue("orders", retry_delay=0)
            with self.sql.transaction():
                assert self.take(self.sql) == "d1"
                assert self.take(self.sql, "navigation => 'NEXT_TRANSACTION'") == ""
                other.commit()
                session.rollback()
                assert self.take(self.sql, "navigation => 'FIRST_MESSAGE'") == "a1"
                assert self.take(self.sql, "navigation => 'NEXT_TRANSACTION'") == "b1"
                with self.hub.session() as again, pytest.raises(AqError, match="ORA-25228"):
                    again.dequeue("orders", base.now())
        assert self.call("SELECT count(*) FROM aq.browse('orders')") == 2  # b2, and c1: c2 waits

    def test_modes_and_searches_of_groups(self) -> None:
        self.grouped(["a1", "a2"], ["b1"])
        self.send("orders", "c1", correlation="red")
        assert self.take(self.sql, call="browse") == "a1 a2 b1 c1"
        with self.sql.transaction(force_rollback=True):
            locked = "dequeue_mode => 'LOCKED'"
            assert [self.take(self.sql, locked) for _ in range(3)] == ["a1", "a2", ""]
            assert self.take(self.sql, locked, "navigation => 'NEXT_TRANSACTION'") == "b1"
            with self.client() as other:
                assert self.take(other, "correlation => 'r%%'") == "c1"
                assert self.take(other) == ""
            assert self.take(self.sql, "navigation => 'FIRST_MESSAGE'") == "a1"
        for number, call in (
            (25233, "'orders', navigation => 'NEXT_MESSAGE_ONE_GROUP'"),
            (25233, "'orders', navigation => 'NEXT_TRANSACTION', correlation => 'red'"),
            (25233, "'orders', navigation => 'NEXT_TRANSACTION', dequeue_mode => 'BROWSE'"),
            (25234, "'plain', navigation => 'NEXT_TRANSACTION'"),
        ):
            if number == 25234:
                self.queue("plain")
            with refused(number):
                self.call(f"SELECT aq.dequeue({call})")

    def test_a_position_that_is_made_up_gives_nothing_more(self, eve: psycopg.Connection[Row]) -> None:
        self.grouped(["a1", "a2"], ["b1"])
        self.queue("secret", table={"message_grouping": "TRANSACTIONAL"})
        self.send("secret", "s1", "s2")
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "eve")
        with self.hub.read() as conn:
            ids = dict(Db(conn).rows("SELECT name, id FROM aq_queue WHERE name IN ('orders', 'secret')"))
            ((group,),) = Db(conn).rows("SELECT min(id) FROM aq_message WHERE queue_id = ?", (ids["secret"],))
        with eve.transaction(force_rollback=True):
            for queue in ids.values():
                setting = f"mgw.at_{self.hub.hub_id.hex()}_{queue}_0"
                eve.execute("SELECT set_config(%s, %s, true)", (setting, f"{group} 0 0 0 0"))
            assert self.take(eve) == ""
            assert self.take(eve, "navigation => 'FIRST_MESSAGE'") == "a1"
            with refused(25205), eve.transaction():
                eve.execute("SELECT aq.dequeue('secret')")


class TestNamesBeyondAscii(SqlCase):
    """Keys are made by Python, whatever the locale of the database makes of a letter."""

    @pytest.fixture(params=["C", "C.UTF-8"])
    def hub_url(self, postgresql: PostgreSQL, request: pytest.FixtureRequest) -> Iterator[str]:
        with psycopg.connect(_plain(postgresql.url), autocommit=True) as connection:
            connection.execute(
                "CREATE DATABASE hub_names TEMPLATE template0 ENCODING 'UTF8'"
                f" LC_CTYPE '{request.param}' LC_COLLATE '{request.param}'"
            )
            try:
                yield postgresql.url_of("hub_names")
            finally:
                connection.execute("DROP DATABASE hub_names WITH (FORCE)")

    def test_messages_go_to_the_consumer_of_that_name_or_are_refused(self) -> None:
        self.topic("Straße", "müller", "Ǆ", "bills")
        for name in ("Straße", "STRASSE", ' "müller" ', "MÜLLER", "Ǆ", "Bills", "BILLS"):
            self.call("SELECT aq.enqueue('events', %s, recipients => ARRAY[%s])", name, name)
        for name in ("straße", "weiß"):
            with refused(24035, "ASCII"):
                self.call("SELECT aq.enqueue('events', 'x', recipients => ARRAY[%s])", name)
        with refused(25232):
            self.call("SELECT aq.enqueue('events', 'x', recipients => ARRAY['Straße', 'strasse'])")
        with self.hub.read() as conn:
            assert Db(conn).rows("SELECT name FROM aq_consumer ORDER BY id") == [
                ("Straße",),
                ("müller",),
                ("Ǆ",),
                ("bills",),
            ]
        assert self.taken("events", "Straße") == ["Straße", "STRASSE"]
        assert self.take("events", "MÜLLER") == [' "müller" ', "MÜLLER"]
        assert self.taken("events", "bILLS") == ["Bills", "BILLS"]

    def test_recipients_that_python_made_are_found(self) -> None:
        self.topic()
        self.send("events", "first", recipients=["Größe"])
        self.call("SELECT aq.enqueue('events', 'second', recipients => ARRAY['Größe'])")
        assert self.take("events", "GRÖSSE") == ["first", "second"]

    def test_logins_hold_what_they_were_granted_where_the_locale_knows_their_letters(self) -> None:
        self.queue()
        self.admin.create_queue_table("müller.t")
        self.admin.create_queue("müller.own", "müller.t")
        self.admin.start_queue("müller.own")
        self.admin.grant_queue_privilege("ALL", "orders", "Müller")
        self.sql.execute('CREATE ROLE "müller" LOGIN')
        try:
            self.sql.execute('GRANT USAGE ON SCHEMA aq TO "müller"; GRANT USAGE ON SCHEMA public TO "müller"')
            self.sql.execute('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aq TO "müller"')
            self.sql.execute('GRANT SELECT ON ALL_QUEUES, USER_QUEUES TO "müller"')
            with self.client("müller") as client:
                if self.call("SELECT upper('ü')") == "ü":
                    with refused(25205):
                        client.execute("SELECT aq.enqueue('orders', 'x')")
                    assert client.execute("SELECT name FROM ALL_QUEUES").fetchall() == []
                    return
                for queue in ("orders", "müller.own"):
                    client.execute("SELECT aq.enqueue(%s, 'x')", (queue,))
                    found = client.execute("SELECT payload_text FROM aq.dequeue(%s)", (queue,)).fetchall()
                    assert found == [{"payload_text": "x"}]
                names = "WHERE queue_type = 'NORMAL_QUEUE' ORDER BY name"
                assert client.execute(f"SELECT name FROM ALL_QUEUES {names}").fetchall() == [
                    {"name": "ORDERS"},
                    {"name": "OWN"},
                ]
                assert client.execute(f"SELECT name FROM USER_QUEUES {names}").fetchall() == [{"name": "OWN"}]
        finally:
            self.sql.execute('DROP OWNED BY "müller"; DROP ROLE "müller"')


class TestRights(SqlCase):
    """Who may call, and that nobody gets further."""

    @pytest.fixture
    def stranger(self) -> Iterator[psycopg.Connection[Row]]:
        self.sql.execute("CREATE ROLE stranger LOGIN")
        try:
            with self.client("stranger") as client:
                yield client
        finally:
            self.sql.execute("DROP OWNED BY stranger; DROP ROLE stranger")

    def test_nobody_may_call_before_he_is_granted(self, stranger: psycopg.Connection[Row]) -> None:
        self.queue()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute("SELECT aq.enqueue('orders', 'x')")
        self.sql.execute("GRANT USAGE ON SCHEMA aq TO stranger")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute("SELECT aq.enqueue('orders', 'x')")
        owned = "SELECT proname FROM pg_proc WHERE pronamespace = 'aq'::regnamespace"
        assert len(self.rows(owned)) > 20
        assert self.rows(f"{owned} AND has_function_privilege('stranger', oid, 'EXECUTE')") == []

    def allow(self) -> None:
        """The stranger may call; what he may do with queues is another matter."""
        self.sql.execute("GRANT USAGE ON SCHEMA aq TO stranger")
        self.sql.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aq TO stranger")

    def agree(
        self, stranger: psycopg.Connection[Row], queue: str, consumer: str | None, sender: str | None
    ) -> list[int]:
        """Numbers of the refusals of enqueue and dequeue (0: none), which SQL and a session in Python agree about."""
        numbers = []
        recipients = [consumer] if consumer else None
        for call, parameters in (
            ("SELECT aq.enqueue(%s, 'x', sender_name => %s, recipients => %s)", (queue, sender, recipients)),
            ("SELECT aq.dequeue(%s, %s)", (queue, consumer)),
        ):
            try:
                stranger.execute(call, parameters)
                numbers.append(0)
            except psycopg.Error as error:
                numbers.append(int(re.findall(r"^ORA-(\d+)", error.diag.message_primary or "")[0]))
        in_python = []
        with self.hub.session(user="stranger") as session:
            for work in (
                lambda: session.enqueue(queue, Message("x", sender_name=sender), recipients=recipients or ()),
                lambda: session.dequeue(queue, base.now(consumer_name=consumer)),
            ):
                try:
                    work()
                    in_python.append(0)
                except AqError as error:
                    in_python.append(0 if error.number == 25228 else error.number or -1)  # nothing there
        assert numbers == in_python
        return numbers

    def test_privileges_are_those_of_a_session_with_that_user(self, stranger: psycopg.Connection[Row]) -> None:
        self.allow()
        self.queue()
        self.topic("red")
        self.admin.create_queue_table("stranger.t")
        self.admin.create_queue("stranger.own", "stranger.t")
        self.admin.start_queue("stranger.own")
        assert self.agree(stranger, "stranger.own", None, None) == [0, 0]
        assert self.agree(stranger, "orders", None, None) == [25205, 25205]
        assert self.agree(stranger, "missing", None, None) == [25205, 25205]
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "stranger")
        assert self.agree(stranger, "orders", None, None) == [0, 1031]
        self.admin.grant_role("clerk", "stranger")
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "clerk")
        assert self.agree(stranger, "orders", None, None) == [0, 0]
        self.admin.grant_queue_privilege("DEQUEUE", "events", "PUBLIC")
        assert self.agree(stranger, "events", "red", None)[0] == 1031
        self.admin.grant_system_privilege("ENQUEUE_ANY", "stranger")
        assert self.agree(stranger, "events", "red", None) == [0, 0]
        self.admin.revoke_system_privilege("ENQUEUE_ANY", "stranger")
        self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "clerk")
        assert self.agree(stranger, "events", "red", None) == [0, 0]

    def test_queue_that_is_not_for_the_caller_is_refused_like_one_that_is_not_there(
        self, stranger: psycopg.Connection[Row]
    ) -> None:
        self.allow()
        self.queue()
        self.admin.create_queue_table("Billing.t")
        self.admin.create_queue("Billing.q", "Billing.t")
        for names in (("orders", "nobody"), ("billing.q", "missing.q")):
            texts = []
            for name in names:
                with pytest.raises(psycopg.Error) as caught:
                    stranger.execute("SELECT aq.enqueue(%s, 'x')", (name,))
                diag = caught.value.diag
                text = f"{diag.message_primary} {diag.message_detail} {diag.message_hint} {diag.context}"
                texts.append(text.replace(name, "-").replace(name.partition(".")[0].upper(), "-"))
            assert texts[0] == texts[1]

    def test_attempts_and_looks_need_the_privilege_too(self, stranger: psycopg.Connection[Row]) -> None:
        self.allow()
        self.queue()
        (msgid,) = self.send("orders", "x")
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "stranger")
        for call in ("SELECT aq.browse('orders')", "SELECT aq.fail('orders', %s)", "SELECT aq.dequeue_array('orders')"):
            with refused(1031, "stranger"):
                stranger.execute(call, (msgid,) if "%s" in call else None)

    def test_secure_queue_asks_for_an_agent_of_the_user(self, stranger: psycopg.Connection[Row]) -> None:
        self.allow()
        for name, split in (("single", False), ("split", True)):
            self.queue(name, table={"secure": True, "multiple_consumers": split})
            self.admin.grant_queue_privilege("ALL", name, "stranger")
        self.admin.create_aq_agent("press")
        self.admin.create_aq_agent("other")
        assert self.agree(stranger, "single", None, None) == [25224, 24093]
        assert self.agree(stranger, "single", None, "press")[0] == 24093
        self.admin.enable_db_access("press", "stranger")
        assert self.agree(stranger, "single", None, "press") == [0, 0]
        assert self.agree(stranger, "single", None, "other")[0] == 24093
        assert self.agree(stranger, "split", "press", "press") == [0, 0]
        assert self.agree(stranger, "split", "other", "press") == [0, 24093]
        self.call("SELECT aq.enqueue('single', 'x')")  # the owner needs none
        assert self.taken("single") == ["x"]

    def test_names_on_secure_queues_are_read_as_the_search_reads_them(self, stranger: psycopg.Connection[Row]) -> None:
        self.allow()
        self.queue("split", table={"secure": True, "multiple_consumers": True})
        self.admin.grant_queue_privilege("ALL", "split", "stranger")
        mine = ("press", '""other""', '" other "', "Große")
        for name in (*mine, "other"):
            self.admin.create_aq_agent(name)
        for name in mine:
            self.admin.enable_db_access(name, "stranger")
        self.admin.add_subscriber("split", "other")
        self.admin.add_subscriber("split", "Große")
        self.send("split", "secret", recipients=["other"])
        unquoted, quoted = (" Press ", " \x85press\xa0", "Große"), ('\t"PRESS"\n', '\u2028 "press"\u3000', ' "Große" ')
        for name in unquoted + quoted:
            assert self.agree(stranger, "split", name, name) == [0, 0], name
        for name in ('"other"', " other ", ' "OTHER"', '"other"\u2003'):
            assert self.agree(stranger, "split", name, name) == [24093, 24093], name
        for name in ('""other""', '" other "'):  # agents of the user, with messages of their own
            assert self.agree(stranger, "split", name, name) == [0, 0], name
        assert self.taken("split", "other") == ["secret"]

    def test_names_of_agents_are_read_as_in_python(self) -> None:
        given = ["", '"', '""', '"""', 'a"b"', '"a"b', " a  b ", ' ""a" " ', '"\n"']
        given += [f'{c}"{c}x{c}"{c}' for c in map(chr, range(1, 0xD800))]
        sql = "SELECT array_agg(aq._agent(u.c) ORDER BY u.n) FROM unnest(%s::text[]) WITH ORDINALITY u(c, n)"
        assert self.call(sql, given) == [bare_agent(each) for each in given]

    def test_right_to_call_is_no_right_on_the_tables(self, stranger: psycopg.Connection[Row]) -> None:
        self.queue()
        self.allow()
        self.admin.grant_queue_privilege("ALL", "orders", "stranger")
        stranger.execute("SELECT aq.enqueue('orders', 'x')")
        assert self.view("orders_t")[0]["ENQ_USER_ID"] == "stranger"
        schema = self.call("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'aq_message'")
        for forbidden in (
            f"SELECT * FROM {schema}.aq_message",
            "SELECT * FROM aq._take('orders', NULL, 'REMOVE', NULL, NULL, 'NEXT_MESSAGE', 1)",
            f"SELECT aq._enqueue('orders', 'text', '{{x}}'{', NULL' * 12})",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)):
                stranger.execute(forbidden)
        assert [row["payload_text"] for row in stranger.execute("SELECT * FROM aq.dequeue('orders')")] == ["x"]

    def test_right_to_call_is_no_right_on_a_queue(self, stranger: psycopg.Connection[Row]) -> None:
        for queue in ("orders", "others"):
            self.queue(queue)
        (msgid,) = self.send("orders", "secret")
        self.sql.execute("GRANT USAGE ON SCHEMA aq TO stranger")
        self.sql.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aq TO stranger")
        enqueues = ("SELECT aq.enqueue({}, 'x')", "SELECT aq.enqueue_array({}, ARRAY['x'])")
        dequeues = (
            "SELECT * FROM aq.dequeue({})",
            "SELECT * FROM aq.dequeue_array({})",
            "SELECT * FROM aq.browse({})",
            "SELECT * FROM aq.dequeue({}, dequeue_mode => 'LOCKED')",
            f"SELECT * FROM aq.dequeue({{}}, msgid => '\\x{msgid.hex()}')",
            f"SELECT aq.fail({{}}, '\\x{msgid.hex()}')",
        )

        def answers(calls: tuple[str, ...], queue: str) -> set[str]:
            """What the calls say, without the names of queues."""
            found = set()
            for call in calls:
                try:
                    stranger.execute(call.format(f"'{queue}'"))
                    found.add("done")
                except psycopg.Error as error:
                    found.add(str(error.diag.sqlstate) + str(error.diag.message_primary).replace(queue, "Q"))
            return found

        hidden = {"MG205ORA-25205: queue 'Q' does not exist for user stranger"}
        for queue in ("orders", "nowhere"):
            assert answers(enqueues, queue) == answers(dequeues, queue) == hidden
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "Stranger")
        assert answers(enqueues, "orders") == {"done"}
        assert answers(dequeues, "orders") == {"MG031ORA-01031: user stranger may not dequeue on queue Q"}
        assert answers(enqueues + dequeues, "others") == hidden
        assert self.taken() == ["secret", "x", "x"]
        self.admin.revoke_queue_privilege("ENQUEUE", "orders", "stranger")
        self.send("orders", "secret")
        self.admin.grant_role("clerks", "stranger")
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "clerks")
        assert answers(dequeues[2:3], "orders") == {"done"}
        assert answers(enqueues, "orders") == {"MG031ORA-01031: user stranger may not enqueue on queue Q"}
        self.admin.revoke_role("clerks", "stranger")
        assert answers(enqueues, "orders") == hidden
        for grant, revoke in (
            (self.admin.grant_system_privilege, self.admin.revoke_system_privilege),
            (self.admin.grant_role, self.admin.revoke_role),
        ):
            word = "ENQUEUE_ANY" if grant == self.admin.grant_system_privilege else "AQ_ADMINISTRATOR_ROLE"
            grant(word, "stranger")
            assert answers(enqueues, "others") == {"done"}
            revoke(word, "stranger")
            assert answers(enqueues, "others") == hidden
        self.admin.create_queue_table("stranger.t")
        self.admin.create_queue("stranger.q", "stranger.t")
        self.admin.start_queue("stranger.q")
        assert answers(enqueues + dequeues[:3], "stranger.q") == {"done"}

    def test_login_called_like_the_role_does_not_hold_it(self) -> None:
        self.queue()
        self.sql.execute("CREATE ROLE aq_administrator_role LOGIN")
        try:
            self.sql.execute("GRANT USAGE ON SCHEMA aq TO aq_administrator_role")
            self.sql.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aq TO aq_administrator_role")
            schema = self.call("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'aq_message'")
            self.sql.execute(f"GRANT USAGE ON SCHEMA {schema} TO aq_administrator_role")
            self.sql.execute(f"GRANT SELECT ON {schema}.ALL_QUEUES TO aq_administrator_role")
            with self.client("aq_administrator_role") as client:
                assert client.execute(f"SELECT * FROM {schema}.ALL_QUEUES").fetchall() == []
                with refused(25205):
                    client.execute("SELECT aq.enqueue('orders', 'x')")
        finally:
            self.sql.execute("DROP OWNED BY aq_administrator_role; DROP ROLE aq_administrator_role")

    def test_objects_in_the_schema_of_the_hub_do_not_either(self, stranger: psycopg.Connection[Row]) -> None:
        self.allow()
        self.queue()
        self.admin.grant_queue_privilege("ALL", "orders", "stranger")
        schema = self.call("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'aq_message'")
        self.sql.execute(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO stranger")
        stranger.execute(f"CREATE FUNCTION {schema}.upper(name) RETURNS text LANGUAGE sql AS $$ SELECT 'SYS' $$")
        stranger.execute("SELECT aq.enqueue('orders', 'x')")
        assert [row["payload_text"] for row in stranger.execute("SELECT * FROM aq.dequeue('orders')")] == ["x"]

    def test_objects_of_the_caller_do_not_get_in_between(self) -> None:
        self.queue()
        self.send("orders", "x")
        self.sql.execute("CREATE TEMP TABLE aq_message (id bigint); CREATE TEMP TABLE aq_queue (id bigint)")
        self.sql.execute("CREATE FUNCTION pg_temp.upper(text) RETURNS text LANGUAGE sql AS $$ SELECT 'WRONG' $$")
        self.sql.execute("SET search_path = pg_temp, public")
        self.call("SELECT aq.enqueue('orders', 'y')")
        assert self.taken() == ["x", "y"]


class TestInstallation(SqlCase):
    """Made with the hub, refreshed by a newer release."""

    def parts(self) -> dict[str, int]:
        with self.hub.read() as conn:
            return dict(Db(conn).rows("SELECT name, version FROM aq_part"))

    def set_part(self, name: str, version: int) -> None:
        with self.hub.write() as conn:
            Db(conn).run("UPDATE aq_part SET version = ? WHERE name = ?", (version, name))

    def damage(self) -> None:
        """What an older release could have left."""
        self.sql.execute("CREATE OR REPLACE FUNCTION aq.version() RETURNS integer LANGUAGE sql AS 'SELECT -1'")
        self.sql.execute("CREATE FUNCTION aq.fail(integer) RETURNS integer LANGUAGE sql AS 'SELECT -1'")

    def test_version_is_shown(self) -> None:
        assert self.call("SELECT aq.version()") == functions.FUNCTIONS_VERSION

    @pytest.mark.parametrize("part", ["functions", "functions_text"])
    def test_opening_replaces_what_is_older(self, part: str) -> None:
        self.damage()
        Hub.open(self.url).close()
        assert self.call("SELECT aq.version()") == -1  # nothing says that it is older
        self.set_part(part, 0)
        Hub.open(self.url).close()
        assert self.call("SELECT aq.version()") == functions.FUNCTIONS_VERSION
        with pytest.raises(psycopg.errors.UndefinedFunction):
            self.call("SELECT aq.fail(1)")
        assert not functions.stale(self.parts())

    def test_opening_leaves_what_is_newer(self) -> None:
        self.damage()
        self.set_part("functions", functions.FUNCTIONS_VERSION + 1)
        self.set_part("functions_text", 0)
        Hub.open(self.url).close()
        assert self.call("SELECT aq.version()") == -1

    def test_functions_of_another_shape_are_replaced_and_grants_stay(self) -> None:
        self.sql.execute("CREATE ROLE guest")
        try:
            self.sql.execute("GRANT EXECUTE ON FUNCTION aq.version() TO guest")
            self.sql.execute("DROP FUNCTION aq.version()")
            self.sql.execute("CREATE FUNCTION aq.version() RETURNS text LANGUAGE sql AS 'SELECT 1::text'")
            self.sql.execute("GRANT EXECUTE ON FUNCTION aq.version() TO guest")
            self.set_part("functions", 0)
            Hub.open(self.url).close()
            assert self.call("SELECT aq.version()") == functions.FUNCTIONS_VERSION
            may = "SELECT has_function_privilege('guest', 'aq.%s', 'EXECUTE')"
            assert self.call(may % "version()")
            assert not self.call(may % "header(json, text)")
        finally:
            self.sql.execute("DROP OWNED BY guest; DROP ROLE guest")

    def test_message_type_of_another_shape_is_replaced(self) -> None:
        self.queue()
        self.send("orders", "x")
        self.sql.execute("ALTER TYPE aq.message DROP ATTRIBUTE kind")
        self.set_part("functions", 0)
        Hub.open(self.url).close()
        with self.client() as client:
            rows = client.execute("SELECT kind FROM aq.dequeue('orders')").fetchall()
        assert rows == [{"kind": "BASIC"}]

    def test_what_cannot_be_replaced_stays_and_the_log_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        self.queue()
        self.sql.execute("CREATE VIEW waiting AS SELECT kind FROM aq.browse('orders')")
        try:
            self.sql.execute("ALTER TYPE aq.message ADD ATTRIBUTE more text")
            self.set_part("functions", 0)
            Hub.open(self.url).close()
            assert "drop the views that use them" in caplog.text
        finally:
            self.sql.execute("DROP VIEW waiting")

    def test_second_hub_of_a_database_has_functions_of_its_own(self) -> None:
        self.queue()
        self.send("orders", "first hub")
        url = f"{self.url.partition('?')[0]}?schema=Second"
        try:
            with Hub.open(url, create=True) as second:
                QueueAdmin(second).create_queue_table("t")
                QueueAdmin(second).create_queue("orders", "t")
                QueueAdmin(second).start_queue("orders")
                self.call("""SELECT "aq_Second".enqueue('orders', 'second hub')""")
                with second.session() as session:
                    assert session.dequeue("orders", base.now()).message.body == "second hub"
            assert self.taken() == ["first hub"]
            with self.hub.write() as conn:
                assert functions.schema_name(Db(conn), self.hub.hub_id) == "aq"
        finally:
            self.sql.execute('DROP SCHEMA "Second" CASCADE; DROP SCHEMA IF EXISTS "aq_Second" CASCADE')

    def test_refresh_translates_the_rules_again(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "urgent", rule="tab.priority < 3")
        with self.hub.write() as conn:
            Db(conn).run("UPDATE aq_consumer SET rule_sql = NULL")
        with refused(25449):
            self.call("SELECT aq.enqueue('events', 'x')")
        self.set_part("functions", 0)
        Hub.open(self.url).close()
        self.call("SELECT aq.enqueue('events', 'x')")
        assert self.taken("events", "urgent") == ["x"]

    def test_rules_are_translated_again_when_the_translation_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for made_by in (
            "def translate(",
            "class Translation",
            "def compared(",
            "def _quotient(",
            "def _cased(",
            "def _case(",
        ):
            assert made_by in functions._translators()
        self.topic()
        self.admin.add_subscriber("events", "urgent", rule="tab.priority < 3")
        with self.hub.write() as conn:
            Db(conn).run("UPDATE aq_consumer SET rule_sql = 'false' WHERE name = 'urgent'")
        Hub.open(self.url).close()
        with refused(24033):
            self.call("SELECT aq.enqueue('events', 'x')")
        functions._checksum.cache_clear()
        written = functions._translators()
        monkeypatch.setattr(functions, "_translators", lambda: f"{written} # corrected")
        try:
            Hub.open(self.url).close()
        finally:
            functions._checksum.cache_clear()
        self.call("SELECT aq.enqueue('events', 'x')")
        assert self.taken("events", "urgent") == ["x"]

    def test_functions_can_be_removed(self) -> None:
        with self.hub.write() as conn:
            functions.remove(Db(conn), self.hub.hub_id)
        assert self.call("SELECT to_regnamespace('aq') IS NULL")
        Hub.open(self.url).close()
        assert self.call("SELECT aq.version()") == functions.FUNCTIONS_VERSION

    def test_user_without_the_right_is_told_what_to_grant(self, postgresql: PostgreSQL) -> None:
        name = f"limited{next(_number)}"
        url = postgresql.create_database(name)
        with psycopg.connect(_plain(url), autocommit=True) as connection:
            connection.execute("CREATE ROLE limited LOGIN")
            connection.execute("GRANT CREATE ON SCHEMA public TO limited")
            try:
                limited = url.replace("mgw@", "limited@")
                with pytest.raises(HubError, match=r"CREATE SCHEMA aq AUTHORIZATION"):
                    Hub.open(limited, create=True)
                connection.execute("CREATE SCHEMA aq AUTHORIZATION limited")
                Hub.open(limited, create=True).close()
                assert connection.execute("SELECT aq.version()").fetchone()
            finally:
                connection.execute("DROP OWNED BY limited CASCADE; DROP ROLE limited")
        postgresql.drop_database(name)

    def test_schema_of_somebody_else_is_never_taken(self, postgresql: PostgreSQL) -> None:
        name = f"squatted{next(_number)}"
        url = postgresql.create_database(name)
        with psycopg.connect(_plain(url), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE eve LOGIN; GRANT CREATE ON DATABASE {name} TO eve")
            with psycopg.connect(_plain(url), autocommit=True, user="eve") as eve:
                eve.execute("CREATE SCHEMA aq; GRANT ALL ON SCHEMA aq TO PUBLIC")
                with pytest.raises(HubError, match=r"belongs to user eve"):
                    Hub.open(url, create=True)
                # full, and with the words of a hub that is gone: what it says there of tables is not looked at
                eve.execute(
                    """CREATE FUNCTION aq.evil() RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN
                           ALTER ROLE eve SUPERUSER; RETURN 'x'; END $$;
                       CREATE VIEW aq.aq_hub AS SELECT aq.evil() AS hub_id;
                       COMMENT ON SCHEMA aq IS 'Functions of hub 0000000000000000, tables in aq'"""
                )
                with Hub.open(url, create=True) as hub:
                    assert connection.execute("SELECT to_regprocedure('aq_public.version()')").fetchone() != (None,)
                    eve.execute(f"COMMENT ON SCHEMA aq IS 'Functions of hub {hub.hub_id.hex()}, tables in public'")
                    with hub.write() as conn:
                        assert functions.schema_name(Db(conn), hub.hub_id) == "aq_public"
                        Db(conn).run("UPDATE aq_part SET version = 0 WHERE name = 'functions'")
                Hub.open(url).close()
            row = connection.execute(
                """SELECT rolsuper, to_regprocedure('aq._key(text, text)') IS NULL,
                          aq_public.version() FROM pg_roles WHERE rolname = 'eve'"""
            ).fetchone()
            assert row == (False, True, functions.FUNCTIONS_VERSION)
            connection.execute("DROP OWNED BY eve CASCADE; DROP ROLE eve")
        postgresql.drop_database(name)

    def test_functions_are_replaced_by_the_owner_of_the_tables_only(
        self, postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Else those of an administrator would stand in a schema whose owner may replace them."""
        name = f"owned{next(_number)}"
        url = postgresql.create_database(name)
        with psycopg.connect(_plain(url), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE {name} TO owner")
            connection.execute("GRANT CREATE ON SCHEMA public TO owner")
            Hub.open(url.replace("mgw@", "owner@"), create=True).close()
            connection.execute("UPDATE aq_part SET version = 0 WHERE name = 'functions'")
            Hub.open(url).close()
            assert "open the hub once as owner" in caplog.text
            Hub.open(url.replace("mgw@", "owner@")).close()
            owners = connection.execute("SELECT DISTINCT proowner::regrole::text FROM pg_proc WHERE proname = '_key'")
            assert owners.fetchall() == [("owner",)]
            assert connection.execute("SELECT version FROM aq_part WHERE name = 'functions'").fetchone() == (
                functions.FUNCTIONS_VERSION,
            )
            connection.execute("DROP OWNED BY owner CASCADE; DROP ROLE owner")
        postgresql.drop_database(name)
