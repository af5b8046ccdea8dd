"""Runs tests of mappings against the configuration next to them, in a hub that is made for the purpose."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.config.apply import scratch_hub
from mgw.gateway.config.findings import errors
from mgw.gateway.config.lint import check
from mgw.gateway.config.mapping_tests import MappingTest, MessageForm, configuration_of, files_in, json_schema, read
from mgw.gateway.services.trial import Outcome, Trial, of_job, of_transformation
from mgw.transforms.errors import ConfigInvalid, ConversionFailure, GatewayError
from mgw.transforms.message import Message
from mgw.transforms.payloads.written import BODIES, message_of, written

__all__ = ["Verdict", "files_in", "json_schema", "run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a test ended; ``lines`` say what was expected and what came, empty where it passed."""

    file: Path
    name: str
    lines: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it did."""
        return not self.lines


def run(file: Path, environ: Mapping[str, str] | None = None) -> Iterator[Verdict]:
    """Run the tests of a file.

    Raises:
        ConfigInvalid: the file, or the configuration that it belongs to, cannot be used; the text has every finding.
    """
    environ = os.environ if environ is None else environ
    source, tests = read(file, environ)
    _refuse(source.findings, file)
    files = configuration_of(file, source)
    checked = check(files, environ, lenient=True)
    _refuse(checked.findings, file)
    with scratch_hub(checked.document) as (hub, refused):
        if refused is not None:
            action, error = refused
            raise ConfigInvalid(f"{file}: {action.object} of its configuration is refused", cause=str(error))
        for name, test in tests.items():
            yield Verdict(file, name, tuple(_tested(hub, test)))


def _refuse(findings: Sequence[Any], file: Path) -> None:
    if wrong := errors(findings):
        raise ConfigInvalid(f"{file} cannot be run", cause="; ".join(str(each) for each in wrong))


def _tested(hub: Hub, test: MappingTest) -> Sequence[str]:
    forms = test.messages if test.messages is not None else [test.message or MessageForm()]
    try:
        trial = _trial(hub, test)
        given = [message_of(form.values()) for form in forms]
        outcomes = [trial.run(message) for message in given]
        if test.fails is not None:
            return _failed_as(outcomes, test.fails.number, test.fails.text)
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        if failures:
            return [f"failed: {failure}" for failure in failures]
        sent = [(outcome.given, message) for outcome in outcomes for message in outcome.messages]
        if test.filtered:
            return [] if not sent else ["expected to be filtered, but went out:", *_lines(written(sent[0][1]))]
        expected = test.expect if isinstance(test.expect, list) else [test.expect or MessageForm()]
        return _compared(outcomes, sent, expected)
    except GatewayError as error:  # of the test: a name or a message that is not there
        return [str(error)]


def _trial(hub: Hub, test: MappingTest) -> Trial:
    return of_job(hub, test.job) if test.job is not None else of_transformation(hub, test.transformation or "")


def _failed_as(outcomes: Sequence[Outcome], number: int | None, text: str | None) -> Sequence[str]:
    lines: list[str] = []
    for outcome in outcomes:
        failure = outcome.failure
        if failure is None:
            lines.append(f"expected to fail, but {_came(outcome)}")
        elif (number is not None and failure.number != number) or (text is not None and text not in str(failure)):
            wanted = " ".join(str(each) for each in (number and f"[{number}]", text) if each)
            lines += [f"expected failure: {wanted}", f"failed:           {failure}"]
    return lines


def _came(outcome: Outcome) -> str:
    if outcome.filtered:
        return f"it was filtered by {outcome.filtered}"
    return f"{len(outcome.messages)} message(s) went out"


def _compared(
    outcomes: Sequence[Outcome], sent: Sequence[tuple[Message, Message]], expected: Sequence[MessageForm]
) -> Sequence[str]:
    lines: list[str] = []
    if len(sent) != len(expected):
        lines.append(f"expected {len(expected)} message(s), {len(sent)} went out")
        lines += [f"filtered by {outcome.filtered}" for outcome in outcomes if outcome.filtered]
    for number, ((given, message), form) in enumerate(zip(sent, expected, strict=False), 1):
        wanted, got = _lines(_expected(given, form)), _lines(written(message))
        if wanted != got:
            lines.append(f"message {number} (- expected, + came):")
            lines += [line for line in difflib.ndiff(wanted, got) if not line.startswith("?")]
    for _, message in sent[len(expected) :]:
        lines += ["not expected:", *_lines(written(message))]
    return lines


def _expected(given: Message, form: MessageForm) -> dict[str, Any]:
    """What is written, and of the rest what the message had that came in."""
    values, before = form.values(), written(given)
    if any(name in values for name in BODIES):
        before = {name: value for name, value in before.items() if name not in BODIES}
    try:
        return written(message_of(before | values))
    except ConversionFailure as error:
        raise ConfigInvalid("the expected message cannot be used", cause=f"{error.what}: {error.cause}") from error


def _lines(values: dict[str, Any]) -> list[str]:
    return json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True, default=str).splitlines()
