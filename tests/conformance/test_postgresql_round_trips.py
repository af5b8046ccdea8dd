"""How often a batch waits for a PostgreSQL server: counted in the bytes that go both ways, whoever sends them."""

from __future__ import annotations

import select
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.queues.search_bounds import Heads
from mgw.gateway.aq.store.connection_state import state_of
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.record import Completed
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.run_state import Counts, Plan
from mgw.links.contract import Batch, Delivery, Mark, Position
from mgw.transforms.errors import GatewayError, HubError, LeaseLost
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.ports import LOOPBACK

pytestmark = pytest.mark.postgresql
BATCH = 100
TOKEN = 7


class Counted:
    """Forwards connections to a server. A round trip begins where a client sends after the server has sent."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        self.trips: list[int] = []  # of each connection
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((LOOPBACK, self._target))
            self.trips.append(0)
            threading.Thread(target=self._forward, args=(client, server, len(self.trips) - 1), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, number: int) -> None:
        answered = True
        with client, server, suppress(OSError):
            while True:
                readable, _, _ = select.select([client, server], [], [])
                source = client if client in readable else server
                if not (data := source.recv(1 << 20)):
                    return
                if source is client and answered:
                    self.trips[number] += 1
                answered = source is server
                (server if source is client else client).sendall(data)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Stand:
    """A hub behind the counter, with a job from a link to queue H, one from it to a link, and an agent's token."""

    def __init__(self, hub: Hub, counted: Counted) -> None:
        self.hub, self._counted = hub, counted
        queues = QueueAdmin(hub)
        queues.create_queue_table("QT")
        queues.create_queue("H", "QT")
        queues.start_queue("H")
        admin = GatewayAdmin(hub)
        admin.create_msgsystem_link("mem", "MEMORY", {"broker": "none"})
        admin.register_foreign_queue("F", "mem")
        admin.create_job("into", "INBOUND", "F@mem", "H")
        with hub.write() as conn:
            self.job = conn.execute(sa.text("SELECT id FROM gw_job")).scalar_one()
            conn.execute(sa.text("UPDATE gw_agent SET token = :t"), {"t": TOKEN})
            self.agent = conn.execute(sa.text("SELECT name_key FROM gw_agent")).scalar_one()
        with hub.read() as conn:
            self.queue = transfer.resolve(conn, "H")

    def into(self, positions: tuple[str | None, str], batch: int = BATCH) -> None:
        """What the transaction of a batch from a link does."""
        messages = [Message(b"x" * 200) for _ in range(batch)]
        read = Batch(
            tuple(Delivery(message, None, None, f"o{at}", False) for at, message in enumerate(messages)),
            positions=(Position("0", *positions),),
            marks=(Mark("m", "1"),),
        )
        with self.hub.write() as conn:
            lease.check_owner(conn, self.agent, TOKEN)
            put = transfer.put(conn, self.queue, messages)
            run_state.advance_positions(conn, self.job, read.positions, now=1)
            run_state.write_marks(conn, self.job, read.marks, now=1)
            counts = Counts(propagated=batch)
            kept: Any = list(read.deliveries)
            ledger.record_received(
                conn,
                self.job,
                read,
                offered=kept,
                kept=kept,
                msgids=put.msgids,
                refused=(),
                counts=counts,
                read=1,
                now=1,
            )
            run_state.count(conn, self.job, counts, now=1)

    def out(self, done: Plan | None, sequence: int) -> Plan:
        """What the transaction does that completes a plan and makes the next one."""
        with self.hub.write() as conn:
            lease.check_owner(conn, self.agent, TOKEN)
            if done is not None:
                transfer.complete(conn, self.queue, None, done.ids)
                ledger.record_completed(conn, self.job, [Completed(done.sequence, done.ids)], now=1)
                run_state.delete_plans(conn, self.job, [done.sequence])
                run_state.count(conn, self.job, Counts(propagated=len(done.ids)), now=1)
            plan = Plan(sequence, tuple(each.id for each in transfer.claim(conn, self.queue, None, BATCH)))
            run_state.add_plans(conn, self.job, [plan], token=TOKEN, now=1)
        return plan

    def fenced(self, counts: Counts) -> None:
        """A transaction in which nothing but the commit can say that the agent was lost."""
        with self.hub.write() as conn:
            lease.check_owner(conn, self.agent, TOKEN)
            run_state.count(conn, self.job, counts, now=1)

    def trips(self, action: Any, *args: Any) -> int:
        before = list(self._counted.trips)
        action(*args)
        return max(after - first for after, first in zip(self._counted.trips, before, strict=False))


