"""Link types by name, and settings from texts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mgw.links.contract import Field, LinkConfig
from mgw.links.options import parse, parse_value
from mgw.links.registry import check_client, open_link, spec, types
from mgw.transforms.errors import ConfigInvalid, LinkError

FIELDS = (
    Field("Size", "How many.", int, 7, minimum=1, maximum=10),
    Field("Ratio", "How much.", float, None, minimum=0),
    Field("Loud", "Whether.", bool, False),
    Field("Mode", "Which.", default="auto", choices=("auto", "Manual")),
    Field("Token", "Secret.", int, secret=True),
    Field("Host", "Where.", required=True),
)


def test_every_type_has_a_spec_under_its_own_name() -> None:
    for name in ("MEMORY", "RABBITMQ"):
        assert name in types()
        assert spec(name.lower()).type == name


def test_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(ConfigInvalid, match=r"'carrier-pigeon'.*RABBITMQ, KAFKA, MQTT, MEMORY"):
        open_link(LinkConfig("l", "carrier-pigeon", {}))


def test_missing_client_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [
        name for name in sys.modules if name.split(".")[0] == "pika" or name.startswith("mgw.links.rabbitmq.")
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pika", None)
    with pytest.raises(LinkError, match=r"'pika' is not installed.*messaging-gateway\[rabbitmq\]"):
        check_client("rabbitmq")


@pytest.mark.parametrize(
    ("client", "package", "extra"), [("kafka-python", "kafka", "kafka"), ("confluent", "confluent_kafka", "confluent")]
)
def test_missing_client_of_a_kafka_link_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, client: str, package: str, extra: str
) -> None:
    for module in [
        name
        for name in sys.modules
        if name.split(".")[0] == package or name.startswith(("mgw.links.kafka.python_", "mgw.links.kafka.confluent_"))
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LinkError, match=rf"'{package}' is not installed.*messaging-gateway\[{extra}\]"):
        check_client("kafka", {"Client": client})


def test_a_spec_needs_no_client_library() -> None:
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('pika', 'kafka', 'paho')));"
        "from mgw.links import registry; print([registry.spec(each).type for each in registry.types(own=True)])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "['RABBITMQ', 'KAFKA', 'MQTT', 'MEMORY']\n"


def test_no_client_library_is_imported_before_a_link_is_used() -> None:
    script = "import sys, mgw.links.registry; print([m for m in ('pika', 'kafka', 'paho') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_bad_attribute_is_refused_when_the_link_is_opened() -> None:
    with pytest.raises(ConfigInvalid, match="link l: port cannot be '70000'"):
        open_link(LinkConfig("l", "rabbitmq", {"port": 70000}))


def test_address_of_the_management_api_takes_no_password() -> None:
    options = {"AMQP_ManagementURL": "http://mgw:sesame@broker:15672"}
    with pytest.raises(ConfigInvalid, match="link l: AMQP_ManagementURL names a user") as refused:
        open_link(LinkConfig("l", "rabbitmq", {"hostname": "broker"}, options=options))
    assert "sesame" not in str(refused.value)


def test_names_compare_case_insensitively_and_defaults_are_filled_in() -> None:
    assert parse(FIELDS, {"SIZE": "3", "loud": "TRUE", "mode": "MANUAL", "host": "h"}, "x") == {
        "size": 3,
        "ratio": None,
        "loud": True,
        "mode": "Manual",
        "token": None,
        "host": "h",
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Host is missing"),
        ({"host": "h", "speed": "1"}, "'speed' is unknown"),
        ({"host": "h", "size": "many"}, "whole number"),
        ({"host": "h", "size": "0"}, "smallest value is 1"),
        ({"host": "h", "size": "11"}, "largest value is 10"),
        ({"host": "h", "ratio": "nan"}, "smallest value is 0"),
        ({"host": "h", "loud": "perhaps"}, "TRUE or FALSE"),
        ({"host": "h", "mode": "never"}, "auto, Manual"),
    ],
)
def test_wrong_setting_is_named_with_its_owner(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message) as raised:
        parse(FIELDS, values, "link plant")
    assert "link plant" in str(raised.value)


def test_secret_values_are_not_shown() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        parse(FIELDS, {"host": "h", "token": "hunter2"}, "x")
    assert "hunter2" not in str(raised.value)


def test_foreign_names_pass_where_several_systems_share_a_list() -> None:
    assert parse(FIELDS, {"host": "h", "KAFKA_key": "1"}, "x", foreign=True)["host"] == "h"


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        (Field("a", "Size.", int, minimum=1, maximum=10000), "give a whole number from 1 to 10000: Size."),
        (Field("a", "Age.", float, minimum=0.5), "give a number, at least 0.5: Age."),
        (Field("a", "On.", bool), "give TRUE or FALSE: On."),
        (Field("a", "Kind.", choices=("x", "y", "z")), "give x, y or z: Kind."),
        (Field("a", "Kind.", choices=("x",)), "give x: Kind."),
    ],
)
def test_refused_value_comes_with_those_that_are_taken(field: Field, wanted: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_value(field, "-", "link plant")
    assert refused.value.cure == wanted
