"""``mgw run`` as a real process: signals, leases, status requests, configuration files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

CONFIGURATION = """
version: 1
links:
  mem: {{type: memory, broker: daemon}}
foreign_queues:
  OUT@mem: {{provider_queue: out}}
queues:
  H: {{max_retries: 100}}
jobs:
  outj: {{type: outbound, source: H, destination: OUT@mem, batch_size: {batch}}}
"""


PATIENCE = 90  # seconds for what takes a moment, on a busy machine


class Daemon:
    """One ``mgw run``."""

    def __init__(self, url: str, folder: Path, *arguments: str) -> None:
        self.log = folder / f"daemon-{os.urandom(3).hex()}.log"
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mgw.gateway", "--hub", url, "run", *arguments], stdout=sink, stderr=sink
            )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = PATIENCE) -> int:
        return self.process.wait(timeout)

    def text(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


@pytest.fixture
def start(gateway: Gateway, tmp_path: Path) -> Iterator[Any]:
    daemons: list[Daemon] = []

    def begin(*arguments: str) -> Daemon:
        daemons.append(Daemon(gateway.url, tmp_path, *arguments))
        return daemons[-1]

    yield begin
    for daemon in daemons:
        daemon.kill()


def agent_of(gateway: Gateway) -> Any:
    with gateway.hub.read() as conn:
        return conn.execute(sa.text("SELECT * FROM MGW_GATEWAY")).mappings().one()


def status_of(gateway: Gateway) -> str:
    return str(agent_of(gateway)["AGENT_STATUS"])


def runs(gateway: Gateway) -> None:
    eventually(lambda: status_of(gateway) == "RUNNING", deadline=PATIENCE, what="agent RUNNING")


def takes_over(gateway: Gateway, daemon: Any) -> None:
    """It runs the agent, whose lease nobody can have waited for: it is another hour's."""
    eventually(lambda: agent_of(gateway)["AGENT_PID"] == daemon.process.pid, deadline=PATIENCE, what="the take-over")
    runs(gateway)


def prolong_the_lease(gateway: Gateway) -> None:
    with gateway.hub.write() as conn:
        assert conn.execute(sa.text("UPDATE gw_agent SET lease_expires = lease_expires + 3600")).rowcount == 1


def test_sigterm_drains_and_leaves_the_agent_not_started(gateway: Gateway, start: Any) -> None:
    daemon = start()
    runs(gateway)
    row = agent_of(gateway)
    assert (row["AGENT_PING"], row["AGENT_PID"]) == ("REACHABLE", daemon.process.pid)
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.text()
    row = agent_of(gateway)
    assert (row["AGENT_STATUS"], row["AGENT_PING"], row["LAST_ERROR_MSG"]) == ("NOT_STARTED", None, None)


def test_what_is_loaded_at_the_start_is_left_out_of_garbage_collection(gateway: Gateway, start: Any) -> None:
    daemon = start()
    runs(gateway)

    def told() -> bool:
        daemon.signal(signal.SIGUSR2)
        return re.search(r"files open, [1-9]\d+ objects left out of garbage collection", daemon.text()) is not None

    eventually(told, deadline=PATIENCE, what="the frozen heap")


def test_a_killed_agent_is_replaced_at_once_on_the_same_host(gateway: Gateway, start: Any) -> None:
    first = start()
    runs(gateway)
    first.kill()
    assert status_of(gateway) == "RUNNING"
    prolong_the_lease(gateway)
    second = start()
    takes_over(gateway, second)
    second.signal(signal.SIGINT)
    assert second.wait() == 0


def test_a_killed_agent_that_its_parent_has_not_reaped_is_replaced_at_once(gateway: Gateway, start: Any) -> None:
    first = start()
    runs(gateway)
    os.kill(first.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, first.process.pid, os.WEXITED | os.WNOWAIT)
    prolong_the_lease(gateway)
    second = start()
    takes_over(gateway, second)
    second.signal(signal.SIGTERM)
    assert second.wait() == 0


