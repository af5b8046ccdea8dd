"""Transaction groups against a model: two sessions, one queue by priority, any order of calls."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, Navigation
from mgw.gateway.aq.queues.codec import message_number
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.examples import fewer

WHO = st.integers(0, 1)
EXAMPLES = os.environ.get("MGW_PROPERTY_EXAMPLES")
pytestmark = [pytest.mark.timeout(7200 if EXAMPLES else 180), pytest.mark.examples]
_queues = itertools.count(1)


class _Session:
    """What the model knows of a session."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []  # id, priority
        self.taken: set[int] = set()
        self.held: set[int] = set()  # groups
        self.place: tuple[tuple[int, int], int, int, int, bool] | None = None  # key, group, last id, snapshot, locked


class GroupModel(RuleBasedStateMachine):
    """``groups``: group -> (priority of its first message, ids that are left)."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub = hub
        self.admin = QueueAdmin(hub)
        self.queue = f"q{next(_queues)}"
        self.table = f"{self.queue}_t"
        self.admin.create_queue_table(self.table, sort_list="PRIORITY,ENQ_TIME", message_grouping="TRANSACTIONAL")
        self.admin.create_queue(self.queue, self.table, max_retries=1000)
        self.admin.start_queue(self.queue)
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
        ids = self.sessions[who].enqueue_array(self.queue, [Message("x", priority=p) for p in priorities])
        numbers = [self.number(identity) for identity in ids]
        self.model[who].sent += zip(numbers, priorities, strict=True)
        self.last_id = numbers[-1]

    def visible(self, who: int) -> dict[int, tuple[int, list[int]]]:
        """The groups that a session can find; on PostgreSQL what it has enqueued itself is one of them."""
        sent = self.model[who].sent
        if not sent or not self.hub.postgresql:
            return self.groups
        return self.groups | {sent[0][0]: (sent[0][1], [number for number, _ in sent])}

    def key(self, who: int, group: int) -> tuple[int, int]:
        return (self.visible(who)[group][0], group)

    def left(self, who: int, group: int) -> list[int]:
        return [each for each in self.visible(who)[group][1] if each not in self.model[who].taken]

    def first_free(self, who: int, after: tuple[int, int] | None, upto: int) -> int | None:
        other = self.model[1 - who].held
        for group in sorted(self.visible(who), key=partial(self.key, who)):
            if group in other or not self.left(who, group) or (after is not None and self.key(who, group) <= after):
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
            if group in self.visible(who) and (locked or group not in self.model[1 - who].held):
                ids = [each for each in self.left(who, group) if each > last][:size]
            if not ids:
                with pytest.raises(AqError, match=r"^ORA-25235: "):
                    session.dequeue_array(self.queue, options, size)
                return
        else:
            after, upto = (place[0], place[3]) if place else (None, self.last_id)
            found = self.first_free(who, after, upto)
            if found is None:
                with pytest.raises(AqError, match=r"^ORA-25228: "):
                    session.dequeue_array(self.queue, options, size)
                own.place = None
                return
            key, group, ids = self.key(who, found), found, self.left(who, found)[:size]
        got = session.dequeue_array(self.queue, options, size)
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
        rest = [number for number, _ in own.sent if number not in own.taken]
        if rest:
            self.groups[own.sent[0][0]] = (own.sent[0][1], rest)
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
        report = time_manager.run_once(self.hub)
        assert (report.made_ready, report.expired, report.returned) == (0, 0, 0)

    @invariant()
    def a_group_is_in_one_pair_of_hands(self) -> None:
        with self.hub.read() as conn:
            sql = f"""SELECT m.id, m.group_id, m.state, m.claim FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id
                       WHERE q.name = '{self.queue}'"""
            rows = conn.exec_driver_sql(sql).fetchall()
        assert {row[0] for row in rows} == {each for _, ids in self.groups.values() for each in ids}
        hands: dict[int, set[int | None]] = {}
        for _, group, _, claim in rows:
            hands.setdefault(group, set()).add(claim)
        assert all(len(claims) == 1 for claims in hands.values())

    def teardown(self) -> None:
        for session in self.sessions:
            session.close()
        self.admin.drop_queue_table(self.table, force=True)


def run(url: str, examples: int) -> None:
    with Hub.open(url, create=True, durability="fast") as hub:
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            partial(GroupModel, hub),
            settings=settings(
                max_examples=int(EXAMPLES or fewer(examples)),
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


def test_groups_on_sqlite_are_those_of_the_model(tmp_path: Path) -> None:
    run(f"sqlite:///{tmp_path}/hub.db", 40)


@pytest.mark.postgresql
def test_groups_on_postgresql_are_those_of_the_model(postgresql: PostgreSQL) -> None:
    database = postgresql.create_database("group_model")
    run(f"{database}?options=-clock_timeout%3D3000", 20)
    postgresql.drop_database("group_model")
