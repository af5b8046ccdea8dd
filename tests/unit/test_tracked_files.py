"""What is kept in the repository's root: nothing that a build, a run or a download left there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    ".ci",
    "benchmarks",
    "conf",
    "docs",
    "examples",
    "gateway",
    "links",
    "mgw",
    "pipelines",
    "tests",
    "transforms",
}
FILES = {
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "docker-compose.yml",
    "pyproject.toml",
    "requirements-image.lock",
    "requirements.lock",
}


def test_the_root_holds_what_belongs_there_and_nothing_else() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no working copy of the repository")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    tracked = [name.split("/", 1) for name in listed.decode().split("\0") if name]
    assert {parts[0] for parts in tracked if len(parts) == 1} == FILES, "files in the root"
    assert {parts[0] for parts in tracked if len(parts) > 1} == FOLDERS, "folders in the root"
