"""The gateway and its peers: ``python -m benchmarks.side_by_side [--rounds N] [--messages N] [ROUTE ...]``.

Every round runs each mover once on each route, in an order that turns round. A mover is started, carries a share of the
messages to warm up, and is stopped (SIGSTOP; Shovel: removed; the Mosquitto bridge: its target). Then the source is
filled, and it goes on. Rate and CPU time are those between the first tenth of the messages and the last. Every message
is then read and compared. CPU is that of the mover with all its processes; Shovel and the Mosquitto bridge work in the
broker, so only the CPU of movers and brokers together compares with theirs. The figures go to .cache/bench/peers.json.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.ends import MOSQUITTO, Arrivals, End, KafkaEnd, MqttEnd, RabbitEnd
from benchmarks.measuring import body_of
from benchmarks.ours import OURS
from benchmarks.peers import PEERS, Missing, Motion, Mover, Way, bridge_settings
from benchmarks.peers.shovel import PLUGINS
from benchmarks.recorded import Recorder
from benchmarks.table import route_tables
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.kafka_jars import kafka_version

BODY = 256
PARTITIONS = 4
ROUTES = {
    "classic to classic": ("classic", "classic"),
    "quorum to quorum": ("quorum", "quorum"),
    "RabbitMQ to Kafka": ("classic", "kafka"),
    "Kafka to RabbitMQ": ("kafka", "classic"),
    "MQTT to Kafka": ("mqtt", "kafka"),
    "Kafka to MQTT": ("kafka", "mqtt target"),
    "MQTT to MQTT": ("mqtt", "mqtt target"),
}
HEAD = 0.1  # connecting and speeding up are not part of a rate
WARM_UP = 0.2  # of the messages
LONGEST = 15.0  # seconds of a run; slower movers get fewer messages
SETTLED = 0.5  # seconds without an arrival
DEADLINE = 90.0
_PROBES, _WARM, _MEASURED = 1_000_000, 2_000_000, 3_000_000  # numbers of bodies
_PAUSE = 0.02


class Stand:
    """The brokers, started when a route first needs them."""

    def __init__(self, stack: ExitStack, versions: dict[str, str]) -> None:
        self._stack = stack
        self._versions = versions
        self._ends: dict[str, End] = {}

    def end(self, name: str) -> End:
        """One end of a route."""
        if name not in self._ends:
            self._ends[name] = self._started(name)
        return self._ends[name]

    def _started(self, name: str) -> End:
        enter = self._stack.enter_context
        match name:
            case "classic":
                rabbitmq = enter(RabbitMQ(plugins=PLUGINS))
                self._versions["RabbitMQ"] = rabbitmq.ctl("version").strip()
                return RabbitEnd(rabbitmq)
            case "quorum":
                return RabbitEnd(self.end("classic").broker, "quorum")  # type: ignore[attr-defined]
            case "kafka":
                self._versions["Kafka"] = kafka_version()
                return KafkaEnd(enter(Kafka()), PARTITIONS)
            case "mqtt":
                bridge = bridge_settings(self.end("mqtt target").broker, "bridge/#")  # type: ignore[attr-defined]
                return MqttEnd(enter(Mosquitto(config=(*MOSQUITTO, *bridge))))
            case _:
                mosquitto = enter(Mosquitto(config=MOSQUITTO))
                told = subprocess.run([mosquitto.command()[0], "-h"], capture_output=True, text=True, check=False)
                self._versions["Mosquitto"] = told.stdout.split()[2]
                return MqttEnd(mosquitto)


class Run:
    """One mover on one route, once."""

    def __init__(self, mover: Mover, way: Way, messages: int) -> None:
        self._mover, self._way, self._messages = mover, way, messages

    def measured(self) -> dict[str, float]:
        """Rate and CPU time for a message.

        Raises:
            Missing: the mover does not run here.
            TimeoutError: messages do not arrive.
        """
        way = self._way
        way.folder.mkdir()
        way.source.make(way.here)
        way.target.make(way.there)
        arrivals = way.target.arrivals(way.there, way.folder)
        try:
            with self._mover.moving(way) as motion:
                try:
                    return self._through(motion, arrivals)
                except TimeoutError as error:
                    raise TimeoutError(f"{error}\n{motion.log()}") from error
        finally:
            arrivals.close()
            way.source.drop(way.here)
            way.target.drop(way.there)

    def _through(self, motion: Motion, arrivals: Arrivals) -> dict[str, float]:
        self._connect(arrivals)
        speed = self._warm_up(arrivals)
        total = min(self._messages, max(int(speed * LONGEST), 1000))
        bodies = [body_of(BODY, _MEASURED + number) for number in range(total)]
        motion.freeze()
        brokers = [pid for end in (self._way.source, self._way.target) for pid in end.pids()]
        own, all_of_them = processes.Trees(motion.pids), processes.Trees({*motion.pids, *brokers})
        before = arrivals.count()
        self._way.source.publish(self._way.here, bodies)
        with ThreadPoolExecutor(1) as beside:
            thawed = beside.submit(motion.thaw)  # Shovel moves before the command is over that defines it
            found = _measured(arrivals, before, total, lambda: (own.cpu(), all_of_them.cpu()))
            thawed.result()
        if not motion.pids:
            del found["cpu"]
        self._compare(arrivals, bodies)
        return found

    def _connect(self, arrivals: Arrivals) -> None:
        """Send messages until one arrives: a topic of MQTT keeps none for those that come later."""
        end = time.monotonic() + DEADLINE
        repeated = self._way.source.kind == "mqtt"
        for number in itertools.count(_PROBES):
            if repeated or number == _PROBES:
                self._way.source.publish(self._way.here, [body_of(BODY, number)])
            patience = time.monotonic() + 1.0
            while time.monotonic() < patience:
                if arrivals.count() > 0:
                    _settle(arrivals)
                    return
                time.sleep(_PAUSE)
            if time.monotonic() > end:
                raise TimeoutError(f"nothing arrived within {DEADLINE:.0f} s")

    def _warm_up(self, arrivals: Arrivals) -> float:
        """Messages per second at first, more or less."""
        share = max(int(self._messages * WARM_UP), 100)
        before, begun = arrivals.count(), time.monotonic()
        self._way.source.publish(self._way.here, [body_of(BODY, _WARM + number) for number in range(share)])
        while (seen := arrivals.count() - before) < share:
            if time.monotonic() > begun + DEADLINE:
                raise TimeoutError(f"{seen} of {share} messages arrived within {DEADLINE:.0f} s")
            time.sleep(_PAUSE)
        speed = share / (time.monotonic() - begun)
        _settle(arrivals)
        return speed

    def _compare(self, arrivals: Arrivals, bodies: Sequence[bytes]) -> None:
        first = b"%012d" % _MEASURED
        seen = Counter(body for body in arrivals.bodies() if body >= first)
        missing = set(bodies) - set(seen)
        if missing:
            raise TimeoutError(f"{len(missing)} of {len(bodies)} messages are missing at the destination")
        if set(seen) - set(bodies):
            raise TimeoutError("messages at the destination that nobody sent")
        repeated = sum(seen.values()) - len(bodies)
        if repeated:
            print(f"    {self._mover.name}, {self._way.route}: {repeated} messages arrived twice", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A moment: what had been spent, and how many messages were there."""

    when: float
    spent: tuple[float, float]
    seen: int


