"""Messages are counted where they are stored and deleted (gateway/aq/store/totals_sql.py)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATEMENT = re.compile(r"DELETE FROM aq_message\b|INSERT INTO aq_message\b|insert\(\"aq_message\"")


def test_sqlite_counts_every_message_that_is_stored_or_deleted() -> None:
    found = Counter(
        path.relative_to(ROOT / "gateway/aq").as_posix()
        for folder in ("gateway", "pipelines")
        for path in (ROOT / folder).rglob("*.py")
        for _ in STATEMENT.findall(path.read_text())
    )
    # A statement more has to count, too: call totals_sql.delete_messages, or totals_sql.came.
    assert found == {
        "store/totals_sql.py": 1,  # delete_messages
        "queues/catalog_sql.py": 1,  # a queue that is dropped, with its numbers
        "queues/messages_sql.py": 4,  # store; what is consumed; two statements for PostgreSQL, whose triggers count
    }
