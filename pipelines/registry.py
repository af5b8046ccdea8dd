"""What a job is, where jobs are found, and what a job is given when it runs.

A job is a module with

* ``Settings``: a pydantic model in which unknown keys are errors (:class:`JobSettings`),
* ``transform(df[s], settings) -> df``: pure, so that it can be tested on small data frames,
* ``run(spark, settings, context) -> int``: reads, transforms, writes; its exit code,
* and, where they differ from the defaults here, ``needs(settings)``: names of connectors out of
  :data:`pipelines.session.CONNECTORS`, and ``uses_hub(settings)``: whether the executors must reach the hub (yes).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

from transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["BUILT_IN", "Context", "Followed", "Job", "JobSettings", "find_job"]

#: Name -> (module, what it does in one line).
BUILT_IN: Final = {
    "archive": ("pipelines.jobs.archive", "bridged topics and hub history to partitioned Parquet, exactly once"),
    "flow": ("pipelines.jobs.flow", "rates, latency, backlog and late messages per job and link"),
    "reconcile": ("pipelines.jobs.reconcile", "missing, doubled, altered and reordered messages between two ends"),
    "replay": ("pipelines.jobs.replay", "archived or exception messages back into a hub queue, exactly once"),
    "enrich": ("pipelines.jobs.enrich", "an example: join, aggregate, publish the result through the hub"),
}


class JobSettings(BaseModel):
    """The base of every job's settings: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Followed:
    """A running query that :meth:`Context.follow` waits for.

    Attributes:
        query: the query, started.
        checkpoint: its checkpoint folder.
        streams: names of the hub streams that it reads (option ``stream`` of the source ``mgw``): what the checkpoint
            proves to be done is settled in the hub when the query has ended.
    """

    query: StreamingQuery
    checkpoint: str
    streams: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a job is given.

    Attributes:
        name: name of the pipeline.
        hub: SQLAlchemy URL of the hub.
        folder: everything that the pipeline remembers between two runs is below it; local path or URI.
        say: one line of result, to standard output.
        log: one line of progress, to standard error.
        stopping: set when the pipeline was asked to stop (SIGTERM, SIGINT); long loops of a job's own look at it.
    """

    name: str
    hub: str
    folder: str
    say: Callable[[str], None] = field(default=lambda text: _write(sys.stdout, text))
    log: Callable[[str], None] = field(default=lambda text: _write(sys.stderr, text))
    stopping: Event = field(default_factory=Event)

    def checkpoint(self, query: str) -> str:
        """Checkpoint folder of one of the pipeline's queries."""
        return f"{self.folder.rstrip('/')}/{query}"

    def follow(self, *queries: Followed, again: Callable[[], None] | None = None, every: float = 0.0) -> None:
        """Wait until all queries have ended, or stop them when the pipeline is asked to; their progress is logged.

        Args:
            again: what else the job does, every so many seconds (``every``) until it is asked to stop.

        Raises:
            PipelineFailed: a query failed; all others are stopped then.
        """
        from pipelines.follow import follow

        follow(self, queries, again, every)


def _write(stream: Any, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


@dataclass(frozen=True, slots=True)
class Job:
    """A job that was found, with the defaults of the protocol filled in."""

    name: str
    module: ModuleType

    @property
    def settings(self) -> type[BaseModel]:
        """Model of its settings."""
        return self.module.Settings  # type: ignore[no-any-return]

    def needs(self, settings: BaseModel) -> Sequence[str]:
        """Connectors that must be there."""
        given = getattr(self.module, "needs", None)
        return tuple(given(settings)) if given is not None else ()

    def uses_hub(self, settings: BaseModel) -> bool:
        """Whether the executors must reach the hub."""
        given = getattr(self.module, "uses_hub", None)
        return bool(given(settings)) if given is not None else True

    def run(self, spark: SparkSession, settings: BaseModel, context: Context) -> int:
        """Do it; the exit code."""
        return int(self.module.run(spark, settings, context) or 0)


def find_job(name: str) -> Job:
    """The job of this name: a built-in one, or the dotted path of a module of the user's own.

    Raises:
        ConfigInvalid: there is none, it cannot be imported, or it is no job.
    """
    path = BUILT_IN[name][0] if name in BUILT_IN else name
    if "." not in path:
        from gateway.config.findings import nearest

        guess = nearest(name, BUILT_IN)
        raise ConfigInvalid(
            f"job {name!r} does not exist",
            cause=f"there are {', '.join(BUILT_IN)}",
            cure=f"did you mean {guess!r}?" if guess else "a job of your own is named by its module: company.jobs.name",
        )
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is not None and (path == error.name or path.startswith(f"{error.name}.")):
            cure = "install it where Python finds it, or put its folder into PYTHONPATH"
            raise ConfigInvalid(
                f"job {name!r} cannot be found", cause=f"there is no module {path}", cure=cure
            ) from error
        raise
    missing = [part for part in ("Settings", "run") if not hasattr(module, part)]
    if missing or not (isinstance(module.Settings, type) and issubclass(module.Settings, BaseModel)):
        raise ConfigInvalid(
            f"module {path} is no job",
            cause=f"it has no {' and no '.join(missing)}" if missing else "its Settings is no pydantic model",
            cure="see docs/how-to/spark-jobs.md, 'A job of your own'",
        )
    return Job(name, module)
