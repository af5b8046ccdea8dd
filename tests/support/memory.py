"""Where tests put what they write."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["write_into_memory"]

_MEMORY = Path("/dev/shm")
_PLENTY = 12 << 30  # bytes; a whole run writes less than 4 GiB


def write_into_memory() -> None:
    """Let this process and those that it starts keep temporary files in memory, where the machine has plenty.

    Processes are killed in tests, never machines: what was written is there after a crash, on a disk or not. But every
    test makes and removes files by the hundred, which some file systems do more slowly the more were removed before.
    The variable TMPDIR wins.
    """
    if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).total >= _PLENTY:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None
