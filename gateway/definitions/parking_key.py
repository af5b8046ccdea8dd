"""The key by which a job parks messages: the value of an expression, as text."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from mgw.gateway.definitions.job_options import PARK_KEY
from mgw.gateway.definitions.objects import Propagation
from mgw.transforms.errors import ConfigInvalid, ExpressionFailed
from mgw.transforms.kafka.common import KEY
from mgw.transforms.language.compiler import compile_expression
from mgw.transforms.language.expression import Functions, Row, no_functions
from mgw.transforms.message import Message

__all__ = ["KeyOf", "check_park_key", "key_of"]

KeyOf = Callable[[Message], "str | None"]

_LONGEST = 256  # characters that are kept as they are
_NAMED = {"partition_key": f"COALESCE(HEADER('{KEY}'), correlation)"}


def key_of(text: str, functions: Functions = no_functions) -> KeyOf:
    """What gives the key of a message; None for a message that has none, or whose expression has no value.

    Raises:
        ExpressionInvalid: the expression cannot be compiled.
    """
    expression = compile_expression(_NAMED.get(text.strip().lower(), text), functions)

    def key(message: Message) -> str | None:
        try:
            value = expression.value(Row(message))
        except ExpressionFailed:
            return None
        if value is None:
            return None
        shown = value.hex() if isinstance(value, bytes) else str(value)
        return shown if len(shown) <= _LONGEST else f"{blake2b(shown.encode(), digest_size=16).hexdigest()} (digest)"

    return key


def check_park_key(job: str, kind: Propagation, text: str, functions: Functions = no_functions) -> None:
    """Refuse a key that no job of this kind can have.

    Raises:
        ConfigInvalid: only jobs that carry messages of a hub queue to a link park.
        ExpressionInvalid: the expression cannot be compiled.
    """
    if kind is not Propagation.OUTBOUND:
        raise ConfigInvalid(
            f"job {job} cannot have {PARK_KEY.name}",
            cause=f"it is {kind}, and parked messages wait in a queue of the hub that the job reads",
            cure="leave the option out; or carry the messages into a queue of the hub first, and park on the way out",
        )
    key_of(text, functions)
