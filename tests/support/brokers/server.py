"""What every server has in common: a private folder, free ports, a log, a beginning and a certain end."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self

from tests.support.ports import LOOPBACK
from tests.support.ready_made import Process, start_module
from tests.support.waiting import eventually

__all__ = ["OwnedProcess", "Server", "ServerFailed", "connect", "receive_exactly"]

_PROBE_PAUSE = 0.05
_LOG_TAIL_LINES = 30

# Kills the group and removes the folder when the starting process is gone, however it went: the kernel closes the pipe.
_WATCHDOG = 'if read -r _; then exit 0; fi; kill -s KILL -- "-$1" 2>/dev/null; if [ -n "$2" ]; then rm -rf -- "$2"; fi'


class ServerFailed(RuntimeError):
    """A server of the tests could not be started or stopped; the message ends with the tail of its log."""


def connect(port: int, *, timeout: float = 2.0) -> socket.socket:
    """A TCP connection to a loopback port; raises OSError when nobody listens. ``timeout`` is in seconds."""
    return socket.create_connection((LOOPBACK, port), timeout=timeout)


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    """Exactly ``count`` bytes from a socket; raises ConnectionError when it ends before."""
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError(f"connection closed after {len(received)} of {count} bytes")
        received += chunk
    return bytes(received)


def _state(task: Path) -> str:
    """State of a thread as in proc(5): R, S, D, T (stopped) ..."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


