"""Who changed what, written with the change or not at all, without secrets; and the way back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq import QueueAdmin, prune_audit
from mgw.gateway.config.apply import apply_actions, plan_for
from mgw.gateway.config.export import export_text
from mgw.gateway.config.lint import check_source
from mgw.gateway.config.load import load_text
from mgw.gateway.config.models import Document
from mgw.gateway.services.admin import Overtaken
from mgw.gateway.services.audit_words import told
from mgw.gateway.services.authors import acts, by_command, same_author
from mgw.gateway.services.definition_changes import Changes, Invalid
from mgw.gateway.services.generations import Generation, generation, generations, text_of, way_back
from mgw.gateway.services.happenings import Audited, audit
from mgw.gateway.services.users import Role, Users
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError, ConfigInvalid, HubError
from tests.conformance.link_suite import unique
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on

SECRET, OTHER = "tops3cret", "n3wer"
#: What is told of rights, of code, and of users of the web face.
RIGHTS = [
    "grant queue privilege Q (dequeue: 0, enqueue: 2, grantee: ann, grantor: MGW)",
    "grant queue privilege Q (dequeue: 0, enqueue: 1, grantee: bob, grantor: ann)",
    "revoke queue privilege Q (dequeue: 0, enqueue: 2, grantee: ann, grantor: MGW)",
    "revoke queue privilege Q (dequeue: 0, enqueue: 1, grantee: bob, grantor: ann)",
    "grant system privilege DEQUEUE_ANY (admin_option: False, grantee: ann)",
    "revoke system privilege DEQUEUE_ANY (admin_option: False, grantee: ann)",
    "grant role CLERK (grantee: ann)",
    "revoke role CLERK (grantee: ann)",
    "create aq agent desk",
    "alter aq agent desk (users: none -> ['ann'])",
    "drop aq agent desk",
    "create type ORD",
    "grant type privilege ORD (grantee: ann, grantor: MGW)",
    "revoke type privilege ORD (grantee: ann)",
    "drop type ORD",
    "allow module json",
    "set rule function parsed",
    "drop rule function parsed",
    "forbid module json",
    "create aq transformation T",
    "modify aq transformation T (transformation.0: source.user_data -> UPPER(source.user_data))",
    "drop aq transformation T",
    "create user Ada (role: ADMINISTRATOR)",
    "alter user Ada (password: *** -> ***)",
    "create token of user Ada (role: VIEWER, token: ID)",
    "remove token of user Ada (role: VIEWER, token: ID)",
    "remove user Ada (role: ADMINISTRATOR)",
]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gateway]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("audit"))
    with gateway_on(url) as gateway:
        yield gateway


def entries(gateway: Gateway, **asked: Any) -> list[Audited]:
    return audit(gateway.hub, 1000, **asked)[::-1]


def lines(gateway: Gateway, **asked: Any) -> list[str]:
    return [told(each) for each in entries(gateway, **asked)]


def test_definitions_are_kept_before_and_after_without_secrets(gateway: Gateway, broker: MemoryBroker) -> None:
    admin = gateway.admin
    admin.create_msgsystem_link("rabbit", "RABBITMQ", {"hostname": "a"}, username="u", password=SECRET)
    admin.alter_msgsystem_link("RABBIT", {"hostname": "b", "password": OTHER})
    admin.alter_msgsystem_link("rabbit", {"hostname": "b"})  # it is so already
    admin.create_agent("second", options={"workers": 2})
    admin.set_agent_option("second", "workers", 3)
    gateway.queue("Q")
    broker.queue("DST")
    admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    admin.register_foreign_queue("DST", "mem")
    admin.create_transformation("same", "RAW", "RAW", {"function": "builtin:identity"})
    admin.create_job("Out", "OUTBOUND", "Q", "DST@mem", enabled=False)
    admin.enable_job("out")
    admin.enable_job("out")
    admin.reset_job("out")
    assert admin.remove_job("out")
    admin.unregister_foreign_queue("dst", "MEM")
    admin.startup("second")
    admin.shutdown("second")
    assert [each for each in lines(gateway) if "queue Q" not in each and "queue table" not in each] == [
        "create link rabbit",
        "alter link rabbit (hostname: a -> b, password: *** -> ***)",
        "create agent second",
        "alter agent second (options.workers: 2 -> 3)",
        "create link mem",
        "create foreign queue DST@mem",
        "create transformation same",
        "create job Out",
        "enable job Out (enabled: False -> True)",
        "reset job Out",
        "remove job Out, which reads Q",
        "remove foreign queue DST@mem",
        "start agent second",
        "stop agent second",
    ]
    assert lines(gateway, name="OUT")[-1] == "remove job Out, which reads Q"
    rows = {each.action: each for each in entries(gateway, name="out")}
    assert rows["create job"].after_change == rows["remove job"].before_change | {"enabled": False}  # type: ignore[operator]
    assert rows["remove job"].after_change is None
    assert rows["reset job"].generation is None
    with gateway.hub.read() as conn:
        stored = str(conn.exec_driver_sql("SELECT * FROM aq_audit").all())
        version = conn.exec_driver_sql("SELECT version FROM gw_change").scalar_one()
    assert SECRET not in stored
    assert OTHER not in stored
    assert entries(gateway)[-1].version == version


def test_queues_are_kept_and_come_with_a_generation_that_made_them(gateway: Gateway) -> None:
    queues = gateway.queues
    queues.create_queue_table("T", multiple_consumers=True)
    queues.create_queue("Q", "T")
    queues.start_queue("Q")
    queues.start_queue("Q")
    queues.alter_queue("Q", max_retries=9)
    queues.add_subscriber("Q", "ann", rule="priority < 3")
    queues.alter_subscriber("Q", "ann", rule=None)
    queues.remove_subscriber("Q", "ann")
    queues.stop_queue("Q")
    queues.drop_queue("Q")
    queues.drop_queue_table("T")
    assert lines(gateway) == [
        "create queue table T",
        "create queue Q",
        "start queue Q (dequeue_enabled: False -> True, enqueue_enabled: False -> True)",
        "alter queue Q (max_retries: 5 -> 9)",
        "add subscriber ann of queue Q",
        "alter subscriber ann of queue Q (rule: priority < 3 -> none)",
        "remove subscriber ann of queue Q",
        "stop queue Q (dequeue_enabled: True -> False, enqueue_enabled: True -> False)",
        "drop queue Q",
        "drop queue table T",
    ]
    assert generations(gateway.hub, 10) == []
    Changes(gateway.hub).apply("queues: {A: {}, B: {}}")
    assert [each.result for each in generations(gateway.hub, 10)] == ["2 created"]
    assert {each.generation for each in entries(gateway)[10:]} == {entries(gateway)[10].id}


def test_who_may_what_is_kept_too(gateway: Gateway) -> None:
    queues, users = gateway.queues, Users(gateway.hub)
    gateway.queue("Q")
    begun = entries(gateway)[-1].id
    queues.grant_queue_privilege("ENQUEUE", "Q", "ann", grant_option=True)
    queues.grant_queue_privilege("ENQUEUE", "Q", "ann")  # she may already
    QueueAdmin(gateway.hub, user="ann").grant_queue_privilege("ENQUEUE", "Q", "bob")
    queues.revoke_queue_privilege("ENQUEUE", "Q", "ann")
    queues.grant_system_privilege("DEQUEUE_ANY", "ann")
    queues.revoke_system_privilege("DEQUEUE_ANY", "ann")
    for _ in range(2):
        queues.grant_role("CLERK", "ann")
    queues.revoke_role("CLERK", "ann")
    queues.create_aq_agent("desk", enable_http=True)
    queues.enable_db_access("desk", "ann")
    queues.drop_aq_agent("desk")
    queues.create_type("ORD", {"id": "NUMBER(10)"})
    queues.grant_type_privilege("ORD", "ann")
    queues.revoke_type_privilege("ORD", "ann")
    queues.drop_type("ORD")
    queues.allow_module("json")
    queues.set_rule_function("parsed", "json:loads")
    queues.drop_rule_function("parsed")
    queues.forbid_module("json")
    queues.create_transformation("T", "TEXT", "TEXT", "source.user_data")
    queues.modify_transformation("T", 0, "UPPER(source.user_data)")
    queues.drop_transformation("T")
    users.add("Ada", Role.ADMINISTRATOR, SECRET * 2, by="root@here")
    users.set_password("ada", OTHER * 3, by="Ada")
    token, secret = users.add_token("ada", role=Role.VIEWER, by="Ada")
    users.remove_token(token.id, by="Ada")
    users.remove("ada", by="root@here")
    kept = [each for each in entries(gateway) if each.id > begun]
    assert [told(each).replace(token.id, "ID") for each in kept] == RIGHTS
    assert {each.actor for each in kept if each.object == "Ada"} == {"Ada", "root@here"}
    assert [each.actor for each in kept if each.action == "grant queue privilege"][1] == "ann"
    assert all(each.generation is None for each in kept)
    with gateway.hub.read() as conn:
        stored = str(conn.exec_driver_sql("SELECT * FROM aq_audit").all())
    assert not any(each in stored for each in (SECRET, OTHER, secret.rpartition("_")[2]))


def test_a_change_that_does_not_happen_is_not_kept(gateway: Gateway) -> None:
    gateway.admin.create_msgsystem_link("a", "MEMORY", {"broker": "b"})
    with pytest.raises(AdminError, match="already exists"):
        gateway.admin.create_msgsystem_link("A", "MEMORY", {"broker": "b"})

    def fail_late() -> None:
        with gateway.admin.change("link", "a") as conn:
            conn.exec_driver_sql("DELETE FROM gw_link")
            conn.exec_driver_sql("DELETE FROM gw_nothing")

    with pytest.raises(HubError):
        fail_late()
    assert lines(gateway) == ["create link a"]


def test_an_entry_tells_who_it_was_and_how_they_came(gateway: Gateway) -> None:
    def make(name: str) -> None:
        gateway.admin.create_msgsystem_link(name, "MEMORY", {"broker": "b"})

    def ask() -> None:
        acts("ann")
        later = same_author(make, "c", name="later")
        later.start()
        later.join()

    make("a")
    with by_command():
        make("b")
    same_author(ask, name="request").start()
    deadline = time.monotonic() + 30
    while len(entries(gateway)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    account = entries(gateway)[0].actor
    assert "@" in account
    found = [(each.object, each.actor, each.through) for each in entries(gateway)]
    assert found == [("a", account, "python"), ("b", account, "cli"), ("c", "ann", "http")]


def test_old_entries_go(gateway: Gateway) -> None:
    for name in ("a", "b", "c"):
        gateway.admin.create_msgsystem_link(name, "MEMORY", {"broker": "b"})
    with gateway.hub.write() as conn:
        conn.exec_driver_sql("UPDATE aq_audit SET time = time - 1000 WHERE object <> 'c'")
        assert prune_audit(conn, before=time.time() - 500, limit=1) == 1
        assert prune_audit(conn, before=time.time() - 500, limit=500) == 1
    assert lines(gateway) == ["create link c"]


# --------------------------------------------------------------------------------------------------------- generations

FIRST = """
links:
  mem: {type: memory, timeout: 7}
  rabbit: {type: rabbitmq, hostname: localhost, username: gw, password: tops3cret}
