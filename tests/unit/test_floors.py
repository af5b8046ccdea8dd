"""The shape of the house: imports point down only, each client has one home, and so has SQL (docs/architecture.md)."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mgw.gateway import aq
from tests.support.rooms import House, ordered

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("transforms", "links", "gateway", "pipelines")
FACES = ("mgw.gateway.__main__", "mgw.gateway.cli", "mgw.gateway.http", "mgw.gateway.jms")
CLIENTS = {
    "pika": "links/rabbitmq/",
    "kafka": "links/kafka/python_client/",
    "confluent_kafka": "links/kafka/confluent_client/",
    "paho": "links/mqtt/",
}
SPARK = {"pyspark", "py4j", "pandas", "pyarrow", "numpy", "adbc_driver_manager"}  # and what comes with it
SPARK |= {"adbc_driver_postgresql", "adbc_driver_sqlite"}
HOMES_OF_SQL = re.compile(
    r"gateway/aq/(\w+/\w+_sql|store/(tables|statements|membership|migrations/\w+)|queues/transfer|views/\w+)\.py"
    r"|gateway/aq/conditions/sql/\w+\.py|gateway/ledger/(store|upkeep)\.py"
    r"|gateway/state/(mgwadm/\w+_sql|catalog/\w+|certificates|desk_queues|happened|history|parked|records|run_state|lease|views|view_dialects|status|tables|triggers|users|migrations/\w+)\.py"
    r"|pipelines/((\w+/)?statements\w*|(tables|migrations)/\w+)\.py"
)
SQL_TEXT = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER)\s")
SQL_BUILDERS = {"select", "insert", "update", "delete", "text"}
#: The rooms from the ground up; those on one line know nothing of each other. An import goes to a line above.
ROOMS = ordered(
    """
    transforms/__init__.py transforms/gap.py
    transforms/errors.py transforms/clock.py transforms/open_files.py transforms/objects.py
    transforms/message.py
    transforms/payloads/ transforms/header_table.py transforms/trail.py transforms/aq_properties.py
    transforms/no_local.py
    transforms/lcr/
    transforms/language/ transforms/amqp/ transforms/kafka/ transforms/mqtt/
    transforms/codecs/
    transforms/builtin.py transforms/steps/
    links/__init__.py links/patterns.py links/placement.py links/attempt.py links/skeleton.py
    links/contract.py
    links/client_logging.py links/failed_check.py links/header_names.py links/job_checks.py links/listening.py
    links/tls.py links/log_cleaning.py links/log_preparation.py links/options.py links/place.py links/reading_back.py
    links/inspection.py links/registry.py links/certificates.py links/nodes.py links/exception_guarantee.py
    links/pool.py links/rabbitmq/ links/kafka/ links/mqtt/ links/memory/
    gateway/aq/errors/ gateway/aq/grants.py
    gateway/aq/names.py gateway/aq/options.py gateway/aq/attributes.py
    gateway/aq/model.py
    gateway/aq/store/
    gateway/aq/python_code/
    gateway/aq/views/ gateway/aq/payloads/
    gateway/aq/conditions/
    gateway/aq/queues/ gateway/aq/functions/
    gateway/aq/security/
    gateway/aq/schema/
    gateway/aq/sessions/
    gateway/aq/upkeep/
    gateway/aq/hub.py
    gateway/aq/admin/
    gateway/aq/__init__.py
    gateway/__init__.py gateway/definitions/
    gateway/state/
    gateway/ledger/ gateway/observe/
    gateway/runtime/
    gateway/services/admin/
    gateway/config/
    gateway/services/
    gateway/http/
    gateway/cli/
    gateway/__main__.py
    pipelines/__init__.py pipelines/errors.py pipelines/files.py pipelines/workers.py
    pipelines/migrations/
    pipelines/tables/
    pipelines/reach.py pipelines/query.py
    pipelines/hub.py
    pipelines/source/
    pipelines/context.py pipelines/sink/
    pipelines/registry.py pipelines/datasource.py
    pipelines/kafka.py
    pipelines/jobs/
    pipelines/config.py
    pipelines/session.py
    pipelines/runner.py pipelines/reference.py
    pipelines/cli.py
    pipelines/__main__.py
    """
)
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def _floor(name: str) -> int | None:
    """Floor of a module by its dotted name; None for modules that are not ours."""
    if any(name == face or name.startswith(f"{face}.") for face in FACES):
        return 4
    if name == "mgw.gateway.aq" or name.startswith("mgw.gateway.aq."):
        return 2
    top, _, inner = name.partition(".")
    if top != "mgw":
        return None
    return {"transforms": 0, "links": 1, "gateway": 3, "pipelines": 5}.get(inner.partition(".")[0])


def _name(path: Path) -> str:
    parts = ("mgw", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of everything that is imported, also inside functions and under TYPE_CHECKING."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                inner = ROOT.joinpath(*base.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").exists()
                yield node.lineno, f"{base}.{alias.name}" if is_module else base


def _docstrings(nodes: Iterable[ast.AST]) -> set[ast.expr]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        statement.value
        for owner in nodes
        if isinstance(owner, owners)
        for statement in owner.body
        if isinstance(statement, ast.Expr)
    }


def _sql(path: Path) -> Iterator[tuple[int, str]]:
    """Line and beginning of every statement: as text, or put together with SQLAlchemy."""
    nodes = list(ast.walk(_tree(path)))
    documentation = _docstrings(nodes)
    modules, functions = {"sqlalchemy"}, set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.name == "sqlalchemy" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlalchemy":
            functions |= {alias.asname or alias.name for alias in node.names if alias.name in SQL_BUILDERS}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation:
            if SQL_TEXT.match(node.value):
                yield node.lineno, node.value.strip()[:40]
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in functions:
                yield node.lineno, f"{called.id}()"
            elif (
                isinstance(called, ast.Attribute)
                and called.attr in SQL_BUILDERS
                and isinstance(called.value, ast.Name)
                and called.value.id in modules
            ):
                yield node.lineno, f"{called.value.id}.{called.attr}()"


def test_imports_point_to_the_same_floor_or_below() -> None:
    floors = {path: _floor(_name(path)) for path in MODULES}
    assert None not in floors.values()
    above = [
        f"{_place(path)}, floor {own}, line {line}: {name} (floor {floor})"
        for path, own in floors.items()
        for line, name in _imports(path)
        if (floor := _floor(name)) is not None and own is not None and floor > own
    ]
    assert not above


def test_product_code_does_not_import_tests_or_benchmarks() -> None:
    wrong = [
        f"{_place(path)}: {name}"
        for path in MODULES
        for _, name in _imports(path)
        if name.partition(".")[0] in {"tests", "benchmarks"}
    ]
    assert not wrong


def test_a_messaging_client_is_imported_by_its_link_only() -> None:
    wrong = [
        f"{_place(path)}, line {line}: {name}"
        for path in MODULES
        for line, name in _imports(path)
        if (home := CLIENTS.get(name.partition(".")[0])) is not None and not _place(path).startswith(home)
    ]
    assert not wrong


def test_only_pipelines_import_spark() -> None:
    wrong = [
        f"{_place(path)}, line {line}: {name}"
        for path in MODULES
        for line, name in _imports(path)
        if name.partition(".")[0] in SPARK and not _place(path).startswith("pipelines/")
    ]
    assert not wrong


def test_sql_is_in_the_statement_modules_only() -> None:
    found = [
        f"{_place(path)}, line {line}: {text}"
        for path in MODULES
        if not HOMES_OF_SQL.fullmatch(_place(path))
        for line, text in _sql(path)
    ]
    assert not found, "these are no homes of SQL"


def test_the_finder_of_sql_finds_it_where_it_lives() -> None:
    for place in ("gateway/aq/queues/messages_sql.py", "gateway/state/run_state.py", "gateway/state/views.py"):
        assert list(_sql(ROOT / place)), place


def test_the_finder_of_imports_sees_functions_and_submodules() -> None:
    names = {name for _, name in _imports(ROOT / "gateway/cli/main.py")}
    assert {"typer", "mgw.gateway.cli.common", "mgw.gateway.cli.watch"} <= names


@functools.cache
def _house() -> House:
    return House(ROOT)


def test_every_module_is_in_a_room() -> None:
    assert not _house().homeless(ROOMS), "write the new room into ROOMS, above those it imports from"


def test_every_room_has_modules() -> None:
    places = list(_house().modules.values())
    assert not [room for line in ROOMS for room in line if not any(place.startswith(room) for place in places)]


def test_imports_run_down_between_rooms() -> None:
    found = [f"{arrow} (line {arrow.line})" for arrow in _house().arrows_that_run_up(ROOMS)]
    assert not found, f"imports from a room above, or from one side by side: {found}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not _house().circles()


def test_the_hub_is_imported_through_its_door_only() -> None:
    """Other modules may be moved without a change outside; ``errors`` is handed out whole."""
    arrows = _house().arrows_past_the_door("gateway/aq/", allowed=["gateway/aq/errors/__init__.py"])
    assert not [f"{arrow} (line {arrow.line})" for arrow in arrows], "import it from mgw.gateway.aq"


def test_the_door_of_the_hub_gives_what_it_promises() -> None:
    for name in aq.__all__:
        assert getattr(aq, name) is not None, name
    typed = {
        alias.asname or alias.name
        for node in ast.walk(_tree(ROOT / "gateway/aq/__init__.py"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mgw.")
        for alias in node.names
    }
    assert typed == set(aq.__all__)


OLD_STYLE = {
    "ground/lock.py": "from __future__ import annotations\n",
    "ground/pool.py": "def take():\n    from mgw.roof import Hub\n",
    "ground/one.py": "from mgw.ground import two\n",
    "ground/two.py": "import typing\nif typing.TYPE_CHECKING:\n    from .three import X\n",
    "ground/three.py": "import mgw.ground.one\n",
    "left/a.py": "from mgw.right.b import thing\n",
    "right/b.py": "from mgw.ground.lock import thing\n",
    "ground/late.py": "import importlib\nimportlib.import_module('mgw.right.b')\n",
    "roof.py": "from mgw.ground.pool import take\n",
    "cellar.py": "",
}


def test_the_checker_of_rooms_finds_what_is_wrong(tmp_path: Path) -> None:
    for place, text in OLD_STYLE.items():
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    house = House(tmp_path, packages=(".",))
    rooms = ordered("ground/\nleft/ right/\nroof.py")
    assert {str(arrow) for arrow in house.arrows_that_run_up(rooms)} == {
        "ground/late.py -> right/b.py",
        "ground/pool.py -> roof.py",
        "left/a.py -> right/b.py",
    }
    assert sorted(house.circles()) == [
        ["ground/one.py", "ground/three.py", "ground/two.py"],
        ["ground/pool.py", "roof.py"],
    ]
    assert house.homeless(rooms) == ["cellar.py"]
    assert [str(arrow) for arrow in house.arrows_past_the_door("right/")] == [
        "ground/late.py -> right/b.py",
        "left/a.py -> right/b.py",
    ]
    assert not house.arrows_past_the_door("right/", allowed=["right/b.py"])


#: Files of every broker in ``links``; of those below, the brokers that have them.
LINK_FILES = ("spec", "link", "connection", "source", "destination")
MORE_LINK_FILES = {
    "errors": {"rabbitmq", "kafka", "mqtt"},
    "guarantee": {"rabbitmq", "kafka", "mqtt"},
    "probe": {"rabbitmq", "kafka", "mqtt"},
    "logged_destination": {"rabbitmq", "kafka", "mqtt"},
    "logged_source": {"rabbitmq"},  # what the others remember of what they read is in the hub
}
#: What is defined in which file of a broker, by the beginning of a line.
LINK_HOMES = {
    "SPEC = ": {"spec"},
    "def open_link(": {"link"},
    "def translate(": {"errors"},
    "def run_checks(": {"probe"},
    "    def recovered(self": {"destination", "logged_destination"},
    "    def backlog(self": {"source", "logged_source"},
}


def test_the_same_thing_has_the_same_file_name_in_each_link() -> None:
    brokers = sorted(path.name for path in (ROOT / "links").iterdir() if (path / "link.py").exists())
    assert brokers == ["kafka", "memory", "mqtt", "rabbitmq"]
    for broker in brokers:
        files = {path.stem: path.read_text() for path in (ROOT / "links" / broker).glob("*.py")}
        expected = {*LINK_FILES, *(name for name, having in MORE_LINK_FILES.items() if broker in having)}
        known = {*LINK_FILES, *MORE_LINK_FILES}
        assert known & set(files) == expected, broker
        for text, homes in LINK_HOMES.items():
            found = {name for name, code in files.items() if f"\n{text}" in code}
            assert found <= homes, f"links/{broker}: {text!r}"
