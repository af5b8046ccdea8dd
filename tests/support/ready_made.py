"""Processes of Python that need not start Python anew: the command ``mgw``, an agent.

Of a second of processor time that a short command takes, most goes into imports. One process here imports what such
processes import and then only forks: each of them is a fork with its own arguments, folder, variables and files. It
ends as Python ends, or is killed as any process is; it is killed, too, when the tests are. Each set of variables that
decide how Python starts has a forking process of its own. What else depends on a start (another command line, an
inherited limit) needs :mod:`subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn, Protocol

import sqlalchemy

from tests.support.waiting import eventually

__all__ = ["Process", "ready_made", "start_module"]

ROOT = Path(__file__).resolve().parents[2]
#: An agent needs links. Their clients warn about themselves, so not where a warning is an error.
_PACKAGES = ("mgw.gateway", "mgw.links")
#: What commands import when they need it.
_LATER = ("cryptography.fernet", "mgw.links.memory.link", "rich.table", "sqlglot.dialects.oracle", "typer._adapters")
#: What Python reads when it starts, and a fork can read as well.
_SEEN_TO = frozenset({"PYTHONPATH", "TZ"})
_START = 60.0
_PDEATHSIG = 1  # prctl(2)


class Process(Protocol):
    """What a process of :mod:`subprocess` can do, too."""

    pid: int

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Exit code; raises subprocess.TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Nothing happens when it has ended."""

    def kill(self) -> None:
        """SIGKILL."""


class _Forked:
    """A process that was forked; the fork's parent reaps it and tells how it ended."""

    def __init__(self, words: Sequence[str], connection: socket.socket) -> None:
        self._words = list(words)
        self._connection = connection
        self._said = b""
        self._code: int | None = None
        connection.settimeout(_START)
        while b"\n" not in self._said:
            self._said += self._receive()
        pid, self._said = self._said.split(b"\n", 1)
        self.pid = int(pid)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            if self._said.endswith(b"\n"):  # it may have ended before its id was read
                self._code = int(self._said)
                self._connection.close()
                break
            self._connection.settimeout(None if end is None else max(end - time.monotonic(), 0))
            try:
                self._said += self._receive()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self._words, timeout or 0) from None
        return self._code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _receive(self) -> bytes:
        data = self._connection.recv(64)
        if not data:
            raise ConnectionError("the process that forks has gone")
        return data

    def __del__(self) -> None:
        self._connection.close()


