"""The rule language in both databases against Python: the same answer, or the row is left to Python.

``MGW_RULE_EXAMPLES`` raises the number of examples of each test (default 60).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.conditions.sql.columns import message_columns
from mgw.gateway.aq.conditions.sql.payload import Payload
from mgw.gateway.aq.conditions.sql.rules import answer, translate
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues import messages_sql
from mgw.gateway.aq.queues.codec import decode, encode
from mgw.gateway.aq.queues.transfer import resolve
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import ExpressionFailed, ExpressionInvalid
from mgw.transforms.language.compiler import analyse, compile_condition
from mgw.transforms.language.expression import Expression, Row
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.support.brokers import PostgreSQL
from tests.support.examples import fewer

EXAMPLES = fewer(int(os.environ.get("MGW_RULE_EXAMPLES", "60")))
pytestmark = pytest.mark.examples

# -- messages

WORDS = [
    "",
    "a",
    "A",
    "ab",
    "a%",
    "_",
    "EU",
    "eu",
    "7",
    "-1",
    "7.5",
    "1e3",
    " 7 ",
    "ß",
    "ﬁ",
    "é",
    "İ",
    "\U0001f40d",
    "a\\b",
]
WORDS += ["true", "FALSE", "[x]", "*?", "it's", '"', "a\nb", "\ud7ff", "\ue000", "NULL", "(", "x!y"]
TEXTS = st.one_of(st.sampled_from(WORDS), st.text(max_size=5).filter(lambda t: "\x00" not in t and _valid(t)))
INTEGERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
FLOATS = st.one_of(
    st.sampled_from(
        [0.1, 0.3, 0.1 + 0.2, 1.5, 2.0, 1e-7, 1e22, 123456789.123, 9007199254740993.0, 1e300, 5e-324, -0.0]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)


def _valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS, st.integers(-(10**40), 10**40))
NAMES = ("n", "t", "b", "x")
OBJECTS = st.dictionaries(
    st.sampled_from([*NAMES, "o", "N", 'q"', "a\\"]),
    st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from(NAMES), SCALARS, max_size=2)),
    max_size=4,
)
# fmt: off
JSON_VALUES = [
    "1.0", "1e2", "1E400", "-0", "-0.0", "0.1", "0.30000000000000004", "0.3", "100000000000000000000000", "1e-400",
    "9007199254740993", "9007199254740993.0", "123e-2", '"\\u0041"', '"\\ud83d\\udc0d"', '"\\ud800"', '"\\u0000"',
    '"a"', "null", "true", "[]", "{}", '{"n": 1}', '"[1]"', '"{}"', '"\\"x"', "1" * 400, "-" + "7" * 5000, '"ü"',
]
ODD_BODIES = [
    "", " ", "{", "[]", "[1]", "5", '"n"', "null", "{'n': 1}", '{"n":1,}', '{"n":01}', '{"n":NaN}', '{"n":Infinity}',
    '{"n":1e}', '\ufeff{"n":1}', '{"n":1} x', '{"t":"a\nb"}', "plain", '{"n":+1}', "{n:1}", '{"n":1/*c*/}',
    '\u00a0{"n":1}', '{"n":.5}', '{"n":1.}', '{"n":0x10}', "[" * 390 + "]" * 390, '{"n":' + "[" * 500 + "]" * 500 + "}",
]
# fmt: on
LITERALS, ODD = st.sampled_from(JSON_VALUES), st.sampled_from(ODD_BODIES)
RAW_JSON = st.lists(st.tuples(st.sampled_from([*NAMES, "o"]), LITERALS), min_size=1, max_size=3).map(
    lambda pairs: "{" + ",".join(f'"{name}": {literal}' for name, literal in pairs) + "}"
)
BODIES = st.one_of(
    OBJECTS.map(json.dumps),
    OBJECTS.map(lambda value: json.dumps(value, ensure_ascii=False).encode()),
    RAW_JSON,
    RAW_JSON.map(str.encode),
    ODD,
    ODD.map(str.encode),
    TEXTS,
    st.none(),
    st.binary(max_size=6),
    st.sampled_from(["\x00", '{"n":1}\x00', '{"t":"\x00"}', b'{"t":"\x80"}', b"\x80", b'{"t":"\xc3\xa9"}']),
)


def _header(pair: tuple[str, Any]) -> Header:
    name, value = pair
    kinds: dict[type, ValueType] = {
        str: ValueType.TEXT,
        bytes: ValueType.RAW,
        bool: ValueType.BOOLEAN,
        int: ValueType.LONG,
    }
    return Header(name, kinds.get(type(value), ValueType.DOUBLE), value)


HEADER_VALUES = st.one_of(TEXTS, st.binary(max_size=3), st.booleans(), INTEGERS, st.floats(allow_nan=True))
HEADERS = st.lists(
    st.tuples(st.sampled_from(["K", "k", "ü", 'q"', "n", "t", "b"]), HEADER_VALUES).map(_header), max_size=3
)
OPTIONAL = st.one_of(st.none(), TEXTS)
MESSAGES = st.builds(
    Message,
    body=BODIES,
    headers=HEADERS.map(tuple),
    priority=INTEGERS,
    correlation=OPTIONAL,
    expiration=st.one_of(st.none(), st.integers(0, 9), st.floats(0, 1e6)),
    exception_queue=OPTIONAL,
    sender_name=OPTIONAL,
    sender_address=OPTIONAL,
    original_msgid=st.one_of(st.none(), st.just(b"\x00" * 16), st.binary(min_size=16, max_size=16)),
)
FIELD_MESSAGES = st.builds(Message, body=HEADERS.map(tuple), kind=st.just(PayloadKind.FIELDS), priority=INTEGERS)

# -- conditions


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


NUMBER_NAMES = ["priority", "tab.enq_time", "expiration", "DELAY", "retry_count", "attempts"]
TEXT_NAMES = [
    "corrid",
    "tab.correlation",
    "msgid",
    "exception_queue",
    "sender_name",
    "sender_address",
    "original_msgid",
]
PATHS = [
    "tab.user_data.n",
    "tab.user_data.t",
    "user_data.b",
    "tab.userdata.o.n",
    "tab.user_data.x",
    "user_data.o",
    "tab.user_data.o.t",
]
PATHS += [
    "HEADER('K')",
    "tab.user_data.header.n",
    "HEADER('ü')",
    'tab.user_data."q"""',
    "tab.user_data",
    "HEADER('t')",
    "HEADER('b')",
]
NUMBER_TEXTS = ["0", "1", "7", "2.5", "0.1", "0.30000000000000004", "(-1)", "9007199254740993", "9223372036854775807"]
NUMBER_TEXTS += ["1e3", "1e22", "1e300", "NULL", "123456789012345678901234567890", "'7'", "' 7.5 '", "1800000000", "4"]


