"""The key of secrets is changed while agents run; a process that is killed meanwhile leaves every secret readable."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.key_rotation import Rotation, forget_former_keys, rotate_key, steps
from mgw.gateway.state import catalog
from mgw.gateway.state.catalog.stored_secrets import stored_secrets
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.keys import new_key
from mgw.gateway.state.secrets import Secrets
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import ConfigInvalid, GatewayError
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw
from tests.conformance.link_suite import wait_until
from tests.conformance.test_bad_input import Agent
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.gateways import Gateway, RunningAgent, gateway_on
from tests.support.waiting import eventually

__all__ = ["hub_url", "hubs"]

CLEAR = {"link A": "first s3cret", "link B": "second s3cret", "agent": "third s3cret", "option": "fourth s3cret"}


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MGW_SECRET_KEY", raising=False)
    file = tmp_path / "keys"
    file.write_bytes(new_key() + b"\n")
    file.chmod(0o640)
    monkeypatch.setenv("MGW_SECRET_KEY_FILE", str(file))
    return file


@pytest.fixture
def gateway(hub_url: str, key_file: Path) -> Iterator[Gateway]:
    with gateway_on(hub_url) as made:
        fill(made.admin)
        yield made


def fill(admin: GatewayAdmin) -> None:
    for name in ("A", "B"):
        password = CLEAR[f"link {name}"]
        admin.create_msgsystem_link(name, "MEMORY", {"broker": "keys"}, username="me", password=password)
    admin.create_agent("other", username="me", password=CLEAR["agent"])
    with admin.change() as conn:  # an option that another release knows
        token = admin.secrets.encrypt(CLEAR["option"])
        catalog.set_agent_option(conn, "other", "some.secret", token, encrypted=True)


def read_all(gateway: Gateway, secrets: Secrets) -> None:
    """Every secret is there; each process of another time reads it with keys of its own."""
    with gateway.hub.read() as conn:
        stored = stored_secrets(conn)
        found = " ".join(secrets.decrypt(each.token, each.owner) for each in stored)
    assert len(stored) == 4
    assert [clear for clear in CLEAR.values() if clear not in found] == []


def keys_used(gateway: Gateway) -> set[str]:
    with gateway.hub.read() as conn:
        return {each.token.partition(":")[0] for each in stored_secrets(conn)}


def test_every_secret_is_encrypted_again_and_nothing_is_shown(
    gateway: Gateway, key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    before, old = keys_used(gateway), key_file.read_text().strip()
    long_running = Secrets.for_hub(gateway.url)
    read_all(gateway, long_running)
    done = rotate_key(gateway.admin)
    assert (done.secrets, set(done.former)) == (4, before)
    assert keys_used(gateway) == {done.key} != before
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o640
    read_all(gateway, long_running)  # it learns of the new key without a restart
    read_all(gateway, Secrets.for_hub(gateway.url))
    long_running.keys.read(create=False)
    gone = forget_former_keys(gateway.admin)
    assert set(gone.former) == before
    assert old not in key_file.read_text()
    read_all(gateway, long_running)
    words = [*CLEAR.values(), old, *key_file.read_text().split()]
    everything = f"{caplog.text} {done} {gone} {gateway.admin.secrets!r} {contents(gateway)}"
    assert [word for word in words if word in everything] == []


def contents(gateway: Gateway) -> str:
    """All that is in the hub: tables and views."""
    with gateway.hub.read() as conn:
        found = sa.inspect(conn)
        names = [*found.get_table_names(), *found.get_view_names()]
        assert "gw_link" in names
        return "".join(str(conn.execute(sa.text(f'SELECT * FROM "{name}"')).all()) for name in names)


@pytest.mark.parametrize("at", ["next", "first", "secret", "stored"])
def test_a_process_killed_at_any_step_leaves_all_readable(hub_url: str, key_file: Path, at: str) -> None:
    with gateway_on(hub_url) as made:
        fill(made.admin)
    child = os.fork()
    if child == 0:
        try:
            number = 0
            for step in steps(GatewayAdmin(open_hub(hub_url), Secrets.for_hub(hub_url))):
                number += step == at
                if number == (2 if at == "secret" else 1):
                    os._exit(9)  # in the middle of its transaction, too
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with gateway_on(hub_url) as made:
        read_all(made, Secrets.for_hub(hub_url))
        made.admin.alter_msgsystem_link("A", {"password": CLEAR["link A"]})
        known = len(Secrets.for_hub(hub_url).key_ids())
        assert known == 2
        done = rotate_key(made.admin)
        if at != "stored":  # which was the end: the next one is another change of the key
            assert len(Secrets.for_hub(hub_url).key_ids()) == known
        assert keys_used(made) == {done.key}
        read_all(made, Secrets.for_hub(hub_url))


def test_while_an_agent_runs(gateway: Gateway) -> None:
    broker = MemoryBroker.get("keys")
    try:
        broker.queue("SRC")
        gateway.queue("IN")
        gateway.admin.register_foreign_queue("SRC", "A")
        gateway.admin.create_job("j", "INBOUND", "SRC@A", "IN")
        agents = Secrets.for_hub(gateway.url)
        with RunningAgent(gateway.hub, agents) as running:
            broker.put("SRC", Message(body="before"))
            wait_until(lambda: len(gateway.browse("IN")) == 1, "the first message")
            done = rotate_key(gateway.admin)
            assert set(agents.key_ids()) == {done.key, *done.former}
            gateway.admin.alter_msgsystem_link("A", {"password": "another one"})  # the agent reads its definitions
            forget_former_keys(gateway.admin)
            gateway.admin.alter_msgsystem_link("A", {"password": "yet another one"})
            broker.put("SRC", Message(body="after"))
            wait_until(lambda: len(gateway.browse("IN")) == 2, "the second message")
            assert running.failure is None
    finally:
        MemoryBroker.drop("keys")


def test_an_agent_that_does_not_know_the_new_key_is_waited_for(gateway: Gateway, key_file: Path) -> None:
    """As one on another machine, which has a copy of the file."""
    before = keys_used(gateway)
    elsewhere = Secrets(environ={"MGW_SECRET_KEY": key_file.read_text().strip()})
    with RunningAgent(gateway.hub, elsewhere):
        with pytest.raises(GatewayError, match="DEFAULT_AGENT") as raised:
            rotate_key(gateway.admin, wait=0.3)
        assert "run this again" in raised.value.cure
        assert keys_used(gateway) == before
        read_all(gateway, elsewhere)
        gateway.admin.alter_msgsystem_link("B", {"password": CLEAR["link B"]})
        read_all(gateway, elsewhere)  # what is stored meanwhile has the old key
    done = rotate_key(gateway.admin, wait=0.3)  # it goes on with the key that it made
    assert done.secrets == 4
    with RunningAgent(gateway.hub, Secrets.for_hub(gateway.url)):
        rotate_key(gateway.admin)


def test_keys_of_the_environment_are_changed_by_hand(gateway: Gateway, key_file: Path) -> None:
    old, new = key_file.read_text().strip(), new_key().decode()
    with pytest.raises(ConfigInvalid, match="MGW_SECRET_KEY") as raised:
        rotate_key(GatewayAdmin(gateway.hub, Secrets(environ={"MGW_SECRET_KEY": old})))
    assert "MGW_SECRET_KEY=NEW,OLD" in raised.value.cure
    done = rotate_key(GatewayAdmin(gateway.hub, Secrets(environ={"MGW_SECRET_KEY": f"{new},{old}"})))
    assert done.secrets == 4
    read_all(gateway, Secrets(environ={"MGW_SECRET_KEY": new}))


def test_a_lost_key_is_told_with_the_way_out(gateway: Gateway, key_file: Path) -> None:
    (lost,) = keys_used(gateway)
    key_file.write_bytes(new_key() + b"\n")
    with pytest.raises(ConfigInvalid) as raised:
        rotate_key(gateway.admin)
    error = raised.value
    assert "link A" in error.what
    assert lost in error.cause
    assert "mgw links alter A --password-file FILE" in error.cure
    with pytest.raises(ConfigInvalid, match=f"encrypted with key {lost}"):
        gateway.admin.get_link("A")


def test_secrets_of_an_older_release_get_the_id_of_their_key(gateway: Gateway) -> None:
    with gateway.hub.write() as conn:
        for table, column in (("gw_link", "password"), ("gw_agent", "password"), ("gw_agent_option", "value")):
            conn.execute(
                sa.text(f"UPDATE {table} SET {column} = substr({column}, 10) WHERE {column} LIKE '________:%'")
            )
    assert all(len(used) > 8 for used in keys_used(gateway))
    read_all(gateway, Secrets.for_hub(gateway.url))
    done = [step for step in steps(gateway.admin) if isinstance(step, Rotation)]
    assert keys_used(gateway) == {done[0].key}
    read_all(gateway, Secrets.for_hub(gateway.url))


def test_two_who_change_the_key_at_once_lose_no_secret(gateway: Gateway) -> None:
    """Each would write a key of its own first, and the last one would drop the other's."""
    first = steps(gateway.admin)
    assert next(first) == "next"
    for change in (rotate_key, forget_former_keys):
        with pytest.raises(ConfigInvalid, match="is not changed") as refused:
            change(GatewayAdmin(gateway.hub, Secrets.for_hub(gateway.url)))
        assert refused.value.cause == "another process changes it now"
    (done,) = [step for step in first if isinstance(step, Rotation)]
    assert keys_used(gateway) == {done.key}
    read_all(gateway, Secrets.for_hub(gateway.url))
    rotate_key(gateway.admin)
    read_all(gateway, Secrets.for_hub(gateway.url))