def test_a_second_process_of_one_agent_ends_with_a_reason_and_the_first_goes_on(gateway: Gateway, start: Any) -> None:
    first = start()
    runs(gateway)
    second = start()
    assert second.wait() == 1
    assert f"process {first.process.pid}" in second.text()
    assert "Traceback" not in second.text()
    assert status_of(gateway) == "RUNNING"
    assert first.process.poll() is None


@pytest.mark.parametrize("replaced", [False, True])
def test_agent_ends_when_the_file_of_its_hub_is_moved(
    gateway: Gateway, start: Any, tmp_path: Path, *, replaced: bool
) -> None:
    daemon = start()
    runs(gateway)
    gateway.hub.close()
    if replaced:
        with open_hub(f"sqlite:///{tmp_path}/new.db", create=True):
            pass
        os.replace(tmp_path / "new.db", tmp_path / "hub.db")
    else:
        (tmp_path / "hub.db").rename(tmp_path / "elsewhere.db")
    assert daemon.wait() == 1, daemon.text()
    text = daemon.text()
    assert f"{tmp_path}/hub.db was {'replaced' if replaced else 'moved'}" in text
    assert "cure: stop every program that has this hub open" in text
    assert "Traceback" not in text
    assert (tmp_path / "hub.db").exists() == replaced


