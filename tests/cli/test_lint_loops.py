"""Loops in the graph of jobs: found, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgw.gateway.config.checks import cycles
from mgw.gateway.config.checks.cycles import _rings
from mgw.gateway.config.lint import lint

BASE = """\
links:
  mem: {type: memory}
  rabbit: {type: rabbitmq, hostname: r}
  rabbit_tls: {type: rabbitmq, hostname: r, tls: true, port: 5672}
  rabbit_same: {type: rabbitmq, hostname: r, username: other, password: "${P:-x}"}
  rabbit_nodes: {type: rabbitmq, hostname: r, hosts: "r2, r3"}
  east: {type: rabbitmq, hosts: "e1, e2"}
  west: {type: rabbitmq, hosts: "w1, w2"}
  plant: {type: mqtt, hostname: m}
foreign_queues:
  a@mem: {domain: queue}
  b@mem: {domain: queue}
  q@rabbit: {domain: queue}
  q@rabbit_same: {domain: queue}
  q@rabbit_nodes: {domain: queue}
  q@east: {domain: queue}
  q@west: {domain: queue}
  every@rabbit: {domain: topic, provider_queue: "news/#"}
  sport@rabbit_same: {domain: topic, provider_queue: news/sport.ski}
  all@plant: {provider_queue: "plant/+/state", domain: topic}
  one@plant: {provider_queue: plant/m7/state, domain: topic}
  other@plant: {provider_queue: plant/m7/command, domain: topic}
queues:
  Q: {multiple_consumers: true}
  R: {multiple_consumers: true}
