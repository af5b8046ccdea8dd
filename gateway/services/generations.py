"""Generations of the definitions: what changed when, what there was then, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgw.gateway.aq import Hub, Undertaking
from mgw.gateway.config.apply import apply_actions
from mgw.gateway.config.export import shown_text
from mgw.gateway.config.forms import hub_name
from mgw.gateway.config.given import clean
from mgw.gateway.config.history import RESTORED, Then, UnknownGeneration, then_at
from mgw.gateway.config.holding import with_held
from mgw.gateway.config.job_subscriptions import with_subscriptions
from mgw.gateway.config.kept import missing_secrets
from mgw.gateway.config.lint import check_source
from mgw.gateway.config.load import load_text
from mgw.gateway.config.models import AgentModel, Document
from mgw.gateway.config.obstacles import WouldStop, refuse_obstacles
from mgw.gateway.config.plan import Action, compare
from mgw.gateway.config.running import read_running
from mgw.gateway.definitions.objects import DEFAULT_AGENT, key
from mgw.gateway.services.admin import GatewayAdmin, Overtaken
from mgw.gateway.services.audit_words import told
from mgw.gateway.services.definition_changes import Invalid
from mgw.gateway.state import happened
from mgw.gateway.state.happened import Audited
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = [
    "UNTOUCHED",
    "Generation",
    "NotRestored",
    "Way",
    "before_last",
    "generation",
    "generations",
    "text_of",
    "way_back",
]

_PIECE = 500  # entries at a time
_SHOWN = 3  # changes in a line
_OPEN = "interrupted, or under way"

#: What a rollback leaves as it is.
UNTOUCHED = (
    "queues of the hub with their messages and subscribers, object types, AQ agents, grants, modules, rule functions, "
    "schedules of DBMS_HQADM, users, secrets"
)


class NotRestored(GatewayError):
    """A generation differs in something that a rollback cannot bring back."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One change of the definitions, or several that were one undertaking.

    Attributes:
        time: of its last entry, epoch seconds.
        version: the metric ``mgw_config_generation`` with it; None: it has no part in that.
        what: in a line.
        result: ``done``, or what an undertaking came to.
        changes: the entries, in order.
    """

    number: int
    time: float
    actor: str
    through: str | None
    version: int | None
    what: str
    result: str
    changes: Sequence[Audited]

    def values(self, moment: Callable[[float], Any]) -> dict[str, Any]:
        """It without its changes, for programs; ``moment``: how a face tells a time."""
        return {
            "generation": self.number,
            "time": moment(self.time),
            "actor": self.actor,
            "through": self.through,
            "version": self.version,
            "what": self.what,
            "result": self.result,
        }


@dataclass(frozen=True, slots=True)
class Way:
    """The way back to a generation.

    Attributes:
        version: of the definitions that it begins at.
    """

    number: int
    version: int
    document: Document
    actions: Sequence[Action]

    @property
    def tag(self) -> str:
        """Another one after every change of what it rests on."""
        return f"definitions-{self.version}"

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it was then."""
        return not any(action.changes_hub for action in self.actions)

    def go(self, hub: Hub, *, force: bool = False, seen: int | None = None) -> Iterator[Action]:
        """Go back; gives every step when it is over. That is a generation itself.

        Args:
            force: delete the messages that what is removed holds.
            seen: the version that somebody saw the plan for; None: this one.

        Raises:
            Overtaken: something was changed since; nothing was done.
            GatewayError: messages would be deleted, and nothing was done; or a step was refused, and the steps before
                it are done. A step is refused as well where somebody else has changed its object since the plan.
        """
        admin = GatewayAdmin(hub)
        if {admin.snapshot_version(), self.version if seen is None else seen} != {self.version}:
            raise Overtaken(
                "the definitions were changed meanwhile",
                cause="another process was faster",
                cure="look at the plan again, and try again",
            )
        under = Undertaking("roll back to", "generation", str(self.number))
        return apply_actions(admin, self.document, self.actions, force=force, under=under, version=self.version)


def generations(hub: Hub, limit: int, *, before: int | None = None) -> list[Generation]:
    """The latest generations, the latest first; ``before``: with a smaller number than this."""
    groups: dict[int, list[Audited]] = {}
    place: int | None = None
    while True:
        with hub.read() as conn:
            found = happened.audit(conn, before=place, definitions=True, limit=_PIECE)
        for each in found:
            if each.generation is not None and (before is None or each.generation < before):
                groups.setdefault(each.generation, []).append(each)
        place = found[-1].id if found else 0
        whole = sorted((number for number in groups if number >= place or len(found) < _PIECE), reverse=True)
        if len(whole) >= limit or len(found) < _PIECE:
            return [_generation(number, groups[number][::-1]) for number in whole[:limit]]


def generation(hub: Hub, number: int) -> Generation:
    """One generation.

    Raises:
        UnknownGeneration: there is none of that number.
    """
    found = generations(hub, 1, before=number + 1)
    if not found or found[0].number != number:
        raise UnknownGeneration(number)
    return found[0]


def before_last(hub: Hub) -> int:
    """The number of the generation before the latest; 0: there is none, what was before is meant.

    Raises:
        UnknownGeneration: there is no generation at all.
    """
    found = generations(hub, 2)
    if not found:
        raise UnknownGeneration(0)
    return found[1].number if len(found) > 1 else 0


