"""Passwords that somebody typed into a form, for the moments between the form and its confirmation: a page gets a
reference, and never the password back.

They lie in the memory of this process alone, for :data:`SECONDS`, and are gone when they were used.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mgw.gateway.services.users import Identity
from mgw.transforms.errors import GatewayError

__all__ = ["AT_ONCE", "AT_ONCE_OF_ONE", "LONGEST", "SECONDS", "Forgotten", "TypedSecrets"]

SECONDS = 900.0  # after which they are forgotten
AT_ONCE, AT_ONCE_OF_ONE = 200, 20  # forms; beyond, the oldest is forgotten
LONGEST = 65_536  # characters of all secrets of a form


class Forgotten(GatewayError):
    """What was typed is not kept any more."""

    def __init__(self) -> None:
        super().__init__(
            "the password that was typed is not kept any more",
            cause=f"it was used, {SECONDS / 60:.0f} minutes are over, or the session or the gateway is another one",
            cure="type it again",
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    owner: tuple[str, str, str]
    end: float  # monotonic
    values: Mapping[str, str] = field(repr=False)


class TypedSecrets:
    """Secrets of forms. Any thread may call.

    Args:
        clock: monotonic seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def __len__(self) -> int:
        with self._mutex:
            self._forget_old()
            return len(self._kept)

    def keep(self, who: Identity, values: Mapping[str, str]) -> str:
        """A reference to secrets by the names of their fields; empty where there are none.

        Raises:
            GatewayError: they are too long.
        """
        if not values:
            return ""
        if sum(map(len, values.values())) > LONGEST:
            raise GatewayError(
                "what was typed cannot be kept", cause=f"passwords have at most {LONGEST} characters", cure="shorten it"
            )
        owner, reference = _owner(who), secrets.token_urlsafe(32)
        with self._mutex:
            self._forget_old()
            self._make_room([each for each, held in self._kept.items() if held.owner == owner], AT_ONCE_OF_ONE)
            self._make_room(list(self._kept), AT_ONCE)
            self._kept[reference] = _Kept(owner, self._clock() + SECONDS, dict(values))
        return reference

    @contextmanager
    def used(self, who: Identity, reference: str) -> Iterator[Mapping[str, str]]:
        """Use secrets, which ends them; where that fails, they may be used once more.

        Args:
            reference: from :meth:`keep`; empty: there are none.

        Raises:
            Forgotten: there are none behind it any more, or they are another's.
        """
        if not reference:
            yield {}
            return
        with self._mutex:
            self._forget_old()
            found = self._kept.get(reference)
            if found is None or found.owner != _owner(who):
                raise Forgotten
            del self._kept[reference]
        try:
            yield found.values
        except BaseException:
            with self._mutex:
                self._kept[reference] = found
            raise

    def _make_room(self, oldest_first: Sequence[str], most: int) -> None:
        for each in oldest_first[: max(0, len(oldest_first) - most + 1)]:
            del self._kept[each]

    def _forget_old(self) -> None:
        now = self._clock()
        for each in [reference for reference, held in self._kept.items() if held.end <= now]:
            del self._kept[each]


def _owner(who: Identity) -> tuple[str, str, str]:
    """A session by what only it has; programs and an open port by their name."""
    return who.how, who.name, who.csrf