def _grow(depth: int) -> tuple[Any, Any, Any]:
    """Numbers, texts and conditions, at most ``depth`` operators deep."""
    if depth == 0:
        numbers = st.one_of(st.sampled_from(NUMBER_NAMES), st.sampled_from(NUMBER_TEXTS), st.sampled_from(PATHS))
        texts = st.one_of(st.sampled_from(TEXT_NAMES), TEXTS.map(_quoted), st.sampled_from(PATHS), st.just("NULL"))
        truths = st.sampled_from(
            ["1=1", "1=0", "NULL = 1", "tab.user_data.b", "user_data.o.b", "TRUE", "tab.user_data.x"]
        )
        return numbers, texts, truths
    n, t, c = _grow(depth - 1)
    f = str.format
    numbers = st.one_of(
        n,
        st.builds(f, st.just("({} {} {})"), n, st.sampled_from("+-*/%"), n),
        st.builds(
            f,
            st.sampled_from(["(-{})", "ABS({})", "FLOOR({})", "CEIL({})", "ROUND({})", "LENGTH({})", "TO_NUMBER({})"]),
            n,
        ),
        st.builds(f, st.just("LENGTH({})"), t),
        st.builds(f, st.sampled_from(["INSTR({}, {})", "INSTR({}, {}, 2)", "INSTR({}, {}, -1)"]), t, t),
        st.builds(f, st.sampled_from(["COALESCE({}, {})", "NVL({}, {})", "NULLIF({}, {})", "MOD({}, {})"]), n, n),
        st.builds(f, st.just("CASE WHEN {} THEN {} ELSE {} END"), c, n, n),
        st.builds(f, st.just("CASE {} WHEN {} THEN {} END"), t, t, n),
    )
    texts = st.one_of(
        t,
        st.builds(f, st.just("({} || {})"), t, st.one_of(t, n)),
        st.builds(
            f, st.sampled_from(["UPPER({})", "LOWER({})", "TRIM({})", "RTRIM({})", "TO_CHAR({})"]), st.one_of(t, n)
        ),
        st.builds(f, st.sampled_from(["LTRIM({}, {})", "TRIM(BOTH {1} FROM {0})"]), t, TEXTS.map(_quoted)),
        st.builds(
            f,
            st.sampled_from(["SUBSTR({}, {})", "SUBSTR({}, {}, 2)"]),
            t,
            st.sampled_from(["0", "1", "2", "-1", "1.9", "99"]),
        ),
        st.builds(f, st.sampled_from(["REPLACE({}, {}, {})", "COALESCE({}, {}, {})", "CONCAT({}, {}, {})"]), t, t, t),
        st.builds(f, st.just("NULLIF({}, {})"), t, t),
        st.builds(f, st.just("CASE WHEN {} THEN {} ELSE {} END"), c, t, t),
    )
    compare = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
    negation = st.sampled_from(["", "NOT "])
    either = st.one_of(st.tuples(n, n), st.tuples(t, t), st.tuples(n, t))
    patterns = st.one_of(
        t, st.sampled_from(["'a%'", "'%'", "'_'", "'%b'", "'a!%%' ESCAPE '!'", "'%[x]%'", "'*?'", "'_\\%' ESCAPE '\\'"])
    )
    conditions = st.one_of(
        c,
        st.builds(lambda pair, op: f"({pair[0]} {op} {pair[1]})", either, compare),
        st.builds(f, st.just("({} {}LIKE {})"), st.one_of(t, n), negation, patterns),
        st.builds(f, st.just("({} {}BETWEEN {} AND {})"), n, negation, n, n),
        st.builds(f, st.just("({} {}BETWEEN {} AND {})"), t, negation, t, t),
        st.builds(f, st.just("({} {}IN ({}, {}))"), n, negation, n, n),
        st.builds(f, st.just("({} {}IN ({}, {}, NULL))"), t, negation, t, t),
        st.builds(f, st.just("({} {}IN ({}, {}))"), t, negation, TEXTS.map(_quoted), TEXTS.map(_quoted)),
        st.builds(f, st.just("({} IS {}NULL)"), st.one_of(n, t, c), negation),
        st.builds(f, st.just("({} IS {}{})"), c, negation, st.sampled_from(["TRUE", "FALSE"])),
        st.builds(f, st.just("({} {} {})"), c, st.sampled_from(["AND", "OR", "="]), c),
        st.builds(f, st.just("(NOT {})"), c),
    )
    return numbers, texts, conditions


