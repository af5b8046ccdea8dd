"""The options of a job and its poll interval."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from gateway.admin.base import Ora, refused
from gateway.admin.links import stored_option
from gateway.model import JobDef
from links.contract import Field, LinkSpec
from links.options import parse_value
from transforms.errors import AdminError, ConfigInvalid

__all__ = ["JOB_OPTIONS", "MAX_POLL_INTERVAL", "MIN_POLL_INTERVAL", "check_poll_interval", "job_options"]

MIN_POLL_INTERVAL = 0.1  # seconds
MAX_POLL_INTERVAL = 60.0

#: Options of every job, beside the job options of its link's type.
JOB_OPTIONS = (
    Field(
        "MsgBatchSize",
        "Messages moved together at most.",
        int,
        30,
        dynamic=True,
        minimum=1,
        maximum=10000,
    ),
    Field(
        "PreserveMessageID",
        "TRUE: the message id of the source travels in a field of the destination.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "AQ_MsgProperties",
        "TRUE: AQ message properties without a field of their own travel as headers MGW_AQ_*.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_forever",
        "TRUE: failures never make the job FAILED; after the 15th that counts it is tried again every 30 minutes.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_policy",
        "What makes a job FAILED. standard: 16 failures in a row that a message or the configuration makes, while a "
        "broker or hub that cannot be reached never does. documented: 16 failures of any kind.",
        str,
        "standard",
        dynamic=True,
        choices=("standard", "documented"),
    ),
    Field(
        "discard_unrouted",
        "TRUE: an inbound message that no subscriber wants is dropped and counted; FALSE: it is a failure.",
        bool,
        False,
        dynamic=True,
    ),
)


def check_poll_interval(job_name: str, seconds: float | None) -> float | None:
    """The poll interval in seconds, or None for the default.

    Raises:
        AdminError: ORA-32843.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not _in_range(seconds):
        raise AdminError(
            f"job {job_name}: poll_interval cannot be {seconds!r}",
            number=Ora.OUT_OF_RANGE,
            cause=f"it is {MIN_POLL_INTERVAL:g} to {MAX_POLL_INTERVAL:g} seconds",
            cure="choose a value in that range",
        )
    return float(seconds)


def _in_range(seconds: float) -> bool:
    return MIN_POLL_INTERVAL <= seconds <= MAX_POLL_INTERVAL


def job_options(
    job: JobDef, spec: LinkSpec, given: Mapping[str, Any] | None, before: Mapping[str, str]
) -> dict[str, str]:
    """The options to store, names in lower case, values as text: ``given`` merged into ``before``.

    Raises:
        AdminError: ORA-32840 unknown name; ORA-32841 bad value; ORA-32842 not alterable.
    """
    fields = {field.name.lower(): field for field in (*JOB_OPTIONS, *spec.job_options)}
    result = dict(before)
    for name, value in (given or {}).items():
        if name == "*" and value is None:
            result.clear()
            continue
        field = fields.get(name.lower())
        if field is None:
            near = difflib.get_close_matches(name.lower(), fields, n=1)
            hint = f"did you mean {fields[near[0]].name}?" if near else f"use one of {_names(fields)}"
            raise AdminError(
                f"job {job.name}: option {name!r} is unknown",
                number=Ora.OPTION_UNKNOWN,
                cause=f"jobs on a {spec.title} link have no such option",
                cure=hint,
            )
        lower = field.name.lower()
        if value is None:
            result.pop(lower, None)
            continue
        try:
            result[lower] = stored_option(parse_value(field, value, f"job {job.name}"))
        except ConfigInvalid as error:
            raise refused(error, Ora.OPTION_INVALID) from error
    if job.id:
        for lower, field in fields.items():
            if not field.alterable and result.get(lower) != before.get(lower):
                raise AdminError(
                    f"job {job.name}: option {field.name} cannot be altered",
                    number=Ora.OPTION_NOT_ALTERABLE,
                    cause="it is fixed when the job is created",
                    cure="remove the job and create it again",
                )
    return result


def _names(fields: Mapping[str, Field]) -> str:
    return ", ".join(field.name for field in fields.values())
