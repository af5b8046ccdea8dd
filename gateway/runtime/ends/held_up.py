"""What a job without an exception queue says of a message that it can never deliver and waits with."""

from __future__ import annotations

from typing import TypeVar

from mgw.gateway.definitions.objects import JobDef
from mgw.transforms.errors import GatewayError

__all__ = ["held_up"]

_Failure = TypeVar("_Failure", bound=GatewayError)


def held_up(job: JobDef, failure: _Failure, place: str) -> _Failure:
    """The failure with the message that it is of, and the way out; the one that is given stays as it is.

    Args:
        place: what names the message at its source.
    """
    told = failure.__class__.__new__(failure.__class__)
    told.__dict__.update(failure.__dict__)
    named = place.partition(" ")[0].removeprefix("AQMSGID:").lower() in failure.what.lower()
    told.what = failure.what if named else f"message {place}: {failure.what}"
    _, at, link = job.source.rpartition("@")
    way = f"mgw jobs alter {job.name} --exception-queue QUEUE{at}{link if at else ''}"
    told.cure = f"{failure.cure}; or have the job put such messages aside: {way}"
    told.args = (told.what,)
    return told
