"""Feeding and reading back with clients that this project did not write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.demo.data import Command, Order
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ

__all__ = [
    "END",
    "amqp_read",
    "curl_orders",
    "kafka_produce_commands",
    "kafka_read",
    "mosquitto_publish",
    "mosquitto_subscribe",
    "publish_lines",
]

END = "<end-of-record>"
_TIMEOUT = 120.0


def _feed(command: Sequence[str], text: str) -> None:
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_TIMEOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-2000:]}")


def mosquitto_publish(broker: Mosquitto, topic: str, lines: Sequence[str]) -> None:
    """mosquitto_pub at QoS 1, MQTT 5, one message per line."""
    where = ["-h", broker.host, "-p", str(broker.port), "-V", "5", "-q", "1", "-t", topic]
    properties = ["-D", "publish", "content-type", "application/json", "-D", "publish", "payload-format-indicator", "1"]
    _feed(["mosquitto_pub", *where, *properties, "-l"], "".join(f"{line}\n" for line in lines))


def mosquitto_subscribe(broker: Mosquitto, topic: str, count: int, output: Path) -> subprocess.Popen[bytes]:
    """mosquitto_sub in the background, ``topic payload`` per line into ``output``; ends after ``count`` messages."""
    where = ["-h", broker.host, "-p", str(broker.port), "-V", "5", "-q", "1", "-t", topic]
    with output.open("wb") as sink:
        return subprocess.Popen(["mosquitto_sub", *where, "-C", str(count), "-W", "120", "-F", "%t %p"], stdout=sink)


def publish_lines(broker: RabbitMQ, queue: str, lines: Sequence[str]) -> None:
    """amqp-publish to a queue, persistent, one message per line."""
    where = ["--server", broker.host, "--port", str(broker.port), "--username", broker.username]
    command = ["amqp-publish", *where, "--password", broker.password, "-r", queue, "-p", "-C", "application/json", "-l"]
    _feed(command, "".join(f"{line}\n" for line in lines))


def curl_orders(broker: RabbitMQ, queue: str, orders: Sequence[Order], folder: Path) -> None:
    """RabbitMQ's own HTTP interface through one curl: the only console client that can set a priority."""
    url = f"http://{broker.host}:{broker.management_port}/api/exchanges/%2F/amq.default/publish"
    requests = []
    for number, order in enumerate(orders):
        properties = {
            "priority": order.priority,
            "correlation_id": order.customer,
            "delivery_mode": 2,
            "content_type": "application/json",
        }
        body = {"properties": properties, "routing_key": queue, "payload": order.body, "payload_encoding": "string"}
        data = folder / f"order-{number}.json"
        data.write_text(json.dumps(body))
        requests.append(f'url = "{url}"\ndata = "@{data}"\noutput = "/dev/null"\nfail\nsilent\nshow-error\n')
    config = folder / "orders.curl"
    user = f'user = "{broker.username}:{broker.password}"\nheader = "content-type: application/json"\n'
    config.write_text("next\n".join(user + request for request in requests))
    _feed(["curl", "-K", str(config)], "")


def kafka_produce_commands(broker: Kafka, topic: str, commands: Sequence[Command]) -> None:
    """Kafka's console producer; the header ``device`` and the key travel on the line."""
    properties = ["parse.headers=true", "parse.key=true"]
    options = [option for item in properties for option in ("--reader-property", item)]
    lines = "".join(f"device:{command.device}\t{command.device}\t{command.body}\n" for command in commands)
    _feed(broker.console_producer(topic, *options), lines)


def kafka_read(broker: Kafka, topic: str, expected: int) -> list[tuple[str, str, str]]:
    """Kafka's console consumer from the beginning: (headers, key, value) of every record, also beyond ``expected``.

    It ends when nothing more comes for a while. On a busy machine that may be before its first record, so less than
    expected is read again with more patience.
    """
    records: list[tuple[str, str, str]] = []
    for patience in (4_000, 20_000, 60_000):
        records = _kafka_read_once(broker, topic, patience)
        if len(records) >= expected:
            break
    return records


def _kafka_read_once(broker: Kafka, topic: str, patience: int) -> list[tuple[str, str, str]]:
    """All records until none comes for ``patience`` milliseconds."""
    properties = ["print.headers=true", "print.key=true", f"line.separator={END}"]
    options = [option for item in properties for option in ("--formatter-property", item)]
    command = broker.console_consumer(topic, "--from-beginning", "--timeout-ms", str(patience), *options)
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
    records = []
    for record in done.stdout.decode(errors="replace").split(END):
        if record:
            headers, key, value = record.rsplit("\t", 2)
            records.append((headers, key, value))
    return records


def amqp_read(broker: RabbitMQ, queue: str, count: int, folder: Path) -> list[str]:
    """amqp-consume, ``count`` messages of a queue; the bodies in order."""
    if not count:
        return []
    script = folder / "one-body"
    script.write_text(f"#!/bin/sh\ncat\nprintf '%s' '{END}'\n")
    script.chmod(0o755)
    where = ["--server", broker.host, "--port", str(broker.port), "--username", broker.username]
    command = ["amqp-consume", *where, "--password", broker.password, "-q", queue, "-c", str(count), str(script)]
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=True)
    return [body for body in done.stdout.decode(errors="replace").split(END) if body]
