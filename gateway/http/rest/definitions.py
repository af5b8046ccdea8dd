"""Agents, links, queues, jobs and all else that a configuration file defines: the same routes for each section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, create_model

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.conditions import Conditions, header_of, is_known
from mgw.gateway.http.rest.living import Living, living
from mgw.gateway.http.rest.paging import Cursor, Limit, cursor_of, place_of
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services.definitions import NOUNS, SECTIONS, Definition, Filter, find, page_of, require_named, types_of
from mgw.gateway.services.verdict import STATES, Entry

__all__ = ["SCHEMA", "as_schema", "path_of", "router", "show_one_of"]

router = APIRouter()

#: Key of a schema that stands for that of the objects of a section (:mod:`mgw.gateway.http.openapi`).
SCHEMA = "x-section"

_Pattern = Annotated[str | None, Query(max_length=200, description="Name; `*` and `?` stand for other letters.")]
_Link = Annotated[str | None, Query(max_length=300, description="A link that they use; 404: there is none.")]
_Agent = Annotated[str | None, Query(max_length=300, description="The agent that runs them; 404: there is none.")]


def _one_of(words: Callable[[], Sequence[str]]) -> AfterValidator:
    """Refuses what is none of the words, in whatever letter case."""

    def known(given: str) -> str:
        choices = words()
        if given.upper() not in {each.upper() for each in choices}:
            raise ValueError(f"{given!r} is none of {', '.join(choices)}")
        return given

    return AfterValidator(known)


def _state_of(section: str) -> Any:
    return _one_of(lambda: STATES[section])


def _states(section: str) -> Any:
    return Query(max_length=300, description=f"Their state, a word of /healthz: {', '.join(STATES[section])}.")


def _type_of(section: str) -> Any:
    return _one_of(lambda: types_of(section))


def _types(section: str, others: str = "") -> Any:
    return Query(max_length=300, description=f"Their type: {', '.join(types_of(section, own=True))}{others}.")


_OfAgents = Annotated[Annotated[str, _state_of("agents")] | None, _states("agents")]
_OfLinks = Annotated[Annotated[str, _state_of("links")] | None, _states("links")]
_OfJobs = Annotated[Annotated[str, _state_of("jobs")] | None, _states("jobs")]
_LinkType = Annotated[Annotated[str, _type_of("links")] | None, _types("links", ", or one of another package")]
_JobType = Annotated[Annotated[str, _type_of("jobs")] | None, _types("jobs")]


def as_schema(section: str) -> dict[str, Any]:
    """A schema that stands for that of the objects of a section."""
    return {SCHEMA: section}


def path_of(section: str) -> str:
    """The address of a section: ``/foreign-queues``."""
    return f"/{section.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a list is asked for.

    Attributes:
        agent: of links and jobs, the agent that runs them.
        state: of agents, links and jobs, the word for how they are.
    """

    filter: Filter
    agent: str | None = None
    state: str | None = None


def _by_name(name: _Pattern = None) -> _Wanted:
    return _Wanted(Filter(name))


def _by_link(name: _Pattern = None, link: _Link = None) -> _Wanted:
    return _Wanted(Filter(name, link))


def _of_agents(name: _Pattern = None, state: _OfAgents = None) -> _Wanted:
    return _Wanted(Filter(name), None, state)


def _of_links(name: _Pattern = None, type: _LinkType = None, agent: _Agent = None, state: _OfLinks = None) -> _Wanted:  # noqa: A002
    return _Wanted(Filter(name, None, type), agent, state)


def _of_jobs(
    name: _Pattern = None,
    type: _JobType = None,  # noqa: A002  its name in the address
    link: _Link = None,
    agent: _Agent = None,
    state: _OfJobs = None,
) -> _Wanted:
    return _Wanted(Filter(name, link, type), agent, state)


_WANTED: dict[str, Callable[..., _Wanted]] = {
    "agents": _of_agents,
    "links": _of_links,
    "foreign_queues": _by_link,
    "jobs": _of_jobs,
}
#: Sections of what runs, and where :class:`~mgw.gateway.services.verdict.Health` has them.
_LIVING = ("agents", "links", "jobs")


