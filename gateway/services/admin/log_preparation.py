"""Creation of the log queues and log topics that exactly-once delivery rests on, at the messaging system of a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import LinkDef, key
from mgw.gateway.services.admin.base import Ora
from mgw.gateway.services.admin.job_ends import foreign_end, job_use
from mgw.gateway.services.admin.links import LinkProcedures
from mgw.gateway.state import catalog
from mgw.links import registry
from mgw.links.contract import Direction, JobUse
from mgw.links.log_preparation import LogStep, LogVerb, PreparesLogs
from mgw.transforms.errors import AdminError

__all__ = ["Preparation", "PreparationProcedures"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What :meth:`PreparationProcedures.prepare_msgsystem_link` did, or would do.

    Attributes:
        settings: log queues that the link names from now on.
        steps: the logs at the messaging system.
    """

    link: str
    settings: Mapping[str, str]
    steps: Sequence[LogStep]

    @property
    def lines(self) -> list[str]:
        """What it changes, a line each; empty if nothing."""
        made = [str(step) for step in self.steps if step.verb is not LogVerb.NONE]
        return [*made, *(f"set    {name} of link {self.link} to {value}" for name, value in self.settings.items())]

    def as_json(self) -> dict[str, Any]:
        """As JSON has it."""
        steps = [{**step._asdict(), "verb": str(step.verb), "jobs": list(step.jobs)} for step in self.steps]
        return {"link": self.link, "settings": dict(self.settings), "logs": steps}


class PreparationProcedures(LinkProcedures):
    """Prepare links."""

    def prepare_msgsystem_link(self, linkname: str, *, dry_run: bool = False) -> Preparation:
        """Create the logs that the jobs of a link need for exactly once, and name them in the link if it names none.

        Connects to the messaging system. What is there already stays as it is, so it may be called again, also for
        jobs that were created since. A job that reads a RabbitMQ queue reads it alone from then on.

        Args:
            dry_run: change nothing; the result is what would be done.

        Raises:
            AdminError: ORA-32808; ORA-32801 the type of the link keeps no logs.
            LinkError: the messaging system refuses or does not answer, or a log is there and cannot serve. The link is
                as it was.
        """
        with self.hub.read() as conn:
            link = self.need_link(conn, linkname)
            uses = self._uses(conn, link)
        spec = registry.spec(link.type)
        names = {"inbound_log_queue": spec.inbound_log, "outbound_log_queue": spec.outbound_log}
        settings = {name: value for name, value in names.items() if value and getattr(link, name) is None}
        opened = registry.open_link(replace(link, **settings).config())  # type: ignore[arg-type]
        if not isinstance(opened, PreparesLogs):
            raise AdminError(
                f"link {link.name} cannot be prepared",
                number=Ora.INVALID_VALUE,
                cause=f"links of type {link.type} keep no logs",
                cure="nothing to do; MGW_JOBS.GUARANTEE shows what its jobs promise",
            )
        steps = opened.prepare_logs(uses, dry_run=dry_run)
        if settings and not dry_run:
            self.alter_msgsystem_link(link.name, settings)
        return Preparation(link.name, settings, steps)

    def _uses(self, conn: sa.Connection, link: LinkDef) -> list[tuple[JobUse, Direction]]:
        """The ends that jobs have on a link."""
        uses = []
        for job in catalog.list_subscribers(conn):
            if job.status.leaving:
                continue
            for end, name, direction in (
                (job.source_link, job.source, Direction.INBOUND),
                (job.target_link, job.destination, Direction.OUTBOUND),
            ):
                if key(end or "") == key(link.name):
                    uses.append((job_use(job, foreign_end(self, conn, name), self.hub), direction))
        return uses
