"""Dockerfile and docker-compose.yml, read as an engine would read them: what they name exists, and nothing is open."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import mgw
from mgw.gateway.config import lint
from tests.support.kafka_jars import kafka_version

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: Mapping[str, Any] = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text())
SERVICES: Mapping[str, Mapping[str, Any]] = COMPOSE["services"]
ONE_SHOT = {name for name, service in SERVICES.items() if service.get("restart") == "no"}
QUICKSTART = ROOT / "conf" / "quickstart.yaml"
MESSAGING = {"rabbitmq", "kafka", "mosquitto"}


@pytest.fixture(params=sorted(SERVICES))
def service(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = SERVICES[request.param]
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def test_every_lasting_service_has_a_health_check() -> None:
    assert set(SERVICES) - ONE_SHOT == {"gateway", "postgres"} | MESSAGING
    for name in set(SERVICES) - ONE_SHOT:
        check = SERVICES[name]["healthcheck"]
        assert check["test"][0] == "CMD", name
        assert {"interval", "timeout", "retries", "start_period"} <= set(check), name


def test_dependencies_wait_for_health_or_for_the_end() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed in ONE_SHOT else "service_healthy"
            assert how["condition"] == expected, f"{name} -> {needed}"
    assert set(SERVICES["gateway"]["depends_on"]) >= {"postgres"} | MESSAGING


def test_ports_are_published_on_loopback_only(service: Mapping[str, Any]) -> None:
    for port in service.get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\d+\}:\d+", port), port
    assert service.get("network_mode") != "host"
    assert not service.get("privileged")


def test_images_name_a_version(service: Mapping[str, Any]) -> None:
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(-\w+)?", service["image"]), service["image"]


def test_kafka_is_the_version_the_tests_run() -> None:
    assert {SERVICES[name]["image"] for name in ("kafka", "topics")} == {f"apache/kafka:{kafka_version()}"}


def test_mounted_files_and_volumes_exist(service: Mapping[str, Any]) -> None:
    for mount in service.get("volumes", []):
        source, target, *mode = mount.split(":")
        assert target.startswith("/"), mount
        if source.startswith("."):
            assert (ROOT / source).is_file(), mount
            assert mode == ["ro"], mount
        else:
            assert source in COMPOSE["volumes"], mount


def test_compose_needs_no_variable_to_be_set() -> None:
    for text in _strings(COMPOSE):
        for variable in re.findall(r"(?<!\$)\$(?:\{[^}]*\}|\w+)", text):
            assert re.fullmatch(r"\$\{\w+:-[^}]+\}", variable), f"{variable} has no default"


def test_no_secret_is_written_down() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASS|SECRET|KEY|TOKEN", variable):
                assert variable.endswith("FILE"), f"{name}: {variable}"
                assert value.startswith("/run/mgw/"), f"{name}: {variable}"
    assert not re.search(r"://\w+:[^@/]+@", (ROOT / "docker-compose.yml").read_text())


def test_every_secret_that_is_read_is_made() -> None:
    made = set(re.findall(r">(\w+)$", (ROOT / "conf/compose/make-secrets").read_text(), re.MULTILINE))
    read = set()
    for text in itertools.chain(_strings(COMPOSE), [(ROOT / "conf/compose/make-queues").read_text()]):
        read |= set(re.findall(r"/run/mgw/(\w+)", text))
    assert read
    assert read <= made


def test_the_gateway_gets_every_variable_of_the_quickstart() -> None:
    given = set(SERVICES["gateway"]["environment"])
    settings = re.sub(r"(?m)#.*$", "", QUICKSTART.read_text())
    for variable in set(re.findall(r"\$\{(\w+)[:}]", settings)):
        assert given & {variable, f"{variable}_FILE"}, f"{variable} is not set for the gateway"


def test_the_quickstart_is_valid_in_the_gateways_environment(tmp_path: Path) -> None:
    environment = dict(SERVICES["gateway"]["environment"])
    for variable in [name for name in environment if name.endswith("_FILE")]:
        secret = tmp_path / variable
        secret.write_text("c2VjcmV0\n")
        environment[variable] = str(secret)
    findings = lint.lint([QUICKSTART], environment)
    assert [str(finding) for finding in findings] == []


def test_queues_and_topics_of_the_quickstart_are_made() -> None:
    made = (ROOT / "conf/compose/make-queues").read_text() + (ROOT / "conf/compose/make-topics").read_text()
    names = set(re.findall(r"[\w.]+", made))
    queues = YAML(typ="safe").load(QUICKSTART.read_text())["foreign_queues"]
    for name, queue in queues.items():
        if not name.endswith("@plant"):
            provider_queue = queue["provider_queue"].split("/")[0]
            assert provider_queue in names, f"{provider_queue} of {name} is made by nobody"


def test_secrets_are_made_once_and_closed(tmp_path: Path) -> None:
    script = (ROOT / "conf/compose/make-secrets").read_text().replace("/run/mgw", str(tmp_path))
    if os.getuid() != 0:
        script = re.sub(r"(?m)^chown.*$", "", script)
    contents = []
    for _ in range(2):
        subprocess.run(["sh", "-c", script], check=True)
        contents.append({path.name: path.read_text() for path in tmp_path.iterdir()})
    assert contents[0] == contents[1]
    assert len(set(contents[0].values())) == len(contents[0]) == 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    from cryptography.fernet import Fernet

    Fernet(contents[0]["secret_key"].strip())


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_image_is_built_from_files_that_exist_and_are_sent_to_the_engine() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for instruction, rest in _instructions():
        if instruction == "COPY" and "--from" not in rest:
            copied |= set(shlex.split(rest)[:-1])
    for source in copied:
        assert (ROOT / source).exists(), source
    assert copied == sent


def test_the_image_runs_mgw_as_a_user_without_rights() -> None:
    instructions = _instructions()
    last_stage = instructions[max(n for n, (name, _) in enumerate(instructions) if name == "FROM") :]
    values = dict(last_stage)
    uid, gid = values["USER"].split(":")  # by number: an orchestrator looks whether it is root
    assert int(uid) > 0
    assert int(gid) > 0
    assert json.loads(values["ENTRYPOINT"]) == ["mgw"]
    check = json.loads(values["HEALTHCHECK"].partition("CMD ")[2])
    assert check == SERVICES["gateway"]["healthcheck"]["test"][1:] == ["python", "-m", "mgw.gateway.http.probe"]
    assert values["VOLUME"] in dict(mount.split(":")[:2] for mount in SERVICES["gateway"]["volumes"]).values()
    assert {rest.split()[0] for name, rest in instructions if name == "FROM"} == {"${BASE}"}
    (base,) = (rest for name, rest in instructions if name == "ARG")
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-\w+", base)


def test_the_scripts_are_valid_shell() -> None:
    for script in (ROOT / "conf/compose").glob("make-*"):
        subprocess.run(["sh", "-n", script], check=True)
    for script in (ROOT / "tests/support/packages", ROOT / ".ci/run"):
        subprocess.run(["bash", "-n", script], check=True)


def test_the_lock_names_every_dependency_and_no_registry() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    locked = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] not in locked
    needs = project["dependencies"] + [need for extra in project["optional-dependencies"].values() for need in extra]
    for need in needs:
        name = re.split(r"[<>=\[;~ ]", need)[0].lower().replace(".", "-").replace("_", "-")
        assert name == project["name"] or name in locked, f"{name} is not in requirements.lock. Run: make lock"
    for block in re.split(r"\n(?=\S)", lock):
        assert "==" not in block or "--hash=sha256:" in block, block.splitlines()[0]


def test_the_lock_of_the_image_is_a_part_of_the_lock_and_holds_what_the_gateway_needs() -> None:
    whole, image = (
        {entry.strip() for entry in re.split(r"\n(?=\S)", (ROOT / name).read_text())}
        for name in ("requirements.lock", "requirements-image.lock")
    )
    entries = {entry for entry in image if "==" in entry}
    assert entries
    assert entries <= whole, "the two locks disagree. Run: make lock"
    locked = {entry.partition("==")[0] for entry in entries}
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for need in project["dependencies"] + [
        need for name in ("rabbitmq", "kafka", "confluent", "mqtt", "postgres") for need in extras[name]
    ]:
        name = re.split(r"[<>=\[;~ ]", need)[0].lower().replace(".", "-").replace("_", "-")
        assert name in locked, f"{name} is not in requirements-image.lock. Run: make lock"
    assert not locked & {"pyspark", "pytest", "mypy", "ruff"}


def test_extras_are_asked_of_this_package_and_of_no_other() -> None:
    """The index has a package ``mgw``, and it is not ours."""
    folders = ("gateway", "links", "pipelines", "transforms", "docs", "conf")
    texts = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".yaml"}
    ]
    texts += [ROOT / name for name in ("README.md", "Dockerfile", "Makefile", "pyproject.toml", "docker-compose.yml")]
    foreign = [str(path) for path in texts if re.search(r"\bmgw\[[a-z{]", path.read_text("utf-8"))]
    assert foreign == []


def test_the_command_tells_the_version_of_this_package() -> None:
    shown = subprocess.run(
        [Path(sys.executable).parent / "mgw", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"mgw {mgw.__version__}\n"


def test_the_page_shows_the_unit_that_is_shipped() -> None:
    page = (ROOT / "docs/how-to/operate.md").read_text("utf-8")
    assert f"```ini\n{(ROOT / 'conf/mgw.service').read_text('utf-8')}```" in page
