"""What the headers of an exception queue say where anybody may have written them."""

from __future__ import annotations

import pytest

from mgw.transforms.message import Header, HeaderValue, Message, ValueType
from mgw.transforms.payloads.exception_message import Reason, reason_of


def read(name: str, value: HeaderValue) -> Reason:
    kind = ValueType.TEXT if isinstance(value, str) else ValueType.DOUBLE
    headers = [Header("MGW_error", ValueType.TEXT, "why"), Header("MGW_error_job", ValueType.TEXT, "out")]
    reason = reason_of(Message(headers=(*headers, Header(f"MGW_error_{name}", kind, value))))
    assert reason is not None
    assert (reason.text, reason.job) == ("why", "out")
    return reason


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), "inf", "NaN", "1e400", "x", ""])
def test_what_is_no_finite_number_is_not_given(value: HeaderValue) -> None:
    assert read("number", value).number is None
    assert read("time", value).time is None
    assert read("expiration", value).expiration is None


@pytest.mark.parametrize("value", [1e300, "1e300", 253_402_300_800.0, -1.0, "-1e300"])
def test_what_is_no_date_is_not_given(value: HeaderValue) -> None:
    assert read("time", value).time is None


@pytest.mark.parametrize("value", [0.0, "0", 1000.25, 253_402_300_799.0])
def test_a_time_is_read_from_its_text_too(value: HeaderValue) -> None:
    assert read("time", value).time == float(value)


def test_numbers_are_read_from_their_text_too() -> None:
    assert read("number", "722").number == 722
    assert read("expiration", "1.5").expiration == 1.5
