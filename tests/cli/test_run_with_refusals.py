"""``mgw run FILE`` where the file says something that cannot be: it is named, and everything else runs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mgw.gateway.services.configuration import apply_files
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from tests.cli.conftest import COMPLETE, Mgw
from tests.support.waiting import eventually


@contextmanager
def running(mgw: Mgw, file: str, *refused: str) -> Iterator[dict[str, Any]]:
    """The agent on that file, once it is up; gives the events of what was refused, by object."""
    output = mgw.folder / "output.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            mgw.command("run", file), cwd=mgw.folder, env=mgw.environment(), stdout=sink, stderr=sink
        )
    try:

        def up() -> bool:
            assert process.poll() is None, output.read_text()
            return "up and running" in output.read_text()

        eventually(up, deadline=60, what="the agent", tolerate=())
        events = [row for row in json.loads(mgw.ok("events", "--json")) if row["event_name"] == "ObjectRefused"]
        told = {row["object_name"]: row["event_text"] for row in events}
        assert sorted(told) == sorted(refused), output.read_text()
        yield told
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def is_tried(mgw: Mgw, job: str) -> None:
    """Wait until the agent runs a job; what it reads is not there, in a broker that lives in the agent's memory."""

    def tried() -> bool:
        rows = {row["job_name"]: row for row in json.loads(mgw.ok("jobs", "list", "--json"))}
        return "'orders' does not exist" in str(rows[job.upper()]["last_error_msg"])

    eventually(tried, deadline=60, what=f"job {job}")


def test_a_variable_that_is_not_set_leaves_its_link_as_the_hub_has_it(applied: Mgw) -> None:
    del applied.environ["LINK_PASSWORD"]
    file = applied.file(COMPLETE.replace("max_retries: 100", "max_retries: 7"))
    with running(applied, file, "link mem") as told:
        assert "variable LINK_PASSWORD is not set" in told["link mem"]
        assert "stays as it is in the hub" in told["link mem"]
        is_tried(applied, "orders_in")
    assert "max_retries: 7" in applied.ok("export")
    assert "sesame-open-42" not in (applied.folder / "output.txt").read_text()


def test_what_cannot_be_altered_stays_and_the_rest_is_altered_and_runs(applied: Mgw) -> None:
    changed = COMPLETE.replace("source: orders@mem, destination: ORDERS", "source: orders@mem, destination: ONE")
    file = applied.file(changed.replace("timeout: 7", "timeout: 9"))
    with running(applied, file, "job orders_in") as told:
        assert "destination: ORDERS -> ONE" in told["job orders_in"]
        assert "cause: " in told["job orders_in"]
        assert "cure: " in told["job orders_in"]
        is_tried(applied, "orders_in")
    assert json.loads(applied.ok("links", "show", "mem", "--json"))["timeout"] == 9
    assert applied("apply", file).code == 78, "apply does nothing then, as before"


def test_a_new_hub_gets_everything_but_what_is_refused_and_what_needs_it(mgw: Mgw) -> None:
    file = mgw.file(COMPLETE.replace("bad@mem: {provider_queue", "bad@mem: {provider_que"))
    with running(mgw, file, "foreign queue bad@mem", "job orders_in") as told:
        assert "did you mean 'provider_queue'?" in told["foreign queue bad@mem"]
        assert "'bad@mem' is not defined" in told["job orders_in"]
    names = [row["job_name"] for row in json.loads(mgw.ok("jobs", "list", "--json"))]
    assert sorted(names) == ["ALL_NEWS", "NEWS_OUT"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_said_of_a_file_is_in_the_log_of_the_agent(mgw: Mgw, form: str) -> None:
    text = COMPLETE.replace('"${LINK_PASSWORD}"', "guess-me").replace(
        "orders@mem, destination", "none@mem, destination"
    )
    file = mgw.file(text + f"settings: {{log: {{format: {form}}}}}\n")
    with running(mgw, file, "job orders_in"):
        (path,) = (mgw.folder / "log").iterdir()
    log, told = path.read_text(), (mgw.folder / "output.txt").read_text()
    assert re.search(r"(?m)^>>.*  WARNING  .*\n.*warning plain-text-password: ", log)
    assert re.search(r"(?m)^>>.*  ERROR  .*\n.*error undefined-foreign-queue: ", log)
    assert "job orders_in is not as the configuration says" in log
    assert told.count("plain-text-password") == log.count("plain-text-password") == 1
    assert ('"level": "WARNING"' in told) if form == "json" else re.search(r"(?m)^\S+ \S+ WARNING .*plain-text", told)


def test_what_is_said_of_a_file_that_is_read_again_is_logged(applied: Mgw, caplog: pytest.LogCaptureFixture) -> None:
    applied.file("version: 1\nlinks:\n  late: {type: memory, username: gw, password: guess-me}\n", "late.yaml")
    url = f"sqlite:///{applied.folder}/hub.db"
    with open_hub(url) as hub:
        assert "create link late" in list(apply_files(hub, Secrets.for_hub(url), [applied.folder / "late.yaml"]))
    assert [(each.levelname, "plain-text-password" in each.message) for each in caplog.records] == [("WARNING", True)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("links: [\n", "bad-yaml"),
        (COMPLETE.replace("jobs:", "jobz:"), "'jobz' is not known"),
        (COMPLETE + "settings: {hub: '${NO_SUCH}'}\n", "variable NO_SUCH is not set"),
    ],
    ids=["no YAML", "unknown section", "settings"],
)
def test_a_file_that_is_wrong_as_a_whole_ends_the_command(mgw: Mgw, text: str, said: str) -> None:
    result = mgw("run", mgw.file(text))
    assert (result.code, said in result.err) == (78, True), result
