"""The reference page of the public Python API, made from the docstrings of :mod:`mgw`."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, ForwardRef

import mgw
from mgw.gateway.config.reference_text import cell, page, table

__all__ = ["python_page"]


def python_page() -> str:
    """python.md: every public name of the package."""
    names = [name for name in mgw.__all__ if name != "__version__"]
    found = {name: getattr(mgw, name) for name in names}
    classes = {name: each for name, each in found.items() if inspect.isclass(each)}
    errors = {name: each for name, each in classes.items() if issubclass(each, Exception)}
    functions = {name: each for name, each in found.items() if inspect.isroutine(each)}
    values = {name: each for name, each in found.items() if name not in classes and name not in functions}
    parts = [
        "# Python\n",
        "`import mgw` gives these names, and they keep their meaning from one release to the next. The package is "
        "typed (`py.typed`), `mgw.__version__` is its version. How they work together: "
        "[use the hub from Python](../how-to/use-the-hub-from-python.md).\n",
        "## Functions\n",
        *(_routine(name, each) for name, each in functions.items()),
        "## Values\n",
        table(("Name", "Value"), [(f"`{name}`", f"`{each!r}`") for name, each in values.items()]),
    ]
    for name, each in classes.items():
        if name not in errors:
            parts += [f"## {name}\n", *_class(each)]
    parts += [
        "## Errors\n",
        "Every documented error of the queues has a class of its own in `mgw.gateway.aq.errors`, below `AqError`; see "
        "[errors](errors.md).\n",
        table(
            ("Class", "Base", "Meaning"),
            [(f"`{name}`", f"`{each.__bases__[0].__name__}`", cell(_first(each))) for name, each in errors.items()],
        ),
    ]
    return page(parts)


def _class(owner: type) -> Iterator[str]:
    yield f"{_text(owner).rstrip()}\n"
    if issubclass(owner, enum.Enum):
        yield table(("Member", "Value"), [(f"`{each.name}`", f"`{each.value}`") for each in owner])
        return
    if is_dataclass(owner):
        rows = [(f"`{each.name}`", f"`{_type(each.type)}`") for each in fields(owner) if not each.name.startswith("_")]
        yield table(("Field", "Type"), rows)
    elif issubclass(owner, tuple):
        rows = [(f"`{name}`", f"`{_type(kind)}`") for name, kind in inspect.get_annotations(owner).items()]
        yield table(("Field", "Type"), rows)
    members = [
        (name, member)
        for name, member in inspect.getmembers(owner)
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)) and _ours(member)
    ]
    if members:
        rows = [(f"`{name}{_signature(member)}`", cell(_first(member))) for name, member in members]
        yield table(("Member", "Meaning"), rows)


def _ours(member: Any) -> bool:
    function = member.fget if isinstance(member, property) else member
    return str(getattr(function, "__module__", "")).startswith("mgw.") and bool(inspect.getdoc(member))


def _routine(name: str, function: Any) -> str:
    return f"### {name}\n\n`{name}{_signature(function)}`\n\n{_text(function).rstrip()}\n"


def _signature(member: Any) -> str:
    if isinstance(member, property):
        return ""
    signature = inspect.signature(member)
    kept = [
        each.replace(annotation=inspect.Parameter.empty)
        for name, each in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    text = str(signature.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    return re.sub(r"<(?:\w+\.)*(\w+)[^<>]*>", r"\1", text)


def _type(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _text(documented: Any) -> str:
    """The docstring as Markdown: references become code."""
    text = inspect.getdoc(documented) or ""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text.replace("``", "`"))
    return re.sub(r"^(Args|Raises|Attributes|Returns):\n((?:    .*\n?|\n)+)", _section, text, flags=re.MULTILINE)


def _section(found: re.Match[str]) -> str:
    entries = re.split(r"\n    (?=\S)", found.group(2).strip())
    rows = [re.sub(r"\s+", " ", re.sub(r"^([\w*]+):", r"- `\1`:", each)) for each in entries]
    return f"{found.group(1)}:\n\n" + "\n".join(rows) + "\n"


def _first(documented: Any) -> str:
    return " ".join(_text(documented).split("\n\n")[0].split())
