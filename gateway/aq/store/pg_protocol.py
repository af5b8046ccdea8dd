"""Transactions on a connection to PostgreSQL, begun and ended on the wire itself.

The driver's own way to send one word and read one word costs as much as a small statement; a message alone in its
transaction pays for that twice as it comes and twice as it goes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["begin", "commit", "rollback"]

_IDLE, _IN_TRANSACTION = 0, 2  # of PQtransactionStatus
_DONE = 1  # of PQresultStatus: a command that returns no rows


def begin(driver: Any) -> None:
    """Begin a transaction, if none is open; on a connection that is known to be lost, the next statement fails.

    Raises:
        psycopg.Error: the server refused, or is not there any more.
    """
    if driver.pgconn.transaction_status == _IDLE:
        result = driver.pgconn.exec_(b"BEGIN")
        if result.status != _DONE:
            raise _failure(result)


def commit(driver: Any) -> None:
    """Commit the transaction, if one is open.

    Raises:
        psycopg.Error: as the driver's own ``commit``.
    """
    if driver.pgconn.transaction_status != _IN_TRANSACTION:
        driver.commit()
        return
    result = driver.pgconn.exec_(b"COMMIT")
    if result.status != _DONE:
        raise _failure(result)


def rollback(driver: Any) -> None:
    """Roll the transaction back, if one is open; what the driver has prepared stays prepared.

    Raises:
        psycopg.Error: as the driver's own ``rollback``.
    """
    if driver.pgconn.transaction_status != _IN_TRANSACTION or driver.pgconn.exec_(b"ROLLBACK").status != _DONE:
        driver.rollback()


def _failure(result: Any) -> Exception:
    from psycopg import DatabaseError, OperationalError
    from psycopg.errors import lookup
    from psycopg.pq import DiagnosticField

    primary = result.error_field(DiagnosticField.MESSAGE_PRIMARY)
    text = bytes(primary or result.error_message).decode(errors="replace").strip()
    state = result.error_field(DiagnosticField.SQLSTATE)
    if state is None:
        return OperationalError(text or "the connection is lost")
    try:
        return lookup(state.decode())(text)
    except KeyError:
        return DatabaseError(text)
