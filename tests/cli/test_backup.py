"""``mgw hub backup``: a copy of a hub in use, without SQLite's own shell, which images of containers do not have."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from mgw.gateway.services.hubs import back_up, open_hub
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw
from tests.support import old_hubs


def test_the_copy_of_a_hub_in_use_is_whole_and_a_hub(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "ORDERS", "keep me")
    with applied.running():
        told = applied.ok("hub", "backup", "kept.db").splitlines()
        assert told[0].endswith(" MB, checked")
        assert (
            told[1]
            == f"the key of its secrets is not in the copy: keep {applied.folder}/hub.db.key, too, in another place"
        )
    copy = applied.folder / "kept.db"
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE((applied.folder / "hub.db").stat().st_mode)
    assert sorted(each.name for each in applied.folder.glob("kept*")) == ["kept.db"]
    url = f"sqlite:///{copy}"
    assert applied.ok("aq", "dequeue", "ORDERS", "--body", "--hub", url) == "keep me"
    shutil.copy(applied.folder / "hub.db.key", applied.folder / "kept.db.key")
    assert "***" in applied.ok("links", "show", "mem", "--hub", url)
    assert applied.ok("aq", "browse", "ORDERS", "--body") == "keep me", "the hub itself stays as it is"


def test_writers_do_not_wait_and_each_of_their_transactions_is_in_the_copy_or_is_not(mgw: Mgw) -> None:
    url, copy = f"sqlite:///{mgw.folder}/hub.db", mgw.folder / "copy.db"
    mgw.ok("apply", mgw.file("queues:\n  Q: {}\n"))
    with open_hub(url) as hub:
        stop, pairs = threading.Event(), 0

        def write() -> None:
            nonlocal pairs
            while not stop.is_set():
                with hub.session() as session:
                    session.enqueue("Q", Message(body="x" * 2000))
                    session.enqueue("Q", Message(body="y" * 2000))
                    session.commit()
                pairs += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            back_up(url, str(copy))
        finally:
            stop.set()
            writer.join(60)
        assert pairs
    with closing(sqlite3.connect(copy)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM aq_message").fetchone()
    assert count % 2 == 0


def test_a_hub_of_an_older_release_is_copied_as_it_is(tmp_path: Path) -> None:
    url = old_hubs.load_sqlite(tmp_path / "hub.db")
    back_up(url, str(tmp_path / "copy.db"))
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        assert connection.execute("SELECT schema_version FROM aq_hub").fetchone() == (1,)


def test_nothing_is_written_over(applied: Mgw) -> None:
    precious = applied.folder / "precious"
    precious.write_text("mine")
    for name, cause, cure in (
        ("precious", f"{precious} exists already", "choose another name"),
        ("no/such/copy.db", "cannot be written: No such file or directory", "choose a place"),
    ):
        refused = applied("hub", "backup", name)
        assert refused.code == 1
        assert "/hub.db was not copied; cause: " in refused.err
        assert cause in refused.err, refused.err
        assert cure in refused.err
    assert precious.read_text() == "mine"
    missing = applied("hub", "backup", "copy.db", "--hub", "sqlite:///none.db")
    assert (missing.code, "hub sqlite:///none.db does not exist" in missing.err) == (1, True)
    other = applied("hub", "backup", "copy.db", "--hub", "postgresql://db.example/mgw")
    assert (other.code, "cure: use pg_dump" in other.err) == (1, True)


def test_a_damaged_hub_is_not_taken_for_a_backup(applied: Mgw) -> None:
    file = applied.folder / "hub.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'gw_job'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size + 8)
        raw.write(b"\xff" * 200)
    with pytest.raises(HubError, match="damaged"):
        back_up(f"sqlite:///{file}", str(applied.folder / "copy.db"))
    assert list(applied.folder.glob("copy*")) == []


def test_nothing_half_stays_where_there_is_no_room(applied: Mgw) -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
    try:
        with pytest.raises(HubError) as refused:
            back_up(f"sqlite:///{applied.folder}/hub.db", str(applied.folder / "copy.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
    assert refused.value.cause.startswith(f"{applied.folder}/copy.db cannot be written: ")
    assert "with room for the whole hub" in refused.value.cure
    assert list(applied.folder.glob("copy*")) == []
