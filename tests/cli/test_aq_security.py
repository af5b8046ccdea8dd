"""``mgw aq grant``, ``revoke``, ``privileges``, ``roles``, ``agents``; sections ``grants`` and ``aq_agents``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.config.lint import lint
from tests.cli.conftest import Mgw

FILE = """\
queues:
  ORDERS: {}
  VAULT: {multiple_consumers: true, secure: true}
aq_agents:
  till: {users: [scott, mary]}
grants:
  scott: {queues: {ORDERS: [enqueue, dequeue with grant option]}, system_privileges: dequeue_any with admin option}
  mary: {roles: [CLERKS]}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hub that holds FILE, made once."""
    mgw = Mgw(tmp_path_factory.mktemp("shop"))
    mgw.ok("apply", mgw.file(FILE))
    return mgw.folder


@pytest.fixture
def shop(mgw: Mgw, made: Path) -> Mgw:
    shutil.copytree(made, mgw.folder, dirs_exist_ok=True)
    return mgw


def held(mgw: Mgw) -> Any:
    return json.loads(mgw.ok("aq", "privileges", "--json"))


def queues(mgw: Mgw) -> list[tuple[Any, ...]]:
    return [(each["grantor"], each["grantee"], each["enqueue"], each["dequeue"]) for each in held(mgw)["queues"]]


def test_what_a_file_grants_is_granted(shop: Mgw) -> None:
    assert queues(shop) == [("MGW", "scott", 1, 2)]
    assert [(each["privilege"], each["admin_option"]) for each in held(shop)["system"]] == [("DEQUEUE_ANY", True)]
    assert [(each["role"], each["grantee"]) for each in held(shop)["roles"]] == [("CLERKS", "mary")]
    (agent,) = json.loads(shop.ok("aq", "agents", "list", "--json"))
    assert (agent["name"], agent["users"]) == ("till", ["mary", "scott"])
    assert shop.ok("apply", "gateway.yaml") == "nothing to do: 5 objects match the files\n"


def test_what_a_file_no_longer_grants_is_revoked(shop: Mgw) -> None:
    changed = FILE.replace("[enqueue, dequeue with grant option]", "dequeue").replace("[scott, mary]", "scott")
    changed = changed.replace("dequeue_any with admin option", "[enqueue_any]")
    lines = shop.ok("apply", shop.file(changed, "changed.yaml")).splitlines()
    assert "alter  AQ agent till (users: ['MARY', 'SCOTT'] -> ['SCOTT'])" in lines
    (grants,) = [line for line in lines if line.startswith("alter  grantee scott")]
    for part in ("ENQUEUE on ORDERS: granted -> none", "DEQUEUE on ORDERS: 'with option' -> granted"):
        assert part in grants
    assert queues(shop) == [("MGW", "scott", 0, 1)]
    assert [(each["privilege"], each["admin_option"]) for each in held(shop)["system"]] == [("ENQUEUE_ANY", False)]
    assert shop.ok("apply", "changed.yaml") == "nothing to do: 5 objects match the files\n"
    shop.ok("apply", "--prune", shop.file("queues: {ORDERS: {}}\n", "less.yaml"))
    assert held(shop) == {"queues": [], "system": [], "roles": [], "types": []}
    assert json.loads(shop.ok("aq", "agents", "list", "--json")) == []


def test_a_grant_that_was_passed_on_is_not_the_files(shop: Mgw) -> None:
    shop.ok("aq", "grant", "dequeue", "tiger", "--queue", "ORDERS", "--user", "scott")
    exported = shop.ok("export")
    assert "tiger" not in exported
    assert shop.ok("plan", "gateway.yaml").splitlines()[-1].startswith("nothing to do")
    shop.file(exported, "export.yaml")
    assert shop.ok("lint", "export.yaml") == "export.yaml: no problems found\n"
    assert shop.ok("apply", "export.yaml").startswith("nothing to do")
    assert ("scott", "tiger", 0, 1) in queues(shop)
    shop.ok("apply", shop.file(FILE.replace("dequeue with grant option", "dequeue"), "less.yaml"))
    assert queues(shop) == [("MGW", "scott", 1, 1)]


def test_file_takes_over_the_agent_of_a_subscriber(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {NEWS: {multiple_consumers: true, secure: true}}\n"))
    mgw.ok("aq", "subscribers", "add", "NEWS", "press")
    assert "aq_agents" not in mgw.ok("export")
    assert "subscriber" in mgw.ok("aq", "agents", "list")
    mgw.ok("apply", mgw.file("aq_agents: {Press: {users: mary}}\n", "agents.yaml"))
    assert "users:\n      - mary" in mgw.ok("export")


def test_lint_finds_what_would_be_refused(mgw: Mgw) -> None:
    for text, finding in (
        ("grants: {scott: {queues: {ORDRES: all}}}", "undefined-queue"),
        ("grants: {scott: {queues: {ORDERS: select}}}", "bad-value"),
        ("grants: {scott: {system_privileges: [enqueue]}}", "bad-value"),
        ("grants: {scott: {system: [enqueue_any]}}", "unknown-key"),
        ("grants: {PUBLIC: {queues: {ORDERS: all with grant option}}}", "refused"),
        ("grants: {scott: {roles: [PUBLIC]}}", "refused"),
        ("aq_agents: {till: {certificate_location: cn=till}}", "refused"),
        ("aq_agents: {till: {user: scott}}", "unknown-key"),
    ):
        path = mgw.folder / "gateway.yaml"
        path.write_text(f"queues: {{ORDERS: {{}}}}\n{text}\n", "utf-8")
        assert [each.name for each in lint([path], {})] == [finding], text


def test_a_default_exception_queue_may_be_granted(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {Q: {}}\ngrants: {scott: {queues: {AQ$_Q_TAB_E: dequeue}}}\n"))
    assert mgw.ok("apply", "gateway.yaml").startswith("nothing to do")


def test_commands_grant_and_revoke(shop: Mgw) -> None:
    assert shop.ok("aq", "grant", "all", "tiger", "-q", "orders", "--with-option") == (
        "tiger holds ALL on orders, and may pass it on\n"
    )
    shop.ok("aq", "grant", "manage_any", "tiger")
    shop.ok("aq", "roles", "grant", "AQ_ADMINISTRATOR_ROLE", "tiger")
    table = shop.ok("aq", "privileges")
    for word in ("tiger", "ENQUEUE +option", "MANAGE_ANY", "role AQ_ADMINISTRATOR_ROLE", "ORDERS"):
        assert word in table
    shop.ok("aq", "revoke", "enqueue", "tiger", "--queue", "ORDERS")
    assert ("MGW", "tiger", 0, 2) in queues(shop)
    shop.ok("aq", "revoke", "MANAGE_ANY", "tiger")
    shop.ok("aq", "roles", "revoke", "aq_administrator_role", "TIGER")
    assert "AQ_ADMINISTRATOR_ROLE" not in shop.ok("aq", "privileges")


def test_messages_are_put_and_taken_as_a_user(shop: Mgw) -> None:
    shop.ok("aq", "enqueue", "ORDERS", "from scott", "--user", "scott")
    assert shop.ok("aq", "browse", "orders", "--body", "--user", "SCOTT") == "from scott"
    hidden = shop("aq", "dequeue", "ORDERS", "--user", "mary")
    assert (hidden.code, hidden.out) == (1, "")
    assert "ORA-25205" in hidden.err
    shop.ok("aq", "grant", "all", "scott", "--queue", "VAULT")
    for words, number in (((), "ORA-25224"), (("--sender", "mint"), "ORA-24093")):
        refused = shop("aq", "enqueue", "VAULT", "gold", "--user", "scott", "--recipient", "till", *words)
        assert (refused.code, number in refused.err) == (1, True)
    shop.ok("aq", "enqueue", "VAULT", "gold", "--user", "scott", "--recipient", "till", "--sender", "till")
    assert shop.ok("aq", "dequeue", "VAULT", "--consumer", "till", "--body", "--user", "scott") == "gold"


def test_agents_are_managed(shop: Mgw) -> None:
    shop.ok("aq", "agents", "create", "web", "--http", "--certificate", "cn=web")
    shop.ok("aq", "agents", "enable", "web", "scott")
    agents = {each["name"]: each for each in json.loads(shop.ok("aq", "agents", "list", "--json"))}
    assert (agents["web"]["users"], agents["web"]["enable_http"]) == (["scott"], True)
    shop.ok("aq", "agents", "alter", "web")
    shop.ok("aq", "agents", "disable", "web", "scott")
    agents = {each["name"]: each for each in json.loads(shop.ok("aq", "agents", "list", "--json"))}
    assert (agents["web"]["users"], agents["web"]["enable_http"]) == ([], False)
    shop.ok("aq", "agents", "drop", "WEB")
    assert "web" not in shop.ok("aq", "agents", "list")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("grant enqueue scott", 2, "add --queue"),
        ("grant enqueue_any scott --queue ORDERS", 2, "leave --queue out"),
        ("grant enqeue scott", 1, "ORA-24066"),
        ("grant enqueue tiger --queue ORDERS --user scott", 1, "ORA-01031"),
        ("agents enable nobody scott", 1, "ORA-24088"),
        ("privileges --user PUBLIC", 1, "ORA-25200"),
    ],
)
def test_refusals_are_one_line(shop: Mgw, words: str, code: int, text: str) -> None:
    result = shop("aq", *words.split())
    assert (result.code, result.out) == (code, "")
    assert text in result.err
    assert len(result.err.splitlines()) == 1


QUOTED = """\
queue_tables:
  '"my mill"."a table"': {}