@contextmanager
def _stand(server: PostgreSQL) -> Iterator[Stand]:
    name = f"trips_{uuid.uuid4().hex[:12]}"
    url = server.create_database(name)
    counted = Counted(server.port)
    hub = open_hub(url.replace(f":{server.port}/", f":{counted.port}/"), create=True)
    try:
        yield Stand(hub, counted)
    finally:
        hub.close()
        counted.close()
        server.drop_database(name)


@pytest.fixture
def stand(postgresql: PostgreSQL) -> Iterator[Stand]:
    with _stand(postgresql) as stand:
        yield stand


def test_a_batch_into_the_hub_waits_four_times_for_the_server(stand: Stand) -> None:
    stand.into((None, "0"))
    stand.into(("0", "1"))
    # Lease, settings and ids; the beginning and the end of COPY; everything else and COMMIT. A position that is
    # compared has to be right before COMMIT is sent.
    assert stand.trips(stand.into, ("1", "2")) <= 5
    with stand.hub.read() as conn:
        assert transfer.backlog(conn, stand.queue).ready == 3 * BATCH


def test_a_batch_out_of_the_hub_waits_four_times_for_the_server(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heads, "found", lambda *_: None)  # looks now and then, on a connection of its own
    for at in range(5):
        stand.into((str(at - 1) if at else None, str(at)))
    plan = stand.out(None, 1)
    plan = stand.out(plan, 2)
    found: list[Plan] = []
    # Lease and settings; completion and settings; claim; plan and COMMIT.
    assert stand.trips(lambda: found.append(stand.out(plan, 3))) <= 4
    with stand.hub.read() as conn:
        counts = transfer.backlog(conn, stand.queue)
        assert (counts.ready, counts.claimed) == (2 * BATCH, BATCH)
        assert [each.sequence for each in run_state.load_plans(conn, stand.job)] == [3]
        assert [each.messages for each in ledger.read(conn, stand.job)][-2:] == [BATCH, BATCH]


def test_a_process_that_lost_its_agent_stores_nothing(stand: Stand) -> None:
    with stand.hub.write() as conn:
        conn.execute(sa.text("UPDATE gw_agent SET token = token + 1"))
    with pytest.raises(LeaseLost):
        stand.into((None, "0"))
    with pytest.raises(LeaseLost):
        stand.fenced(Counts(propagated=5))
    with stand.hub.read() as conn:
        assert transfer.backlog(conn, stand.queue).ready == 0
        assert conn.execute(sa.text("SELECT propagated FROM gw_job_state")).scalar_one() == 0


def test_a_position_that_somebody_else_moved_stores_nothing(stand: Stand) -> None:
    stand.into((None, "0"))
    with pytest.raises(HubError, match="position of partition 0 was changed"):
        stand.into(("5", "6"))
    with stand.hub.read() as conn:
        assert transfer.backlog(conn, stand.queue).ready == BATCH
        assert run_state.load_positions(conn, stand.job)["0"] == "0"


def test_messages_that_are_gone_complete_nothing(stand: Stand) -> None:
    stand.into((None, "0"))
    plan = stand.out(None, 1)
    with stand.hub.write() as conn:
        transfer.release(conn, stand.queue, None, plan.ids[:3])
    with pytest.raises(GatewayError, match=f"3 of {BATCH} messages planned from queue .* are missing"):
        stand.out(plan, 2)
    with stand.hub.read() as conn:
        assert [each.sequence for each in run_state.load_plans(conn, stand.job)] == [1]
        assert transfer.backlog(conn, stand.queue).ready == 3


def test_statements_that_wait_keep_their_place_before_those_of_sqlalchemy(stand: Stand) -> None:
    with stand.hub.write() as conn:
        run_state.count(conn, stand.job, Counts(propagated=5), now=1)
        seen = conn.execute(sa.text("SELECT propagated FROM gw_job_state")).scalar_one()
        conn.execute(sa.text("UPDATE gw_job_state SET propagated = 10"))
        run_state.count(conn, stand.job, Counts(propagated=1), now=1)
    assert seen == 5
    with stand.hub.read() as conn:
        assert conn.execute(sa.text("SELECT propagated FROM gw_job_state")).scalar_one() == 11


