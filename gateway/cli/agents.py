"""``mgw agents``: look at agents, create and change them, start and stop them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    admin,
    completer,
    describe,
    fail,
    hub_url,
    open_hub,
    print_json,
    say,
)
from mgw.gateway.cli.jsonform import record
from mgw.gateway.cli.watch import print_agents
from mgw.gateway.cli.words import (
    REMOVES,
    AgentName,
    Json,
    Options,
    PasswordFile,
    described,
    pairs,
    secret,
    typed_password,
)
from mgw.gateway.services.attributes import AGENT_ATTRIBUTES

__all__ = ["app"]

EncryptedOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE",
        help="Store an option encrypted. Its value is read from FILE, never from the command line; --option NAME= "
        "removes it.",
    ),
]

NewPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File whose first line is the password of --username, or of the stored user name; - for standard input. "
        "[default: the stored one]",
    ),
]
FirstPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File whose first line is the password of --username; - for standard input. [default: asks]",
    ),
]

app = typer.Typer(help="Agents: processes that run jobs.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Agents and their status."""
    from mgw.gateway.services.health import read_agents

    with open_hub(hub_url(ctx)) as hub:
        agents = read_agents(hub)
    if as_json:
        print_json([record(row) for row in agents])
    else:
        print_agents(agents)


