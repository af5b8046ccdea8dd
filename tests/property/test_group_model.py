"""Transaction groups against a model: two sessions, one queue by priority, any order of calls."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.aq import monitor
from gateway.aq.admin import QueueAdmin
from gateway.aq.codec import message_number
from gateway.aq.hub import Hub
from gateway.aq.model import DequeueOptions, Navigation
from transforms.errors import AqError
from transforms.message import Message

WHO = st.integers(0, 1)
EXAMPLES = int(os.environ.get("MGW_PROPERTY_EXAMPLES", "40"))


class _Session:
    """What the model knows of a session."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []  # id, priority
        self.taken: set[int] = set()
        self.held: set[int] = set()  # groups
        self.place: tuple[tuple[int, int], int, int, int, bool] | None = None  # key, group, last id, snapshot, locked


class GroupModel(RuleBasedStateMachine):
    """``groups``: group -> (priority of its first message, ids that are left)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mgw-hub-"))
        self.hub = Hub.open(f"sqlite:///{self.folder}/hub.db", create=True, durability="fast")
        admin = QueueAdmin(self.hub)
        admin.create_queue_table("t", sort_list="PRIORITY,ENQ_TIME", message_grouping="TRANSACTIONAL")
        admin.create_queue("q", "t", max_retries=1000)
        admin.start_queue("q")
        self.sessions = [self.hub.session() for _ in range(2)]
        self.model = [_Session(), _Session()]
        self.groups: dict[int, tuple[int, list[int]]] = {}
        self.failed: dict[int, int] = {}
        self.last_id = 0

    def number(self, identity: bytes) -> int:
        found = message_number(self.hub.hub_id, identity)
        assert found is not None
        return found

    @rule(who=WHO, priorities=st.lists(st.integers(-1, 1), min_size=1, max_size=3))
    def enqueue(self, who: int, priorities: list[int]) -> None:
        ids = self.sessions[who].enqueue_array("q", [Message("x", priority=p) for p in priorities])
        numbers = [self.number(identity) for identity in ids]
        self.model[who].sent += zip(numbers, priorities, strict=True)
        self.last_id = numbers[-1]

    def key(self, group: int) -> tuple[int, int]:
        return (self.groups[group][0], group)

    def left(self, who: int, group: int) -> list[int]:
        return [each for each in self.groups[group][1] if each not in self.model[who].taken]

    def first_free(self, who: int, after: tuple[int, int] | None, upto: int) -> int | None:
        other = self.model[1 - who].held
        for group in sorted(self.groups, key=self.key):
            if group in other or not self.left(who, group) or (after is not None and self.key(group) <= after):
                continue
            if self.left(who, group)[0] <= upto or group in self.model[who].held:
                return group
        return None

    @rule(
        who=WHO,
        navigation=st.sampled_from([Navigation.FIRST_MESSAGE, Navigation.NEXT_MESSAGE, Navigation.NEXT_TRANSACTION]),
        size=st.integers(1, 3),
    )
    def dequeue(self, who: int, navigation: Navigation, size: int) -> None:
        session, own = self.sessions[who], self.model[who]
        options = DequeueOptions(navigation=navigation, wait=0)
        place = own.place if navigation is not Navigation.FIRST_MESSAGE else None
        if place is not None and navigation is Navigation.NEXT_MESSAGE:
            key, group, last, upto, locked = place
            ids = []
            if group in self.groups and (locked or group not in self.model[1 - who].held):
                ids = [each for each in self.left(who, group) if each > last][:size]
            if not ids:
                with pytest.raises(AqError, match=r"^ORA-25235: "):
                    session.dequeue_array("q", options, size)
                return
        else:
            after, upto = (place[0], place[3]) if place else (None, self.last_id)
            found = self.first_free(who, after, upto)
            if found is None:
                with pytest.raises(AqError, match=r"^ORA-25228: "):
                    session.dequeue_array("q", options, size)
                own.place = None
                return
            key, group, ids = self.key(found), found, self.left(who, found)[:size]
        got = session.dequeue_array("q", options, size)
        assert [self.number(one.msgid) for one in got] == ids
        assert [one.message.attempts for one in got] == [self.failed.get(each, 0) for each in ids]
        assert {one.message.priority for one in got} == {key[0]}
        assert {one.transaction_group for one in got} == {str(group)}
        own.held.add(group)
        own.taken.update(ids)
        own.place = (key, group, ids[-1], upto, True)

    @rule(who=WHO)
    def commit(self, who: int) -> None:
        self.sessions[who].commit()
        own = self.model[who]
        for group in list(self.groups):
            priority, ids = self.groups[group]
            rest = [each for each in ids if each not in own.taken]
            if rest:
                self.groups[group] = (priority, rest)
            else:
                del self.groups[group]
        if own.sent:
            self.groups[own.sent[0][0]] = (own.sent[0][1], [number for number, _ in own.sent])
        place = own.place
        own.sent, own.taken, own.held = [], set(), set()
        own.place = (*place[:4], False) if place else None

    @rule(who=WHO)
    def roll_back(self, who: int) -> None:
        self.sessions[who].rollback()
        for number in self.model[who].taken:
            self.failed[number] = self.failed.get(number, 0) + 1
        self.model[who] = _Session()

    @rule()
    def pass_time(self) -> None:
        report = monitor.run_once(self.hub)
        assert (report.made_ready, report.expired, report.returned) == (0, 0, 0)

    @invariant()
    def a_group_is_in_one_pair_of_hands(self) -> None:
        with self.hub.read() as conn:
            rows = conn.exec_driver_sql("SELECT id, group_id, state, claim FROM aq_message").fetchall()
        assert {row[0] for row in rows} == {each for _, ids in self.groups.values() for each in ids}
        hands: dict[int, set[int | None]] = {}
        for _, group, _, claim in rows:
            hands.setdefault(group, set()).add(claim)
        assert all(len(claims) == 1 for claims in hands.values())

    def teardown(self) -> None:
        for session in self.sessions:
            session.close()
        self.hub.close()
        shutil.rmtree(self.folder)


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
