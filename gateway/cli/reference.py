"""The reference pages in ``docs/reference`` and the JSON Schema: ``python -m mgw.gateway.cli.reference`` writes them.

A test holds the files equal to what is made here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mgw.gateway.cli.compatibility_reference import compatibility_page
from mgw.gateway.cli.python_reference import python_page
from mgw.gateway.cli.rest_reference import rest_page
from mgw.gateway.config.reference import PAGES as CONFIGURATION_PAGES
from mgw.gateway.config.reference_text import cell, page, table
from mgw.gateway.config.schema import FILE, json_schema
from mgw.gateway.services.health import JOB_WORDS
from mgw.gateway.services.skeleton import pairs, skeleton

__all__ = ["PAGES", "examples", "write", "write_examples", "write_schema"]


def write(folder: Path) -> list[Path]:
    """Write all pages into ``folder``; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, made in PAGES.items():
        path = folder / name
        path.write_text(made(), "utf-8")
        written.append(path)
    return written


def write_examples(folder: Path) -> list[Path]:
    """Write the file of ``mgw init --tls`` for each pair of messaging systems into ``folder``; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, made in examples().items():
        path = folder / name
        path.write_text(made, "utf-8")
        written.append(path)
    return written


def examples() -> dict[str, str]:
    """The files of ``mgw init --tls`` by name."""
    return {f"{source}-to-{target}.yaml": skeleton(source, target, tls=True) for source, target in pairs()}


def write_schema() -> Path:
    """Write the schema of the gateway's own link types where it is shipped; its path."""
    FILE.write_text(json.dumps(json_schema(own=True), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return FILE


def cli_page() -> str:
    """cli.md: every command with its arguments and options."""
    from typer.main import get_command

    from mgw.gateway.cli.main import app

    parts = [
        "# Command line\n",
        "`--hub URL` may be given anywhere on the line; otherwise `MGW_HUB`, then `settings.hub` of the given "
        "configuration files, then `sqlite:///mgw-hub.db` in the current folder is used. Results go to standard "
        "output, errors to standard error. Exit codes: 0 done, 1 the check or the operation failed, 2 wrong "
        "usage, 78 bad configuration. `MGW_DEBUG=1` adds the traceback to an unexpected error.\n",
        "With `--json` numbers are numbers, truth values are `true` or `false`, unknown values are `null`, and times "
        "are ISO 8601 in UTC (`2026-11-20T10:57:34Z`); durations are seconds. Options of jobs, "
        "foreign queues, links and agents have the types of their [reference](links.md); headers and fields of "
        "messages are lists of name, type and value, and bytes are base64; `mgw tap` and `mgw transform` print "
        "messages as tests of mappings have them. Names are those of the "
        "[views](views.md), where dates and truth values are texts; the date and time of an error are one moment "
        "here, `last_error_time`. `mgw aq browse`, `mgw aq dequeue` and `mgw events --follow` print one object per "
        "line.\n",
    ]
    parts += _commands(get_command(app), "mgw")
    return page(parts)


def _commands(command: Any, path: str) -> list[str]:
    group = _children(command)
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
        (f"`{', '.join([*param.opts, *param.secondary_opts])}`", cell(param.help or ""))
        for param in options
        if not param.name.startswith(("install_completion", "show_completion"))
    ]
    rows = [(f"`{_argument(param)}`", cell(param.help)) for param in arguments if getattr(param, "help", None)] + rows
    if rows:
        parts.append(table(("Argument or option", "Meaning"), rows))
    for name, child in group.items():
        parts += _commands(child, f"{path} {name}")
    return parts


def _children(command: Any) -> dict[str, Any]:
    """Sub-commands by name, with those that other packages add."""
    from typer import Context

    if not hasattr(command, "list_commands"):
        return {}
    context = Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    shown = name if param.required else f"[{name}]"
    return f"{shown}..." if param.nargs == -1 else shown


def http_page() -> str:
    """http.md: the pages of a running agent, and its metrics."""
    from mgw.gateway.http.metrics import METRICS
    from mgw.gateway.http.pages import PAGES as HTTP_PAGES

    parts = [
        "# HTTP\n",
        "A running agent answers at `127.0.0.1:8787`, unless [settings.http](configuration.md#settingshttp), "
        "`MGW_HTTP` or `mgw run --http` say otherwise. Only GET and HEAD are supported. "
        "[Monitor it](../how-to/monitor.md) shows how to use the pages.\n",
        "## Pages\n",
        table(("Page", "Answers"), [(f"`{path}`", cell(text)) for path, text in HTTP_PAGES.items()]),
        "`/healthz` and `/readyz` are JSON. `/healthz` has `healthy`, `max_age`, `reasons` (a line each), `hub`, and "
        "the lists `agents`, `links` and `jobs`; an entry has `name`, `state`, `since` (ISO 8601 in UTC, null if "
        "unknown), `healthy`, `reason` and `cure`. A link is UP while one of its jobs works, DOWN while none "
        "does, UNUSED without enabled jobs, UNKNOWN while its agent does not run. Refused requests are answered in "
        "the format of RFC 9457, with `detail` and `cure`.\n",
        "## Metrics\n",
        "The metrics are those of the agent that is scraped; agents that share a hub report their own jobs and links. "
        "Names of "
        "objects are in upper case. A scrape reads memory, one row per job and the kept numbers of messages, and "
        "counts no message. With `Accept: application/openmetrics-text` the answer is in the format OpenMetrics.\n",
        table(
            ("Name", "Kind", "Labels", "Meaning"),
            [
                (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), cell(each.meaning))
                for each in METRICS
            ],
        ),
        "Upper bounds of the buckets of histograms:\n",
        table(
            ("Histogram", "Buckets"),
            [(f"`{each.name}`", ", ".join(f"{bound:g}" for bound in each.bounds)) for each in METRICS if each.bounds],
        ),
        "What is counted since the agent started begins at 0 with it; Prometheus sees that as a reset of the counter. "
        "With the option `workers` the numbers of all worker processes are added up, also of those that were replaced; "
        "a process that dies takes at most its last half second along. `process_*` are of the process that answers, "
        "without its workers.\n",
    ]
    return page(parts)


def states_page() -> str:
    """states.md: every state of a job."""
    moods = {"need": "needs you", "trying": "tries by itself", "paused": "paused", "fine": "fine"}
    parts = [
        "# States of a job\n",
        "A job is in one of these states, worst first. `mgw status`, `mgw top`, the page, `/healthz` and REST say the "
        "word, and the metric `mgw_job_state` is 1 for it. `ACTIVITY` of `MGW_JOBS` has the words that are marked; the "
        "others come from its `STATUS` and `ENABLED`. [Troubleshooting](../troubleshooting.md) has more.\n",
        table(
            ("State", "In `ACTIVITY`", "On the page", "The job", "What to do"),
            [
                (
                    f"`{each.word}`",
                    "yes" if each.activity else "",
                    moods[each.mood],
                    cell(each.meaning),
                    cell(each.cure),
                )
                for each in JOB_WORDS
            ],
        ),
    ]
    return page(parts)


#: File name to the function that makes it.
PAGES: dict[str, Callable[[], str]] = CONFIGURATION_PAGES | {
    "cli.md": cli_page,
    "http.md": http_page,
    "python.md": python_page,
    "../compatibility.md": compatibility_page,
    "rest.md": rest_page,
    "states.md": states_page,
}


if __name__ == "__main__":
    written = write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/reference"))
    for path in (*written, *write_examples(Path("conf/examples")), write_schema()):
        sys.stdout.write(f"{path}\n")
