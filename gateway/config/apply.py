"""Brings a hub to what a configuration says.

Every object is one transaction, in an order in which each finds what it needs; so a run that was cut off at any moment
leaves whole objects behind, and the next run does the rest. Objects that are as the file says are not touched.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mgw.gateway.aq import Hub, Undertaking
from mgw.gateway.config.gateway_steps import GATEWAY_STEPS, alter_transformation, remove_from_gateway
from mgw.gateway.config.generation_progress import Progress
from mgw.gateway.config.holding import FILE_CURE, refuse_losses, with_held
from mgw.gateway.config.hub_steps import HUB_STEPS, alter_queue, remove_from_hub
from mgw.gateway.config.job_subscriptions import with_subscriptions
from mgw.gateway.config.models import AgentModel, Document
from mgw.gateway.config.obstacles import refuse_obstacles
from mgw.gateway.config.plan import Action, Refuse, Verb, compare
from mgw.gateway.config.running import read_running
from mgw.gateway.config.unchanged import resting_on, seen_of, unaffected
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import GatewayError, HubError, HubIncomplete, HubMissing

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
    steps = compare(document, read_running(hub), prune=prune, refuse=refuse)
    return with_held(hub, document, with_subscriptions(hub, document, steps))


def apply_actions(
    admin: GatewayAdmin,
    document: Document,
    actions: Sequence[Action],
    *,
    force: bool = False,
    cure: str = FILE_CURE,
    under: Undertaking | None = None,
    version: int | None = None,
) -> Iterator[Action]:
    """Do the steps in order, each in a transaction of its own; gives each when it is over, also those that do nothing.
    Together they are one generation.

    Args:
        force: delete the messages that what is removed holds; ``prune: force`` in the settings of the file says the
            same.
        cure: how to have them deleted, for the refusal.
        under: what the audit calls it; None: to apply a configuration.
        version: of the definitions that the plan rests on, when its first step begins; None: it does not matter what
            else was changed.

    Raises:
        Overtaken: there is another version, and nothing was done; or the object of a step is not as the plan saw it.
        WouldStop: a step would be refused for what is there already; nothing was done.
        GatewayError: messages would be deleted, and nothing was done; or a step was refused, and the steps before it
            are done.
    """
    force = force or document.settings.prune == "force"
    if not force:
        refuse_losses(actions, cure)
    refuse_obstacles(admin.hub, document, actions)
    waited = False
    progress = Progress(admin.hub, actions, under)
    for at, action in enumerate(actions):
        if action.changes_hub and version is not None:
            admin.require_version(version)  # before the first step alone: the steps change it, and running agents, too
            version = None
        if not waited and action.verb is (Verb.CREATE if action.section == "jobs" else Verb.REMOVE):
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
    """A step that is over; where another process has just done the same, there is nothing left to do.

    Raises:
        GatewayError: it was refused, and it is not so already.
    """
    action = actions[at]
    if not action.changes_hub:
        return action
    with progress.step(action, last=last):
        try:
            apply_action(admin, document, unaffected(action, actions), force=force, later=actions[at + 1 :])
        except HubError:
            raise
        except GatewayError:
            if not _is_so(admin, document, action):
                raise
        else:
            return action
    progress.was_done(action)
    return replace(action, verb=Verb.NONE, changes=())


def _is_so(admin: GatewayAdmin, document: Document, action: Action) -> bool:
    """Whether what a step is for is so already; that somebody else has removed an object is as good as a removal."""
    try:
        steps = compare(document, read_running(admin.hub), refuse=lambda *_: None)
        steps = with_subscriptions(admin.hub, document, steps)
    except GatewayError:  # why the step was refused counts more
        return False
    if action.verb is Verb.REMOVE:
        return (action.section, action.name) not in [(each.section, each.name) for each in steps]
    return (Verb.NONE, action.section, action.given) in [(each.verb, each.section, each.given) for each in steps]


def _await_agents(admin: GatewayAdmin) -> None:
    """Wait until running agents have removed the jobs and subscribers that are marked for it: what these use can be
    removed then, and another job may read their sources."""
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
    except (HubMissing, HubIncomplete):
        return True
    except HubError:
        return False
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
    with resting_on(admin, seen_of(action)):
        _apply(admin, document, action, force=force, later=later)


def _apply(admin: GatewayAdmin, document: Document, action: Action, *, force: bool, later: Sequence[Action]) -> None:
    if action.verb is Verb.REMOVE:
        if action.section in HUB_STEPS:
            remove_from_hub(admin.hub, document, action, force=force)
        else:
            remove_from_gateway(admin, action, force=force)
        return
    if action.verb is Verb.ALTER and action.section == "queues":
        alter_queue(admin.hub, document, action, force=force)
        return
    if action.verb is Verb.ALTER and action.section == "transformations":
        alter_transformation(admin, document, action, later)
        return
    model = getattr(document, action.section)[action.given]
    change = action if action.verb is Verb.ALTER else None
    if action.section in HUB_STEPS:
        HUB_STEPS[action.section](admin.hub, action.name, model, change, seen_of(action))
    else:
        GATEWAY_STEPS[action.section](admin, document, action.name, model, change)


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
            _apply(admin, document, action, force=False, later=())  # there is nobody else
        except GatewayError as error:
            return action, error
    return None
