"""Many callers of the web face at once, good and bad ones: ``python -m tests.support.web_load PORT SECONDS [CALLERS]``.

Good callers ask one question after the other on a connection that stays open. Bad ones read nothing of what they asked
for, leave in the middle of a request or an answer, send bodies that are too large or are no HTTP, or open connections
and say nothing.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from tests.support.ports import LOOPBACK

__all__ = ["GOOD", "Load", "load"]

GOOD = ("/livez", "/readyz", "/healthz?max_age=3600", "/metrics", "/version", "/openapi.json", "/api/v1/session")
_BODY = 17 << 20  # more than is taken
_PATIENCE = 30.0  # seconds for one answer


@dataclass
class Load:
    """What came of it.

    Attributes:
        statuses: of the answers that good callers got.
        seconds: that each of those took.
        refused: answers that bad callers got, by status.
        lost: connections of good callers that ended without an answer.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)
    lost: int = 0

    def quantile(self, part: float) -> float:
        """So many seconds at most for that part of the answers; 0 where there is none."""
        ordered = sorted(self.seconds) or [0.0]
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


async def _answer(reader: asyncio.StreamReader) -> int:
    """The status of an answer, which is read to its end; 0: the connection ended."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


async def _good(port: int, end: float, chance: random.Random, found: Load) -> None:
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            found.lost += 1
            await asyncio.sleep(0.1)
            continue
        try:
            while time.monotonic() < end:
                begun = time.monotonic()
                writer.write(f"GET {chance.choice(GOOD)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                async with asyncio.timeout(_PATIENCE):
                    status = await _answer(reader)
                found.statuses[status] += 1
                found.seconds.append(time.monotonic() - begun)
                await asyncio.sleep(chance.uniform(0.5, 1.5) if status == 200 else 2.0)
                if status != 200:
                    break  # which ends the connection
        except (OSError, asyncio.IncompleteReadError):
            found.lost += 1
        finally:
            writer.close()


async def _bad(port: int, end: float, chance: random.Random, found: Load) -> None:
    while time.monotonic() < end:
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                await _misbehave(reader, writer, chance, found)
            finally:
                writer.transport.abort()
        await asyncio.sleep(chance.uniform(0.0, 0.5))


async def _misbehave(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random, found: Load
) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    match chance.randrange(6):
        case 0:  # reads nothing
            writer.write(request * 50)
            await asyncio.sleep(1.0)
        case 1:  # leaves in the middle of its request
            writer.write(request[: chance.randrange(1, len(request))])
            await writer.drain()
        case 2:  # leaves in the middle of the answer
            writer.write(request)
            await reader.read(100)
        case 3:  # sends too much
            writer.write(b"PUT /api/v1/users/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % _BODY)
            async with asyncio.timeout(_PATIENCE):
                found.refused[await _answer(reader)] += 1
        case 4:  # is no HTTP
            writer.write(chance.randbytes(200) + b"\r\n\r\n")
            async with asyncio.timeout(_PATIENCE):
                found.refused[await _answer(reader)] += 1
        case _:  # says nothing for a while
            await asyncio.sleep(1.0)


async def _run(port: int, seconds: float, good: int, bad: int, seed: int) -> Load:
    found, end = Load(), time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for number in range(good):
            group.create_task(_good(port, end, random.Random(f"{seed} good {number}"), found))
        for number in range(bad):
            group.create_task(_bad(port, end, random.Random(f"{seed} bad {number}"), found))
    return found


def load(port: int, seconds: float, *, good: int = 200, bad: int = 20, seed: int = 0) -> Load:
    """Ask for so many seconds.

    Raises:
        ExceptionGroup: of a TimeoutError: an answer took longer than half a minute.
    """
    return asyncio.run(_run(port, seconds, good, bad, seed))


def main() -> None:
    """Print what came of it."""
    good = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    found = load(int(sys.argv[1]), float(sys.argv[2]), good=good, bad=good // 10, seed=int(time.time()))
    told = {
        "answers": len(found.seconds),
        "statuses": dict(found.statuses),
        "median_ms": round(1000 * found.quantile(0.5), 1),
        "p99_ms": round(1000 * found.quantile(0.99), 1),
        "max_ms": round(1000 * found.quantile(1.0), 1),
        "refused": dict(found.refused),
        "lost": found.lost,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
