"""The history of jobs: what each did is kept in the hub, news only, coarser with age; asked for by all faces."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mgw.gateway.definitions.objects import Activity, JobStatus
from mgw.gateway.observe.measures import Measured, Measures
from mgw.gateway.runtime.job_history import LOOK_SECONDS, QUIET_SECONDS, JobHistory
from mgw.gateway.runtime.pruning import Pruning
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.hubs import Hub, open_hub
from mgw.gateway.services.job_history import course_of, points_of
from mgw.gateway.state import history, run_state
from mgw.gateway.state.run_state import Counts
from tests.conformance.hub_suite import ManualClock
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.web import serving

__all__ = ["hub_url", "hubs"]

BEGIN = 1_700_000_100.0  # on no boundary of a grain
HOUR = 3600.0


class Scene:
    """A hub with two jobs, one of which works, and the history of their agent."""

    def __init__(self, hub: Hub, clock: ManualClock) -> None:
        self.hub, self.clock = hub, clock
        self.admin = GatewayAdmin(hub)
        self.admin.aq.create_queue_table("T")
        for name in ("A", "B", "C"):
            self.admin.aq.create_queue(name, "T")
        self.admin.create_job("WORKS", "LOCAL", "A", "B")
        self.admin.create_job("RESTS", "LOCAL", "B", "C")
        self.id = self.admin.get_job("WORKS").id  # type: ignore[union-attr]
        self.measures = Measures()
        self.history = JobHistory(hub, "DEFAULT_AGENT", clock)
        self.pruning = Pruning(hub, "DEFAULT_AGENT", clock, threading.Event())
        self.look(0)

    def look(self, seconds: float = LOOK_SECONDS, **counts: int) -> None:
        """Messages move, and the agent looks so many seconds after it looked last."""
        self.clock.time += seconds
        if counts:
            with self.hub.write() as conn:
                run_state.count(conn, self.id, Counts(**counts), now=self.clock.time)
        self.history.record(Measured.of(self.measures.told(), {self.id: ("WORKS", "local")}, ()))

    def rows(self, job: str = "WORKS") -> list[history.Interval]:
        with self.hub.read() as conn:
            return history.between(conn, job, 0, self.clock.time + 1)


@pytest.fixture
def scene(hub_url: str) -> Iterator[Scene]:
    clock = ManualClock()
    clock.time = BEGIN
    with open_hub(hub_url, create=True) as hub:
        hub.clock = clock
        yield Scene(hub, clock)


def test_what_moves_is_written_and_what_rests_costs_a_row_in_minutes(scene: Scene) -> None:
    measures = scene.measures.job(scene.id)
    measures.came(30, 4096)
    measures.took("origin_to_confirmed", 10.0, 12.5)
    scene.look(propagated=30, filtered=2)
    for _ in range(4):
        scene.look()
    scene.look(propagated=3, exceptioned=1)
    first, quiet, second = scene.rows()
    assert (first.begun, first.ended, first.moved, first.filtered) == (BEGIN, BEGIN + 15, 30, 2)
    assert (first.batches, first.bytes, first.origin, first.stored) == (1, 4096, 2.5, None)
    assert (quiet.begun, quiet.ended, quiet.moved, quiet.batches) == (BEGIN + 15, BEGIN + 75, 0, 0)
    assert (second.begun, second.ended, second.moved, second.exceptioned) == (BEGIN + 75, BEGIN + 90, 3, 1)
    assert not scene.rows("RESTS")
    for _ in range(int(QUIET_SECONDS / LOOK_SECONDS)):
        scene.look()
    (rest,) = scene.rows("RESTS")
    assert rest.moved == 0
    assert rest.ended - rest.begun == QUIET_SECONDS


def test_time_without_an_agent_is_a_gap_and_what_moved_is_counted_once(scene: Scene) -> None:
    scene.look(propagated=10)
    with scene.hub.write() as conn:  # an agent that nobody saw
        run_state.count(conn, scene.id, Counts(propagated=1000), now=scene.clock.time)
    scene.clock.time += HOUR
    scene.history = JobHistory(scene.hub, "DEFAULT_AGENT", scene.clock)  # it is started again
    scene.measures = Measures()
    scene.look(0)
    scene.look(propagated=5)
    course = course_of(scene.hub, "works", 2 * HOUR, points=8)
    assert course.step == 900.0
    assert [round(point.moved) for point in course.points if point.seconds] == [10, 5]
    assert [bool(point.seconds) for point in course.points] == [False] * 3 + [True] + [False] * 3 + [True]
    assert course.points[-1].rate == pytest.approx(5 / 15)


def test_a_hub_that_was_away_loses_no_count_and_a_clock_that_goes_back_makes_none(scene: Scene) -> None:
    scene.look(propagated=10)
    scene.look(600, propagated=7)  # the looks between failed
    last = scene.rows()[-1]
    assert (last.moved, last.ended - last.begun) == (7, 2 * LOOK_SECONDS)
    scene.look(-HOUR)
    scene.look(propagated=4)
    assert sum(row.moved for row in scene.rows()) <= 17  # rows of a time that is not yet are not seen
    scene.clock.time += 2 * HOUR
    assert sum(row.moved for row in scene.rows()) == 21
    assert min(row.moved for row in scene.rows()) >= 0


def test_failures_and_their_state_are_seen_at_a_point(scene: Scene) -> None:
    for failures in (1, 2, 3):
        with scene.hub.write() as conn:
            run_state.record_failure(
                conn,
                scene.id,
                status=JobStatus.RETRY,
                failures=failures,
                error="no",
                now=scene.clock.time,
                retry_at=scene.clock.time + 2,
            )
        scene.look()
    with scene.hub.write() as conn:
        run_state.record_recovery(conn, scene.id)
        run_state.set_activity(conn, scene.id, Activity.RUNNING, now=scene.clock.time)
    scene.look(propagated=1)
    course = course_of(scene.hub, "WORKS", 600, points=1)
    (point,) = course.points
    assert (round(point.failures), round(point.moved), point.state) == (3, 1, "RETRY")
    assert course_of(scene.hub, "WORKS", 60, points=4).points[-1].state == "RUNNING"


def test_old_rows_become_coarser_keep_their_sums_and_go(scene: Scene) -> None:
    scene.look(propagated=2)
    (first,) = scene.rows()
    four_hours = [
        replace(first, begun=first.begun + LOOK_SECONDS * n, ended=first.ended + LOOK_SECONDS * n) for n in range(960)
    ]
    with scene.hub.write() as conn:
        history.add(conn, four_hours[1:])
    scene.clock.time = four_hours[-1].ended
    assert len(scene.rows()) == 960
    scene.pruning.tidy_history(14 * 86_400.0)
    fine = [row for row in scene.rows() if row.grain == 15]
    coarse = [row for row in scene.rows() if row.grain == 300]
    assert 718 <= len(fine) <= 745
    assert 10 <= len(coarse) <= 14
    assert sum(row.moved for row in scene.rows()) == 1920
    assert all(a.ended <= b.begun for a, b in zip(scene.rows(), scene.rows()[1:], strict=False))
    again = scene.rows()
    scene.pruning.tidy_history(14 * 86_400.0)
    assert scene.rows() == again, "nothing is merged twice"
    scene.clock.time += 30 * HOUR
    scene.pruning.tidy_history(14 * 86_400.0)
    assert {row.grain for row in scene.rows()} == {3600}
    assert len(scene.rows()) <= 6
    assert sum(row.moved for row in scene.rows()) == 1920
    scene.clock.time += 14 * 86_400.0
    scene.pruning.tidy_history(14 * 86_400.0)
    assert not scene.rows()


def test_a_removed_job_takes_its_history_along_and_one_of_its_name_begins_anew(scene: Scene) -> None:
    scene.look(propagated=10)
    scene.admin.remove_job("WORKS", force=True)
    scene.look()
    scene.admin.create_job("WORKS", "LOCAL", "A", "B")
    scene.id = scene.admin.get_job("WORKS").id  # type: ignore[union-attr]
    scene.look()
    scene.look(propagated=1)
    assert [row.moved for row in scene.rows()] == [1]


def test_the_history_is_asked_for_over_http_and_in_sql(scene: Scene) -> None:
    for number in range(20):
        scene.look(propagated=number)
    with scene.hub.read() as conn:
        rows = conn.exec_driver_sql("SELECT sum(PROPAGATED), max(STATUS) FROM MGW_JOB_HISTORY WHERE JOB_NAME = 'WORKS'")
        assert tuple(rows.one()) == (190, "READY")
    with serving(scene.hub) as web:
        told = web.ok("GET", "/api/v1/jobs/works/history?window=10m&points=10")
        assert (told["job"], told["step"], len(told["points"])) == ("WORKS", 60.0, 10)
        assert round(sum(point["moved"] for point in told["points"])) == 190
        assert told["points"][0]["rate"] is None
        web.refused(404, "GET", "/api/v1/jobs/nothing/history")
        web.refused(422, "GET", "/api/v1/jobs/works/history?window=3x")
        shown = web("GET", "/jobs/WORKS?window=1h", accept="text/html")
        assert shown.status == 200, shown.body.decode().partition("<main")[2]


def test_points_share_a_row_by_time(scene: Scene) -> None:
    scene.look(propagated=30)
    (row,) = scene.rows()
    wide = replace(row, begun=0.0, ended=100.0, moved=100)
    assert [point.moved for point in points_of([wide], -50.0, 50.0, 4)] == [0.0, 50.0, 50.0, 0.0]
    assert [point.seconds for point in points_of([wide], -50.0, 50.0, 4)] == [0.0, 50.0, 50.0, 0.0]
