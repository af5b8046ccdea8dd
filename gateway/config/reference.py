"""The reference pages, made from the code that they describe: ``python -m gateway.config.reference``.

Every page has a function that returns its text; a test holds the files in ``docs/reference`` equal to them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from pydantic.fields import FieldInfo

from gateway.admin.job_checks import JOB_OPTIONS
from gateway.config.models import NOUNS, SECTIONS, Document, LogModel, SettingsModel, Strict
from links import registry
from links.contract import Capability, Field
from transforms import errors as error_module
from transforms import registry as transformation_module

__all__ = ["PAGES", "write"]

_MADE = "<!-- Made by python -m gateway.config.reference; do not edit. -->\n\n"


def write(folder: Path) -> list[Path]:
    """Write all pages into ``folder``; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, page in PAGES.items():
        path = folder / name
        path.write_text(page(), "utf-8")
        written.append(path)
    return written


def configuration_page() -> str:
    """configuration.md: every key of a configuration file."""
    parts = [
        "# Configuration\n",
        "A configuration is YAML. `mgw lint` checks it, `mgw plan` says what would change, `mgw apply` does it, "
        "`mgw export` prints what a hub holds in the same form, `mgw schema` prints the JSON Schema for editors.\n",
        "Rules: an unknown key is an error. Names ignore case. Several files are merged; a name may be defined once. "
        "A key that is left out means its default, except for passwords: there it keeps what is stored. "
        "`${NAME}` stands for the environment variable `NAME`, `${NAME:-value}` gives a default, `$${` is a plain "
        "`${`. Where `NAME` is not set, the file named by `NAME_FILE` is read. Every `password` may be written as "
        "`password_file`.\n",
        "## Top level\n",
        _model_table(Document),
        "## settings\n",
        _model_table(SettingsModel),
        "### settings.log\n",
        _model_table(LogModel),
    ]
    hidden = ("attributes", "definition")
    for section, model in SECTIONS.items():
        parts += [f"## {section}\n", f"{inspect.getdoc(model)}\n", _model_table(model, hidden)]
        if section == "links":
            parts.append("Beside these, the attributes of the link type: see [links](links.md).\n")
        if section == "transformations":
            text = (inspect.getdoc(transformation_module) or "").partition("\n\n")[2]
            parts.append(_from_rst(text) + "\n")
        if section == "jobs":
            parts += ["Options of every job (link types add their own, see [links](links.md)):\n", _fields(JOB_OPTIONS)]
    parts.append(f"The sections in the order in which objects depend on each other: {', '.join(NOUNS)}.\n")
    return _page(parts)


def links_page() -> str:
    """links.md: what each link type is called, takes and can do."""
    parts = ["# Link types\n", "Names of attributes and options ignore case. Secret values are stored encrypted.\n"]
    for name in registry.types():
        spec = registry.spec(name)
        domains = ", ".join(f"`{domain.lower()}`" if domain else "none" for domain in spec.domains)
        parts += [
            f"## {spec.title}\n",
            f"`type: {name.lower()}`. {spec.description}\n",
            f"Domains of foreign queues: {domains}.\n",
        ]
        for title, fields in (
            ("Attributes", spec.attributes),
            ("Options (`options:` of the link)", spec.options),
            ("Options of foreign queues", spec.queue_options),
            ("Options of jobs", spec.job_options),
        ):
            if fields:
                parts += [f"### {spec.title}: {title}\n", _fields(fields)]
        has = [capability for capability in Capability if capability in spec.capabilities]
        parts += [f"### {spec.title}: what it can do\n", "".join(f"* {each.value}\n" for each in has)]
        if missing := [capability for capability in Capability if capability not in spec.capabilities]:
            parts += ["What it cannot:\n", "".join(f"* {each.value}\n" for each in missing)]
    return _page(parts)


def errors_page() -> str:
    """errors.md: every class of error, and the numbers."""
    from gateway.admin.base import Ora

    parts = [
        "# Errors\n",
        "Every error says what happened to which object, why (`cause`), and what to do (`cure`). The command line "
        "prints it as one line and ends with 78 for a bad configuration, 2 for wrong usage, else 1.\n",
        "## Classes\n",
    ]
    rows = []
    for name in error_module.__all__:
        kind = getattr(error_module, name)
        base = "" if kind is error_module.GatewayError else kind.__mro__[1].__name__
        text = " ".join((inspect.getdoc(kind) or "").split())
        rows.append((f"`{name}`", f"`{base}`" if base else "", "yes" if kind.retriable else "no", text))
    parts += [_table(("Class", "Kind of", "Trying again can help", "Meaning"), rows), "## Numbers of administration\n"]
    parts.append("A refused administration call shows its number as `ORA-32801` and so on.\n")
    parts.append(_table(("Number", "Name"), [(f"ORA-{each.value:05d}", f"`{each.name}`") for each in Ora]))
    return _page(parts)


