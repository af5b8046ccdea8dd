"""HTTP/1.1 as uvicorn speaks it, with the limits that it does not have: how long a request may take to arrive, how
many connections there are, and refusals in the form of all others.
"""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mgw.gateway.http import limits
from mgw.gateway.http.problems import PROBLEM_JSON, Problem
from mgw.gateway.http.shared_answers import ASKED, SharedAnswers

__all__ = ["Protocol"]

_LINGER_SECONDS = 1.0  # for a caller that was refused to close its end
CONNECTIONS = limits.REQUESTS + limits.STREAMS  # open at the same time, whether they ask for something or not


class Protocol(H11Protocol):
    """One connection."""

    _deadline: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A caller is there."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(Problem(503, f"{CONNECTIONS} connections are open", headers={"Retry-After": "1"}))
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The caller has gone."""
        self._unwatch()
        self._taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        if self._refused:
            return
        shared: SharedAnswers | None = getattr(self.app, "shared", None)
        share = shared is not None and self._between_requests and shared.may_share(data)
        if shared is not None and share:
            answer = shared.find(data, self.client[0] if self.client else "?")
            if answer is not None:
                self._answer_with(answer)
                return
        super().data_received(data)
        if share and not self._refused and self.cycle is not None and not self.cycle.response_complete:
            self.scope[ASKED] = data  # type: ignore[literal-required]
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            self._unwatch()
        elif self._deadline is None:
            self._watch()

    @property
    def _between_requests(self) -> bool:
        """Whether nothing of a request is there, and no answer is on its way."""
        return (
            self.conn.our_state is self.conn.their_state is h11.IDLE
            and not self.conn.trailing_data[0]
            and not self.transport.is_closing()
            and (self.cycle is None or self.cycle.response_complete)
            and self._untaken is None
        )

    def _answer_with(self, answer: bytes) -> None:
        """Send an answer that was made for another request of the same bytes."""
        self._unwatch()
        lines = [name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers]
        self.transport.write(b"".join((b"HTTP/1.1 200 OK\r\n", *lines, answer)))
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def on_response_complete(self) -> None:
        """A request is done with."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch()

    def pause_writing(self) -> None:
        """The caller takes the answer more slowly than it is made."""
        super().pause_writing()
        self._expect_progress(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The caller has taken the most of it."""
        self._taken()
        super().resume_writing()

    def _expect_progress(self, left: int) -> None:
        self._taken()
        self._untaken = self.loop.call_later(limits.REQUEST_SECONDS, self._look_at_progress, left)

    def _look_at_progress(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._expect_progress(left)
        else:
            self.transport.abort()  # nothing was taken for so long; what is left of the answer is let go

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def eof_received(self) -> None:
        """The caller sends no more."""
        super().eof_received()
        if self._refused:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  the error says more
        """Refuse what is no request."""
        error = sys.exc_info()[1]
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._refuse(Problem(status, f"the headers are longer than {limits.HEADER_BYTES} bytes"))
        else:
            self._refuse(Problem(400, "this is not an HTTP/1.1 request"))

    def _watch(self) -> None:
        self._unwatch()
        self._deadline = self.loop.call_later(limits.REQUEST_SECONDS, self._late)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._refuse(Problem(408, f"the request did not arrive within {limits.REQUEST_SECONDS:g} s"))

    def _refuse(self, problem: Problem) -> None:
        """Answer without the application, and end the connection; an answer that has begun is completed instead."""
        self._unwatch()
        if self._refused:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started:
                self._refused, self.cycle.keep_alive = True, False
                return
            self.cycle.disconnected = True  # what the application sends now goes nowhere
            self.cycle.message_event.set()
        body = problem.body()
        head = {
            "Content-Type": PROBLEM_JSON,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Connection": "close",
            **problem.headers,
        }
        lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self._refused = True
        # Let the caller read the answer: closing while something of it is unread would take the answer away.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def shutdown(self) -> None:
        """The server ends."""
        self._unwatch()
        super().shutdown()


def _check(base: Any = H11Protocol) -> None:
    """What is overridden is there, whatever release is installed."""
    for name in ("send_400_response", "on_response_complete", "data_received", "_unset_keepalive_if_required"):
        assert hasattr(base, name), name  # noqa: S101


_check()
