"""What the benchmark asks of everything that moves messages: the gateway and its peers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks import processes
from benchmarks.ends import End

__all__ = ["InProcess", "Missing", "Motion", "Mover", "Way", "in_process"]


class Missing(Exception):
    """A mover can not run here; the text says in one line why."""


@dataclass(frozen=True, slots=True)
class Way:
    """A route of one run: from a queue or topic of one system to one of another."""

    route: str  # its name in the tables
    source: End
    target: End
    here: str  # queue or topic
    there: str
    folder: Path  # of this run


class Motion(Protocol):
    """A mover that runs."""

    #: The roots of its process trees; none when it works inside a broker.
    pids: Sequence[int] = ()

    def freeze(self) -> None:
        """Move nothing more for now."""

    def thaw(self) -> None:
        """Go on."""

    def log(self) -> str:
        """The end of what it said, for an error."""


class Mover(Protocol):
    """Something that moves messages."""

    name: str

    def version(self) -> str:
        """Of the program that runs; empty when that is a broker.

        Raises:
            Missing: it is not there and can not be built.
        """

    def can(self, source: End, target: End) -> bool:  # noqa: ARG002
        """Whether it has such routes."""
        return True

    def names(self, number: int) -> tuple[str, str]:
        """Source and destination of a run."""
        return f"from-{number}", f"to-{number}"

    def moving(self, way: Way) -> AbstractContextManager[Motion]:
        """Move messages for the length of the block."""


class InProcess(Motion):
    """A motion that is a process of its own."""

    def __init__(self, pid: int, file: Path) -> None:
        self.pids = (pid,)
        self._file = file

    def freeze(self) -> None:
        """Stop it."""
        processes.freeze(*self.pids)

    def thaw(self) -> None:
        """Let it go on."""
        processes.thaw(*self.pids)

    def log(self) -> str:
        """The end of its output."""
        return self._file.read_text(errors="replace")[-3000:] if self._file.exists() else ""


@contextmanager
def in_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[InProcess]:
    """Run a program for the length of the block; its output is kept in the folder."""
    file = folder / "peer.log"
    with (
        file.open("wb") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        ) as process,
    ):
        motion = InProcess(process.pid, file)
        try:
            yield motion
        finally:
            if process.poll() is None:
                motion.thaw()
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
