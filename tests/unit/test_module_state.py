"""Modules keep no facts: what is known of a job, a broker or a hub belongs to an object that ends with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.module_state import kept_by_modules

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("transforms", "links", "gateway", "pipelines")

_PURE = "the results of a pure function, limited in number; whoever forgets them computes them again"
_BY_RANDOM_ID = "definitions that never change under their random id, so one hub never finds those of another"
#: What may live as long as the process, and why nothing smaller can own it.
LEGITIMATE = {
    "transforms/amqp/inbound.py _arrays": _PURE,
    "transforms/amqp/inbound.py _charsets": _PURE,
    "transforms/amqp/inbound.py _headers": _PURE,
    "transforms/amqp/known.py _forms": _PURE,
    "transforms/amqp/inbound.py _header_names": _PURE,
    "transforms/amqp/header_split.py _names": _PURE,
    "transforms/amqp/header_split.py _splits": _PURE,
    "transforms/kafka/outbound.py _drafts": _PURE,
    "transforms/kafka/wire.py wires": _PURE,
    "transforms/mqtt/from_publish.py _hops": _PURE,
    "transforms/language/functions.py _listeners": "registry of functions, filled when modules are imported",
    "transforms/language/functions.py _registered": "registry: register_function is for all hubs of the process",
    "links/memory/broker.py MemoryBroker._brokers": "the MEMORY system itself lives in the process",
    "links/rabbitmq/pulse.py _living": "open connections, held weakly, that the one thread below keeps alive",
    "links/rabbitmq/pulse.py _thread": "one thread for all connections of the process; it ends with the last of them",
    "gateway/aq/hub.py _open_hubs": "hubs, held weakly, that are closed when the process ends",
    "gateway/aq/payloads/forms.py _known": _BY_RANDOM_ID,
    "gateway/aq/payloads/transformations.py _cache": _BY_RANDOM_ID,
    "gateway/aq/queues/grouping.py _heads": "by connection, held weakly: an application's own has no object of ours",
    "gateway/aq/store/write_lock.py _locks": "a database file has one writer in the process, however many hubs open it",
    "gateway/observe/log_file.py _Level.in_force": "the level of logging, which is the process's",
    "pipelines/source/pieces.py _kept": "a connection that Spark's next task in the process, another object, reads on",
}


def test_nothing_is_kept_for_the_whole_process_without_a_reason() -> None:
    found = kept_by_modules(ROOT, PACKAGES)
    unexplained = {where: lines for where, lines in found.items() if where not in LEGITIMATE}
    assert not unexplained, "let an object own it: the Link, the job's Attempt, the Hub"
    assert sorted(LEGITIMATE.keys() - found) == [], "nobody changes these any more"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("kept = {}\ndef f(): kept['x'] = 1", "kept"),
        ("kept: dict[str, int] = {}\nclass C:\n    def f(self): del kept['x']", "kept"),
        ("kept = []\ndef f():\n    def g(): kept.append(1)\n    return g", "kept"),
        ("kept = defaultdict(set)\ndef f(): kept['x'].add(1)", "kept"),
        ("kept = Counter()\ndef f(): kept['x'] += 1", "kept"),
        ("kept = WeakKeyDictionary()\nf = lambda key: kept.setdefault(key, 1)", "kept"),
        ("kept = None\ndef f():\n    global kept\n    kept = 1", "kept"),
        ("kept = threading.local()\ndef f(): kept.value = 1", "kept"),
        ("class C:\n    kept = {}\n    @classmethod\n    def f(cls): cls.kept['x'] = 1", "C.kept"),
        ("class C:\n    kept: ClassVar[list[int]] = []\n    def f(self): self.kept.append(1)", "C.kept"),
        ("class C:\n    kept = 0\ndef f(): C.kept = 1", "C.kept"),
        ("class C:\n    @classmethod\n    def f(cls): cls.kept = 1", "C.kept"),
        ("class C:\n    def put(self, x): self.all[x] = 1\nkept = C()", "kept"),
        ("kept = {}\ndef f(kept): kept['x'] = 1", None),
        ("kept = {}\ndef f():\n    kept = {}\n    kept['x'] = 1", None),
        ("kept = {}\nkept['x'] = 1", None),
        ("kept = {}\ndef f(): return kept['x']", None),
        ("kept = sa.Table('x')\ndef f(): return kept.insert(), kept.update()", None),
        ("class C:\n    kept: list[int] = field(default_factory=list)\n    def f(self): self.kept.append(1)", None),
        ("class C:\n    kept = 0\n    def __init__(self): self.kept = 1", None),
        ("class C:\n    def __init__(self): self.all = {}\nkept = C()", None),
    ],
    ids=lambda value: value and str(value).replace("\n", "; "),
)
def test_the_finder_finds_what_functions_change(tmp_path: Path, code: str, expected: str | None) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/a.py").write_text(code)
    assert [*kept_by_modules(tmp_path, ["room"])] == ([] if expected is None else [f"room/a.py {expected}"])


@pytest.mark.parametrize(
    "code",
    [
        "from mgw.room.a import kept\ndef f(): kept['x'] = 1",
        "from mgw.room.a import kept as other\ndef f(): other.clear()",
        "from mgw.room import a\ndef f(): a.kept['x'] = 1",
        "import mgw.room.a as a\ndef f(): a.kept.update(x=1)",
        "def f():\n    from mgw.room.a import kept\n    kept['x'] = 1",
    ],
    ids=lambda code: code.replace("\n", "; "),
)
def test_the_finder_finds_what_another_module_changes(tmp_path: Path, code: str) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/a.py").write_text("kept = {}")
    (tmp_path / "room/b.py").write_text(code)
    assert [*kept_by_modules(tmp_path, ["room"])] == ["room/a.py kept"]
