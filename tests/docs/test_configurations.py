"""Every configuration that is shipped or shown: applied, exported, applied again, in its own hub and in another."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mgw.gateway.cli.main import execute
from mgw.gateway.config.running import read_running
from mgw.gateway.state.gateway_hub import open_hub
from tests.docs.test_documentation import BLOCKS, ROOT, blocks, part_of

_SECTION = re.compile(r"^([a-z_]+):", re.MULTILINE)


def _complete(text: str) -> bool:
    """Whether everything that it refers to is in it, and it defines something."""
    sections = set(_SECTION.findall(text)) - {"version", "settings"}
    return bool(sections) and ("jobs" not in sections or "links" in sections)


SHOWN = [
    each
    for each in BLOCKS
    if each.language == "yaml"
    and not {"pipeline", "mapping-tests"} & set(each.words)
    and part_of(each) is None
    and _complete(each.text)
]
CONFIGURATIONS = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "conf").glob("*.yaml"))}
CONFIGURATIONS |= {str(each): each.text for each in SHOWN}
#: Pages show parts of what the shipped files and the first pages have; that every one is right is held by its own test.
FIRST = re.compile(r"[\w.-]+|(README|docs/quickstart)\.md:\d+")
SECRET = "not in any file 42"

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``mgw`` in this process and a folder of its own, expects success, and gives its output."""
    monkeypatch.chdir(tmp_path)
    for page in {each.page for each in SHOWN}:  # the modules of transformations
        for block in blocks(page):
            if found := re.match(r"# file: (\w+)\.py\n", block.text):
                (tmp_path / f"{found[1]}.py").write_text(block.text, "utf-8")
                monkeypatch.delitem(sys.modules, found[1], raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    def _run(*words: str, hub: str = "own.db") -> str:
        monkeypatch.setenv("MGW_HUB", f"sqlite:///{tmp_path}/{hub}")
        code = execute(list(words))
        shown = capsys.readouterr()
        assert code == 0, shown
        return shown.out

    return _run


def _set(monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    """Give every variable of a file that has no default, or an empty one, a value."""
    names = sorted(set(re.findall(r"(?<!\$)\$\{(\w+)(?::-)?\}", text)))
    for name in names:
        monkeypatch.setenv(name, SECRET)
    return names


@pytest.mark.parametrize(
    "name", [each if FIRST.fullmatch(each) else pytest.param(each, marks=pytest.mark.matrix) for each in CONFIGURATIONS]
)
def test_configuration_is_applied_once_and_travels(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CONFIGURATIONS[name]
    (tmp_path / "given.yaml").write_text(text, "utf-8")
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "127.0.0.1:1")  # a job of the example asks the broker, which is not there
    monkeypatch.setattr("mgw.gateway.services.admin.job_checks.VERIFY_SECONDS", 0.1)
    variables = _set(monkeypatch, text)
    assert "error" not in run("lint", "given.yaml")
    without_brokers = text.replace("prepare: true", "prepare: false")  # nothing can be prepared: no broker is there
    (tmp_path / "given.yaml").write_text(without_brokers, "utf-8")
    assert " created" in run("apply", "given.yaml").splitlines()[-1]
    assert run("plan", "given.yaml").startswith("nothing to do")
    exported = run("export", "-o", "exported.yaml") or (tmp_path / "exported.yaml").read_text("utf-8")
    assert SECRET not in exported

    for variable in variables:  # its own hub keeps the secrets
        monkeypatch.delenv(variable)
    assert run("apply", "exported.yaml").startswith("nothing to do")
    assert run("plan", "exported.yaml", "--prune").startswith("nothing to do")

    _set(monkeypatch, exported)  # another one is given them, and what may be imported
    modules = re.findall(r"^# (settings: .*transform_modules.*)$", exported, re.MULTILINE)
    (tmp_path / "trusted.yaml").write_text("\n".join(["version: 1", *modules]), "utf-8")
    assert "error" not in run("lint", "exported.yaml", "trusted.yaml", hub="none.db")
    run("apply", "exported.yaml", "trusted.yaml", hub="other.db")
    assert run("export", hub="other.db") == exported
    assert _passwords(tmp_path / "other.db") == dict.fromkeys(_passwords(tmp_path / "own.db"), SECRET)


def _passwords(hub: Path) -> dict[str, str]:
    with closing(open_hub(f"sqlite:///{hub}")) as opened:
        return {name: link.password for name, link in read_running(opened).links.items() if link.password is not None}


LOGIN = """\
links:
  lake: {type: kafka, bootstrap_servers: k, security_protocol: SASL_PLAINTEXT, username: u, password: "${PASSWORD}"}
"""


def test_secret_that_an_export_needs_elsewhere_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)
    (tmp_path / "given.yaml").write_text(LOGIN, "utf-8")
    run("apply", "given.yaml")
    run("export", "-o", "exported.yaml")
    monkeypatch.setenv("MGW_HUB", f"sqlite:///{tmp_path}/other.db")
    assert "warning missing-secret: link lake needs LAKE_PASSWORD or LAKE_PASSWORD_FILE" in run("lint", "exported.yaml")
    for command in ("plan", "apply"):
        monkeypatch.setenv("MGW_HUB", f"sqlite:///{tmp_path}/other.db")
        assert execute([command, "exported.yaml"]) == 78
        assert "; set LAKE_PASSWORD or LAKE_PASSWORD_FILE\n" in capsys.readouterr().err
        assert not (tmp_path / "other.db").exists()
    (tmp_path / "secret").write_text(f"{SECRET}\n", "utf-8")
    monkeypatch.setenv("LAKE_PASSWORD_FILE", str(tmp_path / "secret"))
    run("apply", "exported.yaml", hub="other.db")
    assert _passwords(tmp_path / "other.db") == {"lake": SECRET}
