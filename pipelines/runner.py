"""Runs a pipeline: session, signals, one process at a time, errors that people can read."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Final

from mgw.pipelines.config import Pipeline
from mgw.pipelines.errors import PipelineFailed, explained
from mgw.pipelines.registry import Context
from mgw.pipelines.session import chosen_master, make_session
from mgw.pipelines.workers import is_local
from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.open_files import raise_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_reach", "make_context", "run_pipeline"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def make_context(pipeline: Pipeline, hub: str) -> Context:
    """What the pipeline's job is given."""
    folder = pipeline.file.checkpoints.rstrip("/") or "/"
    if "://" not in folder and not folder.startswith("file:"):
        folder = str(Path(folder).absolute())
    return Context(pipeline.name, hub, f"{folder}/{pipeline.name}")


def check_reach(pipeline: Pipeline, hub: str, master: str) -> None:
    """Refuse a hub that executors on other machines cannot reach.

    Raises:
        ConfigInvalid: the hub is a file, and the master is elsewhere.
    """
    if hub.startswith("sqlite") and not is_local(master) and pipeline.job.uses_hub(pipeline.settings):
        raise ConfigInvalid(
            f"pipeline {pipeline.name} cannot use a SQLite hub on {master}",
            cause="the executors run on other machines and cannot reach the file",
            cure="keep the hub in PostgreSQL, or run the pipeline with spark.master: local[*]",
        )


def run_pipeline(pipeline: Pipeline, hub: str, *, spark: SparkSession | None = None) -> int:
    """Run it to its end; the job's exit code. A session that is made here is stopped at the end.

    SIGTERM and SIGINT end streaming queries after what they are writing; a second one ends the process at once.

    Raises:
        GatewayError: whatever went wrong.
    """
    context = make_context(pipeline, hub)
    raise_limit()
    try:
        with ExitStack() as stack:
            stack.enter_context(_alone(context))
            if spark is None:
                check_reach(pipeline, hub, chosen_master(pipeline.file.spark))
                spark = make_session(pipeline.name, pipeline.file.spark, pipeline.job.needs(pipeline.settings))
                stack.callback(_stop, spark)
            stack.enter_context(_stopped_by_signals(context))  # after Spark has set a handler of its own
            return pipeline.job.run(spark, pipeline.settings, context)
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        raise explained(error, pipeline.name) from error


def _stop(spark: Any) -> None:
    """Stopping must not hide the error that ended the pipeline."""
    try:
        spark.stop()
    except Exception as error:  # the Java process is gone
        del error


@contextmanager
def _alone(context: Context) -> Iterator[None]:
    """Two processes with one checkpoint would disturb each other; where the folder is local, the second is refused."""
    if "://" in context.folder:
        yield
        return
    folder = Path(context.folder.removeprefix("file:"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock: IO[str] = (folder / ".lock").open("a+")
    except OSError as error:
        raise PipelineFailed(
            f"pipeline {context.name} cannot keep its state in {folder}",
            cause=str(error.strerror),
            cure="correct checkpoints in the configuration, or its permissions",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise PipelineFailed(
                f"pipeline {context.name} is already running",
                cause=f"process {lock.read().strip() or 'unknown'} uses {folder}",
                cure="stop it first, or give this one another name",
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


@contextmanager
def _stopped_by_signals(context: Context) -> Iterator[None]:
    """The first signal asks to stop, the second ends the process."""

    def asked(number: int, _: FrameType | None) -> None:
        if context.stopping.is_set():
            os._exit(128 + number)
        context.stopping.set()
        os.write(2, b"mgw: asked to stop; a second signal ends it at once\n")

    try:
        before = [(each, signal.signal(each, asked)) for each in _SIGNALS]
    except ValueError:  # not in the main thread: whoever runs it there handles signals
        yield
        return
    try:
        yield
    finally:
        for each, handler in before:
            signal.signal(each, handler)
