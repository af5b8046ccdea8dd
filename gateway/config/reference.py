"""Reference pages made from the code that they describe; written by ``python -m mgw.gateway.cli.reference``.

Every page has a function that returns its text; a test holds the files in ``docs/reference`` equal to them.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from mgw.gateway.aq import QUEUE_TABLE_OPTIONS, SUBSCRIBER_OPTIONS
from mgw.gateway.config.error_numbers import Chapter, chapters
from mgw.gateway.config.fields import Strict
from mgw.gateway.config.hub_view_columns import HUB_COLUMN_TEXTS, HUB_TEXT, HUB_VIEW_TEXTS
from mgw.gateway.config.models import SECTIONS, Document, HttpModel, LogModel, SettingsModel, SubscriberModel
from mgw.gateway.config.reference_headers import anchor, headers_page, rows_of
from mgw.gateway.config.reference_mgwadm import mgwadm_page
from mgw.gateway.config.reference_text import cell, page, table
from mgw.gateway.config.view_columns import COLUMN_TEXTS, VIEW_TEXTS
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.links import registry
from mgw.links.contract import Capability, Field
from mgw.transforms import errors as error_module
from mgw.transforms.steps import registry as transformation_module

__all__ = ["PAGES"]


def configuration_page() -> str:
    """configuration.md: every key of a configuration file."""
    parts = [
        "# Configuration\n",
        "A configuration is YAML. `mgw lint` checks it, `mgw plan` shows what would change, `mgw apply` makes the "
        "changes, "
        "`mgw export` prints what a hub holds in the same form, `mgw schema` prints the JSON Schema for editors. With "
        "a first line such as `# yaml-language-server: $schema=gateway.schema.json` an editor completes and checks the "
        "file while it is written. `conf/gateway.schema.json` describes the link types of the gateway itself; where "
        "other packages add link types, `mgw schema > gateway.schema.json` describes them all.\n",
        "Rules: an unknown key is an error. Names ignore case. Several files are merged; a name may be defined once. "
        "A key that is left out means its default, except for passwords: there it keeps what is stored, as does a "
        "password that consists only of a variable without a value, `${NAME:-}`; an empty text (`''`) removes it, and "
        "it "
        "goes with its `username`. "
        "`${NAME}` stands for the environment variable `NAME`, `${NAME:-value}` gives a default, `$${` is a plain "
        "`${`. Where `NAME` is not set, the file named by `NAME_FILE` is read. Every `password` may be written as "
        "`password_file`. YAML is that of version 1.2; aliases (`*name`) and merge keys (`<<`) may be used, tags and "
        "files over 4 MiB not.\n",
        "## Top level\n",
        _model_table(Document),
        "## settings\n",
        _model_table(SettingsModel),
        "### settings.log\n",
        _model_table(LogModel),
        "### settings.http\n",
        _model_table(HttpModel),
    ]
    hidden = ("attributes", "definition")
    for section, model in SECTIONS.items():
        parts += [f"## {section}\n", f"{inspect.getdoc(model)}\n", _model_table(model, hidden)]
        if section == "queue_tables":
            parts += ["Options of every queue table:\n", _fields(QUEUE_TABLE_OPTIONS)]
        if section == "queues":
            parts += ["### queues.subscribers\n", f"{inspect.getdoc(SubscriberModel)}\n", _model_table(SubscriberModel)]
            parts += ["Options of every subscriber:\n", _fields(SUBSCRIBER_OPTIONS)]
        if section == "agents":
            parts += ["Options of every agent; they take effect at its next start:\n", _fields(AGENT_OPTIONS)]
        if section == "links":
            parts.append("In addition, the attributes of the link type: see [links](links.md).\n")
        if section == "transformations":
            text = (inspect.getdoc(transformation_module) or "").partition("\n\n")[2]
            parts.append(_from_rst(text) + "\n")
        if section == "jobs":
            parts += ["Options of every job (link types add their own, see [links](links.md)):\n", _fields(JOB_OPTIONS)]
    parts.append(f"The sections in the order in which objects depend on each other: {', '.join(SECTIONS)}.\n")
    return page(parts)


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
                parts += [
                    f"### {spec.title}: {title}\n",
                    _fields(fields, fixed=fields is spec.queue_options),  # a registration is not altered
                ]
        if rows_of(spec):
            parts += [f"### {spec.title}: headers\n", f"See [headers](headers.md#{anchor(spec.title)}).\n"]
        elif headers := _header_table(spec.mapping):
            parts += [f"### {spec.title}: headers\n", _HEADERS, headers]
        has = [capability for capability in Capability if capability in spec.capabilities]
        parts += [f"### {spec.title}: what it can do\n", "".join(f"* {each.value}\n" for each in has)]
        if missing := [capability for capability in Capability if capability not in spec.capabilities]:
            parts += ["What it cannot do:\n", "".join(f"* {each.value}\n" for each in missing)]
    return page(parts)


_HEADERS = (
    "How properties and headers are mapped. Inbound (in) is from the broker to the hub, outbound (out) from the hub to "
    "the broker. Rules and transformations use the names of the hub.\n"
)


def _header_table(module: str) -> str:
    """The table of properties and headers, from the module that maps them; empty where nothing is mapped."""
    if not module:
        return ""
    text = inspect.getdoc(importlib.import_module(module)) or ""
    # reStructuredText: columns stand under the signs of the rule; a line without its first goes on with the one above
    _, heading, body = re.split(r"^=[= ]+\n", text, flags=re.MULTILINE)[:3]
    rule = (re.search(r"^=[= ]+$", text, re.MULTILINE) or [""])[0]
    starts = [found.start() for found in re.finditer("=+", rule)]
    rows: list[list[str]] = []
    for line in (heading + body).splitlines():
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0] and not (rows and rows[-1][0].endswith(",")):
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
    return table(tuple(rows[0]), [tuple(cell(_plain_text(each)) for each in row) for row in rows[1:]])


def _plain_text(text: str) -> str:
    return re.sub(r":\w+:`[\w.]*?(\w+)`", r"`\1`", text).replace("``", "`")


def errors_page() -> str:
    """errors.md: every class of error, and the numbers."""
    parts = [
        "# Errors\n",
        "Every error says what happened to which object, why (`cause`), and what to do (`cure`). The command line "
        "prints it as one line and ends with 78 for a bad configuration, 2 for wrong usage, else 1. The web face "
        "has the numbers at `/docs/errors`; `type` of a refusal leads there.\n",
        "## Classes\n",
    ]
    rows = []
    for name in error_module.__all__:
        kind = getattr(error_module, name)
        if not (isinstance(kind, type) and issubclass(kind, error_module.GatewayError)):
            continue
        base = "" if kind is error_module.GatewayError else kind.__mro__[1].__name__
        text = " ".join((inspect.getdoc(kind) or "").split())
        rows.append((f"`{name}`", f"`{base}`" if base else "", "yes" if kind.retriable else "no", text))
    parts += [table(("Class", "Kind of", "A retry can help", "Meaning"), rows), "## Numbers of administration\n"]
    parts.append("A refused administration call shows its number as `ORA-32801` and so on.\n")
    administration, queues, engine = chapters()
    parts.append(_numbers(administration))
    parts += ["## Numbers of the queues\n", "Each is a class of `mgw.gateway.aq.errors`; `ora` is its number.\n"]
    parts.append(table(("Number", "Class", "Meaning", "Action"), _rows(queues)))
    parts += [
        "## Numbers of messages and jobs\n",
        "The command line shows them in brackets: `[722]`.\n",
        _numbers(engine),
    ]
    return page(parts)


def _numbers(found: Chapter) -> str:
    rows = [(number, name, meaning) for number, name, meaning, _ in _rows(found)]
    return table(("Number", "Name", "Meaning"), rows)


def _rows(found: Chapter) -> list[tuple[str, str, str, str]]:
    return [
        (each.shown, f"`{each.name}`" if each.name else "", cell(each.meaning), cell(each.action))
        for each in found.errors
    ]


def views_page() -> str:
    """views.md: the columns of the SQL views."""
    from mgw.gateway.aq import HUB_VIEW_COLUMNS as HUB_COLUMNS
    from mgw.gateway.state.views import COLUMNS

    parts = [
        "# Views\n",
        "Real views in the hub database, for `sqlite3`, `psql` and any driver; see [read the queues with SQL]"
        "(../how-to/read-the-queues-with-sql.md). Names of objects are in upper case. No view shows a "
        "password.\n",
        "Views of the gateway: times are UTC text, ages and intervals are seconds; `mgw status` shows the same.\n",
    ]
    for view, columns in COLUMNS.items():
        parts += _view(view, columns, COLUMN_TEXTS, VIEW_TEXTS[view])
    parts.append(HUB_TEXT)
    for view, columns in HUB_COLUMNS.items():
        parts += _view(view, columns, HUB_COLUMN_TEXTS, HUB_VIEW_TEXTS[view])
    return page(parts)


def _view(view: str, columns: Iterable[str], texts: Mapping[str, str], text: str) -> list[str]:
    rows = [(f"`{column}`", cell(texts.get(f"{view}.{column}") or texts[column])) for column in columns]
    return [f"## {view}\n", f"{text}\n", table(("Column", "Meaning"), rows)]


def _model_table(model: type[Strict], hidden: Iterable[str] = ()) -> str:
    described = model.model_json_schema()["properties"]
    rows = []
    for name, field in model.model_fields.items():
        if name not in hidden:
            values = _values(described[name])
            rows.append((f"`{name}`", cell(values), _default(field), cell(field.description or "")))
    return table(("Key", "Values", "Default", "Meaning"), rows)


def _values(schema: dict[str, Any]) -> str:
    """What is allowed there, in words, from its JSON Schema."""
    if "anyOf" in schema:
        return " or ".join(_values(each) for each in schema["anyOf"] if each.get("type") != "null")
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema.get("enum", [schema.get("const")]))
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    if schema.get("type") == "array":
        return "list of texts"
    found = names.get(schema.get("type", "object"), "mapping")
    if "minimum" in schema or "maximum" in schema:
        found += f", {schema.get('minimum', '')}..{schema.get('maximum', '')}"
    return found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ({}, []) or isinstance(value, Strict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _fields(fields: Iterable[Field], *, fixed: bool = False) -> str:
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
        change = "never" if fixed or not field.alterable else "at once" if field.dynamic else "at reconnect"
        name = f"`{field.name}`" + (" (secret)" if field.secret else "")
        rows.append((name, kind, default, change, cell(field.description)))
    return table(("Name", "Values", "Default", "May change", "Meaning"), rows)


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_rst(text: str) -> str:
    """Docstring text as Markdown: literal blocks stay, double backquotes become single ones."""
    lines = [line[:-1] if line.endswith("::") else line for line in text.splitlines()]
    return "\n".join(lines).replace("``", "`")


def expressions_page() -> str:
    """expressions.md: names, functions and operators of rules, conditions and transformations."""
    from mgw.gateway.aq import PURGES
    from mgw.transforms.language.expression import FUNCTIONS, PROPERTIES
    from mgw.transforms.language.functions import METHODS

    parts = [
        "# Expressions\n",
        "The language of subscriber rules, dequeue conditions, job rules, transformations and purge conditions; see "
        "[rules and conditions](../how-to/rules.md). At most 4000 characters.\n",
        "*In the database* says who evaluates a dequeue condition with it: `yes`, the database as part of the one "
        "statement that finds and locks the messages; `where exact`, the database for messages that it reads exactly "
        "as Python does, and Python for the others; `no`, always Python. Subscriber rules are evaluated in Python.\n",
        "## Operators\n",
        table(
            ("Operator", "Example", "In the database"),
            [(f"`{cell(name)}`", f"`{cell(each)}`", _place(each)) for name, each in OPERATORS],
        ),
        "## Properties of messages\n",
        "Alone or as `tab.<property>`; letter case does not matter.\n",
        table(
            ("Property", "Kind", "Meaning", "In the database"),
            [
                (f"`{name}`", each.kind, each.meaning, _place(f"{name} IS NOT NULL"))
                for name, each in PROPERTIES.items()
            ],
        ),
        "## Payload\n",
        table(
            ("Written", "Meaning", "In the database"),
            [(f"`{cell(name)}`", text, _place(each)) for name, text, each in PAYLOAD],
        ),
        "## Methods of the payload\n",
        "Written `tab.user_data.<method>`.\n",
        table(("Method", "Gives"), [(f"`{name}`", cell(text)) for name, text in METHODS.items()]),
        "## Functions\n",
        table(
            ("Function", "Example", "Gives", "In the database"),
            [
                (f"`{name}`", f"`{cell(each.example)}`", cell(each.meaning), _place(each.example))
                for name, each in FUNCTIONS.items()
            ],
        ),
        "Python functions of your own are registered by name: [functions](../how-to/rules.md#functions).\n",
        "## Columns of purge conditions\n",
        "Written `qtview.<column>`; times are ISO 8601 texts in UTC. `qtview.user_data` and its attributes as above.\n",
        table(("Column", "Kind"), [(f"`{name}`", each.kind) for name, each in PURGES.properties.items()]),
    ]
    return page(parts)


OPERATORS = (
    ("= <> != < <= > >=", "priority <= 3"),
    ("AND OR NOT", "priority = 1 AND NOT corrid = 'a'"),
    ("[NOT] BETWEEN", "priority BETWEEN 1 AND 3"),
    ("[NOT] IN", "corrid IN ('a', 'b')"),
    ("[NOT] LIKE [ESCAPE]", "corrid LIKE 'order!_%' ESCAPE '!'"),
    ("IS [NOT] NULL, TRUE, FALSE", "corrid IS NOT NULL"),
    ("+ -", "priority + 1 > 3"),
    ("*", "priority * 2 > 3"),
    ("/", "priority / 2 > 1.5"),
    ("%", "priority % 2 = 1"),
    ("||", "corrid || '-' || sender_name = 'a-b'"),
    ("CASE WHEN THEN ELSE END", "CASE WHEN priority > 3 THEN corrid ELSE sender_name END = 'a'"),
)
PAYLOAD = (
    ("tab.user_data.a.b", "attribute of the JSON object, of the fields, or of the object", "tab.user_data.a.b = 'x'"),
    ('tab.user_data."strange name"', "a name that is not a plain word", 'tab.user_data."strange name" > 5'),
    ("tab.user_data", "the whole body: text, or bytes that are not text; NULL for fields", "tab.user_data LIKE 'a%'"),
    ("tab.user_data.header.NAME", "first header of that name", "tab.user_data.header.K = 'x'"),
)


def _place(condition: str) -> str:
    """Who evaluates a condition."""
    from mgw.gateway.aq import pushed_down as pushed

    found = [pushed(condition, b"", postgresql=each, entries=False, fields=False) for each in (False, True)]
    if None in found:
        return "no"
    return "yes" if all(each is not None and each.exact for each in found) else "where exact"


#: File name to the function that makes it.
PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "links.md": links_page,
    "mgwadm.md": mgwadm_page,
    "headers.md": headers_page,
    "errors.md": errors_page,
    "views.md": views_page,
    "expressions.md": expressions_page,
}