def test_statements_that_wait_go_with_their_transaction(stand: Stand) -> None:
    def fail() -> None:
        with stand.hub.write() as conn:
            run_state.count(conn, stand.job, Counts(propagated=5), now=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with stand.hub.write() as conn:
        state = state_of(conn)
        assert state is not None
        assert Db(conn).scalar("SELECT propagated FROM gw_job_state") == 0


def test_a_statement_that_fails_takes_those_after_it_and_the_commit_with_it(stand: Stand) -> None:
    def fail() -> None:
        with stand.hub.write() as conn:
            db = Db(conn)
            db.later("UPDATE gw_job_state SET propagated = 1")
            db.later("UPDATE gw_job_state SET propagated = 1 / (propagated - 1)")
            db.later("UPDATE gw_job_state SET propagated = 3")

    with pytest.raises(HubError, match="refused an operation"):
        fail()
    for number in range(12):  # what the failure kept from being prepared is prepared all the same
        with stand.hub.write() as conn:
            db = Db(conn)
            db.later("UPDATE gw_job_state SET propagated = ?", (number,))
            db.later("UPDATE gw_job_state SET propagated = propagated + ?", (1,))
            assert db.scalar("SELECT propagated FROM gw_job_state WHERE job_id = ?", (stand.job,)) == number + 1


@pytest.mark.parametrize("round_of_failure", range(4, 8))
def test_a_failure_where_statements_are_prepared_is_forgotten(stand: Stand, round_of_failure: int) -> None:
    for number in range(10):
        try:
            with stand.hub.write() as conn:
                db = Db(conn)
                db.later("UPDATE gw_job_state SET propagated = 7 / ?", (0 if number == round_of_failure else 1,))
                db.later("UPDATE gw_job_state SET filtered = ?", (number,))
        except HubError:
            assert number == round_of_failure
    with stand.hub.read() as conn:
        assert conn.execute(sa.text("SELECT filtered FROM gw_job_state")).scalar_one() == 9


def test_what_is_prepared_stays_so_when_something_is_dropped_or_rolled_back(stand: Stand) -> None:
    def fail() -> None:
        with stand.hub.write() as conn:
            conn.execute(sa.text("SELECT propagated FROM gw_job_state"))
            Db(conn).run("UPDATE gw_job_state SET filtered = ?", (1,))
            raise ZeroDivisionError

    for number in range(20):
        with pytest.raises(ZeroDivisionError):
            fail()
        with stand.hub.write() as conn:
            conn.execute(sa.text("CREATE TABLE gone (n int)"))
            conn.execute(sa.text("DROP TABLE gone"))
            Db(conn).run("UPDATE gw_job_state SET filtered = ?", (number,))
    with stand.hub.read() as conn:
        assert Db(conn).scalar("SELECT filtered FROM gw_job_state") == 19


def test_what_was_to_be_prepared_in_a_transaction_that_is_given_up_is_prepared_later(stand: Stand) -> None:
    def fail() -> None:
        with stand.hub.write() as conn:
            Db(conn).later("UPDATE gw_job_state SET filtered = ?", (1,))
            raise ZeroDivisionError

    for _ in range(12):
        with pytest.raises(ZeroDivisionError):
            fail()
    with stand.hub.write() as conn:
        assert Db(conn).run("UPDATE gw_job_state SET filtered = ?", (2,)) == 1


def test_values_of_every_kind_come_back_as_they_went(stand: Stand) -> None:
    with stand.hub.write() as conn:
        db = Db(conn)
        for _ in range(8):  # before and after the statement is prepared
            (row,) = db.rows(
                "SELECT ?::bigint, ?::double precision, ?::text, ?::bytea, ?::bigint[], ?::text[], ?::text",
                (2**62, 0.1, "ü%s?", b"\0\xff", [1, -(2**40)], ["a", "b"], None),
            )
            assert row == (2**62, 0.1, "ü%s?", b"\0\xff", [1, -(2**40)], ["a", "b"], None)
        with pytest.raises(Exception, match="NUL"):
            db.rows("SELECT ?::text", ("a\0b",))
        assert db.scalar("SELECT 1 % 2") == 1
        assert db.rows("SELECT id FROM aq_message WHERE id {ids}", (db.ids([]),)) == []
        assert db.rows("SELECT id FROM aq_message WHERE id {ids}", (db.ids(range(10**5)),)) == []


def test_a_server_process_that_ends_in_a_round_trip_is_told_as_an_unavailable_hub(stand: Stand) -> None:
    def fail() -> None:
        with stand.hub.write() as conn:
            db = Db(conn)
            db.later("UPDATE gw_job_state SET propagated = 1")
            db.rows("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)")

    with pytest.raises(HubError, match="cannot be reached"):
        fail()
    with stand.hub.write() as conn:
        assert Db(conn).scalar("SELECT propagated FROM gw_job_state") == 0


def test_plans_are_compressed_with_lz4_where_the_server_has_it(stand: Stand) -> None:
    with stand.hub.write() as conn:
        has = "SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
        if not Db(conn).scalar(has):
            pytest.skip("this server was built without lz4")
        plan = Plan(1, tuple(range(10**6, 10**6 + 500)))
        run_state.add_plans(conn, stand.job, [plan], token=TOKEN, now=1)
        assert Db(conn).scalar("SELECT pg_column_compression(message_ids) FROM gw_plan") == "lz4"
    with stand.hub.read() as conn:
        assert run_state.load_plans(conn, stand.job) == [plan]