def _measured(
    arrivals: Arrivals, before: int, total: int, spent: Callable[[], tuple[float, float]]
) -> dict[str, float]:
    """From the first tenth of the messages to the last: no more arrive for half a second."""
    end = time.monotonic() + DEADLINE
    head = last = None
    while True:
        mark = _Mark(time.monotonic(), spent(), arrivals.count() - before)
        if head is None and mark.seen >= total * HEAD:
            head = mark
        if mark.seen >= total and (last is None or mark.seen != last.seen):
            last = mark
        if head is not None and last is not None and mark.when > last.when + SETTLED:
            break
        if mark.when > end:
            raise TimeoutError(f"{mark.seen} of {total} messages arrived within {DEADLINE:.0f} s")
        time.sleep(_PAUSE)
    moved = max(last.seen - head.seen, 1)
    own, every = ((after - first) / moved * 1e6 for first, after in zip(head.spent, last.spent, strict=True))
    return {"rate": moved / max(last.when - head.when, 1e-9), "cpu": own, "cpu with brokers": every}


def _settle(arrivals: Arrivals) -> None:
    """Wait until no more arrive."""
    seen, since = arrivals.count(), time.monotonic()
    while time.monotonic() < since + SETTLED:
        time.sleep(_PAUSE)
        if (now := arrivals.count()) != seen:
            seen, since = now, time.monotonic()


