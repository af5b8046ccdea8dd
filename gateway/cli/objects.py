"""``mgw agents``, ``links``, ``queues`` (foreign ones), ``transformations`` and ``jobs``: look at them, change them.

Objects are made by ``mgw apply``; names ignore case.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    admin,
    completer,
    describe,
    fail,
    find_name,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.model import ForeignQueueDef

__all__ = ["register"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Remove at once, whatever stays in the foreign system.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; NAME= puts back the default.")
]
Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Change an option; NAME= removes it.")
]

agents = typer.Typer(help="Agents: processes that run jobs.", no_args_is_help=True, rich_markup_mode=None)
links = typer.Typer(help="Links: connections to messaging systems.", no_args_is_help=True, rich_markup_mode=None)
queues = typer.Typer(help="Foreign queues: registered as queue@link.", no_args_is_help=True, rich_markup_mode=None)
transformations = typer.Typer(help="Transformations of messages.", no_args_is_help=True, rich_markup_mode=None)
jobs = typer.Typer(help="Jobs: from one source to one destination.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the groups to the program."""
    for name, group in (
        ("agents", agents),
        ("links", links),
        ("queues", queues),
        ("transformations", transformations),
        ("jobs", jobs),
    ):
        app.add_typer(group, name=name)


AgentName = Annotated[str, typer.Argument(metavar="AGENT", autocompletion=completer("agents"))]
LinkName = Annotated[str, typer.Argument(metavar="LINK", autocompletion=completer("links"))]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE@LINK", autocompletion=completer("foreign_queues"))]
TransformationName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completer("transformations"))]
JobName = Annotated[str, typer.Argument(metavar="JOB", autocompletion=completer("jobs"))]


def pairs(words: list[str] | None, option: str) -> dict[str, str | None]:
    """``NAME=VALUE`` words as a mapping; an empty value is None."""
    result: dict[str, str | None] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            fail(f"{option} {word!r} is not of the form NAME=VALUE", EXIT_USAGE)
        result[name.strip()] = value or None
    return result


# -- agents ----------------------------------------------------------------------------------------------------------


@agents.command("list")
def agents_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Agents and their status."""
    from gateway.cli.watch import show_agents

    show_agents(ctx, as_json=as_json)


@agents.command("show")
def agents_show(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT", as_json: Json = False) -> None:
    """One agent with its options; no_effect names what is stored and means nothing."""
    from gateway.agentsettings import AGENT_OPTIONS, NO_EFFECT
    from links.options import typed

    with admin(ctx) as procedures:
        name = find_name("agent", name, [agent.name for agent in procedures.list_agents()])
        agent, state = procedures.get_agent(name), procedures.agent_state(name)
        options = {option.name: option.value for option in procedures.list_agent_options(name)}
    idle = [each for each in NO_EFFECT if getattr(agent, each, None) is not None]
    values = (
        _fields(agent)
        | {"no_effect": idle if as_json else ", ".join(idle)}
        | {"status": str(state.status), "last_error": state.last_error_msg, "options": typed(options, AGENT_OPTIONS)}
    )
    print_json(values) if as_json else describe(values)


@agents.command("alter")
def agents_alter(
    ctx: typer.Context,
    name: AgentName,
    *,
    max_threads: Annotated[int | None, typer.Option(help="Jobs that may work at the same time, 1..128.")] = None,
    max_memory: Annotated[int | None, typer.Option(help="MB; stored, has no effect.")] = None,
    comment: Annotated[str | None, typer.Option(help="Free text; '' removes it.")] = None,
    option: Options = None,
) -> None:
    """Change an agent; takes effect at its next start."""
    from gateway.admin import NO_CHANGE

    with admin(ctx) as procedures:
        name = find_name("agent", name, [agent.name for agent in procedures.list_agents()])
        procedures.alter_agent(
            name,
            max_threads=max_threads,
            max_memory=max_memory,
            comment=NO_CHANGE if comment is None else comment or None,
        )
        for key, value in pairs(option, "--option").items():
            if value is None:
                procedures.remove_agent_option(name, key)
            else:
                procedures.set_agent_option(name, key, value)
    say(f"agent {name} altered")


@agents.command("startup")
def agents_startup(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Schedule an agent; a running 'mgw run' starts it."""
    with admin(ctx) as procedures:
        name = find_name("agent", name, [agent.name for agent in procedures.list_agents()])
        procedures.startup(name)
    say(f"agent {name} scheduled")


