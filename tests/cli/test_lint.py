"""Every kind of finding, with the line and column it stands at."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mgw.gateway.config.lint import check, lint
from mgw.gateway.config.load import load
from tests.cli.conftest import COMPLETE, ROOT, Mgw

BASE = """\
links:
  mem: {type: memory}
  far: {type: memory}
foreign_queues:
  in@mem: {domain: queue}
  topic@mem: {domain: topic}
  bad@mem: {domain: queue}
  bad@far: {domain: queue}
queues:
  Q: {}
  MULTI: {multiple_consumers: true}
  TEXT: {payload_type: text}
  DUMP: {type: exception}
"""


def names(text: str, folder: Path, environ: dict[str, str] | None = None) -> list[tuple[str, int, int]]:
    """(name, line, column) of every error in a configuration."""
    path = folder / "x.yaml"
    path.write_text(text, "utf-8")
    found = lint([path], environ or {})
    assert all(finding.message and finding.mark.file == str(path) for finding in found)
    return [(finding.name, finding.mark.line, finding.mark.column) for finding in found if finding.severity == "error"]


STRUCTURE = {
    "unknown section": ("jbos: {}\n", [("unknown-key", 1, 1)]),
    "unknown key of a job": (
        BASE + "jobs:\n  j: {type: inbound, source: in@mem, destination: Q, rle: x}\n",
        [("unknown-key", 15, 54)],
    ),
    "unknown key of a link": ("links:\n  a:\n    type: memory\n    hostnam: x\n", [("unknown-key", 4, 5)]),
    "unknown key of the log": ("settings: {log: {formt: json}}\n", [("unknown-key", 1, 18)]),
    "unknown link type": ("links:\n  a: {type: mqqt}\n", [("unknown-link-type", 2, 7)]),
    "missing key": (BASE + "jobs:\n  j: {type: inbound, source: in@mem}\n", [("missing-key", 15, 3)]),
    "required attribute": ("links:\n  a: {type: kafka}\n", [("missing-key", 2, 3)]),
    "value of the wrong type": ("queues:\n  Q: {max_retries: many}\n", [("bad-value", 2, 7)]),
    "value out of range": (
        BASE + "jobs:\n  j: {type: inbound, source: in@mem, destination: Q, batch_size: 0}\n",
        [("bad-value", 15, 54)],
    ),
    "attribute of the wrong type": ("links:\n  a: {type: memory, timeout: soon}\n", [("bad-value", 2, 21)]),
    "unknown option of an agent": ("agents:\n  a: {options: {oracle.mgw.batchsize: 3}}\n", [("unknown-option", 2, 17)]),
    "option of an agent out of range": (
        "agents:\n  a: {options: {oracle.mgw.polling_interval: 50}}\n",
        [("bad-value", 2, 17)],
    ),
    "version of the future": ("version: 2\n", [("bad-value", 1, 1)]),
    "section that is a list": ("queues: [A, B]\n", [("bad-value", 1, 1)]),
    "object that is a text": ("queues:\n  A: hello\n", [("bad-value", 2, 3)]),
    "no mapping": ("- a\n- b\n", [("bad-yaml", 1, 1)]),
    "bad indentation": ("queues:\n  A: {}\n B: {}\n", [("bad-yaml", 3, 2)]),
    "key twice": ("queues:\n  A: {}\n  A: {}\n", [("duplicate-key", 3, 3)]),
    "name twice in another case": ("queues:\n  A: {}\n  a: {}\n", [("duplicate-name", 3, 3)]),
    "tab": ("queues:\n\tA: {}\n", [("bad-yaml", 2, 1)]),
    "variable that is not set": ("links:\n  a: {type: memory, timeout: ${NOPE}}\n", [("missing-variable", 2, 21)]),
    "bad variable": ("links:\n  a: {type: memory, broker: '${1x}'}\n", [("bad-variable", 2, 21)]),
    "secret file that is not there": (
        "links:\n  a: {type: memory, username: u, password_file: nowhere}\n",
        [("missing-file", 2, 34)],
    ),
    "password twice": (
        "links:\n  a: {type: memory, username: u, password: x, password_file: nowhere}\n",
        [("conflicting-keys", 2, 47)],
    ),
}


@pytest.mark.parametrize("case", STRUCTURE)
def test_structure_is_judged_at_its_place(case: str, tmp_path: Path) -> None:
    text, expected = STRUCTURE[case]
    assert names(text, tmp_path) == expected


JOBS = {
    "unknown link": ("j: {type: inbound, source: in@nowhere, destination: Q}", "unknown-link"),
    "unregistered queue": ("j: {type: inbound, source: other@mem, destination: Q}", "undefined-foreign-queue"),
    "unknown hub queue": ("j: {type: inbound, source: in@mem, destination: NOWHERE}", "undefined-queue"),
    "hub queue as source of inbound": ("j: {type: inbound, source: Q, destination: Q}", "bad-source"),
    "foreign queue as source of outbound": ("j: {type: outbound, source: in@mem, destination: bad@mem}", "bad-source"),
    "exception queue as destination": ("j: {type: inbound, source: in@mem, destination: DUMP}", "bad-destination"),
    "job that reads the foreign queue it writes": (
        "j: {type: through, source: in@mem, destination: in@mem}",
        "bad-destination",
    ),
    "job that reads the queue of the hub it writes": ("j: {type: local, source: Q, destination: Q}", "bad-destination"),
    "queue of the hub as destination of through": (
        "j: {type: through, source: in@mem, destination: Q}",
        "bad-destination",
    ),
    "foreign queue as source of local": ("j: {type: local, source: in@mem, destination: Q}", "bad-source"),
    "rule of a local job on a single-consumer queue": (
        "j: {type: local, source: Q, destination: TEXT, rule: 'priority < 5'}",
        "bad-rule",
    ),
    "exception queue of through on the other link": (
        "j: {type: through, source: in@mem, destination: bad@far, exception_queue: bad@far}",
        "bad-exception-queue",
    ),
    "rule that does not parse": (
        "j: {type: outbound, source: MULTI, destination: in@mem, rule: 'tab.priority >'}",
        "bad-rule",
    ),
    "rule on a single consumer": (
        "j: {type: outbound, source: Q, destination: in@mem, rule: tab.priority > 1}",
        "bad-rule",
    ),
    "unknown transformation": (
        "j: {type: inbound, source: in@mem, destination: Q, transformation: t}",
        "unknown-transformation",
    ),
    "unknown option": (
        "j: {type: inbound, source: in@mem, destination: Q, options: {MsgBatchsiz: 3}}",
        "unknown-option",
    ),
    "option for a job that reads a link": (
        "j: {type: outbound, source: Q, destination: in@mem, options: {JMS_NoLocal: true}}",
        "bad-value",
    ),
    "bad option": ("j: {type: inbound, source: in@mem, destination: Q, options: {MsgBatchSize: 0}}", "bad-value"),
    "limit below the batch size": (
        "j: {type: inbound, source: in@mem, destination: Q, batch_size: 30, options: {max_batch_size: 20}}",
        "bad-value",
    ),
    "limit below the batch size, both as options": (
        "j: {type: inbound, source: in@mem, destination: Q, options: {Max_Batch_Size: 20, MsgBatchSize: 30}}",
        "bad-value",
    ),
    "limit that is no number": (
        "j: {type: inbound, source: in@mem, destination: Q, batch_size: 30, options: {max_batch_size: many}}",
        "bad-value",
    ),
    "batch size twice": (
        "j: {type: inbound, source: in@mem, destination: Q, batch_size: 3, options: {MsgBatchSize: 3}}",
        "conflicting-keys",
    ),
    "exception queue is the source": (
        "j: {type: inbound, source: in@mem, destination: Q, exception_queue: in@mem}",
        "bad-exception-queue",
    ),
    "exception queue on another link": (
        "j: {type: inbound, source: in@mem, destination: Q, exception_queue: bad@far}",
        "bad-exception-queue",
    ),
    "exception queue on the other side": (
        "j: {type: inbound, source: in@mem, destination: Q, exception_queue: TEXT}",
        "bad-exception-queue",
    ),
    "unrouted messages to an exception queue that is not there": (
        "j: {type: inbound, source: in@mem, destination: Q, options: {Unrouted: EXCEPTION_QUEUE}}",
        "bad-value",
    ),
    "parked messages of a job that reads no queue of the hub": (
        "j: {type: inbound, source: in@mem, destination: Q, options: {park_key: correlation}}",
        "bad-value",
    ),
    "park key that is no expression": (
        "j: {type: outbound, source: Q, destination: in@mem, options: {Park_Key: 'no such('}}",
        "bad-value",
    ),
    "exception queue of the exception type": (
        "j: {type: outbound, source: Q, destination: in@mem, exception_queue: DUMP}",
        "bad-exception-queue",
    ),
    "exception queue of another payload": (
        "j: {type: outbound, source: Q, destination: in@mem, exception_queue: TEXT}",
        "bad-exception-queue",
    ),
    "two jobs on one queue source": (
        "j: {type: inbound, source: in@mem, destination: Q}\n  k: {type: inbound, source: IN@MEM, destination: TEXT}",
        "duplicate-source",
    ),
    "two jobs on one hub queue": (
        "j: {type: outbound, source: Q, destination: in@mem}\n"
        "  k: {type: outbound, source: MGW.q, destination: bad@far}",
        "duplicate-source",
    ),
    "one job twice": (
        "j: {type: outbound, source: MULTI, destination: in@mem}\n"
        "  k: {type: outbound, source: multi, destination: IN@MEM}",
        "duplicate-job",
    ),
    "name that cannot be used": ("'a b': {type: inbound, source: in@mem, destination: Q}", "bad-name"),
}


@pytest.mark.parametrize("case", JOBS)
def test_job_that_would_be_refused_is_a_finding(case: str, tmp_path: Path) -> None:
    job, expected = JOBS[case]
    found = names(f"{BASE}jobs:\n  {job}\n", tmp_path)
    assert [name for name, _, _ in found] == [expected]
    assert found[0][1] >= 15


def test_many_jobs_may_read_a_topic_and_a_multi_consumer_queue(tmp_path: Path) -> None:
    jobs = """\
