"""What a SIGKILL under full load repeats on jobs that are at-least-once: ``python -m benchmarks.kills [--rounds 2]``.

From a queue of the hub to a queue of RabbitMQ, and the other way, without logs. Every round kills the agent four times
while batches are as large as they get and more waits than it can carry meanwhile. What is counted are the messages that
the next run has to send once more, or that RabbitMQ delivers again although the hub has them.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.measuring import machine
from benchmarks.recorded import Recorder
from tests.faults.test_narrow_window import killed_under_load, planned
from tests.support.brokers import RabbitMQ
from tests.support.rabbitmq_kills import KilledGateway, killed_gateway
from tests.support.waiting import eventually

__all__ = ["main"]

WHAT = "SIGKILL under full load"


def outbound(killed: KilledGateway, rng: random.Random) -> Sequence[int]:
    """Messages that may have been sent and are not completed, at each kill."""
    killed.define("OUTBOUND", batch=30)
    _, windows = killed_under_load(
        killed.gateway, killed.enqueue, killed.start, killed.stop, lambda: planned(killed.gateway, killed.job), rng
    )
    return windows


def inbound(killed: KilledGateway, rng: random.Random) -> Sequence[int]:
    """Messages that are in the hub and in the queue, too, after each kill."""
    killed.define("INBOUND", batch=30)
    total = [0]

    def put(more: list[bytes]) -> None:
        killed.publish([(body, None) for body in more])
        total[0] += len(more)

    def repeated() -> int:
        with killed.channel() as channel:
            eventually(lambda: channel.queue_declare(killed.queue, passive=True).method.consumer_count == 0)
        return len(set(killed.stored())) + killed.waiting() - total[0]

    return killed_under_load(killed.gateway, put, killed.start, killed.stop, repeated, rng)[1]


WAYS: dict[str, Callable[[KilledGateway, random.Random], Sequence[int]]] = {"out of": outbound, "into": inbound}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    recorder, rng = Recorder("kills"), random.Random()
    with RabbitMQ() as broker:
        for way, kill in WAYS.items():
            for _ in range(arguments.rounds):
                with tempfile.TemporaryDirectory() as folder, killed_gateway(broker, Path(folder)) as killed:
                    windows = kill(killed, rng)
                print(f"{way} the hub: repeated {', '.join(map(str, windows))}", flush=True)
                recorder.add(WHAT, "gateway", "repeated", *windows)
                recorder.add(WHAT, f"gateway, {way} the hub", "repeated", *windows)
    recorder.part().write()


if __name__ == "__main__":
    main()
