"""A hub that was dumped and restored with PostgreSQL's own tools, as docs/how-to/postgresql.md shows it, works on."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mgw.gateway.aq import NO_WAIT, DequeueOptions, QueueAdmin
from mgw.gateway.services.upgrade import look
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.brokers.postgresql import program

TILL = DequeueOptions(consumer_name="till", wait=NO_WAIT)


def test_a_hub_is_dumped_and_restored_with_its_messages(postgresql: PostgreSQL, tmp_path: Path) -> None:
    url = postgresql.create_database("dumped")
    with open_hub(url, create=True) as hub:
        admin = QueueAdmin(hub)
        admin.create_queue_table("orders_table", multiple_consumers=True)
        admin.create_queue("orders", "orders_table")
        admin.start_queue("orders")
        admin.add_subscriber("orders", "till", rule="priority < 3")
        with hub.session() as session:
            session.enqueue("orders", Message(body="taken", priority=2))
            session.enqueue("orders", Message(body="kept", priority=1))
            session.commit()
            assert session.dequeue("orders", TILL).message.body == "taken"
            session.commit()

    where = ["--host", postgresql.host, "--port", str(postgresql.port), "--username", postgresql.username]
    dump = str(tmp_path / "hub.dump")
    subprocess.run([program("pg_dump"), *where, "--format=custom", f"--file={dump}", "dumped"], check=True)
    restored = postgresql.create_database("restored")
    subprocess.run([program("pg_restore"), *where, "--dbname=restored", "--no-owner", dump], check=True)

    assert not look(restored).needed
    with open_hub(restored) as hub, hub.session() as session:
        assert session.dequeue("orders", TILL).message.body == "kept"
        session.enqueue("orders", Message(body="new", priority=1))
        session.commit()
        assert session.dequeue("orders", TILL).message.body == "new"
