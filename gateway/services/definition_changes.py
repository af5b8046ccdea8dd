"""Changes of single definitions, and of many at once, as a program asks for them: with the rules of a configuration
file, and refused where somebody else was faster.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from mgw.gateway.aq import Hub, resolve_queue
from mgw.gateway.config.apply import apply_action, apply_actions, plan_for
from mgw.gateway.config.export import export_text
from mgw.gateway.config.findings import Finding, Mark, Path, errors
from mgw.gateway.config.given import clean, source_of
from mgw.gateway.config.holding import refuse_losses, with_held
from mgw.gateway.config.job_subscriptions import with_subscriptions
from mgw.gateway.config.lint import check_source
from mgw.gateway.config.load import Source, load_text
from mgw.gateway.config.models import NOUNS, OF_THE_PROCESS, Document
from mgw.gateway.config.plan import Action, Verb, compare
from mgw.gateway.config.queue_users import refuse_use
from mgw.gateway.config.running import read_running
from mgw.gateway.services.admin import GatewayAdmin, Overtaken
from mgw.gateway.services.configuration import prepare
from mgw.gateway.services.definitions import Definition, find, find_model, name_in, shown
from mgw.gateway.services.expected import Expected
from mgw.gateway.services.lookup import NotFound
from mgw.gateway.services.merging import merged
from mgw.transforms.errors import GatewayError

__all__ = ["Changes", "Invalid", "Outcome", "Planned"]

_ATTEMPTS = 5
_FORCE = "to delete them: ?force=true"
_PATIENCE = 3.0  # seconds for which a removal waits for the agent of a job
_PAUSE = 0.05


class Invalid(GatewayError):
    """What was given has errors, as ``mgw lint`` tells them."""

    def __init__(self, what: str, findings: Sequence[Finding]) -> None:
        wrong = errors(findings)
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        super().__init__(f"{what} cannot be used as given", cause=f"{wrong[0].message}{more}", cure=wrong[0].cure)
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change of one object did, or would do.

    Attributes:
        found: the object as it is then, or as it was, where it was removed.
        findings: warnings.
        prepared: what was created at the messaging system of a link.
        done: False: a running agent has yet to finish the removal.
    """

    action: Action
    found: Definition | None
    findings: Sequence[Finding] = ()
    prepared: Sequence[str | GatewayError] = ()
    done: bool = True


@dataclass(frozen=True, slots=True)
class Planned:
    """What a whole configuration does, or would do.

    Attributes:
        tag: of everything that the hub held before; another one after every change.
    """

    actions: Sequence[Action]
    findings: Sequence[Finding]
    prepared: Sequence[str | GatewayError] = ()
    tag: str = ""


