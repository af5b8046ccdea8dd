"""The page for those who come from Oracle Messaging Gateway: every documented name, and what takes its place here.

The names of the documentation are data (:mod:`mgw.gateway.config.guide`). What is ours is looked up in the code: a row
says yes as soon as the code has what it names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

from mgw.gateway.cli import compatibility_names as ours
from mgw.gateway.config.guide import (
    Number,
    Parameter,
    Procedure,
    Row,
    View,
    messages,
    numbers,
    older,
    running,
    settings,
)
from mgw.gateway.config.guide.procedures import MGWADM
from mgw.gateway.config.guide.views import VIEWS
from mgw.gateway.config.reference_headers import anchor
from mgw.gateway.config.reference_text import cell, page, table
from mgw.gateway.config.view_columns import COLUMN_TEXTS, VIEW_TEXTS
from mgw.gateway.definitions.objects import Activity, AgentStatus
from mgw.gateway.runtime.endings import RESULT_CODES
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.admin.base import Ora
from mgw.gateway.state.views import COLUMNS

__all__ = ["compatibility_page", "rows"]

_INTRO = (
    "This page lists what the manuals of Oracle Messaging Gateway document (Advanced Queuing User's Guide 12.2, "
    "chapters 17 to 21, and the packages `DBMS_MGWADM`, `DBMS_MGWMSG`, `DBMS_HQADM`), and what takes its place here: "
    "in Python, as a command of `mgw`, in SQL, in YAML. [Coming from Oracle Messaging Gateway]"
    "(how-to/coming-from-oracle-messaging-gateway.md) is a worked migration of two jobs.\n",
    "**yes**: the same, or under the name that is shown. **differs**: there, with the difference that is told. **no**: "
    "not there, with the reason and what to use instead.\n",
    "The systems behind the links are others: RabbitMQ, Kafka and MQTT in place of MQSeries and TIB/Rendezvous. What "
    "belongs to the queues of the hub, and not to the gateway, is in [views](reference/views.md), "
    "[errors](reference/errors.md#numbers-of-the-queues) and [the Python reference](reference/python.md).\n",
)
#: Heading, text, rows: the parts that are a table of facts.
_FACTS: dict[str, tuple[str, tuple[Row, ...]]] = {
    "Older interface: how it goes with jobs": ("", older.SUBSCRIBER_RULES),
    "DBMS_HQADM: what it does": ("", older.HQADM_RULES),
    "DBMS_MGWMSG": ("The helpers of arrays, `Header` and `ValueType` are public names of `mgw`.", messages.MGWMSG),
    "Constants": ("", messages.CONSTANTS),
    "Types": ("", messages.TYPES),
    "Conversion of messages": ("", messages.CONVERSION),
    "Headers of MQSeries messages": ("Names that begin with `MGW_MQ_` there.", messages.MQ_HEADERS),
    "Fields of TIB/Rendezvous messages": ("", messages.TIBRV_FIELDS),
    "Components and roles": ("", running.COMPONENTS),
    "Life of an agent": ("What follows what.", running.AGENT_LIFE),
    "Clean-up": ("Actions of CLEANUP_GATEWAY.", running.CLEANUP),
    "Initialization file": ("", settings.INIT_FILE),
    "Properties of agents": (
        "Set with SET_OPTION there, with `mgw agents alter --option` here.",
        settings.AGENT_PROPERTIES,
    ),
    "MQSeries links: attributes": ("", settings.MQ_LINK),
    "MQSeries links: options": ("", settings.MQ_LINK_OPTIONS),
    "TIB/Rendezvous links": ("", settings.TIBRV_LINK),
    "Foreign queues: domains": ("", settings.SYSTEMS),
    "Foreign queues: options": ("", settings.FOREIGN_QUEUE_OPTIONS),
    "Jobs: options": ("", settings.JOB_OPTIONS),
    "What may change while the agent runs": ("", running.WHEN_IN_FORCE),
    "How messages are propagated": ("", running.PROPAGATION),
    "Status of a job": (
        "`STATUS` of `MGW_JOBS`. Its column `ACTIVITY`, which is only here, tells what the job is doing: "
        f"{', '.join(f'`{each}`' for each in Activity)}.",
        running.JOB_STATUS,
    ),
    "Retries and removal": ("", running.RETRIES),
    "Log file": ("", running.LOG),
    "Numbers in the log": ("", numbers.ENGINE),
    "Other errors that end an agent": ("", numbers.OTHER_ENDINGS),
}
_BEFORE_STATUS = (
    "DBMS_HQADM: what it does",
    "DBMS_MGWMSG",
    "Constants",
    "Types",
    "Conversion of messages",
    "Headers of MQSeries messages",
    "Fields of TIB/Rendezvous messages",
    "Components and roles",
)
_AFTER_STATUS = (
    "Life of an agent",
    "Clean-up",
    "Initialization file",
    "Properties of agents",
    "MQSeries links: attributes",
    "MQSeries links: options",
    "TIB/Rendezvous links",
    "Foreign queues: domains",
    "Foreign queues: options",
    "Jobs: options",
    "What may change while the agent runs",
    "How messages are propagated",
    "Status of a job",
    "Retries and removal",
)


def rows() -> Iterable[Row]:
    """All facts, as they are now."""
    for _, found in _FACTS.values():
        yield from map(_now, found)


def compatibility_page() -> str:
    """compatibility.md."""
    parts = _procedures("DBMS_MGWADM", MGWADM, sql="mgwadm.")
    parts += _procedures("DBMS_MGWADM: subscribers and schedules", older.SUBSCRIBERS, sql="mgwadm.")
    parts += _facts("Older interface: how it goes with jobs")
    parts += _procedures("DBMS_HQADM", older.HQADM, sql="mgwadm.hq_")
    parts += _facts(*_BEFORE_STATUS)
    parts += ["## Status of an agent\n", _agent_status()]
    parts += _facts(*_AFTER_STATUS)
    parts += ["## Views\n", "In SQLite as in PostgreSQL; `mgw status` and REST show the same.\n"]
    for view in VIEWS:
        parts += _view(view)
    parts += _facts("Log file", "Numbers in the log")
    parts += [
        "## Numbers of refused calls\n",
        _ora(numbers.ORA),
        "## Result codes of an agent\n",
        _results(numbers.RESULTS),
    ]
    parts += _facts("Other errors that end an agent")
    parts += _more()
    return page(["# Compatibility with Oracle Messaging Gateway\n", *_INTRO, _contents(parts), *parts])


def _contents(parts: Iterable[str]) -> str:
    """A list of the chapters, each a link to its heading."""
    titles = [part.removeprefix("## ").strip() for part in parts if part.startswith("## ")]
    return "".join(f"* [{title}](#{anchor(re.sub(r'[:/]', '', title))})\n" for title in titles)


def _facts(*names: str) -> list[str]:
    parts = []
    for name in names:
        text, found = _FACTS[name]
        parts.append(f"## {name}\n")
        parts += [f"{text}\n"] if text else []
        parts.append(table(("There", "Here", "What"), [_fact(each) for each in map(_now, found)]))
    return parts


def _now(row: Row) -> Row:
    """The row as the code is."""
    if row.coming is None or not ours.there(row.coming.name):
        return row
    return Row(row.name, "yes", row.coming.text)


def _fact(row: Row) -> tuple[str, str, str]:
    return cell(row.name), row.verdict, cell(row.here)


def _procedures(heading: str, procedures: Sequence[Procedure], *, sql: str) -> list[str]:
    listed = [
        (f"`{each.name}`", _python(each), _command(each), _sql(each, sql), cell(_remark(each))) for each in procedures
    ]
    parts = [f"## {heading}\n", table(("There", "Python", "`mgw`", "SQL", "What"), listed)]
    taken = [(each, one) for each in procedures if ours.method(each.python) for one in each.parameters]
    if taken:
        parts += [
            f"### {heading}: parameters\n",
            table(
                ("Procedure", "Parameter", "Default there", "Python", "`mgw`", "What"),
                [_parameter(each, one) for each, one in taken],
            ),
        ]
    return parts


def _python(procedure: Procedure) -> str:
    return f"`{procedure.python}`" if ours.method(procedure.python) else "no"


def _command(procedure: Procedure) -> str:
    return f"`mgw {procedure.command}`" if ours.command(procedure.command) else "no"


def _sql(procedure: Procedure, prefix: str) -> str:
    name = f"{prefix}{procedure.name.lower()}"
    return f"`{name}`" if ours.there(name) else "no"


def _remark(procedure: Procedure) -> str:
    return procedure.note if ours.method(procedure.python) else f"Use {procedure.instead}."


def _parameter(procedure: Procedure, given: Parameter) -> tuple[str, ...]:
    return (
        f"`{procedure.name}`",
        f"`{given.name}`",
        cell(given.default) or "(required)",
        _python_parameter(procedure, given),
        f"`{given.option}`" if given.option in ours.places(procedure.command) else "",
        cell(given.note),
    )


def _python_parameter(procedure: Procedure, given: Parameter) -> str:
    signature = ours.method(procedure.python)
    name = given.python or given.name
    if signature is None or name not in signature.parameters:
        return "no"
    default = signature.parameters[name].default
    return f"`{name}`" if default is inspect.Parameter.empty else f"`{name}={_value(default)}`"


def _value(default: object) -> str:
    return repr(str(default)) if isinstance(default, str) else repr(default)


def _agent_status() -> str:
    found = [(f"`{each}`", "yes" if each in set(map(str, AgentStatus)) else "no") for each in running.AGENT_STATUS]
    return table(("There", "Here"), found)


def _view(view: View) -> list[str]:
    columns = COLUMNS.get(view.ours, ())
    text = "" if not columns else f"Here `{view.ours}`." if view.ours != view.name else f"Here `{view.ours}`, too."
    other = dict(view.other)
    listed = []
    for name in view.columns:
        place = f"{view.ours}.{name}" if name in columns else other.get(name, f"MGW_JOBS.{name}")
        if place in ours.column_names():
            of, _, column = place.partition(".")
            listed.append((f"`{name}`", f"`{place}`" if of != view.name else "yes", cell(_meaning(of, column))))
        else:
            listed.append((f"`{name}`", "no", cell(place)))
    more = [f"`{each}`" for each in columns if each not in view.columns] if view.ours == view.name else []
    parts = [f"### {view.name}\n", f"{text or f'Not here: {view.instead}.'}\n"]
    parts.append(table(("Column there", "Here", "What it says here"), listed))
    return [*parts, f"Also here: {', '.join(more)}.\n"] if more else parts


def _meaning(view: str, column: str) -> str:
    return COLUMN_TEXTS.get(f"{view}.{column}") or COLUMN_TEXTS[column]


def _ora(found: Iterable[Number]) -> str:
    names = {each.value: each.name for each in Ora}
    listed = [
        (f"ORA-{each.number}", cell(each.meaning), f"`{names[each.number]}`", "")
        if each.number in names
        else (f"ORA-{each.number}", cell(each.meaning), "no", cell(each.here))
        for each in found
    ]
    known = {each.number for each in found}
    listed += [(f"ORA-{number}", "", f"`{name}`", "") for number, name in names.items() if number not in known]
    return table(("Number", "There", "Here", "What"), sorted(listed))


def _results(found: Iterable[Number]) -> str:
    ends = {True: "the agent is started again by itself", False: "the agent stays down until somebody starts it"}
    listed = [
        (str(each.number), cell(each.meaning), "yes", ends[RESULT_CODES[each.number]])
        if each.number in RESULT_CODES
        else (str(each.number), cell(each.meaning), "no", cell(each.here))
        for each in found
    ]
    return table(("Code", "There", "Here", "What"), listed)


def _first(call: object) -> str:
    """The first paragraph of its description."""
    return (inspect.getdoc(call) or "").partition("\n\n")[0].replace("``", "`")


def _more() -> list[str]:
    """What there is here and not there."""
    named = {each.python for each in (*MGWADM, *older.SUBSCRIBERS, *older.HQADM)}
    calls = [(f"`{name}`", cell(_first(getattr(GatewayAdmin, name)))) for name in sorted(ours.methods() - named)]
    listed = {view.ours for view in VIEWS} | {view.name for view in VIEWS}
    views = [(f"`{name}`", cell(text)) for name, text in VIEW_TEXTS.items() if name not in listed]
    here = " ".join(each.here for each in rows())
    options = [f"`{name}`" for name in sorted(ours.option_names(), key=str.lower) if f"`{name}`" not in here]
    return [
        "## What there is only here\n",
        "Procedures:\n",
        table(("Python", "What"), calls),
        "Views:\n",
        table(("View", "What"), views),
        f"Settings and options, see [configuration](reference/configuration.md) and [links](reference/links.md): "
        f"{', '.join(options)}.\n",
        "Commands without a procedure there: `mgw plan`, `mgw apply`, `mgw export`, `mgw lint`, `mgw test`, "
        "`mgw prove`, `mgw events`, `mgw top`, `mgw tap`, `mgw exceptions`, `mgw links test`, `mgw jobs drain` and "
        "more: [all commands](reference/cli.md).\n",
    ]
