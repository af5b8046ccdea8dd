"""``mgw generations``, ``mgw rollback`` and ``mgw audit``, as an operator types them."""

from __future__ import annotations

import json

from tests.cli.conftest import COMPLETE, Mgw


def test_a_rollback_shows_its_plan_and_leads_to_what_was_there(applied: Mgw) -> None:
    (first,) = json.loads(applied.ok("generations", "list", "--json"))
    then = applied.ok("export")
    applied.file(
        COMPLETE.replace("timeout: 7", "timeout: 9").replace("batch_size: 200", "batch_size: 300"), "next.yaml"
    )
    planned = applied.ok("plan", "next.yaml").splitlines()
    assert planned[-1] == ("restarts job orders_in (link mem, job orders_in): an unknown number of messages waits")
    applied.ok("apply", "next.yaml")
    applied.ok("jobs", "disable", "news_out")
    listed = json.loads(applied.ok("generations", "list", "--json"))
    assert [each["what"].partition(";")[0] for each in listed[:2]] == [
        "disable job news_out (enabled: True -> False)",
        "apply configuration next.yaml: alter link mem (timeout: 7.0 -> 9.0)",
    ]
    assert len(applied.ok("generations").splitlines()) > 3
    assert applied.ok("generations", "show", str(first["generation"])) == then

    refused = applied("rollback", str(first["generation"]))
    assert (refused.code, "give --yes" in refused.err) == (2, True)
    assert "alter  link mem (timeout: 9.0 -> 7.0)" in refused.out
    assert "enable job" not in applied.ok("audit")
    last = applied.ok("rollback", "--yes").splitlines()
    assert last[-2:] == ["alter  job news_out (enabled: false -> true)", "1 altered, 23 unchanged"]
    applied.ok("rollback", str(first["generation"]), "--yes")
    assert applied.ok("export") == then
    assert "nothing to do" in applied.ok("rollback", str(first["generation"]))

    told = applied.ok("audit", "-n", "1")
    assert f"roll back to generation {first['generation']}: 2 altered" in told
    assert "(cli)" in told
    unknown = applied("generations", "show", "9999")
    assert (unknown.code, "generation 9999 is not known" in unknown.err) == (1, True)
