"""``mgw jobs``: make jobs, look at them, switch them on and off, change and remove them."""

from __future__ import annotations

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
from mgw.gateway.cli.history import history
from mgw.gateway.cli.jsonform import job as job_form
from mgw.gateway.cli.watch import print_jobs
from mgw.gateway.cli.words import (
    REMOVES,
    DropMessages,
    Force,
    JobName,
    Json,
    MoveTo,
    Options,
    check_fate,
    described,
    pairs,
    what_became,
)
from mgw.gateway.services.attributes import JOB_ATTRIBUTES

__all__ = ["app"]

ENDS, KNOWN = completer("foreign_queues", "queues"), completer("transformations")
OptionalJob = Annotated[str | None, typer.Argument(metavar="[JOB]", autocompletion=completer("jobs"))]

app = typer.Typer(help="Jobs: from one source to one destination.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Jobs with their state and counters."""
    from mgw.gateway.services.health import read

    with open_hub(hub_url(ctx)) as hub:
        state = read(hub)
    if as_json:
        print_json([job_form(row, state.link_types.get(row.link_name or "")) for row in state.jobs])
    else:
        print_jobs(state)


@app.command("show")
def show(ctx: typer.Context, name: JobName, as_json: Json = False) -> None:
    """One job: settings, state, counters, guarantee, last error."""
    from dataclasses import asdict

    from mgw.gateway.services import health, lookup

    with open_hub(hub_url(ctx)) as hub:
        row = lookup.job_row(hub, name)
        link = health.link_of(hub, row)
    print_json(job_form(row, link.link_type if link else None)) if as_json else describe(asdict(row))


app.command("history")(history)


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="JOB")],
    propagation_type: Annotated[str, described(JOB_ATTRIBUTES["type"], "--type", "-t")],
    source: Annotated[str, described(JOB_ATTRIBUTES["source"], known=ENDS)],
    destination: Annotated[str, described(JOB_ATTRIBUTES["destination"], known=ENDS)],
    *,
    rule: Annotated[str | None, described(JOB_ATTRIBUTES["rule"])] = None,
    transformation: Annotated[str | None, described(JOB_ATTRIBUTES["transformation"], known=KNOWN)] = None,
    exception_queue: Annotated[str | None, described(JOB_ATTRIBUTES["exception_queue"], known=ENDS)] = None,
    poll_interval: Annotated[float | None, described(JOB_ATTRIBUTES["poll_interval"])] = None,
    batch_size: Annotated[int | None, described(JOB_ATTRIBUTES["batch_size"])] = None,
    option: Options = None,
    require_guarantee: Annotated[str | None, described(JOB_ATTRIBUTES["require_guarantee"])] = None,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Create it disabled: it moves nothing until it is enabled.")
    ] = False,
    comment: Annotated[str | None, described(JOB_ATTRIBUTES["comment"])] = None,
) -> None:
    """Define a job; it begins to work at once, unless it is disabled."""
    options = pairs(option, "--option")
    if batch_size is not None:
        options["MsgBatchSize"] = str(batch_size)
    with admin(ctx) as procedures:
        procedures.create_job(
            name,
            propagation_type,
            source,
            destination,
            rule,
            transformation,
            exception_queue,
            poll_interval,
            options,
            enabled=not disabled,
            comments=comment or None,
            require_guarantee=require_guarantee,
        )
    say(f"job {name} created")


@app.command("enable")
def enable(ctx: typer.Context, name: JobName) -> None:
    """Let a job move messages."""
    from mgw.gateway.services.lookup import job

    with admin(ctx) as procedures:
        name = job(procedures, name).name
        procedures.enable_job(name)
    say(f"job {name} enabled")


@app.command("disable")
def disable(ctx: typer.Context, name: JobName) -> None:
    """Stop a job; its subscription keeps collecting."""
    from mgw.gateway.services.lookup import job

    with admin(ctx) as procedures:
        name = job(procedures, name).name
        procedures.disable_job(name)
    say(f"job {name} disabled")


@app.command("reset")
def reset(
    ctx: typer.Context,
    name: OptionalJob = None,
    everything: Annotated[bool, typer.Option("--all", help="Every job that is RETRY or FAILED.")] = False,
) -> None:
    """Clear the failures of a job, and retry at once."""
    from mgw.gateway.services.exception_desk import retry
    from mgw.gateway.services.job_verbs import reset_all

    if everything is (name is not None):
        fail("give either JOB or --all", EXIT_USAGE)
    with admin(ctx) as procedures:
        names = reset_all(procedures) if name is None else [retry(procedures, name)]
    for each in names:
        say(f"job {each} reset")
    if not names:
        say("no job is RETRY or FAILED")


