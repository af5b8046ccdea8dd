"""Rows are read by name and states are written by name: a new column, or another number, cannot corrupt in silence.

The column map is gateway/aq/store/columns.py; the states are in gateway/aq/store/tables.py.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mgw.gateway.aq.model import PayloadType, QueueRef, QueueType, SortList
from mgw.gateway.aq.queues.codec import decode, encode
from mgw.gateway.aq.store import columns
from mgw.gateway.aq.store.tables import BodyType, State, entry, message
from mgw.transforms.message import Header, Message, ValueType

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("gateway", "pipelines")
#: Methods of cursors, of SQLAlchemy's results and of ``Db`` that give one row, and those that give many.
ONE = {"fetchone", "row", "one_or_none"}
MANY = {"fetchall", "fetchmany", "rows", "found", "_few", "all", "execute", "exec_driver_sql"}
#: What holds rows by its name, where nothing else says so.
ROW_NAME = re.compile(r"_?row|\w+_row")
ROWS_NAME = re.compile(r"_?rows|\w+_rows")
#: What binds names in a function.
BINDING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.comprehension)
#: Lists of lists of text that are called rows and come from no database.
NO_ROWS = {"gateway/config/reference.py": "rows[-1][0]"}


class Rows(ast.NodeVisitor):
    """Finds numeric subscripts on the rows of a module.

    A row is what a method of :data:`ONE` or a function annotated with ``Row`` returns, an item of what a method of
    :data:`MANY` or a function annotated with ``list[Row]`` returns, a parameter or field that is annotated so, and what
    is called ``row``. A name that is bound to a row anywhere in a function is one in the whole function. A subscript
    is numeric if it is a number, a slice with one, or a name that the module binds to one.
    """

    def __init__(self, tree: ast.Module, known: dict[str, str]) -> None:
        self.known = known
        self.names: list[dict[str, str]] = [{}]
        self.numbers = set(_numbers(tree))
        self.found: list[tuple[int, str]] = []
        self.visit(tree)

    def kind(self, node: ast.expr | None) -> str | None:  # noqa: PLR0911  (one for each kind of expression)
        """``row``, ``rows`` or None."""
        match node:
            case ast.Name(id=name):
                return next((names[name] for names in reversed(self.names) if name in names), _by_name(name))
            case ast.Attribute(attr=name):
                return self.known.get(f".{name}") or _by_name(name)
            case ast.Call():
                return self._called(node)
            case ast.Subscript(value=value, slice=index):
                of = self.kind(value)
                return None if of != "rows" else "rows" if isinstance(index, ast.Slice) else "row"
            case ast.BoolOp(values=values):
                return next((kind for value in values if (kind := self.kind(value))), None)
            case ast.IfExp(body=body, orelse=orelse):
                return self.kind(body) or self.kind(orelse)
            case ast.NamedExpr(value=value):
                return self.kind(value)
        return None

    def _called(self, node: ast.Call) -> str | None:
        match node.func:
            case ast.Attribute(attr=name) if name in ONE:
                return "row"
            case ast.Attribute(attr=name) if name in MANY:
                return "rows"
            case ast.Attribute(attr="first" | "one", value=ast.Call()):  # of a result: conn.execute(...).first()
                return "row"
            case ast.Name(id="list" | "tuple" | "sorted" | "reversed") if node.args:
                return self.kind(node.args[0])
            case ast.Attribute(attr=name) | ast.Name(id=name):
                return self.known.get(name)
        return None

    def _bind(self, target: ast.expr, kind: str | None) -> None:
        if isinstance(target, ast.Name) and kind is not None:
            self.names[-1][target.id] = kind

    def _loop(self, target: ast.expr, of: ast.expr) -> None:
        """Bind what ``for target in of`` binds."""
        if self.kind(of) == "rows":
            self._bind(target, "row")
        match target, of:
            case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=args):
                pairs = zip(targets, args, strict=False)
            case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[counted, *_]):
                pairs = zip([inner], [counted], strict=True)
            case _:
                return
        for each, part in pairs:
            self._loop(each, part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Look into a function with the names that it binds."""
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self.names.append({each.arg: kind for each in arguments if (kind := _annotated(each.annotation))})
        binding = [inner for inner in ast.walk(node) if isinstance(inner, BINDING)]
        for _ in range(2):  # a name may be used above the line that binds it
            for inner in binding:
                self._bind_in(inner)
        self.generic_visit(node)
        self.names.pop()

    def _bind_in(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, self.kind(value))
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._bind(target, _annotated(annotation) or self.kind(value))
            case ast.NamedExpr(target=target, value=value):
                self._bind(target, self.kind(value))
            case ast.For(target=target, iter=of) | ast.comprehension(target=target, iter=of):
                self._loop(target, of)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Note a numeric subscript on a row."""
        self.generic_visit(node)
        if self.kind(node.value) == "row" and self._counts(node.slice):
            self.found.append((node.lineno, ast.unparse(node)))

    def _counts(self, index: ast.expr | None) -> bool:
        match index:
            case ast.Slice(lower=lower, upper=upper):
                return self._counts(lower) or self._counts(upper)
            case ast.BinOp(left=left, right=right):
                return self._counts(left) or self._counts(right)
            case ast.Name(id=name):
                return name in self.numbers
        return _is_number(index)


def _by_name(name: str) -> str | None:
    return "row" if ROW_NAME.fullmatch(name) else "rows" if ROWS_NAME.fullmatch(name) else None


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) is int


def _numbers(tree: ast.Module) -> Iterator[str]:
    """Names that a module binds to numbers."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_number(node.value):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id


