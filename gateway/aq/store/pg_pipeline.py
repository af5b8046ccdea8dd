"""Statements on a connection of the hub's own to PostgreSQL, several in one round trip.

The driver sends a statement, and waits for its result before the next one. That costs a transaction of a batch ten
round trips, and each costs both processes more than most of the statements. Here statements whose results nobody needs
at once wait (:meth:`Pipeline.later`), and go out with the next one that somebody waits for, or with COMMIT. The server
executes them in order, and none after one that failed; COMMIT is one of them.

The driver's connection stays the owner: it may be used between two calls, and does not notice, as long as
:meth:`Pipeline.flush` comes first.
"""

from __future__ import annotations

import itertools
import re
import select
from collections.abc import Callable, Mapping, Sequence
from struct import pack
from types import SimpleNamespace
from typing import Any

__all__ = ["Check", "Pipeline"]

Row = tuple[Any, ...]
#: Is given the number of rows that a statement changed, or returned; raises if the transaction must not go on.
Check = Callable[[int], object]

_IDLE = 0  # of PQtransactionStatus
_BAD = 1  # of ConnStatusType
_FATAL, _SYNC = 7, 10  # of ExecStatusType
_BINARY = 1
_KNOWN, _PREPARED = 2000, 300  # statements counted, and prepared, at most
_INT8, _INT8_ARRAY = 20, 1016
_PLACES = re.compile(r"%[s%]")
_NO_PARAMETERS: tuple[()] = ()


class _Statement:
    """A statement with its parameters as they are sent."""

    __slots__ = ("check", "formats", "name", "new", "params", "sql", "taken", "types")

    def __init__(self, sql: bytes, params: Sequence[Any], types: Sequence[int], formats: Sequence[int]) -> None:
        self.sql, self.params, self.types, self.formats = sql, params, types, formats
        self.name = b""
        self.new = False
        self.check: Check | None = None
        self.taken: Callable[[Any], object] | None = None  # is given the result


