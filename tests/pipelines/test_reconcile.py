"""The job ``reconcile`` from its settings to its exit code, on files."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from mgw.gateway.ledger.record import Entry, Kind, Outcome, Record
from mgw.pipelines.jobs import reconcile
from mgw.pipelines.jobs.reconcile import Settings
from mgw.pipelines.jobs.reconcile_ledger import rows_of
from mgw.pipelines.registry import Context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = "machine STRING, seq BIGINT, body BINARY, headers ARRAY<STRUCT<name: STRING, value: STRING>>"
FILES = {
    "read": "files",
    "id": "concat_ws('-', machine, seq)",
    "digest": ["body", "filter(headers, h -> h.name = 'unit')"],
    "part": "machine",
    "position": "seq",
}


def rows(count: int) -> list[tuple[str, int, bytes | None, list[tuple[str, str]]]]:
    return [
        (f"press-{at % 2}", at, f"body {at}".encode() if at != 3 else None, [("unit", "C"), ("hop", str(at))])
        for at in range(count)
    ]


def archive(spark: SparkSession, path: Path, content: list[Any]) -> dict[str, Any]:
    """A side: the folder with these rows as Parquet."""
    spark.createDataFrame(content, ARCHIVE).write.parquet(str(path))
    return FILES | {"path": str(path)}


def ran(spark: SparkSession, settings: dict[str, Any], folder: Path) -> tuple[int, str]:
    """Exit code and what was printed."""
    said: list[str] = []
    context = Context("audit", "sqlite:///nowhere.db", str(folder), said.append, said.append)
    return reconcile.run(spark, Settings.model_validate(settings), context), "\n".join(said)


def test_equal_archives_have_no_findings_and_a_changed_one_has_them(spark: SparkSession, tmp_path: Path) -> None:
    source = archive(spark, tmp_path / "source", rows(100))
    other_hop = [(*row[:3], [("unit", "C"), ("hop", "another")]) for row in rows(100)]
    settings = {"source": source, "destination": archive(spark, tmp_path / "good", other_hop)}
    code, text = ran(spark, settings, tmp_path)
    assert (code, text.splitlines()[-1]) == (0, "nothing is missing, doubled, altered or reordered"), text
    totals = text.splitlines()[2].split()
    assert totals[:4] == ["100", "100", "100", "0"]

    bad = rows(100)
    bad[7] = (*bad[7][:3], [("unit", "F"), ("hop", "7")])  # a header that counts
    bad[8] = (*bad[8][:2], b"", bad[8][3])
    bad[3] = (*bad[3][:2], b"", bad[3][3])  # no body became an empty one
    del bad[50]
    report = {"path": str(tmp_path / "reports"), "format": "json"}
    settings |= {"destination": archive(spark, tmp_path / "bad", [*bad, bad[0]]), "report": report}
    code, text = ran(spark, settings, tmp_path)
    assert code == 1
    assert text.splitlines()[-1] == "5 findings"
    (run,) = (tmp_path / "reports").iterdir()
    assert f"findings are in {run}" in text
    found = [json.loads(line) for part in run.glob("*.json") for line in part.read_text().splitlines()]
    assert sorted((each["kind"], each["id"]) for each in found) == [
        ("altered", "press-0-8"),
        ("altered", "press-1-3"),
        ("altered", "press-1-7"),
        ("doubled", "press-0-0"),
        ("missing", "press-0-50"),
    ]
    for each in found:
        assert each["id"] in text


def test_the_digest_of_one_value_is_its_sha256(spark: SparkSession, tmp_path: Path) -> None:
    source = archive(spark, tmp_path / "one", rows(2)) | {"digest": ["body"]}
    destination = source | {"id": "concat(machine, '+', seq)", "digest": ["body"]}
    settings = Settings.model_validate({"source": source, "destination": destination})
    frame = spark.read.parquet(str(tmp_path / "one"))
    found = reconcile.transform(frame, frame, settings).collect()
    digests = {row.source_digest for row in found if row.kind == "missing"}
    assert digests == {sha256(f"body {at}".encode()).hexdigest() for at in range(2)}


def test_an_audit_of_nothing_proves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    side = archive(spark, tmp_path / "few", rows(3)) | {"where": "seq > 5"}
    code, text = ran(spark, {"source": side, "destination": side}, tmp_path)
    assert code == 1
    assert text.splitlines()[-1] == "nothing is proved: the source has 0 messages, expected are 1 or more"
    assert ran(spark, {"source": side, "destination": side, "at_least": 0}, tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"id": None, "digest": []}, "source has neither id nor digest"),
        ({"digest": ["body"]}, "different numbers of values"),
        ({"read": "kafka"}, "bootstrap_servers"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_settings_that_cannot_work_are_refused(changed: dict[str, Any], words: str) -> None:
    side = FILES | {"path": "/archive"}
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate({"source": side | changed, "destination": side})


def test_the_ledger_is_told_message_by_message() -> None:
    hub_id = bytes.fromhex("6f0a1c22d9b04e5f")
    stored = Entry(Outcome.STORED, (7,), "orders/0@4711")
    left_out = Entry(Outcome.FILTERED, (), "orders/0@4712", "rule")
    split = Entry(Outcome.SENT, (8,), "", "", False, ("billing/2@1", "billing/2@2"))
    nowhere = Entry(Outcome.SENT, (9,), "", "", False, ("alarms#3",))
    record = Record(1, 5, Kind.RECEIVED, None, 1.0, 2.0, 4, [stored, left_out, split, nowhere])
    assert list(rows_of(record, hub_id)) == [
        ("6f0a1c22d9b04e5f0000000000000007", "orders/0@4711", "orders/0", 4711, "STORED", 5, 1.0, 2.0),
        (None, "orders/0@4712", "orders/0", 4712, "FILTERED", 5, 1.0, 2.0),
        ("6f0a1c22d9b04e5f0000000000000008", "billing/2@1", "billing/2", 1, "SENT", 5, 1.0, 2.0),
        ("6f0a1c22d9b04e5f0000000000000008", "billing/2@2", "billing/2", 2, "SENT", 5, 1.0, 2.0),
        ("6f0a1c22d9b04e5f0000000000000009", "alarms#3", "alarms#3", None, "SENT", 5, 1.0, 2.0),
    ]
