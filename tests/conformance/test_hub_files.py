"""The file of an SQLite hub is moved, deleted or replaced while programs have it open."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, EnqueueOptions
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import HubMoved
from mgw.transforms.message import Message
from tests.support.waiting import eventually

NOW = DequeueOptions(wait=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub.db"


@pytest.fixture
def hub(path: Path) -> Iterator[Hub]:
    with made(path) as hub:
        yield hub


def made(path: Path) -> Hub:
    """A hub with a queue that has a message."""
    hub = Hub.open(f"sqlite:///{path}", create=True)
    admin = QueueAdmin(hub)
    admin.create_queue_table("orders_t")
    admin.create_queue("orders", "orders_t")
    admin.start_queue("orders")
    send(hub, "first")
    return hub


def send(hub: Hub, body: str) -> None:
    with hub.session() as session:
        session.enqueue("orders", Message(body))
        session.commit()


def bodies(hub: Hub) -> list[object]:
    with hub.session() as session:
        return [found.message.body for found in session.dequeue_array("orders", NOW, 10_000)]


def calls(hub: Hub) -> list[Callable[[], object]]:
    """What works with the hub."""

    def immediate() -> None:
        with hub.session() as session:
            session.enqueue("orders", Message("no"), EnqueueOptions("IMMEDIATE"))

    def write() -> None:
        with hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_hub SET created = created")

    def read() -> None:
        with hub.read() as conn:
            conn.exec_driver_sql("SELECT * FROM aq_hub").fetchall()

    return [lambda: send(hub, "no"), immediate, lambda: bodies(hub), write, lambda: time_manager.run_once(hub), read]


def refuses(hub: Hub, cause: str) -> None:
    for call in calls(hub):
        with pytest.raises(
            HubMoved, match=rf"hub.db.* is not where it was.*cause: .*{cause}.*cure: stop every program"
        ):
            call()


def test_file_is_moved_and_put_back(hub: Hub, path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    refuses(hub, "hub.db was moved or deleted")
    assert not path.exists()
    path.with_name("elsewhere").rename(path)
    send(hub, "second")
    assert bodies(hub) == ["first", "second"]


def test_files_are_moved_together(hub: Hub, path: Path) -> None:
    other = path.with_name("other")
    other.mkdir()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(other / f"hub.db{suffix}")
    refuses(hub, "hub.db was moved or deleted")
    with Hub.open(f"sqlite:///{other}/hub.db") as moved:
        assert bodies(moved) == ["first"]


def test_file_is_deleted(hub: Hub, path: Path) -> None:
    hub.engine.dispose()
    path.unlink()
    refuses(hub, "hub.db was moved or deleted")
    assert not path.exists()


def test_file_is_replaced(hub: Hub, path: Path, tmp_path: Path) -> None:
    with made(tmp_path / "new.db"):
        pass
    os.replace(tmp_path / "new.db", path)
    refuses(hub, "hub.db was replaced by another file")
    hub.close()
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as plain:
        assert plain.execute("SELECT count(*) FROM aq_message").fetchone() == (1,)
    plain.close()


def test_link_points_elsewhere(path: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        made(tmp_path / name).close()
    path.symlink_to(tmp_path / "one")
    with Hub.open(f"sqlite:///{path}") as hub:
        send(hub, "second")
        path.unlink()
        path.symlink_to(tmp_path / "two")
        refuses(hub, "hub.db was replaced by another file")
    with Hub.open(f"sqlite:///{path}") as hub:
        assert bodies(hub) == ["first"]


@pytest.mark.parametrize("again", [False, True])
def test_log_is_removed(hub: Hub, path: Path, *, again: bool) -> None:
    os.unlink(f"{path}-wal")
    if again:
        Path(f"{path}-wal").touch()
    refuses(hub, "hub.db-wal was removed or replaced")


def test_index_of_the_log_is_removed(hub: Hub, path: Path) -> None:
    os.unlink(f"{path}-shm")

    def refused() -> bool:
        with pytest.raises(HubMoved, match=r"hub\.db-shm was removed"):
            send(hub, "maybe")
        return True

    assert eventually(refused, tolerate=(pytest.fail.Exception,))


def test_log_that_goes_with_the_last_connection_and_comes_again(hub: Hub, path: Path) -> None:
    for _ in range(3):
        hub.drop_writers()
        hub.engine.dispose()
        assert not os.path.exists(f"{path}-wal")
        with Hub.open(f"sqlite:///{path}") as other:
            send(other, "more")
            send(hub, "more")
    assert len(bodies(hub)) == 7


def test_session_of_the_application(hub: Hub, path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as conn:
        session = hub.session(conn)
        path.rename(path.with_name("elsewhere"))
        for call in (
            lambda: session.enqueue("orders", Message("no")),
            lambda: session.dequeue("orders", NOW),
        ):
            with pytest.raises(HubMoved, match="was moved"):
                call()
    engine.dispose()
    path.with_name("elsewhere").rename(path)
    assert bodies(hub) == ["first"]


def test_session_keeps_what_it_has_until_the_file_is_back(hub: Hub, path: Path) -> None:
    session = hub.session()
    session.dequeue("orders", NOW)
    session.enqueue("orders", Message("second"))
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(HubMoved):
        session.commit()
    path.with_name("elsewhere").rename(path)
    session.close()
    assert bodies(hub) == ["first"]


def test_what_was_acknowledged_is_in_the_file(path: Path, tmp_path: Path) -> None:
    acknowledged: list[str] = []
    hub = made(path)

    def write() -> None:
        with suppress(HubMoved):
            for number in range(1_000_000):
                send(hub, str(number))
                acknowledged.append(str(number))

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    eventually(lambda: len(acknowledged) > 20)
    path.rename(tmp_path / "elsewhere")
    for writer in writers:
        writer.join(20)
        assert not writer.is_alive()
    hub.close()
    shutil.move(f"{path}-wal", tmp_path / "elsewhere-wal")
    with Hub.open(f"sqlite:///{tmp_path}/elsewhere") as moved:
        found = bodies(moved)
    assert not set(acknowledged) - set(found)
    assert len(found) - 1 - len(acknowledged) in range(len(writers) + 1)
