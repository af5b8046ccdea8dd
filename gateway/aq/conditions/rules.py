"""Subscriber rules: which messages a subscriber gets (AQ guide 12.2 §1.3.4, §8.6.1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from mgw.gateway.aq.errors import RuleFailed, RuleInvalid
from mgw.transforms.errors import ExpressionFailed, ExpressionInvalid
from mgw.transforms.language.compiler import analyse, compile_condition
from mgw.transforms.language.expression import Expression, Functions, Row, no_functions
from mgw.transforms.language.functions import on_change, register_function, unregister_function
from mgw.transforms.language.text import canonical_text
from mgw.transforms.message import Message

if TYPE_CHECKING:
    from mgw.gateway.aq.python_code.stored_functions import Bindings
    from mgw.gateway.aq.store.statements import Db

__all__ = ["Rule", "bindings_for", "compile_rule", "register_function", "unregister_function"]


def _any_function(_name: str) -> Callable[..., None]:
    """For looking at the text of a rule: what it calls is there, whatever it is."""
    return lambda *_: None


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
            self._canonical = canonical_text(analyse(self.text, functions=_any_function))
        return self._canonical

    def matches(self, message: Message | Row) -> bool:
        """Whether the rule is true for the message; unknown counts as no.

        Pass one ``Row`` instead of the message when several rules look at the same message: it parses the body once.

        Raises:
            AqError: ORA-25449, the rule has no value for this message (it divides by zero, or compares text that is
                not a number with a number).
        """
        row = message if type(message) is Row else Row(message)  # type: ignore[arg-type]
        try:
            return self._condition.holds(row) is True
        except ExpressionFailed as error:
            raise RuleFailed(
                f"rule {self.text!r} failed",
                cause=error.cause,
                cure="correct the message, or alter the subscriber's rule",
            ) from error

    def __repr__(self) -> str:
        return f"Rule({self.text!r})"


def compile_rule(text: str, db: Db | None = None, *, bindings: Bindings = ()) -> Rule:
    """The rule in ``text``, compiled once per process.

    Args:
        db: a transaction of the hub whose functions the rule may call, besides those registered in this process. It
            is asked only where the rule calls a function that the process does not have.
        bindings: functions that it may call where there is no hub.

    Raises:
        AqError: ORA-25448, the rule is invalid, or calls a function whose module cannot be imported here; line, column
            and offending text are in the message, and the ``ExpressionInvalid`` with them is the cause (``__cause__``).
    """
    return _compiled(text, bindings_for(text, db, bindings))


def bindings_for(text: str, db: Db | None, bindings: Bindings = ()) -> Bindings:
    """Those functions that the rule calls and this process does not have: of the hub, or of ``bindings``."""
    if db is None and not bindings:
        return ()
    called = _called(text)
    if not called:
        return ()
    if db is None:
        return tuple(each for each in bindings if each[0] in called)
    from mgw.gateway.aq.python_code.stored_functions import bindings_of

    return bindings_of(db, called)


@lru_cache(maxsize=1024)
def _called(text: str) -> tuple[str, ...]:
    """Names, in upper case, of the functions that a rule calls and this process does not have."""
    names: set[str] = set()

    def note(name: str) -> Callable[..., None]:
        names.add(name)
        return _any_function(name)

    try:
        _compiled(text, ())
    except RuleInvalid:
        with suppress(ExpressionInvalid):  # compiling it says why
            analyse(text, functions=note)
    return tuple(sorted(names))


@lru_cache(maxsize=1024)
def _compiled(text: str, bindings: Bindings) -> Rule:
    found: Functions = no_functions
    if bindings:
        from mgw.gateway.aq.python_code.stored_functions import bound

        found = bound(bindings)
    try:
        return Rule(compile_condition(text, functions=found))
    except ExpressionInvalid as error:
        raise RuleInvalid(error.what, cause=error.cause, cure=error.cure) from error


def _forget() -> None:
    _called.cache_clear()
    _compiled.cache_clear()


on_change(_forget)
