"""Bento, or Redpanda Connect, which it is a fork of: a binary that the variable MGW_BENCH_BENTO names.

Any build with the components amqp09, kafka, mqtt, io and pure does; fewer of them start faster.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.ends import KafkaEnd, MqttEnd, RabbitEnd
from benchmarks.peers.contract import Missing, Motion, Mover, Way, in_process

__all__ = ["Bento"]

VARIABLE = "MGW_BENCH_BENTO"
_BATCH = {"count": 200, "period": "5ms"}


class Bento(Mover):
    """One stream without processors."""

    name = "Bento"

    def _program(self) -> str:
        path = os.environ.get(VARIABLE, "")
        if not path:
            raise Missing(f"{VARIABLE} names no binary")
        if shutil.which(path) is None:
            raise Missing(f"the file that {VARIABLE} names can not be run")
        return path

    def version(self) -> str:
        """What the binary says."""
        found = subprocess.run([self._program(), "--version"], capture_output=True, text=True, check=False, timeout=60)
        words = found.stdout.split()
        return words[words.index("Version:") + 1] if "Version:" in words else " ".join(words[:3])

    @contextmanager
    def moving(self, way: Way) -> Iterator[Motion]:
        """The binary with a configuration for this run."""
        stream = {
            "http": {"enabled": False},
            "logger": {"level": "WARN"},
            "metrics": {"none": {}},
            "input": _input(way),
            "output": _output(way),
        }
        file = way.folder / "stream.yaml"
        file.write_text(json.dumps(stream))  # YAML, too
        with in_process([self._program(), "-c", str(file)], way.folder) as motion:
            yield motion


def _input(way: Way) -> dict[str, Any]:
    end = way.source
    match end:
        case RabbitEnd():
            return {"amqp_0_9": {"urls": [end.broker.url], "queue": way.here, "prefetch_count": 2000}}
        case KafkaEnd():
            topic = {"seed_brokers": [end.broker.bootstrap], "topics": [way.here], "consumer_group": way.here}
            return {"kafka_franz": topic | {"checkpoint_limit": 4096, "start_from_oldest": True}}
        case MqttEnd():
            place = {"urls": [f"tcp://{end.broker.host}:{end.broker.port}"], "client_id": f"in-{way.here}"}
            return {"mqtt": place | {"topics": [way.here], "qos": 1, "clean_session": False}}
    raise TypeError(f"no input for {end.kind}")


def _output(way: Way) -> dict[str, Any]:
    end = way.target
    match end:
        case RabbitEnd():
            place = {"urls": [end.broker.url], "exchange": "", "key": way.there}
            return {"amqp_0_9": place | {"persistent": True, "max_in_flight": 1000}}
        case KafkaEnd():
            place = {"seed_brokers": [end.broker.bootstrap], "topic": way.there}
            return {"kafka_franz": place | {"max_in_flight": 64, "compression": "none", "batching": _BATCH}}
        case MqttEnd():
            place = {"urls": [f"tcp://{end.broker.host}:{end.broker.port}"], "client_id": f"out-{way.there}"}
            return {"mqtt": place | {"topic": way.there, "qos": 1, "max_in_flight": 1000}}
    raise TypeError(f"no output for {end.kind}")
