"""Set-up: how do I add one? A form, what it would do, and then the change; the same for what is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from mgw.gateway.http.access import Administrator
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.changes import ChangesOf
from mgw.gateway.http.web.forms import Form, done, said
from mgw.gateway.http.web.rendering import name_in_path, page
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.bodies import body_view
from mgw.gateway.services.connection_test import Check, test_before
from mgw.gateway.services.definition_changes import Changes, Invalid
from mgw.gateway.services.definitions import NOUNS, Definition, find
from mgw.gateway.services.expected import Expected
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.mapping_preview import preview
from mgw.gateway.services.object_forms import (
    OFFERED,
    Group,
    flat,
    groups_of,
    kinds,
    nested,
    offers,
    secret_keys,
    with_errors,
    yaml_of,
)
from mgw.gateway.services.queue_checks import QueueCheck, check_queue_before
from mgw.gateway.services.removal_preview import users_of
from mgw.gateway.services.typed_secrets import Forgotten, TypedSecrets
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = ["router"]

router = APIRouter(prefix="/setup")

Kind = Annotated[str, Query(max_length=200)]


def _typed(request: Request) -> TypedSecrets:
    found: TypedSecrets = request.app.state.typed
    return found


TypedOf = Annotated[TypedSecrets, Depends(_typed)]

#: Where somebody goes after an object was made; {} is its name.
_PLACES = {"links": "/links/{}", "foreign_queues": "/setup", "queues": "/queues/{}", "jobs": "/jobs/{}"}
#: Fields of every form next to the settings.
_OWN_FIELDS = frozenset(("kind", "tag", "was", "name", "try"))
#: What is added next.
_NEXT = {"links": "foreign_queues", "foreign_queues": "jobs", "queues": "jobs"}


@router.get("")
def setup_page(request: Request, hub: HubOf, who: Administrator) -> Response:
    """What there is, and what may be added."""
    values = {"offers": offers(hub), "nouns": NOUNS, "said": said(request.query_params.get("said", ""))}
    return page(request, "setup.html", who, values)


@router.get("/{section}")
def new_page(request: Request, section: str, hub: HubOf, who: Administrator, kind: Kind = "") -> Response:
    """The form of a new object."""
    _known(section)
    choice = kinds(hub, section)
    if choice is not None and kind.upper() not in map(str.upper, choice):
        return page(request, "setup-kind.html", who, {"area": section, "noun": NOUNS[section], "kinds": choice})
    return _form(request, who, hub, section, kind, {})


@router.get("/{section}/{name:path}")
def edit_page(request: Request, section: str, name: str, hub: HubOf, who: Administrator) -> Response:
    """The form of an object that there is."""
    _known(section)
    held = find(hub, section, name)
    return _form(request, who, hub, section, _kind_of(held), flat(held.config), held=held)


@router.post("/{section}/form")
def again(  # noqa: PLR0917
    request: Request, section: str, form: Form, hub: HubOf, who: Administrator, typed: TypedOf
) -> Response:
    """The form as somebody had filled it in."""
    _known(section)
    held = _held(hub, section, form)
    try:
        with typed.used(who, form.get("kept", "")) as kept:
            return _form(request, who, hub, section, form.get("kind", ""), form, held=held, kept=kept)
    except Forgotten as error:
        return _form(request, who, hub, section, form.get("kind", ""), form, held=held, refused=error)


@router.post("/{section}/check")
def check(  # noqa: PLR0917
    request: Request, section: str, form: Form, hub: HubOf, who: Administrator, changes: ChangesOf, typed: TypedOf
) -> Response:
    """What the form would do: nothing is changed."""
    _known(section)
    held = _held(hub, section, form)
    kind = form.get("kind", "")
    groups = _groups(hub, section, form, held)
    try:
        with typed.used(who, form.get("kept", "")) as before:
            secrets = {key: form.get(key, "").strip() or before.get(key, "") for key in secret_keys(groups)}
            kept = {key: value for key, value in secrets.items() if value}
            return _checked(request, section, form, hub, who, changes, groups=groups, held=held, kept=kept)
    except Forgotten as error:
        return _form(request, who, hub, section, kind, form, held=held, refused=error)


def _checked(  # noqa: PLR0917
    request: Request,
    section: str,
    form: Mapping[str, str],
    hub: Hub,
    who: Administrator,
    changes: Changes,
    *,
    groups: Sequence[Group],
    held: Definition | None,
    kept: Mapping[str, str],
) -> Response:
    kind = form.get("kind", "")
    name, settings = _settings(section, {**form, **kept}, groups, held)
    try:
        given, document = changes.checked(section, name, settings)
        outcome = changes.put(section, name, settings, _expected(form), dry_run=True)
        tests = _tests(form, given, document) if section == "links" else None
        looked = check_queue_before(GatewayAdmin(hub), given, document) if _looks(section, form) else None
    except Invalid as error:
        return _form(request, who, hub, section, kind, form, held=held, kept=kept, wrong=error)
    except GatewayError as error:
        return _form(request, who, hub, section, kind, form, held=held, kept=kept, refused=error)
    values = {
        "area": section,
        "noun": NOUNS[section],
        "name": outcome.action.name,
        "action": outcome.action,
        "findings": outcome.findings,
        "yaml": yaml_of(section, given, document),
        "tests": tests,
        "looked": looked,
        "fields": _carried(form, groups) | {"kept": _typed(request).keep(who, kept)},
    }
    return page(request, "setup-check.html", who, values)


@router.post("/foreign_queues/look")
def look(request: Request, form: Form, hub: HubOf, who: Administrator, changes: ChangesOf) -> Response:
    """Whether the queue in the form exists: nothing is changed, here or there."""
    section, kind = "foreign_queues", form.get("kind", "")
    held = _held(hub, section, form)
    name, settings = _settings(section, form, _groups(hub, section, form, held), held)
    try:
        found = check_queue_before(GatewayAdmin(hub), *changes.checked(section, name, settings))
    except Invalid as error:
        return _form(request, who, hub, section, kind, form, held=held, wrong=error)
    except GatewayError as error:
        return _form(request, who, hub, section, kind, form, held=held, refused=error)
    return _form(request, who, hub, section, kind, form, held=held, looked=found)


@router.post("/jobs/preview")
def preview_page(request: Request, form: Form, hub: HubOf, who: Administrator, changes: ChangesOf) -> Response:
    """What the destination of the job in the form would get: nothing is changed, stored or sent."""
    section = "jobs"
    held = _held(hub, section, form)
    groups = _groups(hub, section, form, held)
    name, settings = _settings(section, form, groups, held)
    values: dict[str, Any] = {"name": name, "wrong": None, "fields": _carried(form, groups)}
    try:
        job, document = changes.checked(section, name, settings)
        try:
            shown = preview(hub, job, document, form.get("sample") or None)
        except ConfigInvalid as error:  # the sample is no message
            if not form.get("sample"):
                raise
            shown = replace(preview(hub, job, document), sample=form["sample"])
            values["wrong"] = error
    except Invalid as error:
        return _form(request, who, hub, section, "", form, held=held, wrong=error)
    except GatewayError as error:
        return _form(request, who, hub, section, "", form, held=held, refused=error)
    views = [body_view(each.body) for each in shown.outcome.messages] if shown.outcome else []
    given = body_view(shown.outcome.given.body) if shown.outcome else None
    return page(request, "setup-preview.html", who, values | {"shown": shown, "views": views, "given_view": given})


@router.post("/{section}/removal")
def removal(  # noqa: PLR0917
    request: Request, section: str, form: Form, hub: HubOf, who: Administrator, changes: ChangesOf
) -> Response:
    """What a removal would do: nothing is removed."""
    _known(section)
    name = form.get("was", "")
    outcome = changes.delete(section, name, _expected(form), dry_run=True)
    found = outcome.action
    values = {
        "area": section,
        "noun": NOUNS[section],
        "name": found.name,
        "action": found,
        "waiting": found.held_text,
        "users": users_of(hub, section, found.name),
        "fields": {"was": found.name, "tag": form.get("tag", "")},
    }
    return page(request, "setup-removal.html", who, values)


@router.post("/{section}/remove")
def remove(section: str, form: Form, _: Administrator, changes: ChangesOf) -> Response:
    """Remove the object; messages go with it where somebody said so."""
    _known(section)
    outcome = changes.delete(section, form.get("was", ""), _expected(form), force=form.get("force") == "yes")
    return done("/setup", "removed" if outcome.done else "removing")


@router.post("/{section}")
def make(  # noqa: PLR0917
    section: str, form: Form, hub: HubOf, who: Administrator, changes: ChangesOf, typed: TypedOf
) -> Response:
    """Make or change the object."""
    _known(section)
    held = _held(hub, section, form)
    with typed.used(who, form.get("kept", "")) as kept:
        name, settings = _settings(section, {**form, **kept}, _groups(hub, section, form, held), held)
        outcome = changes.put(section, name, settings, _expected(form))
    made = outcome.action.name
    if section in _NEXT and not form.get("was"):
        return done("/setup", "made")
    return done(_PLACES[section].format(name_in_path(made)), "made")


def _known(section: str) -> None:
    if section not in OFFERED:
        raise Problem(404, "there is no such page", "go to the map")


def _kind_of(held: Definition) -> str:
    if held.section == "links":
        return str(held.config.get("type", "")).lower()
    return held.name.rpartition("@")[2] if held.section == "foreign_queues" else ""


def _held(hub: Hub, section: str, form: Mapping[str, str]) -> Definition | None:
    """The object that a form changes."""
    return find(hub, section, form["was"]) if form.get("was") else None


def _expected(form: Mapping[str, str]) -> Expected:
    """What somebody saw who filled in the form: a new object is not there yet, another is as it was."""
    return Expected(one_of=frozenset((form["tag"],))) if form.get("tag") else Expected(none_of=frozenset("*"))


def _groups(hub: Hub, section: str, form: Mapping[str, str], held: Definition | None) -> list[Group]:
    return groups_of(hub, section, form.get("kind", ""), form, held=held)


def _carried(form: Mapping[str, str], groups: Sequence[Group]) -> dict[str, str]:
    """The fields of a form that its confirmation sends once more: secrets are none of them."""
    shown = {entry.key for group in groups for entry in group.entries if entry.kind != "secret"}
    return {key: value for key, value in form.items() if key in shown or key in _OWN_FIELDS}


def _settings(
    section: str, form: Mapping[str, str], groups: Sequence[Group], held: Definition | None
) -> tuple[str, dict[str, Any]]:
    """Name and settings behind a form."""
    kind = form.get("kind", "")
    name = held.name if held is not None else form.get("name", "").strip()
    if held is None and section == "foreign_queues":
        name = f"{name}@{kind}"
    return name, nested(form, groups, kind=kind if section == "links" else "", held=held)


def _tests(form: Mapping[str, str], name: str, document: Any) -> Sequence[Check] | None:
    return test_before(name, document) if form.get("try") else None


def _looks(section: str, form: Mapping[str, str]) -> bool:
    return section == "foreign_queues" and bool(form.get("try"))


def _form(  # noqa: PLR0917
    request: Request,
    who: Administrator,
    hub: Hub,
    section: str,
    kind: str,
    values: Mapping[str, str],
    *,
    held: Definition | None = None,
    kept: Mapping[str, str] = MappingProxyType({}),
    wrong: Invalid | None = None,
    refused: GatewayError | None = None,
    looked: QueueCheck | None = None,
) -> Response:
    groups = groups_of(hub, section, kind, values, held=held)
    loose: list[Any] = []
    if wrong is not None:
        keys = {entry.key.lower() for group in groups for entry in group.entries}
        at: dict[str, list[str]] = {}
        for each in wrong.findings:
            if each.severity != "error":
                continue
            place = each.where.lower()
            key = next((key for key in keys if place in (key, key.removeprefix("options."))), "")
            if key:
                at.setdefault(key, []).append(f"{each.message}. {each.cure}".strip())
            else:
                loose.append(each)
        groups = with_errors(groups, at)
    shown = {
        "area": section,
        "noun": NOUNS[section],
        "kind": kind,
        "groups": groups,
        "held": held,
        "tag": values.get("tag") or (held.tag if held is not None else ""),
        "name": values.get("name", ""),
        "about": OFFERED[section],
        "loose": loose,
        "wrong": [entry for group in groups for entry in group.entries if entry.errors],
        "refused_by": refused,
        "looked": looked,
        "typed": frozenset(kept),
        "kept": _typed(request).keep(who, kept),
    }
    return page(request, "setup-form.html", who, shown)