def _large() -> Any:
    """Conditions that are longer or deeper than anybody writes them; each part is small."""
    f = str.format
    n, t, c = _grow(1)
    counts = st.sampled_from([5, 12, 22])
    wrapped = [
        ("(", " AND priority > 0)"), ("(", " OR NULL = 1)"), ("NOT (", ")"), ("(", " IN (TRUE, NULL))"),
        ("(", " BETWEEN FALSE AND TRUE)"), ("CASE WHEN corrid = 'a' THEN NULL ELSE ", " END"), ("(", " IS NOT FALSE)"),
    ]  # fmt: skip
    nested = [("NULLIF(", ", 7)"), ("ABS(", ")"), ("COALESCE(", ", 4)"), ("CASE ", " WHEN 3 THEN 4 ELSE 3 END")]
    paths = st.lists(st.sampled_from(["o", "n", "t"]), min_size=2, max_size=20).map(".".join)
    return st.one_of(
        st.builds(
            lambda pair, core, k: pair[0] * k + core + pair[1] * k, st.sampled_from(wrapped), _grow(0)[2], counts
        ),
        st.builds(lambda pair, core, k: pair[0] * k + core + pair[1] * k + " > 3", st.sampled_from(nested), n, counts),
        st.builds(lambda word, each: word.join(each), st.sampled_from([" AND ", " OR "]), st.lists(c, min_size=60)),
        st.builds(lambda x, sign, k: x + f" {sign} priority" * k + " > 7", n, st.sampled_from("+-*"), counts),
        st.builds(lambda x, k: x + " || corrid" * k + " > 'a'", t, counts),
        st.builds(f, st.just("tab.user_data.{} = {}"), paths, st.sampled_from(["7", "'a'", "NULL"])),
        st.builds(f, st.just("tab.user_data.{} IS NULL"), paths),
        st.builds(
            lambda x, negation, items: f"{x} {negation}IN ({', '.join(items)})",
            st.one_of(n, t),
            st.sampled_from(["", "NOT "]),
            st.lists(st.sampled_from([*NUMBER_TEXTS, *map(str, range(30))]), min_size=50, max_size=90),
        ),
    )


