"""All benchmarks in their short forms, and one table: ``python -m benchmarks [PART ...]``; at most an hour.

Every part is a program of its own, with a limit of time: what is not over then is ended and left out, and so is a part
that fails. The figures of a part are those of its last run (.cache/bench).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import recorded, table

MINUTE = 60.0
_ENDING = 60.0  # seconds that a part has to stop its brokers


@dataclass(frozen=True, slots=True)
class Short:
    """A part in its short form."""

    words: tuple[str, ...]
    minutes: float


#: The limits add up to less than an hour.
PARTS = {
    "peers": Short(("benchmarks.side_by_side",), 28),
    "latency": Short(("benchmarks.latency", "--samples", "200", "--half", "4"), 6),
    "route": Short(("benchmarks.route", "--quick"), 5),
    "through": Short(("benchmarks.through", "--quick", "--rounds", "1"), 5),
    "hub": Short(("benchmarks.hub", "waiting", "--quick", "--rounds", "3"), 4),
    "databases": Short(("benchmarks.databases", "--rounds", "1", "--batch", "500", "--messages", "0.3"), 3),
    "spark": Short(("benchmarks.spark", "rates", "--rows", "100000", "--rounds", "1"), 5),
    "scale": Short(("benchmarks.scale",), 3),
}


def run(short: Short) -> str:
    """Run it; returns why it has to be left out, or nothing."""
    command = [sys.executable, "-m", *short.words]
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=_interruptible)  # noqa: PLW1509 one thread
    try:
        code = process.wait(short.minutes * MINUTE)
    except subprocess.TimeoutExpired:
        end(process)
        return f"not over after {short.minutes:g} minutes"
    except KeyboardInterrupt:
        end(process)
        raise
    return f"it ended with status {code}, see above" if code else ""


def _interruptible() -> None:
    """A shell has what it runs in the background ignore SIGINT, and so would the parts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end(process: subprocess.Popen[bytes]) -> None:
    """Have it stop its brokers; kill it when it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts, and print the table of the goals."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    begun, failed = time.monotonic(), {}
    for name in parser.parse_args(arguments).parts or PARTS:
        print(f"\n== {name}: python -m {' '.join(PARTS[name].words)}", flush=True)
        if why := run(PARTS[name]):
            failed[name] = why
    print(f"\n== {(time.monotonic() - begun) / MINUTE:.0f} minutes; what falls short of its goal first\n")
    print(table.told(recorded.read(), failed))


if __name__ == "__main__":
    main()