@app.command("restart")
def restart(ctx: typer.Context, name: JobName) -> None:
    """Finish the current batch, disconnect, and connect again at once."""
    from mgw.gateway.services import job_verbs

    with admin(ctx) as procedures:
        name = job_verbs.restart(procedures, name)
    say(f"job {name} restarts")


@app.command("pause")
def pause(ctx: typer.Context, name: JobName) -> None:
    """Stop a job after its current batch; new messages wait. The same as disable."""
    from mgw.gateway.services import job_verbs

    with admin(ctx) as procedures:
        name = job_verbs.pause(procedures, name)
    say(f"job {name} paused")


@app.command("resume")
def resume(ctx: typer.Context, name: JobName) -> None:
    """Let a paused job continue. The same as enable."""
    from mgw.gateway.services import job_verbs

    with admin(ctx) as procedures:
        name = job_verbs.resume(procedures, name)
    say(f"job {name} resumed")


@app.command("drain")
def drain(
    ctx: typer.Context,
    name: JobName,
    timeout: Annotated[float, typer.Option(min=0, help="Longest wait, seconds.")] = 60,
) -> None:
    """Wait until nothing waits for a job, then pause it. Exit 1 when something was left after the timeout."""
    from mgw.gateway.services import job_verbs

    with admin(ctx) as procedures:
        done = job_verbs.drain(procedures, name, timeout)
    if done.empty:
        say(f"job {done.job} drained and paused")
        return
    left = "the number of waiting messages is not known" if done.left is None else f"{done.left} messages wait"
    reason = f": {done.error}" if done.error else ""
    say(f"job {done.job} paused after {timeout:g} s: {left}, it was {done.state}{reason}")
    raise typer.Exit(EXIT_FAILED)


@app.command("alter")
def alter(
    ctx: typer.Context,
    name: JobName,
    *,
    rule: Annotated[str | None, described(JOB_ATTRIBUTES["rule"], more=REMOVES)] = None,
    transformation: Annotated[
        str | None, described(JOB_ATTRIBUTES["transformation"], more=REMOVES, known=KNOWN)
    ] = None,
    exception_queue: Annotated[
        str | None, described(JOB_ATTRIBUTES["exception_queue"], more=REMOVES, known=ENDS)
    ] = None,
    poll_interval: Annotated[
        float | None, described(JOB_ATTRIBUTES["poll_interval"], more="0 restores the default.")
    ] = None,
    batch_size: Annotated[int | None, described(JOB_ATTRIBUTES["batch_size"])] = None,
    option: Options = None,
    require_guarantee: Annotated[str | None, described(JOB_ATTRIBUTES["require_guarantee"], more=REMOVES)] = None,
    comment: Annotated[str | None, described(JOB_ATTRIBUTES["comment"], more=REMOVES)] = None,
) -> None:
    """Change a job while it runs."""
    from mgw.gateway.services.admin import NO_CHANGE
    from mgw.gateway.services.lookup import job

    def text(value: str | None) -> Any:
        return NO_CHANGE if value is None else value or None

    options = pairs(option, "--option")
    if batch_size is not None:
        options["MsgBatchSize"] = str(batch_size)
    with admin(ctx) as procedures:
        name = job(procedures, name).name
        procedures.alter_job(
            name,
            rule=text(rule),
            transformation=text(transformation),
            exception_queue=text(exception_queue),
            poll_interval=0 if poll_interval is None else poll_interval or None,
            options=options or None,
            comments=text(comment),
            require_guarantee=text(require_guarantee),
        )
    say(f"job {name} altered")


@app.command("remove")
def remove(
    ctx: typer.Context,
    name: JobName,
    *,
    force: Force = False,
    move_to: MoveTo = None,
    drop_messages: DropMessages = False,
) -> None:
    """Remove a job and its subscription. If messages wait for it, give --move-to, --drop-messages or --force."""
    from mgw.gateway.services.lookup import job, queue

    check_fate(force=force, move_to=move_to, drop_messages=drop_messages)
    with admin(ctx) as procedures:
        name = job(procedures, name).name
        target = None if move_to is None else queue(procedures.hub, move_to)
        held = procedures.held_for_job(name)
        gone = procedures.remove_job(name, force=force, move_to=target, drop_messages=drop_messages)
        told = what_became(held, force=force or drop_messages, moved_to=target, now=procedures.clock.now())
    say(f"job {name} " + ("removed" if gone else "is marked for removal; its agent finishes it") + told)
