"""Rates, latencies, and the machine they were measured on."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Latency", "body_of", "latency_of", "machine", "processor", "rate_of", "sync_seconds"]

_HEAD_SHARE = 0.1  # start-up and connecting are not part of a rate


def rate_of(count: Callable[[], int], total: int, *, deadline: float = 180.0) -> float:
    """Messages per second between the first tenth and the last message to arrive.

    ``count`` says how many have arrived. Raises TimeoutError when they do not all come.
    """
    end = time.monotonic() + deadline
    started: tuple[float, int] | None = None
    while True:
        seen, now = count(), time.monotonic()
        if started is None and seen >= total * _HEAD_SHARE:
            started = (now, seen)
        if seen >= total:
            begun, head = started or (now, seen)
            return (total - head) / max(now - begun, 1e-9)
        if now > end:
            raise TimeoutError(f"{seen} of {total} messages arrived within {deadline:.0f} s")
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from publishing to arrival."""

    median: float
    p99: float


def latency_of(seconds: Sequence[float]) -> Latency:
    """Median and 99th percentile of samples in seconds."""
    ordered = sorted(seconds)
    return Latency(statistics.median(ordered) * 1000, ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000)


def body_of(size: int, number: int) -> bytes:
    """A body of ``size`` bytes that says which one it is."""
    return f"{number:012d}".encode() + b"x" * (size - 12)


def processor() -> str:
    """The model of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def machine() -> str:
    """The machine in one line."""
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {processor()}, {system}"


def sync_seconds(folder: Path, times: int = 50) -> float:
    """Median time of one fdatasync of 4 KiB on the hub's disk."""
    samples = []
    with (folder / "sync-probe").open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append(time.perf_counter() - begun)
    (folder / "sync-probe").unlink()
    return statistics.median(samples)
