"""What the conversion of one message costs, by type and by option: ``python -m benchmarks.conversion``; two minutes.

No broker and no hub: the maps between messages and what brokers send, and the steps of a job. Processor time of the
process, microseconds per message, the best of several rounds; beside it the ratio to a plain message of the same broker
and direction, the median of the rounds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mgw.gateway.definitions.parking_key import key_of
from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.message import Header, HeaderValue, Message, ValueType
from mgw.transforms.mqtt.topic import TopicTemplate
from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation
from mgw.transforms.trail import Trail

__all__ = ["main"]

NOW = 1_700_000_000.0
HEADERS = 10  # of a message that has some
_VALUES: Mapping[ValueType, HeaderValue] = {
    ValueType.TEXT: "a value of some length",
    ValueType.RAW: b"\x00\x01\x02\x03\x04\x05\x06\x07",
    ValueType.BOOLEAN: True,
    ValueType.BYTE: 7,
    ValueType.SHORT: 7000,
    ValueType.INTEGER: 70_000,
    ValueType.LONG: 7_000_000_000,
    ValueType.FLOAT: 1.5,
    ValueType.DOUBLE: 0.1,
    ValueType.DATE: NOW,
    ValueType.JSON: '[1,{"a":null}]',
    ValueType.DECIMAL: "12.50",
}
_BODY = json.dumps({"order": 4711, "account": "A-17", "amount": 12.5, "items": ["a", "b", "c"]})
_PLAIN = "plain: text of 76 bytes, no header"


class _Received(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    offset: int = 0
    timestamp_type: int = 0


def _messages() -> dict[str, Message]:
    """By name; the first is the plain one."""
    sent = Message(_BODY, msgid=bytes(16), enqueue_time=NOW - 1)
    found = {
        _PLAIN: sent,
        "body of 76 bytes, raw": replace(sent, body=_BODY.encode()),
        "no body": replace(sent, body=None),
    }
    for kind, value in _VALUES.items():
        headers = tuple(Header(f"name{number}", kind, value) for number in range(HEADERS))
        found[f"{HEADERS} headers, {kind.name}"] = replace(sent, headers=headers)
    return found


def _out_and_in(
    options: bool,
) -> dict[str, tuple[Callable[[Message], object], Callable[[Message], Callable[[], object]]]]:
    """For each broker what a message becomes, and what reads that back."""
    to_amqp, to_kafka = amqp.Rules(aq_properties=options), kafka.Rules(properties=options)
    to_mqtt = mqtt.Outbound(TopicTemplate("t"), aq_properties=options)
    to_envelope = mqtt.Outbound(TopicTemplate("t"), aq_properties=options, envelope=True)
    origin = kafka.origin_headers("t", 0)

    def amqp_in(message: Message) -> Callable[[], object]:
        content = amqp.encode(message, NOW, to_amqp)
        return lambda: amqp.decode(content.properties, content.body, b"", b"q", False, NOW, to_amqp)

    def kafka_in(message: Message) -> Callable[[], object]:
        record = kafka.to_record(message, to_kafka, NOW)
        received = _Received(record.value, record.key, tuple(record.headers), record.timestamp or -1)
        return lambda: kafka.from_record(received, origin, to_kafka, NOW)

    def mqtt_in(outbound: mqtt.Outbound, inbound: mqtt.Inbound) -> Callable[[Message], Callable[[], object]]:
        def reader(message: Message) -> Callable[[], object]:
            publish = mqtt.outbound(message, outbound, NOW)
            return lambda: mqtt.inbound(publish, inbound)

        return reader

    return {
        "RabbitMQ": (lambda message: amqp.encode(message, NOW, to_amqp), amqp_in),
        "Kafka": (lambda message: kafka.to_record(message, to_kafka, NOW), kafka_in),
        "MQTT 5": (
            lambda message: mqtt.outbound(message, to_mqtt, NOW),
            mqtt_in(to_mqtt, mqtt.Inbound(aq_properties=options)),
        ),
        "MQTT 3.1.1, envelope": (
            lambda message: mqtt.outbound(message, to_envelope, NOW),
            mqtt_in(to_envelope, mqtt.Inbound(aq_properties=options, envelope=True)),
        ),
    }


def _steps() -> dict[str, tuple[Callable[[Message], object], Message]]:
    """What jobs do with a message in addition."""
    sent = Message(_BODY, msgid=bytes(16), correlation="A-17")

    def step(definition: Mapping[str, object]) -> Callable[[Message], object]:
        return compile_transformation(TransformationDefinition.from_mapping("bench", dict(definition)))

    def builtin(name: str, **options: str) -> Callable[[Message], object]:
        return step({"function": f"mgw.transforms.builtin:{name}", "options": options})

    packed = replace(sent, body=gzip.compress(_BODY.encode()))
    event = {"source": "/bench", "type": "order"}
    return {
        "max_passes": (Trail("out", "00", 3), sent),
        "park_key: correlation": (key_of("correlation"), sent),
        "park_key: tab.user_data.account": (key_of("tab.user_data.account"), sent),
        "where: priority < 3": (step({"where": "priority < 3"}), sent),
        "set: a header from the JSON body": (step({"set": {"header.amount": "tab.user_data.amount * 2"}}), sent),
        "decompress: gzip": (
            step({"function": "mgw.transforms.builtin:decompress", "options": {"encoding": "gzip"}}),
            packed,
        ),
        "cloudevent: binary, of Kafka": (builtin("cloudevent", form="kafka", **event), sent),
        "cloudevent: structured": (builtin("cloudevent", form="structured", **event), sent),
    }


def _microseconds(work: Callable[[], object], messages: int) -> float:
    began = time.process_time()
    for _ in range(messages):
        work()
    return (time.process_time() - began) / messages * 1e6


def _row(name: str, works: Mapping[str, Callable[[], object]], rounds: int, messages: int) -> None:
    """A table: each work, its best, and the ratio to the first, the median of rounds."""
    print(f"\n| {name} | us/message | ratio |\n|---|---|---|")
    taken: dict[str, list[float]] = {each: [] for each in works}
    for _ in range(rounds):
        for each, work in works.items():
            taken[each].append(_microseconds(work, messages))
    first = next(iter(taken.values()))
    for each, times in taken.items():
        ratios = sorted(one / other for one, other in zip(times, first, strict=True))
        print(f"| {each} | {min(times):.2f} | {ratios[len(ratios) // 2]:.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2000, help="a round (2000)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts (5)")
    given = parser.parse_args()
    messages = _messages()
    for broker, (write, reader) in _out_and_in(False).items():
        option, option_reader = _out_and_in(True)[broker]
        out: dict[str, Callable[[], object]] = {name: partial(write, message) for name, message in messages.items()}
        out["plain, AQ_MsgProperties"] = partial(option, messages[_PLAIN])
        _row(f"to {broker}", out, given.rounds, given.messages)
        back = {name: reader(message) for name, message in messages.items()}
        back["plain, AQ_MsgProperties"] = option_reader(messages[_PLAIN])
        _row(f"from {broker}", back, given.rounds, given.messages)
    kept = amqp.Rules()
    steps: dict[str, Callable[[], object]] = {"plain, to RabbitMQ": partial(amqp.encode, messages[_PLAIN], NOW, kept)}
    steps |= {name: partial(step, message) for name, (step, message) in _steps().items()}
    _row("steps of a job", steps, given.rounds, given.messages)


if __name__ == "__main__":
    main()
