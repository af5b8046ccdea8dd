"""The configuration as a whole."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.services.configuration import export_text

__all__ = ["router"]

router = APIRouter(prefix="/config", tags=["config"])


@router.get(
    "",
    response_class=Response,
    responses={
        200: {"description": "A configuration file.", "content": {"text/yaml": {"schema": {"type": "string"}}}},
    },
)
def export(hub: HubOf, _: Viewer) -> Response:
    """What the hub holds as a configuration file, as `mgw export` prints it. Each secret is a variable."""
    return Response(export_text(hub, abroad=True), media_type="text/yaml")
