"""Variables of a file (``--env-file``), as containers and service managers write them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mgw.transforms.errors import ConfigInvalid

__all__ = ["add_variables"]

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def add_variables(file: Path) -> None:
    """Set the variables of a file, ``NAME=VALUE`` a line; one that is set already is kept.

    Raises:
        ConfigInvalid: the file cannot be read, or a line is something else.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigInvalid(f"{file} cannot be read", cause=reason, cure="check path and permissions") from error
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ConfigInvalid(f"{file}:{number} is not a variable", cure="write NAME=VALUE, and # before a comment")
        value = found[2].strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        os.environ.setdefault(found[1], value)