def _word(node: ast.AST) -> object:
    """What is written there: a name, the last part of a dotted one, a text."""
    return getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "value", None)


def _annotated(annotation: ast.expr | None) -> str | None:
    """Whether an annotation says ``Row``, or a sequence of them."""
    if annotation is None or not any("Row" in str(_word(node)) for node in ast.walk(annotation)):
        return None
    text = ast.unparse(annotation)
    if re.search(r"\b(list|Sequence|Iterable|Iterator)\[(sa\.)?Row\b", text):
        return "rows"
    return "row" if re.fullmatch(r"(sa\.)?Row(\[Any\])?( \| None)?", text) else None


@functools.cache
def known_rows(root: Path) -> dict[str, str]:
    """What functions return, and what fields (``.name``) hold: those annotated with rows."""
    found: dict[str, str] = {}
    for path in _modules(root):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef) and (kind := _annotated(node.returns)):
                found[node.name] = kind
            elif isinstance(node, ast.ClassDef):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                found |= {
                    f".{ast.unparse(each.target)}": kind for each in fields if (kind := _annotated(each.annotation))
                }
    return found


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@functools.cache
def _modules(root: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))


def numeric_subscripts(root: Path) -> list[str]:
    """Every numeric subscript on a row, with its place."""
    found = []
    for path in _modules(root):
        place = path.relative_to(root).as_posix()
        for line, text in Rows(_tree(path), known_rows(root)).found:
            if NO_ROWS.get(place) != text:
                found.append(f"{place}:{line}: {text}")
    return found


# -- states ------------------------------------------------------------------------------------------------------------

_STATE = r"\b(\w*_)?(state|body_type|enqueue_enabled|dequeue_enabled)\b"
_NUMBER = r"\(?\s*'?\d"
#: In SQL: a state, a kind of body, or a direction of a queue, with a number next to it: compared, listed, set, or
#: chosen by a CASE; and a number that is given the name of a state.
STATE_IN_SQL = re.compile(
    rf"""{_STATE} (\s*\+\s*0)? \s* (=|<>|!=|<=|>=|<|>|IN\b|NOT\s+IN\b) \s* {_NUMBER}
    | {_STATE} \s* (\bsmallint\b \s*)? (:?=|\bWHEN\b) \s* (CASE\b[^;,]*?)? \b(THEN|ELSE|WHEN)\s+\d
    | {_STATE} \s* := \s* \d
    | \bWHEN \s+ \d+ \s+ THEN \s+ '(READY|WAIT|PROCESSED|EXPIRED|UNDELIVERABLE|SPLIT|CLAIMED)""",
    re.VERBOSE | re.IGNORECASE,
)
_INSERT = re.compile(r"INSERT INTO aq_(?:message|entry) \(([^()]*)\)\s*(?:SELECT|VALUES \()\s*(.*)", re.DOTALL)
_HELD = ("state", "body_type")


def literal_states(root: Path) -> list[str]:
    """Numbers of states in the SQL of modules and of files of functions, and in comparisons in Python."""
    found = []
    for path in sorted([*_modules(root), *(path for folder in FOLDERS for path in (root / folder).rglob("*.sql"))]):
        place = path.relative_to(root).as_posix()
        texts = _strings(_tree(path)) if path.suffix == ".py" else [(1, path.read_text())]
        for line, text in texts:
            found += [
                f"{place}:{line + text.count(chr(10), 0, each.start())}: {each[0]}"
                for each in STATE_IN_SQL.finditer(text)
            ]
            found += [f"{place}:{line}: {each}" for each in inserted_states(text)]
        if path.suffix == ".py":
            found += [f"{place}:{line}: {text}" for line, text in _compared(_tree(path))]
    return found


def inserted_states(text: str) -> Iterator[str]:
    """Values with numbers that an INSERT puts into a state, which it names by its place only."""
    for statement in text.split(";"):
        if (found := _INSERT.search(statement)) is None:
            continue
        columns = [each.strip() for each in found[1].split(",")]
        for column, value in zip(columns, _items(found[2]), strict=False):
            if column in _HELD and re.search(r"\b(THEN|ELSE)\s+\d|^\d+$", value):
                yield f"{column}: {value}"


