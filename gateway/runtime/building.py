"""Makes the route of a job from its definitions: which ends it has, and what happens to a message between them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mgw.gateway.aq import bound_functions as bound
from mgw.gateway.aq import compile_rule, moved, transfer
from mgw.gateway.aq import payload_forms as payloads
from mgw.gateway.runtime.ends.hub_destination import HubDestination
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.ends.link_source import LinkSource
from mgw.gateway.runtime.ends.planned_source import PlannedLinkSource
from mgw.gateway.runtime.exception_queue import ForeignExceptionQueue
from mgw.gateway.runtime.isolation import IsolatingRoute
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.gateway.runtime.job_steps import Conversion, Fit, Transform
from mgw.gateway.runtime.route import Route, RouteContext
from mgw.gateway.runtime.through import ThroughRoute
from mgw.gateway.runtime.windowed import LARGEST_BATCH, WindowedRoute
from mgw.links.contract import Direction, Link
from mgw.links.place import place_of
from mgw.links.pool import LinkPool
from mgw.transforms.payloads.convert import from_payload, to_payload
from mgw.transforms.steps.registry import compile_transformation

__all__ = ["build_route"]


def build_route(
    context: RouteContext, setup: JobSetup, links: LinkPool, source: Link | None, target: Link | None
) -> Route:
    """The route of a job, not yet open. ``source`` and ``target`` are its links, None for an end in the hub.

    Raises:
        GatewayError: a definition does not hold any more.
    """
    job = setup.job
    transform = None
    if setup.transformation is not None:
        modules = (*context.hub.transform_modules, *setup.modules)
        functions = bound(_bindings(setup))
        transform = compile_transformation(setup.transformation, job=job.name, modules=modules, functions=functions)
    if source is None:
        reading = HubSource(context, job.source, _from_hub(context, setup, transform), job.exception_queue)
        if target is None:
            return Route(context, reading, HubDestination(context, job.destination))
        return IsolatingRoute(context, reading, _link_destination(context, setup, target))
    assert setup.source is not None  # noqa: S101  it has a link
    link, exceptions = source.source(setup.source.use), _exceptions(context, setup, links)
    conversion = _from_link(context, setup, transform)
    place = partial(place_of, source, setup.source.use, Direction.INBOUND)
    if target is None:
        reader = LinkSource(context, link, conversion, exceptions, place)
        kind = WindowedRoute if job.batch_size <= LARGEST_BATCH else Route
        return kind(context, reader, HubDestination(context, job.destination))
    return ThroughRoute(
        context,
        PlannedLinkSource(context, link, conversion, exceptions, place),
        _link_destination(context, setup, target),
    )


def _bindings(setup: JobSetup) -> tuple[tuple[str, str], ...]:
    """The functions that rules and transformations may call, by name."""
    return tuple((each.name.upper(), each.function) for each in setup.functions)


def _link_destination(context: RouteContext, setup: JobSetup, link: Link) -> LinkDestination:
    assert setup.target is not None  # noqa: S101  it has a link
    place = partial(place_of, link, setup.target.use, Direction.OUTBOUND)
    return LinkDestination(context, link.destination(replace(setup.target.use, located=context.ledger)), place)


def _exceptions(context: RouteContext, setup: JobSetup, links: LinkPool) -> ForeignExceptionQueue | None:
    job = setup.job
    if setup.exception_use is None or not job.exception_queue or setup.source is None:
        return None
    # Its messages are written before the source is settled, one batch at a time: it needs no sending log.
    plain = links.without_logs(setup.source.link)
    return ForeignExceptionQueue(job.exception_queue, job.name, plain.destination(setup.exception_use), context.clock)


def _from_link(context: RouteContext, setup: JobSetup, transform: Transform | None) -> Conversion:
    job = setup.job
    rule = compile_rule(job.rule, bindings=_bindings(setup)) if job.rule else None
    if setup.target is not None:
        return Conversion(None, rule, transform, inbound=False)
    return Conversion(_into(context, job.destination), rule, transform, inbound=True)


def _from_hub(context: RouteContext, setup: JobSetup, transform: Transform | None) -> Conversion:
    if setup.target is None:
        into, clock = _into(context, setup.job.destination), context.clock
        return Conversion(lambda message: into(moved(message, clock.now())), None, transform, inbound=True)
    with context.hub.read() as conn:
        queue = transfer.resolve(conn, setup.job.source)
    fit = partial(from_payload, payload_type=queue.payload_type, typed=transform is not None)
    return Conversion(fit, None, transform, inbound=False)


def _into(context: RouteContext, name: str) -> Fit:
    """Makes a message fit the payload type of a queue of the hub."""
    with context.hub.read() as conn:
        queue = transfer.resolve(conn, name)
        declared = payloads.object_type_of(conn, queue)
    return partial(to_payload, payload_type=queue.payload_type, max_payload=queue.max_payload, declared=declared)
