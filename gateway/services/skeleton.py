"""The file that ``mgw init`` writes: a bridge from one messaging system to another, through a queue of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mgw.links import registry
from mgw.links.contract import Guarantee, LinkSpec
from mgw.links.skeleton import Skeleton
from mgw.transforms.errors import GatewayError

__all__ = ["first_steps", "pairs", "skeleton", "write"]

_CLIENT_CERTIFICATE = {
    "tls_cert_file": "/etc/mgw/client.pem  # where the broker asks for a certificate",
    "tls_key_file": "/etc/mgw/client-key.pem",
}


def pairs() -> list[tuple[str, str]]:
    """The types of links that a file can be made for, as source and target, in lower case."""
    types = [name.lower() for name in registry.types(own=True) if registry.spec(name).skeleton is not None]
    return [(source, target) for source in types for target in types]


def skeleton(source: str, target: str, *, tls: bool = False) -> str:
    """A configuration that carries messages from one messaging system to another.

    Args:
        source: type of the link to read from.
        target: type of the link to write to.
        tls: the brokers have TLS and a login.

    Raises:
        GatewayError: there is no such type of link, or no file can be made for it.
    """
    here, there = _spec(source), _spec(target)
    first, second = _of(here), _of(there)
    through = max(first.reads, second.through or second.writes, key=lambda level: Guarantee(level).rank)
    secure = "--tls " if tls else ""
    return "\n".join(
        [
            f"# {here.title} to {there.title}. Made by: mgw init {secure}--from {source.lower()} --to {target.lower()}",
            "#",
            f"#   {here.title} {first.source} --> [BRIDGE] --> {there.title} {second.target}",
            "#",
            "# ${NAME:-value} is the variable NAME, or value if it is not set; NAME_FILE names a file that holds it.",
            "# The queue BRIDGE keeps what the target has not confirmed, so that neither side waits for the other.",
            *([] if tls else ["# For brokers with TLS and a login: mgw init --tls"]),
            "",
            "version: 1",
            "",
            "links:",
            *_link("source", here, tls=tls, log=here.inbound_log, rights=first.may_read),
            *_link("target", there, tls=tls, log=there.outbound_log, rights=second.may_write),
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
            f"  bridge_in: {{type: inbound, source: in@source, destination: BRIDGE}}  # guarantee: {first.reads}",
            f"  bridge_out: {{type: outbound, source: BRIDGE, destination: out@target}}  # guarantee: {second.writes}",
            "  # From broker to broker without the queue: this job instead of the two above, and no BRIDGE.",
            f"  # bridge: {{type: through, source: in@source, destination: out@target}}  # guarantee: {through}",
            "",
        ]
    )


def first_steps(source: str, target: str, file: Path, *, tls: bool = False) -> list[str]:
    """What to do after the file was written, a line each."""
    here, there = _spec(source), _spec(target)
    first, second = _of(here), _of(there)
    ends = ((here, first, first.source), (there, second, second.target))
    missing = [(spec, own, queue) for spec, own, queue in ends if queue in own.create]
    before = [f"{own.create[queue]}    # if it is not there yet" for _, own, queue in missing]
    if tls:
        before = ["export SOURCE_PASSWORD_FILE=FILE TARGET_PASSWORD_FILE=FILE    # and the other variables of the file"]
        if missing:
            named = (f"{own.domain or 'topic'} {queue} of {spec.title}" for spec, own, queue in missing)
            before.append(f"# create, if it is not there yet: {', '.join(named)}")
    return [
        *before,
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


def _link(name: str, spec: LinkSpec, *, tls: bool, log: str, rights: Sequence[str]) -> list[str]:
    own = _of(spec)
    lines = [f"  {name}:", f"    type: {spec.type.lower()}"]
    for setting, value in (own.secure if tls else own.settings).items():
        lines.append(f"    {setting}: {value.replace('END', name.upper())}")
    if log:
        lines.append("    prepare: true  # mgw apply creates the logs with which its jobs deliver exactly once")
    if tls:
        lines += [f"    # {own.rights}:", *(f"    #   {each}" for each in rights)]
        lines += [f"    # {setting}: {file}" for setting, file in _CLIENT_CERTIFICATE.items()]
    return lines


def _foreign(name: str, own: Skeleton, queue: str, options: str) -> list[str]:
    lines = [f"  {name}:", f"    provider_queue: {queue}"]
    if own.domain:
        lines.append(f"    domain: {own.domain}")
    if options:
        lines.append(f"    options: {options}")
    return lines
