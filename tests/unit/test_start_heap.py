"""What a process has loaded at its start is left out of garbage collection; everything later is collected."""

from __future__ import annotations

import subprocess
import sys

# A process of its own: what is frozen stays so until the end.
PROGRAM = """
import gc, weakref
from mgw.gateway.runtime.start_heap import StartHeap

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)

gc.disable()
before = cycle()
StartHeap().freeze()
assert before() is None, "garbage of the start was kept"
assert gc.get_freeze_count() > 5_000, gc.get_freeze_count()
assert len(gc.get_objects()) < 5_000, "a collection still looks at what was loaded"
later = cycle()
gc.collect()
assert later() is None, "later garbage is not collected"
print("as promised")
"""


def test_the_start_is_left_out_of_collections_and_nothing_else_is() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "as promised\n", done.stderr