class OwnedProcess:
    """One child process in a session of its own that can not outlive the process that started it.

    A module of Python (``sys.executable, "-m", ...``) is forked, see :mod:`tests.support.ready_made`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        folder: Path,
        remove_folder: bool = False,
    ) -> None:
        """Start ``command`` in ``folder``, its output appended to ``log``.

        ``remove_folder``: the folder goes too when the parent dies without stopping the process.
        Raises ServerFailed when the program does not exist.
        """
        self._process = _started(command, environment=environment, log=log, folder=folder)
        self.pid = self._process.pid
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(self.pid), str(folder) if remove_folder else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while the process runs."""
        return self._process.poll()

    def terminate(self, terminate_signal: signal.Signals, deadline: float) -> bool:
        """Send the signal, wait up to ``deadline`` seconds, then SIGKILL; True when the signal was enough."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(terminate_signal)
        try:
            self._process.wait(deadline)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._end(())
        return True

    def kill(self) -> None:
        """SIGKILL the process, its group and its descendants, and wait until all are gone."""
        descendants = _descendants(self.pid) if self.exit_code is None else []
        self._process.kill()
        self._end(descendants)
        self._process.wait()

    def _end(self, descendants: Sequence[int]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in descendants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(_alive(pid) for pid in descendants) and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._watchdog.stdin is not None and not self._watchdog.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._watchdog.communicate(b"done\n")


def _started(command: Sequence[str], *, environment: Mapping[str, str], log: Path, folder: Path) -> Process:
    if command[:2] == [sys.executable, "-m"]:
        return start_module(*command[2:], log=log, environment=environment, folder=folder, own_session=True)
    with log.open("ab") as output:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerFailed(f"{command[0]} can not be started: {error}. Run: make setup") from error


class Server:
    """A server program with private data on free loopback ports.

    ``start`` returns when the server answers in its own protocol, ``stop`` ends it in an orderly way, ``kill`` as a
    crash would; ``restart`` (after either, or while it runs) comes back on the same ports with the same data. As a
    context manager it is started, and at the end stopped and its folder removed. It never outlives the process that
    started it.
    """

    name: ClassVar[str]
    start_deadline: ClassVar[float] = 60.0
    stop_deadline: float = 20.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self) -> None:
        self.host = LOOPBACK
        self.folder = Path(tempfile.mkdtemp(prefix=f"mgw-{self.name}-"))
        self.log = self.folder / "server.log"
        self._process: OwnedProcess | None = None
        self._prepared = False
        _servers.add(self)

    def prepare(self) -> None:
        """Write configuration and create the data store; called once, before the first start."""

    def command(self) -> Sequence[str]:
        """The program and its arguments; it must stay in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Environment of the server and of the tools that belong to it."""
        return dict(os.environ)

    def ready(self) -> bool:
        """Whether the server answers in its protocol; False or OSError while it does not yet."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """Process id of the running server; raises ServerFailed when it does not run."""
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running")
        return self._process.pid

    def freeze(self) -> None:
        """SIGSTOP; returns when every thread has stopped (on a busy machine some go on for a while)."""
        os.kill(self.pid, signal.SIGSTOP)
        tasks = Path(f"/proc/{self.pid}/task")
        eventually(
            lambda: all(_state(task) in "Tt" for task in tasks.iterdir()),
            what=f"{self.name} frozen",
            tolerate=(OSError,),
        )

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def running(self) -> bool:
        """Whether the server's process exists."""
        return self._process is not None and self._process.exit_code is None

    def start(self) -> Self:
        """Start and wait until ready; nothing happens when it runs already. Raises ServerFailed with the log's tail."""
        if self.running:
            return self
        if self._process is not None:
            self.kill()
        if not self._prepared:
            self.prepare()
            self._prepared = True
        self._process = OwnedProcess(
            self.command(), environment=self.environment(), log=self.log, folder=self.folder, remove_folder=True
        )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Orderly end (SIGTERM, or what the server takes as that); SIGKILL after ``stop_deadline`` seconds."""
        process, self._process = self._process, None
        if process is not None and not process.terminate(self.stop_signal, self.stop_deadline):
            raise ServerFailed(self._message(f"did not end within {self.stop_deadline:g} s of {self.stop_signal.name}"))

    def kill(self) -> None:
        """End it at once with SIGKILL, as a crash would; the data folder stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def restart(self) -> Self:
        """Stop if it runs, then start again: same ports, same data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop and remove the private folder; may be called twice."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            _servers.discard(self)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, command: Sequence[str], *, timeout: float = 60.0, stdin: IO[bytes] | None = None) -> str:
        """Run a tool of the server with its environment; returns standard output, raises ServerFailed on exit != 0."""
        try:
            result = subprocess.run(
                command,
                env=self.environment(),
                cwd=self.folder,
                stdin=stdin if stdin is not None else subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerFailed(f"{self.name}: {command[0]} failed: {error}") from error
        if result.returncode != 0:
            output = (result.stderr + result.stdout).strip()
            raise ServerFailed(f"{self.name}: {' '.join(command)} ended with {result.returncode}: {output}")
        return result.stdout

    def log_tail(self, lines: int = _LOG_TAIL_LINES) -> str:
        """The last lines of the server's log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _wait_until_ready(self, process: OwnedProcess) -> None:
        end = time.monotonic() + self.start_deadline
        problem = "no answer"
        while True:
            if process.exit_code is not None:
                raise ServerFailed(self._message(f"ended with exit code {process.exit_code} while starting"))
            try:
                if self.ready():
                    return
            except OSError as error:
                problem = str(error)
            if time.monotonic() > end:
                raise ServerFailed(self._message(f"not ready after {self.start_deadline:g} s: {problem}"))
            time.sleep(_PROBE_PAUSE)

    def _message(self, problem: str) -> str:
        return f"{self.name}: {problem}; the end of its log:\n{self.log_tail()}"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _descendants(pid: int) -> list[int]:
    """Children of children too: some servers put their workers into sessions of their own."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found.extend(child for child, its_parent in parents.items() if its_parent == parent)
    return found[1:]


# Strong references: a server that was stopped but never closed still has a folder to remove at the end.
_servers: set[Server] = set()


@atexit.register
def _close_all() -> None:
    for server in list(_servers):
        server.kill()
        with contextlib.suppress(Exception):
            server.close()
