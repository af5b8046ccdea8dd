"""Payload types: objects, XML, JSON, ANYDATA. Run by test_hub_sqlite.py and test_hub_postgresql.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import AnyDataMismatch, PayloadRefused, PayloadTypeForbidden, TypeInvalid
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, Navigation, PayloadType
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.payloads.anydata import AnyData, is_lcr, type_name, unwrap, wrap
from mgw.gateway.aq.queues import transfer
from mgw.transforms.errors import AqError
from mgw.transforms.language.functions import register_function, unregister_function
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.objects import ObjectValue
from tests.conformance.hub_suite import HubCase, refused

CET = timezone(timedelta(hours=1))
NOON = datetime(2026, 11, 20, 12, 0, 0)
ONCE = DequeueOptions(wait=0)


class PayloadCase(HubCase):
    def put(self, queue: str, *bodies: Any, **options: Any) -> list[bytes]:
        with self.hub.session() as session:
            ids = session.enqueue_array(queue, [Message(body) for body in bodies], **options)
            session.commit()
        return ids

    def got(self, queue: str, consumer: str | None = None) -> Any:
        with self.hub.session() as session:
            found = session.dequeue(queue, DequeueOptions(consumer, wait=0))
            session.commit()
        return found.message.body

    def typed(self, name: str, payload: str, **table: Any) -> str:
        return self.queue(name, table={"queue_payload_type": payload, **table})


class ObjectSuite(PayloadCase):
    """Object types and the queues of them."""

    def orders(self, **table: Any) -> str:
        self.admin.create_type("oe.address", {"street": "VARCHAR2(20)", "zip": "NUMBER(5)"})
        self.admin.create_type(
            "oe.orders",
            {
                "id": "NUMBER",
                "price": "NUMBER(8,2)",
                "ratio": "FLOAT",
                "due": "DATE",
                "made": "TIMESTAMP(3)",
                "seen": "TIMESTAMP WITH TIME ZONE",
                "stored": "TIMESTAMP WITH LOCAL TIME ZONE",
                "key": "RAW(4)",
                "text": "CLOB",
                "picture": "BLOB",
                "paid": "BOOLEAN",
                "doc": "JSON",
                "shipTo": "OE.ADDRESS",
                "tags": "VARRAY(3) OF VARCHAR2(5)",
                "stops": "VARRAY(2) OF OE.ADDRESS",
                "code": "CHAR(3)",
            },
        )
        return self.typed("orders", "OE.ORDERS", **table)

    ORDER: dict[str, Any] = {  # noqa: RUF012  # never changed
        "id": 12345678901234567890123456789012345678,
        "price": Decimal("19.90"),
        "ratio": 0.1,
        "due": datetime(2026, 11, 20, 8, 30),
        "made": datetime(2026, 11, 20, 8, 30, 0, 123000),
        "seen": datetime(2026, 11, 20, 8, 30, tzinfo=CET),
        "stored": datetime(2026, 11, 20, 8, 30, tzinfo=CET),
        "key": b"\x00\xff",
        "text": 'grüße \U0001f600\n"quoted"',
        "picture": bytes(range(256)),
        "paid": True,
        "doc": {"a": [1, 2.5, None, "x", {"b": True}]},
        "shipTo": {"street": "Am Weg 1", "zip": 53111},
        "tags": ["a", None],
        "stops": [{"street": "first", "zip": None}],
        "code": "ab",
    }

    def test_an_object_comes_back_with_its_types(self) -> None:
        queue = self.orders()
        self.put(queue, ObjectValue("oe.orders", self.ORDER))
        found = self.got(queue)
        assert isinstance(found, ObjectValue)
        assert found.type_name == "OE.ORDERS"
        expected = self.ORDER | {
            "shipTo": ObjectValue("OE.ADDRESS", self.ORDER["shipTo"]),
            "tags": ("a", None),
            "stops": (ObjectValue("OE.ADDRESS", self.ORDER["stops"][0]),),
            "code": "ab ",
        }
        assert dict(found) == expected
        assert {name: type(value) for name, value in found.items()} == {
            name: type(value) for name, value in expected.items()
        }
        assert list(found) == list(self.ORDER)
        assert found["stored"].tzinfo is UTC
        assert found["seen"].utcoffset() == timedelta(hours=1)
        assert found["SHIPTO"]["Street"] == "Am Weg 1"

    def test_a_mapping_is_an_object_of_the_queues_type_and_what_is_left_out_is_null(self) -> None:
        queue = self.orders()
        self.put(queue, {"ID": 7}, None)
        found = self.got(queue)
        assert (found["id"], found["price"], found["shipTo"]) == (7, None, None)
        assert self.got(queue) is None

    def test_numbers_keep_every_digit(self) -> None:
        self.admin.create_type("n", {"exact": "NUMBER", "money": "NUMBER(38,4)", "tens": "NUMBER(4,-2)"})
        queue = self.typed("numbers", "n")
        given = [
            {"exact": Decimal("0.1234567890123456789012345678901234567"), "money": 5, "tens": 1200},
            {"exact": "-1e-120", "money": Decimal("99999999999999999999.0001"), "tens": Decimal("12E+2")},
            {"exact": 10**38, "money": Decimal("1.50"), "tens": 0},
        ]
        self.put(queue, *given)
        first, second, third = self.got(queue), self.got(queue), self.got(queue)
        assert (first["exact"], first["money"], first["tens"]) == (given[0]["exact"], Decimal(5), 1200)
        assert type(first["money"]) is Decimal
        assert (second["exact"], second["money"], second["tens"]) == (Decimal("-1e-120"), given[1]["money"], 1200)
        assert (third["exact"], third["money"], third["tens"]) == (10**38, Decimal("1.5"), 0)

    @pytest.mark.parametrize(
        ("attribute", "value", "cause"),
        [
            ("id", "seven", "'seven' is not a number"),
            ("id", True, "a number is needed, this is a boolean"),
            ("id", float("nan"), "not a number that can be stored"),
            ("price", Decimal("1.999"), r"1\.999 does not fit NUMBER\(8,2\)"),
            ("price", 1000000, r"does not fit NUMBER\(8,2\)"),
            ("ratio", float("inf"), "inf is not a FLOAT"),
            ("ratio", 2**53 + 1, "has no exact form as FLOAT"),
            ("due", "soon", "'soon' is not an ISO 8601 time"),
            ("due", datetime(2026, 1, 1, microsecond=1), "has more digits than DATE holds"),
            ("due", datetime(2026, 1, 1, tzinfo=UTC), "has a time zone, DATE holds none"),
            ("made", datetime(2026, 1, 1, microsecond=1), r"has more digits than TIMESTAMP\(3\) holds"),
            ("seen", NOON, "has no time zone, TIMESTAMP WITH TIME ZONE needs one"),
            ("key", b"12345", r"it has 5 bytes, RAW\(4\) holds 4"),
            ("key", "xyz", "'xyz' is not hexadecimal text"),
            ("text", 5, "text is needed, this is a number"),
            ("text", "\ud800", "surrogate"),
            ("paid", 1, "a boolean is needed"),
            ("doc", {1: 2}, "a JSON name cannot be a number"),
            ("doc", [float("nan")], "JSON"),
            ("tags", ["a", "b", "c", "d"], "it has 4 elements, at most 3 are allowed"),
            ("code", "abcd", r"it has 4 characters, CHAR\(3\) holds 3"),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused_with_its_attribute(
        self, attribute: str, value: Any, cause: str
    ) -> None:
        queue = self.orders()
        with self.hub.session() as session, pytest.raises(PayloadRefused) as caught:
            session.enqueue_array(queue, [Message({"id": 1}), Message({attribute: value})])
        assert str(caught.value).startswith("ORA-25215: message 1 does not fit queue orders")
        assert f"attribute {attribute} of type OE.ORDERS" in caught.value.cause
        caught.match(cause)
        assert caught.value.index == 1
        assert caught.value.cure
        assert self.take(queue) == []

    @pytest.mark.parametrize(
        ("body", "path"),
        [
            ({"shipTo": {"zip": "x"}}, r"attribute shipTo\.zip of"),
            ({"shipTo": {"city": "x"}}, r"attribute shipTo\.city of type OE.ORDERS: type OE.ADDRESS has no such"),
            ({"stops": [None, {"street": "x" * 21}]}, r"attribute stops\[1\]\.street of .* 21 characters"),
            ({"shipTo": ObjectValue("OE.PERSON", {})}, "an object of type OE.ADDRESS is needed, this is a OE.PERSON"),
            ({"oops": 1}, "attribute oops of type OE.ORDERS: type OE.ORDERS has no such attribute"),
            ({"id": 1, "ID": 2}, "it is given twice"),
            (ObjectValue("OE.ADDRESS", {}), "an object of type OE.ORDERS is needed, this is"),
            ("text", "an object of type OE.ORDERS is needed, this is text"),
            (wrap("x"), "an object of type OE.ORDERS is needed"),
        ],
    )
    def test_the_place_of_a_refused_value_is_named(self, body: Any, path: str) -> None:
        with pytest.raises(PayloadRefused, match=path):
            self.put(self.orders(), body)

    def test_other_queues_take_no_objects(self) -> None:
        self.queue("plain")
        with pytest.raises(PayloadRefused, match="its body is an object, the queue holds BASIC"):
            self.put("plain", ObjectValue("X", {}))
        with pytest.raises(PayloadRefused, match="its body is ANYDATA, the queue holds BASIC"):
            self.put("plain", wrap(1))

    def test_everything_a_queue_does_it_does_with_objects(self) -> None:
        self.admin.create_type("point", {"x": "NUMBER", "y": "NUMBER"})
        self.topic_of_points()
        ids = self.put("events", {"x": 1, "y": 2}, {"x": 5, "y": 6})
        browse = DequeueOptions("big", dequeue_mode=DequeueMode.BROWSE, wait=0)
        with self.hub.session() as session:
            assert session.dequeue("events", browse).message.body == ObjectValue("MGW.POINT", {"x": 5, "y": 6})
            by_id = session.dequeue("events", DequeueOptions("all", msgid=ids[0], wait=0))
            assert by_id.message.body["y"] == 2
            assert by_id.message.kind is PayloadKind.OBJECT
            session.rollback()
            without = DequeueOptions("all", dequeue_mode=DequeueMode.REMOVE_NODATA, wait=0)
            assert session.dequeue("events", without).message.body is None
            first = Navigation.FIRST_MESSAGE
            chosen = DequeueOptions("all", deq_condition="tab.user_data.X > 3", navigation=first, wait=0)
            assert session.dequeue("events", chosen).message.body["x"] == 5
            session.commit()
        assert [body["x"] for body in self.take("events", "big")] == [5]
        assert self.take("events", "all") == []

    def topic_of_points(self) -> None:
        self.queue("events", table={"queue_payload_type": "POINT", "multiple_consumers": True})
        self.admin.add_subscriber("events", "all")
        self.admin.add_subscriber("events", "big", rule="tab.user_data.x > 3 AND tab.user_data.Y = 6")

    def test_a_failing_object_goes_to_the_exception_queue_whole(self) -> None:
        self.admin.create_type("point", {"x": "NUMBER"})
        self.queue("points", table={"queue_payload_type": "point"}, max_retries=0)
        ids = self.put("points", {"x": 1})
        self.fail("points")
        self.run_time()
        self.admin.start_queue("AQ$_points_t_E", enqueue=False)
        with self.hub.session() as session:
            found = session.dequeue("AQ$_points_t_E", DequeueOptions(msgid=ids[0], wait=0))
        assert found.message.body == ObjectValue("MGW.POINT", {"x": 1})

    def test_jobs_put_and_claim_objects(self) -> None:
        self.admin.create_type("point", {"x": "NUMBER"})
        self.typed("points", "point")
        payloads._known.forget()
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, "points")
            transfer.put(conn, queue, [Message(ObjectValue("POINT", {"x": n})) for n in range(30)])
        payloads._known.forget()  # as another process sees it
        with self.hub.write() as conn:
            claimed = transfer.claim(conn, queue, None, 100)
            again = transfer.load(conn, queue, None, [one.id for one in claimed])
        assert [one.message.body["x"] for one in claimed] == list(range(30))  # type: ignore[index,call-overload]
        assert again == claimed

    def test_the_view_shows_an_object_as_json(self) -> None:
        self.admin.create_type("point", {"x": "NUMBER(5,1)", "name": "VARCHAR2(9)"})
        self.typed("points", "point")
        self.put("points", {"x": "2.5", "name": "ü"})
        assert self.view("points_t")[0]["USER_DATA"] == '{"X":2.5,"NAME":"ü"}'
        with self.hub.read() as conn:
            shown = conn.exec_driver_sql("SELECT type, object_type FROM DBA_QUEUE_TABLES").all()
        assert [tuple(row) for row in shown] == [("OBJECT", "MGW.POINT")]

    # -- types -----------------------------------------------------------------------------------------------------

    def test_types_are_listed_as_they_were_declared(self) -> None:
        self.orders()
        made = {each.full_name: each for each in self.admin.types()}
        assert sorted(made) == ["oe.address", "oe.orders"]
        assert made["oe.address"].attributes == {"street": "VARCHAR2(20)", "zip": "NUMBER(5)"}
        assert made["oe.orders"].attributes["shipTo"] == "OE.ADDRESS"
        assert made["oe.orders"].attributes["stops"] == "VARRAY(2) OF OE.ADDRESS"
        table = self.admin.queue_tables()[0]
        assert (table.payload_type, table.object_type) == (PayloadType.OBJECT, "OE.ORDERS")
        found = self.admin.queue("orders")
        assert found is not None
        assert found.object_type == "OE.ORDERS"

    def test_the_shape_tells_identical_types(self) -> None:
        def shape(name: str, **attributes: str) -> str:
            return self.admin.create_type(name, attributes).shape

        first = shape("a", x="NUMBER", y="DATE")
        assert shape("b.a", X="number", y="date") == first
        assert shape("c", x="NUMBER", z="DATE") != first  # renaming an attribute is enough
        assert shape("d", y="DATE", x="NUMBER") != first
        assert shape("e", x="NUMBER(5)", y="DATE") != first
        nested = shape("f", it="a")
        assert shape("g", it="b.a") != nested  # another schema

    @pytest.mark.parametrize(
        ("declared", "cause"),
        [
            ("TABLE OF NUMBER", "nested tables cannot be part of a payload"),
            ("VARRAY(3) OF TABLE OF NUMBER", "nested tables"),
            ("REF oe.address", "references cannot be part"),
            ("BFILE", "files outside the database"),
            ("ROWID", "row addresses"),
            ("ANYDATA", "an object cannot hold ANYDATA"),
            ("VARCHAR2", r"VARCHAR2 has no size"),
            ("VARCHAR2(0)", "the size of VARCHAR2 is 0"),
            ("VARCHAR2(32768)", "the size of VARCHAR2 is 32768"),
            ("NUMBER(39)", "the size of NUMBER is 39"),
            ("NUMBER(5,200)", "the scale of NUMBER is 200"),
            ("DATE(3)", "is not a type"),
            ("", "is not a type"),
            (5, "'5' is not a type"),
        ],
    )
    def test_what_cannot_be_an_attribute_is_refused(self, declared: Any, cause: str) -> None:
        with pytest.raises(TypeInvalid, match=f"^ORA-00902: type bad cannot be created.*attribute x: .*{cause}"):
            self.admin.create_type("bad", {"ok": "NUMBER", "x": declared})
        assert self.admin.types() == []

    @pytest.mark.parametrize("name", ["", "1st", "a b", "a.b", "x" * 129, 'a"b'])
    def test_what_cannot_be_the_name_of_an_attribute_is_refused(self, name: str) -> None:
        with refused(902):
            self.admin.create_type("bad", {name: "NUMBER"})

    def test_a_type_has_1_to_900_attributes(self) -> None:
        self.admin.create_type("widest", {f"a{n}": "NUMBER" for n in range(900)})
        with pytest.raises(TypeInvalid, match="it has 901 attributes, at most 900"):
            self.admin.create_type("wider", {f"a{n}": "NUMBER" for n in range(901)})
        with pytest.raises(TypeInvalid, match="no attributes"):
            self.admin.create_type("empty", {})
        with pytest.raises(TypeInvalid, match="attribute X occurs twice"):
            self.admin.create_type("twice", {"x": "NUMBER", "X": "NUMBER"})

    def test_types_nest_up_to_a_limit(self) -> None:
        self.admin.create_type("level0", {"x": "NUMBER"})
        for level in range(1, 32):
            self.admin.create_type(f"level{level}", {"inner": f"level{level - 1}"})
        with pytest.raises(TypeInvalid, match="types nest at most 32 levels"):
            self.admin.create_type("level32", {"inner": "level31"})

    @pytest.mark.parametrize("name", ["TEXT", "anydata", "NUMBER", "date", "SYS.MINE", "AQ$_x", "clob", "varchar2"])
    def test_names_of_the_hubs_own_types_are_reserved(self, name: str) -> None:
        with refused(24079):
            self.admin.create_type(name, {"x": "NUMBER"})

    def test_types_that_do_not_exist(self) -> None:
        with pytest.raises(
            Exception, match=r"^ORA-04043: type t cannot be created: attribute x; cause: type oe\.nothing"
        ):
            self.admin.create_type("t", {"x": "oe.nothing"})
        with refused(4043):
            self.admin.drop_type("nothing")
        with pytest.raises(Exception, match=r"^ORA-24015: .*create the type first"):
            self.admin.create_queue_table("t", "OE.NOTHING")

    def test_a_type_in_use_cannot_be_dropped(self) -> None:
        queue = self.orders()
        with pytest.raises(Exception, match=r"^ORA-02303: .*type oe\.orders uses it"):
            self.admin.drop_type("oe.address")
        with pytest.raises(Exception, match=r"^ORA-02303: .*queue table orders_t uses it"):
            self.admin.drop_type("OE.ORDERS")
        with refused(955):
            self.admin.create_type("OE.Orders", {"x": "NUMBER"})
        self.admin.stop_queue(queue)
        self.admin.drop_queue(queue)
        self.admin.drop_queue_table("orders_t")
        self.admin.drop_type("oe.orders")
        self.admin.drop_type("oe.address")
        assert self.admin.types() == []

    def test_users_make_types_and_transformations_in_their_own_schema(self) -> None:
        from mgw.gateway.aq.admin import QueueAdmin

        scott = QueueAdmin(self.hub, user="scott", schema="scott")
        scott.create_type("mine", {"x": "NUMBER"})
        scott.create_transformation("mine", "MINE", "BASIC", "source.user_data.x")
        for call in (
            lambda: scott.create_type("oe.other", {"x": "NUMBER"}),
            lambda: scott.drop_type("oe.other"),
            lambda: scott.create_transformation("oe.other", "BASIC", "BASIC", "'x'"),
            lambda: scott.modify_transformation("oe.other", 0, "'x'"),
            lambda: scott.drop_transformation("oe.other"),
        ):
            with refused(1031):
                call()
        assert [each.full_name for each in self.admin.types()] == ["scott.mine"]
        scott.drop_transformation("mine")
        scott.drop_type("mine")

    def test_a_type_of_another_needs_execute_to_be_made_something_of(self) -> None:
        def admin(user: str) -> QueueAdmin:
            return QueueAdmin(self.hub, user=user, schema=user)

        oe, scott = admin("oe"), admin("scott")
        oe.create_type("address", {"city": "VARCHAR2(20)"})
        oe.create_type("person", {"home": "address"})
        makes: dict[str, Callable[[], Any]] = {
            "queue table": lambda: scott.create_queue_table("t", "oe.person"),
            "type": lambda: scott.create_type("family", {"mother": "oe.person"}),
            "array": lambda: scott.create_type("crowd", "VARRAY(9) OF oe.person"),
            "from": lambda: scott.create_transformation("f", "oe.person", "TEXT", "source.user_data.home.city"),
            "to": lambda: scott.create_transformation("g", "TEXT", "oe.person", "source.user_data"),
        }

        def refuse_all() -> None:
            for make in makes.values():
                with pytest.raises(
                    PayloadTypeForbidden, match=r"^ORA-24016: .* use type oe\.person; c.*'oe\.person', 'scott'"
                ):
                    make()
            assert [each.full_name for each in scott.types()] == []

        refuse_all()
        oe.grant_type_privilege("person", "CLERKS")
        refuse_all()
        self.admin.grant_role("clerks", "scott")  # what a role may, its holders may
        for make in makes.values():
            make()
        assert [each.full_name for each in scott.types()] == ["oe.person", "scott.crowd", "scott.family"]
        assert [(each.type, each.grantee, each.grantor) for each in scott.type_privileges()] == [
            ("oe.person", "CLERKS", "oe")
        ]
        with refused(24016):  # of what it is made of nothing was said
            scott.create_type("house", {"at": "oe.address"})
        with refused(2303):
            oe.drop_type("person")
        oe.revoke_type_privilege("person", "clerks")
        for number, call in (
            (24066, lambda: oe.revoke_type_privilege("person", "clerks")),
            (1031, lambda: scott.grant_type_privilege("oe.person", "scott")),
            (1031, lambda: scott.revoke_type_privilege("oe.person", "scott")),
            (4043, lambda: oe.grant_type_privilege("nothing", "scott")),
            (24019, lambda: oe.grant_type_privilege("person", "x" * 129)),
        ):
            with refused(number):
                call()
        with pytest.raises(PayloadTypeForbidden):
            scott.create_queue_table("again", "oe.person")
        for name in ("f", "g"):
            with pytest.raises(PayloadTypeForbidden):
                scott.modify_transformation(name, 0, "source.user_data")
        self.admin.create_queue_table("mine", "oe.person")  # the hub's owner asks nobody
        self.admin.grant_system_privilege("MANAGE_ANY", "scott")
        scott.create_queue_table("again", "oe.person")
        scott.modify_transformation("f", 0, "'somewhere'")

    def test_messages_need_no_privilege_on_their_type_and_grants_go_with_it(self) -> None:
        oe = QueueAdmin(self.hub, user="oe", schema="oe")
        oe.create_type("address", {"city": "VARCHAR2(20)"})
        oe.create_queue_table("t", "address")
        oe.create_queue("q", "t")
        oe.start_queue("q")
        oe.grant_queue_privilege("ALL", "q", "scott")
        with self.hub.session(user="scott") as session:
            session.enqueue("oe.q", Message({"city": "Bonn"}))
            session.commit()
            assert session.dequeue("oe.q", ONCE).message.body["city"] == "Bonn"  # type: ignore[index, call-overload]
            session.commit()
        oe.drop_queue_table("t", force=True)
        oe.grant_type_privilege("address", "PUBLIC")
        assert [each.full_name for each in QueueAdmin(self.hub, user="scott").types()] == ["oe.address"]
        oe.drop_type("address")
        oe.create_type("address", {"city": "VARCHAR2(20)"})
        assert self.admin.type_privileges() == []
        with refused(24016):
            QueueAdmin(self.hub, user="scott", schema="scott").create_queue_table("t", "oe.address")

    def test_an_array_type_is_part_of_objects_only(self) -> None:
        made = self.admin.create_type("phones", "VARRAY(2) OF VARCHAR2(9)")
        assert (made.array, made.attributes) == ("VARRAY(2) OF VARCHAR2(9)", {})
        with refused(24015):
            self.admin.create_queue_table("t", "phones")
        with pytest.raises(TypeInvalid, match="is not a VARRAY"):
            self.admin.create_type("bad", "NUMBER(5)")
        self.admin.create_type("person", {"name": "VARCHAR2(9)", "phones": "phones"})
        queue = self.typed("people", "person")
        self.put(queue, {"phones": ["1", "2"]})
        assert self.got(queue)["phones"] == ("1", "2")
        with pytest.raises(PayloadRefused, match=r"attribute phones of type MGW\.PERSON: it has 3 elements"):
            self.put(queue, {"phones": ["1", "2", "3"]})
        with refused(2303):
            self.admin.drop_type("phones")

    def test_a_type_made_and_used_in_one_rolled_back_transaction_leaves_nothing_behind(self) -> None:
        from mgw.gateway.aq.admin import QueueAdmin

        for declared, value in (("NUMBER", 1), ("VARCHAR2(5)", "one")):
            conn = self.hub.engine.connect()
            with conn.begin() as transaction:
                admin = QueueAdmin(self.hub, conn)
                admin.create_type("t", {"x": declared})
                admin.create_queue_table("t_t", "t")
                admin.create_queue("t_q", "t_t")
                admin.start_queue("t_q")
                session = self.hub.session(conn)
                session.enqueue("t_q", Message({"x": value}))
                assert session.dequeue("t_q", ONCE).message.body["x"] == value  # type: ignore[index,call-overload]
                transaction.rollback()
            conn.close()
        assert self.admin.types() == []


class TextSuite(PayloadCase):
    """JSON, XML and text are checked when they are enqueued."""

    @pytest.mark.parametrize(
        "text", ["{", "NaN", '{"a":Infinity}', "", "{} {}", "{'a': 1}", "[" * 100_000], ids=range(7)
    )
    def test_what_is_no_json_is_refused(self, text: str) -> None:
        queue = self.typed("docs", "JSON")
        with pytest.raises(PayloadRefused, match=r"^ORA-25215: .*message 1.*its body is not JSON text"):
            self.put(queue, "{}", text)
        assert self.take(queue) == []

    XML = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<a xmlns:b="urn:b" b:c="ü">\U0001f600<!-- x --><d/></a>'

    @pytest.mark.parametrize("payload", ["XMLTYPE", "sys.xmltype"])
    def test_xml_comes_back_as_it_was(self, payload: str) -> None:
        queue = self.typed("docs", payload)
        self.put(queue, self.XML, None)
        assert self.got(queue) == self.XML
        assert self.got(queue) is None
        assert self.admin.queue_tables()[0].payload_type is PayloadType.XMLTYPE

    @pytest.mark.parametrize(
        "text",
        [
            "<a>",
            "plain",
            "",
            "<a/><b/>",
            "<a>&undefined;</a>",
            "<a b='1' b='2'/>",
            "<!DOCTYPE a><a/>",
            '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
            '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/hostname">]><a>&e;</a>',
            '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
            "<a>\x00</a>",
            "<a>\ud800</a>",
        ],
    )
    def test_what_is_no_safe_xml_is_refused(self, text: str) -> None:
        queue = self.typed("docs", "XMLTYPE")
        with pytest.raises(PayloadRefused, match=r"^ORA-25215: .*its body is not well-formed XML"):
            self.put(queue, text)

    def test_entities_are_never_expanded(self) -> None:
        queue = self.typed("docs", "XMLTYPE")
        levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
        bomb = f'<!DOCTYPE a [<!ENTITY e0 "lol">{levels}]><a>&e11;</a>'
        with pytest.raises(PayloadRefused):
            self.put(queue, bomb)

    def test_xml_queues_take_text_only(self) -> None:
        queue = self.typed("docs", "XMLTYPE")
        with pytest.raises(PayloadRefused, match="its body is raw bytes, the queue holds XMLTYPE"):
            self.put(queue, b"<a/>")

    def test_long_varchar_is_text(self) -> None:
        queue = self.typed("docs", "long  varchar")
        self.put(queue, "x" * 100_000)
        assert len(self.got(queue)) == 100_000

    def test_raw_has_its_limit_and_objects_too(self) -> None:
        self.typed("small", "RAW", compatible="12.2")
        self.put("small", bytes(32512))
        with pytest.raises(PayloadRefused, match="has 32513 bytes, the queue accepts at most 32512"):
            self.put("small", bytes(32513))
        self.admin.create_type("blob_t", {"it": "BLOB"})
        self.typed("objects", "blob_t", max_payload=1000)
        self.put("objects", {"it": bytes(700)})
        with pytest.raises(PayloadRefused, match="the queue accepts at most 1000"):
            self.put("objects", {"it": bytes(1000)})


WRAPPED: list[tuple[Any, str | None, str]] = [
    ("text", None, "SYS.VARCHAR2"),
    ("16", "NUMBER", "SYS.NUMBER"),
    (16, None, "SYS.NUMBER"),
    (Decimal("1.5"), None, "SYS.NUMBER"),
    (1.5, None, "SYS.BINARY_DOUBLE"),
    (math.inf, None, "SYS.BINARY_DOUBLE"),
    (1.5, "float", "SYS.FLOAT"),
    (True, None, "SYS.BOOLEAN"),
    (b"\x01", None, "SYS.RAW"),
    (b"\x01" * 5000, "blob", "SYS.BLOB"),
    ("x" * 5000, "CLOB", "SYS.CLOB"),
    ("n", "nvarchar2", "SYS.NVARCHAR2"),
    ("c", "sys.char", "SYS.CHAR"),
    (date(2026, 11, 20), None, "SYS.DATE"),
    (NOON, "DATE", "SYS.DATE"),
    (NOON, None, "SYS.TIMESTAMP"),
    (NOON.replace(tzinfo=CET), None, "SYS.TIMESTAMP_WITH_TIMEZONE"),
    (NOON.replace(tzinfo=CET), "timestamp with local time zone", "SYS.TIMESTAMP_WITH_LTZ"),
    (timedelta(days=-1, microseconds=3), None, "SYS.INTERVAL_DAY_SECOND"),
    (-14, "INTERVAL YEAR TO MONTH", "SYS.INTERVAL_YEAR_MONTH"),
    ({"a": [1]}, None, "SYS.JSON"),
    (None, "NUMBER", "SYS.NUMBER"),
]
JMS: list[tuple[Any, str]] = [
    ("<a/>", "XMLTYPE"),
    ("hello", "SYS.AQ$_JMS_TEXT_MESSAGE"),
    (b"\x00", "SYS.AQ$_JMS_BYTES_MESSAGE"),
    (b"\xac\xed", "SYS.AQ$_JMS_OBJECT_MESSAGE"),
    ((Header("n", ValueType.INTEGER, 1), Header("r", ValueType.RAW, b"\xff")), "SYS.AQ$_JMS_MAP_MESSAGE"),
    ((Header("", ValueType.DOUBLE, 0.5),), "SYS.AQ$_JMS_STREAM_MESSAGE"),
]


class AnyDataSuite(PayloadCase):
    """Queues in which every message says what it is."""

    def anything(self, **table: Any) -> str:
        return self.typed("anything", "SYS.ANYDATA", **table)

    @pytest.mark.parametrize(
        ("value", "given", "name"), WRAPPED, ids=[f"{name}-{n}" for n, (_, _, name) in enumerate(WRAPPED)]
    )
    def test_a_scalar_keeps_its_value_and_its_type(self, value: Any, given: str | None, name: str) -> None:
        queue = self.anything()
        wrapped = wrap(value, given)
        assert type_name(wrapped) == name
        self.put(queue, wrapped)
        found = self.got(queue)
        assert found == wrapped
        assert type(found.value) is type(wrapped.value)
        assert unwrap(found, name) == wrapped.value
        other = "NUMBER" if name != "SYS.NUMBER" else "VARCHAR2"
        with pytest.raises(AnyDataMismatch, match=f"^ORA-22626: .*it is of type {name}"):
            unwrap(found, other)

    def test_objects_arrays_and_scalars_share_a_queue(self) -> None:
        self.admin.create_type("oe.address", {"street": "VARCHAR2(20)", "tags": "VARRAY(2) OF NUMBER"})
        self.admin.create_type("oe.phones", "VARRAY(2) OF VARCHAR2(9)")
        queue = self.anything()
        address = {"street": "Weg", "tags": [1]}
        given = [
            wrap(address, "oe.address"),
            wrap(1),
            wrap(ObjectValue("OE.ADDRESS", address)),
            wrap(["0228"], "oe.phones"),
            wrap(None, "oe.address"),
        ]
        self.put(queue, *given, None)
        found = [self.got(queue) for _ in given]
        assert [one.type_name for one in found] == ["OE.ADDRESS", "SYS.NUMBER", "OE.ADDRESS", "OE.PHONES", "OE.ADDRESS"]
        assert found[0] == found[2] == AnyData("OE.ADDRESS", ObjectValue("OE.ADDRESS", address | {"tags": (1,)}))
        assert unwrap(found[0], "oe.Address")["street"] == "Weg"
        assert unwrap(found[3], "oe.phones") == ("0228",)
        assert found[4].value is None
        assert self.got(queue) is None

    @pytest.mark.parametrize("name", ["NCLOB", "rowid", "SYS.UROWID", "BFILE", "TABLE OF NUMBER", "ANYDATA"])
    def test_what_can_never_be_wrapped(self, name: str) -> None:
        with pytest.raises(AnyDataMismatch, match="cannot be wrapped"):
            wrap("x", name)

    def test_a_value_that_is_none_of_the_type_cannot_be_wrapped(self) -> None:
        for value, name in (("x", "NUMBER"), (1, "VARCHAR2"), ("soon", "DATE"), (True, "NUMBER")):
            with pytest.raises(AnyDataMismatch, match=f"^ORA-22626: the value cannot be wrapped as SYS.{name}"):
                wrap(value, name)
        with pytest.raises(AnyDataMismatch, match="name the type"):
            wrap(None)
        with pytest.raises(AnyDataMismatch, match="is not ANYDATA"):
            unwrap("x", "VARCHAR2")

    @pytest.mark.parametrize("deeper", [lambda value: {"a": value}, lambda value: [value]])
    def test_json_nests_as_deep_as_it_can_be_read_again(self, deeper: Callable[[Any], Any]) -> None:
        queue = self.typed("any", "ANYDATA")
        value: Any = "core"
        for _ in range(200):
            value = deeper(value)
        self.put(queue, wrap(value))
        assert self.got(queue).value == value
        for levels in (1, 200, 400):
            for _ in range(levels):
                value = deeper(value)
            with pytest.raises(AqError, match="nested too deeply"):
                self.put(queue, wrap(value))

    def test_a_large_object_is_wrapped_alone_not_inside_an_object(self) -> None:
        self.admin.create_type("doc", {"inner": "VARRAY(2) OF VARCHAR2(5)", "body": "CLOB"})
        self.admin.create_type("outer", {"doc": "doc"})
        self.admin.create_type("national", {"body": "NCLOB"})
        queue = self.anything()
        self.put(queue, wrap("x" * 100_000, "CLOB"), wrap(bytes(100_000), "BLOB"))
        for name in ("doc", "outer"):
            with pytest.raises(PayloadRefused, match=rf"type MGW\.{name.upper()} holds CLOB, which cannot be wrapped"):
                self.put(queue, wrap({}, name))
        with pytest.raises(PayloadRefused, match="holds NCLOB"):
            self.put(queue, wrap({}, "national"))
        self.typed("docs", "doc")
        self.put("docs", {"body": "x" * 100_000})  # a queue of its own type takes it
        self.typed("nationals", "national")
        self.put("nationals", {"body": "ü"})

    def test_any_number_of_unknown_types_is_refused_by_name(self) -> None:
        queue = self.anything()
        bodies = [AnyData(f"OE.NONE{number}", {}) for number in range(70_000)]
        with pytest.raises(PayloadRefused, match=r"there is no type OE\.NONE0;"):
            self.put(queue, *bodies)

    @pytest.mark.parametrize(
        ("body", "cause"),
        [
            ("text", "of Python type str, the queue holds ANYDATA"),
            (ObjectValue("MGW.POINT", {}), "is an object, the queue holds ANYDATA"),
            (AnyData("MGW.NOTHING", {}), "there is no type MGW.NOTHING"),
            (AnyData("SYS.NUMBER", "x"), "'x' is not a number"),
            (AnyData("MGW.POINT", {"x": "a"}), "attribute x of type MGW.POINT: 'a' is not a number"),
            (AnyData("MGW.POINT", wrap(1)), "an object of type MGW.POINT is needed"),
        ],
    )
    def test_what_is_no_anydata_is_refused(self, body: Any, cause: str) -> None:
        self.admin.create_type("point", {"x": "NUMBER"})
        with pytest.raises(PayloadRefused, match=f"^ORA-25215: .*{cause}"):
            self.put(self.anything(), wrap(1), body)

    def test_a_dropped_type_is_still_known_to_the_messages_that_hold_it(self) -> None:
        queue = self.anything()
        self.admin.create_type("t", {"x": "NUMBER"})
        with self.hub.session() as session:
            session.enqueue(queue, Message(wrap({"x": 1}, "t")))
            if not self.hub.postgresql:
                self.admin.drop_type("t")
            session.commit()
        if self.hub.postgresql:
            self.admin.drop_type("t")
        self.admin.create_type("T", {"y": "DATE"})
        payloads._known.forget()
        self.put(queue, wrap({"y": NOON}, "t"))
        assert self.got(queue) == AnyData("MGW.T", ObjectValue("MGW.T", {"x": 1}))
        assert self.got(queue) == AnyData("MGW.T", ObjectValue("MGW.T", {"y": NOON}))

    @pytest.mark.parametrize(("value", "name"), JMS, ids=[name for _, name in JMS])
    def test_jms_and_xml_types_need_the_switch(self, value: Any, name: str) -> None:
        queue = self.anything()
        with pytest.raises(PayloadRefused, match=r"is a JMS or XML type.*call enable_jms_types"):
            self.put(queue, wrap(value, name))
        self.admin.enable_jms_types("anything_t")
        self.admin.enable_jms_types("ANYTHING_T")
        self.put(queue, wrap(value, name))
        found = self.got(queue)
        assert unwrap(found, name) == value
        assert type(found.value) is type(value)
        assert self.admin.queue_tables()[0].jms_types

    def test_the_switch_needs_an_anydata_queue_table(self) -> None:
        with refused(24002):
            self.admin.enable_jms_types("anything_t")
        self.queue("plain")
        with refused(24016):
            self.admin.enable_jms_types("plain_t")

    def test_set_up_queue_that_is_refused_leaves_nothing(self) -> None:
        self.queue("taken")
        engine = sa.create_engine(self.application_url)
        try:
            with engine.connect() as conn:
                for before in (False, True):
                    admin = QueueAdmin(self.hub, conn)
                    if before:
                        admin.alter_queue("taken", comment="kept")
                    with refused(24006):
                        admin.set_up_queue("strm_t", "taken", "oe")
                    with refused(25200):
                        admin.set_up_queue("strm_t", "strm", 'o"e')
                    conn.commit()
                admin.set_up_queue("strm_t", "strm", ' "oe" ')
                admin.set_up_queue("other_t", "other", '"OE"')
                conn.rollback()
        finally:
            engine.dispose()
        assert [table.name for table in self.admin.queue_tables()] == ["taken_t"]
        assert [queue.comment for queue in self.admin.queues() if queue.name == "taken"] == ["kept"]
        assert self.admin.aq_agents() == []

    def test_set_up_queue_makes_a_secure_queue_with_a_user(self) -> None:
        made = self.admin.set_up_queue("strm_t", "strm", "oe")
        assert (made.enqueue_enabled, made.dequeue_enabled, made.multiple_consumers) == (True, True, True)
        table = self.admin.queue_tables()[0]
        assert (table.payload_type, table.secure, table.jms_types) == (PayloadType.ANYDATA, True, False)
        self.admin.add_subscriber("strm", "oe")
        with self.hub.session(user="oe") as session:
            with refused(25224):
                session.enqueue("strm", Message(wrap("x")))
            session.enqueue("strm", Message(wrap("x"), sender_name="OE"))
            session.commit()
            assert session.dequeue("strm", DequeueOptions("oe", wait=0)).message.body == wrap("x")
            session.commit()
        with self.hub.session(user="stranger") as session, pytest.raises(AqError):
            session.enqueue("strm", Message(wrap("x"), sender_name="oe"))
        with refused(24001):
            self.admin.set_up_queue("strm_t", "other", "newcomer")
        assert [agent.name for agent in self.admin.aq_agents()] == ["oe"]  # nothing of it was made
        self.admin.set_up_queue("open_t", "open")
        self.admin.enable_jms_types("strm_t")

    def test_the_type_name_is_a_column(self) -> None:
        self.admin.create_type("oe.address", {"street": "VARCHAR2(20)"})
        queue = self.anything()
        self.put(queue, wrap("x"), wrap({}, "oe.address"), None)
        with self.hub.read() as conn:
            names = conn.exec_driver_sql("SELECT type_name FROM aq_message ORDER BY id").scalars().all()
        assert names == ["SYS.VARCHAR2", "OE.ADDRESS", None]

    def test_the_message_offers_its_type_name(self) -> None:
        self.admin.create_type("oe.address", {"street": "VARCHAR2(20)"})
        queue = self.anything()
        self.put(queue, wrap({}, "oe.address"))
        with self.hub.session() as session:
            message = session.dequeue(queue, ONCE).message
        assert message.type_name == "OE.ADDRESS"
        assert message.kind is PayloadKind.ANYDATA
        assert Message("text").type_name is None
        assert not is_lcr(message.body)  # type: ignore[arg-type]
        assert is_lcr(AnyData("SYS.LCR$_ROW_RECORD", {}))
        assert is_lcr(AnyData("SYS.LCR$_DDL_RECORD", {}))

    def test_subscribers_choose_by_type_and_unknown_is_no(self) -> None:
        self.admin.create_type("oe.address", {"city": "VARCHAR2(20)"})
        self.queue("events", table={"queue_payload_type": "ANYDATA", "multiple_consumers": True})
        self.admin.add_subscriber("events", "post", rule="TAB.USER_DATA.GetTypeName() = 'OE.ADDRESS'")
        self.admin.add_subscriber("events", "sums", rule="tab.user_data.gettypename() = 'SYS.NUMBER'")
        register_function("hr.kind", lambda body: {"SYS.NUMBER": "MONEY"}.get(type_name(body)))
        self.admin.add_subscriber("events", "rest", rule="hr.kind(tab.user_data) != 'APPLY'")
        try:
            address = wrap({"city": "Bonn"}, "oe.address")
            self.put("events", address, wrap("16", "NUMBER"))
            with refused(24033):  # no rule is true: NULL is not different from anything
                self.put("events", wrap("text"))
            self.put("events", wrap("text"), recipients=["rest"])  # a list of recipients asks no rule
        finally:
            unregister_function("hr.kind")
        assert [body.type_name for body in self.take("events", "post")] == ["OE.ADDRESS"]
        assert self.take("events", "sums") == [wrap(16)]
        assert self.take("events", "rest") == [wrap(16), wrap("text")]

    def test_a_condition_on_the_type_finds_what_it_asks_for(self) -> None:
        queue = self.anything()
        self.put(queue, *(wrap(n) if n % 7 else wrap(str(n)) for n in range(300)))
        texts = DequeueOptions(deq_condition="tab.user_data.GetTypeName() = 'SYS.VARCHAR2'", wait=0)
        with self.hub.session() as session:
            found = session.dequeue_array(queue, texts, 1000)
            session.commit()
        assert [int(each.message.body.value) for each in found] == list(range(0, 300, 7))  # type: ignore[union-attr]
        assert len(self.take(queue)) == 300 - len(found)

    def test_rules_see_the_attributes_of_a_wrapped_object(self) -> None:
        self.admin.create_type("oe.address", {"city": "VARCHAR2(20)"})
        self.queue("events", table={"queue_payload_type": "ANYDATA", "multiple_consumers": True})
        self.admin.add_subscriber("events", "all")
        self.admin.add_subscriber("events", "bonn", rule="tab.user_data.city = 'Bonn'")
        self.put("events", wrap({"city": "Bonn"}, "oe.address"), wrap({"city": "Köln"}, "oe.address"), wrap(1))
        assert [body.type_name for body in self.take("events", "bonn")] == ["OE.ADDRESS"]
        assert len(self.take("events", "all")) == 3
