"""What the objects of a configuration must agree on, as far as it can be known without a broker.

Each check refuses what the administration procedure for that object would refuse, before anything is created, and says
where in the file the reason is.
"""

from __future__ import annotations

from mgw.gateway.config.checks.agents import check_agent
from mgw.gateway.config.checks.context import Context
from mgw.gateway.config.checks.cycles import check_cycles
from mgw.gateway.config.checks.jobs import check_job, check_sources
from mgw.gateway.config.checks.links import check_foreign_queue, check_link
from mgw.gateway.config.checks.queues import (
    check_grants,
    check_object_types,
    check_queue,
    check_queue_shape,
    check_rule_function,
    check_transformation,
)
from mgw.gateway.config.load import Source
from mgw.gateway.config.models import Document

__all__ = ["check_meaning"]


def check_meaning(source: Source, document: Document, existing: Document, held: Document) -> None:
    """Add to ``source`` everything that is wrong between the objects of ``document``.

    References may also point to objects of ``existing``, which a hub holds already. What may call functions that only
    other files register is not judged again where the hub holds it already (``held``).
    """
    ctx = Context(source, document, existing, held)
    for name, path in document.settings.rule_functions.items():
        check_rule_function(ctx, name, path)
    for name, link in document.links.items():
        check_link(ctx, name, link)
    for name, queue in document.foreign_queues.items():
        check_foreign_queue(ctx, name, queue)
    check_object_types(ctx)
    for name, table in document.queue_tables.items():
        check_queue_shape(ctx, ("queue_tables", name), table)
    for name, hub_queue in document.queues.items():
        check_queue(ctx, name, hub_queue)
    # Chains last: they are silent where a step is wrong.
    for name, each in sorted(document.transformations.items(), key=lambda item: "steps" in item[1].definition):
        check_transformation(ctx, name, each)
    for name, job in document.jobs.items():
        check_job(ctx, name, job)
    for name, grants in document.grants.items():
        check_grants(ctx, name, grants)
    check_sources(ctx)
    check_cycles(ctx)
    for name, agent in document.agents.items():
        check_agent(ctx, name, agent)
