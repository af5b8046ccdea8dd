"""The files of this checkout that a distribution is made of, copied elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("mgw", "gateway", "links", "transforms", "pipelines", "conf")
_FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")


def copy_sources(target: Path) -> None:
    """Copy them into ``target``, a folder that does not exist yet; links stay links."""
    target.mkdir()
    for name in _SOURCES:
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, target / name)
