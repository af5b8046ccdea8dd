"""The expression language of rules, conditions and transformations (AQ guide 12.2 §1.3.4, §8.6.1, §10.5).

An expression is parsed once into a closure and then evaluated per message, with the three-valued logic of SQL (None is
NULL and UNKNOWN). It knows:

* operators ``= <> != < <= > >=``, ``AND OR NOT``, ``[NOT] LIKE ... [ESCAPE]``, ``[NOT] IN (...)``, ``[NOT] BETWEEN``,
  ``IS [NOT] NULL | TRUE | FALSE``, ``+ - * / %``, ``||``, ``CASE``, parentheses;
* numbers, texts (``'it''s'``), ``TRUE FALSE NULL``;
* message properties (see :data:`PROPERTIES`), alone or as ``tab.priority``; letter case does not matter;
* ``tab.user_data.a.b`` (also ``userdata``; also with ``source.`` or no prefix): an attribute of the JSON object or of
  the fields in the body. Letter case matters. NULL when the body has no such attribute, or is not a JSON object;
  The attributes of an object (also of one in ANYDATA) are found in any letter case;
* ``tab.user_data`` alone: the whole body, text where it is UTF-8 text, raw bytes otherwise;
* ``tab.user_data.header.NAME`` or ``HEADER('NAME')``: the first header of that name. (An attribute of the JSON body
  that is called header is ``tab.user_data."header"``, in quotes.)
* the functions in :data:`FUNCTIONS`, and what is registered (:mod:`mgw.transforms.language.functions`);
* ``tab.user_data.GetTypeName()``, ``existsNode('/a/b')`` and ``extract('/a/b/text()').getStringVal()`` of the payload.

``||`` gives NULL when one side is; ``CONCAT`` leaves NULLs out. Decimals are floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mgw.transforms.errors import ExpressionFailed
from mgw.transforms.language.values import NoValue, Value, show
from mgw.transforms.message import Message
from mgw.transforms.objects import AnyData, ObjectValue
from mgw.transforms.payloads.json_text import parse_exact, parse_json

__all__ = [
    "FUNCTIONS",
    "MAX_EXPRESSION",
    "PROPERTIES",
    "RULES",
    "Expression",
    "Function",
    "Functions",
    "Language",
    "Property",
    "Row",
    "no_functions",
]

_NOT_PARSED = object()
MAX_EXPRESSION = 4000  # characters, AQ guide 12.2 §8.4 and §10.5


class Function(NamedTuple):
    """A function of the language: how it is used, in a condition, and what it gives."""

    example: str
    meaning: str


#: What an expression may call. All are NULL where an argument is, but for COALESCE, CONCAT and NVL.
FUNCTIONS: Mapping[str, Function] = {
    "ABS": Function("ABS(priority) = 3", "the number without its sign"),
    "CEIL": Function("CEIL(tab.user_data.price) = 10", "smallest integer that is not smaller"),
    "COALESCE": Function("COALESCE(sender_name, corrid) = 'SHOP'", "the first argument that is not NULL"),
    "CONCAT": Function("CONCAT(corrid, sender_name) = 'aSHOP'", "texts joined, NULL left out"),
    "FLOOR": Function("FLOOR(tab.user_data.price) = 9", "largest integer that is not larger"),
    "HEADER": Function("HEADER('MGW_AMQP_routingKey') = 'eu'", "value of the first header of that name"),
    "INSTR": Function(
        "INSTR(corrid, '-') > 0", "position of a text in another, counted from 1; 0: not found [, start [, occurrence]]"
    ),
    "LENGTH": Function("LENGTH(corrid) <= 20", "number of characters in a text"),
    "LOWER": Function("LOWER(corrid) = 'a'", "the text in lower case"),
    "LTRIM": Function("LTRIM(corrid, '0') = '7'", "the text without spaces, or the given characters, at its start"),
    "MOD": Function("MOD(priority, 2) = 1", "remainder, with the sign of the dividend"),
    "NULLIF": Function("NULLIF(corrid, '-') IS NULL", "NULL where both are equal, else the first argument"),
    "NVL": Function("NVL(corrid, '-') = '-'", "the second argument where the first is NULL"),
    "REPLACE": Function("REPLACE(corrid, '-', '') = 'ab'", "the text with every occurrence of a text replaced"),
    "ROUND": Function("ROUND(tab.user_data.price, 1) = 9.5", "rounded half away from zero [, to decimals]"),
    "RTRIM": Function("RTRIM(corrid) = 'a'", "the text without spaces, or the given characters, at its end"),
    "SUBSTR": Function(
        "SUBSTR(corrid, 1, 2) = 'EU'", "part of a text from a position, counted from 1; negative: from the end"
    ),
    "TO_CHAR": Function("TO_CHAR(priority) LIKE '1%'", "the value as text"),
    "TO_NUMBER": Function("TO_NUMBER(corrid) = 7", "the text as a number; an error where it is not one"),
    "TRIM": Function("TRIM(corrid) = 'a'", "the text without spaces at both ends; also TRIM(BOTH 'x' FROM corrid)"),
    "UPPER": Function("UPPER(corrid) = 'A'", "the text in upper case"),
}


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex().upper()


class Property(NamedTuple):
    """A name that stands for one value of a row."""

    kind: str  # "number" or "text": what it is wherever it is not NULL
    get: Callable[[Row], Value]
    meaning: str


class Row:
    """A message as expressions see it. Its body is parsed at most once: use one row for all expressions of a message.

    Args:
        message: the message.
        strict: a payload attribute of a body that is not a JSON object is an error instead of NULL.
        exact: numbers of the JSON body keep all their digits, for results that do.
    """

    __slots__ = ("_attributes", "_xml", "exact", "message", "strict")

    def __init__(self, message: Message, *, strict: bool = False, exact: bool = False) -> None:
        self.message = message
        self.strict = strict
        self.exact = exact
        self._attributes: Mapping[str, Value] | None = None
        self._xml: Any = _NOT_PARSED

    @property
    def attributes(self) -> Mapping[str, Value]:
        """Attributes of the payload: members of the JSON object, or fields by name (the first of a name)."""
        if self._attributes is None:
            self._attributes = self._parse()
        return self._attributes

    @property
    def type_name(self) -> str | None:
        """``GetTypeName()`` of an object or of ANYDATA (``OE.ADDRESS``, ``SYS.NUMBER``); NULL for other payloads."""
        return self.message.type_name

    @property
    def body(self) -> Value:
        """The body as one value: text, or bytes that are not text; NULL for no body and for fields.

        An object and ANYDATA are themselves.
        """
        body = self.message.body
        if isinstance(body, bytes):
            try:
                return body.decode()
            except UnicodeDecodeError:
                return body
        return None if isinstance(body, tuple) else body

    @property
    def xml(self) -> Any:
        """The root element of an XML payload; None where the body is not XML (an error for a strict row)."""
        if self._xml is _NOT_PARSED:
            self._xml = self._parse_xml()
        return self._xml

    def _parse_xml(self) -> Any:
        from mgw.transforms.payloads.xml_text import parse_xml

        body = self.message.body
        problem = "there is no text"
        if isinstance(body, (str, bytes)):
            try:
                return parse_xml(body)
            except ValueError as error:
                problem = str(error)[:200]
        if self.strict:
            raise NoValue(f"the body must be XML, but {problem}")
        return None

    def _parse(self) -> Mapping[str, Value]:
        body = self.message.body
        if isinstance(body, tuple):
            return {field.name: field.value for field in reversed(body)}
        if isinstance(body, AnyData):
            body = body.value
        if isinstance(body, ObjectValue):
            return body
        problem = "there is no body"
        if isinstance(body, (str, bytes)):
            try:
                value = parse_exact(body) if self.exact else parse_json(body)
                if isinstance(value, dict):
                    return value
                problem = f"the body is {show(value)}"
            except ValueError as error:
                problem = f"the body is not JSON text ({str(error)[:200]})"
        if self.strict:
            raise NoValue(f"the body must be a JSON object, but {problem}")
        return {}


#: Message properties by name. Times are epoch seconds, durations seconds, message ids hexadecimal text.
PROPERTIES: Mapping[str, Property] = {
    "priority": Property("number", lambda r: r.message.priority, "priority, smaller is more important"),
    "corrid": Property("text", lambda r: r.message.correlation, "correlation"),
    "correlation": Property("text", lambda r: r.message.correlation, "correlation, too"),
    "msgid": Property(
        "text", lambda r: _hex(r.message.msgid), "message id, 32 hexadecimal digits; NULL before enqueue"
    ),
    "enq_time": Property(
        "number", lambda r: r.message.enqueue_time, "enqueue time, epoch seconds; NULL before enqueue"
    ),
    "expiration": Property(
        "number", lambda r: r.message.expiration, "seconds in which it can be consumed; NULL: forever"
    ),
    "delay": Property("number", lambda r: r.message.delay, "seconds from enqueue to READY; 0 in a stored message"),
    "retry_count": Property("number", lambda r: r.message.attempts, "failed attempts"),
    "attempts": Property("number", lambda r: r.message.attempts, "failed attempts, same as retry_count"),
    "exception_queue": Property("text", lambda r: r.message.exception_queue, "requested exception queue"),
    "sender_name": Property("text", lambda r: r.message.sender_name, "agent that sent it"),
    "sender_address": Property("text", lambda r: r.message.sender_address, "queue it was last propagated from"),
    "original_msgid": Property("text", lambda r: _hex(r.message.original_msgid), "id in the queue it came from"),
}


class Language(NamedTuple):
    """The names that a text may use: properties, alone or after one of the prefixes."""

    prefixes: tuple[str, ...]
    properties: Mapping[str, Property]


#: The language of rules, dequeue conditions and transformations.
RULES = Language(("tab", "source"), PROPERTIES)


#: Finds the Python function that expressions call by a name (in upper case), or None; raises GatewayError where the
#: function cannot be loaded.
Functions = Callable[[str], "Callable[..., Value] | None"]


def no_functions(_name: str) -> None:
    """None in addition to those of the language and of this process."""


class Expression:
    """A compiled expression; make one with :func:`compile_expression` or :func:`compile_condition`."""

    __slots__ = ("_run", "language", "text")

    def __init__(self, text: str, run: Callable[[Row], Value], language: Language = RULES) -> None:
        self.text = text
        self.language = language
        self._run = run

    def value(self, row: Row) -> Value:
        """The value for a message; None is NULL.

        Raises:
            ExpressionFailed: there is none (division by zero, text that is not a number, out of range).
        """
        try:
            return self._run(row)
        except NoValue as problem:
            raise self._failed(str(problem)) from None
        except OverflowError:
            raise self._failed("a number is out of range") from None

    def holds(self, row: Row) -> bool | None:
        """The truth of a condition: True, False or None for UNKNOWN.

        Raises:
            ExpressionFailed: as :meth:`value`, or the value is not a truth value.
        """
        value = self.value(row)
        if value is None or value is True or value is False:
            return value
        raise self._failed(f"its value {show(value)} is neither true nor false")

    def _failed(self, cause: str) -> ExpressionFailed:
        return ExpressionFailed(
            f"expression {self.text!r} failed", cause=cause, cure="correct the message at its sender, or the expression"
        )

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"