@agents.command("shutdown")
def agents_shutdown(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Ask an agent to stop after the work in flight."""
    with admin(ctx) as procedures:
        name = find_name("agent", name, [agent.name for agent in procedures.list_agents()])
        procedures.shutdown(name)
    say(f"agent {name} shuts down")


@agents.command("log-level")
def agents_log_level(
    ctx: typer.Context,
    level: Annotated[int, typer.Argument(help="0 basic to 4 everything.")],
    name: AgentName = "DEFAULT_AGENT",
) -> None:
    """Set the log level of a running agent until it stops."""
    with admin(ctx) as procedures:
        procedures.set_log_level(level, find_name("agent", name, [agent.name for agent in procedures.list_agents()]))
    say(f"agent {name} logs at level {level}")


@agents.command("clean")
def agents_clean(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Put an agent that died or is BROKEN back to NOT_STARTED."""
    with admin(ctx) as procedures:
        name = find_name("agent", name, [agent.name for agent in procedures.list_agents()])
        procedures.clean_startup_state(name)
    say(f"agent {name} cleaned")


@agents.command("cleanup")
def agents_cleanup(
    ctx: typer.Context,
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION",
            help="RESET_SUB_MISSING_MESSAGE after error 415, RESET_SUB_MISSING_LOG_REC after 416 and 417.",
        ),
    ],
    job: Annotated[str | None, typer.Argument(metavar="JOB", autocompletion=completer("jobs"))] = None,
    agent: Annotated[
        str, typer.Option("--agent", "-a", help="Agent of the job; it must be running.")
    ] = "DEFAULT_AGENT",
) -> None:
    """Let a job go on whose messages or log records are missing: they are given up."""
    with admin(ctx) as procedures:
        if job is not None:
            known = {each.name: each for each in procedures.list_jobs()}
            job = find_name("job", job, list(known))
            if (status := known[job].status) != "FAILED":
                fail(f"job {job} is {status}; only a FAILED job is cleaned up")
        agent = find_name("agent", agent, [each.name for each in procedures.list_agents()])
        procedures.cleanup_gateway(action, job, agent_name=agent)
    say(f"{action.upper()} done" + (f" for job {job}" if job else ""))


@agents.command("remove")
def agents_remove(ctx: typer.Context, name: AgentName) -> None:
    """Remove an agent that is stopped and has no links."""
    with admin(ctx) as procedures:
        name = find_name("agent", name, [agent.name for agent in procedures.list_agents()])
        procedures.remove_agent(name)
    say(f"agent {name} removed")


# -- links -----------------------------------------------------------------------------------------------------------


