"""What every hub database must do with conditions: dequeue, subscribe, purge. Run on both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mgw.gateway.aq.conditions.purge_conditions import purge_condition
from mgw.gateway.aq.conditions.rules import register_function, unregister_function
from mgw.gateway.aq.errors import NoMessage
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.queues.condition_search import pushed
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError, ExpressionFailed
from mgw.transforms.language.compiler import compile_condition
from mgw.transforms.language.expression import Row
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.hub_suite import HubCase

MESSAGES = [
    Message(json.dumps({"region": "EU", "amount": 10, "o": {"x": "1"}}), priority=3, correlation="order-1"),
    Message(json.dumps({"region": "US", "amount": 250.5}), priority=1, correlation="order-2"),
    Message(json.dumps({"region": None, "amount": "250"}), priority=2, correlation="Order-3"),
    Message(b'{"region": "EU", "amount": 1e3, "flag": true}', priority=2, sender_name="SHOP"),
    Message("no JSON at all", priority=5, correlation="100%", headers=(Header("kind", ValueType.TEXT, "free"),)),
    Message(b"\xff\xfe", priority=2**62, headers=(Header("kind", ValueType.LONG, 7),)),
    Message(None, priority=-4, correlation="ümlaut", exception_queue="elsewhere"),
    Message('{"region": "EU", "region": "US", "o": {"x": 1}}', priority=0, expiration=500),
    Message('{"region": "E\\u0055"}', priority=4, correlation="order_8"),
]
CONDITIONS = [
    "priority BETWEEN 1 AND 3",
    "corrid LIKE 'order%'",
    "corrid LIKE 'order!_%' ESCAPE '!'",
    "corrid LIKE '%!%' ESCAPE '!'",
    "corrid > 'Z' AND NOT corrid = 'ümlaut'",
    "UPPER(corrid) LIKE 'ORDER-_'",
    "tab.user_data.region = 'EU'",
    "tab.user_data.region <> 'EU' OR priority < 0",
    "tab.user_data.region IN ('US', 'EU') AND priority > 1",
    "tab.user_data.o.x = '1'",
    "tab.user_data.amount >= 250 AND priority < 5",
    "tab.user_data.region IS NULL",
    "tab.user_data.flag",
    "tab.user_data LIKE 'no%'",
    "HEADER('kind') = 'free' OR priority = 0",
    "priority + 1 = 3 AND expiration IS NULL",
    "10 / priority > 3 AND priority > 0",
    "CASE WHEN priority > 2 THEN corrid ELSE sender_name END IS NOT NULL",
    "tab.enq_time = 1800000000 AND retry_count = 0 AND msgid IS NOT NULL",
    "exception_queue || '!' = 'elsewhere!' OR sender_name = 'SHOP'",
    "doubled(priority) = 4",
    "priority < 4 AND doubled(priority) > 2 AND LENGTH(corrid) > 5",
    "1 = 1",
]  # fmt: skip


class ConditionSuite(HubCase):
    """``deq_condition``: the database and Python find the same messages."""

    @pytest.fixture(autouse=True)
    def _functions(self) -> Iterator[None]:
        register_function("doubled", lambda number: number * 2)
        yield
        unregister_function("doubled")

    def fill(self, queue: str, messages: list[Message] = MESSAGES) -> None:
        with self.hub.session() as session:
            session.enqueue_array(queue, messages)
            session.commit()

    def browse(self, queue: str, condition: str, consumer: str | None = None, limit: int = 1000) -> list[Message]:
        look = DequeueOptions(consumer, dequeue_mode=DequeueMode.BROWSE, deq_condition=condition, wait=0)
        with self.hub.session() as session:
            try:
                return [found.message for found in session.dequeue_array(queue, look, limit)]
            except NoMessage:
                return []

    def pushed(self, condition: str) -> Any:
        return pushed(condition, self.hub.hub_id, postgresql=self.hub.postgresql, entries=False, fields=False)

    @pytest.mark.parametrize("table", [{"sort_list": "PRIORITY,ENQ_TIME"}, {"multiple_consumers": True}])
    def test_conditions_find_what_python_finds_in_order(self, table: dict[str, Any]) -> None:
        self.queue(table=table)
        consumer = "RED" if "multiple_consumers" in table else None
        if consumer:
            self.admin.add_subscriber("orders", consumer)
        self.fill("orders")
        every = self.browse("orders", "1 = 1", consumer)
        assert len(every) == len(MESSAGES)
        for condition in CONDITIONS:
            judge = compile_condition(condition)
            try:
                expected = [message for message in every if judge.holds(Row(message)) is True]
            except ExpressionFailed:
                with pytest.raises(AqError) as caught:
                    self.browse("orders", condition, consumer)
                assert caught.value.number == 25449, condition
                continue
            assert self.browse("orders", condition, consumer) == expected, condition
            assert self.browse("orders", condition, consumer, 1) == expected[:1], condition
            with self.hub.session() as session:
                if expected:
                    options = DequeueOptions(consumer, deq_condition=condition, wait=0)
                    found = [each.message for each in session.dequeue_array("orders", options, 1000)]
                    assert found == expected, condition
                # closed without a commit; the attempts are put right below
            self.reset_attempts()

    def reset_attempts(self) -> None:
        with self.hub.write() as conn:
            Db(conn).run("UPDATE aq_message SET attempts = 0")
            Db(conn).run("UPDATE aq_entry SET attempts = 0")

    @pytest.mark.parametrize("mode", [DequeueMode.REMOVE, DequeueMode.LOCKED, DequeueMode.BROWSE])
    def test_condition_that_the_database_knows_takes_one_search(
        self, mode: DequeueMode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.queue()
        self.fill("orders", [Message("x", priority=n % 7, correlation=f"c{n}") for n in range(2000)])
        searches = self.count_searches(monkeypatch)
        with self.hub.session() as session:
            options = DequeueOptions(dequeue_mode=mode, deq_condition="priority = 6 AND corrid LIKE 'c1%'", wait=0)
            found = session.dequeue_array("orders", options, 150)
        assert [each.message.correlation for each in found] == [
            f"c{n}" for n in range(2000) if n % 7 == 6 and str(n)[0] == "1"
        ][:150]
        assert len(searches) == (1 if mode is not DequeueMode.BROWSE or self.hub.postgresql else 2)

    def count_searches(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        searches: list[str] = []
        rows = Db.rows

        def counted(db: Db, template: str, params: Any = ()) -> Any:
            if "SELECT m.id, m.body" in template:
                searches.append(template)
            return rows(db, template, params)

        monkeypatch.setattr(Db, "rows", counted)
        return searches

    def test_python_part_reads_only_what_the_database_lets_pass_and_locks_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.queue()
        self.fill("orders", [Message("x", priority=n % 100) for n in range(4000)])
        seen: list[int] = []
        register_function("doubled", lambda number: seen.append(number) or number * 2)
        searches = self.count_searches(monkeypatch)
        with self.hub.session() as session:
            options = DequeueOptions(deq_condition="doubled(priority) = 14 AND priority IN (6, 7)", wait=0)
            found = session.dequeue_array("orders", options, 40)
            session.commit()
        assert [each.message.priority for each in found] == [7] * 40
        assert set(seen) == {6, 7}
        assert len(seen) <= 80
        locking = [each for each in searches if "{ids}" in each]
        assert len(locking) == 1
        assert len(searches) <= 3

    def test_messages_in_other_hands_are_skipped_and_browsed(self) -> None:
        self.queue()
        self.fill("orders", [Message(str(n), priority=n) for n in range(6)])
        for condition in ("priority > 2", "doubled(priority) > 4"):
            with self.hub.session() as one, self.hub.session() as other, self.hub.session() as third:
                options = DequeueOptions(deq_condition=condition, wait=0, dequeue_mode=DequeueMode.LOCKED)
                assert [each.message.priority for each in one.dequeue_array("orders", options, 2)] == [3, 4]
                assert [each.message.priority for each in other.dequeue_array("orders", options, 2)] == [5]
                with pytest.raises(NoMessage):
                    third.dequeue("orders", options)
                assert [message.priority for message in self.browse("orders", condition)] == [3, 4, 5]

    def test_next_message_goes_on_behind_what_matched(self) -> None:
        self.queue()
        self.fill("orders", [Message(str(n), priority=n % 2) for n in range(10)])
        for condition in ("priority = 1", "doubled(priority) = 2"):
            with self.hub.session() as session:
                look = DequeueOptions(dequeue_mode=DequeueMode.BROWSE, deq_condition=condition, wait=0)
                found = [session.dequeue("orders", look).message.body for _ in range(5)]
                assert found == ["1", "3", "5", "7", "9"]
                with pytest.raises(AqError, match="no message"):
                    session.dequeue("orders", look)

    def test_attempts_are_those_of_the_consumer(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x")
        self.fail("events", "RED")
        assert self.browse("events", "retry_count = 1", "GREEN") == []
        assert [message.body for message in self.browse("events", "retry_count = 1", "RED")] == ["x"]

    def test_condition_without_value_fails_and_takes_nothing(self) -> None:
        self.queue()
        self.fill("orders", [Message('{"n": 1}'), Message('{"n": "many"}')])
        with self.hub.session() as session, pytest.raises(AqError, match="'many' is not a number") as caught:
            session.dequeue_array("orders", DequeueOptions(deq_condition="tab.user_data.n > 0", wait=0), 10)
        assert caught.value.number == 25449
        assert self.browse("orders", "tab.user_data.n > 0 AND priority = 99") == []
        assert self.browse("orders", "tab.user_data.n = 1", limit=1)[0].body == '{"n": 1}'

    def test_what_a_condition_says_never_becomes_sql(self) -> None:
        self.queue()
        self.fill("orders")
        evil = "x'' OR 1=1; DROP TABLE aq_message; -- zq9x \" ? %s {ids} {lock} $1"
        conditions = [
            f"corrid = '{evil}'",
            f"tab.user_data.\"zq9x'); DELETE FROM aq_message; --\" = '{evil}'",
            f"tab.user_data.\"o\".\"zq9x ? {{ids}}\" = '{evil}' OR corrid LIKE '%{evil}_'",
            f"HEADER('zq9x{evil}') = '{evil}'",
            f"REPLACE(corrid, 'zq9x', '{evil}') || TRIM('{evil}') = '{evil}'",
        ]
        for condition in conditions:
            found = self.pushed(condition)
            assert found is not None, condition
            assert "zq9x" not in found.sql
            assert "DROP" not in found.sql
            assert self.browse("orders", condition) == []
        assert len(self.browse("orders", "1 = 1")) == len(MESSAGES)

    def test_like_tells_characters_apart_that_glob_does_not(self) -> None:
        self.queue()
        texts = ["x\ufffd", "x\ufffe", "x\uffff", "x", "xy"]
        self.fill("orders", [Message("x", correlation=text) for text in texts])
        for pattern in ("x\ufffd", "x\uffff", "%\ufffe", "x_", "%"):
            judge = compile_condition(f"corrid LIKE '{pattern}'")
            found = [each.correlation for each in self.browse("orders", judge.text)]
            assert found == [text for text in texts if judge.holds(Row(Message(correlation=text)))], ascii(pattern)

    def test_correlation_pattern_finds_what_like_finds(self) -> None:
        self.queue()
        texts = ["a", "A", "a%", "a_b", "axb", "a*b", "a?b", "[a]b", "a\\b", "ab\n", "%", "", "ü"]
        self.fill("orders", [Message("x", correlation=text) for text in texts])
        for pattern in ["a%", "_", "a_b", "%b", "[a]%", "a*b", "a?b", "a\\b", "%", "ü", "a\\_", "__%"]:
            with self.hub.session() as session:
                look = DequeueOptions(dequeue_mode=DequeueMode.BROWSE, correlation=pattern, wait=0)
                try:
                    found = [each.message for each in session.dequeue_array("orders", look, 100)]
                except AqError:
                    found = []
            judge = compile_condition(f"corrid LIKE '{pattern}'")
            assert [each.correlation for each in found] == [
                t for t in texts if judge.holds(Row(Message(correlation=t)))
            ], pattern
            assert self.browse("orders", judge.text) == found

    def test_type_of_anydata_is_a_matter_for_the_database(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.admin.create_type("oe.address", {"street": "VARCHAR2(20)"})
        self.queue(table={"queue_payload_type": "ANYDATA"})
        bodies = [wrap(16), wrap("text"), wrap({"street": "High Street"}, "OE.ADDRESS"), None]
        with self.hub.session() as session:
            session.enqueue_array("orders", [Message(body) for body in bodies])
            session.commit()
        for condition, expected in [
            ("tab.user_data.GetTypeName() = 'OE.ADDRESS'", [2]),
            ("TAB.USER_DATA.getTypeName() LIKE 'SYS.%'", [0, 1]),
            ("tab.user_data.GetTypeName() IS NULL", [3]),
            ("tab.user_data.GetTypeName() = 'OE.ADDRESS' AND tab.user_data.street LIKE 'High%'", [2]),
        ]:
            assert [message.body for message in self.browse("orders", condition)] == [bodies[n] for n in expected]
        searches = self.count_searches(monkeypatch)
        with self.hub.session() as session:
            options = DequeueOptions(deq_condition="tab.user_data.GetTypeName() = 'SYS.NUMBER'", wait=0)
            assert session.dequeue("orders", options).message.body == wrap(16)
        assert len(searches) <= 2


class RuleSuite(HubCase):
    def test_a_forwarded_message_is_judged_as_the_new_message_that_it_is(self) -> None:
        self.topic()
        rules = {
            "NEW": "retry_count = 0 AND attempts = 0",
            "NAMELESS": "msgid IS NULL AND enq_time IS NULL",
            "FIRST": "original_msgid IS NULL",
            "OLD": "retry_count > 0 OR msgid IS NOT NULL OR enq_time IS NOT NULL",
            "MOVED": "original_msgid IS NOT NULL",
        }
        for name, rule in rules.items():
            self.admin.add_subscriber("events", name, rule=rule)
        self.queue("orders")
        self.send("orders", "x")
        self.fail("orders")
        with self.hub.session() as session:
            taken = session.dequeue("orders", DequeueOptions(wait=0)).message
            assert taken.attempts == 1
            session.enqueue("events", replace(taken, original_msgid=bytes(16)))
            session.enqueue("events", replace(taken, correlation="named"), recipients=["OLD"])
            session.commit()
        assert {row["CONSUMER_NAME"] for row in self.view("events_t") if row["CORR_ID"] is None} == {
            "NEW", "NAMELESS", "FIRST",
        }  # fmt: skip
        with self.hub.write() as conn:  # a job says which message it was
            transfer.put(
                conn, transfer.resolve(conn, "events"), [replace(taken, correlation="a", original_msgid=bytes(16))]
            )
        assert {row["CONSUMER_NAME"] for row in self.view("events_t") if row["CORR_ID"] == "a"} == {
            "NEW", "NAMELESS", "MOVED",
        }  # fmt: skip

    """Subscriber rules: one pass per batch."""

    def test_equal_rules_are_evaluated_once_per_message(self) -> None:
        seen: list[Any] = []
        register_function("hr.get_kind", lambda payload: seen.append(payload) or payload[:1])
        try:
            self.topic(name="events")
            for name in ("RED", "GREEN", "BLUE"):
                self.admin.add_subscriber("events", name, rule="hr.get_kind(tab.user_data) = 'a'")
            self.admin.add_subscriber("events", "REST", rule="HR.GET_KIND(tab.user_data) <> 'a'")
            self.send("events", "a1", "b2")
            assert [self.take("events", name) for name in ("RED", "GREEN", "BLUE", "REST")] == [["a1"]] * 3 + [["b2"]]
            assert len(seen) == 4
        finally:
            unregister_function("hr.get_kind")

    def test_rule_whose_function_is_not_registered_here_stops_the_enqueue_by_name(self) -> None:
        register_function("get_kind", lambda _: "a")
        self.topic(name="events")
        self.admin.add_subscriber("events", "RED", rule="get_kind(tab.user_data) = 'a'")
        unregister_function("get_kind")
        with pytest.raises(AqError, match="get_kind") as caught:
            self.send("events", "x")
        assert caught.value.number == 25448
        with pytest.raises(AqError, match="line 1, column 1"):
            self.admin.add_subscriber("events", "GREEN", rule="get_kind(tab.user_data) = 'a'")


PURGES = [
    "qtview.queue = 'ORDERS'",
    "qtview.msg_state = 'READY' AND qview.msg_priority > 2",
    "QTVIEW.CORR_ID LIKE 'order-%' OR qtview.sender_name = 'SHOP'",
    "qtview.retry_count = 0 AND qtview.expiration > 100",
    "qtview.consumer_name = 'RED' AND qtview.protocol = 0",
    "qtview.enq_timestamp < '2027-01-16' AND qtview.enq_timestamp > '2027-01-15T07'",
    "qtview.enq_time = '2027-01-15T08:00:00Z' AND qtview.delay LIKE '2027-01-15T08:00:00%'",
    "qtview.user_data.region = 'EU'",
    "LENGTH(qtview.msg_id) = 32 AND qtview.original_msgid IS NULL AND qtview.deq_timestamp IS NULL",
    "",
]


def times_as_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a view with its times as purge conditions see them."""
    found = dict(row)
    for name, value in row.items():
        if isinstance(value, datetime):
            text = value.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
            found[name] = (text if name.endswith("_TIMESTAMP") else text[:19]) + "Z"
    return found