jobs:
  a: {type: outbound, source: MULTI, destination: in@mem}
  b: {type: outbound, source: MULTI, destination: bad@far}
  c: {type: inbound, source: topic@mem, destination: Q}
  d: {type: inbound, source: topic@mem, destination: TEXT}
"""
    assert names(BASE + jobs, tmp_path) == []


@pytest.mark.parametrize(
    ("job", "found"),
    [
        ("{type: outbound, source: Q, destination: t@m, options: {PreserveMessageID: true}}", ["bad-value"]),
        ("{type: inbound, source: t@m, destination: Q, options: {jms_nolocal: yes}}", ["bad-value"]),
        ("{type: outbound, source: Q, destination: e@m, options: {PreserveMessageID: true}}", []),
        ("{type: outbound, source: Q, destination: e@m, options: {JMS_DeliveryMode: non_persistent}}", []),
        ("{type: outbound, source: Q, destination: e@m, options: {JMS_DeliveryMode: preserve_msg}}", ["bad-value"]),
    ],
)
def test_options_that_need_an_id_are_judged_without_a_broker(job: str, found: list[str], tmp_path: Path) -> None:
    text = "links: {m: {type: mqtt, hostname: h, protocol_version: 4}}\nqueues: {Q: {}}\nforeign_queues:\n"
    text += f"  t@m: {{}}\n  e@m: {{options: {{MQTT_Envelope: json}}}}\njobs: {{j: {job}}}\n"
    assert [name for name, *_ in names(text, tmp_path)] == found


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("t@plant: {provider_queue: a/+/b}\n  u@plant: {provider_queue: a/b}", "wildcard-destination"),
        (
            "t@plant: {provider_queue: a/b, options: {MQTT_Qos: 2}}\n  u@plant: {provider_queue: a/b}",
            "bad-foreign-queue",
        ),
        ("t@plant: {provider_queue: a/#/b}\n  u@plant: {provider_queue: a/b}", "bad-foreign-queue"),
        ("t@plant: {provider_queue: a/b, options: {MQTT_Qoss: 1}}\n  u@plant: {provider_queue: a/b}", "unknown-option"),
    ],
)
def test_mqtt_topics_are_judged_without_a_broker(queue: str, expected: str, tmp_path: Path) -> None:
    text = f"""\
