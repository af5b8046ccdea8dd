"""What is installed from the wheel, in a virtual environment that nobody activated, works far from the checkout."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import copy_sources

ROOT = Path(__file__).resolve().parents[2]
_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


def _run(place: Path, *command: str | Path) -> str:
    """Standard output; the environment is that of a service: no activated environment, no PYTHONPATH."""
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place)}
    ended = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of a new environment with the wheel; what it depends on is shared with the one the tests run in."""
    place = tmp_path_factory.mktemp("installed")
    source = place / "source"
    copy_sources(source)
    wheel = _run(source, sys.executable, "-c", _BUILD, place).splitlines()[-1]
    _run(place, sys.executable, "-m", "venv", "--without-pip", place / "venv")
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    needed = [importlib.util.find_spec(name) for name in ("pydantic", "pyspark", "pyarrow")]
    shared = {str(Path(spec.origin).parents[1]) for spec in needed if spec and spec.origin}
    (packages / "shared.pth").write_text("\n".join(shared))
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    _run(place, sys.executable, "-m", "pip", "--python", place / "venv/bin/python", "install", *options, place / wheel)
    shutil.rmtree(source)
    return place / "venv/bin"


def test_a_built_in_job_runs_with_the_configuration_that_came_with_it(installed: Path, tmp_path: Path) -> None:
    for name in ("flow", "enrich"):
        told = _run(tmp_path, installed / "mgw", "pipeline", "run", name, "--dry-run")
        assert str(installed.parent) in told, "the file is told, so that it can be copied"
        assert f"mgw.pipelines.jobs.{name}" in told
    assert not list(tmp_path.glob("conf"))
