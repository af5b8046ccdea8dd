"""The plant's data set: made from a fixed seed, the same on every machine."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

__all__ = ["ALARM_TEMPERATURE", "Command", "DataSet", "Order", "make_data"]

ALARM_TEMPERATURE = 80
MACHINES = tuple(f"press-{number:02d}" for number in range(1, 9))


@dataclass(frozen=True, slots=True)
class Order:
    """An order for the plant: AMQP priority (9 is the most urgent), customer as correlation, JSON body."""

    priority: int
    customer: str
    body: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command for one machine: the Kafka header ``device`` says which."""

    device: str
    body: str


@dataclass(frozen=True, slots=True)
class DataSet:
    """Everything that is fed."""

    telemetry: dict[str, list[str]] = field(default_factory=dict)  # machine -> JSON bodies, in order
    orders: list[Order] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    readings: list[str] = field(default_factory=list)
    poison: list[str] = field(default_factory=list)  # those of the readings that are no readings


def make_data(*, seed: int = 20261120, machines: int = 8, per_machine: int = 300) -> DataSet:
    """The data set; ``seed`` fixes every byte of it."""
    chance = random.Random(seed)
    data = DataSet()
    for machine in MACHINES[:machines]:
        temperature = chance.uniform(55, 70)
        rows = data.telemetry[machine] = []
        for number in range(per_machine):
            temperature += chance.gauss(0, 1.5) + (0.25 if temperature < 75 else -0.3)
            row = {
                "machine": machine,
                "seq": number,
                "temperature": round(temperature, 1),
                "pressure": round(chance.gauss(180, 6), 1),
                "state": chance.choice(("run", "run", "run", "idle", "set-up")),
            }
            rows.append(json.dumps(row, separators=(",", ":")))
    for number in range(240):
        priority = chance.choices((0, 4, 7, 9), (70, 20, 7, 3))[0]
        body = {
            "order": f"PO-{4000 + number}",
            "part": f"bracket-{chance.randint(1, 9)}",
            "quantity": chance.randint(1, 500),
        }
        data.orders.append(
            Order(priority, f"customer-{chance.randint(1, 20)}", json.dumps(body, separators=(",", ":")))
        )
    for number in range(400):
        device = chance.choice(MACHINES[:machines])
        body = {"command": chance.choice(("start", "stop", "slower", "faster")), "number": number}
        data.commands.append(Command(device, json.dumps(body, separators=(",", ":"))))
    for number in range(600):
        if number % 50 == 17:
            body_text = chance.choice(("sensor offline", "<reading/>", "{broken json"))
            body_text = f"{body_text} #{number}"
            data.poison.append(body_text)
        else:
            row = {"sensor": f"oven-{number % 5}", "number": number, "fahrenheit": round(chance.uniform(300, 480), 1)}
            body_text = json.dumps(row, separators=(",", ":"))
        data.readings.append(body_text)
    return data
