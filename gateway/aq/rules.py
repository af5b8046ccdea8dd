"""Subscriber rules: which messages a subscriber gets (AQ guide 12.2 §1.3.4, §8.6.1)."""

from __future__ import annotations

from functools import lru_cache

from gateway.aq.errors import RuleFailed, RuleInvalid
from transforms.compiler import analyse
from transforms.errors import ExpressionFailed, ExpressionInvalid
from transforms.expression import Expression, Row, compile_condition
from transforms.expression_functions import on_change, register_function, unregister_function
from transforms.expression_text import canonical_text
from transforms.message import Message

__all__ = ["Rule", "compile_rule", "register_function", "unregister_function"]


class Rule:
    """A compiled rule; make one with :func:`compile_rule`. ``text`` is the rule as written."""

    __slots__ = ("_canonical", "_condition", "text")

    def __init__(self, condition: Expression) -> None:
        self._condition = condition
        self._canonical: str | None = None
        self.text = condition.text

    @property
    def canonical(self) -> str:
        """The rule in one way of writing: equal rules are equal here, whatever their spaces and letter case."""
        if self._canonical is None:
            self._canonical = canonical_text(analyse(self.text))
        return self._canonical

    def matches(self, message: Message | Row) -> bool:
        """Whether the rule is true for the message; unknown counts as no.

        Pass one ``Row`` instead of the message when several rules look at the same message: it parses the body once.

        Raises:
            AqError: ORA-25449, the rule has no value for this message (it divides by zero, or compares text that is no
                number with a number).
        """
        row = message if type(message) is Row else Row(message)  # type: ignore[arg-type]
        try:
            return self._condition.holds(row) is True
        except ExpressionFailed as error:
            raise RuleFailed(
                f"rule {self.text!r} failed",
                cause=error.cause,
                cure="correct the message, or alter the rule of the subscriber",
            ) from error

    def __repr__(self) -> str:
        return f"Rule({self.text!r})"


@lru_cache(maxsize=1024)
def compile_rule(text: str) -> Rule:
    """The rule in ``text``, compiled once per process.

    Raises:
        AqError: ORA-25448, the rule is invalid; line, column and offending text are in the message, and the
            ``ExpressionInvalid`` with them is the cause (``__cause__``).
    """
    try:
        return Rule(compile_condition(text))
    except ExpressionInvalid as error:
        raise RuleInvalid(error.what, cause=error.cause, cure=error.cure) from error


on_change(compile_rule.cache_clear)
