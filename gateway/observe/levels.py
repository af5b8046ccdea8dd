"""Log levels between those of :mod:`logging`, for the documented levels of an agent (AQ guide 12.2 §19.2).

``logging.DEBUG`` is the documented TRACE_DEBUG.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["TRACE_DEBUG_HIGH", "TRACE_HIGH", "TRACE_LITE"]

TRACE_LITE: Final = 17  # how jobs begin and end, what chores did
TRACE_HIGH: Final = 13  # every batch
TRACE_DEBUG_HIGH: Final = 5  # the ids of messages

for _level, _name in ((TRACE_LITE, "TRACE_LITE"), (TRACE_HIGH, "TRACE_HIGH"), (TRACE_DEBUG_HIGH, "DEBUG_HIGH")):
    logging.addLevelName(_level, _name)
