"""Objects by name, in whatever letter case: one statement where there is one, and a suggestion where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mgw.gateway.aq import Hub, QueueAdmin, errors
from mgw.gateway.config.findings import nearest
from mgw.gateway.config.running import read_running
from mgw.gateway.definitions.objects import AgentDef, ForeignQueueDef, JobDef, LinkDef, TransformationDef
from mgw.gateway.services.admin import GatewayAdmin, Ora
from mgw.gateway.state import catalog, status
from mgw.transforms.errors import GatewayError

__all__ = [
    "ForeignQueueDef",
    "MessageNotFound",
    "NotFound",
    "agent",
    "foreign_queue",
    "job",
    "job_row",
    "known_names",
    "link",
    "link_name",
    "object_type",
    "queue",
    "queue_table",
    "transformation",
]

_Found = TypeVar("_Found")

#: Numbers of what procedures raise where there is no such object.
_NUMBERS = {
    "agent": Ora.AGENT_MISSING,
    "link": Ora.LINK_MISSING,
    "foreign queue": Ora.QUEUE_MISSING,
    "job": Ora.JOB_MISSING,
    "subscriber": Ora.SUBSCRIBER_MISSING,
    "schedule": Ora.SCHEDULE_MISSING,
    "transformation": Ora.INVALID_VALUE,
    "queue": errors.QueueMissing.ora,
    "queue table": errors.QueueTableMissing.ora,
    "object type": errors.TypeMissing.ora,
    "AQ agent": errors.AgentMissing.ora,
}


class NotFound(GatewayError):
    """There is no object of that name; the text names the one that was probably meant.

    Attributes:
        about: kind and name of what was looked for.
    """

    about = ""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        self.about = f"{kind} {name}"
        guess = nearest(name, known)
        hint = f"did you mean {guess!r}?" if guess else f"known: {', '.join(known)}" if known else "none is defined yet"
        super().__init__(
            f"{kind} {name!r} does not exist", cause=f"no {kind} has that name", cure=hint, number=_NUMBERS.get(kind)
        )

    def __str__(self) -> str:
        return ("" if self.number is None else f"ORA-{self.number:05d}: ") + f"{self.what}; {self.cure}"


class MessageNotFound(NotFound):
    """There is no such message where it was looked for."""

    def __init__(self, message: str, where: str) -> None:
        self.about = f"message {message:.200}"
        GatewayError.__init__(
            self,
            f"message {message:.200} is not in {where}",
            number=errors.MessageMissing.ora,
            cause="it was taken, moved or removed, or was never there",
            cure="see which messages there are",
        )


def _found(kind: str, name: str, found: _Found | None, known: Callable[[], Sequence[str]]) -> _Found:
    """``found``, or the refusal with the names that ``known`` lists only then."""
    if found is None:
        raise NotFound(kind, name, known())
    return found


def agent(admin: GatewayAdmin, name: str) -> AgentDef:
    """The agent.

    Raises:
        NotFound: there is none of that name.
    """
    return _found("agent", name, admin.get_agent(name), lambda: [each.name for each in admin.list_agents()])


def link(admin: GatewayAdmin, name: str) -> LinkDef:
    """The link with its secrets.

    Raises:
        NotFound: there is none of that name.
        ConfigInvalid: its secrets cannot be decrypted.
    """
    return _found("link", name, admin.get_link(name), admin.link_names)


def link_name(admin: GatewayAdmin, name: str) -> str:
    """The name of a link as it was defined; its secrets may be unreadable.

    Raises:
        NotFound: there is none of that name.
    """
    with admin.hub.read() as conn:
        found = catalog.get_link(conn, name)
    return _found("link", name, found, admin.link_names).name


def foreign_queue(admin: GatewayAdmin, full_name: str) -> ForeignQueueDef:
    """The registration ``queue@link``.

    Raises:
        NotFound: there is none of that name.
    """
    name, _, link_of_it = full_name.rpartition("@")
    return _found(
        "foreign queue",
        full_name,
        admin.get_foreign_queue(name, link_of_it),
        lambda: [f"{each.name}@{each.link}" for each in admin.list_foreign_queues()],
    )


def transformation(admin: GatewayAdmin, name: str) -> TransformationDef:
    """The transformation.

    Raises:
        NotFound: there is none of that name.
    """
    known = admin.list_transformations
    return _found("transformation", name, admin.get_transformation(name), lambda: [each.name for each in known()])


def job(admin: GatewayAdmin, name: str) -> JobDef:
    """The job.

    Raises:
        NotFound: there is none of that name.
    """
    return _found("job", name, admin.get_job(name), lambda: [each.name for each in admin.list_jobs()])


def job_row(hub: Hub, name: str) -> status.JobRow:
    """The job as the view MGW_JOBS shows it.

    Raises:
        NotFound: there is none of that name.
    """
    with hub.read() as conn:
        found = status.job(conn, name)
    return _found("job", name, found, lambda: _job_rows(hub))


def _job_rows(hub: Hub) -> list[str]:
    with hub.read() as conn:
        return [row.job_name for row in status.jobs(conn)]


# -- the hub's own -----------------------------------------------------------------------------------------------------


def queue(hub: Hub, name: str, user: str | None = None) -> str:
    """The full name of a queue of the hub. A user is told by the hub itself, which hides what is others'.

    Raises:
        NotFound: there is none of that name.
        AqError: it is not a name.
    """
    if user is not None:
        return name
    admin = QueueAdmin(hub)
    return _found("queue", name, admin.queue(name), lambda: _queues(admin)).full_name


def _queues(admin: QueueAdmin) -> list[str]:
    return [each.full_name for each in admin.queues() if not each.name.upper().startswith("AQ$_")]


def queue_table(hub: Hub, name: str) -> str:
    """The full name of a queue table.

    Raises:
        NotFound: there is none of that name.
        AqError: it is not a name.
    """
    admin = QueueAdmin(hub)
    known = admin.queue_tables
    return _found("queue table", name, admin.queue_table(name), lambda: [each.full_name for each in known()]).full_name


def object_type(hub: Hub, name: str) -> str:
    """The full name of an object type.

    Raises:
        NotFound: there is none of that name.
        AqError: it is not a name.
    """
    admin = QueueAdmin(hub)
    found = admin.object_type(name)
    return _found("object type", name, found, lambda: [each.full_name for each in admin.types()]).full_name


def known_names(hub: Hub, section: str) -> list[str]:
    """The names of one section of the configuration (``links``, ``queues``), of ``subscribers`` of any queue, or of
    ``job_subscribers`` and ``schedules``, to complete what somebody types."""
    if section == "subscribers":
        return sorted({each.name for each in QueueAdmin(hub).queue_subscribers() if each.name})
    if section in ("job_subscribers", "schedules"):
        with hub.read() as conn:
            found = catalog.list_schedules(conn) if section == "schedules" else catalog.list_subscribers(conn)
        return [each.name for each in found]
    return list(getattr(read_running(hub), section))
