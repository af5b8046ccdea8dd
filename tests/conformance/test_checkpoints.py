"""The log of an SQLite hub is copied into the database next to the commits, not by them."""

from __future__ import annotations

import gc
import resource
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.store.wal import LOG_PAGES, Checkpoints
from mgw.gateway.aq.store.write_lock import writer_lock
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase
from tests.support.waiting import eventually
from tests.unit.test_support import open_files

PAGE = 4096 + 24  # bytes in the log
MANY = 100  # commits that have the hub begin with it


def _threads() -> set[threading.Thread]:
    """Those that copy logs, of whichever hub of this process."""
    return {each for each in threading.enumerate() if each.name == "mgw-hub-checkpoints"}


class TestCheckpoints(HubCase):
    """With a hub of its own for each test."""

    @pytest.fixture
    def hub_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/hub.db"

    makes_its_hub = True

    def test_log_begins_again_before_a_commit_would_copy_it(self) -> None:
        self.queue()
        begun = self._begun()
        with self.hub.session() as session:

            def begun_again() -> bool:
                for _ in range(100):
                    session.enqueue("orders", Message("x" * 200))
                    session.commit()
                return self._begun() >= begun + 3

            eventually(begun_again, what="a log that begins again")
        assert self._log().stat().st_size < LOG_PAGES * PAGE  # at which a commit copies it

    def test_log_grows_while_somebody_reads_and_begins_again_afterwards(self) -> None:
        self.queue()
        self._write(MANY)
        with closing(sqlite3.connect(self.hub.path or "", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM aq_message").fetchone()
            before = self._log().stat().st_size
            eventually(lambda: self._write(50) or self._log().stat().st_size > before + 1000 * PAGE, what="a long log")
            begun = self._begun()
        eventually(lambda: self._write(10) or self._begun() > begun, what="a log that begins again")

    def test_thread_ends_with_the_hub(self) -> None:
        self.queue()
        others = _threads()
        self._write(MANY)
        (thread,) = _threads() - others
        self.hub.close()
        assert not thread.is_alive()
        assert not self._log().exists()

    def test_few_commits_need_no_thread(self) -> None:
        self.queue()
        others = set(threading.enumerate())
        self._write(5)
        assert set(threading.enumerate()) <= others

    def test_where_no_thread_can_start_what_was_committed_stays_committed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.queue()

        def refuse(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        self._write(MANY)
        monkeypatch.undo()
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT count(*) FROM aq_message").scalar() == MANY
        self.hub.close()

    def test_thread_ends_with_a_hub_that_nobody_closed(self) -> None:
        self.queue()
        self.hub.close()
        others = _threads()
        hub = Hub.open(self.url)
        with hub.session() as session:
            for _ in range(MANY):
                session.enqueue("orders", Message("x"))
                session.commit()
        (thread,) = _threads() - others
        del hub, session

        def ended() -> bool:
            gc.collect()
            return not thread.is_alive()

        eventually(ended, what="no thread")

    def test_after_an_error_the_file_is_not_open_until_something_is_written(self, tmp_path: Path) -> None:
        path = str(tmp_path / "other.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE t (x)")
        passes: list[Checkpoints] = []

        class Failing(Checkpoints):
            def _copy(self, connection: sqlite3.Connection) -> None:
                passes.append(self)
                raise sqlite3.OperationalError("database or disk is full")

        checkpoints = Failing(path, writer_lock(path))
        while checkpoints._thread is None:  # what is written later has it try again
            checkpoints.committed()
        eventually(lambda: passes, what="a pass")
        eventually(lambda: path not in open_files(), what="the file is closed")
        looks = 0

        def looked_often() -> bool:
            nonlocal looks
            assert path not in open_files()
            looks += 1
            return looks == 20

        eventually(looked_often, what="twenty looks", tolerate=())
        number = len(passes)
        checkpoints.close()
        assert len(passes) == number

    def test_full_disk_is_told_to_who_commits_and_ends_nothing(self) -> None:
        self.queue()
        self._write(MANY)
        with _largest_file(Path(self.hub.path or "").stat().st_size), pytest.raises(HubError, match="cannot be"):
            eventually(lambda: self._write(50), what="a full disk")
        begun = self._begun()
        eventually(lambda: self._write(10) or self._begun() > begun, what="a log that begins again")

    def _write(self, commits: int) -> bool:
        with self.hub.session() as session:
            for _ in range(commits):
                session.enqueue("orders", Message("x" * 2000))
                session.commit()
        return False

    def _log(self) -> Path:
        return Path(f"{self.hub.path}-wal")

    def _begun(self) -> int:
        """How often the log has begun again, as its header tells."""
        return int.from_bytes(self._log().read_bytes()[12:16], "big")


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """No file of this process grows beyond that."""
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
