"""The end of a transaction on a connection of the hub's own to PostgreSQL; the first statement begins it.

The driver's own way to send one word and read one word costs as much as a small statement; a message alone in its
transaction pays for that as it comes and as it goes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["commit", "rollback"]

_IN_TRANSACTION = 2  # of PQtransactionStatus
_DONE = 1  # of PQresultStatus: a command that returns no rows


def commit(driver: Any) -> None:
    """Execute what waits (:meth:`mgw.gateway.aq.store.pg_pipeline.Pipeline.later`) and commit, if there is anything.

    Raises:
        psycopg.Error: as the driver's own ``commit``.
    """
    driver.hub_state.pipeline.commit()


def rollback(driver: Any) -> None:
    """Roll the transaction back, if one is open; what the driver has prepared stays prepared.

    Raises:
        psycopg.Error: as the driver's own ``rollback``.
    """
    driver.hub_state.pipeline.forget()
    if driver.pgconn.transaction_status != _IN_TRANSACTION or driver.pgconn.exec_(b"ROLLBACK").status != _DONE:
        driver.rollback()
