"""Passwords between a form and its confirmation: few, for a while, and for nobody else."""

from __future__ import annotations

import pytest

from mgw.gateway.services.typed_secrets import AT_ONCE, AT_ONCE_OF_ONE, LONGEST, SECONDS, Forgotten, TypedSecrets
from mgw.gateway.services.users import Identity, Role
from mgw.transforms.errors import GatewayError

ADA = Identity("ada", Role.ADMINISTRATOR, "session", "one")
ELSEWHERE = Identity("ada", Role.ADMINISTRATOR, "session", "two")


def use(kept: TypedSecrets, who: Identity, reference: str) -> dict[str, str]:
    with kept.used(who, reference) as found:
        return dict(found)


def test_they_are_used_once_by_the_session_that_typed_them() -> None:
    kept = TypedSecrets()
    reference = kept.keep(ADA, {"password": "x"})
    with pytest.raises(Forgotten):
        use(kept, ELSEWHERE, reference)
    with pytest.raises(ZeroDivisionError), kept.used(ADA, reference):
        _ = 1 / 0
    assert use(kept, ADA, reference) == {"password": "x"}
    with pytest.raises(Forgotten):
        use(kept, ADA, reference)
    assert use(kept, ADA, kept.keep(ADA, {})) == {}


def test_they_are_forgotten_after_a_while() -> None:
    now = [0.0]
    kept = TypedSecrets(lambda: now[0])
    reference = kept.keep(ADA, {"password": "x"})
    now[0] = SECONDS - 1
    assert len(kept) == 1
    now[0] = SECONDS
    with pytest.raises(Forgotten):
        use(kept, ADA, reference)
    assert len(kept) == 0


def test_there_are_never_many_of_one_nor_of_all_nor_long_ones() -> None:
    kept = TypedSecrets()
    references = [kept.keep(ADA, {"password": str(number)}) for number in range(AT_ONCE_OF_ONE + 1)]
    assert len(kept) == AT_ONCE_OF_ONE
    assert use(kept, ADA, references[-1]) == {"password": str(AT_ONCE_OF_ONE)}
    with pytest.raises(Forgotten):
        use(kept, ADA, references[0])
    for number in range(AT_ONCE + 10):
        kept.keep(Identity(f"u{number}", Role.ADMINISTRATOR, "token"), {"password": "x"})
    assert len(kept) == AT_ONCE
    with pytest.raises(GatewayError, match="cannot be kept"):
        kept.keep(ADA, {"password": "x" * (LONGEST + 1)})


def test_their_text_is_in_no_representation() -> None:
    kept = TypedSecrets()
    kept.keep(ADA, {"password": "not-to-be-seen"})
    assert "not-to-be-seen" not in repr(vars(kept))
