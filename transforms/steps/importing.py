"""Modules of users, imported by name; never from the current directory by accident.

A module is code, and what the current directory holds is whatever the operator happened to stand in. Python looks there
first for ``python -m`` and in an interactive session. Here that directory counts only where somebody named it: in
PYTHONPATH as an absolute path, or by installing a package from it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from mgw.transforms.errors import ConfigInvalid

__all__ = ["import_trusted"]


def import_trusted(name: str) -> ModuleType:
    """The module ``package.module``; one that is loaded already is taken as it is.

    Raises:
        ConfigInvalid: only the current directory has it.
        Exception: whatever importing it raises.
    """
    top = name.partition(".")[0]
    if top not in sys.modules:
        found = importlib.util.find_spec(top)
        places = [] if found is None else [*(found.submodule_search_locations or ()), found.origin or ""]
        here = os.path.realpath(os.getcwd())
        if any(os.path.realpath(folder) == here for folder in _folders(places)) and not _is_named(here):
            raise ConfigInvalid(
                f"module {name} is not imported",
                cause=f"module {name} is in the current directory {here}, from which nothing is imported",
                cure="install it where the gateway runs, or put its folder into PYTHONPATH as an absolute path",
            )
    return importlib.import_module(name)


def _folders(places: list[str]) -> Iterator[Path]:
    """The folders in which Python looked for what it found."""
    for place in places:
        path = Path(place)
        if path.is_absolute() or path.exists():
            yield path.parent.parent if path.name == "__init__.py" else path.parent


def _is_named(here: str) -> bool:
    """Whether the directory is searched because somebody said so, and not because it is the current one."""
    said = given.split(os.pathsep) if (given := os.environ.get("PYTHONPATH")) else []
    if any(os.path.isabs(each) and os.path.realpath(each) == here for each in said):
        return True
    main = sys.modules.get("__main__")
    by_python = getattr(main, "__spec__", None) is not None and not sys.flags.safe_path  # python -m puts it in front
    by_accident = any(not os.path.isabs(each) and os.path.realpath(each) == here for each in said)  # made absolute
    searched = [each for each in sys.path if os.path.isabs(each) and os.path.realpath(each) == here]
    return len(searched) > by_python + by_accident
