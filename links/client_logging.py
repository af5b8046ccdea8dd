"""What the clients of messaging systems log: their warnings stay warnings, what a link reports itself becomes a note.

A client logs every connection that fails, often several times and with a traceback. The link raises an error that says
it with the link, the cause and the cure. So what the client says is lowered to INFO, where only log level 4 shows it.
Nothing here adds a handler, so that a program that uses the links decides itself what it does with these records.
"""

from __future__ import annotations

import logging

__all__ = ["NotedOnly", "note_only"]


class NotedOnly(logging.Filter):
    """Makes records informational.

    Args:
        beginnings: how the texts of those begin; none: all of the logger.
    """

    def __init__(self, *beginnings: str) -> None:
        super().__init__()
        self._beginnings = beginnings

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, at INFO at most."""
        if record.levelno > logging.INFO and (not self._beginnings or str(record.msg).startswith(self._beginnings)):
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


def note_only(*loggers: str) -> None:
    """Lower everything that these loggers say themselves; loggers below them are not concerned."""
    for name in loggers:
        logging.getLogger(name).addFilter(NotedOnly())
