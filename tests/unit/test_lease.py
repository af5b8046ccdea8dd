"""Whether the owner of an agent still lives, as far as this process can know."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mgw.gateway.aq.store.processes import host_name, is_dead, lives, session_host, start_of
from mgw.gateway.state.lease import Owner


@pytest.fixture
def zombie() -> Iterator[int]:
    """The id of a process that has ended and that its parent has not reaped."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


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


def test_a_process_that_nobody_has_reaped_is_dead(zombie: int) -> None:
    os.kill(zombie, 0)  # its id is still taken
    assert not lives(zombie)
    me = Owner.this_process()
    begun = start_of(zombie)
    dead = replace(me, pid=zombie, process_key=f"{me.process_key.rpartition(':')[0]}:{begun}")
    assert dead.is_alive_here() is False
    assert is_dead(f"{host_name()}#{begun}", zombie, 10.0, now=0.0)
    assert is_dead(host_name(), zombie, 10.0, now=0.0)


def test_a_process_that_another_user_may_not_look_at_lives() -> None:
    assert lives(1)


def test_a_session_of_a_former_process_with_the_same_id_is_dead() -> None:
    me = os.getpid()
    assert not is_dead(session_host(), me, 10.0, now=0.0)
    assert not is_dead(host_name(), me, 10.0, now=0.0)
    place, _, start = session_host().partition("#")
    assert is_dead(f"{place}#{int(start) - 1}", me, 10.0, now=0.0)
    assert not is_dead(f"elsewhere#{int(start) - 1}", me, 10.0, now=0.0)
    assert is_dead(session_host(), me, 10.0, now=10.0)
