"""The list of what make test leaves to make test-all names tests that exist, and leaves a part of every suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance import suites
from tests.support.combinations import (
    COSTLY,
    FIRST,
    OF_THE_SUPPORT,
    REPEATED,
    begins_first,
    is_left,
    is_long,
    is_one_more,
)
from tests.support.slow_repetitions import LISTED

ROOT = Path(__file__).resolve().parents[2]


def _costly() -> dict[str, str]:
    """Names of costly tests by file, as :data:`LISTED` has them."""
    found: dict[str, str] = {}
    for file, _, name in (each.partition("::") for each in sorted(COSTLY)):
        found[file] = f"{found.get(file, '')}{name}\n"
    return found


@pytest.mark.parametrize(
    ("file", "listed"),
    [pytest.param(file, all_of[file], id=file) for all_of in (LISTED, _costly()) for file in all_of],
)
def test_every_test_that_is_listed_exists(file: str, listed: str) -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / file, *(ROOT / "tests/conformance").glob("*_suite*.py")))
    for name in map(str.strip, listed.strip().splitlines()):
        assert re.search(rf"def {name.partition('[')[0].rpartition('::')[2]}\(", text), name


def test_every_suite_of_the_hub_keeps_a_test_on_postgresql() -> None:
    module = REPEATED[0]
    for name, suite in suites.classes("postgresql", "x").items():
        tests = [each for each in dir(suite) if each.startswith("test_")]
        assert any(not is_one_more(f"{module}::{name}::{each}") for each in tests), name


def test_ids_are_read_with_class_and_case() -> None:
    exact = "tests/conformance/test_kafka_exact.py::TestForgottenMarkers::"
    name = "test_they_are_not_confirmed_and_there_once_after_the_next_connect"
    assert is_one_more(f"{exact}{name}[log]")
    assert not is_one_more(f"{exact}{name}[all]")
    assert is_one_more("tests/pipelines/test_demo_spark.py::test_damage_to_the_archive_is_found")
    assert not is_one_more("tests/conformance/test_hub_sqlite.py::TestLife::test_anything")


def test_what_begins_and_what_is_long_exists() -> None:
    assert all((ROOT / name).exists() for name in (*FIRST, *OF_THE_SUPPORT))
    assert is_long(f"{OF_THE_SUPPORT[0]}::test_anything[quorum]")
    assert not is_long("tests/conformance/test_hub_sqlite.py::TestLife::test_anything")
    wires = "tests/faults/test_faults_on_the_way.py::test_cutting_and_stalling_the_wire_loses_nothing"
    assert is_long(f"{wires}[wire-kafka-to-kafka]")
    assert not is_long(f"{wires}[wire-classic-to-hub]")


def test_what_is_costly_is_left_but_not_long() -> None:
    kills = "tests/faults/test_faults_on_the_way.py::test_killing_the_broker_loses_nothing"
    assert is_left(f"{kills}[kill-broker-logged-to-logged]")
    assert not is_long(f"{kills}[kill-broker-logged-to-logged]")
    assert not is_left(f"{kills}[kill-broker-kafka-to-kafkalog]")
    assert is_left("tests/cli/test_distribution.py::test_a_link_without_its_client_names_the_extra[kafka]")
    assert not is_left("tests/unit/test_distribution.py::test_a_link_without_its_client_names_the_extra[kafka]")


def test_files_are_sorted_as_a_whole() -> None:
    found = [f"{file}::{name}" for file in ("tests/unit/test_x.py", FIRST[1], f"{FIRST[0]}test_y.py") for name in "ba"]
    assert [each.rpartition("::")[2] for each in sorted(found, key=begins_first)] == [*"bababa"]
    assert sorted(found, key=begins_first) == [*found[4:], *found[2:4], *found[:2]]
