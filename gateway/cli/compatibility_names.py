"""Which names of ours exist, for the page that lists them next to those of the documented gateway."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import mgw
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.objects import Activity, AgentStatus, JobStatus
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.views import COLUMNS
from mgw.links import registry
from mgw.links.contract import LinkSpec
from mgw.transforms import builtin

__all__ = [
    "column_names",
    "command",
    "commands",
    "method",
    "methods",
    "option_names",
    "places",
    "sql_functions",
    "there",
]

#: What the classes of the procedures have for each other, and that is no procedure.
_INNER = frozenset({"aq", "change", "need_agent", "need_job", "need_link", "need_queue", "snapshot_version"})


@functools.cache
def methods() -> frozenset[str]:
    """The procedures of ``GatewayAdmin``."""
    return frozenset(name for name in dir(GatewayAdmin) if not name.startswith("_")) - _INNER


def method(name: str) -> inspect.Signature | None:
    """How a procedure is called; None: there is none of that name."""
    return inspect.signature(getattr(GatewayAdmin, name)) if name in methods() else None


@functools.cache
def commands() -> dict[str, Any]:
    """Every command by its words without ``mgw``."""
    from typer.main import get_command

    from mgw.gateway.cli.main import app

    return dict(_commands(get_command(app), ()))


def _commands(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(group, "commands", {}).items():
        yield " ".join((*words, name)), child
        yield from _commands(child, (*words, name))


def command(words: str) -> Any | None:
    """A command by its words without ``mgw``; None: there is none."""
    return commands().get(words)


def places(words: str) -> frozenset[str]:
    """What a command takes: its options, and its arguments as the reference shows them."""
    found = command(words)
    params = () if found is None else found.params
    names = {each for param in params for each in (*param.opts, *param.secondary_opts)}
    return frozenset(names | {(param.metavar or param.name.upper()).strip("[]") for param in params})


@functools.cache
def sql_functions() -> frozenset[str]:
    """Functions of schema ``mgwadm`` of a PostgreSQL hub; none where the gateway has no such schema."""
    try:
        module = import_module("mgw.gateway.state.mgwadm.procedures")
    except ModuleNotFoundError:
        return frozenset()
    return frozenset(each.name for each in module.PROCEDURES)


@functools.cache
def column_names() -> frozenset[str]:
    """``VIEW.COLUMN`` of every view of the gateway."""
    return frozenset(f"{view}.{column}" for view, columns in COLUMNS.items() for column in columns)


def _specs() -> list[LinkSpec]:
    return [registry.spec(name) for name in registry.types(own=True)]


@functools.cache
def option_names() -> frozenset[str]:
    """Options of agents, jobs, links and foreign queues, and attributes of links."""
    of_links = (
        field
        for spec in _specs()
        for field in (*spec.attributes, *spec.options, *spec.queue_options, *spec.job_options)
    )
    return frozenset(field.name for field in (*AGENT_OPTIONS, *JOB_OPTIONS, *of_links))


@functools.cache
def _all() -> frozenset[str]:
    statuses = {str(each) for kind in (AgentStatus, JobStatus, Activity) for each in kind}
    views = {*COLUMNS, *column_names()}
    public = {*mgw.__all__, *(f"mgw {words}" for words in commands())}
    functions = {f"mgwadm.{each}" for each in sql_functions()}
    parameters = {each for name in methods() for each in inspect.signature(getattr(GatewayAdmin, name)).parameters}
    own = parameters | {f"ValueType.{each.name}" for each in mgw.ValueType} | set(builtin.__all__)
    return frozenset(statuses | views | public | option_names() | methods() | functions | own)


def there(name: str) -> bool:
    """Whether the code has a method or parameter, command, view, ``VIEW.COLUMN``, option, status or public name."""
    return name in _all()
