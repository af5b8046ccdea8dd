"""The service under systemd for an hour (``make soak``), or two minutes: nothing lost, health right at every moment."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from mgw.gateway.state.gateway_hub import open_hub
from tests.faults.verdict import Verdict
from tests.soak.acts import HOUR, SHORT, Act, Acts
from tests.soak.figures import Figures, growth, taken
from tests.soak.routes import LEVELS, SECRET, Plant, Route
from tests.soak.service import Service, booted, image
from tests.soak.watch import CURED, Watch, judge, summary, timeline
from tests.support import containers
from tests.support.waiting import eventually

SEED = int(os.environ.get("MGW_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))
MINUTES = float(os.environ.get("MGW_SOAK_MINUTES") or 60)
_DISK = "size=256m"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A small file system for the hub."""
    if reason := containers.missing():
        pytest.skip(reason)
    folder = tmp_path / "state"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(autouse=True)
def quiet_pika() -> Iterator[None]:
    """The publisher's own client says of every broken connection a page."""
    logger = logging.getLogger("pika")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


class Soak:
    """Brokers, the service, what goes in and comes out, and the watch over it."""

    def __init__(self, service: Service, plant: Plant, limit: float, rate: float, folder: Path) -> None:
        self._service = service
        self._addresses = plant.addresses()
        self._folder = folder
        self.hub = f"sqlite:///{service.state}/hub.db"
        self.figures: list[Figures] = []
        service.write("gateway.yaml", self._addresses.configuration())
        service.write("rabbitmq_password", SECRET)
        service.start()
        self._await_jobs()
        self.routes = plant.routes(SEED, rate)
        environment = {**os.environ, "MGW_SECRET_KEY_FILE": str(service.etc / "secret_key")}
        self.watch = Watch(self._addresses.http, self.hub, limit, self.routes, environment, folder)
        self.acts = Acts(service, plant, self._addresses, self.watch)

    def levels(self) -> Mapping[str, str]:
        """What every job promises now."""
        hub = open_hub(self.hub)
        try:
            with hub.read() as conn:
                rows = conn.execute(sa.text("SELECT JOB_NAME, GUARANTEE FROM MGW_JOBS"))
                return {str(name).lower(): str(level) for name, level in rows}
        finally:
            hub.close()

    def _await_jobs(self) -> None:
        eventually(lambda: self.levels() == dict(LEVELS), deadline=60, what=f"all jobs;\n{self._service.journal()}")

    def play(self, acts: Sequence[Act], minutes: float) -> list[Verdict]:
        """Every act at its time; ``minutes`` 0: one after the other. Then all messages are awaited, and judged."""
        begun = time.monotonic()
        every = minutes * 60 / len(acts) if minutes else 0.0
        for route in self.routes:
            route.oracle.publisher.start()
        self.watch.start()
        try:
            self._healthy()
            for number, act in enumerate(acts):
                if number % 2 == 0 or not every:
                    self._figures(begun)
                self._until(begun + (number + 0.5) * every)
                self._say(begun, f"{act.__name__}")
                act(self.acts)
                if not every:
                    self._healthy()
            self._until(begun + minutes * 60)
            self._healthy()
            self._figures(begun)
            for route in self.routes:
                route.oracle.publisher.finish(0, 120)
            done = [(act.__name__, acts.count(act)) for act in dict.fromkeys(acts)]
            verdicts = [route.oracle.conclude(done, lambda: None, deadline=120) for route in self.routes]
        finally:
            self.watch.finish()
        self._say(begun, f"looks: {summary(self.watch.looks)}")
        for line in timeline(self.watch):
            self._say(begun, line)
        with (self._folder / "looks.log").open("w") as log:
            log.writelines(f"{entry}\n" for entry in (*self.watch.troubles, *self.watch.movements))
            log.writelines(
                f"{look.at - begun:.1f} {look.what} {look.code} {look.text!r}\n" for look in self.watch.looks
            )
        return verdicts

    def numbers(self, route: Route, first: float, last: float) -> range:
        """Numbers of the messages that were put in between two moments."""
        seen = [entry for entry in self.watch.movements if entry.route == route.name]
        before = max((entry.numbers for entry in seen if entry.at <= first), default=0)
        after = min((entry.numbers for entry in seen if entry.at >= last), default=1 << 62)
        return range(before, after)

    def _healthy(self) -> None:
        eventually(self.watch.all_green, deadline=CURED + 30, what=f"health;\n{self._service.journal()}")

    def _until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))  # this is the soak itself, not a way to wait for something

    def _figures(self, begun: float) -> None:
        put_in = sum(route.put_in for route in self.routes)
        pid = self._service.pid
        if pid and (found := taken((time.monotonic() - begun) / 60, pid, self._service.state, put_in)):
            self.figures.append(found)
            self._say(begun, str(found))

    def _say(self, begun: float, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {time.monotonic() - begun:6.1f} s {text}"
        print(line, flush=True)
        with (self._folder / "soak.log").open("a") as log:
            log.write(f"{line}\n")


def soak(folder: Path, state: Path, acts: Sequence[Act], *, minutes: float, limit: float, rate: float = 40.0) -> None:
    """Play and judge."""
    image()
    with Plant() as plant, booted(folder, state) as service:
        played = Soak(service, plant, limit, rate, folder)
        verdicts = played.play(acts, minutes)
        problems = [*judge(played.watch), *growth(played.figures), *_lost(played, verdicts)]
        levels = played.levels()
        journal = service.container.exec("journalctl", "--unit=mgw", "--no-pager", check=False)
        (folder / "journal.log").write_text(journal)
        problems += _said(journal)
        service.systemctl("stop", "mgw")
        ended = service.properties("Result", "ExecMainStatus")
    for verdict in verdicts:
        print(verdict)
    assert not problems, "\n".join([f"seed {SEED}, {folder}", *problems])
    assert levels == dict(LEVELS)
    assert ended == {"Result": "success", "ExecMainStatus": "0"}


def _lost(played: Soak, verdicts: Sequence[Verdict]) -> list[str]:
    """What is missing, and what came twice although its job promises once. Around a restart of RabbitMQ, jobs that read
    or write there may repeat what was on its way."""
    problems = [verdict.explain() for verdict in verdicts if not verdict.good]
    for route, verdict in zip(played.routes, verdicts, strict=True):
        windows = [] if route.name == "telemetry" else [played.numbers(route, *span) for span in played.acts.doubtful]
        if wrong := [number for number in verdict.twice if not any(number in window for window in windows)]:
            problems.append(f"{route.name}: {len(wrong)} messages came twice: {wrong[:10]}")
    return problems


def _said(journal: str) -> list[str]:
    return [line for line in journal.splitlines() if "Traceback" in line or "internal error" in line][:10]


@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_the_service_survives_one_injury_of_each_kind(state: Path, tmp_path: Path) -> None:
    soak(tmp_path, state, SHORT, minutes=0, limit=10.0)


@pytest.mark.long
@pytest.mark.timeout(MINUTES * 60 + 1800)
def test_the_service_survives_an_hour_of_injuries(state: Path, tmp_path: Path) -> None:
    soak(tmp_path, state, HOUR, minutes=MINUTES, limit=60.0)
