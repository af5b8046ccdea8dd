"""The first half of the demonstration: the plant's messages, really bridged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.demo import feed
from tests.demo.plant import GatewayProcess, Plant
from tests.demo_spark.data import READINGS, TELEMETRY, Fed

__all__ = ["CONFIGURATION", "MOSQUITTO", "Bridged", "bridge", "make_queues"]

CONFIGURATION = Path(__file__).with_name("gateway.yaml")
#: Mosquitto writes all it holds to disk: after each change is for tests with few messages.
MOSQUITTO = ("autosave_interval 1800", "autosave_on_changes false")
DEADLINE = 600.0  # seconds until everything must have arrived


@dataclass(frozen=True, slots=True)
class Bridged:
    """How it went: seconds from the first message to the last confirmation, and the last rows of MGW_JOBS."""

    seconds: float
    jobs: Sequence[dict[str, Any]]


def make_queues(place: Plant) -> None:
    """What must exist before the gateway comes."""
    with contextlib.closing(place.amqp()) as connection:
        connection.channel().queue_declare("readings", durable=True)
    for topic in (TELEMETRY, READINGS):
        place.kafka.create_topic(topic, partitions=1)


def bridge(place: Plant, fed: Fed, show: Callable[[Sequence[dict[str, Any]]], None]) -> Bridged:
    """Run the gateway, feed everything, wait until Kafka has confirmed it all; ``show`` is given MGW_JOBS now and then.

    Raises:
        RuntimeError: the gateway ended, or not everything arrived in time.
    """
    wanted = {"TELEMETRY_TO_KAFKA": sum(map(len, fed.telemetry.values())), "READINGS_TO_KAFKA": len(fed.readings)}
    gateway = GatewayProcess(place)
    try:
        _wait(place, gateway, _connected, show)
        began = time.monotonic()
        with ThreadPoolExecutor(len(fed.telemetry) + 1) as pool:
            feeds = [
                pool.submit(feed.mosquitto_publish, place.mosquitto, f"plant/{machine}/telemetry", lines)
                for machine, lines in fed.telemetry.items()
            ]
            feeds.append(pool.submit(feed.publish_lines, place.rabbitmq, "readings", fed.readings))
            _wait(place, gateway, lambda rows: _moved(rows, wanted), show)
            seconds = time.monotonic() - began
            for each in feeds:
                each.result()
        rows = _wait(place, gateway, _resting, show)
    finally:
        code = gateway.stop()
    if code != 0:
        raise RuntimeError(f"the gateway stopped with exit code {code}")
    return Bridged(seconds, rows)


def _wait(
    place: Plant,
    gateway: GatewayProcess,
    done: Callable[[Sequence[dict[str, Any]]], bool],
    show: Callable[[Sequence[dict[str, Any]]], None],
) -> Sequence[dict[str, Any]]:
    """The rows of MGW_JOBS with which it was done."""
    deadline = time.monotonic() + DEADLINE
    while True:
        rows = place.jobs()
        show(rows)
        if done(rows):
            return rows
        gateway.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done within {DEADLINE:.0f} s: {rows}")
        time.sleep(0.5)


def _connected(rows: Sequence[dict[str, Any]]) -> bool:
    return bool(rows) and all(row["ACTIVITY"] in {"RUNNING", "IDLE"} and row["GUARANTEE"] for row in rows)


def _resting(rows: Sequence[dict[str, Any]]) -> bool:
    """What waits at a broker is counted now and then, and when a job has come to rest."""
    return all(row["ACTIVITY"] == "IDLE" and not row["BACKLOG"] for row in rows)


def _moved(rows: Sequence[dict[str, Any]], wanted: dict[str, int]) -> bool:
    moved = {row["JOB_NAME"]: row["PROPAGATED_MSGS"] for row in rows}
    return all(moved.get(job, 0) >= count for job, count in wanted.items())
