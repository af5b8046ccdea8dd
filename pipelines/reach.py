"""Whether a server is there at all: others take minutes to say that it is not."""

from __future__ import annotations

import socket
from typing import Final

from mgw.pipelines.errors import PipelineFailed

__all__ = ["check_reachable"]

_PATIENCE: Final = 5.0  # seconds until one that does not answer counts as not there


def check_reachable(what: str, places: str, cure: str) -> None:
    """Connect to the first of ``host:port,host:port`` that answers.

    Raises:
        PipelineFailed: none does.
    """
    reasons = []
    for place in places.split(","):
        host, _, port = place.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        except (OSError, ValueError) as error:
            reasons.append(f"{place.strip()}: {error}")
        else:
            return
    raise PipelineFailed(f"{what} cannot be reached", cause="; ".join(reasons), cure=cure)
