"""What docs/how-to/monitor.md shows for Prometheus and Kubernetes is made of metrics and pages that exist."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from mgw.gateway.definitions.http_address import HttpAddress
from mgw.gateway.http.metrics import METRICS
from mgw.gateway.http.pages import PAGES
from mgw.gateway.services.verdict import MAX_AGE
from tests.cli.conftest import ROOT

PAGE = (ROOT / "docs/how-to/monitor.md").read_text("utf-8")
BLOCKS: list[Any] = [
    YAML(typ="safe").load(text) for text in re.findall(r"^```yml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
PROBES, SCRAPE, RULES = BLOCKS
LABELS = {metric.name: set(metric.labels) for metric in METRICS}
LABELS |= {
    f"{metric.name}_{end}": {*metric.labels, "le"}
    for metric in METRICS
    if metric.kind == "histogram"
    for end in ("bucket", "count", "sum")
}


def test_every_metric_and_label_that_is_used_exists() -> None:
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert len(rules) > 5
    for rule in rules:
        names = re.findall(r"\bmgw_\w+", rule["expr"])
        assert set(names) <= set(LABELS), rule["alert"]
        known = {"instance"}.union(*(LABELS[name] for name in names))
        known |= {"exported_job"} if "job" in known else set()
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= known, rule["alert"]
        for name, selectors in re.findall(r"\b(mgw_\w+)\{(.*?)\}", rule["expr"]):
            assert set(re.findall(r"(\w+)=", selectors)) <= LABELS[name], rule["alert"]
    assert set(re.findall(r"\bmgw_[a-z_]+", PAGE)) <= set(LABELS)


def test_probes_ask_for_pages_that_exist_at_an_address_that_is_taken() -> None:
    variables = {each["name"]: each["value"] for each in PROBES["env"]}
    assert HttpAddress.parse(variables["MGW_HTTP"], behind_proxy=variables["MGW_HTTP_BEHIND_PROXY"] == "true")
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert PROBES[name]["httpGet"]["path"] in PAGES
        assert PROBES[name]["httpGet"]["port"] == PROBES["ports"][0]["name"]
    assert PROBES["livenessProbe"]["httpGet"]["path"] == "/livez"
    (scraped,) = SCRAPE["scrape_configs"]
    assert scraped["static_configs"][0]["targets"] == [f"127.0.0.1:{PROBES['ports'][0]['containerPort']}"]
    assert scraped["honor_labels"]  # the rules name the label job


def test_the_limit_is_the_one_in_force() -> None:
    assert f"for more than {MAX_AGE:.0f} seconds" in PAGE
    assert set(re.findall(r"`(/[a-z]+z|/metrics|/version)`", PAGE)) <= set(PAGES)
