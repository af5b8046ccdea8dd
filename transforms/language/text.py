"""An expression as text again, in one way of writing: the inverse of parsing.

Two expressions with the same text here are the same expression. Names of properties and functions are in one case, the
payload is ``user_data`` after the first prefix of the language, parentheses stay where they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from mgw.transforms.language.parser import Compiler

__all__ = ["canonical_text"]


def canonical_text(analysis: Compiler) -> str:
    """The text of an expression that :func:`mgw.transforms.language.compiler.analyse` has accepted."""
    return _Writer(analysis).write(analysis.tree)


class _Writer:
    def __init__(self, analysis: Compiler) -> None:
        self._analysis = analysis
        self._language = analysis.language

    def write(self, node: Any) -> str:
        kind = type(node)
        if kind in _INFIX:
            return f" {_INFIX[kind]} ".join(map(self.write, self._operands(node)))
        if kind in _FUNCTIONS:
            name, parts = _FUNCTIONS[kind]
            return self._call(name, [node.args[part] for part in parts if node.args.get(part) is not None])
        return _OTHERS[kind](self, node)

    def _operands(self, node: Any) -> list[Any]:
        if isinstance(node, _CHAINS):
            return self._analysis.chain(node, type(node))
        return [node.this, node.args["expression"]]

    def _call(self, name: str, arguments: list[Any]) -> str:
        return f"{name}({', '.join(map(self.write, arguments))})"

    def _listed(self, node: Any) -> str:
        return ", ".join(map(self.write, node))

    def _literal(self, node: Any) -> str:
        return _quoted(str(node.this)) if node.is_string else str(node.this)

    def _not(self, node: Any) -> str:
        inner = node.this
        if isinstance(inner, exp.In):
            return f"{self.write(inner.this)} NOT IN ({self._listed(inner.expressions)})"
        if isinstance(inner, exp.Between):
            return self._between(inner, "NOT ")
        if isinstance(inner, exp.Is):
            return f"{self.write(inner.this)} IS NOT {self.write(inner.args['expression'])}"
        if isinstance(inner, (exp.Like, exp.Escape)) and not _like_of(inner).args.get("negate"):
            return self._like(inner, "NOT ")
        return f"NOT {self.write(inner)}"

    def _between(self, node: Any, negation: str = "") -> str:
        low, high = self.write(node.args["low"]), self.write(node.args["high"])
        return f"{self.write(node.this)} {negation}BETWEEN {low} AND {high}"

    def _like(self, node: Any, negation: str = "") -> str:
        found = _like_of(node)
        negation = "NOT " if found.args.get("negate") else negation
        text = f"{self.write(found.this)} {negation}LIKE {self.write(found.args['expression'])}"
        return f"{text} ESCAPE {self.write(node.args['expression'])}" if found is not node else text

    def _case(self, node: Any) -> str:
        words = ["CASE", *([self.write(node.this)] if node.this else [])]
        words += [f"WHEN {self.write(each.this)} THEN {self.write(each.args['true'])}" for each in node.args["ifs"]]
        if node.args.get("default") is not None:
            words.append(f"ELSE {self.write(node.args['default'])}")
        return " ".join([*words, "END"])

    def _trim(self, node: Any) -> str:
        position = str(node.args.get("position") or "BOTH").upper()
        if node.args.get("expression") is None:
            return self._call({"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}[position], [node.this])
        if position == "BOTH":
            return f"TRIM(BOTH {self.write(node.args['expression'])} FROM {self.write(node.this)})"
        return self._call("LTRIM" if position == "LEADING" else "RTRIM", [node.this, node.args["expression"]])

    def _dotted(self, node: Any) -> str:
        parts: list[Any] = []
        while isinstance(node, exp.Dot):
            parts.insert(0, node.args["expression"])
            node = node.this
        parts = [*(node.parts if isinstance(node, exp.Column) else [node]), *parts]
        lower = [_key(part) for part in parts]
        if lower[0] in self._language.prefixes and len(parts) > 1:
            parts, lower = parts[1:], lower[1:]
        prefix = self._language.prefixes[0]
        if lower[0] in ("user_data", "userdata"):
            rest = [_name(part) if isinstance(part, exp.Identifier) else self._anonymous(part) for part in parts[1:]]
            if len(lower) > 1 and lower[1] == "header" and not parts[1].args.get("quoted"):
                rest[0] = "header"
            return ".".join([prefix, "user_data", *rest])
        if isinstance(parts[-1], exp.Anonymous):
            return ".".join([*(str(part.this).upper() for part in parts[:-1]), self._anonymous(parts[-1])])
        return f"{prefix}.{lower[0]}"

    def _anonymous(self, node: Any) -> str:
        return self._call(str(node.this).upper(), node.expressions)


def _like_of(node: Any) -> Any:
    return node.this if isinstance(node, exp.Escape) else node


def _key(part: Any) -> str:
    if not isinstance(part, exp.Identifier):
        return ""
    return str(part.this) if part.args.get("quoted") else str(part.this).lower()


def _name(part: Any) -> str:
    return '"' + str(part.this).replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_CHAINS = (exp.And, exp.Or, exp.DPipe, exp.Add, exp.Sub, exp.Mul, exp.Div)
_INFIX: Mapping[Any, str] = {
    exp.And: "AND", exp.Or: "OR", exp.DPipe: "||",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
}  # fmt: skip
_FUNCTIONS: Mapping[Any, tuple[str, tuple[str, ...]]] = {
    exp.Mod: ("MOD", ("this", "expression")),
    exp.Nullif: ("NULLIF", ("this", "expression")),
    exp.Upper: ("UPPER", ("this",)),
    exp.Lower: ("LOWER", ("this",)),
    exp.Length: ("LENGTH", ("this",)),
    exp.Substring: ("SUBSTR", ("this", "start", "length")),
    exp.StrPosition: ("INSTR", ("this", "substr", "position", "occurrence")),
    exp.Replace: ("REPLACE", ("this", "expression", "replacement")),
    exp.Abs: ("ABS", ("this",)),
    exp.Round: ("ROUND", ("this", "decimals")),
    exp.Floor: ("FLOOR", ("this",)),
    exp.Ceil: ("CEIL", ("this",)),
    exp.ToNumber: ("TO_NUMBER", ("this",)),
    exp.ToChar: ("TO_CHAR", ("this",)),
}
_OTHERS: Mapping[Any, Callable[[_Writer, Any], str]] = {
    exp.Not: _Writer._not,
    exp.In: lambda self, node: f"{self.write(node.this)} IN ({self._listed(node.expressions)})",
    exp.Between: _Writer._between,
    exp.Is: lambda self, node: f"{self.write(node.this)} IS {self.write(node.args['expression'])}",
    exp.Like: _Writer._like,
    exp.Escape: _Writer._like,
    exp.Neg: lambda self, node: f"- {self.write(node.this)}",
    exp.Paren: lambda self, node: f"({self.write(node.this)})",
    exp.Literal: _Writer._literal,
    exp.Boolean: lambda _self, node: "TRUE" if node.this else "FALSE",
    exp.Null: lambda _self, _node: "NULL",
    exp.Case: _Writer._case,
    exp.Coalesce: lambda self, node: self._call("COALESCE", [node.this, *node.expressions]),
    exp.Concat: lambda self, node: self._call("CONCAT", node.expressions),
    exp.Trim: _Writer._trim,
    exp.Anonymous: _Writer._anonymous,
    exp.Column: _Writer._dotted,
    exp.Dot: _Writer._dotted,
}