def text_of(hub: Hub, number: int, *, abroad: bool = False) -> str:
    """What a generation held, as a configuration file; each secret is a variable that may be empty.

    Args:
        abroad: it goes to another machine, as for :func:`mgw.gateway.config.export.export_text`.

    Raises:
        UnknownGeneration: there is none of that number.
    """
    return shown_text(then_at(hub, number).document, abroad=abroad)


def way_back(hub: Hub, number: int, environ: Mapping[str, str] | None = None) -> Way:
    """What has to be done to go back to a generation. Secrets stay as they are.

    Args:
        environ: variables with the secrets of what has to be created again.

    Raises:
        UnknownGeneration: there is none of that number.
        NotRestored: it differs in something that cannot be brought back, or something that stays is in the way.
        Invalid: what there was then cannot be made any more.
        ConfigInvalid: a secret that it needs is not kept, or a setting differs that cannot be changed after creation.
    """
    version = GatewayAdmin(hub).snapshot_version()
    then = then_at(hub, number)
    held = read_running(hub)
    _refuse_what_is_lost(number, then, held)
    _refuse_dropped_queues(number, then, held)
    text = shown_text(then.document)
    source = clean(load_text(text, f"generation {number}"))
    checked, lost = check_source(source, held=held), missing_secrets(source, held)
    needed = {each for *_, name in lost for each in (name, f"{name}_FILE")}
    if given := {name: value for name, value in (environ or {}).items() if name in needed}:  # those of today stay
        source = clean(load_text(text, f"generation {number}", given))
        checked, lost = check_source(source, held=held), missing_secrets(source, held)
    if lost:
        raise ConfigInvalid(
            f"generation {number} cannot be restored",
            cause=f"secrets that it had are not kept: {', '.join(f'{name} of {owner}' for owner, name, _ in lost)}",
            cure=f"mgw rollback {number} takes them from variables: set {', '.join(name for *_, name in lost)}",
        )
    if not checked.ok:
        raise Invalid(f"generation {number}", checked.findings)
    document = checked.document
    if DEFAULT_AGENT not in map(key, document.agents) and held.agents[DEFAULT_AGENT] != AgentModel():
        # a file leaves it out where it has its defaults
        document = document.model_copy(update={"agents": {**document.agents, DEFAULT_AGENT: AgentModel()}})
    steps = [each for each in compare(document, held, prune=True) if each.section in RESTORED or not each.changes_hub]
    steps = with_subscriptions(hub, document, steps)
    try:
        refuse_obstacles(hub, document, steps)
    except WouldStop as error:
        what = f"generation {number} cannot be restored: that would stop halfway"
        raise NotRestored(what, cause=error.cause, cure=error.cure) from error
    return Way(number, version, document, with_held(hub, document, steps))


def _refuse_what_is_lost(number: int, then: Then, held: Document) -> None:
    """Refuse to go back only in part.

    Raises:
        NotRestored: subscribers or schedules of the old style, or encrypted options, were others then.
    """
    causes = [each.told for each in then.misfits]
    cures = [each.cure for each in then.misfits]
    for agent, names in then.lost.items():
        shown = ", ".join(sorted(names))
        causes.append(f"{shown} of agent {agent} was encrypted then, and that value is not kept")
        if key(agent) not in map(key, held.agents):  # that it is there with defaults is enough
            cures.append(f"mgw agents create {agent}")
        given = " ".join(f"--encrypted-option {name}=FILE" for name in sorted(names))
        cures.append(f"mgw agents alter {agent} {given}")
    if causes:
        raise NotRestored(
            f"generation {number} cannot be restored: {causes[0]}",
            cause="; ".join(
                [*causes[1:], "a rollback brings back neither secrets nor subscribers and schedules of the old style"]
            ),
            cure=f"do first: {'; '.join(cures)}; then roll back again",
        )


def _refuse_dropped_queues(number: int, then: Then, held: Document) -> None:
    """Refuse to bring back jobs that need queues of the hub that are gone.

    Raises:
        NotRestored: it has some.
    """
    there, gone = {hub_name(name) for name in held.queues}, dict[str, list[str]]()
    for name, job in then.document.jobs.items():
        for place in (job.source, job.destination, job.exception_queue):
            if place is not None and "@" not in place and hub_name(place) not in there:
                gone.setdefault(hub_name(place), [place]).append(f"job {name}")
    if gone:
        queues = [place for place, *_ in gone.values()]
        causes = [
            f"queue {place}, which {' and '.join(jobs)} needs, was dropped since" for place, *jobs in gone.values()
        ]
        raise NotRestored(
            f"generation {number} cannot be restored: {causes[0]}",
            cause="; ".join([*causes[1:], "a rollback brings back no queues of the hub"]),
            cure=f"create first: {', '.join(queues)} (mgw aq create QUEUE --table TABLE, or a file with mgw apply; "
            "mgw audit shows how it was); then roll back again",
        )


def _generation(number: int, entries: list[Audited]) -> Generation:
    last = entries[-1]
    changes = [each for each in entries if each.result is None]
    words = [told(each) for each in changes[:_SHOWN]]
    more = len(changes) - len(words)
    what = "; ".join([*words, *([f"and {more} more"] if more else [])])
    versions = [each.version for each in entries if each.version is not None]
    first = entries[0]
    many = len(entries) > 1 or not first.alone
    result = "done" if not many else last.result or _OPEN
    if last.result is not None:
        what = f"{last.action} {last.object}".rstrip() + f": {what}"
    return Generation(
        number, last.time, first.actor, first.through, versions[-1] if versions else None, what, result, changes
    )
