"""Answers about health that a crowd shares.

While requests take more than their share of the processor, whoever asks the same, with the same headers, within a
second gets the same answer, and nothing looks at the request again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from mgw.gateway.http.budget import Budget
from mgw.gateway.http.pages import PAGES

__all__ = ["ASKED", "SharedAnswers"]

#: The key of a scope for the bytes of a request whose answer may be shared.
ASKED = "mgw.asked"

_SECONDS = 1.0  # for which an answer serves
_ANSWERS = 100  # that are kept
_STARTS = tuple(f"GET {path}{end}".encode() for path in PAGES for end in "? ")
#: What tells that the bytes are not the whole of a request, or that the connection ends with it.
_OTHERWISE = (b"\r\ncontent-length:", b"\r\ntransfer-encoding:", b"\r\nconnection:", b"\r\nexpect:", b"\r\nupgrade:")

Pair = tuple[bytes, bytes]


class SharedAnswers:
    """Used by the thread of the event loop.

    Args:
        rate: takes a request of a caller; 0: it may be answered.
    """

    def __init__(
        self, budget: Budget, rate: Callable[[str], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._budget, self._rate, self._clock = budget, rate, clock
        self._kept: dict[bytes, tuple[float, str | None, bytes]] = {}

    def may_share(self, data: bytes) -> bool:
        """Whether the bytes are a whole request for health or metrics in a time in which answers are shared."""
        if not data.startswith(_STARTS) or not self._budget.crowded:
            return False
        lower = data.lower()
        return (
            data.find(b"\r\n\r\n") == len(data) - 4
            and lower[: lower.index(b"\r\n")].endswith(b" http/1.1")
            and not any(each in lower for each in _OTHERWISE)
        )

    def find(self, data: bytes, client: str) -> bytes | None:
        """Headers and body of the answer to just this request, if there is one that may serve; it counts as one."""
        until, caller, answer = self._kept.get(data, (0.0, None, b""))
        if self._clock() >= until or self._rate(client if caller is None else caller):
            return None
        return answer

    def keep(self, data: bytes, headers: Iterable[Pair], body: bytes, forwarded: str | None) -> None:
        """An answer with status 200.

        Args:
            forwarded: who asked, where a proxy says so: the same bytes come from the same caller.
        """
        pairs = list(headers)
        if not any(name.lower() == b"content-length" for name, _ in pairs):
            return
        if len(self._kept) >= _ANSWERS:
            self._kept.clear()
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in pairs)
        self._kept[data] = (self._clock() + _SECONDS, forwarded, lines + b"\r\n" + body)
