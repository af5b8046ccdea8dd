"""What every hub database must do: the options of an enqueue and the order of its refusals. Run by test_hub_*.py."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.model import (
    Agent,
    DeliveryMode,
    DequeueMode,
    EnqueueOptions,
    Navigation,
    SequenceDeviation,
    Visibility,
)
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.tables import State
from mgw.transforms.errors import AqError
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.conformance.hub_suite import HubCase, body_of, now, refused

TOP = EnqueueOptions(sequence_deviation=SequenceDeviation.TOP)


def before(msgid: bytes, **options: Any) -> EnqueueOptions:
    return EnqueueOptions(relative_msgid=msgid, sequence_deviation=SequenceDeviation.BEFORE, **options)


class EnqueueSuite(HubCase):
    """Options, properties, recipients, arrays."""

    def test_options_may_be_texts_in_either_case(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", Message("b"), EnqueueOptions(visibility=" immediate "))
            session.rollback()
            assert self.states("orders_t") == ["READY"]
            session.enqueue("orders", Message("c"), EnqueueOptions("On_Commit", delivery_mode="persistent"))
            session.enqueue("orders", Message("a"), EnqueueOptions(sequence_deviation="top"))
            session.commit()
        assert self.take("orders") == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("options", "number"),
        [
            (EnqueueOptions(visibility="LATER"), 25201),
            (EnqueueOptions(sequence_deviation="AFTER"), 25204),
            (EnqueueOptions(delivery_mode=DeliveryMode.BUFFERED), 25299),
            (EnqueueOptions(Visibility.IMMEDIATE, delivery_mode="BUFFERED"), 25299),
            (EnqueueOptions(delivery_mode="PERSISTENT_OR_BUFFERED"), 25299),
            (EnqueueOptions(delivery_mode=None), 25299),  # type: ignore[arg-type]
        ],
    )
    def test_unknown_options_are_refused_and_the_transaction_goes_on(
        self, options: EnqueueOptions, number: int
    ) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", Message("a"))
            with refused(number):
                session.enqueue("orders", Message("no"), options)
            session.commit()
        assert self.take("orders") == ["a"]

    def test_priority_is_any_integer(self) -> None:
        self.queue(table={"sort_list": "PRIORITY"})
        for priority in (7, State.WAITING, -3):  # one of them has a name
            self.send("orders", str(int(priority)), priority=priority)
        assert self.take("orders") == ["-3", "1", "7"]

    def test_first_refusal_is_the_one_that_the_order_of_checks_demands(self) -> None:
        self.admin.create_queue_table("t", "TEXT", multiple_consumers=True)
        self.admin.create_queue("q", "t")
        self.admin.create_queue("broken", "t", queue_type="EXCEPTION_QUEUE")
        ids = [bytes(16)]
        wrong: Any = b"no text"
        buffered = before(ids[0], delivery_mode="BUFFERED", transformation="none")
        steps: list[tuple[int, dict[str, Any], EnqueueOptions, list[Any]]] = [
            (25201, {"delay": -1, "body": wrong}, EnqueueOptions("NEVER", ids[0], "BEFORE", "BUFFERED"), ["A", "a"]),
            (25204, {"delay": -1, "body": wrong}, EnqueueOptions(sequence_deviation="AFTER"), ["A", "a"]),
            (25203, {"delay": -1, "expiration": -1, "body": wrong}, buffered, ["A", "a"]),
            (25209, {"expiration": -1, "body": wrong}, buffered, ["A", "a"]),
            (25299, {"body": wrong}, before(ids[0], delivery_mode="BUFFERED", transformation="none"), ["A", "a"]),
            (24094, {"body": wrong}, before(ids[0], transformation="none"), ["A", "a"]),
            (25215, {"body": wrong}, before(ids[0]), ["A", "a"]),
            (25208, {}, EnqueueOptions(sequence_deviation="BEFORE"), ["A", "a"]),
            (25210, {}, before(ids[0]), ["A", "a"]),
            (25232, {}, EnqueueOptions(), ["A", "a"]),
            (25216, {}, EnqueueOptions(), [Agent(None)]),
            (25251, {}, EnqueueOptions(), [f"A{n}" for n in range(1025)]),
            (24033, {}, EnqueueOptions(), []),
        ]
        with self.hub.session() as session:

            def enqueue(
                queue: str, properties: dict[str, Any], options: EnqueueOptions, recipients: Sequence[Any]
            ) -> None:
                session.enqueue(queue, Message(**({"body": "x"} | properties)), options, recipients=recipients)

            first = steps[0]
            with refused(25205):
                enqueue("missing", *first[1:])
            with refused(25206):
                enqueue("broken", *first[1:])
            with refused(25207):
                enqueue("q", *first[1:])
            self.admin.start_queue("q")
            for number, *call in steps:
                with refused(number):
                    enqueue("q", *call)
            session.commit()
        assert self.view("t") == []

    def test_what_the_system_sets_is_ignored_in_a_message(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", Message("x", original_msgid=bytes(16), attempts=7, msgid=b"m", enqueue_time=1.0))
            session.commit()
            found = session.dequeue("orders", now())
            assert (found.message.original_msgid, found.message.attempts) == (None, 0)
            assert found.message.enqueue_time == self.clock.time
            assert found.msgid[:8] == self.hub.hub_id
        with self.hub.write() as conn:  # the hub itself says what a message was elsewhere
            transfer.put(conn, transfer.resolve(conn, "orders"), [Message("y", original_msgid=bytes(16))])
        with self.hub.session() as session:
            found = session.dequeue("orders", now(navigation=Navigation.FIRST_MESSAGE, correlation=None))
            assert [one.message.original_msgid for one in session.dequeue_array("orders", now())] == [bytes(16)]
            assert body_of(found) == "x"

    def test_sender_and_user_property_come_back(self) -> None:
        self.queue()
        self.topic("RED")
        for queue in ("orders", "events"):
            self.send(queue, "x", sender_name="ann", sender_address="home", sender_protocol=7, user_property="ä 1")
            self.send(queue, "y")
        for queue, consumer in (("orders", None), ("events", "RED")):
            with self.hub.session() as session:
                one, other = session.dequeue_array(queue, now(consumer_name=consumer))
                got = one.message
                assert (got.sender_name, got.sender_address, got.sender_protocol) == ("ann", "home", 7)
                assert got.user_property == "ä 1"
                assert (other.message.sender_protocol, other.message.user_property) == (0, None)
        assert [row["SENDER_PROTOCOL"] for row in self.view("orders_t")] == [7, None]
        for bad in ({"user_property": "x" * 4001}, {"user_property": "\x00"}, {"sender_protocol": 256}):
            with pytest.raises(AqError, match="message 0"):
                self.send("orders", "x", **bad)

    def test_each_message_of_an_array_has_its_own_properties_and_recipients(self) -> None:
        self.topic("RED", "GREEN")
        with self.hub.session() as session:
            ids = session.enqueue_array(
                "events",
                [Message("1", priority=3), Message("2", correlation="c"), Message("3", delay=60), Message("4")],
                recipient_lists=[["BLUE"], [], ["RED", Agent("PINK")], ["RED"]],
            )
            session.commit()
        assert len(ids) == 4
        got = {who: self.take("events", who) for who in ("RED", "GREEN", "BLUE", "PINK")}
        assert got == {"RED": ["2", "4"], "GREEN": ["2"], "BLUE": ["1"], "PINK": []}
        self.run_time(60)
        assert (self.take("events", "RED"), self.take("events", "PINK")) == (["3"], ["3"])

    def test_one_recipient_needs_no_list(self) -> None:
        self.topic("RED")
        one: Any
        for one in ("BLUE", Agent("BLUE")):
            self.send("events", "x", recipients=one)
            with self.hub.session() as session:
                session.enqueue_array("events", [Message("y"), Message("z")], recipient_lists=[one, ["RED"]])
                session.commit()
        assert self.take("events", "BLUE") == ["x", "y"] * 2
        assert self.take("events", "RED") == ["z"] * 2
        assert {row["CONSUMER_NAME"] for row in self.view("events_t")} == {"BLUE", "RED"}

    def test_array_is_stored_whole_or_not_at_all(self) -> None:
        self.topic("RED")
        self.admin.add_subscriber("events", "GREEN", rule="priority < 5")
        self.admin.remove_subscriber("events", "RED")
        with self.hub.session() as session:
            for visibility in Visibility:
                with pytest.raises(AqError, match=r"^ORA-24033: ") as caught:
                    session.enqueue_array(
                        "events",
                        [Message("1"), Message("2"), Message("3", priority=9)],
                        EnqueueOptions(visibility),
                        recipient_lists=[["BLUE"], [], []],
                    )
                assert caught.value.index == 2  # type: ignore[attr-defined]
            session.commit()
        assert self.view("events_t") == []

    def test_array_size_takes_the_first_messages(self) -> None:
        self.topic("RED")
        messages = [Message(body) for body in "abc"]
        with self.hub.session() as session:
            for size in (0, -1, 4):
                with refused(25286):
                    session.enqueue_array("events", messages, array_size=size)
            for lists in ([["RED"]], [["RED"]] * 4):
                with refused(25287):
                    session.enqueue_array("events", messages, recipient_lists=lists)
            with refused(25286):
                session.enqueue_array("events", [], array_size=1)
            assert len(session.enqueue_array("events", messages, array_size=2)) == 2
            assert session.enqueue_array("events", []) == []
            session.commit()
        assert self.take("events", "RED") == ["a", "b"]

    def test_recipients_elsewhere_are_refused(self) -> None:
        self.topic("RED")
        for agent in (Agent("A", "other"), Agent(None, "other@link"), Agent("A", None, 128)):
            with pytest.raises(AqError, match=r"^ORA-24045: .*cannot be served"):
                self.send("events", "x", recipients=[agent])

    @pytest.mark.parametrize(
        "header",
        [
            "a",
            7,
            ("a", ValueType.TEXT),
            Header("a", 99, "x"),  # type: ignore[arg-type]
            Header("a", "TEXT", "x"),  # type: ignore[arg-type]
            Header(5, ValueType.TEXT, "x"),  # type: ignore[arg-type]
            Header("a", ValueType.TEXT, 5),
            Header("a", ValueType.TEXT, None),  # type: ignore[arg-type]
            Header("a", ValueType.LONG, "x"),
            Header("a", ValueType.RAW, "x"),
            Header("a", ValueType.DATE, "today"),
        ],
    )
    def test_what_is_no_header_is_refused_and_the_queue_stays_readable(self, header: Any) -> None:
        self.queue()
        self.queue("fields", table={"queue_payload_type": "FIELDS"})
        with self.hub.session() as session:
            with pytest.raises(AqError, match="header 2 of a message"):
                session.enqueue_array(
                    "orders",
                    [Message("a"), Message("b", (Header("ok", ValueType.TEXT, "x"), header))],
                )
            with pytest.raises(AqError, match="field 1 of a message"):
                session.enqueue("fields", Message((header,), kind=PayloadKind.FIELDS))
            session.enqueue("orders", Message("c"))
            session.commit()
        assert self.take("orders") == ["c"]

    def test_header_over_its_limit_is_refused(self) -> None:
        self.queue()
        with pytest.raises(AqError, match="header"):
            self.send("orders", "x", headers=(Header("n" * 251, ValueType.TEXT, ""),))


class ImmediateSuite(HubCase):
    """Calls that are a transaction of their own, beside one that is open."""

    def test_immediate_beside_an_open_transaction(self) -> None:
        self.queue()
        self.send("orders", "x", "y")
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "x"
            session.enqueue("orders", Message("never"))
            session.enqueue("orders", Message("z"), EnqueueOptions(Visibility.IMMEDIATE))
            assert body_of(session.dequeue("orders", now(visibility=Visibility.IMMEDIATE))) == "y"
            session.rollback()
        assert self.take("orders") == ["x", "z"]

    def test_message_locked_by_the_session_is_not_there_for_a_transaction_of_its_own(self) -> None:
        self.queue()
        (msgid,) = self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now(dequeue_mode=DequeueMode.LOCKED))
            with refused(25263):
                session.dequeue("orders", now(msgid=msgid, visibility=Visibility.IMMEDIATE))
            assert body_of(session.dequeue("orders", now(msgid=msgid))) == "x"
            session.commit()
        assert self.view("orders_t") == []

    def test_immediate_in_an_application_transaction(self) -> None:
        self.queue()
        at_once = EnqueueOptions(Visibility.IMMEDIATE)
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            session = self.hub.session(conn)
            session.enqueue("orders", Message("before"), at_once)  # no transaction is open yet
            session.enqueue("orders", Message("never"))
            if self.hub.postgresql:
                session.enqueue("orders", Message("beside"), at_once)
            else:
                with pytest.raises(AqError, match=r"^ORA-25201: .*SQLite's one write lock.*ON_COMMIT"):
                    session.enqueue("orders", Message("beside"), at_once)
            conn.rollback()
        engine.dispose()
        assert self.take("orders") == (["before", "beside"] if self.hub.postgresql else ["before"])


class DeviationSuite(HubCase):
    """Messages that go ahead of others."""

    def put(self, queue: str, body: str, options: EnqueueOptions, **properties: Any) -> bytes:
        with self.hub.session() as session:
            msgid = session.enqueue(queue, Message(body, **properties), options)
            session.commit()
        return msgid

    def few_digits(self) -> None:
        """Message ids so large that only some thousand places are left between two of them."""
        with self.hub.write() as conn:
            if self.hub.postgresql:
                conn.exec_driver_sql("SELECT setval('aq_message_id', 1099511627776)")
            else:
                conn.exec_driver_sql("UPDATE aq_counter SET value = 1099511627776 WHERE name = 'message'")

    def test_before_and_top(self) -> None:
        self.queue()
        a, b = self.send("orders", "a", "b")
        x = self.put("orders", "x", before(b))
        self.put("orders", "y", before(b))
        self.put("orders", "w", before(x))
        self.put("orders", "t1", TOP)
        t2 = self.put("orders", "t2", TOP)
        self.put("orders", "t3", before(t2))
        self.put("orders", "a0", before(a))
        self.send("orders", "c")
        assert self.take("orders") == ["t3", "t2", "t1", "a0", "a", "w", "x", "y", "b", "c"]

    def test_deviation_holds_within_every_sort_list(self) -> None:
        for number, sort in enumerate(("ENQ_TIME,PRIORITY", "PRIORITY", "PRIORITY,ENQ_TIME")):
            queue = self.queue(f"q{number}", table={"sort_list": sort})
            low, high = self.send(queue, "p5", priority=5)[0], self.send(queue, "p2", priority=2)[0]
            self.put(queue, "before p5", before(low), priority=3)
            self.put(queue, "before p2", before(high), priority=-7)
            self.put(queue, "top", TOP, priority=-7)
            assert self.take(queue) == ["top", "before p2", "p2", "before p5", "p5"], sort

    def test_array_deviates_one_after_the_other(self) -> None:
        self.queue()
        (last,) = self.send("orders", "z")
        with self.hub.session() as session:
            session.enqueue_array("orders", [Message(body) for body in "abc"], before(last))
            session.enqueue_array("orders", [Message(body) for body in "321"], TOP)
            session.commit()
        assert self.take("orders") == [*"123abcz"]

    def test_array_deviates_in_the_order_of_the_call_whatever_the_priorities(self) -> None:
        messages = [Message(body, priority=priority) for body, priority in zip("abcd", (1, 5, 1, 7), strict=True)]
        for number, sort in enumerate(("ENQ_TIME,PRIORITY", "PRIORITY", "PRIORITY,ENQ_TIME")):
            for kind, expected in (("top", "dcbaz"), ("before", "abcdz")):
                queue = self.queue(f"{kind}{number}", table={"sort_list": sort})
                (last,) = self.send(queue, "z", priority=9)
                with self.hub.session() as session:
                    session.enqueue_array(queue, messages, TOP if kind == "top" else before(last))
                    session.commit()
                assert self.take(queue) == [*expected], (sort, kind)

    def test_every_consumer_sees_the_deviation(self) -> None:
        self.few_digits()
        self.topic("RED", "GREEN", name="events")
        (last,) = self.send("events", "z")
        for number in range(120):
            last = self.put("events", str(number), before(last))
        self.put("events", "top", TOP)
        expected = ["top", *(str(number) for number in reversed(range(120))), "z"]
        assert self.take("events", "RED") == expected
        assert self.take("events", "GREEN") == expected

    @pytest.mark.parametrize("seed", [1, 2])
    @pytest.mark.parametrize("few", [False, True])
    def test_any_mixture_comes_out_as_a_list_would(self, seed: int, few: bool) -> None:
        if few:
            self.few_digits()
        choose = random.Random(seed)
        self.queue()
        model: list[bytes] = list(self.send("orders", *"abc"))
        favourite = model[1]
        with self.hub.session() as session:
            for number in range(250):
                kind = choose.choice(("last", "top", "before", "favourite", "favourite", "newest", "take"))
                if kind == "take" and len(model) > 5:
                    gone = model.pop(choose.randrange(len(model)))
                    session.commit()
                    session.dequeue("orders", now(msgid=gone))
                    favourite = model[0] if gone == favourite else favourite
                    continue
                message = Message(str(number))
                if kind in ("last", "take"):
                    model.append(session.enqueue("orders", message))
                elif kind == "top":
                    model.insert(0, session.enqueue("orders", message, TOP))
                else:
                    whom = favourite if kind == "favourite" else choose.choice(model)
                    whom = max(model) if kind == "newest" else whom
                    model.insert(model.index(whom), session.enqueue("orders", message, before(whom)))
                if choose.random() < 0.3:
                    session.commit()
            session.commit()
            found = session.dequeue_array("orders", now(navigation=Navigation.FIRST_MESSAGE), 1000)
            assert [one.msgid for one in found] == model

    def test_reference_may_be_of_the_same_transaction(self) -> None:
        self.queue()
        self.send("orders", "old")
        with self.hub.session() as session:
            b = session.enqueue("orders", Message("b"))
            a = session.enqueue("orders", Message("a"), before(b))
            session.enqueue("orders", Message("a0"), before(a))
            session.rollback()
            with refused(25210):
                session.enqueue("orders", Message("a"), before(b))
            b = session.enqueue("orders", Message("b"))
            a = session.enqueue("orders", Message("a"), before(b))
            session.enqueue("orders", Message("a0"), before(a))
            with refused(25210):
                session.enqueue("orders", Message("no"), before(b, visibility=Visibility.IMMEDIATE))
            session.commit()
        assert self.take("orders") == ["old", "a0", "a", "b"]

    def test_reference_that_goes_before_the_commit_leaves_the_place(self) -> None:
        self.queue()
        _, b, _ = self.send("orders", "a", "b", "c")
        with self.hub.session() as session:
            session.enqueue("orders", Message("b0"), before(b))
            assert self.take("orders", msgid=b) == ["b"]
            session.commit()
        assert self.take("orders") == ["a", "b0", "c"]

    def test_two_transactions_before_one_message(self) -> None:
        self.queue()
        _, b = self.send("orders", "a", "b")
        with self.hub.session() as one, self.hub.session() as two:
            for number in range(3):
                one.enqueue("orders", Message(f"one {number}"), before(b))
                two.enqueue("orders", Message(f"two {number}"), before(b))
            two.commit()
            one.commit()
        found = self.take("orders")
        assert (found[0], found[-1], len(found)) == ("a", "b", 8)
        for who in ("one", "two"):
            assert [body for body in found if body.startswith(who)] == [f"{who} {number}" for number in range(3)]

    def test_messages_in_other_hands_do_not_stand_in_the_way(self) -> None:
        self.few_digits()
        self.queue()
        a, b = self.send("orders", "a", "b")
        early = [self.put("orders", f"early {number}", before(b)) for number in range(20)]
        with self.hub.session() as other:
            for msgid in early[1::2]:
                other.dequeue("orders", now(msgid=msgid))
            for number in range(80):
                self.put("orders", f"late {number}", before(b))
            self.put("orders", "between", before(early[10]))
            other.rollback()
        found = self.take("orders")
        assert (found[0], found[-1], len(found)) == ("a", "b", 103)
        late = [body for body in found if body.startswith("late")]
        assert late == [f"late {number}" for number in range(80)]
        free = [body for body in found if body.startswith(("early", "between"))]
        free = [body for body in free if body == "between" or int(body.split()[1]) % 2 == 0]
        expected = [f"early {number}" for number in range(0, 20, 2)]
        assert free == [*expected[:5], "between", *expected[5:]]
        assert a not in early

    def test_application_transaction_may_deviate(self) -> None:
        self.queue()
        (b,) = self.send("orders", "b")
        with self.hub.write() as conn:
            session = Session(self.hub, conn)
            a = session.enqueue("orders", Message("a"), before(b))
            session.enqueue("orders", Message("a0"), before(a))
            session.enqueue("orders", Message("t"), TOP)
        assert self.take("orders") == ["t", "a0", "a", "b"]

    @pytest.mark.parametrize("sort", ["ENQ_TIME", "PRIORITY", "COMMIT_TIME", "PRIORITY,COMMIT_TIME"])
    def test_whole_group_goes_where_its_first_message_goes(self, sort: str) -> None:
        self.few_digits()
        self.queue("events", table={"multiple_consumers": True, "message_grouping": "TRANSACTIONAL", "sort_list": sort})
        self.admin.add_subscriber("events", "RED")
        self.send("events", "a1", "a2")
        (b1, _) = self.send("events", "b1", "b2")
        for number in range(70):
            with self.hub.session() as session:
                session.enqueue("events", Message(f"{number}"), before(b1))
                session.enqueue("events", Message(f"{number}+"))
                session.commit()
        self.put("events", "top", TOP)
        expected = [body for number in range(70) for body in (f"{number}", f"{number}+")]
        everything = {"navigation": Navigation.FIRST_MESSAGE_MULTI_GROUP}
        assert self.take("events", "RED", **everything) == ["top", "a1", "a2", *expected, "b1", "b2"]

    def test_reference_must_be_there(self) -> None:
        self.queue()
        self.queue("other")
        self.queue("kept", retention_time=100)
        self.topic("RED")
        (foreign,), (gone,) = self.send("other", "x"), self.send("orders", "x")
        self.take("orders")
        (kept,), (event,) = self.send("kept", "x"), self.send("events", "x")
        self.take("kept")
        self.take("events", "RED")
        with refused(25208):
            self.put("orders", "no", EnqueueOptions(sequence_deviation=SequenceDeviation.BEFORE))
        for msgid in (foreign, gone, bytes(16), b"short", gone[:8] + 8 * b"\xff", gone.hex()):
            with refused(25210):
                self.put("orders", "no", before(msgid))
        for queue, msgid in (("kept", kept), ("events", event)):
            with refused(25213):
                self.put(queue, "no", before(msgid))
        (mine,) = self.send("orders", "mine")
        with self.hub.session() as session:
            session.dequeue("orders", now(msgid=mine))
            with refused(25213):
                session.enqueue("orders", Message("no"), before(mine))
        self.send("orders", "x")
        self.put("orders", "y", EnqueueOptions(relative_msgid=bytes(16)))  # ignored without BEFORE
        assert self.take("orders") == ["mine", "x", "y"]

    def test_delay_and_priority_must_not_lag_behind_the_reference(self) -> None:
        self.queue()
        (soon,) = self.send("orders", "soon", priority=5)
        (late,) = self.send("orders", "late", delay=60, priority=3)
        with pytest.raises(AqError, match=r"^ORA-25211: .*delay of 1 s") as caught, self.hub.session() as session:
            session.enqueue_array("orders", [Message("ok"), Message("no", delay=1)], before(soon))
        assert caught.value.index == 1  # type: ignore[attr-defined]
        with refused(25211):
            self.put("orders", "no", before(late), delay=60.5)
        with refused(25212):
            self.put("orders", "no", before(soon), priority=6)
        with refused(25212):
            self.put("orders", "no", TOP, priority=4)
        with refused(25211):
            self.put("orders", "no", TOP, priority=3, delay=1)
        self.put("orders", "first", before(late), delay=60, priority=3)
        self.put("orders", "top", TOP, priority=3)
        assert self.take("orders") == ["top", "soon"]
        self.run_time(60)
        assert self.take("orders") == ["first", "late"]
