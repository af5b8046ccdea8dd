"""``python -m tests.support.self_portrait``: prints as JSON what decides how a process behaves.

With arguments it ends with the last of them as exit code; without, it starts a child and waits.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time


def _portrait() -> dict[str, object]:
    return {
        "arguments": sys.argv[1:],
        "module": os.path.basename(sys.argv[0]),
        "name": __name__,
        "folder": os.getcwd(),
        "path": sys.path,
        "variables": {name: value for name, value in os.environ.items() if name != "_"},
        "zone": time.tzname,
        "input": sys.stdin.read(),
        "signals": {str(number): str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)},
        "threads": threading.active_count(),
        "umask": os.umask(0o022),
        "optimized": sys.flags.optimize,
    }


if __name__ == "__main__":
    told = _portrait()
    if sys.argv[1:]:
        print(json.dumps(told))
        sys.exit(int(sys.argv[-1]))
    child = subprocess.Popen(["sleep", "600"])
    print(json.dumps(told | {"child": child.pid}))
    child.wait()