class Pipeline:
    """Of one connection, whose driver is psycopg."""

    __slots__ = (
        "_adapted",
        "_driver",
        "_failed",
        "_formats",
        "_names",
        "_numbers",
        "_often",
        "_pgconn",
        "_poll",
        "_seen",
        "_texts",
        "_waiting",
    )

    def __init__(self, driver: Any) -> None:
        from psycopg.adapt import AdaptersMap, Transformer
        from psycopg.types.numeric import Int8BinaryDumper

        # A number of whatever size has one type: a statement is prepared once.
        adapters = AdaptersMap(driver.adapters)
        adapters.register_dumper(int, Int8BinaryDumper)
        context: Any = SimpleNamespace(adapters=adapters, connection=driver)
        self._adapted: Any = Transformer.from_context(context)
        self._driver = driver
        # The driver forgets all that is prepared, ours too, when something is dropped or a transaction is rolled back.
        self._often: int | None = driver.prepare_threshold
        driver.prepare_threshold = None
        self._pgconn = driver.pgconn
        self._poll: select.poll | None = None
        self._texts: dict[str, bytes] = {}
        self._formats: dict[int, list[Any]] = {}
        self._seen: dict[tuple[bytes, Any], int] = {}
        self._numbers = itertools.count()
        self._names: dict[tuple[bytes, Any], bytes] = {}
        self._waiting: list[_Statement] = []
        self._failed: BaseException | None = None  # what a check raised: the transaction can only be rolled back

    # -- for everybody -------------------------------------------------------------------------------------------

    def later(self, sql: str, params: Sequence[Any], check: Check | None = None) -> None:
        """Have a statement executed before the next one that is not to wait, at the latest with the commit.

        ``check`` is called then, in the order of the statements; what it raises reaches whoever made them go out.
        """
        statement = self._statement(sql, params)
        statement.check = check
        self._waiting.append(statement)

    def rows(self, sql: str, params: Sequence[Any]) -> list[Row]:
        """What a query returns."""
        return self._loaded(self._execute(self._statement(sql, params)))

    def together(self, queries: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Row]]:
        """What each of some queries returns; they are executed in this order, in one round trip."""
        results: list[Any] = []
        for sql, params in queries:
            statement = self._statement(sql, params)
            statement.taken = results.append
            self._waiting.append(statement)
        self.flush()
        return [self._loaded(result) for result in results]

    def _loaded(self, result: Any) -> list[Row]:
        if not result.ntuples:
            return []
        adapted = self._adapted
        adapted.set_pgresult(result, format=_BINARY)
        return adapted.load_rows(0, result.ntuples, tuple)  # type: ignore[no-any-return]

    def run(self, sql: str, params: Sequence[Any]) -> int:
        """How many rows a statement changed."""
        return _number(self._execute(self._statement(sql, params)))

    def flush(self) -> None:
        """Execute what waits."""
        if self._waiting:
            self._execute(None)

    def commit(self) -> None:
        """Execute what waits and commit, in one round trip unless something of it is to be checked before."""
        if self._failed is not None:
            raise self._failed
        if any(statement.check is not None for statement in self._waiting):
            self._execute(None)
        if self._waiting or self._pgconn.transaction_status != _IDLE:
            self._execute(_Statement(b"COMMIT", _NO_PARAMETERS, _NO_PARAMETERS, _NO_PARAMETERS))

    def forget(self) -> None:
        """What waits is not executed: the transaction is going to be rolled back."""
        self._forget_new(self._waiting, 0)
        self._waiting = []
        self._failed = None

    # -- on the wire -----------------------------------------------------------------------------------------------

    def _statement(self, sql: str, params: Sequence[Any]) -> _Statement:
        text = self._texts.get(sql)
        if text is None:
            if len(self._texts) >= _KNOWN:
                self._texts.clear()
            text = self._texts[sql] = _numbered(sql)
        if not params:
            statement = _Statement(text, _NO_PARAMETERS, _NO_PARAMETERS, _NO_PARAMETERS)
        else:
            formats = self._formats.get(len(params))
            if formats is None:
                from psycopg.adapt import PyFormat

                formats = self._formats[len(params)] = [PyFormat.AUTO] * len(params)
            arrays = {at: _array(value) for at, value in enumerate(params) if type(value) is list and _numbers(value)}
            if arrays:
                params = [None if at in arrays else value for at, value in enumerate(params)]
            adapted = self._adapted
            sent = adapted.dump_sequence(params, formats)
            types, forms = adapted.types, adapted.formats
            if arrays:
                types, forms = _with_arrays(arrays, sent, types, forms)
            statement = _Statement(text, sent, types, forms)
        self._prepare(statement)
        return statement

    def _prepare(self, statement: _Statement) -> None:
        """Prepare what is executed often; never a text that is new each time."""
        often = self._often
        if often is None:
            return
        key = (statement.sql, statement.types)
        name = self._names.get(key)
        if name is None:
            seen = self._seen.get(key, 0) + 1
            if len(self._seen) >= _KNOWN:
                self._seen.clear()
            self._seen[key] = seen
            if seen <= often or len(self._names) >= _PREPARED:
                return
            name = self._names[key] = b"mgw_%d" % next(self._numbers)
            statement.new = True
        statement.name = name

    def _begin(self) -> bytes | None:
        """How the transaction begins, if none is open."""
        driver = self._driver
        if driver.autocommit or self._pgconn.transaction_status != _IDLE:
            return None
        begin = "BEGIN"
        if driver.isolation_level is not None:
            begin += f" ISOLATION LEVEL {driver.isolation_level.name.replace('_', ' ')}"
        if driver.read_only is not None:
            begin += " READ ONLY" if driver.read_only else " READ WRITE"
        if driver.deferrable is not None:
            begin += " DEFERRABLE" if driver.deferrable else " NOT DEFERRABLE"
        return begin.encode()

    def _execute(self, last: _Statement | None) -> Any:
        """Execute what waits, and one more, in one round trip; the result of the last one.

        Raises:
            psycopg.Error: the server refused one of them, or is not there any more.
            Exception: what a check raises.
        """
        statements, self._waiting = self._waiting, []
        if last is not None:
            statements.append(last)
        try:
            results = self._exchange(statements)
        except BaseException:  # nobody knows what the server still sends
            self._forget_new(statements, 0)
            self._driver.close()
            raise
        return self._checked(statements, results)

    def _exchange(self, statements: Sequence[_Statement]) -> list[Any]:
        pgconn = self._pgconn
        begin = self._begin()
        pgconn.enter_pipeline_mode()
        if begin is not None:
            pgconn.send_query_params(begin, None)
        for each in statements:
            if each.new:
                pgconn.send_prepare(each.name, each.sql, each.types)
            if each.name:
                pgconn.send_query_prepared(each.name, each.params, each.formats, _BINARY)
            else:
                pgconn.send_query_params(each.sql, each.params, each.types, each.formats, _BINARY)
        pgconn.pipeline_sync()
        results = self._received()
        pgconn.exit_pipeline_mode()
        if begin is not None:
            started = results.pop(0)
            if started.status == _FATAL:
                results.insert(0, started)
        return results

    def _received(self) -> list[Any]:
        """Every result up to the end of the round trip."""
        pgconn, results = self._pgconn, list[Any]()
        if self._poll is None:
            self._poll = select.poll()
        unsent = pgconn.flush()
        while True:
            while pgconn.is_busy():
                self._poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
                self._poll.poll()
                pgconn.consume_input()
                if unsent:
                    unsent = pgconn.flush()
            result = pgconn.get_result()
            if result is None:  # after the results of each statement
                if pgconn.status == _BAD:
                    raise _lost(pgconn)
            elif result.status == _SYNC:
                return results
            else:
                results.append(result)
                if result.status == _FATAL and pgconn.status == _BAD:
                    raise _failure(result)

    def _checked(self, statements: Sequence[_Statement], results: Sequence[Any]) -> Any:
        at, result = 0, None
        for number, each in enumerate(statements):
            for _ in range(2 if each.new else 1):
                result = results[at]
                at += 1
                if result.status == _FATAL:
                    self._forget_new(statements, number)
                    raise _failure(result)
            if each.check is not None:
                try:
                    each.check(_number(result))
                except BaseException as error:
                    self._failed = error
                    if any(later.status == _FATAL for later in results[at:]):
                        self._forget_new(statements, number + 1)
                    raise
            if each.taken is not None:
                each.taken(result)
        return result

    def _forget_new(self, statements: Sequence[_Statement], since: int) -> None:
        """What was to be prepared there was not."""
        for each in statements[since:]:
            if each.new:
                self._names.pop((each.sql, each.types), None)


