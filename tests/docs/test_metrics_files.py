"""conf/prometheus and conf/grafana: promtool accepts them, and they name metrics and labels that exist."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from mgw.gateway.http.metrics import METRICS
from mgw.gateway.services.verdict import JOB_STATES
from tests.docs.test_monitor import BLOCKS

CONF = Path(__file__).resolve().parents[2] / "conf"
PROMETHEUS = CONF / "prometheus"
_YAML = YAML(typ="safe")
ALERTS: Any = _YAML.load((PROMETHEUS / "alerts.yaml").read_text())
ALERT_TESTS: Any = _YAML.load((PROMETHEUS / "alerts_test.yaml").read_text())
DASHBOARD: Any = json.loads((CONF / "grafana" / "dashboard.json").read_text())
RULES: list[Mapping[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS: list[Mapping[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
#: The names of samples, with their labels; those that Prometheus adds are known everywhere.
SAMPLES = {
    name: {*metric.labels, "instance", "job"} | ({"le"} if name.endswith("_bucket") else set())
    for metric in METRICS
    for name in (
        [metric.name + end for end in ("_bucket", "_count", "_sum")] if metric.kind == "histogram" else [metric.name]
    )
} | {"up": {"instance", "job"}}


def promtool(*words: str, folder: Path = PROMETHEUS) -> str:
    """What it says; it has found nothing wrong."""
    found = subprocess.run(["promtool", *words], check=False, cwd=folder, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def _labels(expr: str) -> Iterator[tuple[str, set[str]]]:
    """The names of samples in an expression, each with the labels that its selector names."""
    for name, selector in re.findall(r"\b((?:mgw|process)_\w+|up)\b(?:\{([^}]*)\})?", expr):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))


@pytest.mark.parametrize("expr", [*(rule["expr"] for rule in RULES), *QUERIES])
def test_an_expression_names_metrics_and_labels_that_exist(expr: str) -> None:
    found = list(_labels(expr))
    assert found
    known: set[str] = set()
    for name, labels in found:
        assert name in SAMPLES
        assert labels <= SAMPLES[name], name
        known |= SAMPLES[name]
    for grouped in re.findall(r"\b(?:by|without|on|ignoring) \(([^)]*)\)", expr):
        assert set(re.split(r",\s*", grouped)) <= known
    states = set(re.findall(r'mgw_job_state\{[^}]*state="(\w+)"', expr))
    assert states <= set(JOB_STATES)


def test_promtool_accepts_the_rules_and_the_scrape_configuration() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "alerts.yaml")
    promtool("check", "config", "scrape.yaml")


def test_every_rule_fires_for_what_it_names_and_is_silent_while_all_is_well() -> None:
    promtool("test", "rules", "alerts_test.yaml")
    silent, fired = set(), set()
    for number, each in enumerate(ALERT_TESTS["tests"]):
        for case in each["alert_rule_test"]:
            if case["exp_alerts"]:
                fired.add(case["alertname"])
            elif number == 0:
                silent.add(case["alertname"])
    assert silent == fired == {rule["alert"] for rule in RULES}


def test_the_rules_of_the_page_are_those_of_the_file() -> None:
    _, scrape, page = BLOCKS
    plain = {rule["alert"]: {key: value for key, value in rule.items() if key != "labels"} for rule in RULES}
    for rule in (rule for group in page["groups"] for rule in group["rules"]):
        assert rule == plain[rule["alert"]]
    assert scrape["scrape_configs"] == _YAML.load((PROMETHEUS / "scrape.yaml").read_text())["scrape_configs"]


def test_promtool_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    variables = {"$__rate_interval": "5m", "$instance": ".*", "$job": ".*"}
    rules = []
    for number, expr in enumerate(QUERIES):
        text = functools.reduce(lambda text, pair: text.replace(*pair), variables.items(), expr)
        assert "$" not in text
        rules.append({"record": f"query:{number}", "expr": text})
    (tmp_path / "queries.yaml").write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", "queries.yaml", folder=tmp_path)


def test_the_dashboard_can_be_imported_and_shows_every_metric() -> None:
    numbers = [panel["id"] for panel in PANELS]
    assert len(set(numbers)) == len(numbers)
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in PANELS:
        if panel["type"] != "row":
            assert panel["datasource"] == source
            assert panel["title"]
            assert panel["description"]
            assert all(target["datasource"] == source for target in panel["targets"])
    rows = [panel["title"] for panel in PANELS if panel["type"] == "row"]
    assert rows == [
        "Is everything well?",
        "Throughput",
        "Latency",
        "Backlog and age",
        "Failures and links",
        "Hub",
        "Process",
    ]
    used = {name for expr in QUERIES for name, _ in _labels(expr)}
    shown = {
        metric.name
        for metric in METRICS
        if metric.name in used or {f"{metric.name}_bucket", f"{metric.name}_count"} & used
    }
    assert {metric.name for metric in METRICS} - shown == {"process_virtual_memory_bytes", "process_start_time_seconds"}