links:
  plant: {{type: mqtt, hostname: 127.0.0.1}}
foreign_queues:
  {queue}
queues:
  Q: {{}}
jobs:
  j: {{type: outbound, source: Q, destination: t@plant}}
"""
    assert expected in [name for name, _, _ in names(text, tmp_path)]


@pytest.mark.parametrize(
    "definition",
    ["{}", "{set: {priority: '5 +'}}", "{function: os:system}", "{sett: {priority: 5}}", "{set: {nothing.x: 1}}"],
)
def test_transformation_that_cannot_be_compiled_is_a_finding(definition: str, tmp_path: Path) -> None:
    found = names(f"transformations:\n  t: {definition}\n", tmp_path)
    assert [name for name, _, _ in found] == ["bad-transformation"]


TYPES = {
    "a payload type that is not defined": ("queues:\n  Q: {payload_type: OE.POINT}\n", ("unknown-object-type", 2, 7)),
    "a table of such a type": ("queue_tables:\n  T: {payload_type: oe.point}\n", ("unknown-object-type", 2, 7)),
    "a transformation to it": (
        "transformations:\n  t: {to_type: a.b, set: {priority: 1}}\n",
        ("unknown-object-type", 2, 7),
    ),
    "an attribute of it": (
        "object_types:\n  A.B: {attributes: {x: NUMBER, p: A.C}}\n",
        ("unknown-object-type", 2, 33),
    ),
    "no type at all": ("object_types:\n  A.B: {attributes: {x: BFILE}}\n", ("bad-type", 2, 22)),
    "an array without a size": ("object_types:\n  A.B: {array: VARRAY OF NUMBER}\n", ("bad-type", 2, 9)),
    "attributes and an array": ("object_types:\n  A.B: {attributes: {x: DATE}, array: x}\n", ("bad-value", 2, 3)),
    "neither": ("object_types:\n  A.B: {}\n", ("bad-value", 2, 3)),
    "contain each other": (
        "object_types:\n  A.B: {attributes: {x: A.C}}\n  A.C: {attributes: {x: a.b}}\n",
        ("bad-type", 1, 1),
    ),
    "a name that is the hub's": ("object_types:\n  SYS.X: {attributes: {x: DATE}}\n", ("refused", 2, 3)),
    "a name with too many parts": ("object_types:\n  a.b.c: {attributes: {x: DATE}}\n", ("bad-name", 2, 3)),
    "an attribute that is twice there": (
        "object_types:\n  A.B: {attributes: {x: DATE, X: DATE}}\n",
        ("refused", 2, 3),
    ),
    "JMS types without ANYDATA": ("queues:\n  Q: {payload_type: raw, jms_types: true}\n", ("bad-value", 2, 26)),
    "a subscriber's transformation": (
        "queues:\n  Q: {multiple_consumers: true, subscribers: {s: {transformation: t}}}\n",
        ("unknown-transformation", 2, 51),
    ),
    "an exception queue of another object type": (
        BASE + "  A: {payload_type: A.A}\n  B: {payload_type: A.B}\n"
        "object_types:\n  A.A: {attributes: {x: DATE}}\n  A.B: {attributes: {x: DATE}}\n"
        "jobs:\n  j: {type: outbound, source: A, destination: in@mem, exception_queue: B}\n",
        ("bad-exception-queue", 20, 55),
    ),
    "an exception queue that takes no JMS types": (
        BASE + "  A: {payload_type: anydata, jms_types: true}\n  B: {payload_type: anydata}\n"
        "jobs:\n  j: {type: outbound, source: A, destination: in@mem, exception_queue: B}\n",
        ("bad-exception-queue", 17, 55),
    ),
}


@pytest.mark.parametrize("case", TYPES)
def test_types_that_do_not_fit_are_findings(case: str, tmp_path: Path) -> None:
    text, expected = TYPES[case]
    assert names(text, tmp_path) == [expected]


def test_types_by_their_other_names_are_the_same(tmp_path: Path) -> None:
    text = "queues:\n  A: {payload_type: Sys.AnyData, jms_types: true}\n  X: {payload_type: sys.xmltype}\n"
    assert names(text, tmp_path) == []


def test_names_of_the_hub_compare_with_their_schema(tmp_path: Path) -> None:
    text = (
        BASE
        + """\
  SHARES: {queue_table: mgw.T1}
  GUEST: {queue_table: Q_tab}
