"""``import mgw``: the short public API (docs/reference/python.md)."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mgw

SOURCE = ast.parse(Path(mgw.__file__).read_text("utf-8"))


def test_every_public_name_is_there_and_at_the_home_that_type_checkers_see() -> None:
    typed = {
        alias.name: node.module
        for block in SOURCE.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(mgw.__all__) == {*typed, "__version__"}
    for name, module in typed.items():
        assert getattr(mgw, name) is getattr(sys.modules[str(module)], name)
    assert {*mgw.__all__} <= {*dir(mgw)}


def test_every_public_class_and_function_is_documented() -> None:
    for name in mgw.__all__:
        found = getattr(mgw, name)
        if inspect.isroutine(found) or inspect.isclass(found):
            assert (inspect.getdoc(found) or "").strip(), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Hubb'"):
        mgw.Hubb  # noqa: B018
    with pytest.raises(ImportError, match="Hubb"):
        exec("from mgw import Hubb")  # noqa: S102


def test_importing_the_package_loads_no_database_and_no_client() -> None:
    script = "import mgw, sys; print(sorted(name for name in sys.modules if name.split('.')[0] in {0}))"
    heavy = {"sqlalchemy", "pydantic", "typer", "lxml", "pika", "kafka", "paho", "psycopg", "sqlglot"}
    said = subprocess.run([sys.executable, "-c", script.format(heavy)], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_a_program_needs_the_public_names_only(tmp_path: Path) -> None:
    with mgw.open_hub(f"sqlite:///{tmp_path}/hub.db", create=True) as hub:
        admin = mgw.QueueAdmin(hub)
        admin.create_queue_table("ORDERS_T")
        admin.create_queue("ORDERS", "ORDERS_T")
        admin.start_queue("ORDERS")
        header = mgw.Header("rush", mgw.ValueType.BOOLEAN, True)
        with hub.session() as session:
            session.enqueue("ORDERS", mgw.Message("a valve", headers=(header,)), mgw.EnqueueOptions())
            session.commit()
            taken: mgw.Dequeued = session.dequeue("ORDERS", mgw.DequeueOptions(wait=mgw.NO_WAIT))
            assert taken.message.body == "a valve"
            session.commit()
            with pytest.raises(mgw.NoMessage) as refused:
                session.dequeue("ORDERS", mgw.DequeueOptions(wait=mgw.NO_WAIT))
            assert isinstance(refused.value, mgw.AqError)
            assert isinstance(refused.value, mgw.GatewayError)