def test_shutdown_stops_the_jobs_and_startup_brings_them_back_in_the_same_process(
    gateway: Gateway, start: Any, tmp_path: Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(CONFIGURATION.format(batch=30))
    daemon = start(str(file))
    eventually(lambda: gateway.queues.queue("H") is not None and status_of(gateway) == "RUNNING", deadline=PATIENCE)
    gateway.admin.shutdown()
    eventually(lambda: status_of(gateway) == "NOT_STARTED", what="agent stopped")
    gateway.enqueue("H", [Message(body="while down")])
    assert gateway.browse("H")
    gateway.admin.startup()
    runs(gateway)
    assert daemon.process.poll() is None
    # The queue of the process's own memory broker does not exist: the job says so and the message stays.
    eventually(lambda: gateway.job("outj")["STATUS"] == "RETRY")
    assert "out" in gateway.job("outj")["LAST_ERROR_MSG"]
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0


def test_sighup_takes_over_a_changed_configuration_file(gateway: Gateway, start: Any, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(CONFIGURATION.format(batch=30))
    daemon = start(str(file))
    runs(gateway)
    file.write_text(CONFIGURATION.format(batch=77))
    daemon.signal(signal.SIGHUP)

    def batch() -> int:
        job = gateway.admin.get_job("outj")
        return job.batch_size if job else 0

    eventually(lambda: batch() == 77, what="the changed batch size")
    file.write_text("version: 1\njobz: {}\n")
    daemon.signal(signal.SIGHUP)
    eventually(lambda: "jobz" in daemon.text(), what="the finding in the log")
    assert batch() == 77
    assert daemon.process.poll() is None


def test_a_daemon_without_hub_says_what_to_do(tmp_path: Path) -> None:
    daemon = Daemon(f"sqlite:///{tmp_path}/none.db", tmp_path)
    assert daemon.wait() == 1
    assert "none.db" in daemon.text()
    assert "mgw apply" in daemon.text()
    assert "Traceback" not in daemon.text()


def test_the_agent_writes_a_log_file_of_its_own(gateway: Gateway, start: Any, tmp_path: Path) -> None:
    daemon = start("--log-dir", str(tmp_path / "logs"))
    runs(gateway)
    daemon.signal(signal.SIGTERM)
    daemon.wait()
    (file,) = (tmp_path / "logs").glob("oramgw-*.log")
    text = file.read_text()
    assert f"-{daemon.process.pid}.log" in file.name
    assert text.startswith(">>")
    assert "initializing agent DEFAULT_AGENT" in text
    assert "agent DEFAULT_AGENT stopped" in text


def test_no_log_file_is_written_where_it_is_off(gateway: Gateway, start: Any, tmp_path: Path) -> None:
    daemon = start("--log-dir", "off")
    runs(gateway)
    daemon.signal(signal.SIGUSR1)
    eventually(lambda: "there is no log file" in daemon.text(), what="the answer to SIGUSR1")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert not list(tmp_path.rglob("oramgw-*"))
    assert not Path("off").exists()


LOUD = """
import sys
import threading
import warnings

print("printed at import")
print("two", "lines", sep="\\n", file=sys.stderr)
warnings.warn("a warning of Python", UserWarning)
thread = threading.Thread(target=lambda: 1 / 0, name="loud")
thread.start()
thread.join()


def same(message):
    return message
"""


def records(daemon: Daemon) -> list[dict[str, Any]]:
    return [json.loads(line) for line in daemon.text().splitlines()]


def test_every_line_is_json_from_the_first_to_the_last(
    gateway: Gateway, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.getcwd()}")
    file = tmp_path / "c.yaml"
    text = CONFIGURATION.format(batch=30).replace("destination: OUT@mem", "destination: OUT@mem, transformation: t")
    text += "transformations:\n  t: {function: 'loud:same'}\n"
    file.write_text(text + "settings:\n  transform_modules: [loud]\n  log: {format: json}\n")
    daemon = start(str(file))
    runs(gateway)
    daemon.signal(signal.SIGUSR1)
    daemon.signal(signal.SIGUSR2)
    eventually(lambda: "thread main" in daemon.text().lower(), what="the answer to SIGUSR2")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    found = records(daemon)
    said = {entry["message"]: entry for entry in found}
    assert "create job outj" in said
    assert (said["printed at import"]["level"], said["lines"]["level"]) == ("INFO", "WARNING")
    assert any("a warning of Python" in message for message in said)
    loud = said["thread loud ended because of an unexpected error"]
    assert "ZeroDivisionError" in loud["traceback"]
    assert {entry["id"] for entry in found if "id" in entry} >= {1, 2, 4, 7, 25}


@pytest.mark.parametrize(("section", "code", "what"), [("jobz: {}", 78, "jobz"), ("agents: {other: {}}", 1, "nobody")])
def test_a_daemon_that_does_not_start_says_so_in_json(
    start: Any, tmp_path: Path, section: str, code: int, what: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"version: 1\n{section}\n")
    daemon = start(str(file), "--log-format", "json", "--agent", "nobody")
    assert daemon.wait() == code, daemon.text()
    last = records(daemon)[-1]
    assert (last["level"], what in last["message"]) == ("ERROR", True)


def test_sigquit_drains(gateway: Gateway, start: Any) -> None:
    daemon = start()
    runs(gateway)
    daemon.signal(signal.SIGQUIT)
    assert daemon.wait() == 0
    assert status_of(gateway) == "NOT_STARTED"


def test_sigusr1_opens_the_log_file_again_and_no_line_is_lost(gateway: Gateway, start: Any, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    daemon = start("--log-dir", str(folder))
    runs(gateway)
    (file,) = folder.glob("oramgw-*.log")
    asked = 0

    def answers() -> int:
        return sum(each.read_text().count("nothing to read again") for each in folder.iterdir())

    def ask() -> None:
        nonlocal asked
        asked += 1
        daemon.signal(signal.SIGHUP)
        eventually(lambda: answers() >= asked, what=f"line {asked} in a log file")

    for number in range(3):
        ask()
        file.rename(folder / f"{file.name}.{number}")
        ask()  # goes on in the one that was renamed
        assert not file.exists()
        daemon.signal(signal.SIGUSR1)
        eventually(lambda: file.exists() and f"log file {file} is opened again" in file.read_text())
    ask()
    assert answers() == asked == daemon.text().count("nothing to read again")
    assert file.read_text().startswith(">>")
    folder.rename(tmp_path / "elsewhere")
    daemon.signal(signal.SIGUSR1)
    eventually(lambda: f"log file {file} cannot be opened again; cause: No such file" in daemon.text())
    assert "cannot be opened again" in (tmp_path / "elsewhere" / file.name).read_text()
    (tmp_path / "elsewhere").rename(folder)
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert "agent DEFAULT_AGENT stopped" in file.read_text()


AWAY = """
version: 1
links:
  mem: {type: memory, broker: daemon}
  gone: {type: mqtt, hostname: 127.0.0.1, port: 1, username: me, password: very-secret-word}
foreign_queues:
  OUT@mem: {provider_queue: out}
  T@gone: {provider_queue: t, domain: topic}
  U@gone: {provider_queue: u, domain: topic}
queues:
  H: {max_retries: 100}
  I: {max_retries: 100}
  J: {max_retries: 100}
  K: {}
jobs:
  outj: {type: outbound, source: H, destination: OUT@mem}
  awayj: {type: inbound, source: T@gone, destination: H}
  throughj: {type: through, source: U@gone, destination: OUT@mem}
  moving: {type: local, source: J, destination: I}
  resting: {type: local, source: I, destination: K, enabled: false}
"""


def test_sigusr2_shows_threads_links_and_jobs_and_no_secret(gateway: Gateway, start: Any, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(AWAY)
    daemon = start(str(file))
    eventually(lambda: gateway.queues.queue("I") is not None and status_of(gateway) == "RUNNING", deadline=PATIENCE)
    eventually(lambda: gateway.job("awayj")["STATUS"] == "RETRY", deadline=PATIENCE)
    eventually(lambda: gateway.job("moving")["ACTIVITY"] == "IDLE", deadline=PATIENCE)
    daemon.signal(signal.SIGUSR2)
    eventually(lambda: "thread job-awayj" in daemon.text(), what="the threads in the log, to the last asked for below")
    text = daemon.text()
    said = text[text.index("signal SIGUSR2: state of this process") :]
    for part in (
        "agent DEFAULT_AGENT, hub sqlite",
        "hub: no trouble known",
        "link gone: DOWN since ",
        "MQTT hostname 127.0.0.1 port 1, 0 of 2 jobs connected",
        "  last error, ",
        "job awayj: RETRY, BACKOFF, INBOUND T@gone to H",
        "job throughj: RETRY, BACKOFF, THROUGH U@gone to OUT@mem",
        "  next attempt: ",
        "  fails since ",
        "job resting: disabled, no thread",
        "thread job-awayj",
    ):
        assert part in said, part
    moving = said[said.index("job moving: READY, IDLE") :].splitlines()
    assert [line.strip() for line in moving[1:6]] == [
        "last progress: none",
        "guarantee: exact",
        "plan: 0 was made last",
        "source: queue J",
        "destination: queue I, 0 batches not stored yet",
    ]
    assert "very-secret-word" not in text


def test_signals_that_come_while_it_starts_do_not_end_it(gateway: Gateway, start: Any, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    os.mkfifo(file)  # it waits here for its configuration
    daemon = start("--log-format", "json", str(file))
    given = (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2)
    eventually(lambda: all(catches(daemon.process.pid, number) for number in given), what="its signal handlers")
    for number in given:
        daemon.signal(number)
    eventually(lambda: "thread main" in daemon.text().lower(), what="the answer to SIGUSR2")
    assert daemon.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_that_ends_it_while_it_starts_ends_it_with_0(
    gateway: Gateway, start: Any, tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("version: 1\n")
    reached = tmp_path / "reached.yaml"
    os.mkfifo(reached)  # it waits here for its configuration
    daemon = start("--log-format", "json", str(file), str(reached))
    eventually(lambda: catches(daemon.process.pid, signal.SIGUSR2), deadline=PATIENCE, what="its signal handlers")
    eventually(lambda: catches(daemon.process.pid, number), deadline=PATIENCE, what="the one that ends it")
    writer = eventually(  # nobody can open it before the gateway has
        lambda: os.open(reached, os.O_WRONLY | os.O_NONBLOCK), tolerate=(OSError,), deadline=PATIENCE, what="a reader"
    )
    daemon.signal(number)
    assert daemon.wait() == 0, daemon.text()
    os.close(writer)
    assert [entry["message"] for entry in records(daemon)] == [
        f"signal {number.name}: ended before the agent was started"
    ]
    assert agent_of(gateway)["AGENT_PID"] is None


def catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
