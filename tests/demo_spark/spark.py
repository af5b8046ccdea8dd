"""Pipelines of the demonstration, run as users run them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.demo.plant import Plant
from tests.support.spark_jars import spark_jars

__all__ = ["AUDITS", "PIPELINES", "Ran", "environment_of", "run_pipeline"]

PIPELINES = Path(__file__).with_name("pipelines")
#: Pipelines that audit, and what each of them asks.
AUDITS = {
    "audit_bridge": "is all that was sent in Kafka, once, unaltered, in order?",
    "audit_job": "is all that the hub handed out in Kafka, under its message id?",
    "audit_archive": "is all that is in Kafka in the archive?",
}
_TIMEOUT = 1200.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A pipeline that has ended."""

    name: str
    code: int
    output: str
    seconds: float

    def indented(self) -> str:
        """What it printed, below the line that announces it."""
        lines = self.output.rstrip().splitlines()
        return "\n".join(f"    {line}" for line in lines if not line.startswith("WARNING: Using incubator modules"))


def environment_of(place: Plant, messages: int) -> dict[str, str]:
    """The variables of the files in ``pipelines``."""
    return {
        "DEMO_FOLDER": str(place.folder),
        "DEMO_MESSAGES": str(messages),
        "SPARK_JARS": str(spark_jars()),
    }


def run_pipeline(place: Plant, name: str, environment: Mapping[str, str]) -> Ran:
    """``mgw pipeline run`` to its end."""
    command = [sys.executable, "-m", "gateway", "pipeline", "run", name, "--config", str(PIPELINES / f"{name}.yaml")]
    began = time.monotonic()
    done = subprocess.run(
        command,
        env=place.environment | dict(environment),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    text = done.stdout if done.returncode in (0, 1) and done.stdout else done.stdout + done.stderr
    return Ran(name, done.returncode, text, time.monotonic() - began)