@links.command("list")
def links_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Links."""
    from gateway.cli.watch import show_links

    show_links(ctx, as_json=as_json)


@links.command("show")
def links_show(ctx: typer.Context, name: LinkName, as_json: Json = False) -> None:
    """One link with its settings; secrets are hidden."""
    from gateway.config.redacted import link_settings

    with admin(ctx) as procedures:
        known = {link.name: link for link in procedures.list_links()}
        link = known[find_name("link", name, list(known))]
    values = link_settings(link)
    print_json(values) if as_json else describe(values)


@links.command("test")
def links_test(ctx: typer.Context, name: LinkName, as_json: Json = False) -> None:
    """Connect, and say in plain words what works and what does not. Exit 1 when something does not."""
    from gateway.admin import link_config
    from links import registry

    with admin(ctx) as procedures:
        known = {link.name: link for link in procedures.list_links()}
        link = known[find_name("link", name, list(known))]
        checks = registry.open_link(link_config(link)).test()
        redact = procedures.secrets.redact
    if as_json:
        print_json(
            [{k: redact(v) if isinstance(v, str) else v for k, v in check._asdict().items()} for check in checks]
        )
    for check in () if as_json else checks:
        mark, cure = ("ok  ", "") if check.ok else ("FAIL", f"; {check.cure}" if check.cure else "")
        say(redact(f"{mark} {check.name}: {check.detail}{cure}"))
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_FAILED)


@links.command("alter")
def links_alter(
    ctx: typer.Context,
    name: LinkName,
    *,
    settings: Settings = None,
    option: Options = None,
    password_file: Annotated[Path | None, typer.Option(help="File that holds the new password.")] = None,
    comment: Annotated[str | None, typer.Option(help="Free text; '' removes it.")] = None,
) -> None:
    """Change a link. A password is read from a file, never from the command line."""
    from gateway.admin import NO_CHANGE

    properties: dict[str, Any] = dict(pairs(settings, "--set"))
    if any("password" in key.lower() for key in properties):
        fail("a password on the command line can be seen by others; use --password-file", EXIT_USAGE)
    if password_file is not None:
        properties["password"] = _secret(password_file)
    with admin(ctx) as procedures:
        name = find_name("link", name, procedures.link_names())
        procedures.alter_msgsystem_link(
            name, properties, pairs(option, "--option") or None, NO_CHANGE if comment is None else comment or None
        )
    say(f"link {name} altered")


@links.command("remove")
def links_remove(ctx: typer.Context, name: LinkName) -> None:
    """Remove a link without foreign queues."""
    with admin(ctx) as procedures:
        name = find_name("link", name, procedures.link_names())
        procedures.remove_msgsystem_link(name)
    say(f"link {name} removed")


# -- foreign queues --------------------------------------------------------------------------------------------------


@queues.command("list")
def queues_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Foreign queues. (The hub's own queues: mgw aq queues.)"""
    with admin(ctx) as procedures:
        found, types = procedures.list_foreign_queues(), procedures.link_types()
    if as_json:
        print_json([_queue_values(queue, types) for queue in found])
        return
    print_table(
        {"FOREIGN QUEUE": "fold", "DOMAIN": "left", "NAME THERE": "fold"},
        [(f"{queue.name}@{queue.link}", queue.domain or "", queue.provider_queue) for queue in found],
    )


@queues.command("show")
def queues_show(ctx: typer.Context, name: QueueName, as_json: Json = False) -> None:
    """One foreign queue."""
    with admin(ctx) as procedures:
        known = {f"{queue.name}@{queue.link}": queue for queue in procedures.list_foreign_queues()}
        types = procedures.link_types()
    values = _queue_values(known[find_name("foreign queue", name, list(known))], types)
    print_json(values) if as_json else describe(values)


@queues.command("remove")
def queues_remove(ctx: typer.Context, name: QueueName) -> None:
    """Unregister a foreign queue that no job uses. The queue itself is not touched."""
    with admin(ctx) as procedures:
        known = [f"{queue.name}@{queue.link}" for queue in procedures.list_foreign_queues()]
        name = find_name("foreign queue", name, known)
        queue, _, link = name.rpartition("@")
        procedures.unregister_foreign_queue(queue, link)
    say(f"foreign queue {name} unregistered")


# -- transformations -------------------------------------------------------------------------------------------------


@transformations.command("list")
def transformations_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Transformations."""
    with admin(ctx) as procedures:
        found = procedures.list_transformations()
    if as_json:
        print_json([_fields(each) for each in found])
        return
    print_table(
        {"TRANSFORMATION": "fold", "FROM": "left", "TO": "left", "COMMENT": "fold"},
        [(each.name, each.from_type, each.to_type, each.comments) for each in found],
    )


@transformations.command("show")
def transformations_show(ctx: typer.Context, name: TransformationName) -> None:
    """One transformation, as JSON."""
    with admin(ctx) as procedures:
        known = {each.name: each for each in procedures.list_transformations()}
    print_json(_fields(known[find_name("transformation", name, list(known))]))


@transformations.command("remove")
def transformations_remove(ctx: typer.Context, name: TransformationName) -> None:
    """Remove a transformation that no job and no subscriber uses."""
    with admin(ctx) as procedures:
        name = find_name("transformation", name, [each.name for each in procedures.list_transformations()])
        procedures.drop_transformation(name)
    say(f"transformation {name} removed")


# -- jobs ------------------------------------------------------------------------------------------------------------


@jobs.command("list")
def jobs_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Jobs with their state and counters."""
    from gateway.cli.watch import show_jobs

    show_jobs(ctx, as_json=as_json)


