"""Generations of the definitions: what changed when, what there was then, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgw.gateway.aq import Hub, Undertaking
from mgw.gateway.config.apply import apply_actions, plan_for
from mgw.gateway.config.export import shown_text
from mgw.gateway.config.given import clean
from mgw.gateway.config.history import UnknownGeneration, document_at
from mgw.gateway.config.kept import missing_secrets
from mgw.gateway.config.lint import check_source
from mgw.gateway.config.load import load_text
from mgw.gateway.config.models import Document
from mgw.gateway.config.plan import Action
from mgw.gateway.config.running import read_running
from mgw.gateway.services.admin import GatewayAdmin, Overtaken
from mgw.gateway.services.audit_words import told
from mgw.gateway.services.definition_changes import Invalid
from mgw.gateway.state import happened
from mgw.gateway.state.happened import Audited
from mgw.transforms.errors import ConfigInvalid

__all__ = ["Generation", "Way", "before_last", "generation", "generations", "text_of", "way_back"]

_PIECE = 500  # entries at a time
_SHOWN = 3  # changes in a line
_OPEN = "interrupted, or under way"


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
    return shown_text(document_at(hub, number), abroad=abroad)


def way_back(hub: Hub, number: int, environ: Mapping[str, str] | None = None) -> Way:
    """What has to be done to go back to a generation. Secrets stay as they are.

    Args:
        environ: variables with the secrets of what has to be created again.

    Raises:
        UnknownGeneration: there is none of that number.
        Invalid: what there was then cannot be made any more.
        ConfigInvalid: a secret that it needs is not kept, or a setting differs that cannot be changed after creation.
    """
    version = GatewayAdmin(hub).snapshot_version()
    text = text_of(hub, number)
    source, held = clean(load_text(text, f"generation {number}", environ)), read_running(hub)
    checked = check_source(source, held=held)
    if lost := missing_secrets(source, held):
        raise ConfigInvalid(
            f"generation {number} cannot be restored",
            cause=f"secrets that it had are not kept: {', '.join(f'{name} of {owner}' for owner, name, _ in lost)}",
            cure=f"mgw rollback {number} takes them from variables: set {', '.join(name for *_, name in lost)}",
        )
    if not checked.ok:
        raise Invalid(f"generation {number}", checked.findings)
    return Way(number, version, checked.document, plan_for(hub, checked.document, prune=True))


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
