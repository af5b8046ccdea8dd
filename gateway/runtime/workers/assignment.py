"""Which worker runs which job. Pure: jobs and workers in, numbers out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mgw.gateway.definitions.objects import JobDef, Propagation, key

__all__ = ["Load", "assign", "load_of"]


@dataclass(frozen=True, slots=True)
class Load:
    """What matters of a job here.

    Attributes:
        kind: propagation type.
        queues: of the hub, at its ends: jobs that share one are a route.
    """

    kind: Propagation
    queues: frozenset[str] = frozenset()


def load_of(job: JobDef) -> Load:
    """The load that a job is."""
    kind = job.propagation_type
    ends = [*([] if kind.from_link else [job.source]), *([] if kind.to_link else [job.destination])]
    return Load(kind, frozenset(key(name) for name in ends))


def assign(jobs: Mapping[int, Load], workers: Collection[int], before: Mapping[int, int]) -> dict[int, int]:
    """The worker of each job.

    A job stays where it was ``before``, as long as that worker is one of ``workers``. Every other one goes to a worker
    with the fewest jobs; of those, to the one with the fewest jobs of the same route, so that what fills a queue of the
    hub and what empties it use different cores; then to the one with the fewest jobs of its type.
    """
    placed = {job: number for job, number in before.items() if job in jobs and number in workers}
    total, kinds, routes = Counter[int](), Counter[tuple[int, Propagation]](), Counter[tuple[int, str]]()

    def note(job: int, number: int) -> None:
        total[number] += 1
        kinds[number, jobs[job].kind] += 1
        routes.update((number, queue) for queue in jobs[job].queues)

    for job, number in placed.items():
        note(job, number)
    for job in sorted(jobs.keys() - placed.keys()):
        load = jobs[job]

        def weight(number: int, load: Load = load) -> tuple[int, int, int, int]:
            together = sum(routes[number, queue] for queue in load.queues)
            return total[number], together, kinds[number, load.kind], number

        placed[job] = min(workers, key=weight)
        note(job, placed[job])
    return placed
