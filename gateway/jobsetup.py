"""Everything that a running job depends on, collected from the definitions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.admin import link_config
from gateway.aq.model import QueueRef
from gateway.aq.names import shown_key
from gateway.model import JobDef, JobStatus, Snapshot, key
from links.contract import Direction, JobUse, LinkConfig
from transforms.clock import Clock
from transforms.errors import GatewayError
from transforms.registry import TransformationDefinition

__all__ = ["JobSetup", "setup_of"]


@dataclass(frozen=True, slots=True)
class JobSetup:
    """All definitions that a running job depends on; it is restarted when one of them changes."""

    job: JobDef
    link: LinkConfig
    use: JobUse
    exception_use: JobUse | None
    transformation: TransformationDefinition | None
    max_connections: int | None = None  # of the link, for all its jobs; None: no limit
    queues: tuple[QueueRef | None, ...] = ()  # of the hub; None: it is gone

    @property
    def connections(self) -> int:
        """Connections that the running job holds."""
        return 1 if self.exception_use is None else 2


def setup_of(snapshot: Snapshot, job: JobDef, hub_id: bytes, clock: Clock) -> JobSetup:
    """Collect what ``job`` needs from the definitions.

    Raises:
        GatewayError: a definition it refers to is missing.
    """
    link = snapshot.links[key(job.link)]
    config = link_config(link)
    foreign = job.source if job.propagation_type is Direction.INBOUND else job.destination
    exception_use = None
    if job.exception_queue and job.propagation_type is Direction.INBOUND:
        exception_use = replace(_use(snapshot, job, job.exception_queue, hub_id, clock), logged=False)
    transformation = None
    if job.transformation is not None:
        defined = snapshot.transformations.get(shown_key(job.transformation))
        if defined is None:
            raise GatewayError(
                f"job {job.name}: transformation {job.transformation} does not exist",
                cause="it was dropped after the job was created",
                cure="register it again, or alter the job",
                number=703,
            )
        transformation = TransformationDefinition.from_mapping(defined.name, defined.definition)
    return JobSetup(
        replace(job, status=JobStatus.READY, resets=0),
        config,
        _use(snapshot, job, foreign, hub_id, clock),
        exception_use,
        transformation,
        link.max_connections,
        tuple(snapshot.hub_queues.get(name) for name in job.hub_queues),
    )


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
        rule=job.rule,
        hub_id=hub_id.hex(),
        clock=clock,
    )
