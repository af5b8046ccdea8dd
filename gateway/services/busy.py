"""More is asked for than there is room for; the same again later may work."""

from __future__ import annotations

from mgw.transforms.errors import GatewayError

__all__ = ["Busy"]


class Busy(GatewayError):
    """There is no room for one more.

    Attributes:
        of_one: who asks has as many as one may have; otherwise all together have.
    """

    def __init__(self, what: str, *, cure: str, of_one: bool = False) -> None:
        super().__init__(what, cure=cure)
        self.of_one = of_one
