"""Reads the text format of Prometheus as strictly as `promtool check metrics` does."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Family", "parse"]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")


@dataclass
class Family:
    """One metric: its kind, its help, its samples by their labels.

    ``samples`` of a histogram are the numbers of values; ``buckets`` has those up to each bound, ``sums`` their sums.
    """

    name: str
    help: str
    kind: str = ""
    samples: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)
    buckets: dict[tuple[tuple[str, str], ...], dict[float, float]] = field(default_factory=dict)
    sums: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    def value(self, **labels: str) -> float:
        """The sample with these labels."""
        return self.samples[tuple(sorted(labels.items()))]


def parse(text: str) -> Mapping[str, Family]:
    """The metrics by name.

    Raises:
        ValueError: a line is not what the format says, a sample comes twice or apart from its metric.
    """
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    families: dict[str, Family] = {}
    current: Family | None = None
    for line in text.splitlines():
        if found := re.fullmatch(rf"# HELP ({_NAME}) (.+)", line):
            if found[1] in families:
                raise ValueError(f"{found[1]} comes twice")
            current = families[found[1]] = Family(found[1], found[2])
        elif found := re.fullmatch(rf"# TYPE ({_NAME}) (counter|gauge|histogram)", line):
            if current is None or found[1] != current.name or current.kind or current.samples:
                raise ValueError(f"{line!r} does not follow its HELP")
            current.kind = found[2]
        else:
            _add(current, line)
    for family in families.values():
        _judge(family)
    return families


def _add(family: Family | None, line: str) -> None:
    found = _SAMPLE.fullmatch(line)
    if found is None or family is None or not family.kind or found[1] not in _names(family):
        raise ValueError(f"{line!r} is no sample of the metric before it")
    labels, rest = {}, found[2] or ""
    while rest:
        label = _LABEL.match(rest)
        if label is None or label[1] in labels:
            raise ValueError(f"{line!r} has labels that cannot be read")
        labels[label[1]] = re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], label[2])
        rest = rest[label.end() :]
    key: Any = tuple(sorted(labels.items()))
    value = float(found[3])
    if family.kind != "gauge" and not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"{line!r} is no count")
    into: dict[Any, float] = family.samples
    if found[1].endswith("_bucket"):
        bound = float(labels.pop("le"))
        into, key = family.buckets.setdefault(tuple(sorted(labels.items())), {}), bound
    elif found[1].endswith("_sum"):
        into = family.sums
    if key in into:
        raise ValueError(f"{line!r} comes twice")
    into[key] = value


def _names(family: Family) -> Sequence[str]:
    if family.kind != "histogram":
        return (family.name,)
    return [family.name + end for end in ("_bucket", "_count", "_sum")]


def _judge(family: Family) -> None:
    if not family.kind or not family.samples:
        raise ValueError(f"{family.name} has no type or no samples")
    if (family.kind == "counter") is not family.name.endswith("_total"):
        raise ValueError(f"{family.name} is a {family.kind}, and its name says otherwise")
    if len({tuple(name for name, _ in key) for key in family.samples}) != 1:
        raise ValueError(f"samples of {family.name} have different labels")
    if family.kind == "histogram":
        if not family.samples.keys() == family.buckets.keys() == family.sums.keys():
            raise ValueError(f"{family.name} has not all samples of a histogram")
        for key, buckets in family.buckets.items():
            bounds, counts = list(buckets), list(buckets.values())
            if bounds != sorted(bounds) or counts != sorted(counts) or buckets.get(math.inf) != family.samples[key]:
                raise ValueError(f"the buckets of {family.name} do not add up")
