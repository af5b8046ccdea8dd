"""Modules and rule functions that the hub keeps: what every process that opens it may call."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.conditions.rules import register_function, unregister_function
from mgw.gateway.aq.errors import PrivilegeMissing, RuleInvalid, TransformationInvalid
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import NO_WAIT, DequeueOptions, EnqueueOptions
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase


class StoredFunctionSuite(HubCase):
    """Every test works with a module that this process can import."""

    @pytest.fixture(autouse=True)
    def module(self) -> Iterator[ModuleType]:
        module = ModuleType("stored_rules")
        module.calls = []  # type: ignore[attr-defined]

        def first_word(payload: str) -> str:
            module.calls.append(payload)  # type: ignore[attr-defined]
            return payload.split(maxsplit=1)[0]

        def last_word(payload: str) -> str:
            return payload.rsplit(maxsplit=1)[-1]

        def shout(message: Message) -> Message:
            from dataclasses import replace

            return replace(message, body=str(message.body).upper())

        for function in (first_word, last_word, shout):
            setattr(module, function.__name__, function)
        sys.modules[module.__name__] = module
        yield module
        del sys.modules[module.__name__]

    def allowed(self) -> None:
        self.admin.allow_module("stored_rules")
        self.admin.set_rule_function("hr.kind", "stored_rules:first_word")

    def news(self, rule: str = "hr.kind(tab.user_data) = 'press'") -> None:
        self.topic("all", name="news")
        self.admin.add_subscriber("news", "press", rule=rule)

    def put(self, queue: str, *bodies: str, transformation: str | None = None) -> None:
        with self.hub.session() as session:
            for body in bodies:
                session.enqueue(queue, Message(body), EnqueueOptions(transformation=transformation))
            session.commit()

    def test_every_hub_handle_routes_with_them_and_none_is_registered_in_the_process(self) -> None:
        self.allowed()
        self.news()
        with Hub.open(self.url) as other, other.session() as session:
            session.enqueue_array("news", [Message("press one"), Message("note two")])
            session.commit()
        assert self.take("news", "press") == ["press one"]
        from mgw.transforms.language.functions import functions

        assert "HR.KIND" not in functions()

    def test_dequeue_conditions_and_transformations_call_them(self) -> None:
        self.allowed()
        self.queue("plain")
        self.put("plain", "a x", "b y", "a z")
        self.admin.create_transformation("t", "BASIC", "BASIC", {"set": {"correlation": "hr.kind(tab.user_data)"}})
        with self.hub.session() as session:
            options = DequeueOptions(wait=NO_WAIT, deq_condition="hr.kind(tab.user_data) = 'a'", transformation="t")
            found = session.dequeue_array("plain", options, 10)
            session.commit()
        assert [(each.message.body, each.message.correlation) for each in found] == [("a x", "a"), ("a z", "a")]

    def test_another_function_of_that_name_is_in_force_at_once_everywhere(self) -> None:
        self.allowed()
        self.news()
        self.admin.create_transformation("t", "BASIC", "BASIC", {"set": {"body": "hr.kind(tab.user_data)"}})
        with Hub.open(self.url) as other, other.session() as session:
            for function, expected in (("first_word", ["press note"]), ("last_word", ["note press"])):
                self.admin.set_rule_function("HR.KIND", f"stored_rules:{function}")
                session.enqueue_array("news", [Message("press note"), Message("note press")])
                session.commit()
                assert self.take("news", "press") == expected
            session.enqueue("news", Message("one two"), EnqueueOptions(transformation="t"))
            session.commit()
            assert self.take("news", "all")[-1] == "two"

    def test_a_hub_has_its_own_functions(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.allowed()
        self.news()
        with Hub.open(f"sqlite:///{tmp_path_factory.mktemp('other')}/hub.db", create=True) as other:
            admin = QueueAdmin(other)
            admin.create_queue_table("t", "BASIC", multiple_consumers=True)
            admin.create_queue("news", "t")
            with pytest.raises(RuleInvalid, match=r"there is no function hr\.kind"):
                admin.add_subscriber("news", "press", rule="hr.kind(tab.user_data) = 'press'")

    def test_what_the_process_registers_itself_wins(self) -> None:
        self.allowed()
        self.news()
        register_function("hr.kind", lambda _: "press")
        try:
            self.put("news", "note two")
            assert self.take("news", "press") == ["note two"]
        finally:
            unregister_function("hr.kind")

    def test_a_module_that_cannot_be_imported_is_named_and_stops_only_what_needs_it(self, module: ModuleType) -> None:
        self.allowed()
        self.news()
        self.queue("plain")
        del sys.modules["stored_rules"]
        unregister_function("nothing")  # has compiled rules forgotten, as in a process that has just begun
        try:
            with pytest.raises(RuleInvalid) as refused:
                self.put("news", "press one")
            for word in ("stored_rules", "ModuleNotFoundError", "install the module"):
                assert word in str(refused.value)
            self.put("plain", "untouched")
        finally:
            sys.modules["stored_rules"] = module
        self.put("news", "press one")  # it is tried again
        assert self.take("news", "press") == ["press one"]

    def test_nothing_is_imported_until_something_calls_it(self, module: ModuleType) -> None:
        self.allowed()
        self.queue("plain")
        del sys.modules["stored_rules"]
        try:
            with Hub.open(self.url) as other, other.session() as session:
                session.enqueue("plain", Message("x"))
                session.commit()
            assert "stored_rules" not in sys.modules
        finally:
            sys.modules["stored_rules"] = module

    def test_transformations_call_functions_of_modules_that_the_hub_allows(self) -> None:
        self.queue("plain")
        self.admin.create_transformation("loud", "BASIC", "BASIC", "stored_rules:shout")
        with pytest.raises(TransformationInvalid, match="module stored_rules is not allowed"):
            self.put("plain", "x", transformation="loud")
        self.admin.allow_module("stored_rules")
        self.put("plain", "x", transformation="loud")
        with self.hub.session() as session:
            assert session.dequeue("plain", DequeueOptions(wait=NO_WAIT)).message.body == "X"
            session.commit()
        with pytest.raises(AqError, match=r"cannot be forbidden.*it is used by transformation"):
            self.admin.forbid_module("stored_rules")
        self.admin.drop_transformation("loud")
        self.admin.forbid_module("stored_rules")
        assert self.admin.modules() == []

    @pytest.mark.parametrize(
        ("name", "function", "reason"),
        [
            ("hr.kind", "os:getcwd", "module os is not allowed"),
            ("hr.kind", "stored_rules:nothing", "has no function nothing"),
            ("hr.kind", "stored_rules", "is not of the form package.module:function"),
            ("UPPER", "stored_rules:first_word", "a name of the language itself"),
            ("a b", "stored_rules:first_word", "is not a name"),
        ],
    )
    def test_what_rules_could_not_call_is_refused(self, name: str, function: str, reason: str) -> None:
        self.admin.allow_module("stored_rules")
        with pytest.raises(AqError, match=reason):
            self.admin.set_rule_function(name, function)
        assert self.admin.rule_functions() == []

    @pytest.mark.parametrize("name", ["", "a b", "os; import x", "../x", ".x", "x."])
    def test_what_is_no_name_of_a_module_is_refused(self, name: str) -> None:
        with pytest.raises(AqError, match="cannot be allowed"):
            self.admin.allow_module(name)

    def test_only_administrators_may_change_them(self) -> None:
        self.allowed()
        self.admin.grant_system_privilege("MANAGE_ANY", "mary")
        mary = QueueAdmin(self.hub, user="mary")
        for call in (
            lambda: mary.allow_module("os"),
            lambda: mary.forbid_module("stored_rules"),
            lambda: mary.set_rule_function("hr.kind", "stored_rules:last_word"),
            lambda: mary.drop_rule_function("hr.kind"),
        ):
            with pytest.raises(PrivilegeMissing, match="AQ_ADMINISTRATOR_ROLE"):
                call()
        assert [each.function for each in self.admin.rule_functions()] == ["stored_rules:first_word"]
        self.admin.grant_role("AQ_ADMINISTRATOR_ROLE", "mary")
        mary.drop_rule_function("hr.kind")
        assert self.admin.rule_functions() == []

    def test_what_is_not_there_cannot_be_taken_away(self) -> None:
        self.allowed()
        with pytest.raises(AqError, match=r"rule function hr.x does not exist.*hr.kind"):
            self.admin.drop_rule_function("hr.x")
        with pytest.raises(AqError, match=r"module x is not allowed.*stored_rules"):
            self.admin.forbid_module("x")
        with pytest.raises(AqError, match=r"it is used by function hr.kind"):
            self.admin.forbid_module("stored_rules")
