"""The steps of a plan as one generation, while they are done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from mgw.gateway.aq import Hub, Undertaking, part_of
from mgw.gateway.config.plan import Action, Verb
from mgw.transforms.errors import GatewayError

__all__ = ["Progress", "is_failure"]

_FAILED = "failed at "


def is_failure(result: str | None) -> bool:
    """Whether the result of a generation says that a step was refused."""
    return result is not None and result.startswith(_FAILED)


class Progress:
    """Makes one generation of the steps of a plan. A step alone is that by itself, unless it has several parts."""

    def __init__(self, hub: Hub, actions: Sequence[Action], under: Undertaking | None) -> None:
        steps = [action for action in actions if action.changes_hub]
        self._hub = hub
        self._done: Counter[Verb] = Counter()
        self._under = under or Undertaking("apply", "configuration")
        self._alone = under is None and len(steps) == 1 and steps[0].section != "agents"

    @contextmanager
    def step(self, action: Action, *, last: bool = True) -> Iterator[None]:
        """One step; ``last``: none follows where it is refused."""
        if self._alone:
            yield
            return
        try:
            with part_of(self._under):
                yield
        except GatewayError as error:
            if last:
                with suppress(GatewayError):  # that the step was refused counts more
                    self._close(f"{_FAILED}{action.object}: {error.what}")
            raise
        self._done[action.verb] += 1

    def was_done(self, action: Action) -> None:
        """A step that is over was another's."""
        self._done[action.verb] -= 1

    def end(self) -> None:
        """All steps are over."""
        if not self._alone:
            words = {Verb.CREATE: "created", Verb.ALTER: "altered", Verb.REMOVE: "removed"}
            self._close(", ".join(f"{self._done[verb]} {word}" for verb, word in words.items() if self._done[verb]))

    def _close(self, result: str) -> None:
        if self._under.begun:
            with self._hub.write() as conn:
                self._under.end(conn, result, now=self._hub.clock.now())
