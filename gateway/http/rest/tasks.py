"""Work that goes on after the request that began it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.tasks import Task, Tasks

__all__ = ["TaskModel", "router", "task_model"]

router = APIRouter(prefix="/tasks", tags=["tasks"])

_STOP_SECONDS = 2.0
_TOLD = 100  # messages whose refusal is told one by one

TaskPath = Annotated[str, Path(alias="task", max_length=40, description="As the answer that began it names it.")]


class TaskModel(BaseModel):
    """Some work on messages of an exception queue. It ends with the process; what it has not reached stays."""

    id: str = Field(description="Names it in `/tasks/{task}`.")
    kind: Literal["replay", "discard"] = Field(description="What it does.")
    object: str = Field(description="The job.")
    by: str = Field(description="Who began it.")
    state: Literal["RUNNING", "DONE", "STOPPED", "FAILED"] = Field(
        description="STOPPED: by somebody, or by an error after some of it was done. FAILED: nothing was done."
    )
    started: datetime = Field(description="When it began.")
    ended: datetime | None = Field(description="When it ended; null: it runs.")
    target: str = Field(description="Where messages are put.")
    done: int = Field(description="Messages that are done.")
    gone: int = Field(description="Messages that somebody else took, or holds.")
    failed: int = Field(description="Messages that stay, because they were refused.")
    refusals: dict[str, str] = Field(description=f"Why, by id; the first {_TOLD}.")
    error: str = Field(description="Why it ended early.")


def task_model(task: Task) -> TaskModel:
    """A task as it is now."""
    outcome = task.outcome
    failed = dict(outcome.failed)  # a copy: the task goes on
    return TaskModel(
        id=task.id,
        kind=task.kind,  # type: ignore[arg-type]
        object=task.object,
        by=task.by,
        state=task.state.value,
        started=moment(task.started),
        ended=moment(task.ended),
        target=outcome.target,
        done=len(outcome.done),
        gone=len(outcome.gone),
        failed=len(failed),
        refusals=dict(list(failed.items())[:_TOLD]),
        error=task.error,
    )


def _tasks(request: Request) -> Tasks:
    found: Tasks = request.app.state.tasks
    return found


@router.get("")
def list_tasks(request: Request, _: Viewer) -> list[TaskModel]:
    """The tasks of this process that run, and the last that ended; the latest first."""
    return [task_model(each) for each in _tasks(request).listed()]


@router.get("/{task}")
def show_task(task: TaskPath, request: Request, _: Viewer) -> TaskModel:
    """How far a task is."""
    return task_model(_tasks(request).get(task))


@router.delete("/{task}")
def stop_task(task: TaskPath, request: Request, _: Operator) -> TaskModel:
    """Stop a task after the batch that is under way. What it has not reached stays where it is."""
    return task_model(_tasks(request).stop(task, _STOP_SECONDS))
