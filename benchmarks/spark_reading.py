"""Readings of Spark's, by turns, in a process of its own: prints the rows of each in a second, and the memory, as JSON.

Started by :mod:`benchmarks.spark` with one JSON argument.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Measure what the argument says."""
    from pyspark.sql import SparkSession

    from mgw.pipelines.datasource import register

    what = json.loads(sys.argv[1])
    # Java and Python would share the work among all cores, however few Spark is told to use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: what["cores"]])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{what['cores']}]").appName("benchmark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": ":".join(f"{folder}/*" for folder in what["jars"]),
        "spark.sql.shuffle.partitions": "2",
        "spark.python.authenticate.socketTimeout": "120s",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    readings = what["readings"]
    best = [0.0] * len(readings)
    with Memory(watching=not what["rounds"]) as memory:  # watching costs time
        for number in range(what["rounds"] + 1):  # the first round warms up
            for place, reading in enumerate(readings):
                spent = _cpu(os.getpid())
                if reading["streams"]:  # they consume what the batches read
                    rate = _stream(spark, reading) if number == what["rounds"] else 0.0
                else:
                    rate = _batch(spark, reading, checked=number == 0)
                    if number == 0 and what["rounds"]:
                        continue
                best[place] = max(best[place], rate)
                if rate:
                    spent = _cpu(os.getpid()) - spent
                    print(f"{reading['label']}: {rate:,.0f}/s, {spent:.2f} s CPU", file=sys.stderr, flush=True)
    spark.stop()
    print(json.dumps({"rates": best, "mb": memory.peak >> 20}))


def _batch(spark: Any, reading: dict[str, Any], *, checked: bool) -> float:
    frame = spark.read.format(reading["format"]).options(**reading["options"]).load()
    if checked and frame.count() != reading["rows"]:
        raise RuntimeError(f"not {reading['rows']} rows: {reading}")
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return float(reading["rows"] / (time.perf_counter() - begun))


def _stream(spark: Any, reading: dict[str, Any]) -> float:
    """Of every batch but the first, which warms up."""
    frame = spark.readStream.format(reading["format"]).options(**reading["options"]).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        done = [(each["numInputRows"], each["durationMs"]["triggerExecution"]) for each in query.recentProgress][1:]
    return float(sum(rows for rows, _ in done) * 1000 / sum(milliseconds for _, milliseconds in done))


class Memory:
    """The most that this process and all below it have in memory together, looked at ten times a second."""

    def __init__(self, *, watching: bool) -> None:
        self._watching = watching
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        if self._watching:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._watching:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, _proportional(os.getpid()))


def _family(root: int) -> list[int]:
    """A process and its descendants."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def _proportional(root: int) -> int:
    """Bytes of a process and its descendants; pages they share count once."""
    total = 0
    for process in _family(root):
        with suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def _cpu(root: int) -> float:
    """Seconds of processor time of a process and its descendants, those that ended as well."""
    total = 0
    for process in _family(root):
        with suppress(OSError):
            total += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