class ReadyMade:
    """Processes forked from one, which begins with the first of them and ends with this one.

    Args:
        environment: variables of that process; those of a fork may differ from them in what Python does not read when
            it starts.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._folder = tempfile.TemporaryDirectory(prefix="mgw-ready-")
        self._address = str(Path(self._folder.name) / "socket")
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        module: str,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        files: tuple[IO[bytes], IO[bytes], IO[bytes]],
        own_session: bool = False,
    ) -> Process:
        """``python -m module words`` with these files as standard input, output and error."""
        connection = self._connect()
        try:
            connection.settimeout(_START)
            told = {"module": module, "words": list(words), "cwd": str(cwd), "env": dict(env), "own": own_session}
            request = json.dumps(told).encode()
            socket.send_fds(connection, [len(request).to_bytes(4, "big")], [file.fileno() for file in files])
            connection.sendall(request)
            return _Forked([module, *words], connection)
        except BaseException:
            connection.close()
            raise

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: bytes, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code (negative: the signal), standard output and standard error of one command of ``mgw``.

        Raises:
            subprocess.TimeoutExpired: it took longer than ``timeout`` seconds, and was killed.
        """
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            source.write(given)
            source.seek(0)
            process = self.start("mgw.gateway", words, cwd=cwd, env=env, files=(source, out, err))
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def close(self) -> None:
        """End the process that forks."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _connect(self) -> socket.socket:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, self._address, str(os.getpid())], cwd=ROOT, env=self._environment
            )
            eventually(lambda: Path(self._address).exists(), deadline=_START, what="the process that forks")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        return connection


_made: dict[frozenset[tuple[str, str]], ReadyMade] = {}


def ready_made(environment: Mapping[str, str]) -> ReadyMade:
    """The process that forks for commands with these variables; one for each way in which Python may start."""
    starts = ("PYTHON", "LC_", "LANG", "LD_")
    without = {name: value for name, value in environment.items() if name not in _SEEN_TO}
    deciding = frozenset((name, value) for name, value in without.items() if name.startswith(starts))
    if deciding not in _made:
        _made[deciding] = ReadyMade(without)
        atexit.register(_made[deciding].close)
    return _made[deciding]


def start_module(
    *command: str,
    log: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    own_session: bool = False,
) -> Process:
    """``python -m`` with a module and its words, its output appended to ``log``; ``folder``: default: ours."""
    module, *words = command
    path = os.pathsep.join(dict.fromkeys(filter(None, (str(ROOT), environment.get("PYTHONPATH")))))
    variables = {**environment, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    with log.open("ab") as sink, open(os.devnull, "rb") as nothing:
        return ready_made(variables).start(
            module, words, cwd=folder or Path.cwd(), env=variables, files=(nothing, sink, sink), own_session=own_session
        )


def _serve(address: str, parent: int) -> tuple[str, list[str]]:
    """Fork for every request; returns, in the fork, the module and its arguments."""
    careful = os.environ.get("PYTHONWARNINGS") == "error"
    for package in _PACKAGES[:1] if careful else _PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    program = importlib.import_module("mgw.gateway.cli.main")
    program.command(program.app)
    with sqlalchemy.create_engine(
        "sqlite://"
    ).connect() as connection:  # patterns and events that are made at first use
        connection.exec_driver_sql("SELECT 1")
    gc.freeze()  # pages that no collection touches stay common to all forks
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{address}.new")
    server.listen()
    os.rename(f"{address}.new", address)
    server.settimeout(1.0)
    while os.getppid() == parent:
        _reap()
        with contextlib.suppress(TimeoutError):
            connection, _ = server.accept()
            with connection:
                wanted = _fork(connection, server)
            if wanted is not None:
                return wanted
    os._exit(0)


def _fork(connection: socket.socket, server: socket.socket) -> tuple[str, list[str]] | None:
    """None where this is not the process that was asked for; the one that waits for it does not return."""
    forking = os.getpid()
    if os.fork():
        return None
    _end_with(forking)
    server.close()
    connection.settimeout(None)
    head, files, _, _ = socket.recv_fds(connection, 4, 3)
    request = json.loads(_receive(connection, int.from_bytes(head, "big")))
    waiting = os.getpid()
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        connection.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # who asked has gone
            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    _end_with(waiting)
    if request["own"]:
        os.setsid()
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    _find_modules_as_told(request["cwd"])
    return request["module"], request["words"]


def _find_modules_as_told(folder: str) -> None:
    """The search path as Python makes it for ``-m``; the process that forks was told of no folders."""
    told = os.environ.get("PYTHONPATH")
    folders = map(os.path.abspath, told.split(os.pathsep)) if told else ()
    sys.path[:] = [folder, *dict.fromkeys((*folders, *sys.path[1:]))]


def _end_with(parent: int) -> None:
    """Have the system kill this process when its parent has ended: a run that is cut off leaves nothing behind."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("who asked for a process has gone")
        data += part
    return data


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(module: str) -> int:
    """The exit code of a module that is run as ``python -m`` runs it."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int) or end.code is None:
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as Python does, but leave the freeing of what all forks have in common to the kernel: it takes 70 ms."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what was left open says so
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    wanted_module, arguments = _serve(sys.argv[1], int(sys.argv[2]))
    sys.argv = [wanted_module, *arguments]
    sys.orig_argv = [sys.executable, "-m", wanted_module, *arguments]
    _end(_run(wanted_module))