TYPED_PURGES: dict[str, list[tuple[str, str]]] = {
    "OE.ORDERS": [
        ("qtview.user_data.state IS NULL", "abc"),
        ("qtview.user_data.state = 'OLD'", "c"),
        ("qtview.user_data.STATE = 'OLD' AND qtview.msg_priority = 1", "ac"),
        ("qtview.user_data.address.City = 'Bonn'", "ac"),
        ("qtview.user_data.total > 99.99", "ab"),
        ("HEADER('kind') = 'x'", "ab"),
    ],
    "ANYDATA": [
        ("qtview.user_data.GetTypeName() IS NULL", "abc"),
        ("qtview.user_data.gettypename() = 'SYS.VARCHAR2'", "bc"),
        ("qtview.user_data.gettypename() = 'OE.ORDERS' AND qtview.user_data.state = 'OLD'", "ab"),
        ("qtview.user_data.state = 'NEW'", "abc"),
        ("HEADER('kind') = 'x'", "ab"),
    ],
    "FIELDS": [("qtview.user_data.state IS NULL", "abc"), ("qtview.user_data.state = 'OLD'", "ab")],
    "TEXT": [
        ("qtview.user_data IS NULL", "abc"),
        ("qtview.user_data = 'b'", "ac"),
        ("qtview.user_data LIKE 'a%'", "bc"),
    ],
}


