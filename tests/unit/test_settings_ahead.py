"""The settings that a call reads with a queue are those of the next call that asks for them, and of no other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.aq.queues.catalog_sql import queue_settings, require_queue
from mgw.gateway.aq.store.queue_settings import Hold, SettingsAhead
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.state.gateway_hub import open_hub


@pytest.mark.parametrize("hold", get_args(Hold))
def test_settings_are_read_with_the_queue_and_used_once(tmp_path: Path, hold: Hold) -> None:
    with closing(open_hub(f"sqlite:///{tmp_path}/hub.db", create=True)) as hub:
        admin = QueueAdmin(hub)
        admin.create_queue_table("t", queue_payload_type="RAW")
        for name in ("a", "b"):
            admin.create_queue(name, "t", max_retries=7, retry_delay=3)
        admin.start_queue("a")
        with hub.read() as conn:
            db = Db(conn)
            a, b = require_queue(db, "a", hold=hold), require_queue(db, "b")
            plain = queue_settings(db, a)
            assert db.settings is None, "whoever asks without a purpose takes them away"
            require_queue(db, "a", hold=hold)
            ahead = db.settings
            assert isinstance(ahead, SettingsAhead)
            assert (ahead.queue_id, ahead.hold, ahead.held) == (a.id, hold, True)
            assert ahead.settings[:6] == plain[:6] == (True, True, 7, 3.0, 0.0, False)
            assert queue_settings(db, a, hold=hold) is ahead.settings
            assert db.settings is None
            require_queue(db, "a", hold=hold)
            assert not queue_settings(db, b, hold=hold).enqueue_enabled, "those of another queue"
