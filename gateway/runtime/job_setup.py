"""Everything that a running job depends on, collected from the definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from mgw.gateway.aq import QueueRef, RuleFunction, shown_key
from mgw.gateway.definitions.job_options import park_key
from mgw.gateway.definitions.objects import JobDef, JobStatus, Snapshot, key
from mgw.links.attempt import Attempt
from mgw.links.contract import Direction, GuaranteeReport, JobUse, Link, LinkConfig, weakest
from mgw.links.exception_guarantee import with_exceptions
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError
from mgw.transforms.steps.registry import TransformationDefinition, with_steps

__all__ = ["JobSetup", "LinkEnd", "setup_of"]


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """An end of a job in a foreign system."""

    link: LinkConfig
    use: JobUse
    direction: Direction
    limit: int | None = None  # of connections of the link, for all its jobs; None: no limit


@dataclass(frozen=True, slots=True)
class JobSetup:
    """All definitions that a running job depends on; it is restarted when one of them changes."""

    job: JobDef
    source: LinkEnd | None  # None: a queue of the hub
    target: LinkEnd | None
    exception_use: JobUse | None
    transformation: TransformationDefinition | None
    queues: tuple[QueueRef | None, ...] = ()  # of the hub; None: it is gone
    modules: tuple[str, ...] = ()  # that its transformation may call functions of
    functions: tuple[RuleFunction, ...] = ()  # that its rule and its transformation may call

    @property
    def ends(self) -> tuple[LinkEnd, ...]:
        """The ends in foreign systems, the source first."""
        return tuple(end for end in (self.source, self.target) if end is not None)

    @property
    def connections(self) -> int:
        """Connections that the running job holds."""
        return sum(needed for needed, _ in self.held.values())

    @property
    def held(self) -> Mapping[str, tuple[int, int | None]]:
        """Connections that the running job holds of each link, and how many the link may have."""
        needed = Counter(end.link.name for end in self.ends)
        if self.source is not None and self.exception_use is not None:
            needed[self.source.link.name] += 1
        return {end.link.name: (needed[end.link.name], end.limit) for end in self.ends}

    def promised(self, source: Link | None, target: Link | None, exceptions: Link | None) -> GuaranteeReport:
        """What its ends and its exception queue promise together, asked now.

        Args:
            source, target: the links of its ends.
            exceptions: the link of its exception queue, without logs; None: it has none on a link.

        Raises:
            LinkError: an end cannot be asked, or is gone.
        """
        reports = []
        for end, link in ((self.source, source), (self.target, target)):
            if end is not None and link is not None:
                report = link.verify(end.use, end.direction)
                named = len(self.ends) > 1 and report.note
                note = f"{end.use.endpoint.full_name}: {report.note}" if named else report.note
                reports.append(GuaranteeReport(report.level, note))
        promise = weakest(reports)
        if exceptions is None or self.exception_use is None:
            return promise
        return with_exceptions(promise, exceptions, self.exception_use)

    def begin(self) -> JobSetup:
        """The same for a new attempt, in which the links are asked again what they were told in earlier ones."""
        source, target = (
            None if end is None else replace(end, use=replace(end.use, attempt=Attempt()))
            for end in (self.source, self.target)
        )
        exceptions = self.exception_use and replace(self.exception_use, attempt=Attempt())
        return replace(self, source=source, target=target, exception_use=exceptions)

    def failed_link(self, error: Exception) -> LinkConfig | None:
        """The link that an error came from; the source's where the error does not say it. None: there is no link."""
        name = getattr(error, "link", "")
        return next((end.link for end in self.ends if end.link.name == name), self.ends[0].link if self.ends else None)


def setup_of(snapshot: Snapshot, job: JobDef, hub_id: bytes, clock: Clock) -> JobSetup:
    """Collect what ``job`` needs from the definitions.

    Raises:
        GatewayError: a definition it refers to is missing.
    """
    kind = job.propagation_type
    exception_use = None
    if job.exception_queue and kind.from_link:
        exception_use = replace(_use(snapshot, job, job.exception_queue, hub_id, clock), logged=False)
    transformation = None
    if job.transformation is not None:
        transformation = _definition(snapshot, job.transformation)
        if transformation is None:
            raise GatewayError(
                f"job {job.name}: transformation {job.transformation} does not exist",
                cause="it was dropped after the job was created",
                cure="register it again, or alter the job",
                number=703,
            )
        transformation = with_steps(transformation, partial(_definition, snapshot))
    return JobSetup(
        replace(job, status=JobStatus.READY, resets=0, comments=None),
        _end(snapshot, job, job.source, Direction.INBOUND, hub_id, clock) if kind.from_link else None,
        _end(snapshot, job, job.destination, Direction.OUTBOUND, hub_id, clock) if kind.to_link else None,
        exception_use,
        transformation,
        tuple(snapshot.hub_queues.get(name) for name in job.hub_queues),
        snapshot.modules if transformation is not None else (),
        snapshot.functions if transformation is not None or job.rule is not None or park_key(job.options) else (),
    )


def _definition(snapshot: Snapshot, name: str) -> TransformationDefinition | None:
    found = snapshot.transformations.get(shown_key(name))
    return None if found is None else TransformationDefinition.from_mapping(found.name, found.definition)


def _end(  # noqa: PLR0917
    snapshot: Snapshot, job: JobDef, foreign: str, direction: Direction, hub_id: bytes, clock: Clock
) -> LinkEnd:
    name = job.source_link if direction is Direction.INBOUND else job.target_link
    link = snapshot.links[key(name)]
    return LinkEnd(link.config(), _use(snapshot, job, foreign, hub_id, clock), direction, link.max_connections)


def _use(snapshot: Snapshot, job: JobDef, foreign: str, hub_id: bytes, clock: Clock) -> JobUse:
    registered = snapshot.foreign_queue(foreign)
    if registered is None:
        raise GatewayError(
            f"job {job.name}: foreign queue {foreign} is not registered",
            cause="it was unregistered after the job was created",
            cure="register it again",
            number=434,
        )
    return JobUse(
        endpoint=registered.endpoint(),
        job=job.name,
        agent=job.agent,
        options=job.options,
        batch_size=job.batch_size,
        batch_limit=job.batch_limit,
        through=job.propagation_type.from_link and job.propagation_type.to_link,
        rule=job.rule,
        hub_id=hub_id.hex(),
        clock=clock,
    )
