"""The steps of a plan on agents, links, foreign queues, transformations and jobs, and on settings in the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mgw.gateway.config.models import AgentModel, Document, JobModel, LinkModel, ModuleModel, RuleFunctionModel
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.definitions.objects import split_foreign
from mgw.gateway.services.admin import NO_CHANGE, GatewayAdmin, Ora
from mgw.transforms.errors import AdminError, ConfigInvalid

__all__ = ["GATEWAY_STEPS", "alter_transformation", "remove_from_gateway"]


def _options(change: Action) -> dict[str, Any]:
    """Changed options; None removes one."""
    prefix = "options."
    return {each.setting.removeprefix(prefix): each.new for each in change.changes if each.setting.startswith(prefix)}


def _agent(admin: GatewayAdmin, _: Document, name: str, agent: AgentModel, change: Action | None) -> None:
    expected, guard, admin = admin.expected, admin.guard, GatewayAdmin(admin.hub, admin.secrets, clock=admin.clock)
    admin.expected, admin.guard = expected, guard
    admin.tell_no_effect = False  # the check of the file has told it, with the place
    if change is None:
        admin.create_agent(
            name,
            agent.username,
            agent.password,
            agent.database,
            agent.conntype,
            agent.max_memory,
            agent.max_threads,
            agent.service,
            agent.initfile,
            agent.comment,
            options={option: value for option, value in agent.options.items() if value is not None},
        )
    else:
        settings = {setting for setting in change.new_values if not setting.startswith("options.")}
        _alter_agent(admin, name, agent, settings, _options(change))


def _alter_agent(
    admin: GatewayAdmin, name: str, agent: AgentModel, settings: set[str], options: Mapping[str, Any]
) -> None:
    if agent.username is None and "username" in settings:
        admin.remove_agent_login(name)
        settings = settings - {"username", "password", "database"}
    values = {setting: getattr(agent, setting) for setting in settings}
    if values or options:
        admin.alter_agent(name, **values, options=options)


def _link(admin: GatewayAdmin, _: Document, name: str, link: LinkModel, change: Action | None) -> None:
    common = ("username", "password", "max_connections", "inbound_log_queue", "outbound_log_queue")
    if change is None:
        admin.create_msgsystem_link(
            name,
            link.type,
            {attribute: value for attribute, value in link.attributes.items() if value is not None},
            link.agent,
            {option: value for option, value in link.options.items() if value is not None},
            link.comment,
            **{each: getattr(link, each) for each in common},
        )
        return
    changed = change.new_values
    options = _options(change)
    comment = changed.pop("comment", NO_CHANGE)
    properties = {setting: value for setting, value in changed.items() if not setting.startswith("options.")}
    admin.alter_msgsystem_link(name, properties, options or None, comment)


def _foreign_queue(admin: GatewayAdmin, _: Document, name: str, queue: Any, change: Action | None) -> None:
    assert change is None  # noqa: S101  comparing refuses every change of a registration
    parts = split_foreign(name)
    if parts is None:
        raise ConfigInvalid(f"foreign queue {name!r} cannot be registered", cure="write queue@link")
    options = {option: value for option, value in queue.options.items() if value is not None}
    admin.register_foreign_queue(*parts, queue.provider_queue, queue.domain, options, queue.comment)


def _transformation(admin: GatewayAdmin, _: Document, name: str, each: Any, change: Action | None) -> None:
    assert change is None  # noqa: S101  what is altered may be a step of chains that follow: apply_action does it
    admin.create_transformation(name, each.from_type, each.to_type, each.definition, each.comment)


def alter_transformation(admin: GatewayAdmin, document: Document, action: Action, later: Sequence[Action]) -> None:
    """Alter a transformation; chains that steps of ``later`` alter need not fit it yet.

    Raises:
        GatewayError: refused; nothing was altered.
    """
    each = document.transformations[action.given]
    altered = [next_.name for next_ in later if (next_.verb, next_.section) == (Verb.ALTER, action.section)]
    admin.alter_transformation(
        action.name, each.from_type, each.to_type, each.definition, each.comment, altered_later=altered
    )


def _job(admin: GatewayAdmin, _: Document, name: str, job: JobModel, change: Action | None) -> None:
    options = {option: value for option, value in job.options.items() if value is not None}
    if job.batch_size is not None:
        options["MsgBatchSize"] = str(job.batch_size)
    if change is None:
        held = admin.get_job(name)
        if held is not None and held.status.leaving:
            raise AdminError(
                f"job {held.name} cannot be created yet",
                number=Ora.MARKED_FOR_REMOVAL,
                cause="one of that name is marked for removal, and its agent has not finished that",
                cure=f"start the agent, or: mgw jobs remove {held.name} --force; then apply again",
            )
        admin.create_job(
            name,
            job.type,
            job.source,
            job.destination,
            job.rule,
            job.transformation,
            job.exception_queue,
            job.poll_interval,
            options,
            job.enabled,
            job.comment,
            require_guarantee=job.require_guarantee,
        )
        return
    changed = change.new_values
    enabled = changed.pop("enabled", None)
    values: dict[str, Any] = {
        "poll_interval": changed.get("poll_interval", 0),
        "options": _options(change) or None,
        "comments": changed.get("comment", NO_CHANGE),
        "require_guarantee": changed.get("require_guarantee", NO_CHANGE),
    }
    for setting in ("rule", "transformation", "exception_queue"):
        values[setting] = changed.get(setting, NO_CHANGE)
    if enabled is False:  # stop it before it is altered, start it after
        admin.disable_job(name)
    if changed:
        admin.alter_job(name, **values)
    if enabled is True:
        admin.enable_job(name)


def remove_from_gateway(admin: GatewayAdmin, action: Action, *, force: bool) -> None:
    """Remove an object of :data:`GATEWAY_STEPS`; ``force``: messages are deleted with it.

    Raises:
        GatewayError: refused; nothing was removed.
    """
    name = action.name
    if action.section == "foreign_queues":
        queue, _, link = name.rpartition("@")
        admin.unregister_foreign_queue(queue, link)
        return
    removals: dict[str, Callable[[str], object]] = {
        "agents": admin.remove_agent,
        "links": admin.remove_msgsystem_link,
        "transformations": admin.drop_transformation,
        "jobs": lambda job: admin.remove_job(job, drop_messages=force),
        "modules": admin.aq.forbid_module,
        "rule_functions": admin.aq.drop_rule_function,
    }
    removals[action.section](name)


def _module(admin: GatewayAdmin, _: Document, name: str, _module: ModuleModel, _change: Action | None) -> None:
    admin.aq.allow_module(name)


def _rule_function(
    admin: GatewayAdmin, _: Document, name: str, function: RuleFunctionModel, _change: Action | None
) -> None:
    admin.aq.set_rule_function(name, function.function)


#: How each is made, or altered.
GATEWAY_STEPS: dict[str, Callable[[GatewayAdmin, Document, str, Any, Action | None], None]] = {
    "modules": _module,
    "rule_functions": _rule_function,
    "agents": _agent,
    "links": _link,
    "foreign_queues": _foreign_queue,
    "transformations": _transformation,
    "jobs": _job,
}