def cli_page() -> str:
    """cli.md: every command with its arguments and options."""
    from typer.main import get_command

    from gateway.cli.main import app

    parts = [
        "# Command line\n",
        "`--hub URL` may stand anywhere on the line; otherwise `MGW_HUB`, then `settings.hub` of the given "
        "configuration files, then `sqlite:///mgw-hub.db` in the current folder is used. Results go to standard "
        "output, complaints to standard error. Exit codes: 0 done, 1 the check or the operation failed, 2 wrong "
        "usage, 78 bad configuration. `MGW_DEBUG=1` adds the traceback to an unexpected error.\n",
    ]
    parts += _commands(get_command(app), "mgw")
    return _page(parts)


def _commands(command: Any, path: str) -> list[str]:
    group = getattr(command, "commands", None)
    parts = []
    text = " ".join((command.help or "").split())
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    usage = " ".join(
        [
            path,
            *(["[OPTIONS]"] if options else []),
            *(_argument(param) for param in arguments),
            *(["COMMAND"] if group else []),
        ]
    )
    parts += [f"## {path}\n", f"{text}\n", f"    {usage}\n"]
    rows = [
        (f"`{', '.join([*param.opts, *param.secondary_opts])}`", _cell(param.help or ""))
        for param in options
        if not param.name.startswith(("install_completion", "show_completion"))
    ]
    rows = [(f"`{_argument(param)}`", _cell(param.help)) for param in arguments if getattr(param, "help", None)] + rows
    if rows:
        parts.append(_table(("Argument or option", "Meaning"), rows))
    for name, child in (group or {}).items():
        parts += _commands(child, f"{path} {name}")
    return parts


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return name if param.required or name.startswith("[") else f"[{name}]"


def views_page() -> str:
    """views.md: the columns of the SQL views."""
    from gateway import views

    parts = [
        "# Views\n",
        "Real views in the hub database: `sqlite3` and `psql` read them, `mgw status` shows the same. Times are UTC.\n",
    ]
    for name, (text, columns) in _described(views).items():
        parts += [f"## {name}\n", f"{text}\n"] if text else [f"## {name}\n"]
        parts.append(_table(("Column", "Meaning"), [(f"`{column}`", _cell(meaning)) for column, meaning in columns]))
    return _page(parts)


def _described(views: ModuleType) -> Mapping[str, tuple[str, Iterable[tuple[str, str]]]]:
    raise NotImplementedError


def _model_table(model: type[Strict], hidden: Iterable[str] = ()) -> str:
    rows = []
    for name, field in model.model_fields.items():
        if name not in hidden:
            rows.append((f"`{name}`", _values(field), _default(field), _cell(field.description or "")))
    return _table(("Key", "Values", "Default", "Meaning"), rows)


def _values(field: FieldInfo) -> str:
    choices = _choices(field.annotation)
    if choices:
        return _cell(", ".join(f"`{choice}`" for choice in choices))
    names = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}
    kinds = [each.__name__ for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
    found = next((names[kind] for kind in kinds if kind in names), "mapping")
    if str(field.annotation).startswith("list"):
        return "list of texts"
    limits = {name: getattr(each, name) for each in field.metadata for name in ("ge", "le") if hasattr(each, name)}
    for each in get_args(field.annotation):
        for inner in getattr(each, "__metadata__", ()):
            limits |= {name: getattr(inner, name) for name in ("ge", "le") if getattr(inner, name, None) is not None}
    if limits:
        found += f", {limits.get('ge', '')}..{limits.get('le', '')}"
    return found


def _choices(annotation: Any) -> list[str]:
    """Members of every ``Literal`` inside an annotation."""
    from typing import Literal, get_origin

    if get_origin(annotation) is Literal:
        return [str(each) for each in get_args(annotation)]
    return [choice for each in get_args(annotation) for choice in _choices(each)]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ({}, []) or isinstance(value, Strict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _fields(fields: Iterable[Field]) -> str:
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    rows = []
    for field in fields:
        kind = ", ".join(f"`{choice}`" for choice in field.choices) or names[field.type]
        if field.minimum is not None or field.maximum is not None:
            low, high = (
                "" if limit is None else f"{limit:g}" if limit < 1e6 else str(limit)
                for limit in (field.minimum, field.maximum)
            )
            kind += f", {low}..{high}"
        default = "(required)" if field.required else "" if field.default is None else f"`{_setting(field.default)}`"
        change = "at once" if field.dynamic else "at reconnect" if field.alterable else "never"
        name = f"`{field.name}`" + (" (secret)" if field.secret else "")
        rows.append((name, kind, default, change, _cell(field.description)))
    return _table(("Name", "Values", "Default", "May change", "Meaning"), rows)


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _from_rst(text: str) -> str:
    """Docstring text as Markdown: literal blocks stay, double backquotes become single ones."""
    lines = [line[:-1] if line.endswith("::") else line for line in text.splitlines()]
    return "\n".join(lines).replace("``", "`")


def _page(parts: list[str]) -> str:
    return _MADE + "\n".join(parts).rstrip() + "\n"


#: File name to the function that makes it.
PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "links.md": links_page,
    "cli.md": cli_page,
    "errors.md": errors_page,
    "views.md": views_page,
}


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/reference")
    for made in write(target):
        sys.stdout.write(f"{made}\n")