foreign_queues: {in@mem: {domain: queue}}
queues: {Q: {}}
jobs: {carry: {type: inbound, source: in@mem, destination: Q, batch_size: 20, enabled: false}}
"""
SECOND = """
links:
  mem: {type: memory, timeout: 9}
  rabbit: {type: rabbitmq, hostname: localhost, username: gw, password: n3wer}
queues: {Q: {}}
"""


def latest(gateway: Gateway) -> Generation:
    return generations(gateway.hub, 1)[0]


def document(gateway: Gateway, text: str) -> Document:
    checked = check_source(load_text(text, "test"))
    assert checked.ok, checked.findings
    return checked.document


def test_an_apply_is_one_generation_and_the_way_back_is_another(gateway: Gateway) -> None:
    changes = Changes(gateway.hub)
    changes.apply(FIRST)
    first, then = latest(gateway), export_text(gateway.hub)
    assert (first.number, first.result) == (entries(gateway)[0].id, "5 created")
    changes.apply(SECOND, prune=True)
    second = latest(gateway)
    assert second.result == "2 altered, 2 removed"
    gateway.admin.alter_msgsystem_link("mem", comment="mine")
    assert [each.number for each in generations(gateway.hub, 10)][1:] == [second.number, first.number]
    assert generations(gateway.hub, 10, before=second.number) == [first] == [generation(gateway.hub, first.number)]
    assert text_of(gateway.hub, first.number) == then
    way = way_back(gateway.hub, first.number)
    assert [str(action) for action in way.actions if action.changes_hub] == [
        "alter  link mem (timeout: 9.0 -> 7.0, comment: mine -> none)",
        "create foreign queue in@mem",
        "create job carry",
    ]
    assert all(way.go(gateway.hub))
    assert export_text(gateway.hub) == then
    assert way_back(gateway.hub, first.number).is_empty
    assert (latest(gateway).what.split(":")[0], latest(gateway).result) == (
        f"roll back to generation {first.number}",
        "2 created, 1 altered",
    )
    link = gateway.admin.get_link("rabbit")
    assert link is not None
    assert link.password == OTHER  # which is in force at the broker, whatever was then
    assert text_of(gateway.hub, second.number).count("carry") == 0


def test_a_secret_that_is_gone_has_to_be_given(gateway: Gateway) -> None:
    gateway.admin.create_msgsystem_link("rabbit", "RABBITMQ", {"hostname": "localhost"}, username="u", password=SECRET)
    number = latest(gateway).number
    gateway.admin.remove_msgsystem_link("rabbit")
    with pytest.raises((Invalid, ConfigInvalid), match="RABBIT_PASSWORD"):
        way_back(gateway.hub, number)
    assert all(way_back(gateway.hub, number, {"RABBIT_PASSWORD": OTHER}).go(gateway.hub))
    link = gateway.admin.get_link("rabbit")
    assert link is not None
    assert link.password == OTHER


def test_what_was_interrupted_or_refused_says_so(gateway: Gateway) -> None:
    wanted = document(gateway, FIRST)
    steps = apply_actions(gateway.admin, wanted, plan_for(gateway.hub, wanted))
    assert next(each for each in steps if each.changes_hub)
    assert latest(gateway).result == "interrupted, or under way"
    steps = apply_actions(gateway.admin, wanted, plan_for(gateway.hub, wanted))
    assert next(each for each in steps if each.changes_hub)
    gateway.admin.create_msgsystem_link("other", "MEMORY", {})
    gateway.admin.register_foreign_queue("in", "mem", "elsewhere", domain="QUEUE")
    with pytest.raises(Overtaken, match="exists now"):
        list(steps)
    refused = generations(gateway.hub, 3)[-1]
    assert refused.result.startswith("failed at foreign queue in@mem: foreign queue in@mem exists now")
    assert [told(each) for each in refused.changes] == ["create link rabbit"]
