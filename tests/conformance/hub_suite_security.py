"""Who may do what: privileges, roles, AQ agents, secure queues. Run on both databases."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.grants import QueuePrivilege, RoleMember, SystemPrivilege
from mgw.gateway.aq.model import Agent, DequeueMode, DequeueOptions, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.security import security_sql
from mgw.gateway.aq.sessions.session import Session
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, now, refused

IMMEDIATE = EnqueueOptions(Visibility.IMMEDIATE)
Call = Callable[[Session, str], Any]

#: Every way of putting something in.
ENQUEUES: dict[str, Call] = {
    "enqueue": lambda s, q: s.enqueue(q, Message("x")),
    "array": lambda s, q: s.enqueue_array(q, [Message("x"), Message("y")]),
    "immediate": lambda s, q: s.enqueue(q, Message("x"), IMMEDIATE),
    "quoted": lambda s, q: s.enqueue(f'"MGW"."{q}"', Message("x")),
}


def _dequeue(**options: Any) -> Call:
    return lambda s, q: s.dequeue(q, now(**options))


def _by_msgid(session: Session, queue: str) -> Any:
    with session.hub.session() as owner:
        found = owner.dequeue(queue, now(dequeue_mode=DequeueMode.BROWSE)).msgid
    return session.dequeue(queue, now(msgid=found))


#: Every way of getting something out, or of seeing it.
DEQUEUES: dict[str, Call] = {
    "dequeue": _dequeue(),
    "array": lambda s, q: s.dequeue_array(q, now(), 10),
    "waiting": lambda s, q: s.dequeue(q, DequeueOptions(wait=0.01)),
    "immediate": _dequeue(visibility=Visibility.IMMEDIATE),
    "browse": _dequeue(dequeue_mode=DequeueMode.BROWSE),
    "locked": _dequeue(dequeue_mode=DequeueMode.LOCKED),
    "nodata": _dequeue(dequeue_mode=DequeueMode.REMOVE_NODATA),
    "correlation": _dequeue(correlation="%"),
    "condition": _dequeue(deq_condition="tab.priority = 1"),
    "msgid": _by_msgid,
    "listen": lambda s, q: s.listen([Agent(None, q)], 0),
}


class SecurityCase(HubCase):
    def as_admin(self, user: str | None) -> QueueAdmin:
        return QueueAdmin(self.hub, user=user)

    def put(self, user: str | None, queue: str, *bodies: str, sender: str | None = None) -> None:
        with self.hub.session(user=user) as session:
            session.enqueue_array(queue, [Message(body, sender_name=sender) for body in bodies])
            session.commit()

    def get(self, user: str | None, queue: str, consumer: str | None = None, **options: Any) -> list[Any]:
        with self.hub.session(user=user) as session:
            try:
                found = session.dequeue_array(queue, now(consumer_name=consumer, **options), 100)
            except AqError as error:
                if error.number != 25228:
                    raise
                return []
            session.commit()
        return [each.message.body for each in found]

    def may(self, user: str, queue: str = "orders") -> str:
        """``E`` and ``D`` for what the user may do with a single-consumer queue."""
        rights = ""
        with self.hub.session(user=user) as session:
            for letter, call in (("E", ENQUEUES["enqueue"]), ("D", DEQUEUES["dequeue"])):
                try:
                    call(session, queue)
                except AqError as error:
                    if error.number == 25228:
                        rights += letter
                    elif error.number not in (25205, 1031):
                        raise
                else:
                    rights += letter
            session.rollback()
        return rights

    def holders(self, queue: str = "orders") -> dict[str, str]:
        """Grantor>grantee to what was granted, small letters without grant option."""
        return {
            f"{each.grantor}>{each.grantee}": " eE"[each.enqueue].strip() + " dD"[each.dequeue].strip()
            for each in self.admin.queue_privileges(queue)
        }


class PrivilegeSuite(SecurityCase):
    """Grants on queues, on everything, and roles."""

    @pytest.fixture(autouse=True)
    def _orders(self, _hub: None) -> None:
        self.queue()
        self.send("orders", "secret", correlation="c")

    # -- no way around -----------------------------------------------------------------------------------------------

    def test_a_queue_without_privileges_looks_as_if_it_were_not_there(self) -> None:
        calls = ENQUEUES | {f"dequeue {way}": call for way, call in DEQUEUES.items()}
        calls["dequeue msgid"] = _dequeue(msgid=bytes(16))
        self.admin.create_queue_table("Billing.t")
        self.admin.create_queue("Billing.q", "Billing.t")
        with self.hub.session(user="scott") as session:
            texts = []
            for queue in ("billing.q", "missing.q"):
                with refused(25205) as caught:
                    session.enqueue(queue, Message("x"))
                texts.append(str(caught.value).replace(queue.partition(".")[0], "S"))
            assert texts[0] == texts[1]
        with self.hub.session(user="scott") as session:
            for way, call in calls.items():
                texts = []
                for queue in ("orders", "nowhere"):
                    with refused(25205) as caught:
                        call(session, queue)
                    texts.append(str(caught.value).replace(queue, "Q"))
                assert texts[0] == texts[1], way
                assert "scott" in texts[0]
            session.commit()
        assert self.take("orders") == ["secret"]

    def test_enqueue_privilege_is_needed_and_enough(self) -> None:
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "scott")
        with self.hub.session(user="scott") as session:
            for way, call in ENQUEUES.items():
                with refused(1031) as caught:
                    call(session, "ORDERS")
                for part in ("scott", "orders", "ENQUEUE", "MGW", "grant_queue_privilege"):
                    assert part in str(caught.value), way
            session.commit()
        assert self.take("orders") == ["secret"]
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "scott")
        with self.hub.session(user="scott") as session:
            for way, call in ENQUEUES.items():
                call(session, "ORDERS")
                session.commit()
                assert "x" in self.take("orders"), way

    def test_dequeue_privilege_is_needed_and_enough(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "scott")
        with self.hub.session(user="scott") as session:
            for way, call in DEQUEUES.items():
                with refused(1031) as caught:
                    call(session, "orders")
                for part in ("scott", "orders", "DEQUEUE", "MGW"):
                    assert part in str(caught.value), way
            session.commit()
        assert self.states("orders_t") == ["READY"]
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "scott")
        for way, call in DEQUEUES.items():
            if self.states("orders_t") != ["READY"]:
                self.send("orders", "secret", correlation="c")
            with self.hub.session(user="scott") as session:
                assert call(session, "orders"), way
                session.commit()

    def test_the_applications_own_connection_gives_no_privilege(self) -> None:
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            session = self.hub.session(conn, user="scott")
            for call in (*ENQUEUES.values(), DEQUEUES["array"], DEQUEUES["browse"], DEQUEUES["msgid"]):
                conn.rollback()
                with refused(25205):
                    call(session, "orders")
            conn.rollback()
            self.admin.grant_queue_privilege("ENQUEUE", "orders", "scott")
            session.enqueue("orders", Message("mine"))
            with refused(1031):
                session.dequeue("orders", now())
            conn.commit()
        engine.dispose()
        assert self.take("orders") == ["secret", "mine"]

    def test_exception_queue_needs_a_privilege_of_its_own(self) -> None:
        self.admin.grant_queue_privilege("ALL", "orders", "scott")
        self.fail("orders", times=6)
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        browse = now(dequeue_mode=DequeueMode.BROWSE)
        with self.hub.session(user="scott") as session, refused(25205):
            session.dequeue("AQ$_orders_t_E", browse)
        self.admin.grant_queue_privilege("DEQUEUE", "AQ$_orders_t_E", "scott")
        with self.hub.session(user="scott") as session:
            assert session.dequeue("AQ$_orders_t_E", browse).message.body == "secret"

    # -- who is the owner --------------------------------------------------------------------------------------------

    def test_the_owner_needs_no_grant(self) -> None:
        for user in (None, "SYS", "system", "mgw", "MGW", '"Mgw"'):
            assert self.get(user, "orders") == ["secret"]
            self.put(user, "orders", "secret")
            self.as_admin(user).stop_queue("orders")
            self.as_admin(user).start_queue("orders")

    def test_what_names_no_user_is_refused(self) -> None:
        for user in ("", "  ", "a\nb", 'a"b', "PUBLIC", "aq_administrator_role", "\u017fys", "sy\u017ftem"):
            with refused(25200):
                self.hub.session(user=user)
            with refused(25200):
                self.as_admin(user)
        with refused(24019):
            self.hub.session(user="x" * 129)
        with refused(24019):
            self.as_admin("x" * 129)

    def test_user_owns_the_schema_of_the_same_name(self) -> None:
        billing = self.as_admin("billing")
        billing.create_queue_table("BILLING.t")
        billing.create_queue("Billing.q", "billing.T")
        billing.start_queue("billing.q")
        self.put("Billing", "BILLING.Q", "mine")
        with refused(24010):
            self.as_admin("scott").stop_queue("billing.q")
        billing.grant_queue_privilege("DEQUEUE", "billing.q", "scott")
        assert self.get("scott", "billing.q") == ["mine"]
        assert self.holders("billing.q") == {"Billing>scott": "d"}
        with refused(1031):
            self.as_admin("scott").stop_queue("billing.q")
        billing.drop_queue_table("billing.t", force=True)

    # -- grants ------------------------------------------------------------------------------------------------------

    def test_a_grant_gives_what_it_says(self) -> None:
        for privilege, rights in (("ENQUEUE", "E"), ("dequeue", "D"), ("ALL", "ED"), (" all ", "ED")):
            self.admin.grant_queue_privilege(privilege, "orders", "Scott")
            assert self.may("SCOTT") == rights
            assert self.may("tiger") == ""
            assert self.admin.queue_privileges("orders") == [
                QueuePrivilege("orders", "MGW", "Scott", "MGW", int("E" in rights), int("D" in rights))
            ]
            self.admin.revoke_queue_privilege("ALL", "orders", "scott")

    def test_revoking_one_right_leaves_the_other(self) -> None:
        self.admin.grant_queue_privilege("ALL", "orders", "scott")
        self.admin.revoke_queue_privilege("DEQUEUE", "orders", "SCOTT")
        assert self.may("scott") == "E"
        self.admin.revoke_queue_privilege("ALL", "orders", "scott")
        assert self.may("scott") == ""
        assert self.holders() == {}

    def test_unknown_queue_privilege_is_refused(self) -> None:
        for privilege in ("SELECT", "ENQUEUE_ANY", "", "AQ_ADMINISTRATOR_ROLE"):
            for call in (self.admin.grant_queue_privilege, self.admin.revoke_queue_privilege):
                with refused(24066):
                    call(privilege, "orders", "scott")

    def test_what_was_not_granted_cannot_be_revoked(self) -> None:
        for privilege in ("ENQUEUE", "ALL"):
            with refused(24066):
                self.admin.revoke_queue_privilege(privilege, "orders", "scott")
        with refused(24010):
            self.admin.grant_queue_privilege("ALL", "nowhere", "scott")
        with refused(24010):
            self.admin.revoke_queue_privilege("ALL", "nowhere", "scott")

    def test_grants_go_with_their_queue(self) -> None:
        self.admin.grant_queue_privilege("ALL", "orders", "scott")
        with self.hub.session(user="scott") as session:
            session.dequeue("orders", now())
            session.commit()
            self.admin.drop_queue_table("orders_t", force=True)
            self.queue()
            with refused(25205):
                session.enqueue("orders", Message("x"))
        assert self.holders() == {}

    # -- passing on --------------------------------------------------------------------------------------------------

    def test_grant_option_passes_on_what_is_held_and_no_more(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "a", grant_option=True)
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "a")
        a = self.as_admin("a")
        for privilege in ("DEQUEUE", "ALL"):
            with refused(1031):
                a.grant_queue_privilege(privilege, "orders", "b")
        a.grant_queue_privilege("ENQUEUE", "orders", "b", grant_option=True)
        self.as_admin("b").grant_queue_privilege("ENQUEUE", "orders", "c")
        with refused(1031):
            self.as_admin("c").grant_queue_privilege("ENQUEUE", "orders", "d")
        with refused(24010):
            self.as_admin("stranger").grant_queue_privilege("ENQUEUE", "orders", "d")
        assert self.may("c") == "E"
        assert self.holders() == {"MGW>a": "Ed", "a>b": "E", "b>c": "e"}

    def test_revoking_takes_everything_that_was_passed_on(self) -> None:
        self.admin.grant_queue_privilege("ALL", "orders", "a", True)
        self.as_admin("a").grant_queue_privilege("ALL", "orders", "b", True)
        self.as_admin("b").grant_queue_privilege("ALL", "orders", "c", True)
        self.as_admin("c").grant_queue_privilege("ENQUEUE", "orders", "PUBLIC")
        assert self.may("anybody") == "E"
        self.admin.revoke_queue_privilege("ENQUEUE", "orders", "a")
        assert self.holders() == {"MGW>a": "D", "a>b": "D", "b>c": "D"}
        assert self.may("anybody") == ""
        self.admin.revoke_queue_privilege("ALL", "orders", "a")
        assert self.holders() == {}

    def test_what_came_another_way_too_stays(self) -> None:
        for name in ("a", "b"):
            self.admin.grant_queue_privilege("ENQUEUE", "orders", name, True)
            self.as_admin(name).grant_queue_privilege("ENQUEUE", "orders", "c", True)
        self.as_admin("c").grant_queue_privilege("ENQUEUE", "orders", "d")
        self.admin.revoke_queue_privilege("ENQUEUE", "orders", "a")
        assert self.holders() == {"MGW>b": "E", "b>c": "E", "c>d": "e"}

    def test_grants_in_a_circle_do_not_hold_each_other_up(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "a", True)
        self.as_admin("a").grant_queue_privilege("ENQUEUE", "orders", "b", True)
        self.as_admin("b").grant_queue_privilege("ENQUEUE", "orders", "a", True)
        self.admin.revoke_queue_privilege("ENQUEUE", "orders", "a")
        assert self.holders() == {}

    def test_option_is_kept_by_a_grant_without_it(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "a", True)
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "a")
        assert self.holders() == {"MGW>a": "E"}

    def test_only_the_grantor_revokes(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "a", True)
        self.as_admin("a").grant_queue_privilege("ENQUEUE", "orders", "b")
        for other in (None, "mgw", "b"):
            with refused(24066) as caught:
                self.as_admin(other).revoke_queue_privilege("ENQUEUE", "orders", "b")
        assert "granted" in str(caught.value)
        with refused(24066):
            self.as_admin("b").revoke_queue_privilege("ENQUEUE", "orders", "a")
        self.as_admin("a").revoke_queue_privilege("ENQUEUE", "orders", "b")
        assert self.holders() == {"MGW>a": "E"}

    def test_a_role_cannot_pass_on(self) -> None:
        self.admin.grant_role("CLERKS", "scott")
        for grantee in ("PUBLIC", "AQ_ADMINISTRATOR_ROLE", "clerks"):
            with refused(24066):
                self.admin.grant_queue_privilege("ALL", "orders", grantee, True)
            self.admin.grant_queue_privilege("ALL", "orders", grantee)

    def test_users_see_grants_that_concern_them(self) -> None:
        self.admin.grant_queue_privilege("ALL", "orders", "a", True)
        self.as_admin("a").grant_queue_privilege("ENQUEUE", "orders", "b")
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "c")

        def seen(user: str) -> set[str]:
            return {each.grantee for each in self.as_admin(user).queue_privileges()}

        assert (seen("mgw"), seen("a"), seen("b"), seen("x")) == ({"a", "b", "c"}, {"a", "b"}, {"b"}, set())

    # -- at once -----------------------------------------------------------------------------------------------------

    def test_open_sessions_feel_every_change_at_once(self) -> None:
        with self.hub.session(user="scott") as session:
            for _ in range(2):
                with refused(25205):
                    session.enqueue("orders", Message("x"))
                self.admin.grant_queue_privilege("ENQUEUE", "orders", "scott")
                session.enqueue("orders", Message("x"))
                session.commit()
                self.admin.revoke_queue_privilege("ENQUEUE", "orders", "scott")
            self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "scott")
            session.enqueue("orders", Message("x"))
            self.admin.revoke_role("AQ_ADMINISTRATOR_ROLE", "scott")
            with refused(25205):
                session.enqueue("orders", Message("x"))
            self.admin.grant_system_privilege("ENQUEUE_ANY", "scott")
            session.enqueue("orders", Message("x"))

    def test_a_grant_that_is_rolled_back_is_not_remembered(self) -> None:
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn:
            session = self.hub.session(conn, user="scott")
            QueueAdmin(self.hub, conn).grant_queue_privilege("ENQUEUE", "orders", "scott")
            session.enqueue("orders", Message("x"))
            conn.rollback()
            self.admin.grant_queue_privilege("ENQUEUE", "orders", "another")
            with refused(25205):
                session.enqueue("orders", Message("x"))
            conn.rollback()
        engine.dispose()
        assert self.take("orders") == ["secret"]

    def test_privileges_are_read_once_and_the_owner_is_not_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looks = {"version": 0, "held_by": 0}
        for name in looks:
            ask = getattr(security_sql, name)

            def counted(*args: Any, name: str = name, ask: Any = ask) -> Any:
                looks[name] += 1
                return ask(*args)

            monkeypatch.setattr(security_sql, name, counted)
        self.put(None, "orders", "a")
        self.get("SYS", "orders")
        assert looks == {"version": 0, "held_by": 0}
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "scott")
        with self.hub.session(user="scott") as session:
            for _ in range(5):
                session.enqueue_array("orders", [Message("x")] * 20)
        assert looks == {"version": 5, "held_by": 1}

    # -- system privileges -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("privilege", "rights"), [("ENQUEUE_ANY", "E"), ("dequeue_any", "D"), ("MANAGE_ANY", "")])
    def test_system_privilege_is_for_every_queue(self, privilege: str, rights: str) -> None:
        owner = self.as_admin("billing")
        owner.create_queue_table("billing.t")
        owner.create_queue("billing.q", "billing.t")
        owner.start_queue("billing.q")
        self.admin.grant_system_privilege(privilege, "scott")
        assert (self.may("scott"), self.may("scott", "billing.q")) == (rights, rights)
        manages = privilege == "MANAGE_ANY"
        for queue in ("orders", "billing.q"):
            if manages:
                self.as_admin("scott").stop_queue(queue)
            else:
                with refused(1031):
                    self.as_admin("scott").stop_queue(queue)
        self.admin.revoke_system_privilege(privilege.upper(), "SCOTT")
        assert self.may("scott") == ""
        with refused(24010):
            self.as_admin("scott").stop_queue("orders")

    def test_admin_option_passes_on_and_goes_with_the_privilege_only(self) -> None:
        a = self.as_admin("a")
        self.admin.grant_system_privilege("ENQUEUE_ANY", "a")
        with refused(1031):
            a.grant_system_privilege("ENQUEUE_ANY", "b")
        self.admin.grant_system_privilege("ENQUEUE_ANY", "a", admin_option=True)
        self.admin.grant_system_privilege("ENQUEUE_ANY", "a")
        with refused(1031):
            a.grant_system_privilege("DEQUEUE_ANY", "b")
        a.grant_system_privilege("ENQUEUE_ANY", "b")
        assert self.admin.system_privileges() == [
            SystemPrivilege("ENQUEUE_ANY", "a", "SYS", True),
            SystemPrivilege("ENQUEUE_ANY", "b", "a", False),
        ]
        assert [each.grantee for each in self.as_admin("b").system_privileges()] == ["b"]
        self.admin.revoke_system_privilege("ENQUEUE_ANY", "a")
        with refused(1031):
            a.revoke_system_privilege("ENQUEUE_ANY", "b")
        assert (self.may("a"), self.may("b")) == ("", "E")

    def test_bad_system_privileges_are_refused(self) -> None:
        for privilege in ("ENQUEUE", "ANY", ""):
            with refused(24066):
                self.admin.grant_system_privilege(privilege, "scott")
            with refused(24066):
                self.admin.revoke_system_privilege(privilege, "scott")
        with refused(24066):
            self.admin.revoke_system_privilege("MANAGE_ANY", "scott")
        with refused(25200):
            self.admin.grant_system_privilege("MANAGE_ANY", " ")

    def test_administration_in_ones_own_name_needs_no_privilege_elsewhere_it_does(self) -> None:
        scott = self.as_admin("scott")
        for name in ("mine", "other.t"):  # a plain name is in the schema of the hub
            with refused(1031):
                scott.create_queue_table(name)
        self.admin.grant_system_privilege("MANAGE_ANY", "scott")
        scott.create_queue_table("other.t")
        scott.create_queue("other.q", "other.t")
        scott.start_queue("other.q")
        scott.grant_queue_privilege("ENQUEUE", "other.q", "tiger")
        assert self.holders("other.q") == {"other>tiger": "e"}
        with refused(25205):
            self.put("scott", "nowhere.q", "x")
        with refused(1031):
            self.put("scott", "other.q", "x")

    def test_only_the_owner_migrates_a_queue_table(self) -> None:
        self.as_admin("billing").create_queue_table("billing.t")
        self.admin.grant_system_privilege("MANAGE_ANY", "scott")
        self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "tiger")
        for user in ("scott", "tiger"):
            with refused(24072):
                self.as_admin(user).migrate_queue_table("billing.t", "8.1")
        with refused(24002):
            self.as_admin("nobody").migrate_queue_table("billing.t", "8.1")
        assert self.as_admin("billing").migrate_queue_table("billing.t", "8.1").compatible == "8.1"
        assert self.admin.migrate_queue_table("billing.t", "10.0").compatible == "10.0"

    # -- roles -------------------------------------------------------------------------------------------------------

    def test_administrator_role_may_do_everything(self) -> None:
        self.admin.grant_role("aq_administrator_role", "scott")
        scott = self.as_admin("scott")
        assert self.may("scott") == "ED"
        scott.create_queue_table("other.t")
        scott.grant_system_privilege("DEQUEUE_ANY", "tiger")
        scott.grant_queue_privilege("ENQUEUE", "orders", "tiger", True)
        assert self.may("tiger") == "ED"
        self.as_admin("tiger").grant_queue_privilege("ENQUEUE", "orders", "cub")
        scott.revoke_queue_privilege("ENQUEUE", "orders", "tiger")
        assert self.holders() == {}
        scott.create_aq_agent("web")
        scott.grant_role("AQ_ADMINISTRATOR_ROLE", "mary")
        assert self.may("mary") == "ED"
        assert self.admin.roles() == [
            RoleMember("AQ_ADMINISTRATOR_ROLE", "mary", "scott"),
            RoleMember("aq_administrator_role", "scott", "SYS"),
        ]
        self.as_admin("mary").revoke_role("AQ_ADMINISTRATOR_ROLE", "scott")
        assert self.may("scott") == ""

    def test_roles_may_hold_roles_even_in_a_circle(self) -> None:
        self.admin.grant_role("clerks", "scott")
        self.admin.grant_role("staff", "CLERKS")
        self.admin.grant_role("clerks", "staff")
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "Staff")
        self.admin.grant_system_privilege("DEQUEUE_ANY", "staff")
        assert self.may("scott") == "ED"
        assert self.may("tiger") == ""
        assert {each.role for each in self.as_admin("scott").roles()} == {"clerks", "staff"}
        self.admin.revoke_role("staff", "clerks")
        assert self.may("scott") == ""

    def test_public_is_everybody(self) -> None:
        self.admin.grant_queue_privilege("ENQUEUE", "orders", "public")
        self.admin.grant_queue_privilege("DEQUEUE", "orders", "scott")
        assert (self.may("scott"), self.may("new")) == ("ED", "E")
        self.admin.revoke_queue_privilege("ENQUEUE", "orders", "PUBLIC")
        assert self.may("new") == ""

    def test_impossible_roles_are_refused(self) -> None:
        for role in ("PUBLIC", "sys", "scott"):
            with refused(24066):
                self.admin.grant_role(role, "scott")
        with refused(24066):
            self.admin.revoke_role("clerks", "scott")

    def test_role_of_a_name_gives_no_ownership(self) -> None:
        self.admin.grant_role("MGW", "scott")
        assert self.may("scott") == ""

    # -- what is visible ---------------------------------------------------------------------------------------------

    def test_lists_show_what_all_queues_would(self) -> None:
        self.topic("press", name="events")
        self.queue("hidden")
        for privilege, queue in (("ENQUEUE", "orders"), ("DEQUEUE", "events")):
            self.admin.grant_queue_privilege(privilege, queue, "scott")
        scott = self.as_admin("scott")
        assert [each.name for each in scott.queues()] == ["events", "orders"]
        assert [each.name for each in scott.queue_tables()] == ["events_t", "orders_t"]
        assert [each.name for each in scott.queue_subscribers()] == ["press"]
        assert scott.queue("hidden") is None
        assert scott.queue("orders") is not None
        with refused(24010):
            scott.queue_subscribers("hidden")
        with refused(1031):
            scott.queue_subscribers("orders")
        self.admin.grant_system_privilege("ENQUEUE_ANY", "scott")
        assert len(scott.queues()) == len(self.admin.queues())
        assert self.as_admin("stranger").queues() == []


#: Every procedure of the administration, called by a user who holds nothing; None: it gives an empty list.
ADMINISTRATION: dict[str, Callable[[QueueAdmin], Any] | None] = {
    "create_queue_table": lambda a: a.create_queue_table("new"),
    "drop_queue_table": lambda a: a.drop_queue_table("events_t", force=True),
    "alter_queue_table": lambda a: a.alter_queue_table("events_t", comment="mine"),
    "migrate_queue_table": lambda a: a.migrate_queue_table("events_t", "8.1"),
    "purge_queue_table": lambda a: a.purge_queue_table("events_t"),
    "purge_queue": lambda a: a.purge_queue("events"),
    "would_purge": lambda a: a.would_purge("events"),
    "queue_tables": None,
    "queue_table": lambda a: a.queue_table("events_t") or _as_hidden(),
    "create_queue": lambda a: a.create_queue("new", "events_t"),
    "alter_queue": lambda a: a.alter_queue("events", max_retries=1),
    "start_queue": lambda a: a.start_queue("events"),
    "stop_queue": lambda a: a.stop_queue("events"),
    "drop_queue": lambda a: a.drop_queue("events"),
    "queues": None,
    "queue": lambda a: a.queue("events") or _as_hidden(),
    "add_subscriber": lambda a: a.add_subscriber("events", "me"),
    "alter_subscriber": lambda a: a.alter_subscriber("events", "press", rule=None),
    "remove_subscriber": lambda a: a.remove_subscriber("events", "press"),
    "queue_subscribers": None,
    "grant_queue_privilege": lambda a: a.grant_queue_privilege("ALL", "events", "me"),
    "revoke_queue_privilege": lambda a: a.revoke_queue_privilege("ALL", "events", "press"),
    "queue_privileges": None,
    "grant_system_privilege": lambda a: a.grant_system_privilege("MANAGE_ANY", "me"),
    "revoke_system_privilege": lambda a: a.revoke_system_privilege("MANAGE_ANY", "boss"),
    "system_privileges": None,
    "grant_role": lambda a: a.grant_role("AQ_ADMINISTRATOR_ROLE", "me"),
    "revoke_role": lambda a: a.revoke_role("AQ_ADMINISTRATOR_ROLE", "boss"),
    "roles": None,
    "held_by_queue": lambda a: a.held_by_queue("events"),
    "held_by_queue_table": lambda a: a.held_by_queue_table("events_t"),
    "held_by_subscriber": lambda a: a.held_by_subscriber("events", "press"),
    "create_aq_agent": lambda a: a.create_aq_agent("mine"),
    "alter_aq_agent": lambda a: a.alter_aq_agent("press", enable_http=True),
    "drop_aq_agent": lambda a: a.drop_aq_agent("press"),
    "enable_db_access": lambda a: a.enable_db_access("press", "me"),
    "disable_db_access": lambda a: a.disable_db_access("press", "boss"),
    "enable_aq_agent": lambda a: a.enable_aq_agent("press", "me"),
    "disable_aq_agent": lambda a: a.disable_aq_agent("press", "boss"),
    "aq_agents": None,
    "create_type": lambda a: a.create_type("new", {"x": "NUMBER"}),
    "drop_type": lambda a: a.drop_type("point"),
    "types": None,
    "object_type": lambda a: a.object_type("point") or _as_hidden(),
    "grant_type_privilege": lambda a: a.grant_type_privilege("point", "me"),
    "revoke_type_privilege": lambda a: a.revoke_type_privilege("point", "boss"),
    "type_privileges": None,
    "set_up_queue": lambda a: a.set_up_queue("new_t", "new", "nobody"),
    "enable_jms_types": lambda a: a.enable_jms_types("events_t"),
    "create_transformation": lambda a: a.create_transformation("new", "BASIC", "BASIC", "'x'"),
    "modify_transformation": lambda a: a.modify_transformation("shout", 0, "'x'"),
    "drop_transformation": lambda a: a.drop_transformation("shout"),
    "transformations": None,
    "allow_module": lambda a: a.allow_module("string"),
    "forbid_module": lambda a: a.forbid_module("json"),
    "modules": None,
    "set_rule_function": lambda a: a.set_rule_function("new", "json:dumps"),
    "drop_rule_function": lambda a: a.drop_rule_function("as_json"),
    "rule_functions": None,
}

#: What every procedure has in common, beside the procedures.
_COMMON = {
    "change", "look", "manages", "need_queue", "need_queue_table", "visible", "hub", "connection", "schema", "rights"
}  # fmt: skip


def _as_hidden() -> None:
    raise AqError("hidden", number=24010)


class AdministrationSuite(SecurityCase):
    """No procedure is open to a user who holds nothing."""

    @pytest.fixture(autouse=True)
    def _events(self, _hub: None) -> None:
        self.topic("press")
        self.send("events", "kept")
        self.admin.grant_queue_privilege("ALL", "events", "boss")
        self.admin.grant_system_privilege("MANAGE_ANY", "boss")
        self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "boss")
        self.admin.enable_db_access("press", "boss")
        self.admin.create_type("point", {"x": "NUMBER"})
        self.admin.grant_type_privilege("point", "boss")
        self.admin.create_transformation("shout", "BASIC", "BASIC", "UPPER(source.user_data)")
        self.admin.allow_module("json")
        self.admin.set_rule_function("as_json", "json:dumps")

    def test_every_procedure_is_listed_here(self) -> None:
        """A new procedure needs a line in ADMINISTRATION: what must a user hold to call it?"""
        procedures = {
            name for name, _ in inspect.getmembers(QueueAdmin, inspect.isfunction) if not name.startswith("_")
        }
        assert procedures - _COMMON == set(ADMINISTRATION)

    def test_a_user_who_holds_nothing_may_call_no_procedure(self) -> None:
        before = self.everything()
        nobody = self.as_admin("nobody")
        for name, call in ADMINISTRATION.items():
            if call is None:
                assert getattr(nobody, name)() == [], name
                assert getattr(self.as_admin("boss"), name)() == getattr(self.admin, name)() != [], name
                continue
            with pytest.raises(AqError) as caught:
                call(nobody)
            assert caught.value.number in (1031, 24002, 24010), name
        assert self.everything() == before

    def test_privileges_on_the_queue_let_nobody_administer(self) -> None:
        self.admin.grant_queue_privilege("ALL", "events", "user")
        self.admin.grant_system_privilege("ENQUEUE_ANY", "user")
        self.admin.grant_system_privilege("DEQUEUE_ANY", "user")
        before = self.everything()
        for name, call in ADMINISTRATION.items():
            if call is None or name in ("queue", "queue_table", "object_type"):
                continue
            with pytest.raises(AqError) as caught:
                call(self.as_admin("user"))
            assert caught.value.number in (1031, 24002, 24066), name
        assert self.everything() == before

    def test_a_hidden_queue_table_is_told_as_one_that_is_not_there(self) -> None:
        texts = []
        for name in ("events_t", "nowhere"):
            with refused(24002) as caught:
                self.as_admin("nobody").drop_queue_table(name)
            texts.append(str(caught.value).replace(name, "T"))
        assert texts[0] == texts[1]

    def everything(self) -> Any:
        admin = self.admin
        return (
            admin.queues(),
            admin.queue_tables(),
            admin.queue_subscribers(),
            admin.queue_privileges(),
            admin.system_privileges(),
            admin.roles(),
            admin.aq_agents(),
            admin.types(),
            admin.type_privileges(),
            admin.transformations(),
        )


class AgentSuite(SecurityCase):
    """AQ agents and their users."""

    def users(self, agent: str) -> tuple[str, ...]:
        return next(each.users for each in self.admin.aq_agents() if each.name.upper() == agent.upper())

    def test_attributes_that_are_not_given_to_alter_become_false(self) -> None:
        made = self.admin.create_aq_agent("Web", "cn=web", enable_http=True, enable_anyp=True)
        assert (made.name, made.certificate_location, made.enable_http, made.enable_anyp) == ("Web", "cn=web", 1, 1)
        self.admin.enable_db_access("web", "scott")
        altered = self.admin.alter_aq_agent("WEB", enable_anyp=True)
        assert (altered.name, altered.certificate_location) == ("Web", None)
        assert (altered.enable_http, altered.enable_anyp) == (False, True)
        assert self.admin.alter_aq_agent("web").enable_anyp is False
        assert self.users("web") == ("scott",)

    def test_agents_and_users_are_mapped_many_to_many(self) -> None:
        for agent in ("a", "b"):
            self.admin.create_aq_agent(agent)
            for user in ("x", "y"):
                self.admin.enable_db_access(agent, user)
        self.admin.enable_aq_agent("A", "X")  # again, by its other name
        assert (self.users("a"), self.users("b")) == (("x", "y"), ("x", "y"))
        self.admin.disable_db_access("a", "X")
        self.admin.disable_aq_agent("b", "y")
        assert (self.users("a"), self.users("b")) == (("y",), ("x",))

    def test_mappings_go_with_their_agent(self) -> None:
        self.admin.create_aq_agent("a")
        self.admin.enable_db_access("a", "x")
        self.admin.drop_aq_agent("A")
        assert self.admin.aq_agents() == []
        self.admin.create_aq_agent("a")
        assert self.users("a") == ()

    def test_refusals(self) -> None:
        self.admin.create_aq_agent("a")
        for number, call in (
            (24089, lambda: self.admin.create_aq_agent("A")),
            (24088, lambda: self.admin.alter_aq_agent("b")),
            (24088, lambda: self.admin.drop_aq_agent("b")),
            (24088, lambda: self.admin.enable_db_access("b", "x")),
            (24088, lambda: self.admin.disable_db_access("b", "x")),
            (24093, lambda: self.admin.disable_db_access("a", "x")),
            (24090, lambda: self.admin.create_aq_agent("c", "cn=c")),
            (24090, lambda: self.admin.alter_aq_agent("a", "cn=a")),
            (24047, lambda: self.admin.create_aq_agent("")),
            (24019, lambda: self.admin.create_aq_agent("x" * 129)),
            (24049, lambda: self.admin.create_aq_agent("AQ$_x")),
            (25200, lambda: self.admin.enable_db_access("a", "")),
            (24019, lambda: self.admin.enable_db_access("a", "x" * 129)),
        ):
            with refused(number):
                call()
        assert [each.name for each in self.admin.aq_agents()] == ["a"]

    def test_a_subscriber_is_an_agent_by_itself(self) -> None:
        self.admin.create_aq_agent("Press", enable_http=True)
        self.topic("press", "radio")
        agents = {each.name: each for each in self.admin.aq_agents()}
        assert set(agents) == {"Press", "radio"}
        assert agents["Press"].enable_http
        assert not agents["Press"].automatic
        assert agents["radio"].automatic
        with refused(24089):
            self.admin.create_aq_agent("radio")
        assert not self.admin.alter_aq_agent("radio", enable_http=True).automatic

    def test_a_user_sees_the_own_agents(self) -> None:
        for agent, user in (("a", "x"), ("b", "y")):
            self.admin.create_aq_agent(agent)
            self.admin.enable_db_access(agent, user)
        assert [each.name for each in self.as_admin("X").aq_agents()] == ["a"]
        self.admin.grant_system_privilege("MANAGE_ANY", "x")
        assert [each.name for each in self.as_admin("x").aq_agents()] == ["a", "b"]


#: Ways in and out of a secure queue; each gets the sender or consumer to use.
SECURE_ENQUEUES: dict[str, Callable[[Session, str | None], Any]] = {
    "enqueue": lambda s, who: s.enqueue("vault", Message("x", sender_name=who)),
    "array": lambda s, who: s.enqueue_array("vault", [Message("x", sender_name=who)] * 2),
    "immediate": lambda s, who: s.enqueue("vault", Message("x", sender_name=who), IMMEDIATE),
    "recipients": lambda s, who: s.enqueue("vault", Message("x", sender_name=who), recipients=["reader"]),
}
SECURE_DEQUEUES: dict[str, dict[str, Any]] = {
    "remove": {},
    "browse": {"dequeue_mode": DequeueMode.BROWSE},
    "locked": {"dequeue_mode": DequeueMode.LOCKED},
    "nodata": {"dequeue_mode": DequeueMode.REMOVE_NODATA},
    "immediate": {"visibility": Visibility.IMMEDIATE},
    "condition": {"deq_condition": "tab.priority = 1"},
}


def forge(message: Message) -> Message:
    """A transformation that says the message is from somebody else."""
    return replace(message, sender_name="stranger")


class SecureQueueSuite(SecurityCase):
    """Secure queues: the sender and the consumer must be AQ agents of the user."""

    @pytest.fixture(autouse=True)
    def _vault(self, _hub: None) -> None:
        self.queue("vault", table={"multiple_consumers": True, "secure": True})
        self.admin.add_subscriber("vault", "reader")
        self.admin.grant_queue_privilege("ALL", "vault", "scott")
        self.admin.create_aq_agent("writer")
        self.admin.create_aq_agent("stranger")

    def test_the_sender_must_be_an_agent_of_the_user(self) -> None:
        with self.hub.session(user="scott") as session:
            for call in SECURE_ENQUEUES.values():
                for sender, number in ((None, 25224), ("", 25224), ("writer", 24093), ("nobody", 24093)):
                    with refused(number) as caught:
                        call(session, sender)
                    assert "vault" in str(caught.value)
                    assert "scott" in str(caught.value)
            session.commit()
            assert self.take("vault", "reader") == []
            self.admin.enable_db_access("Writer", "SCOTT")
            for way, call in SECURE_ENQUEUES.items():
                call(session, "WRITER")
                with refused(24093):
                    call(session, "stranger")
                session.commit()
                assert "x" in self.take("vault", "reader"), way

    def test_the_sender_is_looked_at_after_queue_and_options_and_before_the_payload(self) -> None:
        wrong: Any = object()
        with self.hub.session(user="scott") as session:
            self.admin.stop_queue("vault", dequeue=False)
            with refused(25207):
                session.enqueue("vault", Message("x"))
            self.admin.start_queue("vault")
            with refused(25201):
                session.enqueue("vault", Message("x"), EnqueueOptions("LATER"))
            with refused(25203):
                session.enqueue("vault", Message("x", delay=-1))
            for options in (EnqueueOptions(), EnqueueOptions(delivery_mode="BUFFERED")):
                with refused(25224):
                    session.enqueue("vault", Message(wrong), options)

    def test_one_bad_sender_refuses_the_array_and_is_named(self) -> None:
        self.admin.enable_db_access("writer", "scott")
        good, bad, none = (Message("x", sender_name=name) for name in ("writer", "stranger", None))
        with self.hub.session(user="scott") as session:
            with refused(24093) as caught:
                session.enqueue_array("vault", [good, good, bad])
            assert "message 2" in str(caught.value)
            with refused(25224) as caught:
                session.enqueue_array("vault", [good, none, bad])
            assert getattr(caught.value, "index", None) == 1
            session.commit()
        assert self.take("vault", "reader") == []

    def test_a_transformation_cannot_give_a_message_another_sender(self) -> None:
        module = ModuleType("hub_forgers")
        module.__dict__["forge"] = FunctionType(forge.__code__, globals() | {"__name__": module.__name__})
        sys.modules[module.__name__] = module
        try:
            self.hub.transform_modules = (module.__name__,)
            self.as_admin("scott").create_transformation("scott.forged", "BASIC", "BASIC", "hub_forgers:forge")
            self.admin.enable_db_access("writer", "scott")
            with self.hub.session(user="scott") as session, refused(24093):
                session.enqueue(
                    "vault", Message("x", sender_name="writer"), EnqueueOptions(transformation="scott.forged")
                )
        finally:
            del sys.modules[module.__name__]

    def test_an_agent_is_no_privilege(self) -> None:
        self.admin.enable_db_access("writer", "tiger")
        with self.hub.session(user="tiger") as session:
            with refused(25205):
                session.enqueue("vault", Message("x", sender_name="writer"))
            self.admin.grant_queue_privilege("DEQUEUE", "vault", "tiger")
            with refused(1031):
                session.enqueue("vault", Message("x", sender_name="writer"))

    def test_system_privileges_and_roles_spare_nobody_the_agent(self) -> None:
        self.admin.grant_system_privilege("ENQUEUE_ANY", "tiger")
        self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "lion")
        for user in ("tiger", "lion"):
            with self.hub.session(user=user) as session:
                with refused(25224):
                    session.enqueue("vault", Message("x"))
                with refused(24093):
                    session.enqueue("vault", Message("x", sender_name="writer"))
        with self.hub.session(user="lion") as session, refused(24093):
            session.dequeue("vault", now(consumer_name="reader"))

    def test_the_owner_may_do_everything(self) -> None:
        for user in (None, "mgw"):
            self.put(user, "vault", "x")
            self.put(user, "vault", "y", sender="nobody")
            assert self.get(user, "vault", "reader") == ["x", "y"]

    def test_jobs_of_the_gateway_are_the_owner(self) -> None:
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, "vault")
            transfer.put(conn, queue, [Message("x")])
            assert len(transfer.claim(conn, queue, "reader", 10)) == 1

    def test_the_consumer_must_be_an_agent_of_the_user(self) -> None:
        self.send("vault", "x")
        self.admin.enable_db_access("writer", "scott")
        with self.hub.session(user="scott") as session:
            for ways in SECURE_DEQUEUES.values():
                with refused(24093) as caught:
                    session.dequeue_array("vault", now(consumer_name="Reader", **ways), 10)
                assert "Reader" in str(caught.value)
            with refused(24093):
                session.dequeue("vault", DequeueOptions("nobody", wait=0.01))
            with refused(25231):
                session.dequeue("vault", now())
            self.admin.enable_db_access("reader", "scott")
            for way, ways in SECURE_DEQUEUES.items():
                self.send("vault", "x")
                options = now(consumer_name="Reader", navigation=Navigation.FIRST_MESSAGE, **ways)
                assert session.dequeue_array("vault", options, 1), way
                session.commit()

    def test_listening_needs_the_agent_and_every_queue(self) -> None:
        self.send("vault", "x")
        self.queue("orders")
        self.send("orders", "x")
        self.admin.enable_db_access("writer", "scott")
        with self.hub.session(user="scott") as session:
            for agents, number in (
                ([Agent("reader", "vault")], 24093),
                ([Agent(None, "orders")], 25205),
            ):
                with refused(number):
                    session.listen(agents, 0)
            self.admin.enable_db_access("reader", "scott")
            assert session.listen([Agent("reader", "vault")], 0).name == "reader"
            with refused(25205):  # although the first one has a message
                session.listen([Agent("reader", "vault"), Agent(None, "orders")], 0)
            self.admin.grant_queue_privilege("DEQUEUE", "orders", "scott")
            assert session.listen([Agent(None, "orders"), Agent("reader", "vault")], 0).address == "orders"

    def test_names_are_read_as_the_search_reads_them(self) -> None:
        self.admin.enable_db_access("writer", "scott")
        self.admin.enable_db_access("reader", "scott")
        for name in ('"reader"', " reader\t", ' "READER" '):
            self.send("vault", "x")
            with self.hub.session(user="scott") as session:
                assert session.listen([Agent(name, "vault")], 0).name == name
                assert session.dequeue("vault", now(consumer_name=name)).message.body == "x"
                session.commit()
        for name in ('"writer"', " Writer ", '\n"WRITER" '):
            for call in SECURE_ENQUEUES.values():
                with self.hub.session(user="scott") as session:
                    call(session, name)
                    session.commit()
                assert "x" in self.take("vault", "reader"), name

    def test_an_agent_with_quotes_in_its_name_is_nobody_else(self) -> None:
        self.admin.create_aq_agent('""reader""')
        self.admin.create_aq_agent('" reader "')
        self.send("vault", "x")
        with self.hub.session(user="scott") as session:
            for agent in ('""reader""', '" reader "'):
                self.admin.enable_db_access(agent, "scott")
                for name in ('"reader"', " reader ", ' "reader"'):
                    with refused(24093):
                        session.listen([Agent(name, "vault")], 0)
                    for ways in SECURE_DEQUEUES.values():
                        with refused(24093):
                            session.dequeue_array("vault", now(consumer_name=name, **ways), 10)
                    for call in SECURE_ENQUEUES.values():
                        with refused(24093):
                            call(session, name)
                with refused(24035):  # its own name, which nobody has subscribed
                    session.dequeue("vault", now(consumer_name=agent))
        assert self.take("vault", "reader") == ["x"]

    def test_msgid_opens_no_way_in(self) -> None:
        (identity,) = self.send("vault", "x")
        with self.hub.session(user="scott") as session, refused(24093):
            session.dequeue("vault", now(consumer_name="reader", msgid=identity))

    def test_the_applications_own_connection_opens_no_way_in(self) -> None:
        self.send("vault", "x")
        engine = sa.create_engine(self.application_url)
        with engine.begin() as conn:
            session = self.hub.session(conn, user="scott")
            for sender, number in ((None, 25224), ("writer", 24093)):
                with refused(number):
                    session.enqueue("vault", Message("y", sender_name=sender))
            with refused(24093):
                session.dequeue("vault", now(consumer_name="reader"))
        engine.dispose()
        assert self.take("vault", "reader") == ["x"]

    def test_ending_the_mapping_is_felt_at_once(self) -> None:
        self.admin.enable_db_access("writer", "scott")
        self.admin.enable_db_access("reader", "scott")
        with self.hub.session(user="scott") as session:
            session.enqueue("vault", Message("x", sender_name="writer"))
            session.commit()
            session.dequeue("vault", now(consumer_name="reader"))
            session.rollback()
            self.admin.disable_db_access("writer", "scott")
            self.admin.drop_aq_agent("reader")
            for call in (
                lambda: session.enqueue("vault", Message("x", sender_name="writer")),
                lambda: session.dequeue("vault", now(consumer_name="reader")),
            ):
                with refused(24093):
                    call()

    def test_queue_with_one_consumer_wants_some_agent_of_the_user(self) -> None:
        self.queue("box", table={"secure": True})
        self.send("box", "x")
        self.admin.grant_queue_privilege("ALL", "box", "scott")
        with self.hub.session(user="scott") as session:
            for options in (now(), now(dequeue_mode=DequeueMode.BROWSE)):
                with refused(24093):
                    session.dequeue("box", options)
            self.admin.enable_db_access("stranger", "scott")
            assert session.dequeue("box", now()).message.body == "x"
            with refused(25224):
                session.enqueue("box", Message("y"))

    def test_exception_queue_of_a_secure_table_is_secure(self) -> None:
        self.send("vault", "x")
        self.fail("vault", "reader", times=6)
        self.run_time()
        self.admin.start_queue("AQ$_vault_t_E", enqueue=False)
        self.admin.grant_queue_privilege("DEQUEUE", "AQ$_vault_t_E", "scott")
        with self.hub.session(user="scott") as session:
            with refused(24093):
                session.dequeue("AQ$_vault_t_E", now())
            self.admin.enable_db_access("reader", "scott")
            assert session.dequeue("AQ$_vault_t_E", now()).message.body == "x"

    def test_a_queue_that_is_not_secure_asks_for_no_agent(self) -> None:
        self.topic("reader", name="open")
        self.admin.grant_queue_privilege("ALL", "open", "scott")
        self.put("scott", "open", "x")
        assert self.get("scott", "open", "reader") == ["x"]

    def test_secure_is_shown(self) -> None:
        assert {each.name: each.secure for each in self.admin.queue_tables()} == {"vault_t": True}

    def test_recipient_lists_still_work_with_agents_as_consumers(self) -> None:
        self.admin.enable_db_access("writer", "scott")
        with self.hub.session(user="scott") as session:
            session.enqueue("vault", Message("x", sender_name="writer"), recipients=[Agent("writer")])
            session.commit()
            assert session.dequeue("vault", now(consumer_name="writer")).message.sender_name == "writer"
