"""Messages run by hand through jobs and transformations, without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.aq import Hub
from mgw.gateway.config.apply import scratch_hub
from mgw.gateway.config.lint import check
from mgw.gateway.services.lookup import NotFound
from mgw.gateway.services.trial import of_job, of_transformation
from mgw.transforms.message import Message

TEXT = """\
links:
  mem: {type: memory}
foreign_queues:
  in@mem: {domain: queue}
  out@mem: {domain: queue}
queues:
  Q: {payload_type: json, multiple_consumers: true}
  RAW: {payload_type: raw}
transformations:
  wrap: {set: {body: "'{}'", body.n: TO_NUMBER(tab.user_data)}}
  positive: {where: tab.user_data.n > 0}
  flow: {steps: [wrap, positive]}
jobs:
  j_in: {type: inbound, source: in@mem, destination: Q, transformation: flow, rule: tab.priority < 9}
  j_out: {type: outbound, source: Q, destination: out@mem, rule: tab.user_data.n > 10}
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT, "utf-8")
    with scratch_hub(check([path], {}).document) as (hub, refused):
        assert refused is None
        yield hub


def test_a_job_shows_what_it_would_write(hub: Hub) -> None:
    outcome = of_job(hub, "J_IN").run(Message(body="4"))
    assert [message.body for message in outcome.messages] == ['{"n":4}']
    assert (outcome.filtered, outcome.failure) == ("", None)


def test_rule_and_transformation_filter(hub: Hub) -> None:
    trial = of_job(hub, "j_in")
    assert trial.run(Message(body="4", priority=9)).filtered == "the rule"
    assert trial.run(Message(body="-4")).filtered == "the transformation"


def test_a_failure_is_that_of_the_message(hub: Hub) -> None:
    failure = of_job(hub, "j_in").run(Message(body="four")).failure
    assert failure is not None
    assert failure.number == 722
    assert "flow, step wrap of job j_in" in failure.what


def test_a_job_that_reads_the_hub_sees_the_message_as_its_queue_holds_it(hub: Hub) -> None:
    trial = of_job(hub, "j_out")
    assert [message.body for message in trial.run(Message(body=b'{"n":11}')).messages] == ['{"n":11}']
    assert trial.run(Message(body='{"n":10}')).filtered == "the rule"
    failure = trial.run(Message(body="no JSON")).failure
    assert failure is not None
    assert failure.number == 724


def test_a_transformation_is_tried_alone(hub: Hub) -> None:
    outcome = of_transformation(hub, "flow").run(Message(body="4"))
    assert [message.body for message in outcome.messages] == ['{"n":4}']


def test_names_that_are_not_there_are_refused(hub: Hub) -> None:
    with pytest.raises(NotFound):
        of_job(hub, "j")
    with pytest.raises(NotFound):
        of_transformation(hub, "t")
