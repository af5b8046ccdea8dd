"""Looks at the hub that any number of callers share, and none waits for longer than it may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from mgw.gateway.aq import Hub
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, HubUnavailable

__all__ = ["ANSWER_SECONDS", "FRESH_SECONDS", "Looks"]

ANSWER_SECONDS = 1.5  # for a look at the hub; then it counts as away
FRESH_SECONDS = 0.5  # a look serves everybody who asks within so long

_Seen = TypeVar("_Seen")


class Looks(Generic[_Seen]):
    """Looks at the hub, one at a time, none of which anybody waits for longer than :data:`ANSWER_SECONDS`.

    Args:
        fresh: seconds for which a look that found something serves everybody; an error serves for
            :data:`FRESH_SECONDS`.
        kept: seconds for which it serves where the next one takes too long.
    """

    def __init__(self, hub: Hub, clock: Clock, take: Callable[[Hub], _Seen], fresh: float, kept: float = 0.0) -> None:
        self._hub = hub
        self._clock = clock
        self._take = take
        self._fresh = fresh
        self._kept = kept
        self._changed = threading.Condition()
        self._looking = False
        self._taken = float("-inf")  # when the last look was begun, monotonic
        self._begun = float("-inf")  # the same of the last one, which may be under way
        self._found: _Seen | HubError | None = None

    def latest(self) -> _Seen:
        """A look that is begun now, or was begun a moment ago.

        Raises:
            HubError: it failed, or takes too long.
        """
        begin = self._clock.monotonic()
        with self._changed:
            fresh = FRESH_SECONDS if isinstance(self._found, HubError) else self._fresh
            if not self._looking and begin - self._taken > fresh:
                self._looking, self._begun = True, begin
                threading.Thread(target=self._look, name="health", daemon=True).start()
            left = self._begun + ANSWER_SECONDS - begin  # of the look that is under way, whoever began it
            self._changed.wait_for(lambda: not self._looking, max(0.0, left))
            if self._looking and not isinstance(self._found, HubError | None) and begin - self._taken <= self._kept:
                return self._found
            if self._looking or self._found is None:
                raise HubUnavailable(
                    f"hub {self._hub.name} does not answer",
                    cause=f"it did not answer within {ANSWER_SECONDS:g} s",
                    cure="make sure that its database runs and is not overloaded",
                )
            if isinstance(self._found, HubError):
                raise self._found
            return self._found

    def _look(self) -> None:
        begun = self._clock.monotonic()
        found: _Seen | HubError
        try:
            found = self._take(self._hub)
        except HubError as error:
            found = error
        except Exception as error:
            found = HubError(f"hub {self._hub.name} could not be asked", cause=f"{type(error).__name__}: {error}")
        with self._changed:
            self._looking, self._taken, self._found = False, begun, found
            self._changed.notify_all()
