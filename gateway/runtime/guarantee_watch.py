"""Whether a job still has what its guarantee rests on: the link is asked again now and then, in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mgw.gateway.aq import Hub
from mgw.links.contract import Guarantee, GuaranteeReport
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError, LinkRefused, QueueMissing

__all__ = ["VERIFY_SECONDS", "GuaranteeWatch", "weaken"]

_LOGGER = logging.getLogger("mgw.engine")

VERIFY_SECONDS = 60.0  # how long a lost condition may stay unnoticed while the connection holds
_CLOSE_SECONDS = 2.0


def weaken(report: GuaranteeReport, hub: Hub) -> GuaranteeReport:
    """The level of a job when the hub itself is not run durably (its setting takes the label off)."""
    if hub.durability != "full" and report.level.rank < Guarantee.AT_LEAST_ONCE.rank:
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, "the hub runs with a durability below full")
    return report


class GuaranteeWatch:
    """Asks on a thread of its own, over a connection of its own; the thread that carries messages never waits for it.

    Args:
        name: of the job.
        ask: finds out on the live system what the job can promise; see :meth:`mgw.links.contract.Link.verify`.
        turns: limits how many jobs of an agent ask at the same time.
        every: seconds from one answer to the next question.
        strict: the job requires a guarantee, so it must not run where the link refuses to tell.
        answered: called, on the thread that asked, when there is an answer to look at.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[], GuaranteeReport],
        clock: Clock,
        turns: threading.Semaphore,
        every: float = VERIFY_SECONDS,
        *,
        strict: bool = False,
        answered: Callable[[], object] = lambda: None,
    ) -> None:
        self._name = name
        self._ask = ask
        self._clock = clock
        self._turns = turns
        self._every = every
        self._strict = strict
        self._answered = answered
        self._due = clock.monotonic() + every
        self._thread: threading.Thread | None = None
        self._answer: GuaranteeReport | Exception | None = None
        self._complaint = ""
        self._done = False

    def answer(self) -> GuaranteeReport | None:
        """A new answer, once; asks the next question when it is due. Never waits.

        Raises:
            QueueMissing: something that the job needs is gone.
            LinkRefused: the link may not or cannot be asked any more, and the job requires a guarantee.
        """
        now = self._clock.monotonic()
        if self._thread is None:
            if now >= self._due:
                self._done = False
                self._thread = threading.Thread(target=self._run, name=f"verify-{self._name}", daemon=True)
                self._thread.start()
            return None
        if not self._done:
            return None
        self._thread = None
        self._due = now + self._every
        answer, self._answer = self._answer, None
        if isinstance(answer, Exception):
            self._judge(answer)
            return None
        self._complaint = ""
        return answer

    def _run(self) -> None:
        with self._turns:
            try:
                self._answer = self._ask()
            except Exception as error:
                self._answer = error
        self._done = True
        self._answered()

    def _judge(self, error: Exception) -> None:
        """A broker that is away is not a lost condition: the flow has a connection of its own and notices by itself."""
        if isinstance(error, QueueMissing) or (self._strict and isinstance(error, LinkRefused)):
            raise error
        text = str(error) if isinstance(error, GatewayError) else f"internal error, {type(error).__name__}: {error}"
        if text != self._complaint:  # said once, not every minute
            self._complaint = text
            _LOGGER.warning("job %s: its guarantee could not be verified again: %s", self._name, text)

    def close(self) -> None:
        """Give the question up that is under way, if it is not answered soon."""
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
