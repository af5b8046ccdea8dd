"""How much of everything the web face takes; what is beyond is refused, never dropped."""

from __future__ import annotations

__all__ = [
    "BODY_BYTES",
    "HEADER_BYTES",
    "HELD_RATE",
    "HELD_SECONDS",
    "LOG_INS",
    "LOG_IN_SECONDS",
    "RATE",
    "RATE_BURST",
    "REQUESTS",
    "REQUEST_SECONDS",
    "SHARE",
    "SHARE_BURST",
    "STREAMS",
    "WORKERS",
]

HEADER_BYTES = 16 * 1024
BODY_BYTES = 16 << 20
REQUEST_SECONDS = 10.0  # for a request to arrive, and for a piece of the answer to be taken
REQUESTS = 200  # in work at the same time
WORKERS = 16  # threads that answer, each with at most one connection to the hub; the other requests wait for one
STREAMS = 50  # of events, at the same time
RATE, RATE_BURST = 200.0, 1000.0  # requests a second of one caller, and how many may come at once
LOG_INS, LOG_IN_SECONDS = 10, 60.0  # failed log-ins of one caller, or under one name, in so many seconds
# Of an agent whose jobs need the processor: the part of one processor that requests take, and the seconds of it that
# they may take at once. Beyond, requests wait for so long at most; so many a second are answered in any case.
SHARE, SHARE_BURST = 0.05, 0.25
HELD_SECONDS, HELD_RATE = 5.0, 5.0