def _numbered(sql: str) -> bytes:
    count = 0

    def place(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] == "%%":
            return "%"
        count += 1
        return f"${count}"

    return _PLACES.sub(place, sql).encode()


def _with_arrays(
    arrays: Mapping[int, bytes], sent: list[Any], types: Sequence[int], formats: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Put arrays in their places among the parameters; types and formats of all."""
    known, forms = list(types), list(formats)
    for at, value in arrays.items():
        sent[at], known[at], forms[at] = value, _INT8_ARRAY, _BINARY
    return tuple(known), forms


def _numbers(values: list[Any]) -> bool:
    return bool(values) and type(values[0]) is int


def _array(values: list[int]) -> bytes:
    """An array of numbers in its binary form: the driver makes one element after the other."""
    elements = [8] * (2 * len(values))
    elements[1::2] = values
    return pack(f">iiIii{'iq' * len(values)}", 1, 0, _INT8, len(values), 1, *elements)


def _number(result: Any) -> int:
    return result.command_tuples or 0


def _failure(result: Any) -> Exception:
    from psycopg.errors import error_from_result

    error: Exception = error_from_result(result)
    return error


def _lost(pgconn: Any) -> Exception:
    from psycopg import OperationalError

    return OperationalError(pgconn.get_error_message() or "the connection is lost")
