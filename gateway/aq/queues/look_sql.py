"""Where a message is, and who waits for it: for those who look, and take nothing."""

from __future__ import annotations

from mgw.gateway.aq.store.statements import Db

__all__ = ["home", "readers"]


def home(db: Db, number: int) -> int | None:
    """The id of the queue that has a message now; None: it has left the hub."""
    found = db.scalar("SELECT queue_id FROM aq_message WHERE id = ?", (number,))
    return None if found is None else int(found)


def readers(db: Db, number: int) -> list[tuple[str, str, int, int]]:
    """The consumers that a message is, or was, for: name, address, state and failed attempts of each."""
    return [
        (name or "", address, int(state), int(attempts))
        for name, address, state, attempts in db.rows(
            "SELECT c.name, c.address, e.state, e.attempts FROM aq_entry e JOIN aq_consumer c ON c.id = e.consumer_id"
            " WHERE e.message_id = ? ORDER BY c.id",
            (number,),
        )
    ]