jobs:
"""


def loops(jobs: str, folder: Path) -> list[str]:
    path = folder / "x.yaml"
    path.write_text(BASE + jobs, "utf-8")
    return [finding.message for finding in lint([path], {}) if finding.name == "loop"]


RINGS = {
    "over one queue of a broker": (
        "  i: {type: inbound, source: a@mem, destination: Q}\n  o: {type: outbound, source: Q, destination: a@mem}\n",
        "i (a@mem to Q) -> o (Q to a@mem) -> i",
    ),
    "between queues of the hub": (
        "  i: {type: local, source: Q, destination: R}\n  o: {type: local, source: r, destination: q}\n",
        "i (Q to R) -> o (r to q) -> i",
    ),
    "over two links to one broker": (
        "  i: {type: inbound, source: q@rabbit, destination: Q}\n"
        "  o: {type: outbound, source: Q, destination: q@rabbit_same}\n",
        "i (q@rabbit to Q) -> o (Q to q@rabbit_same) -> i",
    ),
    "over two links to one cluster, of which one names more nodes": (
        "  i: {type: inbound, source: q@rabbit, destination: Q}\n"
        "  o: {type: outbound, source: Q, destination: q@rabbit_nodes}\n",
        "i (q@rabbit to Q) -> o (Q to q@rabbit_nodes) -> i",
    ),
    "over a pattern of routing keys": (
        "  i: {type: inbound, source: every@rabbit, destination: Q}\n"
        "  o: {type: outbound, source: Q, destination: sport@rabbit_same}\n",
        "i (every@rabbit to Q) -> o (Q to sport@rabbit_same) -> i",
    ),
    "over a wildcard of MQTT": (
        "  i: {type: inbound, source: all@plant, destination: Q}\n"
        "  o: {type: outbound, source: Q, destination: one@plant}\n",
        "i (all@plant to Q) -> o (Q to one@plant) -> i",
    ),
    "over three jobs, one of them through": (
        "  o: {type: outbound, source: Q, destination: a@mem}\n"
        "  t: {type: through, source: a@mem, destination: q@rabbit}\n"
        "  i: {type: inbound, source: q@rabbit, destination: Q}\n",
        "o (Q to a@mem) -> t (a@mem to q@rabbit) -> i (q@rabbit to Q) -> o",
    ),
}


@pytest.mark.parametrize("case", RINGS)
def test_a_loop_is_found_and_named(case: str, tmp_path: Path) -> None:
    jobs, ring = RINGS[case]
    assert loops(jobs, tmp_path) == [f"a message may go round again and again: {ring}"]


def test_names_without_wildcards_are_looked_up_and_not_compared_in_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = cycles._reads
    calls: list[object] = []

    def counted(source: cycles._End, target: cycles._End) -> bool:
        calls.append(source)
        return reads(source, target)

    monkeypatch.setattr(cycles, "_reads", counted)
    queues = "".join(f"  n{number}@rabbit: {{domain: queue}}\n" for number in range(50))
    jobs = "".join(
        f"  t{number}: {{type: through, source: n{number}@rabbit, destination: n{(number + 1) % 50}@rabbit}}\n"
        for number in range(50)
    )
    path = tmp_path / "x.yaml"
    path.write_text(BASE.replace("queues:\n  Q:", f"{queues}queues:\n  Q:") + jobs, "utf-8")
    assert [finding.name for finding in lint([path], {})] == ["loop"]
    assert len(calls) == 50  # each job, with itself


NO_RINGS = {
    "another cluster": (
        "  i: {type: inbound, source: q@east, destination: Q}\n  o: {type: outbound, source: Q, destination: q@west}\n"
    ),
    "another topic": (
        "  i: {type: inbound, source: all@plant, destination: Q}\n"
        "  o: {type: outbound, source: Q, destination: other@plant}\n"
    ),
    "there and no way back": (
        "  i: {type: inbound, source: a@mem, destination: Q}\n  o: {type: outbound, source: Q, destination: b@mem}\n"
    ),
    "a mark that a rule looks at": (
        "  i: {type: inbound, source: a@mem, destination: Q, rule: \"HEADER('seen') IS NULL\"}\n"
        "  o: {type: outbound, source: Q, destination: a@mem, transformation: flow}\n"
        "transformations:\n  mark: {set: {header.Seen: \"'yes'\"}}\n  flow: {steps: [mark]}\n"
    ),
    "two ways to one place": (
        "  i: {type: inbound, source: a@mem, destination: Q}\n"
        "  x: {type: local, source: Q, destination: R}\n"
        "  y: {type: outbound, source: Q, destination: b@mem}\n"
        "  z: {type: inbound, source: b@mem, destination: R}\n"
    ),
}


@pytest.mark.parametrize("case", NO_RINGS)
def test_what_is_no_loop_is_none(case: str, tmp_path: Path) -> None:
    assert loops(NO_RINGS[case], tmp_path) == []


def test_a_loop_is_told_once_and_the_rule_that_may_end_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    text = "  i: {type: inbound, source: a@mem, destination: Q}\n"
    text += "  o: {type: outbound, source: Q, destination: a@mem, rule: tab.priority < 3}\n"
    path.write_text(BASE + text, "utf-8")
    found = [finding for finding in lint([path], {}) if finding.name == "loop"]
    assert [(finding.severity, finding.object) for finding in found] == [("warning", "jobs i")]
    assert "the rule or transformation of o ends it" in found[0].cure


def test_max_passes_is_advised_and_with_a_rule_nothing_is_left_to_say(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    text = "  i: {type: inbound, source: a@mem, destination: Q, options: {MAX_PASSES: %s}}\n"
    text += "  o: {type: outbound, source: Q, destination: a@mem%s}\n"

    def cures(passes: int, rule: str) -> list[str]:
        path.write_text(BASE + text % (passes, rule), "utf-8")
        return [finding.cure for finding in lint([path], {}) if finding.name == "loop"]

    rule = ", rule: tab.priority < 3"
    assert [[cure.count("max_passes") for cure in cures(*given)] for given in ((0, ""), (3, ""))] == [[1], [0]]
    assert len(cures(0, rule)) == 1
    assert cures(3, rule) == []


def test_the_ring_that_is_told_is_a_short_one_and_does_not_depend_on_the_order_of_a_set() -> None:
    after = {"a": ["b", "d"], "b": ["c"], "c": ["a"], "d": ["e"], "e": ["a", "d"]}
    assert list(_rings(after)) == [("d", "e")]
    ties = {name: [each for each in "abcdef" if each != name] for name in "abcdef"}
    assert list(_rings(ties)) == [("a", "b")]


def test_a_long_ring_is_found_whole() -> None:
    names = [f"j{number}" for number in range(1000)]
    assert list(_rings(dict(zip(names, ([each] for each in (*names[1:], names[0])), strict=True)))) == [tuple(names)]
