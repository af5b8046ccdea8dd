"""A setting that is described, and nothing else, is there in every face: a probe for each kind of object."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from mgw.gateway.aq import options as aq_options
from mgw.gateway.cli.main import execute
from mgw.gateway.cli.reference import PAGES
from mgw.gateway.config.schema import json_schema
from mgw.gateway.definitions import agent_options, job_options
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.links.contract import Field, LinkSpec
from mgw.links.memory import spec as memory_spec
from mgw.transforms.errors import GatewayError

PROBES = ("probe_table", "probe_subscriber", "probe_agent", "probe_job", "probe_link", "probe_option", "probe_queue")

CONFIGURATION = """\
agents:
  night: {options: {probe_agent: 3}}
links:
  mem: {type: memory, probe_link: 3, options: {probe_option: 3}}
foreign_queues:
  far@mem: {options: {probe_queue: 3}}
queue_tables:
  T: {multiple_consumers: true, options: {probe_table: 3}}
queues:
  Q: {queue_table: T, subscribers: {me: {options: {probe_subscriber: 3}}}}
jobs:
  out: {type: outbound, source: Q, destination: far@mem, options: {probe_job: 3}}
"""

Run = Callable[..., str]


def _field(name: str) -> Field:
    return Field(name, f"What {name} is for.", int, None, dynamic=True, minimum=2, maximum=9)


def _everywhere(monkeypatch: pytest.MonkeyPatch, old: object, new: object) -> None:
    """Put a description in the place of another, wherever modules have imported it."""
    for module in [each for name, each in sys.modules.items() if name.startswith("mgw.")]:
        for name, value in list(vars(module).items()):
            if value is old:
                monkeypatch.setattr(module, name, new)


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is added to the description of each kind of object, and nowhere else."""
    for options, name in (
        (aq_options.QUEUE_TABLE_OPTIONS, "probe_table"),
        (aq_options.SUBSCRIBER_OPTIONS, "probe_subscriber"),
        (agent_options.AGENT_OPTIONS, "probe_agent"),
        (job_options.JOB_OPTIONS, "probe_job"),
    ):
        _everywhere(monkeypatch, options, (*options, _field(name)))
    monkeypatch.setitem(agent_options._FIELDS, "probe_agent", _field("probe_agent"))
    spec: LinkSpec = memory_spec.SPEC
    changed = replace(
        spec,
        attributes=(*spec.attributes, _field("probe_link")),
        options=(*spec.options, _field("probe_option")),
        queue_options=(*spec.queue_options, _field("probe_queue")),
    )
    _everywhere(monkeypatch, spec, changed)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``mgw`` in this process and a folder of its own: the code, then all that it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGW_HUB", f"sqlite:///{tmp_path}/hub.db")

    def _run(*words: str, text: str | None = None) -> str:
        if text is not None:
            (tmp_path / words[-1]).write_text(text, "utf-8")
        shown = io.StringIO()
        with redirect_stdout(shown), redirect_stderr(shown):
            code = execute(list(words))
        return f"{code}\n{shown.getvalue()}"

    return _run


def test_file_plan_export_and_commands_know_it(run: Run) -> None:
    assert run("lint", "a.yaml", text=CONFIGURATION) == "0\na.yaml: no problems found\n"
    assert run("apply", "a.yaml").startswith("0\n")
    assert run("plan", "a.yaml").startswith("0\nnothing to do")
    exported = run("export").partition("\n")[2]
    assert [name for name in PROBES if f"{name}: " not in exported] == []
    assert run("plan", "b.yaml", text=exported).startswith("0\nnothing to do")
    other = CONFIGURATION.replace(": 3", ": 4").replace("probe_queue: 4", "probe_queue: 3")  # which nothing changes
    changed = run("plan", "c.yaml", text=other)
    assert [name for name in PROBES if name not in changed] == ["probe_queue"]
    assert run("apply", "c.yaml").startswith("0\n")
    assert run("plan", "c.yaml").startswith("0\nnothing to do")
    for words in (
        ("aq", "tables", "alter", "T", "--option", "probe_table=5"),
        ("aq", "subscribers", "alter", "Q", "me", "--option", "probe_subscriber=5"),
        ("agents", "alter", "night", "--option", "probe_agent=5"),
        ("links", "alter", "mem", "--set", "probe_link=5", "--option", "probe_option=5"),
        ("jobs", "alter", "out", "--option", "probe_job=5"),
        ("agents", "create", "late", "--option", "probe_agent=5"),
        ("queues", "register", "further@mem", "--option", "probe_queue=5"),
    ):
        assert run(*words).startswith("0\n"), words
        refused = run(*(word.replace("=5", "=1") for word in words))
        assert "the smallest value is 2" in refused, words
    exported = run("export").partition("\n")[2].replace("'", "")
    assert [name for name in PROBES if f"{name}: 5" not in exported] == []
    assert exported.count("probe_agent: 5") == 2  # of the altered one and of the created one


def test_linter_and_schema_refuse_what_it_cannot_be(run: Run) -> None:
    validator = Draft202012Validator(json_schema())
    right = YAML(typ="safe").load(CONFIGURATION)
    assert [error.message for error in validator.iter_errors(right)] == []
    for name in PROBES:
        wrong = CONFIGURATION.replace(f"{name}: 3", f"{name}: 1")
        assert f"{name} cannot be '1'" in run("lint", "w.yaml", text=wrong), name
        assert not validator.is_valid(YAML(typ="safe").load(wrong)), name
        assert not validator.is_valid(YAML(typ="safe").load(CONFIGURATION.replace(name, f"{name}s"))), name


def test_procedures_of_python_refuse_what_it_cannot_be(run: Run, tmp_path: Path) -> None:
    run("apply", "a.yaml", text=CONFIGURATION)
    with closing(open_hub(f"sqlite:///{tmp_path}/hub.db")) as hub:
        admin = GatewayAdmin(hub)
        calls: tuple[Callable[[int], Any], ...] = (
            lambda value: admin.set_agent_option("night", "probe_agent", str(value)),
            lambda value: admin.alter_msgsystem_link("mem", {"probe_link": value}),
            lambda value: admin.alter_msgsystem_link("mem", options={"probe_option": value}),
            lambda value: admin.alter_job("out", options={"probe_job": value}),
            lambda value: admin.register_foreign_queue(f"q{value}", "mem", options={"probe_queue": value}),
        )
        for call in calls:
            call(9)
            with pytest.raises(GatewayError, match="the largest value is 9"):
                call(10)


def test_reference_pages_explain_it() -> None:
    pages = PAGES["configuration.md"]() + PAGES["links.md"]()
    for name in PROBES:
        change = "never" if name == "probe_queue" else "at once"  # a foreign queue that is registered stays as it is
        assert f"| `{name}` | whole number, 2..9 |  | {change} | What {name} is for. |" in pages


def test_json_shows_it_as_a_number(run: Run) -> None:
    run("apply", "a.yaml", text=CONFIGURATION)
    shown = [
        run(*words, "--json").partition("\n")[2]
        for words in (
            ("aq", "tables", "list"),
            ("aq", "subscribers", "list"),
            ("agents", "show", "night"),
            ("jobs", "show", "out"),
            ("links", "show", "mem"),
            ("queues", "show", "far@mem"),
        )
    ]
    assert all(json.loads(each) for each in shown)
    together = "".join(shown)
    assert [name for name in PROBES if f'"{name}": 3' not in together] == []
