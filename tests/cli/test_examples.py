"""The files of conf/examples as they are, on brokers with TLS, logins and no right to spare: messages arrive."""

from __future__ import annotations

import re
import signal
import sqlite3
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Mgw
from tests.support.brokers.server import OwnedProcess
from tests.support.secured import PASSWORD, Secured
from tests.support.secured_clients import Reader, publish
from tests.support.waiting import eventually

FILES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "conf" / "examples").glob("*.yaml"))}
FORMS = ("queue", "through")
#: Each messaging system as a source, as a target, and in both forms.
FIRST = {("rabbitmq-to-kafka", "queue"), ("kafka-to-mqtt", "queue"), ("mqtt-to-rabbitmq", "through")}
CASES = [
    pytest.param(*case, marks=() if case in FIRST else pytest.mark.matrix, id="-".join(case))
    for case in product(FILES, FORMS)
]
HEADER, VALUE = "till", "number 7"
_COUNT = 5

pytestmark = [pytest.mark.rabbitmq, pytest.mark.kafka, pytest.mark.mosquitto]


def _rights(text: str, title: str) -> list[str]:
    """The lines of comments below one that begins so."""
    found = re.findall(rf"^ +# {title}.*:\n((?: +#   .*\n)+)", text, re.MULTILINE)
    return [line.strip().removeprefix("#").strip() for part in found for line in part.splitlines()]


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    text = "".join(FILES.values())
    rights = {
        "rabbitmq": _rights(text, "What the user has to be allowed"),
        "kafka": list(dict.fromkeys(_rights(text, "With ACLs"))),
        "mqtt": _rights(text, "With an acl_file"),
    }
    vhosts = ["-".join(case) for case in product(FILES, FORMS)]
    names = ("orders", "orders.copy")
    with Secured(rights, vhosts=vhosts, queues=names, topics=names) as brokers:
        yield brokers


def _of_form(text: str, form: str) -> str:
    """The file as its comments say: with the queue, or with the job that does without it."""
    if form == "queue":
        return text
    text = re.sub(r"^queues:\n.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^  bridge_(in|out): .*\n", "", text, flags=re.MULTILINE)
    return text.replace("  # bridge: ", "  bridge: ")


@contextmanager
def _running(mgw: Mgw, file: str) -> Iterator[None]:
    log = mgw.folder / "run.log"
    command = [sys.executable, "-m", "mgw.gateway", "run", file]
    process = OwnedProcess(command, environment=mgw.environment(), log=log, folder=mgw.folder)
    try:
        yield
    finally:
        in_time = process.terminate(signal.SIGTERM, 60)
        print(log.read_text())
    assert in_time
    assert process.exit_code == 0
    assert PASSWORD not in log.read_text()


def _guarantees(hub: Path) -> dict[str, str]:
    """By job that works."""
    with closing(sqlite3.connect(f"file:{hub}?mode=ro", uri=True)) as connection:
        query = "SELECT JOB_NAME, GUARANTEE FROM MGW_JOBS WHERE ACTIVITY = 'IDLE' OR ACTIVITY = 'RUNNING'"
        return {name.lower(): level for name, level in connection.execute(query)}


def _environ(secured: Secured, name: str, place: str) -> dict[str, str]:
    source, target = name.split("-to-")
    both = secured.variables("SOURCE", source, place) | secured.variables("TARGET", target, place)
    return both | {"PYTHONWARNINGS": "default"}  # the client of Kafka uses what Python deprecates


@pytest.mark.parametrize(("name", "form"), CASES)
def test_the_example_carries_messages_as_it_promises(mgw: Mgw, secured: Secured, name: str, form: str) -> None:
    source, target = name.split("-to-")
    place = f"{name}-{form}"
    mgw.environ |= _environ(secured, name, place)
    text = _of_form(FILES[name], form)
    promised = dict(re.findall(r"^  (\w+): \{type: .*\}  # guarantee: ([\w-]+)$", text, re.MULTILINE))
    assert len(promised) == (2 if form == "queue" else 1)
    bodies = [f"{place} {number} {uuid.uuid4()}".encode() for number in range(_COUNT)]

    def all_there(reader: Reader) -> bool:
        reader.read()
        return set(bodies) <= {each.body for each in reader.seen}

    with Reader(secured, target, place) as reader, _running(mgw, mgw.file(text)):
        hub = mgw.folder / "hub.db"
        eventually(lambda: _guarantees(hub) == promised, deadline=60, tolerate=(AssertionError, sqlite3.Error))
        publish(secured, source, place, bodies, {HEADER: VALUE})
        eventually(lambda: all_there(reader), deadline=60, what="what was published")
        reader.read()
        assert _guarantees(hub) == promised
    arrived = [each for each in reader.seen if each.body in bodies]
    assert [each.body for each in arrived] == bodies
    for each in arrived:
        assert [value for header, value in each.headers if header.endswith(HEADER)] == [VALUE], each


def test_a_topic_whose_configuration_may_not_be_seen_is_not_called_exact(mgw: Mgw, secured: Secured) -> None:
    secured.kafka.create_topic("hidden")
    secured.allow(["--topic hidden --operation Read"])
    name = "kafka-to-mqtt"
    mgw.environ |= _environ(secured, name, f"{name}-queue")
    text = FILES[name].replace("provider_queue: orders\n", "provider_queue: hidden\n")
    with _running(mgw, mgw.file(text)):
        hub = mgw.folder / "hub.db"
        what = {"bridge_in": "exact-unless-broker-crash", "bridge_out": "exact-unless-broker-crash"}
        eventually(lambda: _guarantees(hub) == what, deadline=60, tolerate=(AssertionError, sqlite3.Error))
    assert "(grant DescribeConfigs)" in mgw.ok("jobs", "show", "bridge_in")
