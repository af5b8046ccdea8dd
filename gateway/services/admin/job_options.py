"""The options of a job and its poll interval."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from mgw.gateway.definitions.attributes import JOB_ATTRIBUTES
from mgw.gateway.definitions.job_options import JOB_OPTIONS, check_batch_limit
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.services.admin.base import Ora, refused
from mgw.gateway.services.admin.links import stored_option
from mgw.links.contract import Field, LinkSpec
from mgw.links.options import parse_value
from mgw.transforms.errors import AdminError, ConfigInvalid

__all__ = ["MAX_POLL_INTERVAL", "MIN_POLL_INTERVAL", "check_poll_interval", "job_options"]

_POLL_INTERVAL = JOB_ATTRIBUTES["poll_interval"]
MIN_POLL_INTERVAL, MAX_POLL_INTERVAL = _POLL_INTERVAL.minimum or 0, _POLL_INTERVAL.maximum or 0  # seconds


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
    job: JobDef, specs: Sequence[LinkSpec], given: Mapping[str, Any] | None, before: Mapping[str, str]
) -> dict[str, str]:
    """The options to store, names in lower case, values as text: ``given`` merged into ``before``.

    Raises:
        AdminError: ORA-32840 unknown name; ORA-32841 bad value, or one that does not go with another; ORA-32842 not
            alterable.
    """
    fields = {
        field.name.lower(): field for field in (*JOB_OPTIONS, *(each for spec in specs for each in spec.job_options))
    }
    titles = list(dict.fromkeys(spec.title for spec in specs))
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
                cause=f"jobs on a {' or '.join(titles)} link have no such option"
                if titles
                else "jobs have no such option",
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
    try:
        check_batch_limit(job.name, result)
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
