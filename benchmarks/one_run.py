"""One run of one job by the checkout that is the working folder: a program of :mod:`benchmarks.against`.

Older checkouts do not have this file. So it is started by its path, imports nothing else of this folder, and uses only
what ``benchmarks.gateways`` has offered since the first of them. Argument: a JSON object; output: a JSON object.

``url`` names an empty database of a PostgreSQL server for the hub. The CPU time of ``server`` is told then, too: of the
server's first process and all that descend from it. A checkout needs ``BenchGateway(folder, url)`` for that.
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

    def freeze(self, quiet: Callable[[], bool]) -> None:
        """Stop it where it neither reads nor writes the hub, so that others can, and can empty the log."""
        end = time.monotonic() + DEADLINE
        os.kill(self._pid, signal.SIGSTOP)
        while not quiet():
            self.thaw()
            if time.monotonic() > end:
                raise TimeoutError(f"process {self._pid} does not leave the hub alone")
            time.sleep(0.1)
            os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._pid, signal.SIGCONT)

    def measured(self, count: Callable[[], int], total: int, server: int | None = None) -> dict[str, float]:
        """Let a frozen agent move everything; messages per second and microseconds of CPU for a message."""
        served = family_cpu(server)
        begun, spent = time.monotonic(), self.cpu()
        self.thaw()
        while (seen := count()) < total:
            if time.monotonic() > begun + DEADLINE:
                raise TimeoutError(f"{seen} of {total} messages arrived within {DEADLINE:.0f} s")
            time.sleep(0.02)
        result = {"rate": total / (time.monotonic() - begun), "cpu": (self.cpu() - spent) / total * 1e6}
        return result | ({"server": (family_cpu(server) - served) / total * 1e6} if server is not None else {})


def family_cpu(pid: int | None) -> float:
    """Seconds of a process, its children, and those of its children that have ended."""
    if pid is None:
        return 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = sum(_ticks(str(pid), 11, 12, 13, 14)) + sum(sum(_ticks(child, 11, 12)) for child in children)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: str, *places: int) -> list[int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # it has ended: its parent has its time
        return [0]
    return [int(fields[place]) for place in places]


def no_transaction(url: str) -> bool:
    """Whether nobody has a transaction open in the database; then its log is copied into its tables, too."""
    import psycopg

    with psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://"), autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL"
        # A vacuum of the server's own comes and goes.
        query += " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        row = connection.execute(query).fetchone()
        if row is None or row[0]:
            return False
        connection.execute("CHECKPOINT")
    return True


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
    folder, total, url = Path(order["folder"]), order["total"], order.get("url")
    gateway = BenchGateway(folder, url) if url else BenchGateway(folder)

    def quiet() -> bool:
        return no_transaction(url) if url else log_emptied(folder / "hub.db")

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
            agent.freeze(quiet)
            try:
                print("frozen", flush=True)
                sys.stdin.readline()  # a source that is a broker is filled now
                if not order["inbound"]:
                    gateway.fill("HUB", [body_of(number, order["body"]) for number in range(total)])
                if not quiet():
                    raise RuntimeError("somebody uses the hub of a frozen agent")
                return agent.measured(lambda: gateway.moved("job"), total, order.get("server"))
            finally:
                agent.thaw()
    finally:
        gateway.close()


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)