def _items(text: str) -> list[str]:
    """What stands between commas that are in no brackets."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            items.append("")
        else:
            items[-1] += letter
    return [" ".join(each.split()) for each in items]


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module but its docstrings; braces stand for what an f-string puts in."""
    nodes = list(ast.walk(tree))
    inside = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    left_out = inside | {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            yield node.lineno, node.value


def _compared(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Comparisons of what is called a state, or a direction, with a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if not any(_is_number(side) for side in sides):
                continue
            if any(re.search(r"(^|[._])(state|\w+_enabled)$", ast.unparse(side)) for side in sides):
                yield node.lineno, ast.unparse(node)


# -- the tests ---------------------------------------------------------------------------------------------------------


def test_rows_are_read_by_name() -> None:
    found = numeric_subscripts(ROOT)
    assert not found, f"use gateway/aq/store/columns.py, Db.scalar, Db.column or names: {found}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(row):\n return row[3]", ["row[3]"]),
        ("def f(db):\n return [each[0] for each in db.rows('')]", ["each[0]"]),
        ("def f(db):\n return db.row('')[1]", ["db.row('')[1]"]),
        ("def f(c):\n return c.execute('').fetchone()[0]", ["c.execute('').fetchone()[0]"]),
        ("def f(c):\n return c.execute('').first()[0]", ["c.execute('').first()[0]"]),
        ("def f(found: list[Row]):\n last = found[-1]\n return last[18]", ["last[18]"]),
        ("def f(db):\n found = db.row('')\n return found and found[2:5]", ["found[2:5]"]),
        ("def f(db):\n return [(*r[:2], own, *r[10:]) for r in db.rows('')]", ["r[:2]", "r[10:]"]),
        ("def f(p):\n return [(*each[:4], 1) for each in p.entries]", ["each[:4]"]),
        ("def f(rows, names):\n return [a[1] for n, a in zip(names, rows)]", ["a[1]"]),
        ("def f(rows):\n return [a[1] for n, a in enumerate(rows)]", ["a[1]"]),
        ("_STATE = 15\ndef f(row):\n return row[_STATE]", ["row[_STATE]"]),
        ("def f(row):\n return row[KIND + 1:]", ["row[KIND + 1:]"]),
        ("def f(rows):\n return sorted(rows)[0][1]", ["sorted(rows)[0][1]"]),
        ("def f(rows):\n return found_of(rows)[0][1]", ["found_of(rows)[0][1]"]),
        # what is no numeric subscript on a row
        ("def f(rows):\n return rows[0], rows[-1]", []),
        ("STATE = columns.at('state')\ndef f(row):\n return row[STATE], row[_KEYS], row['NAME'][:8]", []),
        ("def f(text):\n return text[0], text.split()[1]", []),
        ("def f(db):\n for number, name in db.rows(''):\n  yield number, name[0]", []),
    ],
)
def test_the_finder_of_numeric_subscripts(code: str, found: list[str]) -> None:
    known = {".entries": "rows", "found_of": "rows"}
    assert [text for _, text in Rows(ast.parse(code), known).found] == found


def test_states_are_written_by_name() -> None:
    found = literal_states(ROOT)
    assert not found, f"use State and Enabled of gateway/aq/store/tables.py: {found}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM aq_message WHERE state = 8 AND claim IS NULL",
        "UPDATE aq_entry SET state=2",
        "WHERE m.state + 0 = 9",
        "WHERE e.state IN (0, 1, 4)",
        "AND h.state < 2",
        "UPDATE aq_queue SET dequeue_enabled = 2 WHERE id = ?",
        "SET state = CASE WHEN ready_at > ? THEN 1 ELSE 0 END",
        "o.state := CASE r.state WHEN 1 THEN 'WAITING' END",
        "v_state := CASE WHEN v_attempts > q.max_retries THEN 4 ELSE 0 END",
        "v_body_type smallint := CASE p_given WHEN 'raw bytes' THEN 1 ELSE 2 END",
        "v_body_type := 3",
        "m.body_type IN (2, 3, 4)",
        "WHEN 0 THEN 'READY' WHEN 1 THEN 'WAIT'",
    ],
)
def test_the_finder_of_states_finds_them_in_sql(sql: str) -> None:
    assert STATE_IN_SQL.search(sql)


def test_the_finder_of_states_finds_those_that_are_inserted() -> None:
    sql = "INSERT INTO aq_entry (id, state, k1) SELECT f(1, 2), CASE WHEN d > 0 THEN 1 ELSE 0 END, 0 FROM t"
    assert list(inserted_states(sql)) == ["state: CASE WHEN d > 0 THEN 1 ELSE 0 END"]
    assert list(inserted_states("INSERT INTO aq_message (id, state) VALUES (7, 9, 1)")) == ["state: 9"]
    assert not list(inserted_states("INSERT INTO aq_entry (id, state) SELECT 1, CASE WHEN d THEN @WAITING@ END"))


