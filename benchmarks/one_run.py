"""One run of one job by the checkout that is the working folder: a program of :mod:`benchmarks.against`.

Older checkouts do not have this file. So it is started by its path, imports nothing else of this folder, and uses only
what ``benchmarks.gateways`` has offered since the first of them. Argument: a JSON object; output: a JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gateways import BenchGateway

DEADLINE = 300.0
START = 4.0


class Agent:
    """A running agent, and the CPU time that it has used."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._clock = (~pid << 3) | 2  # of another process in nanoseconds, see clock_getcpuclockid(3)

    def cpu(self) -> float:
        """Seconds, all threads."""
        return time.clock_gettime(self._clock)

    def rest(self) -> None:
        """Wait until its start is over (it tidies its memory after 3 s) and it uses no more than 1 % of a core."""
        started = time.monotonic()
        before = self.cpu()
        while time.monotonic() < started + DEADLINE:
            time.sleep(0.5)
            now = self.cpu()
            if now - before < 0.005 and time.monotonic() > started + START:
                return
            before = now

    def freeze(self, file: Path) -> None:
        """Stop it where it neither reads nor writes the hub, so that others can, and can empty the log."""
        end = time.monotonic() + DEADLINE
        os.kill(self._pid, signal.SIGSTOP)
        while not log_emptied(file):
            self.thaw()
            if time.monotonic() > end:
                raise TimeoutError(f"process {self._pid} does not leave hub {file} alone")
            time.sleep(0.1)
            os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._pid, signal.SIGCONT)

    def measured(self, count: Callable[[], int], total: int) -> dict[str, float]:
        """Let a frozen agent move everything; messages per second and microseconds of CPU for a message."""
        begun, spent = time.monotonic(), self.cpu()
        self.thaw()
        while (seen := count()) < total:
            if time.monotonic() > begun + DEADLINE:
                raise TimeoutError(f"{seen} of {total} messages arrived within {DEADLINE:.0f} s")
            time.sleep(0.02)
        return {"rate": total / (time.monotonic() - begun), "cpu": (self.cpu() - spent) / total * 1e6}


def log_emptied(file: Path) -> bool:
    """Copy SQLite's write-ahead log into the hub, unless somebody reads or writes there.

    So all runs begin with a log of the same length: none.
    """
    hub = sqlite3.connect(file, timeout=0.5, isolation_level=None)
    try:
        (busy, _, _) = hub.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        return False
    finally:
        hub.close()
    return not busy


def body_of(number: int, size: int) -> bytes:
    """A body of ``size`` bytes that says which one it is."""
    return f"{number:012d}".encode() + b"x" * (size - 12)


def run(order: dict[str, Any]) -> dict[str, float]:
    """Define the job, connect it, fill its source while the agent is frozen, and measure.

    Nothing is in flight at the begin and at the end. A window that opens when some messages have moved would miss the
    work that was done for those in flight.
    """
    folder, total = Path(order["folder"]), order["total"]
    gateway = BenchGateway(folder)
    try:
        gateway.queue("HUB")
        gateway.link("there", order["kind"], order["place"], **order["link"])
        end = gateway.foreign("END", "there", order["name"], options=order["options"])
        ends = (end, "HUB") if order["inbound"] else ("HUB", end)
        gateway.job("job", "INBOUND" if order["inbound"] else "OUTBOUND", *ends, order["batch"])
        with gateway.running(*order["pinned"], sys.executable) as process:
            while not gateway.ready():
                time.sleep(0.05)
            agent = Agent(process.pid)
            agent.rest()
            agent.freeze(folder / "hub.db")
            try:
                print("frozen", flush=True)
                sys.stdin.readline()  # a source that is a broker is filled now
                if not order["inbound"]:
                    gateway.fill("HUB", [body_of(number, order["body"]) for number in range(total)])
                if not log_emptied(folder / "hub.db"):
                    raise RuntimeError("somebody uses the hub of a frozen agent")
                return agent.measured(lambda: gateway.moved("job"), total)
            finally:
                agent.thaw()
    finally:
        gateway.close()


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)
