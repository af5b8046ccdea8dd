"""Transformations made of others: in configurations, in the hub, as subscribers and jobs see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.aq import DequeueOptions, Hub, QueueAdmin
from mgw.gateway.aq.errors import TransformationInvalid
from mgw.gateway.config.apply import apply_actions
from mgw.gateway.config.lint import check, lint
from mgw.gateway.config.plan import compare
from mgw.gateway.config.running import read_running
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import AdminError
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw

CHAIN = """\
transformations:
  flow: {steps: [wrap, double]}
  wrap: {set: {body: "'{}'", body.n: TO_NUMBER(tab.user_data)}}
  double: {set: {body.n: tab.user_data.n * 2}}
"""


def found(text: str, folder: Path) -> list[tuple[str, str]]:
    path = folder / "x.yaml"
    path.write_text(text, "utf-8")
    return [(finding.object, finding.message) for finding in lint([path], {})]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = open_hub(f"sqlite:///{tmp_path}/hub.db", create=True, durability="fast")
    yield hub
    hub.close()


def applied(hub: Hub, text: str, folder: Path) -> list[str]:
    path = folder / "x.yaml"
    path.write_text(text, "utf-8")
    document = check([path], {}).document
    steps = compare(document, read_running(hub), prune=True)
    return [str(each) for each in apply_actions(GatewayAdmin(hub), document, steps, force=True) if each.changes_hub]


def test_a_chain_may_come_before_its_steps_in_the_file(tmp_path: Path) -> None:
    assert found(CHAIN, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flow: {steps: [wrap]}", "its step wrap does not exist"),
        ("wrap: {steps: [base]}\n  base: {where: 1 = 1}\n  flow: {steps: [wrap]}", "its step wrap has steps itself"),
        (
            "wrap: {from_type: raw, where: 1 = 1}\n  flow: {steps: [wrap]}",
            "its step wrap takes RAW, transformation flow takes BASIC",
        ),
        (
            "wrap: {to_type: text, where: 1 = 1}\n  base: {where: 1 = 1}\n  flow: {steps: [wrap, base]}",
            "its step base takes BASIC, step wrap before it gives TEXT",
        ),
        (
            "wrap: {to_type: text, where: 1 = 1}\n  flow: {steps: [wrap]}",
            "its last step wrap gives TEXT, it gives BASIC",
        ),
    ],
)
def test_steps_that_do_not_fit_are_found(text: str, message: str, tmp_path: Path) -> None:
    assert found(f"transformations:\n  {text}\n", tmp_path) == [
        ("transformations flow", f"transformation flow is invalid: {message}")
    ]


MISFIT = """\
transformations:
  flow: {steps: [record, upper], to_type: BASIC}
  record: {function: mgw.transforms.builtin:xml_to_lcr}
  upper: {function: mgw.transforms.builtin:uppercase}
"""


def test_functions_that_declare_types_that_do_not_fit_are_found(mgw: Mgw, tmp_path: Path) -> None:
    message = (
        "transformation flow is invalid: the function of its step upper takes BASIC, and that of step record before it "
        "gives ANYDATA"
    )
    assert found(MISFIT, tmp_path) == [("transformations flow", message)]
    told = mgw("apply", mgw.file(MISFIT))
    assert told.code == 78
    assert "put a step between record and upper that converts" in " ".join(told.err.split())
    assert found(MISFIT.replace("xml_to_lcr", "lcr_to_xml").replace("uppercase", "xml_to_lcr"), tmp_path) == []


def test_an_error_in_a_step_is_told_once(tmp_path: Path) -> None:
    text = CHAIN.replace("tab.user_data.n * 2", "tab.user_data.n *")
    assert [object_ for object_, _ in found(text, tmp_path)] == ["transformations double"]


def test_a_chain_is_made_after_its_steps_and_removed_before_them(hub: Hub, tmp_path: Path) -> None:
    made = applied(hub, CHAIN, tmp_path)
    assert [line.split()[-1] for line in made] == ["wrap", "double", "flow"]
    assert applied(hub, CHAIN, tmp_path) == []
    assert applied(hub, "version: 1\n", tmp_path)[0].endswith(" flow")


def test_a_step_cannot_be_dropped_nor_altered_so_that_the_chain_breaks(hub: Hub, tmp_path: Path) -> None:
    applied(hub, CHAIN, tmp_path)
    admin = GatewayAdmin(hub)
    with pytest.raises(AdminError, match="chains use it: flow"):
        admin.drop_transformation("double")
    with pytest.raises(AdminError, match="its step double takes TEXT, step wrap before it gives BASIC"):
        admin.alter_transformation("double", from_type="TEXT")
    with pytest.raises(AdminError, match="its step double has steps itself"):
        admin.alter_transformation("double", definition={"steps": ["wrap"]})
    with pytest.raises(TransformationInvalid, match="its step nothing does not exist"):
        QueueAdmin(hub).create_transformation("other", "BASIC", "BASIC", {"steps": ["wrap", "nothing"]})


TYPED = """\
transformations:
  flow: {to_type: TYPE, steps: [wrap]}
  wrap: {to_type: TYPE, set: {body: "'{}'"}}
"""


def test_a_step_and_its_chain_change_their_type_together(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(TYPED.replace("TYPE", "text")))
    file = mgw.file(TYPED.replace("TYPE", "basic"))
    assert mgw.ok("apply", file).splitlines()[-1] == "2 altered"
    assert mgw.ok("apply", file).splitlines()[-1] == "nothing to do: 2 objects match the files"


@pytest.mark.parametrize("first", ["flow", "wrap"])
def test_a_step_becomes_a_chain_while_its_chain_drops_it(first: str, hub: Hub, tmp_path: Path) -> None:
    applied(hub, CHAIN, tmp_path)
    chains = {"flow": "  flow: {steps: [double]}\n", "wrap": "  wrap: {steps: [double]}\n"}
    both = chains.pop(first) + "".join(chains.values())
    made = applied(hub, f"transformations:\n{both}  double: {{set: {{body.n: tab.user_data.n * 2}}}}\n", tmp_path)
    assert sorted(line.split()[2] for line in made) == ["flow", "wrap"]


def test_a_filter_of_a_chain_is_compiled_where_it_is_made(hub: Hub, tmp_path: Path) -> None:
    applied(hub, CHAIN, tmp_path)
    bad = {"steps": ["wrap", "double"], "where": "tab.user_data >"}
    with pytest.raises(AdminError):
        GatewayAdmin(hub).create_transformation("other", "BASIC", "BASIC", bad)
    with pytest.raises(AdminError):
        GatewayAdmin(hub).alter_transformation("flow", definition=bad)
    with pytest.raises(TransformationInvalid):
        QueueAdmin(hub).create_transformation("other", "BASIC", "BASIC", bad)


def test_a_subscriber_gets_what_the_chain_makes_and_sees_a_changed_step_at_once(hub: Hub, tmp_path: Path) -> None:
    queue = "queues:\n  Q: {multiple_consumers: true, subscribers: {S: {transformation: flow}}}\n"
    applied(hub, CHAIN + queue, tmp_path)

    def taken(body: str) -> object:
        with hub.session() as session:
            session.enqueue("Q", Message(body=body))
            session.commit()
            return session.dequeue("Q", DequeueOptions(consumer_name="S", wait=0)).message.body

    assert taken("4") == '{"n":8}'
    GatewayAdmin(hub).alter_transformation("double", definition={"set": {"body.n": "tab.user_data.n * 3"}})
    assert taken("4") == '{"n":12}'
