"""RabbitMQ, Debian's package, run as the current user with its own Erlang port mapper."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.support.brokers.server import OwnedProcess, Server, ServerFailed, connect, receive_exactly
from tests.support.certificates import Certificates
from tests.support.ports import LOOPBACK, free_port

__all__ = ["RabbitMQ"]

_PACKAGE_FOLDER = Path("/usr/lib/rabbitmq/bin")
_PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = b"\x01"


class RabbitMQ(Server):
    """A RabbitMQ node on ``host``:``port`` (AMQP 0-9-1), user ``username``, virtual host ``vhost``.

    ``plugins`` are enabled beside the core, for example ``("rabbitmq_shovel", "rabbitmq_management")``; with the
    management plugin ``management_port`` is set. ``tls=True`` opens ``tls_port`` with the certificates in
    ``certificates``. ``config`` is appended to rabbitmq.conf. Nodes of one cluster share ``cookie`` and the port of the
    Erlang port ``mapper``, which the one without it runs; ``erlang`` are more options of the virtual machine.
    """

    name = "rabbitmq"
    heartbeat = 0  # seconds, of clients of tests; 0: none

    def __init__(
        self,
        *,
        plugins: Sequence[str] = (),
        tls: bool = False,
        config: Sequence[str] = (),
        cookie: str = "",
        mapper: int | None = None,
        erlang: str = "",
    ) -> None:
        super().__init__()
        self.port = free_port()
        self.username = "guest"
        self.password = "guest"
        self.vhost = "/"
        self.plugins = tuple(plugins)
        self.management_port = free_port() if "rabbitmq_management" in plugins else None
        self.tls_port = free_port() if tls else None
        self.certificates = Certificates(self.folder / "tls") if tls else None
        self.node = f"mgw{self.port}@localhost"
        self._config = tuple(config)
        self._cookie = cookie or secrets.token_hex(16)
        self._erlang = erlang
        self._runs_mapper = mapper is None
        self._epmd_port = mapper or free_port()
        self._distribution_port = free_port()
        self._epmd: OwnedProcess | None = None

    @property
    def url(self) -> str:
        """AMQP address with the credentials, for command line clients."""
        return f"amqp://{self.username}:{self.password}@{self.host}:{self.port}/"

    @property
    def mapper(self) -> int:
        """Port of the Erlang port mapper."""
        return self._epmd_port

    def prepare(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        cookie = home / ".erlang.cookie"
        cookie.write_text(self._cookie)
        cookie.chmod(0o400)
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        (self.folder / "rabbitmq.conf").write_text("\n".join(self._configuration()) + "\n")

    def command(self) -> Sequence[str]:
        return [_program("rabbitmq-server")]

    def environment(self) -> dict[str, str]:
        ours = ("RABBITMQ_", "ERL_")
        cores = min(os.cpu_count() or 1, 4)
        interface = "-kernel inet_dist_use_interface {127,0,0,1}"
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
            "HOME": str(self.folder / "home"),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{interface} {self._erlang} +S {cores}:{cores} +SDio 4",
            "RABBITMQ_CTL_ERL_ARGS": interface,
            # The start script then replaces itself by the server, so that our signals reach the server.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def start(self) -> RabbitMQ:
        if self._runs_mapper and (self._epmd is None or self._epmd.exit_code is not None):
            self._epmd = OwnedProcess(
                ["epmd", "-port", str(self._epmd_port), "-address", LOOPBACK],
                environment=os.environ,
                log=self.log,
                folder=self.folder,
            )
        return super().start()

    def ready(self) -> bool:
        with connect(self.port) as connection:
            connection.sendall(_PROTOCOL_HEADER)
            return receive_exactly(connection, 1) == _METHOD_FRAME

    def close(self) -> None:
        try:
            super().close()
        finally:
            epmd, self._epmd = self._epmd, None
            if epmd is not None:
                epmd.kill()

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl against this node (takes a second or two); returns its output."""
        return self.run([_program("rabbitmqctl"), "-n", self.node, "-q", *arguments])

    def call(self, expression: str) -> str:
        """Evaluate an Erlang expression in this node, in milliseconds; returns what it gives."""
        script = self.folder / "expression"
        script.write_text(f"{expression}.\n")
        command = ["erl_call", "-address", f"{LOOPBACK}:{self._distribution_port}", "-c", self._cookie]
        with script.open("rb") as text:
            answer = self.run([*command, "-timeout", "10", "-e"], stdin=text).strip()
        if not answer.startswith("{ok, "):
            raise ServerFailed(f"{self.node}: {expression}: {answer}")
        return answer.removeprefix("{ok, ").removesuffix("}")

    def flush_declarations(self) -> None:
        """Make queues declared just now survive ``kill``: RabbitMQ 3.10 writes declarations to disk up to 2 s late."""
        self.ctl("eval", "mnesia:dump_log(), [dets:sync(Table) || Table <- dets:all()].")

    def set_memory_alarm(self, active: bool = True) -> None:
        """Raise or clear the memory alarm, which blocks every publishing connection."""
        alarm = "{resource_limit, memory, node()}"
        change = f"set_alarm({{{alarm}, []}})" if active else f"clear_alarm({alarm})"
        self.ctl("eval", f"rabbit_alarm:{change}.")

    def _configuration(self) -> list[str]:
        lines = [
            f"listeners.tcp.1 = {LOOPBACK}:{self.port}",
            "log.console = true",
            "log.console.level = info",
            "disk_free_limit.absolute = 64MB",
            "raft.wal_max_size_bytes = 67108864",
            "collect_statistics_interval = 2000",
        ]
        if self.management_port is not None:
            lines += [f"management.tcp.ip = {LOOPBACK}", f"management.tcp.port = {self.management_port}"]
        if self.certificates is not None:
            lines += [
                f"listeners.ssl.1 = {LOOPBACK}:{self.tls_port}",
                f"ssl_options.cacertfile = {self.certificates.ca}",
                f"ssl_options.certfile = {self.certificates.server}",
                f"ssl_options.keyfile = {self.certificates.server_key}",
                "ssl_options.verify = verify_peer",
                "ssl_options.fail_if_no_peer_cert = false",
            ]
        return [*lines, *self._config]


def _program(name: str) -> str:
    packaged = _PACKAGE_FOLDER / name
    found = str(packaged) if packaged.exists() else shutil.which(name)
    if found is None:
        raise ServerFailed(f"{name} is not installed. Run: make setup")
    return found
