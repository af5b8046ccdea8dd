"""How many files and connections a process may have open, and whether it was that which failed."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from typing import Final

__all__ = ["in_use", "limit", "raise_limit", "shortage"]

_MOST: Final = 1 << 20  # no gateway needs more, and some programs that it starts suffer from a boundless number
_CLOSE: Final = 6  # a client that fails gives back what it opened before anybody can count: sockets, a selector, a pair
_TEXT: Final = "too many open files"


def limit() -> int:
    """Files that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft


def in_use() -> int:
    """Files that it has open; 0 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # without the listing itself
    except OSError as error:
        return limit() if error.errno in (errno.EMFILE, errno.ENFILE) else 0


def raise_limit() -> int:
    """Raise the limit of this process as far as it may; the limit in force then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # the system may have a limit of its own: what there was stays
            return limit()
    return limit()


def shortage(error: BaseException, *, guess: bool = True) -> tuple[str, str] | None:
    """Cause and cure, if ``error`` came because no more files could be opened; None if it did not.

    Args:
        guess: where the error does not say it (clients and resolvers forget it), the number of open files tells.
    """
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno == errno.ENFILE:
            return "the system limit of open files is reached", "raise fs.file-max of the machine"
        if isinstance(each, OSError) and each.errno == errno.EMFILE:
            return _own_limit()
    if _TEXT in str(error).lower() or (guess and in_use() >= limit() - _CLOSE):
        return _own_limit()
    return None


def _own_limit() -> tuple[str, str]:
    return (
        f"this process may have {limit()} files and connections open, and has {in_use() or 'as many'}",
        "raise its limit (LimitNOFILE= of systemd, --ulimit nofile= of a container, ulimit -n), or give some of the "
        "links to another agent",
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it wraps or came from."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < 50:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = (
            each.__cause__,
            each.__context__,
            getattr(each, "orig", None),
            getattr(each, "exception", None),
            *each.args,
        )
        more = getattr(each, "exceptions", ())
        waiting += [
            found
            for found in (*inner, *(more if isinstance(more, list | tuple) else ()))
            if isinstance(found, BaseException)
        ]
