"""Data folders of new servers: made once by the server's own tool, then copied, which costs a tenth."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["made_or_copied"]

_REPOSITORY = Path(__file__).resolve().parents[3]


def made_or_copied(
    folder: Path, name: str, made_from: Iterable[str], make: Callable[[], object], *, cache: Path | None = None
) -> None:
    """Have ``folder`` as ``make`` makes it: a copy of the one that was kept, or made now and kept.

    Args:
        folder: does not exist yet.
        name: of the server.
        made_from: what decides the contents: version of the tool, its arguments.
        make: makes ``folder``.
        cache: where it is kept; default: below ``.cache`` of the repository, or the folder that MGW_CACHE names.
    """
    cache = cache or Path(os.environ.get("MGW_CACHE") or _REPOSITORY / ".cache") / "data"
    original = cache / f"{name}-{hashlib.sha256(repr(list(made_from)).encode()).hexdigest()[:16]}"
    if original.is_dir():
        _copy(original, folder)
        return
    make()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="made-") as scratch:
        _copy(folder, Path(scratch) / "data")
        with contextlib.suppress(OSError):  # another process was faster
            (Path(scratch) / "data").rename(original)


def _copy(source: Path, target: Path) -> None:
    """With owners, which the servers insist on."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
