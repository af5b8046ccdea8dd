"""Brings a hub to what a configuration says.

Every object is one transaction, in an order in which each finds what it needs; so a run that was cut off at any moment
leaves whole objects behind, and the next run does the rest. Objects that are as the file says are not touched.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mgw.gateway.aq import Hub, Undertaking
from mgw.gateway.config.generation_progress import Progress
from mgw.gateway.config.holding import FILE_CURE, refuse_losses, with_held
from mgw.gateway.config.hub_steps import HUB_STEPS, alter_queue, remove_from_hub
from mgw.gateway.config.models import (
    AgentModel,
    Document,
    JobModel,
    LinkModel,
    ModuleModel,
    RuleFunctionModel,
)
from mgw.gateway.config.plan import Action, Refuse, Verb, compare
from mgw.gateway.config.running import read_running
from mgw.gateway.config.unchanged import seen_of, unaffected
from mgw.gateway.definitions.objects import DEFAULT_AGENT, split_foreign
from mgw.gateway.services.admin import NO_CHANGE, GatewayAdmin, Ora, Overtaken
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import AdminError, ConfigInvalid, GatewayError, HubError

__all__ = ["apply_action", "apply_actions", "apply_rest", "hub_is_missing", "plan_for", "rehearse", "scratch_hub"]

#: Seconds for which agents may take to finish what jobs that are removed have in hand.
PATIENCE = 30.0
_PAUSE = 0.1

#: What a hub holds from the start.
NEW_HUB = Document(agents={DEFAULT_AGENT: AgentModel()})


def plan_for(hub: Hub | None, document: Document, *, prune: bool = False, refuse: Refuse | None = None) -> list[Action]:
    """The steps that bring the hub to ``document``; ``hub`` None stands for one that is yet to be made. ``refuse`` as
    for :func:`mgw.gateway.config.plan.compare`.

    Raises:
        ConfigInvalid: a setting differs that cannot be changed after creation, or a secret cannot be decrypted.
    """
    if hub is None:
        return compare(document, NEW_HUB, prune=prune)
    return with_held(hub, document, compare(document, read_running(hub), prune=prune, refuse=refuse))


def apply_actions(
    admin: GatewayAdmin,
    document: Document,
    actions: Sequence[Action],
    *,
    force: bool = False,
    cure: str = FILE_CURE,
    under: Undertaking | None = None,
) -> Iterator[Action]:
    """Do the steps in order, each in a transaction of its own; gives each when it is over, also those that do nothing.
    Together they are one generation.

    Args:
        force: delete the messages that what is removed holds; ``prune: force`` in the settings of the file says the
            same.
        cure: how to have them deleted, for the refusal.
        under: what the audit calls it; None: to apply a configuration.

    Raises:
        GatewayError: messages would be deleted, and nothing was done; or a step was refused, and the steps before it
            are done.
    """
    force = force or document.settings.prune == "force"
    if not force:
        refuse_losses(actions, cure)
    waited = False
    progress = Progress(admin.hub, actions, under)
    for at, action in enumerate(actions):
        if action.verb is Verb.REMOVE and action.section != "jobs" and not waited:
            _await_agents(admin)
            waited = True
        yield _done(admin, document, actions, at, progress, force=force)
    progress.end()


def _done(
    admin: GatewayAdmin,
    document: Document,
    actions: Sequence[Action],
    at: int,
    progress: Progress,
    *,
    force: bool,
    last: bool = True,
) -> Action:
    """A step that is over; where another process has just done the same, there is nothing left to do."""
    action = actions[at]
    if not action.changes_hub:
        return action
    with progress.step(action, last=last):
        try:
            apply_action(admin, document, unaffected(action, actions), force=force, later=actions[at + 1 :])
        except Overtaken:
            again = compare(document, read_running(admin.hub), refuse=lambda *_: None)
            if (Verb.NONE, action.section, action.given) not in [(now.verb, now.section, now.given) for now in again]:
                raise
        else:
            return action
    progress.was_done(action)
    return replace(action, verb=Verb.NONE, changes=())


def _await_agents(admin: GatewayAdmin) -> None:
    """Wait until running agents have removed the jobs and subscribers that are marked for it; what these use can be
    removed then."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and any(
        admin.agent_state(job.agent).alive(admin.clock.now()) for job in admin.list_subscribers() if job.status.leaving
    ):
        time.sleep(_PAUSE)


def apply_rest(admin: GatewayAdmin, document: Document, actions: Sequence[Action], refuse: Refuse) -> Iterator[Action]:
    """Do the steps in order as :func:`apply_actions` does, and go on behind one that is refused; gives those that are
    done.

    Raises:
        HubError: the hub cannot be used; the steps before are done.
    """
    force = document.settings.prune == "force"
    progress = Progress(admin.hub, actions, None)
    for at, action in enumerate(actions):
        try:
            if not force:
                refuse_losses([action])
            done = _done(admin, document, actions, at, progress, force=force, last=False)
        except HubError:
            raise
        except GatewayError as error:
            refuse(action.object, error)
        else:
            yield done
    progress.end()


