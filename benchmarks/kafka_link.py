"""A Kafka link alone, without hub and agent: ``python -m benchmarks.kafka_link PATH [--rounds N]``.

What a message costs this checkout and the one at PATH, in turns on one broker: microseconds of CPU time of a process,
all threads, that converts, publishes, confirms and locates messages of 256 bytes (out), or reads them (in).
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve()
CASES = ((500, 40_000, 1), (30, 18_000, 1), (500, 40_000, 4))  # batch, messages, partitions
WINDOW = 8  # batches


def child(bootstrap: str, topic: str, batch: int, total: int) -> None:
    """One run by the checkout that is the working folder; prints both figures."""
    from mgw.links.contract import Domain, Endpoint, LinkConfig
    from mgw.links.registry import open_link
    from mgw.transforms.message import Message
    from tests.conformance.link_suite import use_of

    link = open_link(LinkConfig("kf", "KAFKA", {"bootstrap_servers": bootstrap}, {}))
    end = Endpoint("end", "kf", topic, Domain.TOPIC, {"KAFKA_StartAt": "earliest"})
    messages = [Message(b"x" * 256, msgid=os.urandom(16), enqueue_time=time.time()) for _ in range(batch)]
    destination = link.destination(replace(use_of(end), located=True))
    destination.connect()
    sent = done = 0

    def send(number: int) -> None:
        nonlocal sent, done
        last = sent + number
        while done < last:
            while sent < last and sent - done <= WINDOW:
                sent += 1
                destination.publish(sent, [destination.encode(message) for message in messages])
            confirmed = destination.confirmed(5.0) or done
            for sequence in range(done + 1, confirmed + 1):
                destination.located(sequence)
            done = confirmed

    send(total // batch // 5)
    gc.collect()
    gc.freeze()
    begun = time.process_time()
    send(total // batch)
    out = (time.process_time() - begun) / total * 1e6
    destination.close()
    source = link.source(use_of(replace(end, domain=None)))
    source.connect({})
    read, begun = 0, time.process_time()
    while read < total:
        read += len(source.read(batch, 1.0).deliveries)
    print(out, (time.process_time() - begun) / read * 1e6)
    source.close()


def main() -> None:
    """Measure both checkouts, and print a table."""
    from tests.support.brokers import Kafka

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, metavar="PATH", help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    chosen = parser.parse_args()
    print("| Direction | Batch | Partitions | CPU other, us/message | CPU this | this of other |")
    print("|---|---|---|---|---|---|")
    folders = {"other": chosen.other.resolve(), "this": HERE.parent.parent}
    with Kafka() as broker:
        for batch, total, partitions in CASES:
            found: dict[str, list[list[float]]] = {name: [] for name in folders}
            for number in range(chosen.rounds):
                for name, folder in folders.items():
                    topic = f"share-{batch}-{partitions}-{number}-{name}"
                    broker.create_topic(topic, partitions)
                    arguments = [broker.bootstrap, topic, str(batch), str(total)]
                    answer = subprocess.run(
                        [sys.executable, "-P", str(HERE), *arguments],
                        cwd=folder,
                        env=os.environ | {"PYTHONPATH": str(folder)},
                        check=True,
                        capture_output=True,
                        text=True,
                    )
                    found[name].append([float(each) for each in answer.stdout.split()])
            for index, direction in enumerate(("out", "in")):
                other, this = ([run[index] for run in found[name]] for name in folders)
                middle = statistics.median(this) / statistics.median(other)
                print(
                    f"| {direction} | {batch} | {partitions} | {_range(other)} | {_range(this)} | {middle:.2f} |",
                    flush=True,
                )


def _range(found: list[float]) -> str:
    return f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"


if __name__ == "__main__":
    if len(sys.argv) == 5:
        child(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