class Changes:
    """Changes the definitions of a hub, one at a time. Any thread may call."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._mutex = threading.Lock()

    # -- one object ----------------------------------------------------------------------------------------------------

    def put(
        self,
        section: str,
        name: str,
        values: Mapping[str, Any],
        expected: Expected,
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> Outcome:
        """Make an object, or give it these settings and no others; secrets that are left out stay.

        Args:
            dry_run: tell what would be done.
            force: messages are deleted with subscribers that go.

        Raises:
            Invalid: the settings have errors.
            Unexpected: the object is not as the caller saw it.
            GatewayError: the change was refused; nothing was changed.
        """
        return self._give(section, name, lambda _: values, expected, dry_run=dry_run, force=force)

    def patch(
        self,
        section: str,
        name: str,
        patch: Mapping[str, Any],
        expected: Expected,
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> Outcome:
        """Change some settings of an object; None removes one.

        Raises:
            NotFound: there is no such object.
            Invalid, Unexpected, GatewayError: as for :meth:`put`.
        """

        def settings(held: Definition | None) -> Mapping[str, Any]:
            if held is None:
                raise self._missing(section, name)
            return merged(held, patch)

        return self._give(section, name, settings, expected, dry_run=dry_run, force=force)

    def delete(
        self, section: str, name: str, expected: Expected, *, dry_run: bool = False, force: bool = False
    ) -> Outcome:
        """Remove an object.

        Args:
            force: messages that it holds are deleted with it.

        Raises:
            NotFound: there is no such object.
            GatewayError: it holds messages, something uses it, or it is not as the caller saw it.
        """
        with self._alone():
            admin = GatewayAdmin(self._hub)
            if expected.one_of is not None:
                admin.expected = admin.snapshot_version()
            found, model = find_model(self._hub, section, name)
            expected.check(found, f"{NOUNS[section]} {found.name}")
            actions = with_held(self._hub, Document(), [Action(Verb.REMOVE, section, found.name, before=model)])
            if dry_run:
                return Outcome(actions[0], found)
            if section == "queues":  # those who use it go first; what it holds is the question after that
                with self._hub.read() as conn:
                    queue = resolve_queue(conn, found.name)
                    refuse_use(conn, f"queue {queue.full_name}", [queue])
            if not force:
                refuse_losses(actions, cure=_FORCE)
            apply_action(admin, Document(), actions[0], force=force)
        return Outcome(actions[0], found, done=section != "jobs" or self._is_gone(admin, found.name))

    def validate(self, section: str, name: str, values: Mapping[str, Any]) -> Sequence[Finding]:
        """What ``mgw lint`` says of an object, errors and warnings."""
        held = read_running(self._hub)
        source = _one(section, name_in(section, getattr(held, section), name) or name, values)
        return check_source(source, existing=held, held=held).findings

    def checked(self, section: str, name: str, values: Mapping[str, Any]) -> tuple[str, Document]:
        """The name of an object as it is defined or would be, and a document that has it with these settings; of a link
        that keeps its password, with that.

        Raises:
            Invalid: the settings have errors.
        """
        held = read_running(self._hub)
        known = name_in(section, getattr(held, section), name) or name
        document, _ = _checked(_one(section, known, values), held, f"{NOUNS[section]} {known[:200]}")
        objects = getattr(document, section)
        given = next(iter(objects))
        old = held.links.get(known) if section == "links" else None
        if old is not None and objects[given].password is None:
            objects[given] = objects[given].model_copy(update={"password": old.password})
        return given, document

    def _give(
        self,
        section: str,
        name: str,
        settings: Callable[[Definition | None], Mapping[str, Any]],
        expected: Expected,
        *,
        dry_run: bool,
        force: bool,
    ) -> Outcome:
        for attempt in range(_ATTEMPTS):
            try:
                with self._alone():
                    document, outcome = self._once(section, name, settings, expected, dry_run=dry_run, force=force)
                break
            except Overtaken:  # another process changed something between reading and writing: look again
                if attempt == _ATTEMPTS - 1:
                    raise
        if dry_run:
            return outcome
        lines = list(prepare(self._hub, document))
        return replace(outcome, prepared=lines, found=find(self._hub, section, outcome.action.name))

    def _once(
        self,
        section: str,
        name: str,
        settings: Callable[[Definition | None], Mapping[str, Any]],
        expected: Expected,
        *,
        dry_run: bool,
        force: bool,
    ) -> tuple[Document, Outcome]:
        admin = GatewayAdmin(self._hub)
        admin.expected = admin.snapshot_version()
        held = read_running(self._hub)
        objects: Mapping[str, Any] = getattr(held, section)
        known = name_in(section, objects, name)
        types = admin.link_types()
        found = None if known is None else shown(section, known, objects[known], types)
        what = f"{NOUNS[section]} {(known or name)[:200]}"
        expected.check(found, what)
        document, findings = _checked(_one(section, known or name, settings(found)), held, what)
        model = next(iter(getattr(document, section).items()))
        steps = with_subscriptions(self._hub, document, compare(document, held))
        action = next(each for each in steps if each.section == section and each.given == model[0])
        actions = with_held(self._hub, document, [action])
        if not dry_run:
            if not force:
                refuse_losses(actions, cure=_FORCE)
            if actions[0].changes_hub:
                apply_action(admin, document, actions[0], force=force)
        return document, Outcome(actions[0], shown(section, action.name, model[1], types), findings)

    def _missing(self, section: str, name: str) -> NotFound:
        try:
            find(self._hub, section, name)
        except NotFound as error:
            return error
        return NotFound(NOUNS[section], name[:200], [])

    @staticmethod
    def _is_gone(admin: GatewayAdmin, job: str) -> bool:
        """Whether a job is gone, soon: the agent finishes what is in flight."""
        end = time.monotonic() + _PATIENCE
        while (found := admin.get_job(job)) is not None and found.status.leaving:
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE)
        return True

    # -- many ----------------------------------------------------------------------------------------------------------

    def plan(self, given: str | Mapping[str, Any], *, prune: bool = False) -> Planned:
        """What :meth:`apply` would do.

        Args:
            given: YAML, or plain data of the same form.
            prune: remove what it does not name.

        Raises:
            Invalid: it has errors.
            GatewayError: a setting differs that cannot be changed after creation.
        """
        tag = self.tag()
        document, findings = self._document(given, prune=prune)
        return Planned(plan_for(self._hub, document, prune=prune), findings, tag=tag)

    def tag(self) -> str:
        """A digest of everything that the hub holds, and of the version of that: secrets are not shown, and count."""
        version = GatewayAdmin(self._hub).snapshot_version()
        return hashlib.sha256(f"{version} {export_text(self._hub)}".encode()).hexdigest()[:32]

    def apply(
        self,
        given: str | Mapping[str, Any],
        expected: Expected = Expected(),  # noqa: B008  frozen
        *,
        prune: bool = False,
        force: bool = False,
    ) -> Planned:
        """Bring the hub to what a configuration says, as ``mgw apply`` does.

        Args:
            expected: the tag of the hub that the caller saw the plan for.

        Raises:
            Unexpected: something was changed since.
            GatewayError: as for :meth:`plan`; messages would be deleted, and nothing was done; or a step was refused,
                and the steps before it are done.
        """
        with self._alone():
            admin = GatewayAdmin(self._hub)
            bound = expected.one_of is not None or expected.none_of is not None
            version = admin.snapshot_version() if bound else None
            if bound:
                expected.check_tag(self.tag(), "the configuration")
            document, findings = self._document(given, prune=prune)
            actions = plan_for(self._hub, document, prune=prune)
            done = list(apply_actions(admin, document, actions, force=force, cure=_FORCE, version=version))
        return Planned(done, findings, list(prepare(self._hub, document)))

    def export(self) -> str:
        """Everything the hub holds, as a configuration file for another machine."""
        return export_text(self._hub, abroad=True)

    def _document(self, given: str | Mapping[str, Any], *, prune: bool) -> tuple[Document, Sequence[Finding]]:
        source = clean(load_text(given, "body")) if isinstance(given, str) else source_of(given)
        held = read_running(self._hub)
        return _checked(source, held, "the configuration", alone=prune)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._mutex:
            yield


def _one(section: str, name: str, values: Mapping[str, Any]) -> Source:
    below: Path = (section, name)
    return source_of({section: {name: values}}, below)


def _checked(source: Source, held: Document, what: str, *, alone: bool = False) -> tuple[Document, Sequence[Finding]]:
    """The document of what was given, and warnings.

    Raises:
        Invalid: it has errors.
    """
    checked = check_source(source, existing=None if alone else held, held=held)
    if not checked.ok:
        raise Invalid(what, checked.findings)
    given = checked.document.settings.model_fields_set
    unused = [
        Finding(
            "warning",
            "no-effect",
            source.mark(("settings", name)) or Mark(name),
            f"settings {name}",
            f"settings.{name} has no effect here: it is of the process that reads the file",
            "give the file to mgw run",
        )
        for name in ("hub", *OF_THE_PROCESS)
        if name in given
    ]
    return checked.document, [*checked.findings, *unused]
