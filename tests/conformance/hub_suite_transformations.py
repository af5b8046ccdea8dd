"""Transformations: catalogue, enqueue, dequeue, subscribers. Run by test_hub_sqlite.py and test_hub_postgresql.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import TransformationFailed, TransformationInvalid, TransformationMissing
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.payloads import transformations
from mgw.gateway.aq.payloads.anydata import unwrap, wrap
from mgw.transforms.language.functions import register_function, unregister_function
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.objects import ObjectValue
from tests.conformance.hub_suite import refused
from tests.conformance.hub_suite_payloads import PayloadCase


class TransformationCase(PayloadCase):
    @pytest.fixture(autouse=True)
    def _functions(self, _hub: None) -> Iterator[None]:
        """A module of functions that the hub may use."""
        module = ModuleType("hub_functions")

        def any_to_address(message: Message) -> Message:
            if message.type_name != "OE.ADDRESS":
                raise ValueError(f"conversion failed: {message.type_name}")
            return replace(message, body=unwrap(message.body, "OE.ADDRESS"))

        def twice(message: Message) -> list[Message]:
            return [message, message]

        def renamed(message: Message) -> Message:
            return replace(message, msgid=b"x" * 16)

        for function in (any_to_address, twice, renamed):
            function.__module__ = module.__name__
            setattr(module, function.__name__, function)
        sys.modules[module.__name__] = module
        self.hub.transform_modules = (module.__name__,)
        yield
        del sys.modules[module.__name__]

    def types(self) -> None:
        self.admin.create_type("oe.address", {"street": "VARCHAR2(20)", "zip": "NUMBER(5)"})
        self.admin.create_type("oe.message", {"sender_id": "NUMBER", "subject": "VARCHAR2(30)", "text": "VARCHAR2(99)"})
        self.admin.create_type(
            "oe.orders", {"id": "NUMBER", "title": "VARCHAR2(30)", "price": "NUMBER(9,2)", "ship_to": "OE.ADDRESS"}
        )

    def one(self, queue: str, consumer: str | None = None, **options: Any) -> Message:
        with self.hub.session() as session:
            found = session.dequeue(queue, DequeueOptions(consumer, wait=0, **options))
            session.commit()
        return found.message


class TransformationSuite(TransformationCase):
    """create_transformation, modify_transformation, drop_transformation."""

    def test_a_transformation_is_listed_as_it_was_made(self) -> None:
        self.types()
        made = self.admin.create_transformation("Calm", "basic", "sys.anydata", "source.user_data", comment="none")
        assert (made.from_type, made.to_type) == ("BASIC", "ANYDATA")
        self.admin.create_transformation("oe.to_order", "oe.message", "OE.ORDERS", "NULL")
        self.admin.modify_transformation("OE.TO_ORDER", 2, "source.user_data.subject")
        self.admin.create_transformation("wider", "JSON", "JSON", {"set": {"priority": "9"}})
        found = {one.full_name: one for one in self.admin.transformations()}
        assert list(found) == ["Calm", "wider", "oe.to_order"]
        assert found["Calm"].expressions == {0: "source.user_data"}
        assert found["Calm"].comment == "none"
        assert found["oe.to_order"].expressions == {0: "NULL", 2: "source.user_data.subject"}
        assert (found["oe.to_order"].from_type, found["oe.to_order"].to_type) == ("OE.MESSAGE", "OE.ORDERS")
        assert found["wider"].definition == {"set": {"priority": "9"}}

    def test_names_are_found_in_any_case_and_taken_once(self) -> None:
        self.admin.create_transformation("calm", "BASIC", "BASIC", "source.user_data")
        with pytest.raises(TransformationMissing, match=r"^ORA-24094: transformation CALM already exists"):
            self.admin.create_transformation("MGW.CALM", "BASIC", "BASIC", "source.user_data")
        self.admin.drop_transformation("Calm")
        with refused(24094):
            self.admin.drop_transformation("calm")
        with refused(24094):
            self.admin.modify_transformation("calm", 0, "source.user_data")

    @pytest.mark.parametrize(
        ("text", "cause"),
        [
            ("source.user_data ||", "line 1, column"),
            ("nosuch(source.user_data)", "there is no function"),
            ("SELECT 1 FROM dual", "is invalid"),
            ("", "there is no expression"),
            ("x" * 4001, "4001 characters"),
            ("mgw.transforms.builtin:nosuch", "has no function nosuch"),
            ("OE.ORDERS(1, 2)", "OE.ORDERS has 4 attributes, 2 are given"),
            ({"set": {"nosuch": "1"}}, "nosuch"),
            ({}, "it does nothing"),
        ],
    )
    def test_what_cannot_be_compiled_is_refused(self, text: Any, cause: str) -> None:
        self.types()
        with pytest.raises(TransformationInvalid, match=f"^ORA-24095: (?s:.*){cause}"):
            self.admin.create_transformation("bad", "BASIC", "OE.ORDERS", text)
        assert self.admin.transformations() == []

    @pytest.mark.parametrize("number", [-1, True, 5, 1.5, "1"])
    def test_attributes_that_the_type_does_not_have(self, number: Any) -> None:
        self.types()
        self.admin.create_transformation("t", "BASIC", "OE.ORDERS", "NULL")
        with refused(24095):
            self.admin.modify_transformation("t", number, "1")
        self.admin.create_transformation("u", "BASIC", "BASIC", "source.user_data")
        with refused(24095):
            self.admin.modify_transformation("u", 1, "1")

    def test_types_have_to_exist_and_stay(self) -> None:
        with refused(24015):
            self.admin.create_transformation("t", "OE.MESSAGE", "BASIC", "NULL")
        self.types()
        self.admin.create_transformation("t", "OE.MESSAGE", "BASIC", "NULL")
        with pytest.raises(Exception, match=r"^ORA-02303: .*transformation t uses it"):
            self.admin.drop_type("oe.message")

    def test_functions_come_from_allowed_modules_only(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("f", "BASIC", "BASIC", "hub_functions:renamed")
        self.admin.create_transformation("os", "BASIC", "BASIC", "os:getcwd")
        with pytest.raises(TransformationInvalid, match="module os is not allowed to transform messages"):
            self.put("plain", "x", options=EnqueueOptions(transformation="os"))
        for modules, error, cause in (
            ([], TransformationInvalid, "module hub_functions is not allowed"),
            (["hub_functions"], TransformationFailed, "it changed the message id"),
        ):
            with Hub.open(self.url, transform_modules=modules) as other, other.session() as session:
                options = EnqueueOptions(transformation="f")
                with pytest.raises(error, match=cause):
                    session.enqueue("plain", Message("x"), options)

    @pytest.mark.parametrize("function", ["hub_functions:renamed", "elsewhere:function"])
    def test_a_function_makes_the_whole_alone(self, function: str) -> None:
        self.types()
        made = self.admin.create_transformation("t", "OE.MESSAGE", "OE.ORDERS", function)
        with pytest.raises(TransformationInvalid, match="cannot be combined in one result"):
            self.admin.modify_transformation("t", 2, "source.user_data.subject")
        self.admin.modify_transformation("t", 0, "NULL")
        with pytest.raises(TransformationInvalid, match="cannot be combined in one result"):
            self.admin.modify_transformation("t", 2, function)
        self.admin.modify_transformation("t", 2, "source.user_data.subject")
        self.admin.modify_transformation("t", 0, function)
        assert made.expressions == {0: function}
        assert [item.expressions for item in self.admin.transformations()] == [made.expressions]

    def test_a_change_is_in_force_at_once_also_for_other_processes(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("t", "BASIC", "BASIC", "'one'")
        with Hub.open(self.url) as other, other.session() as session:
            look = DequeueOptions(
                wait=0, transformation="t", dequeue_mode=DequeueMode.BROWSE, navigation=Navigation.FIRST_MESSAGE
            )
            self.put("plain", "x")
            assert session.dequeue("plain", look).message.body == "one"
            self.admin.modify_transformation("t", 0, "'two'")
            assert session.dequeue("plain", look).message.body == "two"
            self.admin.drop_transformation("t")
            with refused(24094):
                session.dequeue("plain", look)

    def test_it_is_compiled_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue("plain")
        self.admin.create_transformation("t", "BASIC", "BASIC", "UPPER(source.user_data)")
        made: list[Any] = []
        compiled = transformations.compiled

        def counted(*args: Any) -> Any:
            made.append(args)
            return compiled(*args)

        monkeypatch.setattr(transformations, "compiled", counted)
        for _ in range(5):
            self.put("plain", "a", "b", options=EnqueueOptions(transformation="T"))
        assert len(made) == 1
        assert self.take("plain") == ["A", "B"] * 5

    def test_expressions_call_the_functions_that_are_registered_now(self) -> None:
        self.queue("plain")
        for answer in ("first", "second"):
            register_function("hr.answer", lambda body, answer=answer: f"{answer} {body}")
            if answer == "first":
                self.admin.create_transformation("t", "BASIC", "BASIC", "hr.answer(source.user_data)")
            self.put("plain", "x", options=EnqueueOptions(transformation="t"))
        unregister_function("hr.answer")
        assert self.take("plain") == ["first x", "second x"]
        with refused(24095):
            self.put("plain", "x", options=EnqueueOptions(transformation="t"))

    def test_a_rolled_back_transformation_leaves_nothing_behind(self) -> None:
        self.queue("plain")
        for text in ("'one'", "'two'"):
            conn = self.hub.engine.connect()
            with conn.begin() as transaction:
                QueueAdmin(self.hub, conn).create_transformation("t", "BASIC", "BASIC", text)
                session = self.hub.session(conn)
                session.enqueue("plain", Message("x"), EnqueueOptions(transformation="t"))
                assert session.dequeue("plain", DequeueOptions(wait=0)).message.body == text[1:-1]
                transaction.rollback()
            conn.close()
        assert self.admin.transformations() == []


class EnqueueTransformationSuite(TransformationCase):
    """The enqueue option: before the message is stored."""

    def test_rules_and_recipients_see_the_result(self) -> None:
        self.types()
        self.queue("orders", table={"queue_payload_type": "OE.ORDERS", "multiple_consumers": True})
        self.admin.add_subscriber("orders", "dear", rule="tab.user_data.price > 100 AND priority = 3")
        self.admin.add_subscriber("orders", "all")
        self.admin.create_transformation(
            "to_order",
            "JSON",
            "OE.ORDERS",
            "oe.orders(source.user_data.n, UPPER(user_data.t) || ', (x)', tab.user_data.net * 2,"
            " oe.address(source.user_data.to.street, 53111))",
        )
        options = EnqueueOptions(transformation="to_order")
        message = Message('{"n": 7, "t": "pump", "net": 60.25, "to": {"street": "Weg"}}', priority=3, correlation="c")
        with self.hub.session() as session:
            session.enqueue("orders", message, options)
            session.commit()
        found = self.one("orders", "dear")
        expected = {
            "id": 7,
            "title": "PUMP, (x)",
            "price": Decimal("120.5"),
            "ship_to": ObjectValue("OE.ADDRESS", {"street": "Weg", "zip": 53111}),
        }
        assert found.body == ObjectValue("OE.ORDERS", expected)
        assert (found.kind, found.priority, found.correlation) == (PayloadKind.OBJECT, 3, "c")
        assert self.one("orders", "all").body == found.body

    @pytest.mark.parametrize("visibility", list(Visibility))
    def test_what_is_stored_is_the_result(self, visibility: Visibility) -> None:
        self.queue("plain")
        self.admin.create_transformation("t", "BASIC", "BASIC", "source.user_data || '!'")
        with self.hub.session() as session:
            session.enqueue_array(
                "plain", [Message("a"), Message(b"b")], EnqueueOptions(visibility, transformation="t")
            )
            session.commit()
        assert self.take("plain") == ["a!", "b!"]

    def test_the_result_has_to_be_what_the_queue_holds(self) -> None:
        self.types()
        self.queue("plain")
        self.admin.create_transformation("t", "BASIC", "OE.ORDERS", "NULL")
        with pytest.raises(TransformationMissing, match=r"^ORA-24094: .*it gives OE\.ORDERS, the queue holds BASIC"):
            self.put("plain", "x", options=EnqueueOptions(transformation="t"))
        with refused(24094):
            self.put("plain", "x", options=EnqueueOptions(transformation="nosuch"))
        assert self.take("plain") == []

    def test_decimals_of_json_keep_their_digits_in_an_object(self) -> None:
        self.admin.create_type("oe.bill", {"total": "NUMBER(18,2)", "text": "VARCHAR2(40)", "rate": "BINARY_DOUBLE"})
        self.queue("bills", table={"queue_payload_type": "oe.bill"})
        parts = ("source.user_data.total", "'EUR ' || source.user_data.total", "source.user_data.rate * 2")
        self.admin.create_transformation("attributes", "JSON", "oe.bill", "NULL")
        for number, text in enumerate(parts, 1):
            self.admin.modify_transformation("attributes", number, text)
        self.admin.create_transformation("constructed", "JSON", "oe.bill", f"oe.bill({', '.join(parts)})")
        self.admin.create_transformation("whole", "JSON", "oe.bill", "source.user_data")
        body = '{"total": 1234567890123456.78, "rate": 0.10000000000000001}'
        for name in ("attributes", "constructed", "whole"):
            with self.hub.session() as session:
                session.enqueue("bills", Message(body), EnqueueOptions(transformation=name))
                session.commit()
            made = self.one("bills").body
            assert (name, made["total"]) == (name, Decimal("1234567890123456.78"))
            if name != "whole":
                assert (made["text"], made["rate"]) == ("EUR 1234567890123456.78", 0.2)

    def test_a_failure_stores_nothing_of_the_batch(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("t", "BASIC", "BASIC", "TO_CHAR(100 / source.user_data)")
        with self.hub.session() as session:
            session.enqueue("plain", Message("before"))
            with pytest.raises(TransformationFailed, match=r"^ORA-25229: transformation t failed.*division by zero"):
                session.enqueue_array("plain", [Message("5"), Message("0")], EnqueueOptions(transformation="t"))
            session.commit()
        assert self.take("plain") == ["before"]

    @pytest.mark.parametrize(
        ("definition", "cause"),
        [
            ({"function": "hub_functions:twice"}, "it made 2 messages of one"),
            ({"where": "priority > 5"}, "it made none of one"),
        ],
    )
    def test_one_message_makes_one_message(self, definition: dict[str, Any], cause: str) -> None:
        self.queue("plain")
        self.admin.create_transformation("t", "BASIC", "BASIC", definition)
        with pytest.raises(TransformationFailed, match=cause):
            self.put("plain", "x", options=EnqueueOptions(transformation="t"))

    def test_the_source_has_to_be_what_it_takes(self) -> None:
        self.types()
        self.queue("plain")
        self.admin.create_transformation("t", "OE.MESSAGE", "BASIC", "source.user_data.Subject")
        options = EnqueueOptions(transformation="t")
        self.put("plain", ObjectValue("oe.message", {"subject": "hello"}), options=options)
        for wrong in ("text", wrap(1), ObjectValue("OE.ORDERS", {}), ObjectValue("OE.MESSAGE", {"sender_id": "x"})):
            with pytest.raises(TransformationFailed):
                self.put("plain", wrong, options=options)
        assert self.take("plain") == ["hello"]

    CASES: list[tuple[str, Any, str, str, Any]] = [  # noqa: RUF012  # from, body, to, expression, result
        ("BASIC", "a", "RAW", "source.user_data", b"a"),
        ("RAW", b"\xff", "RAW", "source.user_data", b"\xff"),
        ("RAW", b"\x0a\xff", "TEXT", "TO_CHAR(source.user_data)", "0AFF"),
        ("BASIC", '{"a":1}', "JSON", "source.user_data", '{"a":1}'),
        ("JSON", '{"a":{"b":[1]}}', "JSON", "source.user_data.a", '{"b":[1]}'),
        ("JSON", '{"a":5}', "TEXT", "source.user_data.a * 2", "10"),
        ("BASIC", "<a/>", "XMLTYPE", "source.user_data", "<a/>"),
        ("JSON", '{"n":1}', "FIELDS", "source.user_data", (Header("n", ValueType.INTEGER, 1),)),
        ("TEXT", "x", "ANYDATA", "source.user_data", wrap("x")),
        ("JSON", '{"n":16}', "ANYDATA", "source.user_data.n", wrap(16)),
        ("JSON", '{"street":"W","ZIP":1}', "OE.ADDRESS", "source.user_data",
         ObjectValue("OE.ADDRESS", {"street": "W", "zip": 1})),
        ("OE.ADDRESS", {"street": "W", "zip": 1}, "JSON", "source.user_data", '{"street":"W","zip":1}'),
        ("OE.ADDRESS", {"street": "W"}, "OE.ADDRESS", "source.user_data",
         ObjectValue("OE.ADDRESS", {"street": "W", "zip": None})),
        ("OE.ADDRESS", {"street": "W"}, "ANYDATA", "source.user_data",
         wrap(ObjectValue("OE.ADDRESS", {"street": "W", "zip": None}))),
        ("OE.ADDRESS", {"zip": "7"}, "TEXT", "source.user_data.ZIP + 1", "8"),
        ("TEXT", "x", "BASIC", "NULL", None),
        ("TEXT", "x", "OE.ADDRESS", "NULL", None),
        ("ANYDATA", wrap(1), "ANYDATA", "source.user_data", wrap(1)),
    ]  # fmt: skip

    @pytest.mark.parametrize("case", CASES, ids=[f"{a}-{b}-{n}" for n, (a, _, b, _, _) in enumerate(CASES)])
    def test_every_payload_type_can_be_made_of_others(self, case: Any) -> None:
        from_type, body, to_type, text, result = case
        self.types()
        self.typed("target", to_type)
        self.admin.create_transformation("t", from_type, to_type, text)
        self.put("target", body, options=EnqueueOptions(transformation="t"))
        assert self.got("target") == result

    @pytest.mark.parametrize(
        ("to_type", "text"),
        [
            ("JSON", "'{'"),
            ("XMLTYPE", "'<a>'"),
            ("OE.ADDRESS", "'x'"),
            ("OE.ADDRESS", '\'{"zip":"x"}\''),
            ("FIELDS", "'[]'"),
        ],
    )
    def test_a_result_that_is_not_of_its_type_is_a_failure(self, to_type: str, text: str) -> None:
        self.types()
        self.typed("target", to_type)
        self.admin.create_transformation("t", "BASIC", to_type, text)
        with pytest.raises(TransformationFailed):
            self.put("target", "x", options=EnqueueOptions(transformation="t"))


class DequeueTransformationSuite(TransformationCase):
    """The dequeue option and the subscriber's: after selection, before return."""

    def shout(self) -> None:
        self.admin.create_transformation("shout", "BASIC", "BASIC", "UPPER(source.user_data)")
        self.admin.create_transformation("reply", "BASIC", "TEXT", "'re: ' || source.user_data")

    def test_what_is_stored_stays_as_it_is(self) -> None:
        self.shout()
        self.queue("plain")
        ids = self.put("plain", "a")
        browse = {"dequeue_mode": DequeueMode.BROWSE, "navigation": Navigation.FIRST_MESSAGE}
        assert self.one("plain", transformation="shout", **browse).body == "A"
        assert self.one("plain", **browse).body == "a"
        assert self.one("plain", transformation="shout", msgid=ids[0], dequeue_mode=DequeueMode.LOCKED).body == "A"
        with self.hub.session() as session:
            assert session.dequeue("plain", DequeueOptions(wait=0, transformation="reply")).message.body == "re: a"
            session.rollback()
        chosen = self.one("plain", deq_condition="tab.user_data = 'a'", transformation="shout")
        assert (chosen.body, chosen.msgid, chosen.attempts) == ("A", ids[0], 1)

    def test_a_subscriber_has_its_own_and_the_option_wins(self) -> None:
        self.shout()
        self.topic("plain")
        self.admin.add_subscriber("events", "loud", transformation="Shout")
        assert [one.transformation for one in self.admin.queue_subscribers("events")] == [None, "shout"]
        for _ in range(4):
            self.put("events", "a")
        assert self.one("events", "loud").body == "A"
        assert self.one("events", "plain").body == "a"
        assert self.one("events", "loud", transformation="reply").body == "re: a"
        assert self.one("events", "plain", transformation="shout").body == "A"
        with self.hub.session(schema="OTHER") as session:
            assert session.dequeue("MGW.events", DequeueOptions("loud", wait=0)).message.body == "A"
            without = DequeueOptions("loud", wait=0, dequeue_mode=DequeueMode.REMOVE_NODATA)
            assert session.dequeue("MGW.events", without).message.body is None
            session.commit()
        self.admin.alter_subscriber("events", "loud", rule=None, transformation="reply")
        self.put("events", "b")
        assert self.one("events", "loud").body == "re: b"
        self.admin.alter_subscriber("events", "loud", rule=None)
        self.put("events", "c")
        assert self.one("events", "loud").body == "c"

    def test_a_subscribers_transformation_has_to_take_what_the_queue_holds(self) -> None:
        self.shout()
        self.topic("plain")
        self.admin.create_transformation("json", "JSON", "JSON", "source.user_data")
        for name in ("nosuch", "json"):
            with refused(24094):
                self.admin.add_subscriber("events", "s", transformation=name)
            with refused(24094):
                self.admin.alter_subscriber("events", "plain", rule=None, transformation=name)
        self.put("events", "x")
        with pytest.raises(TransformationMissing, match="it takes JSON, the queue holds BASIC"):
            self.one("events", "plain", transformation="json")
        assert self.one("events", "plain").body == "x"

    def test_a_transformation_that_a_subscriber_uses_cannot_be_dropped(self) -> None:
        self.shout()
        self.topic()
        self.admin.add_subscriber("events", "loud", transformation="shout")
        with pytest.raises(TransformationInvalid, match="subscribers use it: loud of events"):
            self.admin.drop_transformation("SHOUT")
        self.admin.remove_subscriber("events", "loud")
        self.admin.drop_transformation("shout")

    def test_after_a_failure_the_message_stays_and_no_attempt_is_counted(self) -> None:
        self.queue("plain", max_retries=0)
        self.admin.create_transformation("inverse", "BASIC", "BASIC", "100 / source.user_data")
        self.put("plain", "0")
        with self.hub.session() as session:
            for _ in range(3):
                with pytest.raises(TransformationFailed, match=r"^ORA-25229: transformation inverse failed for"):
                    session.dequeue("plain", DequeueOptions(wait=0, transformation="inverse"))
            with self.hub.session() as other:  # it is in nobody's hands
                assert other.dequeue("plain", DequeueOptions(wait=0)).message.body == "0"
                other.commit()
            session.rollback()
        self.run_time()
        assert self.view("plain_t") == []

    def test_what_was_dequeued_before_a_failure_is_still_in_hand(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("inverse", "BASIC", "BASIC", "100 / source.user_data")
        self.put("plain", "5", "0", "4", "2")
        options = DequeueOptions(wait=0, transformation="inverse")
        with self.hub.session() as session:
            assert session.dequeue("plain", options).message.body == "20"
            with pytest.raises(TransformationFailed):
                session.dequeue("plain", options)
            assert session.dequeue("plain", options).message.body == "25"  # behind the failed one
            session.commit()
        assert self.take("plain") == ["0", "2"]

    def test_of_a_batch_what_comes_before_the_failure_is_handed_out(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("inverse", "BASIC", "BASIC", "100 / source.user_data")
        self.put("plain", "5", "4", "0", "2")
        options = DequeueOptions(wait=0, transformation="inverse")
        with self.hub.session() as session:
            assert [one.message.body for one in session.dequeue_array("plain", options)] == ["20", "25"]
            with pytest.raises(TransformationFailed):
                session.dequeue_array("plain", options)
            assert [one.message.body for one in session.dequeue_array("plain", options)] == ["50"]
            session.commit()
        assert self.take("plain") == ["0"]

    @pytest.mark.parametrize("sort_list", ["ENQ_TIME", "COMMIT_TIME"])
    def test_groups_of_objects_are_transformed_and_go_on_behind_a_failure(self, sort_list: str) -> None:
        self.admin.create_type("point", {"x": "NUMBER"})
        table = {"queue_payload_type": "point", "message_grouping": "TRANSACTIONAL", "sort_list": sort_list}
        self.queue("points", table=table | {"multiple_consumers": True})
        self.admin.create_transformation("inverse", "POINT", "POINT", "point(100 / source.user_data.x)")
        self.admin.add_subscriber("points", "s", transformation="inverse")
        self.put("points", {"x": 5}, {"x": 0}, {"x": 4})
        self.put("points", {"x": 2})
        with self.hub.session() as session:
            options = DequeueOptions("s", wait=0)
            assert session.dequeue("points", options).message.body["x"] == 20  # type: ignore[index,call-overload]
            with pytest.raises(TransformationFailed):
                session.dequeue("points", options)
            assert session.dequeue("points", options).message.body["x"] == 25  # type: ignore[index,call-overload]
            with refused(25235):
                session.dequeue("points", options)
            following = DequeueOptions("s", wait=0, navigation=Navigation.NEXT_TRANSACTION)
            assert session.dequeue("points", following).message.body["x"] == 50  # type: ignore[index,call-overload]
            session.commit()
        self.admin.alter_subscriber("points", "s", rule=None)
        assert [body["x"] for body in self.take("points", "s")] == [0]

    def test_autonomous_dequeues_are_transformed_too(self) -> None:
        self.shout()
        self.queue("plain")
        self.admin.create_transformation("inverse", "BASIC", "BASIC", "100 / source.user_data")
        self.put("plain", "0")
        now = {"visibility": Visibility.IMMEDIATE}
        with pytest.raises(TransformationFailed):
            self.one("plain", transformation="inverse", **now)
        assert self.one("plain", transformation="shout", **now).body == "0"
        assert self.take("plain") == []

    def test_an_application_transaction_survives_a_failure(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("inverse", "BASIC", "BASIC", "100 / source.user_data")
        self.put("plain", "0")
        with self.hub.engine.begin() as conn:
            session = self.hub.session(conn)
            session.enqueue("plain", Message("more"))
            with pytest.raises(TransformationFailed):
                session.dequeue("plain", DequeueOptions(wait=0, transformation="inverse"))
        assert self.take("plain") == ["0", "more"]

    def test_anydata_by_a_function_that_looks_at_the_type(self) -> None:
        """A message of another type hits the error; later ones still arrive."""
        self.types()
        self.queue("events", table={"queue_payload_type": "ANYDATA", "multiple_consumers": True})
        self.admin.create_transformation("any_to_address", "SYS.ANYDATA", "OE.ADDRESS", "hub_functions:any_to_address")
        self.admin.add_subscriber("events", "post", transformation="any_to_address")
        address = {"street": "Weg", "zip": 1}
        self.put("events", wrap(address, "oe.address"), wrap(16), wrap(address | {"zip": 2}, "oe.address"))
        with self.hub.session() as session:
            options = DequeueOptions("post", wait=0)
            first = session.dequeue("events", options).message
            assert (first.body, first.kind) == (ObjectValue("OE.ADDRESS", address), PayloadKind.OBJECT)
            with pytest.raises(TransformationFailed, match=r"conversion failed: SYS\.NUMBER"):
                session.dequeue("events", options)
            assert session.dequeue("events", options).message.body["zip"] == 2  # type: ignore[index,call-overload]
            session.commit()
        assert [row["MSG_STATE"] for row in self.view("events_t")].count("READY") == 1

    def test_attributes_overlay_the_whole(self) -> None:
        self.types()
        self.typed("orders", "OE.ORDERS")
        self.admin.create_transformation("t", "OE.ORDERS", "OE.ORDERS", "source.user_data")
        self.admin.modify_transformation("t", 2, "source.user_data.title || ' of ' || source.user_data.ship_to.street")
        self.admin.modify_transformation("t", 4, "oe.address('Ring', source.user_data.ship_to.zip)")
        self.put("orders", {"id": 10**30, "title": "pump", "price": "1.50", "ship_to": {"street": "Weg", "zip": 9}})
        address = ObjectValue("OE.ADDRESS", {"street": "Ring", "zip": 9})
        expected = {"id": 10**30, "title": "pump of Weg", "price": Decimal("1.5"), "ship_to": address}
        browse = {"dequeue_mode": DequeueMode.BROWSE, "navigation": Navigation.FIRST_MESSAGE}
        assert self.one("orders", transformation="t", **browse).body == ObjectValue("OE.ORDERS", expected)
        self.admin.modify_transformation("t", 0, "NULL")
        assert self.one("orders", transformation="t", **browse).body is None
        self.admin.modify_transformation("t", 1, "5")
        found = self.one("orders", transformation="t").body
        assert found == ObjectValue("OE.ORDERS", {"id": 5, "title": None, "price": None, "ship_to": None})

    def test_definitions_of_jobs_work_on_objects(self) -> None:
        self.types()
        self.typed("orders", "OE.ORDERS")
        definition = {
            "set": {"body.TITLE": "UPPER(tab.user_data.title)", "body.ship_to.street": "'Ring'", "priority": "7"},
            "unset": ["body.id"],
        }
        self.admin.create_transformation("t", "OE.ORDERS", "OE.ORDERS", definition)
        self.put("orders", {"id": 1, "title": "pump", "price": "1.50", "ship_to": {"street": "Weg", "zip": 9}})
        found = self.one("orders", transformation="t")
        address = ObjectValue("OE.ADDRESS", {"street": "Ring", "zip": 9})
        expected = {"id": None, "title": "PUMP", "price": Decimal("1.5"), "ship_to": address}
        assert found.body == ObjectValue("OE.ORDERS", expected)
        assert found.priority == 7
