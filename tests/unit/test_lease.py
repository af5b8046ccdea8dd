"""Whether the owner of an agent still lives, as far as this process can know."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from gateway.lease import Owner


def test_a_process_of_this_system_is_known_to_live_or_not() -> None:
    me = Owner.this_process()
    assert me.is_alive_here() is True
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert replace(me, pid=child.pid).is_alive_here() is False


def test_another_process_with_the_same_id_is_not_taken_for_the_owner() -> None:
    me = Owner.this_process()
    system, _, start = me.process_key.rpartition(":")
    assert replace(me, process_key=f"{system}:{int(start) - 1}").is_alive_here() is False


def test_nothing_is_known_of_a_process_in_another_container_of_the_same_host_name() -> None:
    me = Owner.this_process()
    boot, _, rest = me.process_key.partition(":")
    assert replace(me, process_key=f"{boot}:pid:[1]:{rest.rpartition(':')[2]}").is_alive_here() is None
    assert replace(me, process_key=f"another-boot:{rest}").is_alive_here() is None
    assert replace(me, host="elsewhere").is_alive_here() is None