@app.command("show")
def show(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT", as_json: Json = False) -> None:
    """One agent with its options; no_effect names settings that are stored but have no effect."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.options import agent_view

    with admin(ctx) as procedures:
        values = agent_view(procedures, lookup.agent(procedures, name))
    print_json(values) if as_json else describe(values | {"no_effect": ", ".join(values["no_effect"])})


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="AGENT")],
    *,
    username: Annotated[str | None, described(AGENT_ATTRIBUTES["username"])] = None,
    password_file: FirstPasswordFile = None,
    database: Annotated[str | None, described(AGENT_ATTRIBUTES["database"])] = None,
    conntype: Annotated[str, described(AGENT_ATTRIBUTES["conntype"])] = "JDBC_OCI",
    service: Annotated[str | None, described(AGENT_ATTRIBUTES["service"])] = None,
    max_threads: Annotated[int | None, described(AGENT_ATTRIBUTES["max_threads"])] = None,
    max_memory: Annotated[int | None, described(AGENT_ATTRIBUTES["max_memory"])] = None,
    initfile: Annotated[str | None, described(AGENT_ATTRIBUTES["initfile"])] = None,
    comment: Annotated[str | None, described(AGENT_ATTRIBUTES["comment"])] = None,
    option: Options = None,
    encrypted_option: EncryptedOptions = None,
) -> None:
    """Define an agent; 'mgw run --agent AGENT' runs it."""
    options, encrypted = pairs(option, "--option"), _from_files(encrypted_option)
    password = typed_password(password_file) if username or password_file is not None else None
    with admin(ctx) as procedures:
        procedures.create_agent(
            name,
            username or None,
            password,
            database or None,
            conntype,
            service=service or None,
            max_threads=max_threads,
            max_memory=max_memory,
            initfile=initfile or None,
            comment=comment or None,
            options=options,
            encrypted_options=encrypted,
        )
    say(f"agent {name} created")


@app.command("alter")
def alter(
    ctx: typer.Context,
    name: AgentName = "DEFAULT_AGENT",
    *,
    username: Annotated[str | None, described(AGENT_ATTRIBUTES["username"])] = None,
    password_file: NewPasswordFile = None,
    database: Annotated[str | None, described(AGENT_ATTRIBUTES["database"], more=REMOVES)] = None,
    conntype: Annotated[str | None, described(AGENT_ATTRIBUTES["conntype"])] = None,
    service: Annotated[str | None, described(AGENT_ATTRIBUTES["service"], more=REMOVES)] = None,
    max_threads: Annotated[int | None, described(AGENT_ATTRIBUTES["max_threads"])] = None,
    max_memory: Annotated[int | None, described(AGENT_ATTRIBUTES["max_memory"])] = None,
    initfile: Annotated[str | None, described(AGENT_ATTRIBUTES["initfile"], more=REMOVES)] = None,
    comment: Annotated[str | None, described(AGENT_ATTRIBUTES["comment"], more=REMOVES)] = None,
    option: Options = None,
    encrypted_option: EncryptedOptions = None,
) -> None:
    """Change an agent; takes effect at its next start. Its login is removed with 'mgw agents remove-login'."""
    from mgw.gateway.services.admin import NO_CHANGE
    from mgw.gateway.services.lookup import agent

    options, encrypted = pairs(option, "--option"), _from_files(encrypted_option)
    password = NO_CHANGE if password_file is None else typed_password(password_file)
    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.alter_agent(
            name,
            _text(username),
            password,
            _text(database),
            NO_CHANGE if conntype is None else conntype,
            service=_text(service),
            max_threads=max_threads,
            max_memory=max_memory,
            initfile=_text(initfile),
            comment=_text(comment),
            options=options,
            encrypted_options=encrypted,
        )
    say(f"agent {name} altered")


@app.command("db-connect-info")
def db_connect_info(
    ctx: typer.Context,
    username: Annotated[str, typer.Argument(metavar="USERNAME", help="Database user.")],
    *,
    password_file: PasswordFile = None,
    database: Annotated[
        str | None, described(AGENT_ATTRIBUTES["database"], more="Left out, the stored one is removed.")
    ] = None,
) -> None:
    """Set the login of DEFAULT_AGENT, which has no effect (DB_CONNECT_INFO, deprecated: 'mgw agents alter' does it for
    any agent).
    """
    password = typed_password(password_file)
    with admin(ctx) as procedures:
        procedures.db_connect_info(username, password, database or None)
    say("agent DEFAULT_AGENT altered")


@app.command("remove-login")
def remove_login(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Remove user name, password and database of an agent, which have no effect."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.remove_agent_login(name)
    say(f"login of agent {name} removed")


@app.command("startup")
def startup(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Schedule an agent; a running 'mgw run' starts it."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.startup(name)
    say(f"agent {name} scheduled")


@app.command("shutdown")
def shutdown(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Ask an agent to stop after the work in flight."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.shutdown(name)
    say(f"agent {name} shuts down")


@app.command("ping")
def ping(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT", as_json: Json = False) -> None:
    """Ask the process of an agent whether it answers, for at most 5 seconds; exit 1 unless it does."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        answer = procedures.ping_agent(name)
        status = str(procedures.agent_state(name).status)
    if as_json:
        print_json({"agent": name, "status": status, "ping": answer})
    else:
        say(f"agent {name} is {status}: {answer or 'not pinged, no process is expected'}")
    if answer != "REACHABLE":
        raise typer.Exit(EXIT_FAILED)


@app.command("log-level")
def log_level(
    ctx: typer.Context,
    level: Annotated[int, typer.Argument(help="0 basic to 4 everything.")],
    name: AgentName = "DEFAULT_AGENT",
) -> None:
    """Set the log level of a running agent until it stops."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.set_log_level(level, name)
    say(f"agent {name} logs at level {level}")


@app.command("clean")
def clean(ctx: typer.Context, name: AgentName = "DEFAULT_AGENT") -> None:
    """Put an agent that died or is BROKEN back to NOT_STARTED."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.clean_startup_state(name)
    say(f"agent {name} cleaned")


@app.command("cleanup")
def cleanup(
    ctx: typer.Context,
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION",
            help="RESET_SUB_MISSING_MESSAGE after error 415, RESET_SUB_MISSING_LOG_REC after 416 and 417; "
            "CLEAN_LOG_QUEUES removes obsolete log records, without JOB.",
        ),
    ],
    job: Annotated[str | None, typer.Argument(metavar="JOB", autocompletion=completer("jobs"))] = None,
    agent: Annotated[
        str,
        typer.Option("--agent", "-a", help="Agent of the job; it must be running.", autocompletion=completer("agents")),
    ] = "DEFAULT_AGENT",
) -> None:
    """Let a job continue whose messages or log records are missing; they are accepted as lost."""
    from mgw.gateway.services.exception_desk import give_up

    with admin(ctx) as procedures:
        job = give_up(procedures, action, job, agent)
    say(f"{action.upper()} done" + (f" for job {job}" if job else ""))


@app.command("remove")
def remove(ctx: typer.Context, name: AgentName) -> None:
    """Remove an agent that is stopped and has no links."""
    from mgw.gateway.services.lookup import agent

    with admin(ctx) as procedures:
        name = agent(procedures, name).name
        procedures.remove_agent(name)
    say(f"agent {name} removed")


def _text(value: str | None) -> Any:
    """A text as a procedure that alters takes it: what is left out keeps its value, an empty one removes it."""
    from mgw.gateway.services.admin import NO_CHANGE

    return NO_CHANGE if value is None else value or None


def _from_files(words: list[str] | None) -> dict[str, str]:
    """What ``--encrypted-option`` says: names, and what their files hold."""
    files = pairs(words, "--encrypted-option")
    if bare := [name for name, file in files.items() if file is None]:
        fail(f"--encrypted-option {bare[0]} names no file; to remove it: --option {bare[0]}=", EXIT_USAGE)
    return {name: secret(Path(file)) for name, file in files.items() if file is not None}
