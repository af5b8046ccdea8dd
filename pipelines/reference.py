"""The reference page ``docs/reference/spark.md``, made from the code: ``python -m mgw.pipelines.reference`` writes it.

A test holds the file equal to what is made here.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mgw.gateway.config.reference_text import cell, table
from mgw.pipelines.config import PipelineFile, SparkModel
from mgw.pipelines.registry import BUILT_IN
from mgw.pipelines.sink.layout import WRITTEN
from mgw.pipelines.source.columns import COLUMNS

__all__ = ["READ_OPTIONS", "STREAM_OPTIONS", "WRITE_OPTIONS", "spark_page", "write"]

_MADE = "<!-- Made by python -m mgw.pipelines.reference; do not edit. -->\n\n"

_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false", datetime: "time"}

#: Option -> (default, meaning).
READ_OPTIONS = {
    "url": ("`MGW_HUB`", "SQLAlchemy URL of the hub; Spark redacts it where it prints options"),
    "queue": ("(required)", "`[schema.]queue`"),
    "consumer": ("", "subscriber of a multi-consumer queue; without it its messages, each once"),
    "user": ("", "user of the hub whose privileges are checked; without it the owner of the hub"),
    "what": ("`messages`", "`messages`, `ready`, `history` (consumed and retained) or `exceptions`; not for streams"),
    "partitions": ("Spark's default parallelism", "ranges that are read in parallel"),
    "columns": ("all", "names, separated by commas: only these are read from the database"),
    "fetchSize": ("`8192`", "rows handed to Spark at once"),
}
STREAM_OPTIONS = {
    "stream": ("(required)", "name of the stream in the hub"),
    "maxRowsPerTrigger": ("`10000`", "maximum rows per batch"),
    "failOnDataLoss": ("`true`", "whether the query fails or continues when messages it has claimed are gone"),
}
WRITE_OPTIONS = {
    "url": ("`MGW_HUB`", "SQLAlchemy URL of the hub"),
    "queue": ("(required)", "`[schema.]queue`"),
    "query": ("a new one; required for streams", "name of the write: a batch that it has written is not written again"),
    "batch": ("`0`", "number of the batch, from 0; only with `query`, and not for streams, where Spark numbers them"),
    "user": ("", "user of the hub whose privileges are checked; without it the owner of the hub"),
    "maxRowsPerSecond": ("", "maximum rows per second that become messages"),
    "removeFrom": (
        "",
        "exception queues, separated by commas: the messages with the rows' `msgid` are removed from them",
    ),
}


def spark_page() -> str:
    """spark.md: columns, options, the file of a pipeline, the settings of every job."""
    parts = [
        "# Spark\n",
        "The data source `mgw` and the jobs; how they are used: [queues in Spark](../how-to/spark.md), "
        "[jobs](../how-to/spark-jobs.md).\n",
        "## Columns\n",
        "What is read from a queue, and what the Kafka helper makes of a record. Times are UTC. All but `queue` and "
        "`id` may be NULL.\n",
        table(("Column", "Type", "Meaning"), [(f"`{c.name}`", f"`{c.type}`", cell(c.meaning)) for c in COLUMNS]),
        "## Columns that are written\n",
        "A data frame needs `body` or `text`. Other columns of the table above are ignored: the hub sets them itself. "
        "Any other column is refused.\n",
        table(("Column", "Type", "Meaning"), [(f"`{n}`", f"`{w.type}`", cell(w.meaning)) for n, w in WRITTEN.items()]),
        "## Options\n",
        "Names ignore case; an unknown one is an error.\n",
        "### Reading\n",
        _options(READ_OPTIONS),
        "### Additional options for streams\n",
        _options(STREAM_OPTIONS),
        "### Writing\n",
        _options(WRITE_OPTIONS),
        "## The file of a pipeline\n",
        _model(PipelineFile),
        "### spark\n",
        _model(SparkModel),
    ]
    for name, (module, text) in BUILT_IN.items():
        settings: type[BaseModel] = import_module(module).Settings
        parts += [
            f"## Job {name}\n",
            f"{text[0].upper()}{text[1:]}.\n",
            _model(settings),
            *_nested(settings, "settings", {}),
        ]
    return _MADE + "\n".join(parts).rstrip() + "\n"


def write(path: Path) -> None:
    """Write the page."""
    path.write_text(spark_page(), "utf-8")


def _options(options: dict[str, tuple[str, str]]) -> str:
    rows = [(f"`{name}`", default, cell(meaning)) for name, (default, meaning) in options.items()]
    return table(("Option", "Default", "Meaning"), rows)


def _nested(model: type[BaseModel], path: str, known: dict[type[BaseModel], str]) -> Iterator[str]:
    """Tables of the models in a model, each once."""
    for name, field in model.model_fields.items():
        for inner, place in _models(field.annotation, f"{path}.{name}"):
            if inner in known:
                continue
            known[inner] = place
            variant = _variant(inner)
            yield f"### {place}{f', `{variant}`' if variant else ''}\n"
            yield f"{inspect.getdoc(inner)}\n"
            yield _model(inner)
            yield from _nested(inner, place, known)


def _models(kind: Any, path: str) -> Iterator[tuple[type[BaseModel], str]]:
    """Models that a type holds, with where they stand."""
    origin = get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind, path
    elif origin is Annotated:
        yield from _models(get_args(kind)[0], path)
    elif origin in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _models(each, path)
    elif origin is dict:
        yield from _models(get_args(kind)[1], f"{path}.NAME")
    elif origin in (list, tuple):
        for each in get_args(kind):
            yield from _models(each, f"{path}[]")


def _variant(model: type[BaseModel]) -> str:
    """``read: hub`` of a model that such a key chooses."""
    for name, field in model.model_fields.items():
        choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        if field.is_required() and len(choices) == 1 and isinstance(choices[0], str):
            return f"{name}: {choices[0]}"
    return ""


def _model(model: type[BaseModel]) -> str:
    rows = [
        (f"`{name}`", cell(_kind(field.annotation)), _default(field), cell(_meaning(model, name)))
        for name, field in model.model_fields.items()
        if f"{name}: " not in _variant(model)
    ]
    return table(("Key", "Values", "Default", "Meaning"), rows)


def _meaning(model: type[BaseModel], name: str) -> str:
    """Description of a field, from the model that gives one: a model may change the default alone."""
    for each in model.__mro__:
        field = getattr(each, "model_fields", {}).get(name)
        if field is not None and field.description:
            return str(field.description)
    return ""


def _kind(kind: Any) -> str:
    """What is allowed there, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    found = _PLAIN.get(kind) if origin is None else None
    if origin is Annotated:
        found = _kind(inner[0])
    elif origin is Literal:
        found = ", ".join(f"`{choice}`" for choice in inner)
    elif origin in (Union, types.UnionType):
        found = " or ".join(dict.fromkeys(_kind(each) for each in inner if each is not type(None)))
    elif origin in (list, tuple):
        found = f"list of {_kind(inner[0])}"
    elif origin is dict:
        found = f"name: {_kind(inner[1])}"
    return found or "mapping"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ({}, [], ()) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, list):
        value = f"[{', '.join(map(str, value))}]"
    return f"`{cell(str(value).lower() if isinstance(value, bool) else str(value))}`"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/reference/spark.md")
    write(target)
    sys.stdout.write(f"{target}\n")
