"""A link that another distribution brings is a link like any other: found by its entry point, described by its SPEC."""

from __future__ import annotations

import io
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from mgw.gateway.cli.main import execute
from mgw.gateway.cli.reference import PAGES
from tests.cli.conftest import ROOT, Mgw, Result
from tests.support.spool import PACKAGE, install_spool

CONFIGURATION = (PACKAGE / "gateway.yaml").read_text("utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the example package is installed."""
    return install_spool(tmp_path_factory.mktemp("spool_package"))


class Here(Mgw):
    """``mgw`` in this process: a command costs no start."""

    def __call__(self, *words: str, stdin: str | bytes = b"", environ: Mapping[str, str] | None = None) -> Result:
        assert not stdin
        assert not environ
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = execute(list(words))
        assert "Traceback" not in err.getvalue()
        return Result(code, out.getvalue(), err.getvalue())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """``mgw`` in a folder of its own, where packages may be put into the folder ``site``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGW_HUB", f"sqlite:///{tmp_path}/hub.db")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("SPOOL", "/spool")
    return Here(tmp_path)


@pytest.fixture
def spool(here: Here, site: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """``mgw`` where the package is installed, and a spool with two queues."""
    queues = here.folder / "spool"
    for name in ("orders", "billing"):
        (queues / name).mkdir(parents=True)
    (queues / ".spool").touch()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("SPOOL", str(queues))
    here.environ |= {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "SPOOL": str(queues), "PYTHONWARNINGS": "default"}
    return here


def _until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def test_without_the_package_its_type_is_unknown(here: Here) -> None:
    result = here("lint", here.file(CONFIGURATION))
    assert result.code == 78
    assert "error unknown-link-type: link type 'spool' is unknown" in result.out


def test_configuration_is_checked_by_the_description_of_the_package(spool: Here) -> None:
    assert spool.ok("lint", spool.file(CONFIGURATION)) == "gateway.yaml: no problems found\n"
    wrong = CONFIGURATION.replace("type: spool,", "type: spool, tiemout: 3,").replace("plain", "shiny")
    result = spool("lint", spool.file(wrong, "wrong.yaml"))
    assert result.code == 78
    assert "key 'tiemout' is not known; did you mean 'timeout'?" in result.out
    assert "SPOOL_Format cannot be 'shiny'" in result.out


def test_schema_describes_its_links(spool: Here) -> None:
    validator = Draft202012Validator(json.loads(spool.ok("schema")))
    configuration = YAML(typ="safe").load(CONFIGURATION)
    assert [error.message for error in validator.iter_errors(configuration)] == []
    for wrong in ({"type": "spool"}, {"type": "spool", "directory": "/x", "tiemout": 3}, {"type": "spol"}):
        assert not validator.is_valid({"links": {"files": wrong}})
    assert not validator.is_valid({"foreign_queues": {"a@files": {"options": {"SPOOL_Format": "shiny"}}}})


def test_link_is_created_shown_tested_and_altered_by_commands(spool: Here) -> None:
    spool.ok("apply", spool.file("version: 1\nqueues: {Q: {}}\n"))
    folder = spool.environ["SPOOL"]
    created = spool.ok("links", "create", "files", "--type", "spool", "--set", f"directory={folder}")
    assert created == "link files created\n"
    assert json.loads(spool.ok("links", "show", "files", "--json"))["directory"] == folder
    assert "ok   queues: billing, orders" in spool.ok("links", "test", "files")
    spool.ok("links", "alter", "files", "--set", "durable=false")
    assert "durable: false" in spool.ok("export")
    for words, text in (
        (("links", "alter", "files", "--set", "directory=/elsewhere"), "directory of link files cannot be altered"),
        (("links", "create", "more", "--type", "spool"), "directory is missing"),
        (("links", "create", "files", "--type", "spool", "--set", "directory=/x"), "link files already exists"),
        (("links", "create", "more", "--type", "spol", "--set", "directory=/x"), "link type 'spol' is unknown"),
        (("links", "create", "more", "--type", "spool", "--set", "password=x"), "password on the command line"),
    ):
        refused = spool(*words)
        assert refused.code in (1, 2)
        assert text in refused.err


def test_jobs_carry_messages_in_and_out_exactly_once(spool: Here) -> None:
    spool.ok("apply", spool.file(CONFIGURATION))
    orders, billing = (Path(spool.environ["SPOOL"], name) for name in ("orders", "billing"))
    bodies = [f"order {number}" for number in range(200)]
    for number, body in enumerate(bodies):
        (orders / f"{number:06d}.txt").write_text(body)
    with spool.running():
        _until(lambda: len(list(billing.glob("*.msg"))) == len(bodies), "200 files")
        _until(lambda: not list(orders.glob("*.txt")), "no file of the source is left")
        jobs = {job["job_name"]: job for job in json.loads(spool.ok("status", "--json"))["jobs"]}
    assert [path.read_text() for path in sorted(billing.glob("*.msg"))] == bodies
    assert {name: job["guarantee"] for name, job in jobs.items()} == {"ORDERS_IN": "exact", "ORDERS_OUT": "exact"}


def test_gateway_killed_while_files_move_loses_and_repeats_nothing(spool: Here) -> None:
    spool.ok("apply", spool.file(CONFIGURATION))
    orders, billing = (Path(spool.environ["SPOOL"], name) for name in ("orders", "billing"))
    bodies = [f"order {number}" for number in range(900)]
    for number, body in enumerate(bodies):
        (orders / f"{number:06d}.txt").write_text(body)
    for part in (150, 400):
        process = subprocess.Popen(
            spool.command("run"), cwd=spool.folder, env=spool.environment(), stdout=subprocess.DEVNULL
        )
        _until(lambda: len(list(billing.glob("*.msg"))) >= part, f"{part} files")  # noqa: B023 - called at once
        process.kill()
        process.wait()
    with spool.running():  # there may be nothing left for it to do
        _until(lambda: len(list(billing.glob("*.msg"))) >= len(bodies), "all files")
        _until(lambda: not list(orders.glob("*.txt")), "no file of the source is left")
    assert [path.read_text() for path in sorted(billing.glob("*.msg"))] == bodies


def test_reference_page_is_made_with_it(spool: Here) -> None:
    part = PAGES["links.md"]().partition("## Spool\n")[2]
    assert "| `directory` |" in part
    assert "| `SPOOL_Format` |" in part
    assert "| priority, correlation | both |" in part


BROKEN = {
    "cannot be imported": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "needs what is not there": ("import client_that_nobody_has", "client_that_nobody_has"),
    "has no SPEC": ("def open_link(config): ...", "has no SPEC"),
    "describes another type": (
        "from mgw.links.contract import LinkSpec\nSPEC = LinkSpec('OTHER', 'x', 'x', ())\ndef open_link(config): ...",
        "a LinkSpec of type BROKEN",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_package_that_does_not_work_is_named(case: str, here: Here) -> None:
    text, told = BROKEN[case]
    module = f"broken_link_{list(BROKEN).index(case)}"
    _offer(here.folder / "site", "broken-link", {"broken": module})
    (here.folder / "site" / f"{module}.py").write_text(text + "\n")
    result = here("lint", here.file("links: {b: {type: broken}}\n"))
    assert result.code == 78
    assert told in result.out
    assert "broken-link" in result.out
    schema = json.loads(here.ok("schema"))
    assert "Spool" not in [each["title"] for each in schema["$defs"]["LinkModel"]["oneOf"]]


def test_type_of_the_gateway_cannot_be_replaced_and_one_that_two_packages_offer_is_refused(here: Here) -> None:
    site = here.folder / "site"
    _offer(site, "first-link", {"memory": "first_link", "both": "first_link"})
    _offer(site, "second-link", {"both": "second_link"})
    here.ok("lint", here.file("links: {m: {type: memory}}\n"))
    result = here("lint", here.file("links: {b: {type: both}}\n"))
    assert result.code == 78
    assert "first-link and package second-link both provide it" in result.out


def _offer(site: Path, name: str, points: dict[str, str]) -> None:
    """An installed distribution with entry points."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[mgw.links]\n" + "".join(f"{point} = {module}\n" for point, module in points.items())
    )