@jobs.command("show")
def jobs_show(ctx: typer.Context, name: JobName, as_json: Json = False) -> None:
    """One job: settings, state, counters, guarantee, last error."""
    from gateway.cli.watch import show_job

    show_job(ctx, name, as_json=as_json)


@jobs.command("enable")
def jobs_enable(ctx: typer.Context, name: JobName) -> None:
    """Let a job move messages."""
    with admin(ctx) as procedures:
        name = find_name("job", name, [job.name for job in procedures.list_jobs()])
        procedures.enable_job(name)
    say(f"job {name} enabled")


@jobs.command("disable")
def jobs_disable(ctx: typer.Context, name: JobName) -> None:
    """Stop a job; its subscription keeps collecting."""
    with admin(ctx) as procedures:
        name = find_name("job", name, [job.name for job in procedures.list_jobs()])
        procedures.disable_job(name)
    say(f"job {name} disabled")


@jobs.command("reset")
def jobs_reset(ctx: typer.Context, name: JobName) -> None:
    """Forget the failures of a job and try it at once."""
    with admin(ctx) as procedures:
        name = find_name("job", name, [job.name for job in procedures.list_jobs()])
        procedures.reset_job(name)
    say(f"job {name} reset")


@jobs.command("alter")
def jobs_alter(
    ctx: typer.Context,
    name: JobName,
    *,
    rule: Annotated[str | None, typer.Option(help="Only messages for which it is true; '' removes it.")] = None,
    transformation: Annotated[str | None, typer.Option(help="'' removes it.")] = None,
    exception_queue: Annotated[str | None, typer.Option(help="'' removes it.")] = None,
    poll_interval: Annotated[float | None, typer.Option(help="Seconds, 0.1..60; 0 puts back the default.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Messages per transaction, 1..10000.")] = None,
    option: Options = None,
    comment: Annotated[str | None, typer.Option(help="Free text; '' removes it.")] = None,
) -> None:
    """Change a job while it runs."""
    from gateway.admin import NO_CHANGE

    def text(value: str | None) -> Any:
        return NO_CHANGE if value is None else value or None

    options = pairs(option, "--option")
    if batch_size is not None:
        options["MsgBatchSize"] = str(batch_size)
    with admin(ctx) as procedures:
        name = find_name("job", name, [job.name for job in procedures.list_jobs()])
        procedures.alter_job(
            name,
            rule=text(rule),
            transformation=text(transformation),
            exception_queue=text(exception_queue),
            poll_interval=0 if poll_interval is None else poll_interval or None,
            options=options or None,
            comments=text(comment),
        )
    say(f"job {name} altered")


@jobs.command("remove")
def jobs_remove(ctx: typer.Context, name: JobName, force: Force = False) -> None:
    """Remove a job and its subscription."""
    with admin(ctx) as procedures:
        name = find_name("job", name, [job.name for job in procedures.list_jobs()])
        gone = procedures.remove_job(name, force=force)
    say(f"job {name} " + ("removed" if gone else "is marked for removal; its agent finishes it"))


def _queue_values(queue: ForeignQueueDef, types: Mapping[str, str]) -> dict[str, Any]:
    from gateway.cli.jsonform import queue_options

    return _fields(queue) | {"options": queue_options(queue.options, types.get(queue.link.upper()))}


def _fields(value: Any) -> dict[str, Any]:
    """A record as a mapping for printing."""
    from dataclasses import fields

    return {field.name: getattr(value, field.name) for field in fields(value) if field.repr}


def _secret(path: Path) -> str:
    try:
        return path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        fail(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}; check path and permissions"
        )
