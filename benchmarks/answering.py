"""A program that answers every request at once and does nothing else: ``python -m benchmarks.answering HOST:PORT``.

Callers of it cost what callers cost, and no gateway.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

_BODY = b"x" * 2000
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_ANSWER)
            await writer.drain()
    writer.close()


async def _serve(address: str) -> None:
    host, _, port = address.rpartition(":")
    async with await asyncio.start_server(_answer, host, int(port)) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
