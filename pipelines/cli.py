"""``mgw pipeline``: run jobs on Spark, and look after the streams that they read from the hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli.common import DEFAULT_HUB, EXIT_CONFIG, hub_url, print_json, print_table, say
from mgw.gateway.cli.jsonform import record

if TYPE_CHECKING:
    from mgw.pipelines.config import Pipeline

__all__ = ["app", "run"]

app = typer.Typer(
    name="pipeline",
    help="Run jobs on Spark: archive, measure and reconcile what was bridged, and jobs of your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def run(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="Name of the pipeline; also the name of its job, unless the file says otherwise.")
    ],
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="Its configuration. [default: conf/pipelines/NAME.yaml, without it the one that comes with mgw]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, start nothing.")] = False,
) -> None:
    """Run a pipeline to its end, or an endless stream until SIGTERM."""
    from mgw.pipelines.config import PipelineInvalid, default_file, read_pipeline
    from mgw.pipelines.errors import missing_extra

    given = ctx.find_root().params.get("hub")
    try:
        environ = os.environ | ({"MGW_HUB": str(given)} if given else {})
        path = config or default_file(name)
        pipeline = read_pipeline(name, path, environ)
        hub = hub_url(ctx, pipeline.file.hub)
        if dry_run:
            _describe(pipeline, hub, path)
            return
        from mgw.pipelines.runner import run_pipeline

        code = run_pipeline(pipeline, hub)
    except PipelineInvalid as problem:
        from mgw.gateway.state.secrets import redact

        for finding in problem.findings:
            sys.stderr.write(f"{redact(str(finding))}\n")
        raise typer.Exit(EXIT_CONFIG) from problem
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    raise typer.Exit(code)


def _describe(pipeline: Pipeline, hub: str, path: Path) -> None:
    """What would be done, as the configuration says it with all defaults."""
    import pyspark

    from mgw.gateway.state.secrets import redact
    from mgw.pipelines.runner import check_reach, make_context
    from mgw.pipelines.session import needed_packages

    spark, needs = pipeline.file.spark, pipeline.job.needs(pipeline.settings)
    check_reach(pipeline, hub, spark.master)
    context = make_context(pipeline, hub)
    say(f"pipeline     {pipeline.name}")
    say(f"file         {path}")
    say(f"job          {pipeline.job.name} ({pipeline.job.module.__name__})")
    if pipeline.job.uses_hub(pipeline.settings):
        say(f"hub          {redact(hub)}")
    say(f"master       {spark.master}")
    say(f"checkpoints  {context.folder}")
    for package in needed_packages(spark, needs, pyspark.__version__):
        say(f"package      {package}")
    say("settings")
    for line in _lines(pipeline.settings.model_dump(mode="json"), 2):
        say(redact(line))


def _lines(value: Any, indent: int) -> list[str]:
    """Plain data as YAML of the simplest kind."""
    import json

    pad = " " * indent
    found: list[str] = []
    items = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    for key, each in items:
        head = f"{pad}{key}:" if key is not None else f"{pad}-"
        if isinstance(each, dict | list) and each:
            found += [head, *_lines(each, indent + 2)]
        else:
            found.append(f"{head} {json.dumps(each, ensure_ascii=False)}")
    return found


@app.command("list")
def list_jobs(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The jobs that come with mgw."""
    from mgw.pipelines.registry import BUILT_IN

    if as_json:
        print_json({name: text for name, (_, text) in BUILT_IN.items()})
        return
    print_table({"JOB": "left", "WHAT IT DOES": "fold"}, [(name, text) for name, (_, text) in BUILT_IN.items()])


@app.command()
def streams(
    ctx: typer.Context, *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """The streams that pipelines read from hub queues, and the messages that are not consumed yet."""
    from mgw.pipelines.source.streams import list_streams

    found = list_streams(hub_url(ctx))
    if as_json:
        print_json([record(each) for each in found])
    elif found:
        names = ("stream_name", "queue_name", "consumer_name", "allocated", "settled", "waiting", "last_time")
        columns = {"STREAM": "fold", "QUEUE": "fold", "CONSUMER": "fold", "ALLOCATED": "right", "SETTLED": "right"}
        columns |= {"WAITING": "right", "LAST (UTC)": "left"}
        print_table(columns, [[each[name] for name in names] for each in found])
    else:
        say("no stream reads a queue of this hub")


@app.command()
def release(
    ctx: typer.Context,
    stream: Annotated[str, typer.Argument(help="The stream.")],
) -> None:
    """Return the unconsumed messages of a stream to its queue, and remove the stream. Stop its pipeline first."""
    from mgw.pipelines.source.streams import release as give_back

    count = give_back(hub_url(ctx), stream)
    say(f"stream {stream} is gone; {count:,} messages are back in their queue")


def submitted() -> typer.Typer:
    """The program behind ``python -m pipelines`` and spark-submit: the command ``run`` with ``--hub``."""
    program = typer.Typer(name="pipelines", rich_markup_mode=None, pretty_exceptions_enable=False)

    @program.callback()
    def options(
        hub: Annotated[
            str | None, typer.Option("--hub", metavar="URL", help=f"Hub database. [default: {DEFAULT_HUB}]")
        ] = None,
    ) -> None:
        """Run a pipeline."""

    program.command()(run)
    return program
