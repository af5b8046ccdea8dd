"""The command ``mgw`` in a process of its own that need not start Python anew.

Of a second of processor time that a short command takes, most goes into imports. One process here imports what the
commands import and then only forks: each command is a fork of it with its own arguments, folder, variables and files,
and ends as Python ends. What depends on a start (variables of Python, of the locale, another command line) is started.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.waiting import eventually

__all__ = ["ReadyMade"]

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("gateway", "gateway.cli", "gateway.aq", "gateway.admin", "gateway.config", "gateway.catalog")
_DAEMON = {"gateway.__main__"}
#: What commands import when they need it.
_LATER = ("cryptography.fernet", "links.memory", "rich.table", "sqlglot.dialects.oracle", "typer._adapters")
_START = 60.0


class ReadyMade:
    """Commands forked from one process, which begins with the first of them and ends with this one.

    Args:
        environment: variables of that process; those of a command may differ from them in what Python does not read
            when it starts.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._folder = tempfile.TemporaryDirectory(prefix="mgw-ready-")
        self._address = str(Path(self._folder.name) / "socket")
        self._process: subprocess.Popen[bytes] | None = None

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a command with these variables may be a fork: none of them decides how Python starts."""
        changed = dict(environment.items() ^ self._environment.items())
        return not any(name.startswith(("PYTHON", "LC_", "LANG", "TZ", "LD_")) for name in changed)

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: bytes, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code (negative: the signal), standard output and standard error of one command.

        Raises:
            subprocess.TimeoutExpired: it took longer than ``timeout`` seconds, and was killed.
        """
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            source.write(given)
            source.seek(0)
            with self._connect() as connection:
                connection.settimeout(timeout)
                request = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
                files = [source.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(connection, [len(request).to_bytes(4, "big")], files)
                connection.sendall(request)
                answers = connection.makefile("r")
                pid = int(answers.readline())
                try:
                    code = int(answers.readline())
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(list(words), timeout) from None
                finally:
                    answers.close()
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
            eventually(lambda: Path(self._address).exists(), deadline=_START, what="the process that forks commands")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        return connection


def _serve(address: str, parent: int) -> list[str]:
    """Fork for every command; returns, in the fork, its arguments."""
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _DAEMON:
                importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
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
                words = _fork(connection, server)
            if words is not None:
                return words
    os._exit(0)


def _fork(connection: socket.socket, server: socket.socket) -> list[str] | None:
    """None where this is not the command; the one that waits for it does not return."""
    if os.fork():
        return None
    server.close()
    connection.settimeout(None)
    head, files, _, _ = socket.recv_fds(connection, 4, 3)
    request = json.loads(_receive(connection, int.from_bytes(head, "big")))
    pid = os.fork()
    if pid:
        connection.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # who asked has gone
            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    words: list[str] = request["words"]
    return words


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("who asked for a command has gone")
        data += part
    return data


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    arguments = _serve(sys.argv[1], int(sys.argv[2]))
    from gateway.cli import main as command

    sys.argv = [str(command.__file__), *arguments]
    command.main()
