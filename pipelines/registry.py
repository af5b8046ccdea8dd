"""What a job is, where jobs are found, and what a job is given when it runs.

A job is a module with

* ``Settings``: a pydantic model in which unknown keys are errors (:class:`JobSettings`),
* ``transform(df[s], settings) -> df``: pure, so that it can be tested on small data frames,
* ``run(spark, settings, context) -> int``: reads, transforms, writes; its exit code,
* and, where they differ from the defaults here, ``needs(settings)``: names of connectors out of
  :data:`mgw.pipelines.session.CONNECTORS`, and ``uses_hub(settings)``: whether the executors must reach the hub (yes).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from mgw.pipelines.context import Context, Followed
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BUILT_IN", "Context", "Followed", "Job", "JobSettings", "find_job"]

#: Name -> (module, what it does in one line).
BUILT_IN: Final = {
    "archive": ("mgw.pipelines.jobs.archive", "bridged topics and hub history to partitioned Parquet, exactly once"),
    "flow": ("mgw.pipelines.jobs.flow", "rates, latency, backlog and late messages per job and link"),
    "reconcile": ("mgw.pipelines.jobs.reconcile", "missing, doubled, altered and reordered messages between two ends"),
    "replay": ("mgw.pipelines.jobs.replay", "archived or exception messages back into a hub queue, exactly once"),
    "enrich": ("mgw.pipelines.jobs.enrich", "an example: join, aggregate, publish the result through the hub"),
}


class JobSettings(BaseModel):
    """The base of every job's settings: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
        ConfigInvalid: there is none, it cannot be imported, or it is not a job.
    """
    path = BUILT_IN[name][0] if name in BUILT_IN else name
    if "." not in path:
        from mgw.gateway.config.findings import nearest

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
            f"module {path} is not a job",
            cause=f"it has no {' and no '.join(missing)}" if missing else "its Settings is not a pydantic model",
            cure="see docs/how-to/spark-jobs.md, 'A job of your own'",
        )
    return Job(name, module)
