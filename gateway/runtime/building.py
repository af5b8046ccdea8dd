"""Makes the route of a job from its definitions: which ends it has, and what happens to a message between them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mgw.gateway.definitions.job_options import park_key
from mgw.gateway.definitions.parking_key import key_of
from mgw.gateway.runtime.conversions import conversion_of, functions_of
from mgw.gateway.runtime.ends.hub_destination import HubDestination
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.ends.link_source import LinkSource
from mgw.gateway.runtime.ends.parking_source import ParkingSource
from mgw.gateway.runtime.ends.planned_source import PlannedLinkSource
from mgw.gateway.runtime.exception_queue import ForeignExceptionQueue
from mgw.gateway.runtime.isolation import IsolatingRoute
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.gateway.runtime.parking import ParkingRoute, release_all
from mgw.gateway.runtime.route import Route, RouteContext
from mgw.gateway.runtime.through import ThroughRoute
from mgw.gateway.runtime.windowed import WindowedRoute
from mgw.gateway.runtime.windowed import pays as reading_on_pays
from mgw.links.contract import Direction, Link
from mgw.links.place import place_of
from mgw.links.pool import LinkPool

__all__ = ["build_route"]


def build_route(
    context: RouteContext, setup: JobSetup, links: LinkPool, source: Link | None, target: Link | None
) -> Route:
    """The route of a job, not yet open. ``source`` and ``target`` are its links, None for an end in the hub.

    Raises:
        GatewayError: a definition does not hold any more.
    """
    job = setup.job
    conversion = conversion_of(context.hub, context.clock, setup)
    if context.spans is not None:
        conversion = replace(conversion, fit=context.spans.carry(conversion.fit))
    if source is None:
        if target is not None and (key := park_key(job.options)) is not None:
            given_by = key_of(key, functions_of(setup))
            parking = ParkingSource(context, job.source, conversion, job.exception_queue, given_by)
            return ParkingRoute(context, parking, _link_destination(context, setup, target))
        reading = HubSource(context, job.source, conversion, job.exception_queue)
        if target is None:
            return Route(context, reading, HubDestination(context, job.destination))
        release_all(context)
        return IsolatingRoute(context, reading, _link_destination(context, setup, target))
    assert setup.source is not None  # noqa: S101  it has a link
    link, exceptions = source.source(setup.source.use), _exceptions(context, setup, links)
    place = partial(place_of, source, setup.source.use, Direction.INBOUND)
    if target is None:
        reader = LinkSource(context, link, conversion, exceptions, place)
        kind = WindowedRoute if reading_on_pays(context) else Route
        return kind(context, reader, HubDestination(context, job.destination))
    return ThroughRoute(
        context,
        PlannedLinkSource(context, link, conversion, exceptions, place),
        _link_destination(context, setup, target),
    )


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
