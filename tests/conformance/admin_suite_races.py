"""Two who change the same objects by a plan in the same moment: imported by one test module per database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mgw.gateway.aq import Hub
from mgw.gateway.config.apply import apply_actions, plan_for
from mgw.gateway.config.models import Document
from mgw.gateway.services.admin import GatewayAdmin, Overtaken
from mgw.gateway.services.definition_changes import Changes
from mgw.gateway.services.expected import Expected, Unexpected
from mgw.gateway.services.users import Role, UserRow, Users
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import AdminError, GatewayError

BEFORE: dict[str, Any] = {
    "agents": {"second": {"max_threads": 3}},
    "links": {"mem": {"type": "memory", "max_connections": 7}},
    "object_types": {"LINE": {"attributes": {"X": "NUMBER"}}},
    "queue_tables": {"SHARED": {"comment": "as it was"}},
    "queues": {
        "ONE": {"multiple_consumers": True, "subscribers": {"first": {}}},
        "TWO": {"queue_table": "SHARED", "max_retries": 3},
        "THREE": {"queue_table": "SHARED"},
    },
    "aq_agents": {"hand": {"users": ["ada"]}},
    "grants": {"otto": {"system_privileges": ["ENQUEUE_ANY"]}},
}
#: What each of two wants of every object: their changes are of different settings, or of parts of one.
MINE: dict[str, Any] = {
    "agents": {"second": {"max_threads": 3, "comment": "mine", "options": {"workers": "2"}}, "new": {"max_threads": 4}},
    "links": {
        "mem": {"type": "memory", "max_connections": 7, "comment": "mine"},
        "new": {"type": "memory", "max_connections": 1},
    },
    "queue_tables": {"SHARED": {"comment": "mine"}},
    "queues": {
        "ONE": {"subscribers": {"first": {}, "mine": {}}, "comment": "mine", "multiple_consumers": True},
        "TWO": {"queue_table": "SHARED", "comment": "mine"},
        "NEW": {"comment": "mine"},
    },
    "aq_agents": {"hand": {"users": ["mine"]}},
    "grants": {"otto": {"system_privileges": ["ENQUEUE_ANY", "DEQUEUE_ANY"]}, "new": {"roles": ["AQ_USER_ROLE"]}},
}
OTHER: dict[str, Any] = {
    "agents": {"second": {"max_threads": 9}, "new": {"max_threads": 5}},
    "links": {"mem": {"type": "memory", "max_connections": 9}, "new": {"type": "memory", "max_connections": 2}},
    "queue_tables": {"SHARED": {"comment": "another's"}},
    "queues": {
        "ONE": {"subscribers": {"first": {}, "other": {}}, "multiple_consumers": True},
        "TWO": {"queue_table": "SHARED", "max_retries": 9},
        "NEW": {"max_retries": 9},
    },
    "aq_agents": {"hand": {"users": ["ada"], "enable_http": True}},
    "grants": {"otto": {"system_privileges": ["MANAGE_ANY"]}, "new": {"system_privileges": ["MANAGE_ANY"]}},
}


def _document(values: dict[str, Any]) -> Document:
    return Document.model_validate(values)


@pytest.fixture
def two(hub_url: str) -> Iterator[tuple[Hub, Hub]]:
    """The same hub twice, as two processes have it."""
    with open_hub(hub_url, create=True) as one, open_hub(hub_url) as other:
        Changes(one).apply(BEFORE)
        yield one, other


def test_a_step_is_refused_where_its_object_was_changed_since_the_plan(two: tuple[Hub, Hub]) -> None:
    one, other = two
    for section, name in [(each, name) for each, objects in MINE.items() for name in objects]:
        mine, others = _document({section: {name: MINE[section][name]}}), {section: {name: OTHER[section][name]}}
        plan = plan_for(one, mine)
        Changes(other).apply(others)
        with pytest.raises(Overtaken, match="exists now" if name.upper() == "NEW" else "was changed") as refusal:
            list(apply_actions(GatewayAdmin(one), mine, plan))
        assert "plan again" in refusal.value.cure
        left = [action for action in plan_for(one, _document(others)) if action.changes_hub]
        assert not left, "what the other did stays"


def test_a_removal_is_refused_where_its_object_was_changed_since_the_plan(two: tuple[Hub, Hub]) -> None:
    one, other = two
    aq = GatewayAdmin(other).aq
    plan = plan_for(one, Document(), prune=True)
    aq.drop_type("LINE")
    aq.create_type("LINE", {"X": "NUMBER", "Y": "NUMBER"})
    for action in plan:
        if (action.section, action.name) == ("object_types", "MGW.LINE") or action.name == "LINE":
            with pytest.raises(Overtaken, match="object type"):
                list(apply_actions(GatewayAdmin(one), Document(), [action]))
            break
    else:
        pytest.fail(str(plan))
    found = aq.object_type("LINE")
    assert found is not None
    assert len(found.attributes) == 2


def test_two_who_do_the_same_are_both_served(two: tuple[Hub, Hub]) -> None:
    one, other = two
    wanted = {name: MINE[name] for name in ("agents", "links", "queues", "aq_agents", "grants")}
    plan = plan_for(one, _document(wanted))
    Changes(other).apply(wanted)
    done = list(apply_actions(GatewayAdmin(one), _document(wanted), plan))
    assert not any(action.changes_hub for action in done)


def test_a_table_and_the_queue_it_was_made_for_change_in_one_plan(two: tuple[Hub, Hub]) -> None:
    """What a step of the same plan changes is nobody else's change."""
    one, _ = two
    wanted = _document(
        {
            "queue_tables": {"ONE_TAB": {"multiple_consumers": True, "primary_instance": 1}},
            "queues": {"ONE": {"queue_table": "ONE_TAB", "comment": "new", "enqueue": False}},
        }
    )
    list(apply_actions(GatewayAdmin(one), wanted, plan_for(one, wanted)))
    assert not [action for action in plan_for(one, wanted) if action.changes_hub]
    list(apply_actions(GatewayAdmin(one), Document(), plan_for(one, Document(), prune=True)))


