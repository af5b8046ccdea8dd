"""The hub against a model in twenty lines: two sessions, one priority queue, any order of calls."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.aq import monitor
from gateway.aq.admin import QueueAdmin
from gateway.aq.hub import Hub
from gateway.aq.model import DequeueOptions, Navigation
from transforms.errors import AqError
from transforms.message import Message

MAX_RETRIES = 1
WHO = st.integers(0, 1)
NEXT = DequeueOptions(navigation=Navigation.FIRST_MESSAGE, wait=0)


class HubModel(RuleBasedStateMachine):
    """``ready``: what anybody may take, with its priority; ``failed``: attempts; the rest is per session."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mgw-hub-"))
        self.hub = Hub.open(f"sqlite:///{self.folder}/hub.db", create=True, durability="fast")
        admin = QueueAdmin(self.hub)
        admin.create_queue_table("t", sort_list="PRIORITY,ENQ_TIME")
        admin.create_queue("q", "t", max_retries=MAX_RETRIES)
        admin.start_queue("q")
        self.sessions = [self.hub.session() for _ in range(2)]
        self.ready: dict[bytes, int] = {}
        self.failed: dict[bytes, int] = {}
        self.sent: list[dict[bytes, int]] = [{}, {}]
        self.taken: list[dict[bytes, int]] = [{}, {}]
        self.marks: list[list[tuple[dict[bytes, int], dict[bytes, int]]]] = [[], []]
        self.consumed: set[bytes] = set()
        self.exceptions: set[bytes] = set()

    @rule(who=WHO, priorities=st.lists(st.integers(-2, 2), min_size=1, max_size=4))
    def enqueue(self, who: int, priorities: list[int]) -> None:
        ids = self.sessions[who].enqueue_array("q", [Message(str(p), priority=p) for p in priorities])
        self.sent[who].update(zip(ids, priorities, strict=True))

    @rule(who=WHO, size=st.integers(1, 3))
    def dequeue(self, who: int, size: int) -> None:
        expected = sorted(self.ready, key=lambda msgid: (self.ready[msgid], msgid))[:size]
        if not expected:
            with pytest.raises(AqError, match=r"^ORA-25228: "):
                self.sessions[who].dequeue_array("q", NEXT, size)
            return
        found = self.sessions[who].dequeue_array("q", NEXT, size)
        assert [one.msgid for one in found] == expected
        assert [one.message.attempts for one in found] == [self.failed.get(msgid, 0) for msgid in expected]
        self.taken[who].update((msgid, self.ready.pop(msgid)) for msgid in expected)

    @rule(who=WHO)
    def commit(self, who: int) -> None:
        self.sessions[who].commit()
        self.ready.update(self.sent[who])
        self.consumed.update(self.taken[who])
        self.sent[who], self.taken[who], self.marks[who] = {}, {}, []

    def _undo(self, who: int) -> None:
        self._fail(self.taken[who])
        self.sent[who], self.taken[who], self.marks[who] = {}, {}, []

    def _fail(self, taken: dict[bytes, int]) -> None:
        for msgid, priority in taken.items():
            self.failed[msgid] = self.failed.get(msgid, 0) + 1
            if self.failed[msgid] > MAX_RETRIES:
                self.exceptions.add(msgid)
            else:
                self.ready[msgid] = priority

    @rule(who=WHO)
    def roll_back(self, who: int) -> None:
        self.sessions[who].rollback()
        self._undo(who)

    @rule(who=WHO)
    def savepoint(self, who: int) -> None:
        self.sessions[who].savepoint(f"s{len(self.marks[who])}")
        self.marks[who].append((dict(self.sent[who]), dict(self.taken[who])))

    @rule(who=WHO, which=st.integers(0, 3))
    def roll_back_to(self, who: int, which: int) -> None:
        if which >= len(self.marks[who]):
            with pytest.raises(AqError, match=r"^ORA-01086: "):
                self.sessions[who].rollback_to(f"s{which}")
            return
        self.sessions[who].rollback_to(f"s{which}")
        sent, taken = self.marks[who][which]
        del self.marks[who][which + 1 :]
        self._fail({msgid: priority for msgid, priority in self.taken[who].items() if msgid not in taken})
        self.sent[who], self.taken[who] = dict(sent), dict(taken)

    @rule(who=WHO)
    def close(self, who: int) -> None:
        self.sessions[who].close()
        self._undo(who)
        self.sessions[who] = self.hub.session()

    @precondition(lambda self: self.ready)
    @rule()
    def pass_time(self) -> None:
        report = monitor.run_once(self.hub)
        assert (report.made_ready, report.expired, report.removed, report.returned) == (0, 0, 0, 0)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        with self.hub.read() as conn:
            rows = conn.exec_driver_sql('SELECT "MSG_ID", "MSG_STATE", "IN_TRANSACTION" FROM "AQ$T"').fetchall()
        by_id = {bytes.fromhex(row[0]): (row[1], bool(row[2])) for row in rows}
        in_hand = {msgid for taken in self.taken for msgid in taken}
        assert set(by_id) == set(self.ready) | in_hand | self.exceptions
        assert {msgid for msgid, state in by_id.items() if state[0] == "EXPIRED"} == self.exceptions
        assert {msgid for msgid, state in by_id.items() if state[1]} == in_hand
        assert not self.consumed & set(by_id)

    def teardown(self) -> None:
        for session in self.sessions:
            session.close()
        self.hub.close()
        shutil.rmtree(self.folder)


TestHubModel = HubModel.TestCase
TestHubModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
