"""Checks of links and foreign queues."""

from __future__ import annotations

from typing import Any

from mgw.gateway.config.checks.context import Context
from mgw.gateway.config.findings import Path
from mgw.gateway.config.forms import link_config, spec_of
from mgw.gateway.config.kept import STAND_IN, missing_variables
from mgw.gateway.config.models import ForeignQueueModel, LinkModel
from mgw.gateway.definitions.objects import key, split_foreign
from mgw.links import registry
from mgw.links.contract import Domain
from mgw.transforms.errors import GatewayError

__all__ = ["check_foreign_queue", "check_link"]


def check_link(ctx: Context, name: str, link: LinkModel) -> None:
    """A link: its name, agent, attributes and options."""
    path: Path = ("links", name)
    ctx.name(path, name)
    if key(link.agent) not in ctx.agents:
        ctx.unknown("unknown-agent", (*path, "agent"), "agents", link.agent)
    ctx.plain_password((*path, "password"), link.password)
    spec = spec_of(link.type)
    if spec is None:
        return
    for each in spec.attributes:
        if each.secret and link.attributes.get(each.name):
            ctx.plain_password((*path, each.name), str(link.attributes[each.name]))
    before = len(ctx.source.findings)
    if link.prepare and not (spec.inbound_log or spec.outbound_log):
        ctx.source.error("bad-value", (*path, "prepare"), f"links of type {link.type} keep no logs", "remove it")
    ctx.values(path, spec.attributes, link.attributes, f"link {name}")
    ctx.values((*path, "options"), spec.options, link.options, f"link {name}")
    if len(ctx.source.findings) > before or ctx.unresolved_below(path):
        ctx.drivers[key(name)] = None
        return
    try:
        ctx.drivers[key(name)] = registry.open_link(link_config(name, link))
    except GatewayError as error:
        ctx.drivers[key(name)] = None
        _refused(ctx, path, error)
        return
    if STAND_IN in (link.password, *link.attributes.values(), *link.options.values()):
        _warn_of_missing(ctx, path, link)


def _refused(ctx: Context, path: Path, error: GatewayError) -> None:
    """A link that cannot be created, maybe because a variable is empty."""
    variables = missing_variables(ctx.source, path)
    if not variables:
        ctx.refused("bad-link", path, error)
        return
    message = f"{error.what}: {error.cause}" if error.cause else error.what
    ctx.source.error("bad-link", path, message, f"set {variables}")


def _warn_of_missing(ctx: Context, path: Path, link: LinkModel) -> None:
    """Say so when a link cannot be created without a secret whose variable is empty here."""
    without: dict[str, Any] = {
        part: {name: value for name, value in getattr(link, part).items() if value != STAND_IN}
        for part in ("attributes", "options")
    }
    if link.password == STAND_IN:
        without["password"] = None
    try:
        registry.open_link(link_config(str(path[1]), link.model_copy(update=without)))
    except GatewayError:
        variables = missing_variables(ctx.source, path)
        ctx.source.warning(
            "missing-secret",
            path,
            f"link {path[1]} needs {variables}, which is empty",
            "a hub that already has the secret keeps it; for another one set the variable",
        )


def check_foreign_queue(ctx: Context, name: str, queue: ForeignQueueModel) -> None:
    """A foreign queue: its link, domain and options, and what the link says of it."""
    path: Path = ("foreign_queues", name)
    parts = split_foreign(name)
    if parts is None:
        ctx.source.error(
            "bad-name", path, f"{name!r} does not name a foreign queue", "write queue@link, e.g. orders@rabbit"
        )
        return
    link = ctx.links.get(key(parts[1]))
    if link is None:
        ctx.unknown("unknown-link", path, "links", parts[1])
        return
    spec = spec_of(link.type)
    if spec is None:
        return
    domain = Domain(queue.domain) if queue.domain else None
    if domain is not None and domain not in spec.domains:
        allowed = ", ".join(str(each) for each in spec.domains if each) or "none"
        ctx.source.error("bad-domain", (*path, "domain"), f"{spec.title} has no domain {domain}", f"use {allowed}")
        return
    before = len(ctx.source.findings)
    ctx.values((*path, "options"), spec.queue_options, queue.options, f"foreign queue {name}")
    if len(ctx.source.findings) == before and not ctx.unresolved_below(path):
        ctx.endpoint("bad-foreign-queue", path, name, None)
