"""Everything that docs/how-to/transformations.md shows, run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from mgw.gateway.services.mapping_tests import run
from mgw.transforms import builtin
from mgw.transforms.errors import TransformFailed
from mgw.transforms.language.expression import FUNCTIONS, PROPERTIES
from mgw.transforms.message import Message
from mgw.transforms.steps.registry import Transform, TransformationDefinition, compile_transformation, with_steps

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "transformations.md").read_text(encoding="utf-8")

AROUND = """
links:
  rabbit: {type: rabbitmq, hostname: "${BROKER}"}
foreign_queues:
  readings@rabbit: {domain: queue}
  readings_bad@rabbit: {domain: queue}
queues:
  READINGS: {payload_type: json}
"""


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in the order of the page."""
    return re.findall(rf"^```{language}(?: [\w-]+)?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def plant_transforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module that the page shows, importable."""
    source = next(block for block in blocks("python") if block.startswith("# file: plant_transforms.py"))
    (tmp_path / "plant_transforms.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("plant_transforms", None)


def documents() -> list[dict[str, Any]]:
    return [YAML(typ="safe").load(StringIO(block)) for block in blocks("yaml")]


def defined(name: str) -> TransformationDefinition | None:
    """A step: a transformation of the page."""
    for document in documents():
        if name in document.get("transformations", {}):
            parts = {k: v for k, v in document["transformations"][name].items() if k != "comment"}
            return TransformationDefinition.from_mapping(name, parts)
    return None


def transformation(name: str) -> Transform:
    for document in documents():
        if name in document.get("transformations", {}):
            parts = {k: v for k, v in document["transformations"][name].items() if k != "comment"}
            modules = document.get("settings", {}).get("transform_modules", ())
            definition = TransformationDefinition.from_mapping(name, parts)
            return compile_transformation(with_steps(definition, defined), modules=modules)
    raise AssertionError(f"the page has no transformation {name}")


@pytest.mark.usefixtures("plant_transforms")
def test_every_transformation_of_the_page_compiles() -> None:
    names = [name for document in documents() for name in document.get("transformations", {})]
    reading = ["decoded", "public", "public_reading"]
    assert names == ["celsius", "wrap", "plant_celsius", *reading, "from_the_old_host", "public_part"]
    for name in names:
        transformation(name)


@pytest.mark.usefixtures("plant_transforms")
def test_the_test_that_the_page_shows_passes() -> None:
    shown = [block for block in blocks("python") if not block.startswith("# file:")]
    assert len(shown) == 1
    exec(compile(shown[0], "transformations.md", "exec"), {})  # noqa: S102  # our own page


def test_the_tests_of_mappings_that_the_page_shows_pass(tmp_path: Path) -> None:
    celsius, job, tests = (
        next(block for block in blocks("yaml") if block.startswith(begin))
        for begin in ("transformations:\n  celsius:", "jobs:\n  readings_in:", "tests:\n")
    )
    (tmp_path / "gateway.yaml").write_text(celsius + job + AROUND, encoding="utf-8")
    (tmp_path / "gateway_test.yaml").write_text(tests, encoding="utf-8")
    verdicts = list(run(tmp_path / "gateway_test.yaml", {}))
    assert [verdict.lines for verdict in verdicts] == [()] * 3


def test_the_celsius_example_does_what_its_table_says() -> None:
    celsius = transformation("celsius")
    rows = re.findall(r"^\| body \| `(.*?)` \| (.*?) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for before, after in rows:
        message = Message(body=before)
        if after.startswith("`"):
            result = celsius(message)
            assert isinstance(result, Message)
            assert result.body == after.strip("`")
            assert (result.priority, result.header("MGW_KAFKA_key")) == (5, "m7")
        elif after.startswith("filtered"):
            assert celsius(message) is None
        else:
            assert after.startswith("exception queue")
            with pytest.raises(TransformFailed):
                celsius(message)


def test_the_wrap_example_builds_json_from_any_text() -> None:
    result = transformation("wrap")(Message(body=b'say "hi"'))
    assert isinstance(result, Message)
    assert json.loads(str(result.body)) == {"line": 'say "hi"', "topic": None}


def test_the_page_lists_all_functions_and_properties() -> None:
    functions = re.search(r"^\| Functions \| `(.*?)` \|$", PAGE, re.MULTILINE)
    assert functions is not None
    assert functions[1].split() == list(FUNCTIONS)
    listed = re.search(r"^\| Properties \| (.*?) \|$", PAGE, re.MULTILINE)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(PROPERTIES) - {"correlation", "retry_count"}  # other names
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.split("come with the gateway")[1], re.MULTILINE)) == set(
        builtin.__all__
    )
