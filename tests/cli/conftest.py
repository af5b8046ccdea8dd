"""The real command ``mgw`` as a subprocess, on a SQLite hub in a private folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.ready_made import ready_made
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

#: A configuration that needs no broker and uses every section.
COMPLETE = """\
version: 1
agents:
  second: {max_threads: 4, options: {oracle.mgw.batch_size: 40}}
links:
  mem: {type: memory, username: gw, password: "${LINK_PASSWORD}", timeout: 7, comment: first}
  other: {type: memory, agent: second}
foreign_queues:
  orders@mem: {domain: queue}
  bad@mem: {provider_queue: orders.bad, domain: queue}
  news@other: {domain: topic, provider_queue: factory.news}
object_types:
  OE.LINES: {array: VARRAY(9) OF OE.LINE}
  OE.LINE: {attributes: {item: VARCHAR2(30), amount: "number (5)"}}
queue_tables:
  SHARED: {payload_type: text}
queues:
  ORDERS: {sort_list: "PRIORITY,ENQ_TIME", max_retries: 100, comment: What is ordered}
  NEWS: {multiple_consumers: true, retention_time: 60}
  ONE: {queue_table: SHARED}
  TWO: {queue_table: SHARED, enqueue: false, retention_time: infinite}
  DUMP: {type: exception}
  LINES: {payload_type: OE.LINE}
  ANY: {payload_type: sys.anydata, jms_types: true}
transformations:
  first_line: {from_type: json, to_type: OE.Line, set: {body: "tab.user_data"}}
  urgent: {set: {priority: "0"}, where: "tab.user_data.urgent = TRUE", comment: For rush orders}
jobs:
  orders_in: {type: inbound, source: orders@mem, destination: ORDERS, transformation: urgent,
              exception_queue: bad@mem, batch_size: 200, poll_interval: 2.5}
  news_out: {type: outbound, source: NEWS, destination: news@other, rule: "tab.priority < 3",
             options: {retry_forever: true}}
  all_news: {type: outbound, source: NEWS, destination: orders@mem, enabled: false, comment: later}
aq_agents:
  till: {users: [mary, scott], enable_http: true}
grants:
  scott: {queues: {ORDERS: all with grant option, NEWS: dequeue}, system_privileges: [enqueue_any]}
  mary: {roles: [AQ_ADMINISTRATOR_ROLE]}
"""


SECRETS = {"LINK_PASSWORD": "sesame-open-42"}


@dataclass
class Result:
    """What a run of ``mgw`` gave."""

    code: int
    out: str
    err: str

    def lines(self) -> list[str]:
        """Lines on standard output."""
        return self.out.splitlines()


@dataclass
class Mgw:
    """Runs ``mgw`` in ``folder``; see :mod:`tests.support.ready_made` for how a command begins."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables of the command: as few as possible, so that nothing of this machine decides a test."""
        base = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        return (
            base
            | {"MGW_HUB": f"sqlite:///{self.folder}/hub.db", "MGW_HTTP": "off", "PYTHONWARNINGS": "error"}
            | self.environ
            | dict(more or {})
        )

    def command(self, *words: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "mgw.gateway.cli.main", *words]

    def __call__(self, *words: str, stdin: str | bytes = b"", environ: Mapping[str, str] | None = None) -> Result:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        variables = self.environment(environ)
        if type(self).command is Mgw.command:
            made = ready_made(variables)
            code, out, err = made.run(words, cwd=self.folder, env=variables, given=given, timeout=60)
        else:
            done = subprocess.run(
                self.command(*words),
                cwd=self.folder,
                env=variables,
                input=given,
                capture_output=True,
                timeout=60,
                check=False,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        result = Result(code, out.decode(), err.decode())
        assert "Traceback" not in result.err, result.err
        assert "this is a bug in mgw" not in result.err, result.err
        return result

    def file(self, text: str, name: str = "gateway.yaml") -> str:
        """A file with this text; its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return name

    def ok(self, *words: str, stdin: str | bytes = b"") -> str:
        """Run it, expect success, give the output."""
        result = self(*words, stdin=stdin)
        assert result.code == 0, result
        return result.out

    @contextmanager
    def running(self, *files: str) -> Iterator[subprocess.Popen[bytes]]:
        """``mgw run`` in the background, drained at the end: not before it is up, as only then it can be."""
        with tempfile.TemporaryFile() as output:

            def said() -> bytes:
                return os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0)

            process = subprocess.Popen(
                self.command("run", *files), cwd=self.folder, env=self.environment(), stdout=output, stderr=output
            )
            try:
                yield process
                eventually(lambda: b"up and running" in said() or process.poll() is not None, deadline=60, what="start")
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            finally:
                process.kill()
                process.wait()
            assert process.returncode == 0, said().decode()


@pytest.fixture
def mgw(tmp_path: Path) -> Mgw:
    """``mgw`` in a folder of its own; its hub does not exist yet."""
    return Mgw(tmp_path, dict(SECRETS))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hub that holds :data:`COMPLETE`, made once; take a copy."""
    mgw = Mgw(tmp_path_factory.mktemp("template"), dict(SECRETS))
    mgw.ok("apply", mgw.file(COMPLETE))
    return mgw.folder


@pytest.fixture
def applied(mgw: Mgw, template: Path) -> Mgw:
    """``mgw`` with a hub that holds :data:`COMPLETE`."""
    shutil.copytree(template, mgw.folder, dirs_exist_ok=True)
    return mgw
