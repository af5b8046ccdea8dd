"""The example package of a link from somebody else, installed as its users install it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

__all__ = ["PACKAGE", "install_spool"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "spool-link"


def install_spool(folder: Path) -> Path:
    """Install it into a folder of its own, which belongs on the path of whoever is to find it."""
    site = folder / "site"
    source = folder / "source"  # a build leaves files behind
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-r", str(PACKAGE), str(source)], check=True)
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert pip.returncode == 0, pip.stderr
    importlib.invalidate_caches()
    return site