class PurgeConditionSuite(HubCase):
    """Conditions over the view: the database and Python choose the same rows."""

    @pytest.mark.parametrize("payload", TYPED_PURGES)
    @pytest.mark.parametrize("multiple", [False, True])
    def test_purge_conditions_see_the_body_as_rules_do(self, payload: str, multiple: bool) -> None:
        self.admin.create_type("oe.address", {"city": "VARCHAR2(20)"})
        self.admin.create_type("oe.orders", {"state": "VARCHAR2(8)", "total": "NUMBER(8,2)", "address": "oe.address"})
        self.queue("orders", table={"multiple_consumers": multiple, "queue_payload_type": payload})
        if multiple:
            self.admin.add_subscriber("orders", "RED")
        old = {"state": "OLD", "total": "99.99", "address": {"city": "Ulm"}}
        bodies: list[Any] = [old, {**old, "address": {"city": "Bonn"}}, {**old, "total": 100, "state": "OLDER"}]
        if payload == "ANYDATA":
            bodies = [wrap("a"), wrap(2), wrap(old, "OE.ORDERS")]
        elif payload == "FIELDS":
            bodies = [(Header("state", ValueType.TEXT, state),) for state in ("X", "NEW", "OLD")]
        elif payload == "TEXT":
            bodies = ["a\x00", "b", "c"]
        for condition, left in TYPED_PURGES[payload]:
            with self.hub.session() as session:
                for name, body in zip("abc", bodies, strict=True):
                    headers = (Header("kind", ValueType.TEXT, "x"),) if name == "c" else ()
                    message = Message(body, headers, correlation=name, priority=2 if name == "a" else 1)
                    session.enqueue("orders", message)
                session.commit()
            done = self.admin.purge_queue_table("orders_t", condition)
            stayed = "".join(str(row["CORR_ID"]) for row in self.view("orders_t"))
            assert (condition, stayed) == (condition, left)
            assert done.messages == 3 - len(left)
            self.admin.purge_queue_table("orders_t")

    def test_purge_reads_moments_after_the_year_9999(self) -> None:
        self.queue("orders")
        with self.hub.session() as session:
            session.enqueue("orders", Message('{"a": 1}', delay=2**39))
            session.commit()
        condition = "qtview.user_data.a = 1 AND NVL(qtview.delay_timestamp, 'later') > '1'"
        assert self.admin.purge_queue_table("orders_t", condition).messages == 1

    def test_purge_condition_calls_the_function_registered_last(self) -> None:
        self.queue("orders")
        register_function("hr.wanted", lambda value: value == "a")
        try:
            condition = "hr.wanted(qtview.corr_id)"
            assert self.admin.purge_queue_table("orders_t", condition).messages == 0
            register_function("hr.wanted", lambda value: value == "b")
            with self.hub.session() as session:
                session.enqueue_array("orders", [Message("1", correlation="a"), Message("2", correlation="b")])
                session.commit()
            self.admin.purge_queue_table("orders_t", condition)
            assert [row["CORR_ID"] for row in self.view("orders_t")] == ["a"]
        finally:
            unregister_function("hr.wanted")
        with pytest.raises(AqError, match=r"no function hr\.wanted"):
            self.admin.purge_queue_table("orders_t", condition)

    @pytest.mark.parametrize("multiple", [False, True])
    def test_purge_conditions_choose_what_python_chooses(self, multiple: bool) -> None:
        self.queue("ORDERS", table={"multiple_consumers": multiple})
        if multiple:
            self.admin.add_subscriber("orders", "RED")
            self.admin.add_subscriber("orders", "GREEN", rule="priority > 2")
        with self.hub.session() as session:
            session.enqueue_array("orders", MESSAGES)
            session.commit()
        rows = self.view("orders_t")
        chosen = []
        for text in PURGES:
            condition = purge_condition(text)
            where = condition.where(postgresql=self.hub.postgresql)
            assert where.exact is ("user_data" not in text), text
            with self.hub.read() as conn:
                sql = f'SELECT qtview."MSG_ID", qtview."CONSUMER_NAME" FROM "AQ$ORDERS_T" AS qtview WHERE {where.sql}'
                found = {(row[0], row[1]) for row in Db(conn).rows(sql, where.params)}
            expected = {
                (row["MSG_ID"], row["CONSUMER_NAME"])
                for row in rows
                if condition.holds(times_as_text(row), Message(row["USER_DATA"]))
            }
            assert found == expected if where.exact else found >= expected, text
            chosen.append(len(expected))
        assert chosen[-1] == len(rows)
        assert all(chosen[:4]), chosen
        assert bool(chosen[4]) is multiple
        assert all(chosen[5:]), chosen

    def test_purge_condition_is_refused_with_the_position(self) -> None:
        for text, column in [
            ("qtview.priority = 1", 1),
            ("qtview.queue = 'A' AND tab.priority = 1", 24),
            ("qtview.queue = 'A'; DROP TABLE aq_message", 21),
            ("1 = 1 OR EXISTS (SELECT 1 FROM aq_hub)", 10),
        ]:
            with pytest.raises(AqError, match=f"line 1, column {column}") as caught:
                purge_condition(text)
            assert caught.value.number == 25448
