"""What every hub database must do: where a dequeue goes on, and LISTEN. Run by test_hub_*.py."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mgw.gateway.aq.model import Agent, DeliveryMode, DequeueMode, DequeueOptions, Navigation, Visibility
from mgw.gateway.aq.sessions import listen
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.support.waiting import eventually

FIRST = Navigation.FIRST_MESSAGE
BROWSE = DequeueMode.BROWSE


class NavigationSuite(HubCase):
    """Positions: where they begin, what they bind, where they end."""

    def test_browsing_with_a_wait_goes_round(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        look = DequeueOptions(dequeue_mode=BROWSE, wait=1)
        with self.hub.session() as session:
            assert [body_of(session.dequeue("orders", look)) for _ in range(4)] == ["a", "b", "a", "b"]

    def test_browsing_without_a_wait_ends_and_must_begin_again(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        look = now(dequeue_mode=BROWSE)
        with self.hub.session() as session:
            assert [body_of(session.dequeue("orders", look)) for _ in range(2)] == ["a", "b"]
            with refused(25228):
                session.dequeue("orders", look)
            with refused(25237):
                session.dequeue("orders", look)
            assert body_of(session.dequeue("orders", now(dequeue_mode=BROWSE, navigation=FIRST))) == "a"
            assert body_of(session.dequeue("orders", look)) == "b"
            with refused(25228):
                session.dequeue("orders", look)
            assert body_of(session.dequeue("orders", DequeueOptions(dequeue_mode=BROWSE, wait=1))) == "a"

    def test_consumer_that_polls_never_has_to_begin_again(self) -> None:
        self.queue()
        with self.hub.session() as session:
            for body in "ab":
                with refused(25228):
                    session.dequeue("orders", now())
                self.send("orders", body)
                assert body_of(session.dequeue("orders", now())) == body
                session.commit()
                with refused(25228):
                    session.dequeue("orders", now())

    def test_late_and_more_important_message_waits_for_the_end_of_the_snapshot(self) -> None:
        self.queue(table={"sort_list": "PRIORITY,ENQ_TIME"})
        self.send("orders", "a", "b", "c", priority=5)
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "a"
            self.send("orders", "urgent", priority=1)
            self.send("orders", "late", priority=5)
            assert [body_of(session.dequeue("orders", now())) for _ in range(4)] == ["b", "c", "urgent", "late"]
            session.commit()

    def test_messages_that_others_took_meanwhile_are_skipped(self) -> None:
        self.queue()
        self.send("orders", *"abcd")
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "a"
            assert self.take("orders") == ["b", "c", "d"]
            self.send("orders", "e")
            assert body_of(session.dequeue("orders", now())) == "e"

    def test_search_stays_the_same_from_first_message_to_first_message(self) -> None:
        self.queue()
        for correlation in "xyxy":
            self.send("orders", correlation, correlation=correlation)
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now(correlation="x"))) == "x"
            for other in ({"correlation": "y"}, {}, {"correlation": "x", "deq_condition": "priority = 1"}):
                with refused(25241):
                    session.dequeue("orders", now(**other))
            assert body_of(session.dequeue("orders", now(correlation="x"))) == "x"
            session.commit()
            with refused(25241):  # a commit does not end it
                session.dequeue("orders", now(correlation="y"))
            assert body_of(session.dequeue("orders", now(correlation="y", navigation=FIRST))) == "y"
            session.rollback()
            assert body_of(session.dequeue("orders", now())) == "y"  # a rollback does

    def test_search_may_change_when_its_end_was_reached(self) -> None:
        self.queue()
        self.send("orders", "x", correlation="x")
        self.send("orders", "y", correlation="y")
        with self.hub.session() as session:
            with refused(25228):
                session.dequeue("orders", now(correlation="z"))
            assert body_of(session.dequeue("orders", now(correlation="x"))) == "x"
            with refused(25228):
                session.dequeue("orders", now(correlation="x"))
            assert body_of(session.dequeue("orders", now(correlation="y"))) == "y"

    def test_consumer_stays_the_same_from_first_message_to_first_message(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "1", "2")
        with self.hub.session() as session:
            assert body_of(session.dequeue("events", now(consumer_name="RED"))) == "1"
            with refused(25242):
                session.dequeue("events", now(consumer_name="GREEN"))
            assert body_of(session.dequeue("events", now(consumer_name="red"))) == "2"
            assert body_of(session.dequeue("events", now(consumer_name="GREEN", navigation=FIRST))) == "1"

    def test_every_queue_has_a_position_of_its_own(self) -> None:
        self.queue("a")
        self.queue("b")
        self.send("a", "a1", "a2", correlation="x")
        self.send("b", "b1", "b2")
        look, first = now(dequeue_mode=BROWSE), now(dequeue_mode=BROWSE, navigation=FIRST)
        with self.hub.session() as session:
            assert body_of(session.dequeue("a", look)) == "a1"
            assert body_of(session.dequeue("b", first)) == "b1"
            assert body_of(session.dequeue("a", look)) == "a2"
            assert body_of(session.dequeue("b", look)) == "b2"

    def test_message_id_neither_uses_nor_moves_the_position(self) -> None:
        self.queue()
        ids = self.send("orders", *"abcd", correlation="x")
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now(correlation="x"))) == "a"
            assert body_of(session.dequeue("orders", now(msgid=ids[3]))) == "d"
            assert body_of(session.dequeue("orders", now(correlation="x"))) == "b"

    def test_refused_call_does_not_move_the_position(self) -> None:
        self.queue()
        self.send("orders", *"abc")
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "a"
            with refused(25241):
                session.dequeue("orders", now(correlation="x"))
            assert body_of(session.dequeue("orders", now())) == "b"

    def test_navigation_of_groups_needs_groups(self) -> None:
        self.queue()
        self.send("orders", *"abc")
        with self.hub.session() as session:
            for navigation in (Navigation.NEXT_TRANSACTION, "next_message_one_group", "FIRST_MESSAGE_ONE_GROUP"):
                with refused(25234):
                    session.dequeue_array("orders", now(navigation=navigation), 5)
            with refused(25233):
                session.dequeue("orders", now(navigation=Navigation.NEXT_MESSAGE_MULTI_GROUP))
            multi = session.dequeue_array("orders", now(navigation=Navigation.FIRST_MESSAGE_MULTI_GROUP), 2)
            multi += session.dequeue_array("orders", now(navigation=Navigation.NEXT_MESSAGE_MULTI_GROUP), 2)
            assert [body_of(each) for each in multi] == ["a", "b", "c"]
            assert {each.transaction_group for each in multi} == {None}

    def test_options_are_read_in_either_case_and_refused_by_name(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        with self.hub.session() as session:
            options: Any = {"dequeue_mode": "remove", "navigation": "first_message"}
            assert body_of(session.dequeue("orders", now(**options))) == "a"
            with refused(25225):
                session.dequeue("orders", now(dequeue_mode="TAKE"))  # type: ignore[arg-type]
            with refused(25233):
                session.dequeue("orders", now(navigation="LAST_MESSAGE"))  # type: ignore[arg-type]
            with refused(25230):
                session.dequeue("orders", DequeueOptions(wait="long"))  # type: ignore[arg-type]
            assert body_of(session.dequeue("orders", now())) == "b"

    def test_delivery_mode_is_persistent_unless_the_call_may_take_others_too(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        either: Any = {"delivery_mode": "persistent_or_buffered"}
        with self.hub.session() as session:
            for number, options in (
                (25299, {"delivery_mode": "BUFFERED", "visibility": "IMMEDIATE"}),
                (25299, {"delivery_mode": "SOMEHOW"}),
                (25299, {"delivery_mode": None}),
                (25298, either),
                (25298, either | {"dequeue_mode": "LOCKED"}),
            ):
                with refused(number):
                    session.dequeue("orders", now(**options))  # type: ignore[arg-type]
            assert body_of(session.dequeue("orders", now(dequeue_mode=BROWSE, **either))) == "a"
            found = session.dequeue("orders", now(visibility=Visibility.IMMEDIATE, navigation=FIRST, **either))
            assert (body_of(found), found.delivery_mode) == ("a", DeliveryMode.PERSISTENT)
            session.rollback()
        assert self.take("orders", delivery_mode="persistent") == ["b"]

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_retained_message_is_browsed_by_its_id_only(self, consumer: str | None) -> None:
        queue = self.topic("RED", retention_time=100) if consumer else self.queue(retention_time=100)
        (msgid,) = self.send(queue, "x")
        assert self.take(queue, consumer) == ["x"]
        self.run_time()
        with self.hub.session() as session:
            with refused(25228):
                session.dequeue(queue, now(consumer_name=consumer))
            found = session.dequeue(queue, now(consumer_name=consumer, msgid=msgid, dequeue_mode=BROWSE))
            assert (body_of(found), found.state) == ("x", State.PROCESSED)
            with refused(25263):
                session.dequeue(queue, now(consumer_name=consumer, msgid=msgid))
        self.run_time(101)
        with self.hub.session() as session, refused(25263):
            session.dequeue(queue, now(consumer_name=consumer, msgid=msgid, dequeue_mode=BROWSE))

    def test_waiting_message_is_taken_by_its_id_only(self) -> None:
        self.queue()
        (msgid,) = self.send("orders", "x", delay=60)
        with self.hub.session() as session:
            with refused(25228):
                session.dequeue("orders", now(dequeue_mode=BROWSE))
            found = session.dequeue("orders", now(msgid=msgid))
            assert (body_of(found), found.state) == ("x", State.WAITING)
            session.commit()
        self.run_time(60)
        assert self.take("orders") == []

    def test_exception_message_in_other_hands_is_shown_as_expired(self) -> None:
        self.topic("RED", max_retries=0)
        self.send("events", "x")
        self.fail("events", "RED")
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        with self.hub.session() as session, self.hub.session() as other:
            session.dequeue("AQ$_events_t_E", now(dequeue_mode=DequeueMode.LOCKED))
            assert other.dequeue("AQ$_events_t_E", now(dequeue_mode=BROWSE)).state is State.EXPIRED
            assert session.dequeue("AQ$_events_t_E", now(navigation=FIRST)).state is State.EXPIRED

    @pytest.mark.parametrize("again", [DequeueMode.REMOVE, DequeueMode.REMOVE_NODATA, DequeueMode.LOCKED])
    def test_session_does_not_find_again_by_its_id_what_it_has_removed(self, again: DequeueMode) -> None:
        self.queue()
        self.topic("RED")
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        (first, _), (event,) = self.send("orders", "x", "y"), self.send("events", "z")
        (failed,) = self.send("orders", "failed", expiration=0)
        self.run_time(1)
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "x"
            session.dequeue("events", now(consumer_name="RED", msgid=event))
            session.dequeue("AQ$_orders_t_E", now(msgid=failed))
            removed = (("orders", None, first), ("events", "RED", event), ("AQ$_orders_t_E", None, failed))
            for queue, consumer, msgid in removed:
                with refused(25263):
                    session.dequeue(queue, now(consumer_name=consumer, msgid=msgid, dequeue_mode=again))
            session.commit()
        self.run_time()
        assert (self.take("orders"), self.view("orders_t"), self.view("events_t")) == (["y"], [], [])

    @pytest.mark.parametrize("consumer", [None, "RED"])
    @pytest.mark.parametrize(
        "criteria",
        [{}, {"correlation": "c"}, {"correlation": "_"}, {"deq_condition": "priority = 1"}],
        ids=["any", "correlation", "pattern", "condition"],
    )
    def test_session_finds_what_it_has_locked_and_others_do_not(
        self, criteria: dict[str, Any], consumer: str | None
    ) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        self.send(queue, "a", "b", "c", correlation="c")

        def find(session: Session, **options: Any) -> str:
            return str(body_of(session.dequeue(queue, now(consumer_name=consumer, **criteria, **options))))

        with self.hub.session() as session, self.hub.session() as other:
            assert find(session, dequeue_mode=DequeueMode.LOCKED) == "a"
            assert find(session, dequeue_mode=DequeueMode.LOCKED) == "b"
            assert find(session, dequeue_mode=DequeueMode.LOCKED, navigation=FIRST) == "a"
            assert find(other) == "c"
            assert find(session, navigation=FIRST) == "a"
            with refused(25228):
                find(session, navigation=FIRST, visibility=Visibility.IMMEDIATE)
            assert find(session, navigation=FIRST) == "b"
            with refused(25228):
                find(session, navigation=FIRST)
            other.commit()
            session.commit()
        assert self.take(queue, consumer) == []

    def test_array_takes_what_is_locked_with_what_is_free_in_order(self) -> None:
        self.queue()
        ids = self.send("orders", "a", "b", "c", "d")
        with self.hub.session() as session:
            for msgid in ids[1::2]:
                session.dequeue("orders", now(msgid=msgid, dequeue_mode=DequeueMode.LOCKED))
            assert [body_of(one) for one in session.dequeue_array("orders", now(), 3)] == ["a", "b", "c"]
            session.rollback()
        assert [row["RETRY_COUNT"] for row in self.view("orders_t")] == [1, 1, 1, 0]
        assert self.take("orders") == ["a", "b", "c", "d"]

    def test_locked_message_that_waits_or_is_blocked_is_still_found_by_its_id_only(self) -> None:
        self.queue()
        self.topic("RED", "GREEN", max_retries=0)
        (late,), (bad,) = self.send("orders", "late", delay=60), self.send("events", "bad")
        self.fail("events", "RED")
        with self.hub.session() as session:
            for queue, consumer, msgid in (("orders", None, late), ("events", "RED", bad)):
                lock = {"consumer_name": consumer, "msgid": msgid, "dequeue_mode": DequeueMode.LOCKED}
                session.dequeue(queue, now(**lock))
                with refused(25228):
                    session.dequeue(queue, now(consumer_name=consumer, navigation=FIRST))
                session.dequeue(queue, now(**lock))

    def test_blocking_dequeue_waits_for_a_message_to_expire(self) -> None:
        self.topic("RED")
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        self.send("events", "x", expiration=5)
        found: list[Any] = []

        def consume() -> None:
            with self.hub.session() as session:
                found.append(session.dequeue("AQ$_events_t_E", DequeueOptions(wait=20)))
                session.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the consumer waits")
        self.clock.time += 6
        time_manager.run_once(self.hub)
        thread.join(timeout=15)
        assert [(body_of(one), one.state) for one in found] == [("x", State.EXPIRED)]


class ListenSuite(HubCase):
    """LISTEN."""

    def test_first_agent_in_the_list_with_a_message_is_returned_and_nothing_is_taken(self) -> None:
        self.queue("a")
        self.queue("b")
        self.topic("RED", "GREEN")
        red, green = Agent("red", "events"), Agent("GREEN", "MGW.events")
        a, b = Agent(None, "a"), Agent(None, "b")
        with self.hub.session() as session:
            self.send("b", "x")
            assert session.listen([a, b], wait=0) == b
            self.send("a", "x")
            assert session.listen([a, b], wait=0) == a
            assert session.listen([b, a], wait=0) == b
            self.send("events", "x", recipients=["GREEN"])
            assert session.listen([red, green, a], wait=0) is green
        assert (self.take("a"), self.take("b"), self.take("events", "GREEN")) == (["x"], ["x"], ["x"])

    def test_messages_that_are_not_ready_do_not_count(self) -> None:
        self.queue()
        self.send("orders", "later", delay=60)
        agent = Agent(None, "orders")
        with self.hub.session() as session, self.hub.session() as other:
            other.enqueue("orders", Message("not committed"))
            with refused(25254):
                session.listen([agent], wait=0)
            other.rollback()
            self.run_time(60)
            assert session.listen([agent], wait=0) == agent

    def test_exception_queue_is_heard_when_a_message_expires(self) -> None:
        self.queue()
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        agent = Agent(None, "AQ$_orders_t_E")
        self.send("orders", "x", expiration=5)
        with self.hub.session() as session:
            with refused(25254):
                session.listen([agent], wait=0)
            self.run_time(6)
            assert session.listen([Agent(None, "orders"), agent], wait=0) == agent

    def test_listener_wakes_at_the_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listen, "_LOOK_AGAIN", 60.0)  # it does not look by itself
        self.queue()
        self.topic("RED")
        heard: list[Agent] = []

        def work() -> None:
            with self.hub.session() as session:
                heard.append(session.listen([Agent(None, "orders"), Agent("RED", "events")], wait=60))

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the listener waits")
        self.send("events", "x")
        thread.join(timeout=30)
        assert heard == [Agent("RED", "events")]

    def test_listener_is_told_when_a_queue_is_stopped(self) -> None:
        self.queue("a")
        self.queue("b")
        told: list[AqError] = []

        def work() -> None:
            with self.hub.session() as session:
                try:
                    session.listen([Agent(None, "a"), Agent(None, "b")], wait=20)
                except AqError as error:
                    told.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the listener waits")
        self.admin.stop_queue("b")
        thread.join(timeout=15)
        assert [error.number for error in told] == [25253]
        assert "queue b " in str(told[0])

    def test_bad_agents_are_refused(self) -> None:
        self.queue()
        self.topic("RED")
        self.queue("stopped")
        self.admin.stop_queue("stopped")
        red, orders = Agent("RED", "events"), Agent(None, "orders")
        cases: list[tuple[list[Agent], int]] = [
            ([Agent("RED", "orders")], 25245),
            ([Agent("RED", "AQ$_events_t_E")], 25245),
            ([Agent(None, "events")], 25262),
            ([Agent("NOBODY", "events")], 24035),
            ([red, orders, Agent("red", "EVENTS")], 25248),
            ([orders, orders], 25248),
            ([orders, Agent(None, "stopped")], 25253),
            ([Agent(None, "missing")], 25205),
            ([Agent("RED", None)], 25205),
            ([Agent("RED", "events@there")], 25200),
        ]
        self.send("orders", "x")
        with self.hub.session() as session:
            for agents, number in cases:
                with refused(number):
                    session.listen(agents, wait=0)
            with refused(25230):
                session.listen([orders], wait=-1)
            with refused(25299):
                session.listen([orders], wait=0, listen_delivery_mode="BUFFERED")
            with pytest.raises(AqError, match="no agent"):
                session.listen([], wait=0)
            assert session.listen([orders], 0, "persistent_or_buffered") == orders

    def test_listener_needs_the_privilege_to_dequeue(self) -> None:
        self.queue("a")
        self.queue("b")
        self.send("b", "x")
        agents = [Agent(None, "a"), Agent(None, "MGW.b")]
        self.admin.grant_queue_privilege("DEQUEUE", "a", "SCOTT")
        with self.hub.session(user="SCOTT") as session:
            with refused(25205):
                session.listen(agents, wait=0)
            self.admin.grant_queue_privilege("ENQUEUE", "b", "SCOTT")
            with refused(1031):
                session.listen(agents, wait=0)
            self.admin.grant_queue_privilege("DEQUEUE", "b", "SCOTT")
            assert session.listen(agents, wait=0) == agents[1]

    def test_one_statement_looks_for_all_agents(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = [self.queue(f"q{number}") for number in range(20)]
        statements: list[str] = []
        original = Db.row

        def counted(db: Db, sql: str, *rest: Any) -> Any:
            statements.append(sql)
            return original(db, sql, *rest)

        monkeypatch.setattr(Db, "row", counted)
        with self.hub.session() as session, refused(25254):
            session.listen([Agent(None, name) for name in names], wait=0.3)
        looks = [sql for sql in statements if "aq_entry" in sql]
        assert 2 <= len(looks) <= 4  # at once, when it is subscribed, when the watching begins, and at the end