def test_a_key_file_that_does_not_answer_does_not_cost_the_agent_its_lease(tmp_path: Path) -> None:
    mgw = Mgw(tmp_path)
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    os.mkfifo(tmp_path / "keys", 0o600)  # whoever opens it waits, as for a file server that is away

    def heartbeat() -> float:
        with closing(sqlite3.connect(f"file:{tmp_path}/hub.db?mode=ro", uri=True, timeout=10)) as hub:
            return float(hub.execute("SELECT heartbeat FROM gw_agent WHERE name_key = 'DEFAULT_AGENT'").fetchone()[0])

    seen: set[float] = set()
    mgw.environ["MGW_SECRET_KEY_FILE"] = str(tmp_path / "keys")
    agent = Agent(mgw)
    try:
        agent.until(lambda: "up and running" in agent.said, "start of the agent")
        eventually(lambda: seen.add(heartbeat()) or len(seen) >= 4, deadline=60, what="renewals")
    finally:
        agent.process.kill()
        agent.process.wait()


def test_the_command_changes_the_key_and_says_how_to_forget_the_former(tmp_path: Path) -> None:
    mgw = Mgw(tmp_path)
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    refused = mgw("hub", "rotate-key")
    assert (refused.code, "there is no key to change" in refused.err) == (1, True)
    link = f"{{type: memory, broker: b, username: me, password: {CLEAR['link A']}}}"
    mgw.ok("apply", mgw.file(f"links: {{A: {link}}}\n"))
    file = next(tmp_path.glob("hub.db*.key"))
    before = file.read_text()
    told = mgw.ok("hub", "rotate-key", "--wait", "0")
    assert told.startswith("1 secret(s) encrypted with key ")
    assert "mgw hub rotate-key --forget-former" in told
    assert before.strip() in file.read_text()
    assert "1 former key(s) removed" in mgw.ok("hub", "rotate-key", "--forget-former")
    assert before.strip() not in file.read_text()
    with open_hub(f"sqlite:///{tmp_path}/hub.db") as hub:
        (link_now,) = GatewayAdmin(hub).list_links()
    assert link_now.password == CLEAR["link A"]
    assert CLEAR["link A"] not in told