def _entries(request: Request, section: str) -> dict[str, Entry]:
    """How the objects of a section are, by their names in upper case."""
    if section not in _LIVING:
        return {}
    probes = request.app.state.probes
    health = probes.judged(probes.look(), agent="*")
    return {entry.name.upper(): entry for entry in getattr(health, section)}


def _page_model(section: str) -> type[BaseModel]:
    name = SECTIONS[section].__name__.removesuffix("Model")
    config = Annotated[dict[str, Any], WithJsonSchema(as_schema(section))]
    parts: dict[str, Any] = {
        "name": (str, ...),
        "etag": (str, Field(description="For If-Match.")),
        "config": (config, Field(description="As a file would say it, without defaults and secrets.")),
    }
    if section in _LIVING:
        parts["health"] = (Living | None, Field(description="null: it was made a moment ago."))
    item = create_model(f"{name}Item", __doc__=f"One {NOUNS[section]} of a list.", **parts)
    return create_model(
        f"{name}Page",
        __doc__="A page of a list, in the order of the names.",
        items=(list[item], ...),  # type: ignore[valid-type]
        cursor=(str | None, Field(description="For the next page; null: this is the last.")),
    )


def register(section: str) -> None:
    """Add the routes of a section."""
    noun, path = NOUNS[section], path_of(section)
    tags: list[Any] = [path.strip("/")]
    model = _page_model(section)

    def show_list(
        request: Request,
        hub: HubOf,
        _: Viewer,
        wanted: _Wanted = Depends(_WANTED.get(section, _by_name)),  # noqa: B008
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Any:
        chosen = wanted.filter
        require_named(hub, link=chosen.link, agent=wanted.agent)
        entries = _entries(request, section)
        if wanted.agent is not None or wanted.state is not None:
            chosen = chosen.among(
                name
                for name, entry in entries.items()
                if _is(wanted.agent, entry.agent) and _is(wanted.state, entry.state)
            )
        page = page_of(hub, section, chosen, limit=limit, after=place_of(cursor))
        items = [_item(section, each, entries) for each in page.items]
        return {"items": items, "cursor": cursor_of(page.after)}

    router.add_api_route(
        path,
        show_list,
        methods=["GET"],
        response_model=model,
        tags=tags,
        name=f"list_{section}",
        summary=f"List {noun}s",
        description=f"The {noun}s in the order of their names.",
    )
    show_one_of(section)


def show_one_of(section: str, below: str = "") -> None:
    """Add the route of one object of a section; ``below``: the rest of its address."""
    noun, path = NOUNS[section], path_of(section)

    def show_one(name: str, hub: HubOf, _: Viewer, expected: Conditions) -> Any:
        found = find(hub, section, name)
        if is_known(found.tag, expected):
            return Response(status_code=304, headers=header_of(found.tag))
        return JSONResponse(dict(found.config), headers=header_of(found.tag))

    router.add_api_route(
        f"{path}/{NAME}{below}",
        show_one,
        methods=["GET"],
        response_model=None,
        tags=[path.strip("/")],
        name=f"show_{section}{below.replace('/', '_')}",
        summary=f"Show one {noun}",
        description=f"One {noun} as a file would say it, without what is at its default, and without secrets.",
        responses={
            200: {
                "description": "Its configuration.",
                "content": {"application/json": {"schema": as_schema(section)}},
                "headers": {"ETag": {"description": "For If-Match.", "schema": {"type": "string"}}},
            },
            304: {"description": "It is what If-None-Match says."},
        },
    )


def _is(wanted: str | None, found: str) -> bool:
    return wanted is None or wanted.upper() == found.upper()


def _item(section: str, found: Definition, entries: dict[str, Entry]) -> dict[str, Any]:
    told: dict[str, Any] = {"name": found.name, "etag": f'"{found.tag}"', "config": found.config}
    if section in _LIVING:
        entry = entries.get(found.name.upper())
        told["health"] = None if entry is None else living(entry)
    return told


for _section in SECTIONS:
    register(_section)
