"""Checks of jobs: their ends, options, rule and exception queue, and what no two of them may share."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.config.checks.context import Context
from mgw.gateway.config.findings import Path
from mgw.gateway.config.forms import folded, hub_name, spec_of
from mgw.gateway.config.models import JobModel, LinkModel, QueueModel
from mgw.gateway.definitions.objects import Propagation, key, split_foreign
from mgw.links.contract import Direction, Domain
from mgw.links.options import stored, typed
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = ["check_job", "check_sources"]


def check_job(ctx: Context, name: str, job: JobModel) -> None:
    """A job and everything it names."""
    path: Path = ("jobs", name)
    ctx.name(path, name)
    kind = Propagation(job.type)
    links: list[LinkModel | None] = []
    read: QueueModel | None = None
    for end, foreign in (("source", kind.from_link), ("destination", kind.to_link)):
        named = getattr(job, end)
        if foreign:
            links.append(_foreign_end(ctx, path, end, named, job))
        else:
            queue = _hub_end(ctx, path, end, named, job)
            read = queue if end == "source" else read
    if None not in links:
        _options(ctx, path, [link for link in links if link is not None], job)
    if kind.from_link == kind.to_link:
        _same_place(ctx, path, job)
    ctx.transformation((*path, "transformation"), job.transformation)
    _rule(ctx, path, job, read)
    _exception_queue(ctx, path, job, read)


def _same_place(ctx: Context, path: Path, job: JobModel) -> None:
    """A job that reads what it writes never ends."""
    place = (*path, "destination")
    if place in ctx.source.unresolved or (*path, "source") in ctx.source.unresolved:
        return
    same = hub_name(job.source) == hub_name(job.destination)
    one, other = ctx.foreign.get(key(job.source)), ctx.foreign.get(key(job.destination))
    if one is not None and other is not None and not same:
        source, target = split_foreign(job.source) or ("", ""), split_foreign(job.destination) or ("", "")
        provider = one.provider_queue or source[0]
        link = ctx.links.get(key(source[1]))
        spec = spec_of(link.type) if link is not None and key(source[1]) == key(target[1]) else None
        same = spec is not None and spec.covers(provider, other.provider_queue or target[0])
    if same:
        ctx.source.error(
            "bad-destination",
            place,
            f"{job.destination!r} is the source of the job, which would read what it writes",
            "name another queue",
        )


def _foreign_end(ctx: Context, path: Path, end: str, name: str, job: JobModel) -> LinkModel | None:
    place = (*path, end)
    if place in ctx.source.unresolved:
        return None
    parts = split_foreign(name)
    if parts is None:
        ctx.source.error(
            "bad-" + end,
            place,
            f"{end} {name!r} of {_article(job)} job is not a foreign queue",
            "write queue@link, or change the type of the job",
        )
        return None
    link = ctx.links.get(key(parts[1]))
    if link is None:
        ctx.unknown("unknown-link", place, "links", parts[1])
    elif key(name) not in ctx.foreign:
        ctx.unknown("undefined-foreign-queue", place, "foreign_queues", name)
    else:
        provider = ctx.foreign[key(name)].provider_queue or parts[0]
        wildcard = end == "destination" and any(letter in provider for letter in "+#*")
        finding = "wildcard-destination" if wildcard else "bad-" + end
        ctx.endpoint(finding, place, name, Direction.INBOUND if end == "source" else Direction.OUTBOUND)
    return link


def _hub_end(ctx: Context, path: Path, end: str, name: str, job: JobModel) -> QueueModel | None:
    place = (*path, end)
    if place in ctx.source.unresolved:
        return None
    if "@" in name:
        ctx.source.error(
            "bad-" + end,
            place,
            f"{end} {name!r} of {_article(job)} job is a foreign queue",
            "name a queue of the hub, or change the type of the job",
        )
        return None
    found = ctx.queues.get(hub_name(name))
    if found is None:
        ctx.unknown("undefined-queue", place, "queues", name)
        return None
    if found[1].type == "EXCEPTION" and end == "destination":
        ctx.source.error("bad-destination", place, f"{name!r} is an exception queue", "only the hub may write into it")
    return found[1]


def _article(job: JobModel) -> str:
    return f"{'an' if job.type in {'INBOUND', 'OUTBOUND'} else 'a'} {job.type}"


def _options(ctx: Context, path: Path, links: Sequence[LinkModel], job: JobModel) -> None:
    from mgw.gateway.definitions.job_options import JOB_OPTIONS, MAX_BATCH_SIZE, NO_LOCAL, check_batch_limit

    specs = [spec_of(link.type) for link in links]
    if None in specs:
        return
    names = {name.lower() for name in job.options}
    if job.batch_size is not None and "msgbatchsize" in names:
        ctx.source.error(
            "conflicting-keys",
            (*path, "batch_size"),
            "batch_size and MsgBatchSize are the same",
            "keep one of them",
        )
    own = {each.name.lower(): each for spec in specs if spec is not None for each in spec.job_options}
    common = tuple(each for each in JOB_OPTIONS if each.name.lower() not in own)
    ctx.values((*path, "options"), common + tuple(own.values()), job.options, f"job {path[1]}")
    written = {name: value for name, value in job.options.items() if value is not None}
    given = {name.lower(): stored(value) for name, value in typed(written, common + tuple(own.values())).items()}
    kind = Propagation(job.type)
    for end, foreign, direction in (
        (job.source, kind.from_link, Direction.INBOUND),
        (job.destination, kind.to_link, Direction.OUTBOUND),
    ):
        if foreign:
            ctx.job_end((*path, "options"), end, given, direction)
    if not kind.from_link and given.get(NO_LOCAL.name.lower()) == "TRUE":
        ctx.source.error(
            "bad-value",
            ctx.place((*path, "options"), NO_LOCAL.name),
            f"{NO_LOCAL.name} is for a job that reads a link, and {job.source!r} is a queue of the hub",
            "remove it",
        )
    sizes = {} if job.batch_size is None else {"MsgBatchSize": str(job.batch_size)}
    try:
        check_batch_limit(str(path[1]), {name: value for name, value in job.options.items() if value} | sizes)
    except ConfigInvalid as error:
        ctx.refused("bad-value", ctx.place((*path, "options"), MAX_BATCH_SIZE.name), error)
    except ValueError:
        pass  # one of them is no number: see above
    _parking(ctx, path, job)


def _parking(ctx: Context, path: Path, job: JobModel) -> None:
    from mgw.gateway.aq import bound_functions
    from mgw.gateway.definitions.job_options import PARK_KEY, park_key
    from mgw.gateway.definitions.parking_key import check_park_key

    key = park_key({name: str(value) for name, value in job.options.items() if value})
    place = ctx.place((*path, "options"), PARK_KEY.name)
    if key is None or place in ctx.source.unresolved:
        return
    try:
        check_park_key(str(path[1]), Propagation(job.type), key, bound_functions(ctx.bindings))
    except GatewayError as error:
        ctx.refused("bad-value", place, error)


def _rule(ctx: Context, path: Path, job: JobModel, queue: QueueModel | None) -> None:
    place = (*path, "rule")
    if job.rule is None or place in ctx.source.unresolved:
        return
    from mgw.gateway.aq import compile_rule

    try:
        if not ctx.as_held("jobs", str(path[1]), lambda job: job.rule):
            compile_rule(job.rule, bindings=ctx.bindings)
    except GatewayError as error:
        ctx.refused("bad-rule", place, error)
        return
    if queue is not None and not ctx.shape(queue).multiple_consumers:
        ctx.source.error(
            "bad-rule",
            place,
            f"{job.source!r} has a single consumer, which takes every message",
            "set multiple_consumers: true on the queue, or remove the rule",
        )


def _exception_queue(ctx: Context, path: Path, job: JobModel, queue: QueueModel | None) -> None:
    name, place = job.exception_queue, (*path, "exception_queue")
    if place in ctx.source.unresolved:
        return
    if name is None:
        _unrouted(ctx, path, job)
        return
    from_link = Propagation(job.type).from_link
    same = key(name) == key(job.source) if from_link else hub_name(name) == hub_name(job.source)
    if same:
        ctx.source.error("bad-exception-queue", place, "it is the source of the job", "name another queue")
    elif from_link:
        _foreign_exception_queue(ctx, place, name, job)
    else:
        _hub_exception_queue(ctx, place, name, job, queue)


def _unrouted(ctx: Context, path: Path, job: JobModel) -> None:
    from mgw.gateway.definitions.job_options import UNROUTED, Unrouted

    for name, value in job.options.items():
        if name.lower() == UNROUTED.name and str(value).lower() == Unrouted.EXCEPTION_QUEUE:
            ctx.source.error(
                "bad-value",
                (*path, "options", name),
                f"{name}: {value} needs an exception queue, and the job has none",
                "give the job an exception_queue, or choose another value",
            )


def _foreign_exception_queue(ctx: Context, place: Path, name: str, job: JobModel) -> None:
    own, other = split_foreign(job.source), split_foreign(name)
    if own is None:
        return
    if other is None or key(other[1]) != key(own[1]):
        ctx.source.error(
            "bad-exception-queue",
            place,
            f"{name!r} is not on link {own[1]!r} of the source",
            f"register a queue there and write queue@{own[1]}",
        )
    elif key(name) not in ctx.foreign:
        ctx.unknown("undefined-foreign-queue", place, "foreign_queues", name)
    else:
        ctx.endpoint("bad-exception-queue", place, name, Direction.OUTBOUND)


def _hub_exception_queue(ctx: Context, place: Path, name: str, job: JobModel, queue: QueueModel | None) -> None:
    if split_foreign(name) is not None:
        ctx.source.error(
            "bad-exception-queue",
            place,
            f"{name!r} is a foreign queue; the exception queue of {_article(job)} job is on the side of its source",
            "name a queue of the hub",
        )
        return
    found = ctx.queues.get(hub_name(name))
    if found is None:
        ctx.unknown("undefined-queue", place, "queues", name)
        return
    if found[1].type == "EXCEPTION":
        ctx.source.error("bad-exception-queue", place, f"{name!r} has type EXCEPTION", "name a queue of type NORMAL")
    elif queue is not None:
        wanted, has = ctx.shape(queue), ctx.shape(found[1])
        if wanted.payload_type != has.payload_type:
            ctx.source.error(
                "bad-exception-queue",
                place,
                f"{name!r} holds {has.payload_type}, the source holds {wanted.payload_type}",
                f"give {name!r} payload_type {wanted.payload_type}",
            )
        elif wanted.jms_types and not has.jms_types:
            ctx.source.error(
                "bad-exception-queue",
                place,
                f"{name!r} does not accept JMS and XML types, the source does",
                f"give {name!r} jms_types: true",
            )


def check_sources(ctx: Context) -> None:
    """One job per queue source, one job per (type, source, destination)."""
    by_source: dict[str, str] = {}
    triplets: dict[tuple[str, str, str], str] = {}
    new = set(folded(ctx.document.jobs))
    old = {name: job for name, job in ctx.existing.jobs.items() if key(name) not in new}
    for name, job in (old | dict(ctx.document.jobs)).items():
        path: Path = ("jobs", name)
        ends = (hub_name(job.source), hub_name(job.destination))
        twin = triplets.setdefault((job.type, *ends), name)
        if twin != name:
            ctx.source.error(
                "duplicate-job", path, f"job {twin!r} has the same source and destination", "remove one of the two"
            )
            continue
        if not _is_queue_source(ctx, job):
            continue
        owner = by_source.setdefault(ends[0], name)
        if owner != name:
            cure = "let one job read it"
            if not Propagation(job.type).from_link:
                cure = f"set multiple_consumers: true on {job.source!r}, then any number of jobs may read it"
            ctx.source.error(
                "duplicate-source",
                (*path, "source"),
                f"job {owner!r} reads {job.source!r} already, and a queue gives each message to one reader",
                cure,
            )


def _is_queue_source(ctx: Context, job: JobModel) -> bool:
    if not Propagation(job.type).from_link:
        found = ctx.queues.get(hub_name(job.source))
        return found is not None and not ctx.shape(found[1]).multiple_consumers
    parts = split_foreign(job.source)
    link = ctx.links.get(key(parts[1])) if parts else None
    queue = ctx.foreign.get(key(job.source))
    spec = spec_of(link.type) if link else None
    if spec is None or queue is None:
        return False
    domain = Domain(queue.domain) if queue.domain else next((each for each in spec.domains if each), None)
    return domain is not Domain.TOPIC
