"""Requests and answers whose JSON keeps every digit: a body of a message is not to change on its way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from mgw.gateway.services.message_json import json_text, read_json

__all__ = ["ExactRoute", "exactly"]


class _ExactRequest(Request):
    async def json(self) -> Any:
        """The body; numbers keep their digits, and NaN is not JSON."""
        return read_json(await self.body())


class ExactRoute(APIRoute):
    """A route whose bodies are read so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handle = super().get_route_handler()

        async def exact(request: Request) -> Response:
            return await handle(_ExactRequest(request.scope, request.receive))

        return exact


def exactly(answer: BaseModel, status: int = 200) -> Response:
    """An answer that is written so."""
    return Response(json_text(answer.model_dump()), status, media_type="application/json")