class Comparison:
    """All movers on the routes, in turns."""

    def __init__(
        self, folder: Path, stand: Stand, recorder: Recorder, messages: int, only: Sequence[str] | None = None
    ) -> None:
        self._folder, self._stand, self._recorder, self._messages = folder, stand, recorder, messages
        self._numbers = itertools.count(1)
        movers = (*OURS, *(make() for make in PEERS))
        self._movers = list(self._there(mover for mover in movers if not only or mover.name in only))

    def _there(self, movers: Iterable[Mover]) -> Iterator[Mover]:
        for mover in movers:
            try:
                version = mover.version()
            except Missing as why:
                self._recorder.leave_out(f"{mover.name}: {why}")
                continue
            if version:
                self._recorder.versions["mgw" if mover in OURS else mover.name] = version
            yield mover

    @property
    def names(self) -> set[str]:
        """Of the movers that are there."""
        return {mover.name for mover in self._movers}

    def run(self, routes: Sequence[str], rounds: int) -> None:
        """Measure; a mover that failed on a route is not tried there again, one that does not run here nowhere."""
        failed: set[tuple[str, str]] = set()
        for number in range(rounds):
            for route in routes:
                ends = [self._stand.end(name) for name in ROUTES[route]]
                able = [mover for mover in self._movers if mover.can(*ends) and (mover.name, route) not in failed]
                for mover in able if number % 2 == 0 else reversed(able):
                    if mover in self._movers and not self._measure(mover, route, *ends):
                        failed.add((mover.name, route))
                    self._recorder.part().write()

    def _measure(self, mover: Mover, route: str, source: End, target: End) -> bool:
        number = next(self._numbers)
        way = Way(route, source, target, *mover.names(number), self._folder / f"run-{number}")
        try:
            found = Run(mover, way, self._messages).measured()
        except Missing as why:
            self._recorder.leave_out(f"{mover.name}: {why}")
            self._movers.remove(mover)
            return True
        except (TimeoutError, RuntimeError) as why:
            first, _, rest = str(why).partition("\n")
            self._recorder.leave_out(f"{mover.name}, {route}: {first}")
            print(f"    {mover.name}, {route}: {first}\n{rest}", file=sys.stderr)
            return False
        for measure, value in found.items():
            self._recorder.add(route, mover.name, measure, value)
        told = ", ".join(f"{measure} {value:,.0f}" for measure, value in found.items())
        print(f"    {route}: {mover.name}: {told}", file=sys.stderr, flush=True)
        return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the routes asked for, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("routes", nargs="*", choices=[*ROUTES, []], metavar="ROUTE", help=f"of {', '.join(ROUTES)}")
    parser.add_argument("--rounds", type=int, default=3, help="each mover runs so often (default 3)")
    parser.add_argument("--messages", type=int, default=30_000, help="of a run (default 30,000)")
    parser.add_argument("--only", nargs="+", metavar="MOVER", help="leave out the other movers")
    chosen: Any = parser.parse_args(arguments)
    recorder = Recorder("peers", messages=chosen.messages, body=BODY, rounds=chosen.rounds, partitions=PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        comparison = Comparison(folder, Stand(stack, recorder.versions), recorder, chosen.messages, chosen.only)
        comparison.run(chosen.routes or list(ROUTES), chosen.rounds)
    part = recorder.part()
    part.write()
    print("\n".join([route_tables(part), *(f"Left out: {what}" for what in part.left_out)]))


if __name__ == "__main__":
    main()