def test_the_finder_of_states_reads_texts_and_comparisons() -> None:
    code = 'a = f"WHERE {x}.state = 8"\nb = f"WHERE state = {State.READY}"\nc = found.state > 1\nd = state == READY'
    assert [line for line, text in _strings(ast.parse(code)) if STATE_IN_SQL.search(text)] == [1]
    assert [line for line, _ in _compared(ast.parse(code))] == [3]


def test_the_finder_of_states_leaves_names_alone() -> None:
    for sql in ("state = ? AND x = 1", "state IN {}", "state = @READY@", "(state = 'DONE', 3)", "state, 0"):
        assert not STATE_IN_SQL.search(sql), sql


# -- the column map ----------------------------------------------------------------------------------------------------


def test_the_column_map_names_columns_of_the_tables() -> None:
    assert set(columns.NEW_TYPED_MESSAGE.names) <= set(message.columns.keys())
    assert set(columns.NEW_ENTRY.names) <= set(entry.columns.keys())
    assert set(columns.GROUPED.names) <= set(message.columns.keys())
    for name, text in zip(columns.GROUPED.names, columns.GROUPED.texts, strict=True):
        assert text in (f"m.{name}", f"{{a}}.{name}")


def test_a_new_row_holds_each_value_in_its_column() -> None:
    queue = QueueRef(
        id=7,
        name="Q",
        schema="MGW",
        queue_type=QueueType.NORMAL,
        queue_table="T",
        queue_table_id=1,
        payload_type=PayloadType.RAW,
        sort_list=SortList.PRIORITY,
        multiple_consumers=False,
        max_payload=1000,
        hub_id=b"12345678",
        secure=False,
    )
    new = Message(
        b"body",
        (Header("name", ValueType.TEXT, "value"),),
        priority=3,
        correlation="corr",
        delay=5,
        expiration=60.0,
        exception_queue="EQ",
        sender_name="sender",
        sender_address="address",
        sender_protocol=2,
        original_msgid=b"o" * 16,
        user_property="user property",
    )
    (row,) = encode(queue, [new], [42], 1000.0, "SCOTT", "txn")
    of = columns.NEW_MESSAGE.named(row)
    assert (of.id, of.queue_id, of.state, of.k1, of.k2, of.k3) == (42, 7, State.WAITING, 3, 0, 42)
    assert (of.priority, of.ready_at, of.expires_at, of.expiration) == (3, 1005.0, 1065.0, 60.0)
    assert (of.correlation, of.enq_time, of.enq_user, of.enq_txn, of.attempts) == ("corr", 1000.0, "SCOTT", "txn", 0)
    assert (of.exception_queue, of.sender_name, of.sender_address) == ("EQ", "sender", "address")
    assert (of.sender_protocol, of.original_msgid, of.user_property) == (2, b"o" * 16, "user property")
    assert (of.kind, of.body_type, of.body) == (new.kind.value, BodyType.RAW, b"body")
    stored = of._asdict() | {"type_id": None}
    (back,) = decode([tuple(stored[name] for name in columns.STORED.names)], queue.hub_id)
    known = replace(new, delay=0, expires_at=1065.0, msgid=queue.hub_id + (42).to_bytes(8), enqueue_time=1000.0)
    assert back == known


def test_columns_say_where_values_are() -> None:
    some = columns.Columns(a="x.a", b="{a}.b", c="x.c", d="x.d")
    assert (some.at("c"), len(some), some.of("m")) == (2, 4, "x.a, m.b, x.c, x.d")
    assert some.getter("d", "a")((1, 2, 3, 4)) == (4, 1)
    before, behind = some.around("b", "c")
    row = (1, 2, 3, 4, "more")
    assert (*row[before], 20, 30, *row[behind]) == (1, 20, 30, 4, "more")
    assert (row[some.between("b", "c")], row[some.whole], row[some.rest]) == ((2, 3), (1, 2, 3, 4), ("more",))
    assert some.extended(e="x.e").at("e") == 4
    assert some.altered(b="NULL").sql == "x.a, NULL, x.c, x.d"
    assert some.named((1, 2, 3, 4)).c == 3


def test_columns_refuse_what_would_shift_values() -> None:
    some = columns.Columns(a="a", b="b", c="c")
    with pytest.raises(ValueError, match="are not adjacent"):
        some.around("a", "c")
    with pytest.raises(ValueError, match="are not adjacent"):
        some.between("b", "a")
    with pytest.raises(KeyError):
        some.altered(d="NULL")
    with pytest.raises(TypeError):
        some.named((1, 2))
