"""Who changes something: each face says it once, for the audit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from mgw.gateway.aq import Author, act_for, acting

__all__ = ["acts", "by_agent", "by_command", "same_author"]


def acts(user: str) -> None:
    """What follows in this context is done by a user of the web face."""
    act_for(Author(user, "http"))


@contextmanager
def by_command() -> Iterator[None]:
    """What is changed in the block is changed by a command, for the account that runs it."""
    with acting(Author(None, "cli")):
        yield


@contextmanager
def by_agent(name: str) -> Iterator[None]:
    """What is changed in the block is changed by an agent by itself."""
    with acting(Author(f"agent {name}", "agent")):
        yield


def same_author(target: Callable[..., object], *args: Any, name: str) -> threading.Thread:
    """A thread, not started yet, that does what the caller asked for."""
    return threading.Thread(target=copy_context().run, args=(target, *args), name=name, daemon=True)