queue_tables:
  T1: {}
transformations:
  MGW.Celsius: {set: {priority: "1"}}
jobs:
  j: {type: inbound, source: in@mem, destination: Q, transformation: CELSIUS}
"""
    )
    assert names(text, tmp_path) == []


def test_rules_are_checked_with_the_functions_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lint_rules.py").write_text("def kind(payload):\n    return 'a'\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    job = "  j: {type: inbound, source: in@mem, destination: Q, rule: \"lint.kind(tab.user_data) = 'a'\"}\n"
    rest = BASE + "jobs:\n" + job
    assert names(rest, tmp_path) == [("bad-rule", 15, 54)]
    settings = "settings:\n  transform_modules: [lint_rules]\n  rule_functions:\n"
    assert names(settings + "    lint.kind: lint_rules:kind\n" + rest, tmp_path) == []
    for function in ("os:system", "lint_rules:nothing", "lint_rules"):
        found = names(f"{settings}    lint.kind: {function}\n", tmp_path)
        assert [name for name, _, _ in found] == ["bad-function"], function
    found = names(f"{settings}    UPPER: lint_rules:kind\n", tmp_path)
    assert [name for name, _, _ in found] == ["bad-function"]


def test_what_only_creation_would_refuse_is_found_too(tmp_path: Path) -> None:
    assert names("queues:\n  Q: {}\naq_agents:\n  A: {certificate_location: cn=a}\n", tmp_path) == [("refused", 4, 3)]


def test_password_in_the_file_is_a_warning_and_a_variable_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("links:\n  a: {type: memory, username: u, password: sesame}\n", "utf-8")
    found = lint([path], {})
    assert [(each.severity, each.name, each.mark.line) for each in found] == [("warning", "plain-text-password", 2)]
    assert "sesame" not in str(found[0])
    path.write_text("links:\n  a: {type: memory, username: u, password: ${P:-sesame}}\n", "utf-8")
    assert lint([path], {}) == []


def test_what_of_an_agent_has_no_effect_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("agents:\n  a: {max_memory: 99, max_threads: 3, conntype: jdbc_thin, service: batch}\n")
    found = lint([path], {})
    assert [(each.severity, each.name, each.mark.column) for each in found] == [
        ("warning", "no-effect", 39),
        ("warning", "no-effect", 60),
    ]
    assert "stored, has no effect" in found[0].message


def test_variables_give_values_defaults_and_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-file\n", "utf-8")
    text = "links:\n  a: {type: memory, username: ${WHO:-me, #1}, password: ${P}, timeout: ${T}, broker: $${x}}\n"
    path = tmp_path / "x.yaml"
    path.write_text(text, "utf-8")
    from mgw.gateway.config.lint import check

    found = check([path], {"P_FILE": str(tmp_path / "secret"), "T": "9"})
    assert found.findings == []
    link = found.document.links["a"]
    assert (link.username, link.password) == ("me, #1", "from-file")
    assert (link.attributes["timeout"], link.attributes["broker"]) == ("9", "${x}")


def test_the_nearest_name_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(BASE + "jobs:\n  j: {type: inbound, source: on@mem, destination: Q, exeption_queue: x}\n", "utf-8")
    cures = [finding.cure for finding in lint([path], {})]
    assert cures == ["did you mean 'exception_queue'?"]


@pytest.mark.parametrize(
    "job",
    [
        "exception_queue: bad@mem}",
        "rule: tab.priority < 3, exception_queue: nowhere@mem}",
    ],
)
def test_foreign_queue_as_exception_queue_of_an_outbound_job_is_told_apart(job: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(BASE + f"jobs:\n  j: {{type: outbound, source: MULTI, destination: topic@mem, {job}\n", "utf-8")
    assert [(each.name, each.cure) for each in lint([path], {})] == [("bad-exception-queue", "name a queue of the hub")]
    path.write_text(BASE + "jobs:\n  j: {type: inbound, source: on@mem, destination: Q}\n", "utf-8")
    assert [finding.cure for finding in lint([path], {})] == ["did you mean 'in@mem'?"]


def test_every_error_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    text = "links:\n  a: {type: mqqt}\nqueues:\n  Q: {max_retries: x, sortlist: y}\njobs:\n  j: {type: sideways}\n"
    found = [name for name, _, _ in names(text, tmp_path)]
    assert sorted(found) == sorted(
        ["unknown-link-type", "bad-value", "unknown-key", "bad-value", "missing-key", "missing-key"]
    )


def test_command_prints_place_severity_and_name_and_ends_with_78(mgw: Mgw) -> None:
    result = mgw("lint", mgw.file("queues:\n  Q: {max_retry: 3}\n"))
    assert result.code == 78
    assert result.lines() == [
        "gateway.yaml:2:7: error unknown-key: key 'max_retry' is not known; did you mean 'max_retries'?"
    ]


def test_command_ends_with_0_for_warnings_and_78_when_strict(mgw: Mgw) -> None:
    file = mgw.file("links:\n  a: {type: memory, username: u, password: sesame}\n")
    assert mgw("lint", file).code == 0
    assert mgw("lint", "--strict", file).code == 78
    found = json.loads(mgw("lint", "--json", file).out)
    assert [(each["severity"], each["name"], each["file"], each["line"]) for each in found] == [
        ("warning", "plain-text-password", file, 2)
    ]


def test_missing_file_is_a_finding(mgw: Mgw) -> None:
    result = mgw("lint", "nowhere.yaml")
    assert result.code == 78
    assert "nowhere.yaml: error missing-file" in result.out


def test_lint_makes_no_hub(mgw: Mgw) -> None:
    assert mgw("lint", mgw.file(COMPLETE)).code == 0
    assert not (mgw.folder / "hub.db").exists()


@pytest.mark.parametrize("file", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda path: path.name)
def test_files_that_we_ship_have_no_findings(file: Path) -> None:
    environ = {"RABBIT_PASSWORD": "x", "KAFKA_PASSWORD": "x", "MQTT_PASSWORD": "x"}
    assert [str(finding) for finding in lint([file], environ)] == []


def _bomb(level: str, depth: int = 9, width: int = 9) -> str:
    """Aliases of aliases: half a kilobyte that stands for ``width ** depth`` values."""
    lines = [f"  Q0: &a0 {level.format('x')}"]
    lines += [f"  Q{n}: &a{n} {level.format(', '.join([f'*a{n - 1}'] * width))}" for n in range(1, depth)]
    return "queues:\n" + "\n".join(lines) + "\n"


HOSTILE = {
    "bomb of lists": (_bomb("[{}]"), [("bad-yaml", 2, 12)]),
    "alias inside itself": ("queues:\n  Q: &q {comment: *q}\n", [("bad-yaml", 2, 6)]),
    "list inside itself": ("settings: {transform_modules: &m [*m]}\n", [("bad-yaml", 1, 31)]),
    "merge of itself": ("queues:\n  Q: &q {<<: *q}\n", [("bad-yaml", 2, 6)]),
    "merge of a text": ("queues:\n  Q: {<<: x}\n", [("bad-yaml", 2, 11)]),
    "key twice, deep": ("queues:\n  Q: {max_retries: 1, max_retries: 2}\n", [("duplicate-key", 2, 23)]),
    "key that is a list": ("queues:\n  ? [a]\n  : {}\n", [("bad-yaml", 2, 5)]),
    "tag": ("queues:\n  Q: {comment: !secret x}\n", [("bad-yaml", 2, 16)]),
    "python": ("queues:\n  Q: !!python/object:os.system {}\n", [("bad-yaml", 2, 6)]),
    "two documents": ("version: 1\n---\nversion: 1\n", [("bad-yaml", 2, 1)]),
    "brackets": ("[" * 2_000, [("bad-yaml", 0, 0)]),
    "number of a million digits": (f"queues: {{Q: {{max_retries: 1{'0' * 1_000_000}}}}}\n", [("bad-yaml", 1, 27)]),
    "variables without end": (f"queues:\n  Q:\n    comment: '{'${' * 500_000}'\n", [("bad-variable", 3, 5)]),
    "too large": ("# " + "x" * 4 * 1024 * 1024, [("bad-yaml", 0, 0)]),
    "empty": ("", [("bad-yaml", 0, 0)]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_yaml_is_refused_at_once_and_briefly(case: str, tmp_path: Path) -> None:
    text, expected = HOSTILE[case]
    begun = time.process_time()
    assert names(text, tmp_path) == expected
    assert time.process_time() - begun < 10  # a hang, not a pause: other tests run beside this one
    assert all(len(str(finding)) < 1000 for finding in lint([tmp_path / "x.yaml"], {}))


def test_bomb_of_merges_is_what_it_merges(tmp_path: Path) -> None:
    assert names(_bomb("{{<<: [{}]}}").replace("[x]", "{max_retries: 1}"), tmp_path) == []


def test_aliases_and_merge_keys_save_writing(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "queues:\n"
        "  A: &a {max_retries: 7, comment: first}\n"
        "  B: {comment: second, <<: *a}\n"
        "  C: *a\n"
        "  D: {<<: [{comment: third}, *a]}\n",
        "utf-8",
    )
    queues = check([path], {}).document.queues
    assert [(queue.max_retries, queue.comment) for queue in queues.values()] == [
        (7, "first"),
        (7, "second"),
        (7, "first"),
        (7, "third"),
    ]


def test_values_are_what_yaml_says(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    values = ["yes", "2026-11-20", "0x1F", "1_000", "~", ".5", "'5'", "1e3", "!!str 7", "${NONE:-{a: [1]}}", "a # b"]
    path.write_text("t:\n" + "".join(f"  k{n}: {value}\n" for n, value in enumerate(values)), "utf-8")
    found = list(load([path], {}).tree["t"].values())
    assert found == ["yes", "2026-11-20", 31, 1000, None, 0.5, "5", 1000.0, "7", "{a: [1]}", "a"]


def test_effort_grows_with_the_file_and_not_faster(tmp_path: Path) -> None:
    """1,000 queues took 40 s, 2 s is enough; every one was compared with every other."""

    def seconds(count: int) -> float:
        path = tmp_path / f"{count}.yaml"
        path.write_text("queues:\n" + "".join(f"  Q{number}: {{}}\n" for number in range(count)), "utf-8")
        begun = time.process_time()
        assert lint([path], {}) == []
        return time.process_time() - begun

    seconds(10)
    assert any(seconds(800) < 8 * seconds(100) * 2 for _ in range(3)), "a busy machine may measure wrongly once"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("settings: {hub: foo}\n", "write sqlite:///foo"),
        ("settings: {hub: 'mysql://x/y'}\n", "use sqlite:///path or postgresql://user@host/database"),
        ("queues: {A: {max_retries: -1}}\n", "give a number greater than or equal to 0"),
        ("agents: {DEFAULT_AGENT: {max_threads: 500}}\n", "give a number less than or equal to 128"),
        ("links: {a: {type: mqtt}}\n", "set hostname: Host name or address of the broker."),
        (
            "links: {a: {type: rabbitmq, hostname: h, port: 99999}}\n",
            "give a whole number from 1 to 65535: TCP port; default 5672, with TLS 5671.",
        ),
    ],
)
def test_advice_says_what_to_write(mgw: Mgw, text: str, advice: str) -> None:
    assert [each["cure"] for each in json.loads(mgw("lint", "--json", mgw.file(text)).out)] == [advice]
