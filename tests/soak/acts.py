"""What is done to the service, each with what its health has to say meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from tests.soak.routes import Addresses, Plant
from tests.soak.service import LONGEST_START, Service
from tests.soak.watch import CURED, NOTICED, Watch
from tests.support.brokers import Server
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

__all__ = ["HOUR", "SHORT", "Act", "Acts"]

Act = Callable[["Acts"], None]
AROUND = 15.0  # seconds before and after a restart of RabbitMQ
_LONGER = 10.0  # seconds for which a page has to be red in an outage


class Acts:
    """Injures and cures one service."""

    def __init__(self, service: Service, plant: Plant, addresses: Addresses, watch: Watch) -> None:
        self._service = service
        self._plant = plant
        self._addresses = addresses
        self._watch = watch
        self._passwords = 0
        self.doubtful: list[tuple[float, float]] = []  # restarts of RabbitMQ, around which messages may come twice

    @property
    def _outage(self) -> float:
        """Seconds after which health must have been red for a while."""
        return self._watch.limit + NOTICED + _LONGER

    # ------------------------------------------------------------------------------------------------------ brokers

    def restart_rabbitmq(self) -> None:
        """An orderly restart, around which its jobs promise no more than that nothing is lost."""
        begin = time.monotonic()
        self._restart(self._plant.rabbitmq, "office")
        self.doubtful.append((begin - AROUND, time.monotonic() + AROUND))

    def restart_kafka(self) -> None:
        """An orderly restart."""
        self._restart(self._plant.kafka, "lake")

    def restart_mosquitto(self) -> None:
        """An orderly restart."""
        self._restart(self._plant.mosquitto, "plant")

    def _restart(self, server: Server, link: str) -> None:
        with self._watch.trouble(f"restart of {server.name}", "outage", link):
            server.restart()

    def kafka_away(self) -> None:
        """Nothing listens where the gateway looks for Kafka, for longer than the limit."""
        proxy = self._plant.proxies["kafka"]
        with self._watch.trouble("absence of kafka", "outage", "link lake: .*Kafka"):
            proxy.refuse()
            proxy.cut()
            time.sleep(self._outage)
            proxy.accept()

    # ------------------------------------------------------------------------------------------------------ the process

    def kill_gateway(self) -> None:
        """SIGKILL; systemd starts it again."""
        before = self._service.pid
        with self._watch.trouble("kill of the gateway", "killed", "agent|job"):
            self._service.kill()
        self._new_process(before)

    def kill_gateway_while_rabbitmq_restarts(self) -> None:
        """Both at once."""
        before = self._service.pid
        with self._watch.trouble("kill of the gateway", "killed", "agent|job"):
            self._service.kill()
        self.restart_rabbitmq()
        self._new_process(before)

    def freeze_gateway(self) -> None:
        """The process hangs until the watchdog of systemd has noticed, killed it and started another."""
        before = self._service.pid
        with self._watch.trouble("a frozen gateway", "killed", "does not answer"):
            self._service.freeze()
            self._new_process(before, deadline=150.0)

    def restart_gateway(self) -> None:
        """``systemctl restart``: drains, ends, begins."""
        before = self._service.pid
        with self._watch.trouble("restart of the gateway", "killed", "agent|job"):
            self._service.systemctl("restart", "mgw")
        self._new_process(before)

    def _new_process(self, before: int, deadline: float = LONGEST_START) -> None:
        eventually(
            lambda: self._service.pid not in (0, before),
            deadline=deadline,
            what=f"another process of the gateway;\n{self._service.journal()}",
        )

    # ------------------------------------------------------------------------------------------------------ changes

    def roll_password(self) -> None:
        """As docs/how-to/move-a-link.md says, for a broker that knows only one: there, then in the configuration."""
        with self._watch.trouble("a rolled password", "outage", "link office"):
            self._new_password()()

    def roll_password_late(self) -> None:
        """At the broker, and in the configuration only after the connections were lost and the limit is over."""
        with self._watch.trouble("a rolled password", "outage", r"link office: .*(password|login|refused)"):
            in_the_configuration = self._new_password()
            self._plant.proxies["rabbitmq"].cut()
            time.sleep(self._outage)
            in_the_configuration()

    def _new_password(self) -> Callable[[], None]:
        self._passwords += 1
        password = f"password {self._passwords}"
        self._plant.rabbitmq.ctl("change_password", "gateway", password)

        def configure() -> None:
            self._service.write("rabbitmq_password", password)
            self._service.systemctl("reload", "mgw")

        return configure

    def move_rabbitmq(self) -> None:
        """The broker gets another port beside the first, the configuration follows, the first goes."""
        self._move("rabbitmq", "office", self._plant.rabbitmq.port)

    def move_mosquitto(self) -> None:
        """The same."""
        self._move("mqtt", "plant", self._plant.mosquitto.port)

    def _move(self, system: str, link: str, port: int) -> None:
        before = self._plant.proxies[system]
        after = self._plant.proxies[system] = TcpProxy("127.0.0.1", port).start()
        setattr(self._addresses, system, after.port)
        with self._watch.trouble(f"another address of {system}", "outage", link):
            self._configure()
            eventually(lambda: after.connections > 0, what="connections to the new address", deadline=30)
            before.close()

    def move_kafka_late(self) -> None:
        """The address of Kafka goes; the configuration names the new one after the limit is over."""
        proxy = self._plant.proxies["kafka"]
        with self._watch.trouble("another address of kafka", "outage", "link lake: .*Kafka"):
            proxy.refuse()
            proxy.cut()
            time.sleep(self._outage)
            self._addresses.kafka = self._plant.kafka.bootstrap
            self._configure()

    def _configure(self) -> None:
        self._service.write("gateway.yaml", self._addresses.configuration())
        self._service.systemctl("reload", "mgw")

    # ------------------------------------------------------------------------------------------------------ the disk

    def fill_disk(self) -> None:
        """Not a byte is left on the file system of the hub. The log of its file is short, so that it cannot go on in
        what the file system gave it before."""
        self.restart_gateway()
        eventually(self._watch.all_green, deadline=CURED + 30, what="health after a restart")
        with self._watch.trouble("a full disk", "hub", "hub|full|disk"), self._full():
            time.sleep(self._outage)

    def start_on_full_disk(self) -> None:
        """It stops, the disk gets full, it starts, and systemd tries until there is room again."""
        before = self._service.pid
        with self._watch.trouble("a start on a full disk", "killed", "hub|full|disk|agent"):
            self._service.systemctl("stop", "mgw")
            with self._full():
                self._service.systemctl("start", "--no-block", "mgw")
                time.sleep(self._outage)
        self._new_process(before)

    @contextmanager
    def _full(self) -> Iterator[None]:
        ballast = self._service.state / "ballast"
        with ThreadPoolExecutor(1) as pool:
            end = Event()
            filling = pool.submit(self._fill, ballast, end)
            try:
                yield
            finally:
                end.set()
                filling.result()
                ballast.unlink()

    def _fill(self, ballast: Path, end: Event) -> None:
        while True:
            with suppress(OSError), ballast.open("ab", buffering=0) as file:
                while file.write(b"\0" * 4096):
                    pass
            if end.wait(1):
                return


#: Every five minutes a broker is restarted, and between two restarts something else happens: one act every 150 s.
HOUR: tuple[Act, ...] = (
    Acts.kill_gateway,
    Acts.restart_rabbitmq,
    Acts.roll_password_late,
    Acts.restart_kafka,
    Acts.move_rabbitmq,
    Acts.restart_mosquitto,
    Acts.fill_disk,
    Acts.restart_rabbitmq,
    Acts.kill_gateway,
    Acts.restart_kafka,
    Acts.freeze_gateway,
    Acts.restart_mosquitto,
    Acts.move_kafka_late,
    Acts.kill_gateway_while_rabbitmq_restarts,
    Acts.roll_password,
    Acts.restart_kafka,
    Acts.kill_gateway,
    Acts.restart_mosquitto,
    Acts.move_mosquitto,
    Acts.restart_rabbitmq,
    Acts.start_on_full_disk,
    Acts.restart_kafka,
    Acts.restart_gateway,
    Acts.restart_mosquitto,
)

#: Of each kind one.
SHORT: tuple[Act, ...] = (
    Acts.kill_gateway,
    Acts.restart_mosquitto,
    Acts.restart_kafka,
    Acts.roll_password_late,
    Acts.move_rabbitmq,
    Acts.fill_disk,
)
