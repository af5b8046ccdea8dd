"""What is fed, made from a fixed seed, and what of it the audit is given."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["READINGS", "TELEMETRY", "Fed", "make_data", "write_fed"]

TELEMETRY, READINGS = "plant.telemetry", "readings"  # the topics where everything arrives
MACHINES = tuple(f"press-{number:02d}" for number in range(1, 9))
OVENS = tuple(f"oven-{number}" for number in range(1, 6))


@dataclass(frozen=True, slots=True)
class Fed:
    """Lines for mosquitto_pub (by machine) and for amqp-publish, in the order in which they are sent."""

    telemetry: dict[str, list[str]] = field(default_factory=dict)
    readings: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """How many in all."""
        return sum(map(len, self.telemetry.values())) + len(self.readings)


def make_data(messages: int, *, seed: int = 20261122) -> Fed:
    """About half of the messages for each flow, ``messages`` in all."""
    chance = random.Random(seed)
    fed = Fed()
    readings = messages // 2
    for at, machine in enumerate(MACHINES):
        share = (messages - readings) // len(MACHINES) + (at < (messages - readings) % len(MACHINES))
        fed.telemetry[machine] = [
            f'{{"machine":"{machine}","seq":{number},"temperature":{chance.uniform(55, 90):.1f},'
            f'"pressure":{chance.gauss(180, 6):.1f}}}'
            for number in range(share)
        ]
    for number in range(readings):
        oven = OVENS[number % len(OVENS)]
        fed.readings.append(f'{{"machine":"{oven}","seq":{number},"celsius":{chance.uniform(150, 250):.1f}}}')
    return fed


def write_fed(fed: Fed, path: Path) -> None:
    """What was sent as a Parquet file, a row per message: machine, number, body, byte for byte."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [(machine, at, line) for machine, lines in fed.telemetry.items() for at, line in enumerate(lines)]
    # amqp-publish sends each line with its line feed.
    rows += [(OVENS[number % len(OVENS)], number, f"{line}\n") for number, line in enumerate(fed.readings)]
    machine, seq, body = zip(*rows, strict=True)
    table = pa.table({"machine": machine, "seq": seq, "body": [text.encode() for text in body]})
    pq.write_table(table, path)
