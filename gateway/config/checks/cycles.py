"""Loops in the graph of jobs: what a job writes comes back to it through others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import eq
from typing import NamedTuple

from mgw.gateway.config.checks.context import Context
from mgw.gateway.config.forms import folded, hub_name, link_config, spec_of
from mgw.gateway.config.models import JobModel, LinkModel
from mgw.gateway.definitions.job_options import MAX_PASSES
from mgw.gateway.definitions.objects import Propagation, key, split_foreign
from mgw.links.contract import LinkSpec
from mgw.links.patterns import amqp_covers, mqtt_covers

__all__ = ["check_cycles"]

_HEADER = re.compile(r"\s*header\.(.+)", re.IGNORECASE)
_LOOK = re.compile(r"\bHEADER\s*\(\s*'([^']+)'", re.IGNORECASE)
_WORDS = (eq, amqp_covers, mqtt_covers)  # what is known of them: without a wildcard a name is itself
_WILDCARD = re.compile(r"[*#+]|^\$share/")
_MAX_STARTS = 100  # jobs of a large group from which a short ring is looked for
_SHORTEST = 2  # jobs of a ring
_MAX_NAMES = 10_000  # of transformations that are looked at: steps that have steps may go round themselves


class _End(NamedTuple):
    """Where a job reads or writes: a queue of the hub, or a place at a messaging system."""

    queue: str = ""  # of the hub
    system: object = None  # what two links to one messaging system have in common
    spec: LinkSpec | None = None
    provider: str = ""


def check_cycles(ctx: Context) -> None:
    """Warn of each loop once, at the first job of it that the files have.

    A rule or a transformation may end a loop, so it is not an error. One that looks at a header which the loop sets is
    there for that: nothing is said then, and neither where a job stops what goes round all the same (max_passes).
    Disabled jobs count: they may be enabled.
    """
    new = set(folded(ctx.document.jobs))
    old = {name: job for name, job in ctx.existing.jobs.items() if key(name) not in new}
    jobs: dict[str, JobModel] = dict(ctx.document.jobs) | old
    ends = {
        name: pair
        for name, job in jobs.items()
        if (pair := _ends(ctx, job)) is not None and not _reads(pair[0], pair[1])  # that is an error of its own
    }
    after = _followers(ends)
    for ring in _rings(after):
        first = next((name for name in ctx.document.jobs if name in ring), None)
        if first is None:  # all of it is in the hub, and was told of when it was made
            continue
        at = ring.index(first)
        turned = (*ring[at:], *ring[:at])
        if _is_ended(ctx, [jobs[name] for name in turned]):
            continue
        shown = " -> ".join(f"{name} ({jobs[name].source} to {jobs[name].destination})" for name in turned)
        guarded = [name for name in turned if jobs[name].rule is not None or jobs[name].transformation is not None]
        stopping = any(_stops(jobs[name]) for name in turned)
        if guarded and stopping:
            continue
        cure = "let one of them read or write another place"
        if guarded:
            cure = f"make sure that the rule or transformation of {', '.join(guarded)} ends it, or {cure}"
        else:
            cure = f"{cure}, or give one a rule that leaves out what comes back"
        if not stopping:
            cure = f"{cure}; the option {MAX_PASSES.name} of a job, 3 for example, stops a message that goes round"
        ctx.source.warning(
            "loop", ("jobs", first, "destination"), f"a message may go round again and again: {shown} -> {first}", cure
        )


def _stops(job: JobModel) -> bool:
    """Whether the job lets a message pass a few times only."""
    given = {name.lower(): value for name, value in job.options.items()}
    return str(given.get(MAX_PASSES.name, MAX_PASSES.default)) != "0"


def _ends(ctx: Context, job: JobModel) -> tuple[_End, _End] | None:
    kind = Propagation(job.type)
    source = _foreign(ctx, job.source) if kind.from_link else _End(hub_name(job.source))
    target = _foreign(ctx, job.destination) if kind.to_link else _End(hub_name(job.destination))
    return None if source is None or target is None else (source, target)


def _is_ended(ctx: Context, ring: Sequence[JobModel]) -> bool:
    """Whether a condition in the ring looks at a header that a transformation in the ring sets."""
    conditions = [job.rule for job in ring if job.rule is not None]
    marks: set[str] = set()
    names = [job.transformation for job in ring if job.transformation is not None]
    for name in names:  # with their steps, which have none themselves
        found = ctx.transformations.get(hub_name(name))
        definition = {} if found is None else found[1].definition
        steps, assigned, where = (definition.get(part) for part in ("steps", "set", "where"))
        if isinstance(steps, list) and len(names) <= _MAX_NAMES:
            names += [step for step in steps if isinstance(step, str)]
        if isinstance(assigned, Mapping):
            marks |= {header[1].casefold() for target in assigned if (header := _HEADER.fullmatch(str(target)))}
        if isinstance(where, str):
            conditions.append(where)
    looked_at = {name.casefold() for condition in conditions for name in _LOOK.findall(condition)}
    return bool(marks & looked_at)


def _foreign(ctx: Context, name: str) -> _End | None:
    parts, queue = split_foreign(name), ctx.foreign.get(key(name))
    link = ctx.links.get(key(parts[1])) if parts else None
    spec = spec_of(link.type) if link is not None else None
    if parts is None or queue is None or link is None or spec is None:
        return None  # told elsewhere
    return _End("", _system(parts[1], link, spec), spec, queue.provider_queue or parts[0])


def _system(name: str, link: LinkModel, spec: LinkSpec) -> object:
    """What links that lead to one messaging system have in common: the attributes that people see of it, not how a
    link connects. A link without such attributes is a system of its own. Of two attributes of which one may be set
    instead of the other, the first counts if it is given: a link may name more nodes of a cluster than another."""
    attributes = {each.name.lower(): each for each in spec.attributes if each.shown}
    given = {name.lower(): value for name, value in link_config(name, link).attributes.items()}
    for field in [field for each, field in attributes.items() if field.instead and each in given]:
        attributes.pop(field.instead.lower(), None)
    shown = tuple((each, str(given.get(each, field.default))) for each, field in sorted(attributes.items()))
    return (spec.type, shown) if shown else (spec.type, key(name))


def _reads(source: _End, target: _End) -> bool:
    """Whether a job with that source reads what is written to ``target``."""
    if source.spec is None or target.spec is None:
        return bool(source.queue) and source.queue == target.queue
    return source.system == target.system and source.spec.covers(source.provider, target.provider)


def _followers(ends: Mapping[str, tuple[_End, _End]]) -> dict[str, list[str]]:
    """For each job those that read what it writes. Sources are looked up by where they are."""
    places: dict[object, list[str]] = {}  # only those that need a look
    named: dict[tuple[object, str], list[str]] = {}  # those that read one place, at a system
    order = {name: number for number, name in enumerate(ends)}
    for name, (source, _) in ends.items():
        if _is_plain(source):
            named.setdefault((source.system, source.provider), []).append(name)
        else:
            places.setdefault(source.queue or source.system, []).append(name)
    after = {}
    for name, (_, target) in ends.items():
        patterns = [each for each in places.get(target.queue or target.system, ()) if _reads(ends[each][0], target)]
        plain = [] if target.spec is None else named.get((target.system, target.provider), [])
        after[name] = sorted([*plain, *patterns], key=order.__getitem__)
    return after


def _is_plain(source: _End) -> bool:
    """Whether a source reads the one place of its name: what it holds is no pattern."""
    if source.spec is None or source.spec.covers not in _WORDS:
        return False
    return source.spec.covers is eq or _WILDCARD.search(source.provider) is None


def _rings(after: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """One ring of each set of jobs that reach one another: a short one, and the same one each time."""
    for group in _groups(after):
        within = frozenset(group)
        found = _shortest(group[0], after, within)
        for name in group[1:_MAX_STARTS]:
            if len(found) == _SHORTEST:
                break
            found = min(found, _shortest(name, after, within), key=len)
        yield found


def _shortest(start: str, after: Mapping[str, Sequence[str]], group: frozenset[str]) -> tuple[str, ...]:
    """The shortest way from a job back to it, within its group."""
    came: dict[str, str] = {}
    reached = [start]
    for name in reached:
        for each in after[name]:
            if each == start:
                way = [name]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return tuple(reversed(way))
            if each in group and each not in came:
                came[each] = name
                reached.append(each)
    raise AssertionError(f"{start} is in no ring")


def _groups(after: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Sets of two or more jobs that reach one another (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    held: set[str] = set()
    for root in after:
        if root in number:
            continue
        work = [(root, iter(after[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        held.add(root)
        while work:
            name, rest = work[-1]
            for each in rest:
                if each not in number:
                    number[each] = low[each] = len(number)
                    stack.append(each)
                    held.add(each)
                    work.append((each, iter(after[each])))
                    break
                if each in held:
                    low[name] = min(low[name], number[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    at = stack.index(name)
                    group, stack[at:] = tuple(stack[at:]), []
                    held.difference_update(group)
                    if len(group) > 1:
                        yield group
