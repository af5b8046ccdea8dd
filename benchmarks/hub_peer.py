"""PgQueuer, a queue for Python in PostgreSQL, on the same server; benchmarks/README.md says how to install it.

Its own public calls, with its own tables at their default durability (all are logged), on asyncpg, which it recommends.
A message is enqueued, claimed and, when it is done, logged and deleted: three durable transactions per batch, because
it holds no transaction open while somebody works on a message.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

__all__ = ["Peer"]

_NAME = "bench"


class Peer:
    """One connection to a database of its own.

    Raises:
        ImportError: it is not installed.
    """

    name = "PgQueuer"

    def __init__(self, url: str) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.ports.repository import EntrypointExecutionParameter
        from pgqueuer.queries import Queries

        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._run(asyncpg.connect(url.replace("+psycopg", "")))
        self._run(self._connection.execute("SET synchronous_commit TO on"))
        self._queries: Any = Queries(AsyncpgDriver(self._connection))
        self._run(self._queries.install())
        self._entrypoints: Any = {_NAME: EntrypointExecutionParameter(concurrency_limit=0)}
        self._manager = uuid.uuid4()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def enqueue(self, bodies: Sequence[bytes]) -> None:
        """One call for the batch."""
        self._run(self._queries.enqueue([_NAME] * len(bodies), list(bodies), [0] * len(bodies)))

    def dequeue(self, limit: int) -> list[Any]:
        """Claim a batch and report every job of it done."""
        return self._run(self._dequeue(limit))  # type: ignore[no-any-return]

    async def _dequeue(self, limit: int) -> list[Any]:
        jobs = await self._queries.dequeue(limit, self._entrypoints, self._manager, None, timedelta(seconds=30))
        await self._queries.log_jobs([(job, "successful", None) for job in jobs])
        return jobs  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the connection."""
        self._run(self._connection.close())
        self._loop.close()
