"""What the errors of the hub are made of."""

from __future__ import annotations

from mgw.transforms.errors import AqError

__all__ = ["MessageRefused"]


class MessageRefused(AqError):
    """The hub refuses one message of a batch; nothing of the batch was stored. ``index`` says which."""

    def __init__(self, what: str, *, index: int, cause: str = "", cure: str = "", number: int | None = None) -> None:
        super().__init__(what, cause=cause, cure=cure, number=number)
        self.index = index
