"""One configured spool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mgw.links.contract import Check, Direction, Endpoint, Guarantee, GuaranteeReport, JobUse, LinkConfig
from mgw.links.inspection import Existence
from mgw.links.options import parse
from mgw.transforms.errors import AdminError, ConfigInvalid, LinkError, QueueMissing
from mgw_spool.destination import SpoolDestination, files_of_job
from mgw_spool.folder import Connection
from mgw_spool.source import SpoolSource
from mgw_spool.spec import SPEC

__all__ = ["SpoolLink"]

_SOON = 0.5  # seconds for the question whether the spool is there


class SpoolLink:
    """See :class:`mgw.links.contract.Link`."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        owner = f"link {config.name}"
        values = parse(SPEC.attributes, config.attributes, owner)
        parse(SPEC.options, config.options, owner)
        self.directory: str = values["directory"]
        self.timeout: float = values["timeout"]
        self.durable: bool = values["durable"]
        if not Path(self.directory).is_absolute():
            raise ConfigInvalid(
                f"{owner}: directory {self.directory!r} is not absolute",
                cause="agents may run in any folder",
                cure="write the whole path",
            )
        for name in ("inbound_log_queue", "outbound_log_queue"):
            if getattr(config, name) is not None:
                raise ConfigInvalid(
                    f"{owner}: {name} is not for this type",
                    cause="logs are kept in the folder of each queue",
                    cure=f"leave {name} out",
                )

    def connection(self, timeout: float | None = None) -> Connection:
        """A new connection, not yet open."""
        return Connection(self.config.name, self.directory, self.timeout if timeout is None else timeout)

    def test(self) -> Sequence[Check]:
        """See :meth:`mgw.links.contract.Link.test`."""
        connection = self.connection()
        try:
            connection.open()
            queues = connection.call("test", lambda: sorted(each.name for each in _queues(connection.root)))
        except LinkError as error:
            return [Check("spool", False, f"{error.what}: {error.cause}", error.cure)]
        finally:
            connection.close()
        return [
            Check("spool", True, f"folder {self.directory} is there"),
            Check("queues", True, ", ".join(queues) or "none; mkdir makes one"),
        ]

    def listening(self) -> frozenset[str]:
        """See :meth:`mgw.links.contract.Link.listening`."""
        connection = self.connection(min(_SOON, self.timeout))
        try:
            connection.open()
        except LinkError:
            return frozenset()
        finally:
            connection.close()
        return frozenset({self.directory})

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`mgw.links.contract.Link.verify`."""
        connection = self.connection()
        try:
            connection.open()
            connection.call("verify", lambda: connection.folder(use.endpoint.provider_queue))
        finally:
            connection.close()
        if direction is Direction.OUTBOUND and not self.durable:
            return GuaranteeReport(Guarantee.EXACT_UNLESS_BROKER_CRASH, "the link has durable FALSE")
        return GuaranteeReport(Guarantee.EXACT)

    def find_queue(self, endpoint: Endpoint) -> Existence:
        """See :class:`mgw.links.inspection.FindsQueues`."""
        connection = self.connection()
        try:
            connection.open()
            folder = connection.call("verify", lambda: connection.folder(endpoint.provider_queue))
        except QueueMissing as error:
            made = f"mkdir '{self.directory}/{endpoint.provider_queue}'"
            return Existence(False, f"{error.what}: {error.cause}", made)
        finally:
            connection.close()
        return Existence(True, f"folder {folder} is there")

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`mgw.links.contract.Link.check_endpoint`; any queue can be read and written."""
        del direction
        try:
            parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
        except ConfigInvalid as error:
            raise AdminError(error.what, cause=error.cause, cure=error.cure) from error
        name = endpoint.provider_queue
        if not name or "/" in name or name.startswith(".") or "\0" in name:
            raise AdminError(
                f"foreign queue {endpoint.full_name}: {name!r} cannot be a queue",
                cause="a queue is a folder directly in the spool, and its name does not begin with a dot",
                cure="correct provider_queue",
            )

    def source(self, use: JobUse) -> SpoolSource:
        """See :meth:`mgw.links.contract.Link.source`."""
        return SpoolSource(self.connection(), use, durable=self.durable)

    def destination(self, use: JobUse) -> SpoolDestination:
        """See :meth:`mgw.links.contract.Link.destination`."""
        return SpoolDestination(self.connection(), use, durable=self.durable)

    def forget(self, use: JobUse, direction: Direction) -> None:
        """See :meth:`mgw.links.contract.Link.forget`."""
        if direction is Direction.INBOUND:
            return
        connection = self.connection()
        try:
            connection.open()
            connection.call("forget", lambda: _remove(connection, use))
        except QueueMissing:
            pass
        finally:
            connection.close()


def _queues(root: Path) -> list[Path]:
    return [each for each in root.iterdir() if each.is_dir() and not each.name.startswith(".")]


def _remove(connection: Connection, use: JobUse) -> None:
    files = files_of_job(connection.folder(use.endpoint.provider_queue), use)
    for path in (*files.staging.glob("*"), files.log, files.lock):
        path.unlink(missing_ok=True)
    if files.staging.is_dir():
        files.staging.rmdir()
