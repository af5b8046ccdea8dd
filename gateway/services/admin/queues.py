"""Procedures on foreign queues (AQ guide 12.2 §19.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mgw.gateway.definitions.objects import ForeignQueueDef, JobDef, key
from mgw.gateway.services.admin.base import Administration, Ora, check_identifier, check_text, refused
from mgw.gateway.services.admin.links import checked_options
from mgw.gateway.state import catalog
from mgw.links import registry
from mgw.links.contract import Domain
from mgw.transforms.errors import AdminError, ConfigInvalid

__all__ = ["QueueProcedures"]


class QueueProcedures(Administration):
    """Register and unregister foreign queues."""

    def get_foreign_queue(self, name: str, linkname: str) -> ForeignQueueDef | None:
        """The registration ``name@linkname``, or None."""
        with self.hub.read() as conn:
            return catalog.get_foreign_queue(conn, name, linkname)

    def list_foreign_queues(self) -> list[ForeignQueueDef]:
        """All registrations, by link and name."""
        with self.hub.read() as conn:
            return catalog.list_foreign_queues(conn)

    def register_foreign_queue(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        name: str,
        linkname: str,
        provider_queue: str | None = None,
        domain: Domain | str | None = None,
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
    ) -> None:
        """Record a queue, exchange or topic of a foreign system under a name; nothing is made or altered there.

        Args:
            provider_queue: its name there; None: ``name``.
            domain: QUEUE or TOPIC, or DOMAIN_QUEUE, DOMAIN_TOPIC; None lets the messaging system decide.

        Raises:
            AdminError: ORA-32808 no such link; ORA-32809 exists; ORA-32848 domain; ORA-32801 option or name.
        """
        check_identifier("foreign queue", name, queue=True)
        check_text(f"comment of foreign queue {name}@{linkname}", comment)
        with self.change("foreign queue", f"{name}@{linkname}") as conn:
            link = self.need_link(conn, linkname)
            spec = registry.spec(link.type)
            queue = ForeignQueueDef(
                name,
                link.name,
                name if provider_queue is None else provider_queue,
                _domain(domain, spec.domains, f"{name}@{link.name}"),
                checked_options(spec.queue_options, options or {}, f"foreign queue {name}@{link.name}"),
                comment,
            )
            if catalog.get_foreign_queue(conn, name, linkname) is not None:
                raise AdminError(
                    f"foreign queue {name}@{link.name} already exists",
                    number=Ora.QUEUE_EXISTS,
                    cause="it is registered",
                    cure="unregister it first: a registration cannot be altered",
                )
            try:
                registry.open_link(link.config()).check_endpoint(queue.endpoint(), None)
            except (AdminError, ConfigInvalid) as error:
                raise refused(error, error.number or Ora.INVALID_VALUE) from error
            catalog.insert_foreign_queue(conn, queue)

    def unregister_foreign_queue(self, name: str, linkname: str) -> None:
        """Remove a registration that no job, subscriber or schedule refers to.

        Raises:
            AdminError: ORA-32808, ORA-32810 unknown; ORA-32816 it is in use.
        """
        with self.change("foreign queue", f"{name}@{linkname}") as conn:
            if catalog.get_link(conn, linkname) is None:
                self.need_link(conn, linkname)
            queue = self.need_queue(conn, f"{name}@{linkname}")
            full = key(f"{name}@{linkname}")
            users = [
                job
                for job in catalog.list_subscribers(conn, link=linkname)
                if full in {key(job.source), key(job.destination), key(job.exception_queue or "")}
            ]
            if users:
                raise _in_use(f"{queue.name}@{queue.link}", users)
            schedules = [
                each.name for each in catalog.list_schedules(conn) if full in {key(each.source), key(each.destination)}
            ]
            if schedules:
                raise AdminError(
                    f"foreign queue {queue.name}@{queue.link} cannot be unregistered",
                    number=Ora.QUEUE_IN_USE,
                    cause=f"schedules use it: {', '.join(schedules)}",
                    cure="remove those schedules first (mgw schedules remove)",
                )
            catalog.delete_foreign_queue(conn, name, linkname)


def _in_use(name: str, users: Sequence[JobDef]) -> AdminError:
    staying = [job.name for job in users if not job.status.leaving]
    if staying:
        who = " and ".join(sorted({"subscribers" if job.schedule is None else "jobs" for job in users}))
        cause, cure = f"{who} use it: {', '.join(staying)}", f"remove those {who} first"
        schedules = [job.outbound.removal(job.source, job.destination) for job in users if job.outbound is not None]
        if schedules:
            cure += f"; those of schedules of DBMS_HQADM with: {'; '.join(schedules)}"
    else:
        cause = f"job {users[0].name} uses it, which is marked for removal and which its agent has not removed yet"
        cure = f"read the log of the agent, then repeat this; or: mgw jobs remove {users[0].name} --force"
    return AdminError(f"foreign queue {name} cannot be unregistered", number=Ora.QUEUE_IN_USE, cause=cause, cure=cure)


def _domain(given: Domain | str | None, allowed: tuple[Domain | None, ...], owner: str) -> Domain | None:
    domain: Domain | None
    try:
        domain = Domain(given.upper().removeprefix("DOMAIN_")) if given is not None else None
    except ValueError:
        raise AdminError(
            f"foreign queue {owner}: domain {given!r} is unknown",
            number=Ora.VALUE_MUST_BE,
            cause="a domain is QUEUE or TOPIC",
            cure="correct it, or leave it out",
        ) from None
    if domain not in allowed:
        names = ", ".join("none" if item is None else item.value for item in allowed)
        raise AdminError(
            f"foreign queue {owner}: domain {domain.value if domain else 'none'} is not possible",
            number=Ora.DOMAIN_REQUIRED,
            cause=f"the messaging system has: {names}",
            cure="choose one of those",
        )
    return domain
