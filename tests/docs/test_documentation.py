"""The documentation is true: what it shows lints and runs, what it names exists, where it points there is something."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pika
import pytest
import typer
from typer.core import TyperGroup

from mgw.gateway.aq import WAYS
from mgw.gateway.cli.main import app
from mgw.gateway.config.lint import lint
from mgw.gateway.state.views import COLUMNS
from tests.cli.conftest import Mgw
from tests.support.brokers import Mosquitto, PostgreSQL, RabbitMQ
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
REFERENCE = ROOT / "docs" / "reference"


@dataclass(frozen=True)
class Block:
    """A fenced block: ``language`` and the words after it, its text, the line it begins at."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in re.finditer(r"^```(\S*)([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[1], tuple(found[2].split()), found[3])


BLOCKS = [block for page in PAGES for block in blocks(page)]


def prose(page: Path) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


# ------------------------------------------------------------------------------------------------------------- shown


def part_of(block: Block) -> str | None:
    """The file of an example package that a block is a part of; test_add_a_link.py runs those."""
    return next((word.removeprefix("of=") for word in block.words if word.startswith("of=")), None)


# With a module of its own, a block is run by test_transformation_examples.py; pipelines by tests/pipelines.
CONFIGURATIONS = [
    each
    for each in BLOCKS
    if each.language == "yaml"
    and "transform_modules" not in each.text
    and not {"pipeline", "mapping-tests"} & set(each.words)
    and part_of(each) is None
]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=str)
def test_every_configuration_that_is_shown_has_no_findings(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "shown.yaml"
    path.write_text(block.text, "utf-8")
    found = lint([path], {})
    if block.page.name == "transformations.md":  # shows parts of a configuration; what they refer to stands elsewhere
        found = [
            finding
            for finding in found
            if not re.match("(unknown|undefined)-(link|foreign-queue|queue|transformation)$", finding.name)
        ]
    assert [str(finding) for finding in found] == []


def _commands(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = typer.Context(group)
    for name in group.list_commands(context):  # with those of other packages
        command = group.get_command(context, name)
        yield (*words, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, (*words, name))


@functools.cache
def commands() -> set[tuple[str, ...]]:
    """Every command of ``mgw``, as words."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return set(_commands(group))


def _named(text: str, program: str) -> Iterator[tuple[str, ...]]:
    """The words after ``program`` in code: in blocks of commands and between backquotes."""
    for found in re.finditer(rf"(?:^\s*|[`|;&(]\s*){program} ((?:[a-z][a-z-]*\b ?){{1,3}})", text, re.MULTILINE):
        yield tuple(found[1].split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    known = commands()
    groups = {words[0] for words in known if len(words) > 1}
    code = [block.text for block in blocks(page) if block.language in ("sh", "ini")]
    code += re.findall(r"`[^`\n]+`", prose(page))
    for text in code:
        for words in _named(text, "mgw"):
            assert words[:1] in known, f"mgw {words[0]} in {text!r}"
            if words[0] in groups and len(words) > 1:
                assert words[:2] in known, f"mgw {' '.join(words[:2])} in {text!r}"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for text in code + [line for line in page.read_text("utf-8").splitlines() if line.startswith("    ")]:
        for words in _named(text, "make"):
            assert words[0] in targets, f"make {words[0]} in {text!r}"


def _anchors(page: Path) -> set[str]:
    """What a heading is called in a link: lower case, without punctuation, spaces as hyphens."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), target
            continue
        path, _, anchor = unquote(target).partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} leads nowhere"
        assert there.is_relative_to(ROOT), f"{target} leads out of the repository"
        if anchor:
            assert anchor in _anchors(there), f"{target}: no such heading; there are {sorted(_anchors(there))}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page.is_dir():
            page /= "README.md"
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)\s#]+)", prose(page))
        ahead += [(page.parent / target).resolve() for target in targets if ":" not in target]
    assert set(PAGES) - seen == set()


# -------------------------------------------------------------------------------------------------------- reference


def test_every_way_to_a_change_is_told() -> None:
    told = (ROOT / "docs/how-to/roll-back.md").read_text("utf-8").partition("How: ")[2].partition("`--json`")[0]
    assert sorted(re.findall(r"`(\w+)`", told)) == sorted(WAYS)


def test_every_command_and_its_options_are_in_the_reference() -> None:
    text = (REFERENCE / "cli.md").read_text("utf-8")
    missing = [words for words in commands() if f"## mgw {' '.join(words)}\n" not in text]
    assert missing == []


def test_every_view_and_every_column_is_in_the_reference() -> None:
    text = (REFERENCE / "views.md").read_text("utf-8")
    for view, columns in COLUMNS.items():
        assert f"## {view}\n" in text
        part = text.partition(f"## {view}\n")[2].partition("\n## ")[0]
        assert [column for column in columns if f"| `{column}` |" not in part] == []


# -------------------------------------------------------------------------------------------------------------- run


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any("run" in b.words for b in blocks(page))],
    ids=lambda p: p.name,
)
def test_examples_in_python_run_in_their_order(page: Path, tmp_path: Path) -> None:
    mgw = Mgw(tmp_path)
    for block in blocks(page):
        for word in block.words:
            if word.startswith("file="):
                mgw.ok("apply", mgw.file(block.text, word.removeprefix("file=")))
    script = "".join(block.text for block in blocks(page) if "run" in block.words)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env=mgw.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def _shown(text: str) -> list[str]:
    """Lines with their white space squeezed."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _expected(line: str) -> re.Pattern[str]:
    """A line of the page; an ellipsis in it stands for anything."""
    return re.compile(re.escape(line).replace("…", ".*"))


def _walk_through(page: Path, folder: Path, environ: dict[str, str]) -> None:
    """Run the commands of a page in one shell, and find below each block what the page says it prints."""
    mgw = Mgw(folder, environ)
    expected: list[tuple[Block, str]] = []
    script = ["set -eu -o pipefail"]
    for block in blocks(page):
        files = [word.removeprefix("file=") for word in block.words if word.startswith("file=")]
        if files:
            mgw.file(block.text, files[0])
        elif block.language == "sh" and "skip" not in block.words:
            script.append(f"echo '=== {block.line}'\n{block.text}")
            expected.append((block, ""))
        elif block.language == "sql" and "PGPORT" in environ:
            script.append(
                f"echo '=== {block.line}'\npsql -X -q -A -t -F ' | ' -v ON_ERROR_STOP=1 <<'SQL'\n{block.text}SQL"
            )
            expected.append((block, ""))
        elif block.language == "text" and expected:
            expected[-1] = (expected[-1][0], block.text)
    path = f"{Path(sys.executable).parent}:{mgw.environment()['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=mgw.environment() | {"PATH": path} | ({} if "PGPORT" in environ else {"MGW_HUB": "sqlite:///mgw-hub.db"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = shell.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):  # its gateway, where the page did not come to stop it
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert shell.returncode == 0, out
    for block, text in expected:
        found = _shown(out.partition(f"=== {block.line}\n")[2].partition("\n===")[0])
        for line in _shown(text):
            assert any(_expected(line).fullmatch(each) for each in found), f"{block}: {line!r} is not in {found}"


def test_quickstart_does_what_it_says(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    environ = {"RABBIT_PORT": str(rabbitmq.port), "RABBIT_PASSWORD": rabbitmq.password, "PYTHONWARNINGS": "default"}
    with Mosquitto() as mosquitto:
        _walk_through(ROOT / "docs/quickstart.md", tmp_path, environ | {"MQTT_PORT": str(mosquitto.port)})


def test_messages_go_over_http_as_the_page_says(tmp_path: Path) -> None:
    _walk_through(ROOT / "docs/how-to/messages-over-http.md", tmp_path, {"PORT": str(free_port())})


def test_hub_is_used_from_sql_as_the_page_says(tmp_path: Path, postgresql: PostgreSQL) -> None:
    environ = {"PGHOST": postgresql.host, "PGPORT": str(postgresql.port), "PGUSER": postgresql.username}
    try:
        with Mosquitto() as mosquitto:
            more = {"MQTT_PORT": str(mosquitto.port), "PYTHONWARNINGS": "default"}
            _walk_through(ROOT / "docs/how-to/use-the-hub-from-sql.md", tmp_path, environ | more)
    finally:
        postgresql.drop_database("shop")
        psql = ["psql", "-X", "-d", "mgw", "-c", "DROP ROLE IF EXISTS shop_app"]
        subprocess.run(psql, env=os.environ | environ, check=True, capture_output=True, timeout=60)


def test_the_gateway_is_administered_from_sql_as_the_page_says(tmp_path: Path, postgresql: PostgreSQL) -> None:
    environ = {"PGHOST": postgresql.host, "PGPORT": str(postgresql.port), "PGUSER": postgresql.username}
    try:
        with Mosquitto() as mosquitto:
            more = {"MQTT_PORT": str(mosquitto.port), "PYTHONWARNINGS": "default"}
            _walk_through(ROOT / "docs/how-to/administer-with-sql.md", tmp_path, environ | more)
    finally:
        postgresql.drop_database("works")
        psql = ["psql", "-X", "-d", "mgw", "-c", "DROP ROLE IF EXISTS works_operator"]
        subprocess.run(psql, env=os.environ | environ, check=True, capture_output=True, timeout=60)


def test_backup_of_a_hub_in_use_is_whole(tmp_path: Path) -> None:
    mgw = Mgw(tmp_path)
    mgw.ok("apply", mgw.file("queues:\n  Q: {}\n"))
    mgw.ok("aq", "enqueue", "Q", "keep me")
    _walk_through(ROOT / "docs/how-to/operate.md", tmp_path, {})
    assert mgw.ok("aq", "dequeue", "Q", "--body", "--hub", f"sqlite:///{tmp_path}/backup.db") == "keep me"


def test_jobs_of_the_documented_gateway_are_migrated_as_the_page_says(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    environ = {"RABBIT_PORT": str(rabbitmq.port), "RABBIT_PASSWORD": rabbitmq.password, "PYTHONWARNINGS": "default"}
    with Mosquitto() as mosquitto:
        page = ROOT / "docs/how-to/coming-from-oracle-messaging-gateway.md"
        _walk_through(page, tmp_path, environ | {"MQTT_PORT": str(mosquitto.port)})
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel = connection.channel()
        _, properties, body = channel.basic_get("shop.orders", auto_ack=True)  # the other one was consumed
        channel.queue_delete("shop.orders")
    assert (body, properties.priority, properties.delivery_mode) == (b'{"order":1}', 9 - 4, 2)
    assert re.fullmatch("AQMSGID:[0-9a-f]{32}", properties.message_id)
    assert properties.headers["tenant"] == "acme"


_IN_ONE_PROCESS = """
import shlex, sys
from mgw.gateway.cli.main import app
for line in sys.stdin.read().splitlines():
    app(shlex.split(line), standalone_mode=False)
"""


def test_commands_in_place_of_procedures_make_what_the_file_makes(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    page = ROOT / "docs/how-to/coming-from-oracle-messaging-gateway.md"
    environ = {"RABBIT_PORT": str(rabbitmq.port), "RABBIT_PASSWORD": rabbitmq.password, "MQTT_PORT": str(free_port())}
    mgw = Mgw(tmp_path, environ)
    (tmp_path / "office.password").write_text(rabbitmq.password)
    shown = {word: block for block in blocks(page) for word in block.words}
    for name in ("orders", "readings"):
        mgw.file(shown[f"file={name}.yaml"].text, f"{name}.yaml")
    commands = (shown["commands-of-orders"].text + shown["commands-of-readings"].text).replace("\\\n", " ")
    for name in ("RABBIT_PORT", "MQTT_PORT"):
        commands = commands.replace(f"${name}", environ[name])
    lines = [line.removeprefix("mgw ") for line in commands.splitlines()]
    assert len(lines) == 9 + 5
    done = subprocess.run(
        [sys.executable, "-c", _IN_ONE_PROCESS],
        input="\n".join([*lines, "plan orders.yaml readings.yaml"]),
        cwd=tmp_path,
        env=mgw.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        connection.channel().queue_delete("mgw.sent.shop_orders_out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing to do: 9 objects match the files" in done.stdout