CONDITIONS = st.one_of(
    *(_grow(depth)[2] for depth in (1, 2, 3)), st.lists(_grow(1)[2], min_size=2, max_size=4).map(" AND ".join), _large()
)

# -- the databases


def corpus() -> list[Message]:
    """What every condition meets: each odd value in each place where it can be odd."""
    bodies: list[Any] = [
        *ODD_BODIES,
        *(each.encode() for each in ODD_BODIES if each),
        *WORDS,
        None,
        b"\x80",
        b'{"t":"\x80"}',
    ]
    for index, value in enumerate(JSON_VALUES):
        other = JSON_VALUES[(index * 7 + 3) % len(JSON_VALUES)]
        bodies += [
            f'{{"n": {value}, "t": {other}, "b": {value}}}',
            f'{{"n": {value}, "n": {other}, "t": {value}}}'.encode(),
        ]
        bodies += [
            f'{{"o": {{"n": {value}, "t": {value}, "b": true}}, "x": {other}}}',
            f'{{"o": {value}, "o": {{"n": {other}}}}}',
        ]
    bodies += [json.dumps({"n": word, "t": word, 'q"': word}, ensure_ascii=bool(n % 2)) for n, word in enumerate(WORDS)]
    odd = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), -1]
    values: list[Any] = [
        *WORDS,
        True,
        False,
        7,
        2**53 + 1,
        0.1,
        0.30000000000000004,
        math.nan,
        float("inf"),
        b"\x07",
    ]
    messages = []
    for index, body in enumerate(bodies):
        word, value = WORDS[index % len(WORDS)], values[index % len(values)]
        headers = (("K", value), ("K", values[index % 7]), ("n", values[-1 - index % len(values)]), ("ü", value))
        messages.append(
            Message(
                body,
                tuple(map(_header, headers[: index % 5])),
                priority=odd[index % 5] if index % 11 == 0 else index % 10 - 1,
                correlation=None if index % 13 == 0 else word,
                expiration=None if index % 3 else index / 4,
                sender_name=WORDS[-1 - index % len(WORDS)] if index % 2 else None,
            )
        )
    return messages


def field_corpus() -> list[Message]:
    """The same for fields."""
    values: list[Any] = [*WORDS, True, False, 7, 0, 2**53 + 1, 0.1, 0.30000000000000004, math.nan, b"\x07"]
    found = [()] + [(("n", value), ("t", values[i % 5]), ("n", values[-i])) for i, value in enumerate(values)]
    found += [(("b", value), ("t", value)) for value in values]
    return [Message(tuple(map(_header, each)), kind=PayloadKind.FIELDS) for each in found] + [Message(None)]


