"""Mosquitto, an MQTT 3.1.1 and 5 broker."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence

from tests.support.brokers.server import Server, ServerFailed, connect, receive_exactly
from tests.support.certificates import Certificates
from tests.support.ports import LOOPBACK, free_port

__all__ = ["Mosquitto"]

# CONNECT of MQTT 3.1.1: clean session, keep alive 5 s, client id "probe"; any CONNACK, also a refusal, is an answer.
_CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x05\x00\x05probe"
_DISCONNECT = b"\xe0\x00"
_CONNACK = b"\x20"


class Mosquitto(Server):
    """A Mosquitto broker on ``host``:``port`` that keeps sessions, queued and retained messages on disk.

    ``username`` and ``password``: anonymous clients are refused. ``tls=True`` opens ``tls_port`` with the certificates
    in ``certificates``. ``config`` is appended to mosquitto.conf (it belongs to the last listener).
    """

    name = "mosquitto"

    def __init__(
        self,
        *,
        username: str | None = None,
        password: str | None = None,
        tls: bool = False,
        config: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.port = free_port()
        self.username = username
        self.password = password
        self.tls_port = free_port() if tls else None
        self.certificates = Certificates(self.folder / "tls") if tls else None
        self._config = tuple(config)

    def prepare(self) -> None:
        (self.folder / "data").mkdir()
        if self.username is not None:
            passwords = self.folder / "passwords"
            passwords.touch(0o600)
            self.run(["mosquitto_passwd", "-b", str(passwords), self.username, self.password or ""])
        (self.folder / "mosquitto.conf").write_text("\n".join(self._configuration()) + "\n")

    def command(self) -> Sequence[str]:
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise ServerFailed("mosquitto is not installed. Run: make setup")
        return [program, "-c", str(self.folder / "mosquitto.conf")]

    def ready(self) -> bool:
        with connect(self.port) as connection:
            connection.sendall(_CONNECT)
            answer = receive_exactly(connection, 4)
            connection.sendall(_DISCONNECT)
            return answer.startswith(_CONNACK)

    def set_password(self, username: str, password: str) -> None:
        """Change a password; the broker disconnects those who logged in with the former one."""
        self.run(["mosquitto_passwd", "-b", str(self.folder / "passwords"), username, password])
        os.kill(self.pid, signal.SIGHUP)

    def _configuration(self) -> list[str]:
        lines = [
            "per_listener_settings false",
            "log_dest stderr",
            "log_timestamp_format %Y-%m-%dT%H:%M:%S",
            "persistence true",
            f"persistence_location {self.folder}/data/",
            "autosave_interval 1",
            "autosave_on_changes true",
            "max_queued_messages 0",
        ]
        if os.getuid() == 0:
            lines.append("user root")
        if self.username is None:
            lines.append("allow_anonymous true")
        else:
            lines += ["allow_anonymous false", f"password_file {self.folder}/passwords"]
        lines.append(f"listener {self.port} {LOOPBACK}")
        if self.certificates is not None:
            lines += [
                f"listener {self.tls_port} {LOOPBACK}",
                f"cafile {self.certificates.ca}",
                f"certfile {self.certificates.server}",
                f"keyfile {self.certificates.server_key}",
            ]
        return [*lines, *self._config]