def test_of_many_changes_of_two_at_once_none_is_lost(two: tuple[Hub, Hub]) -> None:
    problems: list[GatewayError] = []
    start = threading.Barrier(2)

    def add(hub: Hub, own: str) -> None:
        changes = Changes(hub)
        try:
            for number in range(6):
                start.wait(60)
                while True:
                    try:
                        changes.patch("queues", "ONE", {"subscribers": {f"{own}{number}": {}}}, Expected())
                        break
                    except Overtaken:  # more than once in a row: a caller looks again
                        continue
        except GatewayError as error:
            problems.append(error)
            start.abort()

    threads = [threading.Thread(target=add, args=(hub, own)) for hub, own in zip(two, ("a", "b"), strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert not problems
    names = {each.name.lower() for each in GatewayAdmin(two[0]).aq.queue_subscribers("ONE") if each.name}
    assert names == {"first"} | {f"{own}{number}" for own in "ab" for number in range(6)}


def test_if_match_holds_until_the_change_is_made(two: tuple[Hub, Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else comes between the comparison with If-Match and the transaction of the change."""
    one, other = two
    changes = Changes(one)
    tag = changes.put("grants", "otto", BEFORE["grants"]["otto"], Expected(), dry_run=True).found.tag  # type: ignore[union-attr]
    check = Expected.check
    calls = []

    def slow(self: Expected, *args: Any) -> None:
        check(self, *args)
        if self.one_of is not None and not calls:
            calls.append(1)
            Changes(other).put("grants", "otto", OTHER["grants"]["otto"], Expected())

    monkeypatch.setattr(Expected, "check", slow)
    with pytest.raises(Unexpected):
        changes.put("grants", "otto", MINE["grants"]["otto"], Expected(one_of=frozenset((tag,))))
    held = GatewayAdmin(one).aq.system_privileges()
    assert [(each.grantee, each.privilege) for each in held] == [("otto", "MANAGE_ANY")]


def test_of_two_administrators_who_step_back_at_once_one_stays(
    two: tuple[Hub, Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes between the first one's look for another administrator and the end of its transaction."""
    one, other = (Users(hub) for hub in two)
    for name in ("ada", "bob"):
        one.add(name, Role.ADMINISTRATOR, None, by="test")
    one.add("eve", Role.VIEWER, None, by="test")
    steps: tuple[Callable[[Users, str], Any], ...] = (
        lambda users, name: users.set_role(name, Role.VIEWER, by=name),
        lambda users, name: users.remove(name, by=name),
    )
    keep = Users._keep_an_administrator
    for step in steps:
        refused: list[str] = []
        late: list[threading.Thread] = []

        def bob(step: Callable[[Users, str], Any] = step, refused: list[str] = refused) -> None:
            try:
                step(other, "bob")
            except AdminError as error:
                refused.append(error.what)

        def slow(
            conn: Any,
            gone: UserRow,
            late: list[threading.Thread] = late,
            bob: Callable[[], None] = bob,
        ) -> None:
            keep(conn, gone)
            if not late:
                late.append(threading.Thread(target=bob))
                late[0].start()
                late[0].join(1)  # it waits for this transaction

        monkeypatch.setattr(Users, "_keep_an_administrator", staticmethod(slow))
        step(one, "ada")
        late[0].join(60)
        assert refused == ["user bob must stay an administrator"]
        assert one.get("bob").role is Role.ADMINISTRATOR
        if step is steps[0]:
            one.set_role("ada", Role.ADMINISTRATOR, by="test")
