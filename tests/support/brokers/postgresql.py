"""PostgreSQL, for the hub's second database."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support.brokers.kept import made_or_copied
from tests.support.brokers.server import Server, ServerFailed, connect, receive_exactly
from tests.support.ports import LOOPBACK, free_port

__all__ = ["PostgreSQL", "program"]

_USER = "mgw"
_DATABASE = "mgw"
_CREATE = f"CREATE DATABASE {_DATABASE};\n"
_HOSTS = "host all all 127.0.0.1/32 trust\n"
_PROTOCOL_3 = 196608
_AUTHENTICATION = b"R"
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgreSQL(Server):
    """A PostgreSQL cluster on ``host``:``port`` with the database ``mgw``; commits reach the disk (fsync on).

    Any role on 127.0.0.1 is trusted. ``settings`` go to the server's command line as ``-c name=value``.
    """

    name = "postgresql"
    stop_signal = signal.SIGINT  # "fast": SIGTERM would wait for every client to leave

    def __init__(self, *, settings: Sequence[str] = ()) -> None:
        super().__init__()
        self.port = free_port()
        self.username = _USER
        self.password = ""
        self.url = self.url_of(_DATABASE)
        self._settings = tuple(settings)
        self._data = self.folder / "data"

    def url_of(self, database: str) -> str:
        """SQLAlchemy address of a database of this cluster."""
        return f"postgresql+psycopg://{_USER}@{self.host}:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create an empty database (lower-case identifier) and return its SQLAlchemy address."""
        self._execute(f"CREATE DATABASE {_checked(name)}")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, throwing its clients out."""
        self._execute(f"DROP DATABASE IF EXISTS {_checked(name)} WITH (FORCE)")

    def prepare(self) -> None:
        if os.getuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.log.touch()
        options = ["--auth=trust", f"--username={_USER}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        version = self.run([program("initdb"), "--version"])
        made_or_copied(
            self._data, self.name, [version, *options, _HOSTS, _CREATE, str(os.getuid())], lambda: self._make(options)
        )

    def _make(self, options: Sequence[str]) -> None:
        self.run([*_as_server_user(), program("initdb"), f"--pgdata={self._data}", *options])
        (self._data / "pg_hba.conf").write_text(_HOSTS)
        statement = self.folder / "create.sql"
        statement.write_text(_CREATE)
        with statement.open("rb") as stdin:
            self.run(
                [*_as_server_user(), program("postgres"), "--single", "-D", str(self._data), "postgres"], stdin=stdin
            )

    def command(self) -> Sequence[str]:
        settings = (
            f"listen_addresses={LOOPBACK}",
            f"port={self.port}",
            "unix_socket_directories=",
            "fsync=on",
            "synchronous_commit=on",
            "shared_buffers=64MB",
            "max_connections=100",
            "max_wal_size=256MB",
            "jit=off",
            *self._settings,
        )
        arguments = [argument for setting in settings for argument in ("-c", setting)]
        return [*_as_server_user(), program("postgres"), "-D", str(self._data), *arguments]

    def ready(self) -> bool:
        start = f"user\0{_USER}\0database\0{_DATABASE}\0\0".encode()
        with connect(self.port) as connection:
            connection.sendall(struct.pack("!ii", len(start) + 8, _PROTOCOL_3) + start)
            return receive_exactly(connection, 1) == _AUTHENTICATION

    def _execute(self, statement: str) -> None:
        address = ["-h", self.host, "-p", str(self.port), "-U", _USER, "-d", "postgres"]
        self.run([program("psql"), "-X", "-q", *address, "-v", "ON_ERROR_STOP=1", "-c", statement])


def _checked(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"database name {name!r} is not a lower-case identifier of at most 63 characters")
    return name


def _as_server_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def program(name: str) -> str:
    """Where a program of PostgreSQL is, of the newest version that is installed."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        raise ServerFailed(f"{name} of PostgreSQL is not installed. Run: make setup")
    return found