class Database:
    """A hub with a queue of each kind and the corpus in it; what an example adds is rolled back after it."""

    def __init__(self, url: str) -> None:
        self.hub = Hub.open(url, create=True)
        admin = QueueAdmin(self.hub)
        for name, kind in (("plain", "BASIC"), ("fields", "FIELDS")):
            admin.create_queue_table(f"{name}_t", kind)
            admin.create_queue(name, f"{name}_t")
        with self.hub.read() as conn:
            self.queues: dict[str, QueueRef] = {name: resolve(conn, name) for name in ("plain", "fields")}
        self.connection = self.hub.engine.connect()
        self.known: dict[str, dict[int, Row]] = {}
        for name, messages, first in (("plain", corpus(), 1), ("fields", field_corpus(), 10_001)):
            self.known[name] = self.store(name, messages, first)
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()
        self.hub.close()

    def store(self, queue: str, messages: list[Message], first: int) -> dict[int, Row]:
        """The messages in the tables, numbered from ``first``, as they come out again."""
        db = Db(self.connection)
        ids = range(first, first + len(messages))
        messages_sql.store(db, encode(self.queues[queue], messages, ids, 1_800_000_000.25, None, None), [])
        what = messages_sql.Search(self.queues[queue], 0, (0,), numbers=tuple(ids))
        rows = messages_sql.search(db, what, len(ids), lock=False)
        assert len(rows) == len(messages)
        return {row[0]: Row(message) for row, message in zip(rows, decode(rows, self.hub.hub_id), strict=True)}


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgreSQL) -> Iterator[list[Database]]:
    path: Path = tmp_path_factory.mktemp("rules") / "hub.db"
    engine = sa.create_engine(postgresql.create_database("rules_maintenance"), isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:  # a language's order of letters, which must not matter
        conn.exec_driver_sql(
            "CREATE DATABASE rules TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'"
        )
    url = engine.url.set(database="rules").render_as_string(hide_password=False)
    engine.dispose()
    made = [Database(f"sqlite:///{path}"), Database(url)]
    yield made
    for database in made:
        database.close()
    postgresql.drop_database("rules")
    postgresql.drop_database("rules_maintenance")


Answer = bool | None | Literal["error"]


@lru_cache(maxsize=64)
def compiled(text: str) -> Expression | None:
    try:
        return compile_condition(text)
    except ExpressionInvalid:
        return None


def python(condition: Expression, row: Row) -> Answer:
    try:
        return condition.holds(row)
    except ExpressionFailed:
        return "error"


def check(database: Database, queue: str, texts: list[str], messages: list[Message]) -> int:
    """Compare; the number of answers that a database gave."""
    answered = 0
    try:
        added = database.store(queue, messages, 20_001) if messages else {}
        known = database.known[queue] | added
        db, hub = Db(database.connection), database.hub
        columns = message_columns(hub.hub_id, postgresql=hub.postgresql, entries=False)
        payload = Payload(postgresql=hub.postgresql, fields=queue == "fields")
        for text in texts:
            condition = compiled(text)
            if condition is None:
                continue
            analysis = analyse(text)
            expected = {number: python(condition, row) for number, row in known.items()}
            found = answer(analysis, columns, payload)
            if found is not None:
                sql = f"SELECT m.id, {found.known}, {found.sql} FROM aq_message m WHERE m.queue_id = ?"
                rows = db.rows(sql, (*found.known_params, *found.params, database.queues[queue].id))
                assert len(rows) == len(known)
                for number, is_known, value in rows:
                    assert is_known in (True, False), (text, found)
                    if is_known:
                        answered += 1
                        given = None if value is None else bool(value)
                        assert given is expected[number], (text, known[number].message, hub.name)
            chosen = translate(analysis, columns, payload)
            if chosen is not None:
                sql = f"SELECT m.id FROM aq_message m WHERE m.queue_id = ? AND {chosen.sql}"
                passed = {row[0] for row in db.rows(sql, (database.queues[queue].id, *chosen.params))}
                for number, value in expected.items():
                    if chosen.exact:
                        assert (number in passed) is (value is True), (text, known[number].message, hub.name)
                    else:
                        assert number in passed or value in (False, None), (text, known[number].message, hub.name)
    finally:
        database.connection.rollback()
    return answered


SLOW = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SLOW
@given(texts=st.lists(CONDITIONS, min_size=2, max_size=4), messages=st.lists(MESSAGES, max_size=3))
def test_databases_answer_as_python_does(databases: list[Database], texts: list[str], messages: list[Message]) -> None:
    for database in databases:
        check(database, "plain", texts, messages)


@SLOW
@given(texts=st.lists(CONDITIONS, min_size=2, max_size=4), messages=st.lists(FIELD_MESSAGES, max_size=3))
def test_databases_answer_for_fields_as_python_does(
    databases: list[Database], texts: list[str], messages: list[Message]
) -> None:
    for database in databases:
        check(database, "fields", texts, messages)


#: Each is answered otherwise by a database that does not look twice.
TELLING = [
    "UPPER(corrid) = corrid", "LENGTH(UPPER(corrid)) = 2", "LOWER(tab.user_data.t) <> tab.user_data.t || ''",
    "LOWER(tab.user_data) <> UPPER(tab.user_data)", "UPPER(HEADER('K')) = HEADER('K') || ''", "corrid > 'Z'",
    "tab.user_data.n = 9007199254740993", "tab.user_data.n = 0.1", "tab.user_data.n < 0.30000000000000004",
    "tab.user_data.o.n >= 0.3", "tab.user_data.n IN (100, 1.23, 0)", "tab.user_data.n BETWEEN -1 AND 0",
    "tab.user_data.n > 1e300", "tab.user_data.n = 'A'", "tab.user_data.n < 'b'", "tab.user_data.t = ''",
    "priority = 9007199254740993", "priority > 9007199254740992.0", "priority = 9223372036854775807",
    "priority < expiration", "priority * 2 > priority + 3", "priority - 1 < 0", "10 / priority > 3", "priority % 2 = 1",
    "priority / 2 = 3.5", "MOD(-7, priority) = -1", "NULLIF(priority, 3) IS NULL", "priority = '3'", "priority = 'x'",
    "tab.user_data.b", "NOT tab.user_data.o.b", "tab.user_data.b = TRUE", "(priority > 3) = (corrid > 'a')",
    "corrid LIKE '%_'", "corrid LIKE '*%'", "corrid LIKE '%[%'", "corrid LIKE '_!%' ESCAPE '!'", "corrid LIKE 'A'",
    "priority LIKE '-%'", "tab.user_data LIKE '%n%'", "tab.user_data.t LIKE '\U0001f40d'", "INSTR(corrid, '%') = 2",
    "TRIM(corrid) = '7'", "RTRIM(corrid, '% ') = 'a'", "SUBSTR(corrid, 2) = '%'", "CONCAT(corrid, sender_name) = 'a'",
    "CASE WHEN tab.user_data.b THEN NULL END IS NULL", "COALESCE(tab.user_data.n, tab.user_data.t) IS NULL",
    "tab.user_data IS NULL", "tab.user_data.n IS NULL", "NVL(tab.user_data.n, NULL) = 1", "NVL(NULL, corrid) = 'a'",
    "tab.user_data.o IS NULL", "HEADER('K') IS NULL",
    "HEADER('K') = 7", "HEADER('n') <> 0.1", "HEADER('ü') = 'ß'", "tab.user_data.header.K LIKE '%'",
    "NULL = priority", "corrid IN ('a', NULL)", "corrid NOT IN ('a', 'b')", "COALESCE(corrid, sender_name, 'x') = 'x'",
    "CASE WHEN tab.user_data.n > 1 THEN corrid WHEN priority > 3 THEN 'x' ELSE sender_name END = 'x'",
    "CASE corrid WHEN 'a' THEN 1 WHEN sender_name THEN 2 END > 1", "1 / 0 = 1 AND priority = 3", "corrid < 'ab'",
    "ROUND(priority) = 3 AND corrid = 'a'", "ROUND(priority) = 3 OR corrid = 'a'", "1 / 0 = 1 OR priority = 3",
    "tab.user_data.n = 1 AND 1 / priority > 0", "NOT (corrid = 'a' OR NULL = 1)", "tab.user_data.t > 'Z'",
    "'a' BETWEEN 'A' AND corrid", "'a' IN (corrid, 'A')", "CASE 'a' WHEN corrid THEN 'b' ELSE 'a' END > 'B'",
    "(ROUND(priority) = 3 AND tab.user_data.t = 'a') AND (corrid = 'a' OR ROUND(priority) = 1)",
]  # fmt: skip


@pytest.mark.parametrize("queue", ["plain", "fields"])
def test_databases_answer_telling_conditions_as_python_does(databases: list[Database], queue: str) -> None:
    assert [text for text in TELLING if compiled(text) is None] == []
    for database in databases:
        check(database, queue, TELLING, [])


def simple_conditions() -> Iterator[str]:
    """Every name beside every constant, once with each kind of operator."""
    names = [*PATHS, *NUMBER_NAMES, *TEXT_NAMES]
    constants = [*map(_quoted, WORDS), *NUMBER_TEXTS, "TRUE", "FALSE"]
    operators = ["=", "<>", "<", "<=", ">", ">="]
    for index, (name, constant) in enumerate(product(names, constants)):
        yield f"{name} {operators[index % 6]} {constant}"
        yield f"{constant} {operators[index * 5 % 6]} {name}" if index % 2 else f"NOT {name} = {constant}"
        yield f"{name} IN ({constant}, {constants[index * 3 % len(constants)]})"
        yield f"{name} BETWEEN {constant} AND {constants[index * 7 % len(constants)]}"
        if constant.startswith("'") and "!" not in constant:
            yield f"{name} LIKE {constant[:-1]}%'"
            yield f"{name} LIKE '%!_' || {constant} ESCAPE '!'"
            yield f"UPPER({name}) = {constant} OR LENGTH({name}) = {index % 4}"
            yield f"SUBSTR({name}, 1, {index % 3}) || REPLACE({name}, 'a', {constant}) > {constant}"
    for name in names:
        yield from (f"{name} IS NULL", f"NOT {name} IS NOT NULL", name, f"NOT {name}", f"({name} = 'a') IS TRUE")


@pytest.mark.parametrize("queue", ["plain", "fields"])
def test_databases_answer_simple_conditions_as_python_does(databases: list[Database], queue: str) -> None:
    every = list(simple_conditions())
    share = max(1, len(every) // EXAMPLES)
    answered = [check(database, queue, every[share // 2 :: share], []) for database in databases]
    assert min(answered) > EXAMPLES * 10, answered
