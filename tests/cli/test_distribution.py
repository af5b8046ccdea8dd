"""The wheel and the source archive: what is in them, and what works where only the base was installed."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

import mgw
from tests.support.sources import copy_sources

ROOT = Path(__file__).resolve().parents[2]
BUILD = (
    "import sys; from setuptools import build_meta as made; print(getattr(made, 'build_' + sys.argv[1])(sys.argv[2]))"
)
CLIENTS = {"pika", "kafka-python", "crc32c", "paho-mqtt", "psycopg", "pyspark", "pyarrow", "pandas"}


class Built(NamedTuple):
    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    place = tmp_path_factory.mktemp("distribution")
    copy_sources(place / "source")
    made = [_build(place / "source", kind, place) for kind in ("sdist", "wheel")]
    return Built(made[1], made[0])


@pytest.fixture(scope="module")
def base(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of an environment with the wheel and what it needs without any extra, and nothing else."""
    place = tmp_path_factory.mktemp("base")
    _run(place, sys.executable, "-m", "venv", "--without-pip", place / "venv")
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    for name in _needed(_metadata(built.wheel).get_all("Requires-Dist") or []):
        found = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or () if ".." not in file.parts}:
            if not (packages / top).exists() and top != "__pycache__":
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    python = place / "venv/bin/python"
    _run(place, sys.executable, "-m", "pip", "--python", python, "install", *options, built.wheel)
    return place / "venv/bin"


def _run(place: Path, *command: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ and command[0] == sys.executable}
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place), **kept}
    ended = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr + ended.stdout
    return ended


def _build(source: Path, kind: str, target: Path) -> Path:
    said = _run(source, sys.executable, "-c", BUILD, kind, target).stdout
    return target / said.splitlines()[-1]


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())


def _needed(requirements: list[str]) -> set[str]:
    """Names of distributions that these requirements need in the end, without extras."""
    names: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        each = waiting.pop()
        if each.name in names or (each.marker is not None and not each.marker.evaluate({"extra": ""})):
            continue
        names.add(each.name)
        waiting += [Requirement(text) for text in importlib.metadata.requires(each.name) or []]
    return names


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_what_a_user_needs(built: Built) -> None:
    names = _names(built.wheel)
    assert {name.split("/")[0] for name in names} == {"mgw"}
    needed = {"py.typed", "CHANGELOG.md", "conf/gateway.example.yaml", "conf/gateway.schema.json", "conf/mgw.service"}
    needed |= {
        f"conf/{folder}/{path.name}"
        for folder in ("examples", "kubernetes")
        for path in (ROOT / "conf" / folder).iterdir()
    }
    needed |= {"conf/quickstart.yaml", "pipelines/conf/archive.yaml", "gateway/aq/functions/common.sql"}
    needed |= {
        f"gateway/http/web/{folder}/{path.name}"
        for folder in ("static", "templates")
        for path in (ROOT / "gateway/http/web" / folder).iterdir()
    }
    assert {f"mgw/{name}" for name in needed} <= names
    with zipfile.ZipFile(built.wheel) as archive:
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())
    sources = {f"mgw/{path.relative_to(ROOT)}" for top in _folders() for path in (ROOT / top).rglob("*.py")}
    assert sources <= names


def _folders() -> tuple[str, ...]:
    return tuple(link.name for link in (ROOT / "mgw").iterdir() if link.is_symlink() and link.name != "conf")


def test_the_metadata_names_no_address_and_asks_the_base_for_no_client(built: Built) -> None:
    told = _metadata(built.wheel)
    assert (told["Name"], told["Version"]) == ("messaging-gateway", mgw.__version__)
    assert told["License-Expression"] == "Apache-2.0"
    assert not told.get_all("Project-URL")
    assert not told.get("Home-page")
    wanted = [Requirement(text) for text in told.get_all("Requires-Dist") or []]
    always = {each.name for each in wanted if each.marker is None}
    assert not always & CLIENTS
    extras = {
        "rabbitmq": "pika",
        "kafka": "kafka-python",
        "mqtt": "paho-mqtt",
        "postgres": "psycopg",
        "spark": "pyspark",
    }
    for extra, client in extras.items():
        assert any(each.name == client and each.marker and each.marker.evaluate({"extra": extra}) for each in wanted)
    assert {*extras, "all"} <= {*(told.get_all("Provides-Extra") or [])}


def test_a_wheel_made_of_the_source_archive_is_the_same(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.source) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert (source / "LICENSE").is_file()
    assert _names(_build(source, "wheel", tmp_path)) == _names(built.wheel)


def test_the_base_has_no_client_and_works_with_hub_queues(base: Path, tmp_path: Path) -> None:
    clients = ("pika", "kafka", "paho", "psycopg")
    script = f"import importlib.util as u; print([name for name in {clients} if u.find_spec(name)])"
    assert _run(tmp_path, base / "python", "-c", script).stdout == "[]\n"
    assert _run(tmp_path, base / "mgw", "--version").stdout == f"mgw {mgw.__version__}\n"
    (tmp_path / "hub.yaml").write_text("version: 1\nqueues:\n  ORDERS: {}\n")
    _run(tmp_path, base / "mgw", "apply", "hub.yaml")
    _run(tmp_path, base / "mgw", "aq", "enqueue", "ORDERS", "two pumps")
    program = (
        "import mgw\n"
        "with mgw.open_hub('sqlite:///mgw-hub.db') as hub, hub.session() as session:\n"
        "    print(session.dequeue('ORDERS', mgw.DequeueOptions(wait=mgw.NO_WAIT)).message.body)\n"
        "    session.commit()\n"
    )
    assert _run(tmp_path, base / "python", "-c", program).stdout == "two pumps\n"


def test_the_base_prints_the_schema_with_every_link_type(base: Path, tmp_path: Path) -> None:
    printed = json.loads(_run(tmp_path, base / "mgw", "schema").stdout)
    assert printed == json.loads((ROOT / "conf/gateway.schema.json").read_text("utf-8"))


def test_a_link_without_its_client_names_the_extra(base: Path, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("version: 1\nlinks:\n  OFFICE: {type: rabbitmq, hostname: 127.0.0.1, port: 1}\n")
    said = _run(tmp_path, base / "mgw", "apply", "f.yaml", status=78)
    assert "pip install 'messaging-gateway[rabbitmq]'" in said.stdout + said.stderr
    assert "Traceback" not in said.stdout + said.stderr