def hub_is_missing(url: str) -> bool:
    """Whether there is no hub at ``url`` yet; False when that cannot be told."""
    try:
        open_hub(url).close()
    except HubError as error:
        return type(error) is HubError and ("does not exist" in error.what or "lacks the tables" in error.what)
    return False


def apply_action(
    admin: GatewayAdmin, document: Document, action: Action, *, force: bool = False, later: Sequence[Action] = ()
) -> None:
    """Do one step, in one transaction.

    Args:
        force: messages are deleted with what is removed.
        later: steps that follow: chains that they alter need not fit a transformation that is altered before them.

    Raises:
        GatewayError: it was refused, and nothing of it was done.
    """
    if action.verb is Verb.REMOVE:
        _remove(admin, document, action, force=force)
        return
    if action.verb is Verb.ALTER and action.section == "queues":
        alter_queue(admin.hub, document, action, force=force)
        return
    if action.verb is Verb.ALTER and action.section == "transformations":
        _alter_transformation(admin, document, action, later)
        return
    model = getattr(document, action.section)[action.given]
    change = action if action.verb is Verb.ALTER else None
    if action.section in HUB_STEPS:
        HUB_STEPS[action.section](admin.hub, action.name, model, change, seen_of(action))
    else:
        _STEPS[action.section](admin, document, action.name, model, change)


def _options(change: Action) -> dict[str, Any]:
    """Changed options; None removes one."""
    prefix = "options."
    return {each.setting.removeprefix(prefix): each.new for each in change.changes if each.setting.startswith(prefix)}


def _agent(admin: GatewayAdmin, _: Document, name: str, agent: AgentModel, change: Action | None) -> None:
    expected, admin = admin.expected, GatewayAdmin(admin.hub, admin.secrets, clock=admin.clock)
    admin.expected = expected
    admin.tell_no_effect = False  # the check of the file has told it, with the place
    options = {option: value for option, value in agent.options.items() if value is not None}
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
        )
    else:
        altered = change.new_values
        _alter_agent(admin, name, agent, {setting for setting in altered if not setting.startswith("options.")})
        options = {option: value for option, value in _options(change).items() if value is not None}
        for option, value in _options(change).items():
            if value is None:
                admin.remove_agent_option(name, option)
    for option, value in options.items():
        admin.set_agent_option(name, option, value)


def _alter_agent(admin: GatewayAdmin, name: str, agent: AgentModel, settings: set[str]) -> None:
    if agent.username is None and "username" in settings:
        admin.remove_agent_login(name)
        settings = settings - {"username", "password", "database"}
    values = {setting: getattr(agent, setting) for setting in settings}
    if values:
        admin.alter_agent(name, **values)


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


def _alter_transformation(admin: GatewayAdmin, document: Document, action: Action, later: Sequence[Action]) -> None:
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


def _remove(admin: GatewayAdmin, document: Document, action: Action, *, force: bool) -> None:
    name = action.name
    if action.section == "foreign_queues":
        queue, _, link = name.rpartition("@")
        admin.unregister_foreign_queue(queue, link)
        return
    if action.section in HUB_STEPS:
        remove_from_hub(admin.hub, document, action, force=force)
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


_STEPS: dict[str, Callable[[GatewayAdmin, Document, str, Any, Action | None], None]] = {
    "modules": _module,
    "rule_functions": _rule_function,
    "agents": _agent,
    "links": _link,
    "foreign_queues": _foreign_queue,
    "transformations": _transformation,
    "jobs": _job,
}


def rehearse(document: Document) -> tuple[Action, GatewayError] | None:
    """Apply a document to a hub made for the purpose: the first step that is refused, with the reason, or None.

    No broker is asked, so a job's ``require_guarantee`` is not judged.
    """
    with scratch_hub(document) as (_, refused):
        return refused


@contextmanager
def scratch_hub(document: Document) -> Iterator[tuple[Hub, tuple[Action, GatewayError] | None]]:
    """A hub made for the purpose that holds what a document says, gone at the end; and the first step that was refused,
    behind which none was made."""
    jobs = {name: job.model_copy(update={"require_guarantee": None}) for name, job in document.jobs.items()}
    document = document.model_copy(update={"jobs": jobs})
    with tempfile.TemporaryDirectory(prefix="mgw-lint-") as folder:
        url = f"sqlite:///{folder}/hub.db"
        with open_hub(url, create=True, durability="fast") as hub:
            hub.object_views = False  # nobody looks; for a thousand queues they were a third of the work
            yield hub, _made(GatewayAdmin(hub), document)


def _made(admin: GatewayAdmin, document: Document) -> tuple[Action, GatewayError] | None:
    for action in compare(document, NEW_HUB):
        if action.verb is Verb.NONE:
            continue
        try:
            apply_action(admin, document, action)
        except GatewayError as error:
            return action, error
    return None
