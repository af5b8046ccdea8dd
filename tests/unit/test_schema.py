"""The JSON Schema says what the linter says, as far as a schema can."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from ruamel.yaml import YAML

from mgw.gateway.config.fields import Strict
from mgw.gateway.config.models import SECTIONS, Document, SettingsModel
from mgw.gateway.config.schema import FILE, SCHEMA_ID, json_schema
from mgw.gateway.config.schema_parts import ecma
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.links import registry
from mgw.links.contract import Field
from mgw.links.options import parse_value
from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.steps.registry import TransformationDefinition
from tests.cli import test_lint as lint_cases
from tests.cli.conftest import COMPLETE, ROOT
from tests.docs.test_documentation import BLOCKS

SCHEMA = json_schema(own=True)
VALIDATOR = Draft202012Validator(SCHEMA)


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMA["$defs"][name], "$defs": SCHEMA["$defs"]})


def takes(name: str, value: Any) -> bool:
    """Whether a part of the schema, by its name, accepts it."""
    return bool(_validator(name).is_valid(value))


def refusals(value: Any) -> list[str]:
    """What the schema does not accept."""
    return [f"{error.json_path}: {error.message[:300]}" for error in VALIDATOR.iter_errors(value)]


def loaded(text: str) -> Any:
    return json.loads(json.dumps(YAML(typ="safe", pure=True).load(StringIO(text))))


def test_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == SCHEMA_ID
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_shipped_file_is_fresh() -> None:
    assert json.loads(FILE.read_text("utf-8")) == SCHEMA, "write it anew: python -m mgw.gateway.cli.reference"


# ------------------------------------------------------------------------------------------------------------ examples

EXAMPLES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in sorted((ROOT / "conf").rglob("*.yaml"))
    if path.parent.name not in ("kubernetes", "prometheus")  # formats of their own; tests/docs hold them to those
}
EXAMPLES = {name: text for name, text in EXAMPLES.items() if "pipelines" not in name and "compose" not in name}
EXAMPLES |= {str(path): path.read_text("utf-8") for path in [ROOT / "tests/demo_spark/gateway.yaml"]}
EXAMPLES |= {"COMPLETE": COMPLETE, "BASE": lint_cases.BASE}
EXAMPLES |= {
    str(block): block.text
    for block in BLOCKS
    if block.language == "yaml"
    and not {"pipeline", "mapping-tests"} & set(block.words)
    and not any(word.startswith("of=") for word in block.words)
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_configuration_that_is_shipped_or_shown_passes(name: str) -> None:
    assert refusals(loaded(EXAMPLES[name])) == []


@pytest.mark.parametrize("path", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda path: path.name)
def test_files_name_the_schema_for_editors(path: Path) -> None:
    found = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text("utf-8"))
    assert found
    assert json.loads((path.parent / found[1]).read_text("utf-8"))["$id"] == SCHEMA_ID


# ------------------------------------------------------------------------------------- what the linter's tests refuse

#: Not of the shape: YAML itself, two names that are one, files and variables of this machine.
OTHERWISE = {
    "no mapping",
    "bad indentation",
    "key twice",
    "name twice in another case",
    "tab",
    "variable that is not set",
    "bad variable",
    "secret file that is not there",
}
SHAPE = {name: text for name, (text, _) in lint_cases.STRUCTURE.items() if name not in OTHERWISE}
SHAPE |= {
    name: f"{lint_cases.BASE}jobs:\n  {lint_cases.JOBS[name][0]}\n"
    for name in ("unknown option", "bad option", "batch size twice", "name that cannot be used")
}
SHAPE |= {name: lint_cases.TYPES[name][0] for name in ("attributes and an array", "neither")}
SHAPE |= {
    f"transformation {text}": f"transformations:\n  t: {text}\n"
    for text in ("{}", "{sett: {priority: 5}}", "{set: {nothing.x: 1}}", "{function: a:b, set: {priority: '1'}}")
}
SHAPE |= {
    "attributes in a queue whose table is named": "queues:\n  Q: {queue_table: T, payload_type: raw}\n",
    "exception queue with retries": "queues:\n  Q: {type: exception, max_retries: 3}\n",
    "secondary instance alone": "queues:\n  Q: {secondary_instance: 2}\n",
    "compatible of another time": "queues:\n  Q: {compatible: 8.0}\n",
    "foreign queue without a link": "foreign_queues:\n  q: {}\n",
    "option of a foreign queue": "foreign_queues:\n  q@l: {options: {MQTT_Qoss: 1}}\n",
    "queue that is null in a job": "jobs:\n  j:\n",
}


def test_every_case_of_the_linter_is_a_shape_or_named_as_another() -> None:
    assert set(lint_cases.STRUCTURE) >= OTHERWISE


@pytest.mark.parametrize("case", SHAPE)
def test_wrong_shape_is_refused_by_the_schema_too(case: str) -> None:
    assert refusals(loaded(SHAPE[case]))


# -------------------------------------------------------------------------------------------------- value for value

#: What people write, and what they should not. Numbers stay within every range, or far outside.
PROBES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 5, -5, 2.5, 100_000_000_000_000_000, [], {}, ["a"], {"a": 1}, {"a": None}),
    *(1.0, 5.0, -0.0, "5_000", "\u0665"),  # JSON knows no difference between 5 and 5.0; the last is a five in Arabic
    *("", " ", "x", "5", " 5 ", "2.5", "1e3", "5x", "true", "Yes", "off", "0", "t", "TRUE ", "INFINITE", "infinite"),
    *("inbound", "OutBound", "in bound", "priority, enq_time", "ALL with  grant option", "all", "enqueue_any", "raw"),
    *("sys.anydata", "long varchar", "OE.POINT", "a.b.c", 'a."b', "8.1", "10.0", "12.2", "9", "exact", "At-Least-Once"),
    *("queue", "TOPIC", "normal", "exception", "json", "transactional", "jdbc_oci", "persistent_or_buffered"),
)

MINIMAL: dict[str, dict[str, Any]] = {
    "links": {"type": "memory"},
    "object_types": {"attributes": {"a": "DATE"}},
    "jobs": {"type": "inbound", "source": "a@b", "destination": "Q"},
    "transformations": {"where": "1 = 1"},
}
#: Checked value for value below, or by the linter together with another section.
ELSEWHERE = {"options", "attributes", "definition", "array", "type", "queue_table", "compatible", "secondary_instance"}


def _accepted(model: type[Strict], values: dict[str, Any]) -> bool:
    try:
        model.model_validate(values)
    except ValidationError:
        return False
    return True


def _number_in_text(value: Any) -> bool:
    """A schema knows no range of numbers that are written as text."""
    return isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9._]+(e[0-9]+)?\s*", value) is not None


@pytest.mark.parametrize("section", SECTIONS)
def test_schema_and_model_agree_on_every_value(section: str) -> None:
    model = SECTIONS[section]
    minimal = MINIMAL.get(section, {})
    bare = {name: value for name, value in minimal.items() if name in model.model_fields}
    disagree = []
    for name in model.model_fields:
        if name in ELSEWHERE:
            continue
        for probe in PROBES:
            by_model = _accepted(model, bare | {name: probe})
            by_schema = takes(model.__name__, minimal | {name: probe})
            if by_model != by_schema and not (by_schema and _number_in_text(probe)):
                disagree.append((name, probe, by_model))
    assert disagree == [], "key, value, accepted by the linter"


def test_schema_and_model_agree_on_settings_and_subscribers() -> None:
    disagree: list[tuple[str, Any]] = []
    queue = SECTIONS["queues"]
    for probe in PROBES:
        disagree += [
            (name, probe)
            for name in SettingsModel.model_fields
            if _accepted(SettingsModel, {name: probe}) is not takes("SettingsModel", {name: probe})
        ]
        disagree += [
            ("subscribers", values)
            for values in ({"subscribers": {"s": probe}}, {"subscribers": {"s": {"delivery_mode": probe}}})
            if _accepted(queue, values) is not takes("QueueModel", values)
        ]
    assert disagree == []


def _taken(field: Field, value: Any) -> bool:
    if value is None:
        return not field.required
    if field.required and value == "":
        return False
    try:
        parse_value(field, value, "x")
    except ConfigInvalid:
        return False
    return True


def _fields() -> Iterator[tuple[str, Field, dict[str, Any]]]:
    """Every described setting, with an object that has it, and the schema of that object."""
    for field in AGENT_OPTIONS:
        yield "agents", field, {"options": {field.name: None}}
    for field in JOB_OPTIONS:
        yield "jobs", field, MINIMAL["jobs"] | {"options": {field.name: None}}
    for name in registry.types(own=True):
        spec = registry.spec(name)
        required = {field.name: "x" for field in spec.attributes if field.required}
        for field in spec.attributes:
            yield "links", field, {"type": name} | required | {field.name: None}
        for field in spec.options:
            yield "links", field, {"type": name} | required | {"options": {field.name: None}}
        for field in spec.queue_options:
            yield "foreign_queues", field, {"options": {field.name: None}}
        for field in spec.job_options:
            yield "jobs", field, MINIMAL["jobs"] | {"options": {field.name: None}}


FIELDS = {
    f"{section} {values.get('type', '')} {field.name}": (section, field, values) for section, field, values in _fields()
}


@pytest.mark.parametrize("name", FIELDS)
def test_schema_and_description_agree_on_every_value(name: str) -> None:
    section, field, values = FIELDS[name]
    own = [*field.choices, *(each.upper() for each in field.choices), *(each.swapcase() for each in field.choices)]
    own += [str(limit) for limit in (field.minimum, field.maximum) if limit is not None and field.type is float]
    limits = [limit for limit in (field.minimum, field.maximum) if limit is not None]
    disagree = []
    for probe in (*PROBES, *own, *limits, *(limit - 1 for limit in limits), *(limit + 1 for limit in limits)):
        for spelled in (field.name, field.name.upper(), field.name.swapcase()):
            given = _spelled(values, field.name, spelled, probe)
            by_schema = takes(SECTIONS[section].__name__, given)
            if _taken(field, probe) != by_schema and not (by_schema and _number_in_text(probe)):
                disagree.append((spelled, probe, not by_schema))
    assert disagree == [], "name, value, accepted by the linter"


def test_whole_number_with_a_point_is_one_in_options_too() -> None:
    job = SECTIONS["jobs"].model_validate(MINIMAL["jobs"] | {"options": {"MsgBatchSize": 5.0, "retry_max_delay": 0.5}})
    assert job.options == {"MsgBatchSize": "5", "retry_max_delay": "0.5"}  # type: ignore[attr-defined]


def _spelled(values: dict[str, Any], name: str, spelled: str, value: Any) -> dict[str, Any]:
    """The object with the setting under another spelling and with a value."""
    result = {key: each for key, each in values.items() if key != name}
    if isinstance(options := values.get("options"), dict) and name in options:
        return result | {"options": {spelled: value}}
    return result | {spelled: value}


def test_schema_and_registry_agree_on_transformations() -> None:
    parts: dict[str, tuple[Any, ...]] = {
        "function": (None, "", "a:b", 5),
        "options": (None, {}, {"a": 1}, []),
        "set": (None, {}, {"priority": "1"}, {"body.a": 5}, {"header.x": None}, {"priority": []}, "x"),
        "unset": (None, [], ["body"], "body", [5]),
        "where": (None, "", "1 = 1", 5),
    }
    disagree = []
    for values in _combined(parts):
        try:
            TransformationDefinition.from_mapping("t", values)
        except ConfigInvalid:
            taken = False
        else:
            taken = True
        if taken is not takes("TransformationModel", values):
            disagree.append(values)
    assert disagree == []


def _combined(parts: dict[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    if not parts:
        yield {}
        return
    (name, values), *rest = parts.items()
    for found in _combined(dict(rest)):
        yield found
        yield from (found | {name: value} for value in values)


def test_a_variable_may_stand_for_every_value() -> None:
    for section, model in SECTIONS.items():
        for name in model.model_fields:
            if name in ELSEWHERE or name == "subscribers":
                continue
            values = MINIMAL.get(section, {}) | {name: "${X:-y}"}
            kind = _first(model.model_json_schema()["properties"][name])
            if kind not in ("array", "object"):
                assert takes(model.__name__, values), (section, name)
    assert refusals({"links": {"a": {"type": "${TYPE}", "hostname": "x"}}}) == []


def _first(schema: dict[str, Any]) -> str:
    return str(schema.get("type") or next((each.get("type", "") for each in schema.get("anyOf", [])), ""))


# ----------------------------------------------------------------------------------------------------------- patterns


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _patterns(each)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name == "pattern" and isinstance(value, str):
                yield value
            elif name == "patternProperties":
                yield from value
            yield from _patterns(value)


PATTERNS = sorted(set(_patterns(SCHEMA)))


def test_patterns_have_nothing_that_only_python_knows() -> None:
    assert len(PATTERNS) > 50
    assert [each for each in PATTERNS if not ecma(each)] == []
    for wrong in (r"(?P<a>b)", r"(?i)a", r"a\Z", r"\"", "a++", r"(?>a)"):
        assert not ecma(wrong)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here; the check above is")
def test_patterns_mean_the_same_in_ecmascript() -> None:
    texts = [each for each in PROBES if isinstance(each, str)] + [
        "a@b",
        "1a",
        "AMQP_SaslMechanism",
        "${X}",
        "Zürich",
        "ß",
    ]
    script = (
        "const given = JSON.parse(require('fs').readFileSync(0));"
        "console.log(JSON.stringify(given.patterns.map(p => { const r = new RegExp(p, 'u');"
        " return given.texts.map(t => r.test(t)); })));"
    )
    done = subprocess.run(
        ["node", "-e", script],
        input=json.dumps({"patterns": PATTERNS, "texts": texts}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here = [[re.search(pattern, text) is not None for text in texts] for pattern in PATTERNS]
    assert json.loads(done.stdout) == here


def test_document_has_no_key_that_the_schema_forgets() -> None:
    assert set(SCHEMA["properties"]) == set(Document.model_fields)
