"""What an operator does with links: test, reconnect, prepare."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Operator
from mgw.gateway.http.rest.answers import AdminOf
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services import job_verbs, lookup
from mgw.gateway.services.connection_test import test_link

__all__ = ["router"]

router = APIRouter(prefix="/links", tags=["links"])


class CheckModel(BaseModel):
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str
    cure: str = Field(description="Empty where nothing is wrong.")


class Tested(BaseModel):
    """What a test of a link found."""

    ok: bool = Field(description="Whether everything works.")
    checks: list[CheckModel]


class Reconnected(BaseModel):
    """Jobs that connect again."""

    link: str
    jobs: list[str]


class Log(BaseModel):
    """A log queue or log topic at the messaging system."""

    verb: str = Field(description="`create`, `none`: it is there, and other words for what is done.")
    log: str = Field(description="Kind and name.")
    form: str = Field(description="How it is made.")
    jobs: list[str] = Field(description="The jobs whose log it is.")


class Prepared(BaseModel):
    """What was created for exactly once, or would be."""

    link: str
    settings: dict[str, str] = Field(description="Log queues that the link names from now on.")
    logs: list[Log]
    lines: list[str] = Field(description="What changes, a line each; empty: nothing.")


@router.post(f"/{NAME}/test")
def test(name: str, admin: AdminOf, _: Operator) -> Tested:
    """Connect with the settings of a link, and tell what works and what does not."""
    checks = test_link(admin, name)
    found = [CheckModel(name=each.name, ok=each.ok, detail=each.detail, cure=each.cure) for each in checks]
    return Tested(ok=all(each.ok for each in found), checks=found)


@router.post(f"/{NAME}/reconnect", status_code=202)
def reconnect(name: str, admin: AdminOf, _: Operator) -> Reconnected:
    """Have every enabled job of a link finish its batch and connect again at once."""
    link, jobs = job_verbs.reconnect(admin, name)
    return Reconnected(link=link, jobs=jobs)


@router.post(f"/{NAME}/prepare")
def prepare(
    name: str,
    admin: AdminOf,
    _: Operator,
    dry_run: Annotated[bool, Query(description="Tell what would be created, and change nothing.")] = False,
) -> Prepared:
    """Create the log queues or log topic that the jobs of a link need for exactly once."""
    done = admin.prepare_msgsystem_link(lookup.link_name(admin, name), dry_run=dry_run)
    told = done.as_json()
    logs = [Log(**each) for each in told["logs"]]
    return Prepared(link=done.link, settings=told["settings"], logs=logs, lines=done.lines)
