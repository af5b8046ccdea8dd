"""The file that ``mgw init`` writes: a bridge from one messaging system to another, through a queue of the hub."""

from __future__ import annotations

from pathlib import Path

from mgw.links import registry
from mgw.links.contract import LinkSpec
from mgw.links.skeleton import Skeleton
from mgw.transforms.errors import GatewayError

__all__ = ["first_steps", "pairs", "skeleton", "write"]


def pairs() -> list[tuple[str, str]]:
    """The types of links that a file can be made for, as source and target, in lower case."""
    types = [name.lower() for name in registry.types(own=True) if registry.spec(name).skeleton is not None]
    return [(source, target) for source in types for target in types]


def skeleton(source: str, target: str) -> str:
    """A configuration that carries messages from one messaging system to another.

    Raises:
        GatewayError: there is no such type of link, or no file can be made for it.
    """
    here, there = _spec(source), _spec(target)
    first, second = _of(here), _of(there)
    return "\n".join(
        [
            f"# {here.title} to {there.title}. Made by: mgw init --from {source.lower()} --to {target.lower()}",
            "#",
            f"#   {here.title} {first.source} --> [BRIDGE] --> {there.title} {second.target}",
            "#",
            "# ${NAME:-value} is the variable NAME, or value if it is not set; NAME_FILE names a file that holds it.",
            "# The queue BRIDGE keeps what the target has not confirmed, so that neither side waits for the other.",
            "",
            "version: 1",
            "",
            "links:",
            *_link("source", here, first, prepare=bool(here.inbound_log)),
            *_link("target", there, second, prepare=bool(there.outbound_log)),
            "",
            "# The queue or topic at each side, by the name that your programs use.",
            "foreign_queues:",
            *_foreign("in@source", first, first.source, first.options),
            *_foreign("out@target", second, second.target, ""),
            "",
            "queues:",
            "  BRIDGE: {max_retries: 100}",
            "",
            "jobs:",
            "  bridge_in: {type: inbound, source: in@source, destination: BRIDGE}",
            "  bridge_out: {type: outbound, source: BRIDGE, destination: out@target}",
            "",
        ]
    )


def first_steps(source: str, target: str, file: Path) -> list[str]:
    """What to do after the file was written, a line each."""
    first, second = _of(_spec(source)), _of(_spec(target))
    commands = [each for each in (first.create.get(first.source), second.create.get(second.target)) if each]
    return [
        *(f"{each}    # if it is not there yet" for each in commands),
        f"mgw lint {file}",
        f"mgw apply {file}",
        "mgw links test source",
        "mgw links test target",
        "mgw run",
    ]


def write(file: Path, text: str, *, force: bool) -> None:
    """Write the file.

    Raises:
        GatewayError: it is there already, or cannot be written.
    """
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise GatewayError(
            f"{file} is not written", cause="it exists", cure="name another file, or use --force"
        ) from error
    except OSError as error:
        raise GatewayError(
            f"{file} cannot be written", cause=error.strerror or str(error), cure="name another file"
        ) from error


def _spec(link_type: str) -> LinkSpec:
    found = registry.spec(link_type)
    _of(found)
    return found


def _of(spec: LinkSpec) -> Skeleton:
    if spec.skeleton is None:
        known = ", ".join(dict.fromkeys(source for source, _ in pairs()))
        raise GatewayError(
            f"no file can be made for links of type {spec.type}", cause="it is for tests", cure=f"use one of {known}"
        )
    return spec.skeleton


def _link(name: str, spec: LinkSpec, own: Skeleton, *, prepare: bool) -> list[str]:
    lines = [f"  {name}:", f"    type: {spec.type.lower()}"]
    lines += [f"    {setting}: {value.replace('END', name.upper())}" for setting, value in own.settings.items()]
    if prepare:
        lines.append("    prepare: true  # mgw apply creates the logs with which its jobs deliver exactly once")
    lines += [f"    # {setting}: {value.replace('END', name.upper())}" for setting, value in own.hints.items()]
    return lines


def _foreign(name: str, own: Skeleton, queue: str, options: str) -> list[str]:
    lines = [f"  {name}:", f"    provider_queue: {queue}"]
    if own.domain:
        lines.append(f"    domain: {own.domain}")
    if options:
        lines.append(f"    options: {options}")
    return lines
