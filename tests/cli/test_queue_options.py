"""Options of queue tables and subscribers: described once, taken by every face."""

from __future__ import annotations

import json
import sqlite3

from tests.cli.conftest import Mgw

CONFIGURATION = """\
queue_tables:
  SHARED: {multiple_consumers: true, options: {age_warning: 60}}
queues:
  ORDERS: {options: {AGE_WARNING: 30}}
  NEWS: {queue_table: SHARED, subscribers: {till: {options: {age_warning: 5}}, shop: {}}}
"""


def _shown(mgw: Mgw, view: str) -> dict[str, str]:
    with sqlite3.connect(mgw.folder / "hub.db") as hub:
        name = "QUEUE_TABLE" if view == "DBA_QUEUE_TABLES" else "CONSUMER_NAME"
        return dict(hub.execute(f"SELECT {name}, OPTIONS FROM {view} ORDER BY 1").fetchall())


def test_options_travel_through_file_plan_export_views_and_commands(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(CONFIGURATION))
    assert _shown(mgw, "DBA_QUEUE_TABLES") == {
        "ORDERS_TAB": '{"age_warning": "30.0"}',
        "SHARED": '{"age_warning": "60.0"}',
    }
    assert _shown(mgw, "DBA_QUEUE_SUBSCRIBERS") == {"SHOP": "{}", "TILL": '{"age_warning": "5.0"}'}
    assert mgw.ok("apply", "gateway.yaml").startswith("nothing to do")
    exported = mgw.ok("export")
    assert mgw.ok("apply", mgw.file(exported, "exported.yaml")).startswith("nothing to do")

    mgw.ok("aq", "tables", "alter", "shared", "--option", "age_warning=90")
    mgw.ok("aq", "subscribers", "alter", "news", "shop", "--option", "age_warning=7")
    tables = {each["name"]: each["options"] for each in json.loads(mgw.ok("aq", "tables", "list", "--json"))}
    assert tables["SHARED"] == {"age_warning": 90.0}
    plan = mgw.ok("plan", "gateway.yaml")
    assert plan.splitlines()[:2] == [
        "alter  queue table SHARED (options.age_warning: 90.0 -> 60.0)",
        "alter  queue NEWS (subscribers: SHOP (age_warning 7.0), TILL (age_warning 5.0) -> "
        "SHOP, TILL (age_warning 5.0))",
    ]
    mgw.ok("apply", "gateway.yaml")
    assert _shown(mgw, "DBA_QUEUE_SUBSCRIBERS") == {"SHOP": "{}", "TILL": '{"age_warning": "5.0"}'}

    without = CONFIGURATION.replace(", options: {age_warning: 60}", "").replace("{options: {AGE_WARNING: 30}}", "{}")
    mgw.ok("apply", mgw.file(without, "without.yaml"))
    assert set(_shown(mgw, "DBA_QUEUE_TABLES").values()) == {"{}"}
    mgw.ok("aq", "tables", "create", "MORE", "--option", "age_warning=3")
    mgw.ok("aq", "tables", "alter", "MORE", "--option", "age_warning=")
    assert _shown(mgw, "DBA_QUEUE_TABLES")["MORE"] == "{}"


def test_wrong_options_are_findings_and_refusals(mgw: Mgw) -> None:
    wrong = CONFIGURATION.replace("age_warning: 60", "age_warnin: 60").replace("{age_warning: 5}", "{age_warning: 0}")
    result = mgw("lint", mgw.file(wrong.replace("AGE_WARNING: 30", "age_warning: soon")))
    assert result.code == 78
    lines = [line.partition(" error ")[2].partition(";")[0] for line in result.lines()]
    assert lines == [
        "unknown-option: queue table of SHARED: option 'age_warnin' is not known",
        "bad-value: queue table of ORDERS: age_warning cannot be 'soon': a number is expected",
        "bad-value: subscriber till: age_warning cannot be '0': the smallest value is 1",
    ]
    refused = mgw("aq", "tables", "create", "T", "--option", "age=3")
    assert refused.code == 1
    mgw.ok("apply", mgw.file("queues: {Q: {}}\n", "right.yaml"))
    refused = mgw("aq", "tables", "create", "T", "--option", "age=3")
    assert (refused.code, "queue table T: option 'age' is unknown" in refused.err) == (1, True)
