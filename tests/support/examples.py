"""How many made-up examples a test looks at: a part of them in ``make test``, all of them in ``make test-all``.

``make test`` sets ``MGW_FEWER_EXAMPLES=1``; what then looks at a part only carries the marker ``examples``, so that
``.ci/run``, which runs ``make test`` before the rest, has all of them as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["fewer", "looks_at", "some_of"]

_FEWER = os.environ.get("MGW_FEWER_EXAMPLES") == "1"
_PART = 4


def fewer(count: int) -> int:
    """So many of ``count`` examples as this run looks at."""
    return max(1, count // _PART) if _FEWER else count


def some_of(values: Sequence[int]) -> Sequence[int]:
    """All of these values, or every fourth and the last."""
    return [*values[:-1][::_PART], *values[-1:]] if _FEWER else values


def looks_at(count: int, **more: Any) -> Callable[[Any], Any]:
    """A decorator for a test of Hypothesis: ``settings(max_examples=count)``, or a part of them in ``make test``."""

    def decorate(test: Any) -> Any:
        return pytest.mark.examples(settings(max_examples=fewer(count), **more)(test))

    return decorate
