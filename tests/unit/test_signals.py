"""Signals while the daemon starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A signal that another thread takes leaves the system call of the main thread alone, as one that comes right before it.
WAITING = """
import os, signal, threading
from mgw.gateway.runtime.signals import Signals

Signals()
reading, _ = os.pipe()
threading.Timer(0.5, lambda: signal.pthread_kill(threading.get_ident(), {number})).start()
os.read(reading, 1)
"""


@pytest.mark.parametrize("number", ["signal.SIGTERM", "signal.SIGINT", "signal.SIGQUIT"])
def test_a_signal_that_does_not_interrupt_the_start_ends_it_all_the_same(number: str) -> None:
    code = WAITING.replace("{number}", number)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# A wait for a lock of SQLite goes on in spite of signals.
LOCKED = """
import os, signal, sqlite3, sys, threading, time
from mgw.gateway.runtime.signals import Signals

Signals()
holder = sqlite3.connect(sys.argv[1], check_same_thread=False, isolation_level=None)
holder.execute("BEGIN EXCLUSIVE")

def look():
    os.kill(os.getpid(), signal.SIGTERM)
    most = 0
    for _ in range(20):
        time.sleep(0.1)
        most = max(most, sum(thread.name == "signal" for thread in threading.enumerate()))
    print(most, flush=True)
    holder.execute("COMMIT")

threading.Timer(0.5, look).start()
sqlite3.connect(sys.argv[1], timeout=60).execute("BEGIN EXCLUSIVE")
"""


def test_a_start_that_cannot_be_interrupted_is_sent_the_signal_by_one_thread(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOCKED, str(tmp_path / "hub.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
