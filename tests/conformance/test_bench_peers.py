"""The benchmark runs side by side with a peer, and without the peers that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import recorded, side_by_side
from benchmarks.peers import bento

pytestmark = pytest.mark.matrix


def test_messages_are_carried_and_compared_by_each_mover_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(bento.VARIABLE, raising=False)
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    movers = ["THROUGH, defaults", "Mosquitto bridge", "Bento"]
    side_by_side.main(["MQTT to MQTT", "--rounds", "1", "--messages", "2000", "--only", *movers])
    kept = json.loads((tmp_path / "peers.json").read_text())
    measured = {(each["mover"], each["measure"]) for each in kept["figures"]}
    assert {("THROUGH, defaults", "rate"), ("Mosquitto bridge", "rate"), ("THROUGH, defaults", "cpu")} <= measured
    assert ("Mosquitto bridge", "cpu") not in measured
    assert f"Bento: {bento.VARIABLE} names no binary" in kept["left_out"]
    printed = capsys.readouterr().out
    assert "MQTT to MQTT | Mosquitto bridge" in printed
    assert f"\nLeft out: Bento: {bento.VARIABLE} names no binary\n" in printed