queues:
  '"my queue"': {comment: the first}
  '"a.b"': {}
  '"my mill"."two words"': {queue_table: '"my mill"."a table"'}
aq_agents:
  '"the till"': {users: ['"scott tiger"']}
grants:
  '"scott tiger"': {queues: {'"my queue"': all, 'mgw."A.B"': dequeue, '"my mill"."two words"': enqueue}}
"""


def test_names_that_need_quotes_work_from_files_and_commands(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(QUOTED))
    mgw.file(mgw.ok("export"), "export.yaml")
    for name in ("gateway.yaml", "export.yaml"):
        assert mgw.ok("apply", name, "--prune").startswith("nothing to do")
    mgw.ok("aq", "enqueue", '"MY queue"', "for mine")
    assert mgw.ok("aq", "dequeue", '"my queue"', "--body") == "for mine"
    mgw.ok("aq", "tables", "purge", '"MY MILL"."a table"', "--all")
    less = QUOTED.replace("all, ", "dequeue, ").replace("['", "[mary, '")
    mgw.ok("apply", mgw.file(less))
    assert [(each["queue"], each["grantee"], each["enqueue"], each["dequeue"]) for each in held(mgw)["queues"]] == [
        ('"a.b"', "scott tiger", 0, 1),
        ('"my queue"', "scott tiger", 0, 1),
        ('"my mill"."two words"', "scott tiger", 1, 0),
    ]
    (agent,) = json.loads(mgw.ok("aq", "agents", "list", "--json"))
    assert agent["users"] == ["mary", "scott tiger"]


def test_object_types_are_granted_in_files_and_by_command(mgw: Mgw) -> None:
    text = "object_types:\n  OE.P: {attributes: {x: NUMBER}}\ngrants:\n  scott: {object_types: oe.p}\n"
    file = mgw.file(text)
    assert mgw.ok("apply", file).splitlines()[-1] == "2 created"
    assert mgw.ok("apply", file).startswith("nothing to do")
    assert "object_types:\n      - OE.P" in mgw.ok("export")
    assert mgw.ok("aq", "grant", "execute", "mary", "--type", "OE.P") == "mary holds EXECUTE on OE.P\n"
    held = json.loads(mgw.ok("aq", "privileges", "--json"))["types"]
    assert [(each["type"], each["grantee"]) for each in held] == [("OE.P", "mary"), ("OE.P", "scott")]
    assert "EXECUTE" in mgw.ok("aq", "privileges")
    assert mgw.ok("aq", "revoke", "execute", "mary", "--type", "oe.p") == "revoked EXECUTE on oe.p from mary\n"
    for words in (("execute", "mary"), ("enqueue", "mary", "--type", "OE.P")):
        wrong = mgw("aq", "grant", *words)
        assert (wrong.code, "EXECUTE is the only privilege on object types" in wrong.err) == (2, True)
    revoked = mgw.ok("apply", mgw.file(text.replace("object_types: oe.p", "object_types: []")))
    assert "EXECUTE on OE.P: granted -> none" in revoked
    assert mgw("lint", mgw.file("grants: {scott: {object_types: [OE.NOWHERE]}}\n")).code == 78
