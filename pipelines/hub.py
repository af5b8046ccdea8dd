"""The hub as the pipelines use it: the gateway's, with the pipelines' own tables and views next to it."""

from __future__ import annotations

from mgw.gateway.aq import Hub, SchemaPart
from mgw.gateway.state import gateway_hub
from mgw.pipelines.tables.flow import PART as FLOW_PART
from mgw.pipelines.tables.sink import PART as SINK_PART
from mgw.pipelines.tables.stream import STREAM_PART
from mgw.transforms.errors import HubError, HubVersionMismatch

__all__ = ["PARTS", "open_hub"]

#: Tables and views of the pipelines; they are made in a hub when the first pipeline opens it.
PARTS: list[SchemaPart] = [SINK_PART, STREAM_PART, FLOW_PART]


def open_hub(url: str) -> Hub:
    """Open an existing hub, and add the pipelines' tables if it has none yet.

    Args:
        url: SQLAlchemy URL, as for :meth:`mgw.gateway.aq.hub.Hub.open`.

    Raises:
        HubVersionMismatch: written by a newer release, or not a hub at all.
        HubUnavailable: cannot be reached.
        HubError: it does not exist; a pipeline makes none.
    """
    try:
        return gateway_hub.open_hub(url, parts=PARTS)
    except HubVersionMismatch:
        raise
    except HubError:
        Hub.open(url).close()  # says what is wrong where more than these tables is missing
    return gateway_hub.open_hub(url, parts=PARTS, create=True)
