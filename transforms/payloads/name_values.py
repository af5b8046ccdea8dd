"""Header arrays in programs: building and searching them as the routines of ``DBMS_MGWMSG`` do.

A header array is a tuple of :class:`~mgw.transforms.message.Header`. It is ordered, names may repeat, and every value
has a type. None stands for no array. Nothing here changes an array; :func:`nvarray_add` gives a longer one.

Sources: AQ guide 12.2 §20.1, the PL/SQL packages' reference on DBMS_MGWMSG.
"""

from __future__ import annotations

from typing import Final, Literal

from mgw.transforms.errors import ArgumentInvalid, ConversionFailure
from mgw.transforms.message import MAX_HEADERS, Header, HeaderValue, ValueType, check_headers
from mgw.transforms.payloads.fields import RANGES

__all__ = [
    "CASE_INSENSITIVE",
    "CASE_SENSITIVE",
    "name_value",
    "nvarray_add",
    "nvarray_find_name",
    "nvarray_find_name_type",
    "nvarray_get",
    "nvarray_get_boolean",
    "nvarray_get_byte",
    "nvarray_get_date",
    "nvarray_get_double",
    "nvarray_get_float",
    "nvarray_get_integer",
    "nvarray_get_long",
    "nvarray_get_raw",
    "nvarray_get_short",
    "nvarray_get_text",
]

Compare = Literal[0, 1]
#: How names are compared: with their letter case, or without it.
CASE_SENSITIVE: Final = 0
CASE_INSENSITIVE: Final = 1

_Array = tuple[Header, ...] | None
_CODES: Final = frozenset(ValueType)


def name_value(name: str, type: ValueType, value: HeaderValue) -> Header:  # noqa: A002  the field's own name
    """A checked element of a header array (``MGW_NAME_VALUE_T.CONSTRUCT_<type>``).

    Args:
        name: 1 to 250 characters.
        type: type of the value.
        value: text of at most 4000 characters, bytes of at most 2000, a truth value, a number within the range of its
            type, or epoch seconds for a date.

    Raises:
        ConversionFailure: the name is empty or too long, the value is too long, of another type, or outside the range
            of its type.
    """
    header = Header(name, type, value)
    check_headers((header,))
    if not name:
        raise ConversionFailure("a header has no name", cause="the name is empty", cure="give it a name")
    low, high = RANGES.get(type, (None, None))
    if low is not None and high is not None and isinstance(value, int) and not low <= value <= high:
        raise ConversionFailure(
            f"value {value} of header {name!r} does not fit",
            cause=f"{type.name} holds {low} to {high}",
            cure="give the header a larger type",
        )
    return Header(name, ValueType(type), value)


def nvarray_add(array: _Array, value: Header | None) -> tuple[Header, ...]:
    """The array with ``value`` at its end (``NVARRAY_ADD``). No array is an empty one; no value adds nothing.

    Raises:
        ConversionFailure: the array would have more than 1024 elements, or the value breaks a limit of headers.
    """
    if value is None:
        return array or ()
    longer = (*(array or ()), value)
    check_headers((value,) if len(longer) <= MAX_HEADERS else longer)
    return longer


def nvarray_find_name(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> int:
    """Place of the first element of that name, counted from 1; 0 if there is none (``NVARRAY_FIND_NAME``).

    No element has the name None.

    Raises:
        ArgumentInvalid: ``compare`` is neither CASE_SENSITIVE nor CASE_INSENSITIVE.
    """
    wanted = _comparable(name, compare)
    for place, header in enumerate(array or (), 1):
        if _comparable(header.name, compare) == wanted:
            return place
    return 0


def nvarray_find_name_type(
    array: _Array,
    name: str | None,
    type: ValueType,  # noqa: A002  the field's own name
    compare: Compare = CASE_SENSITIVE,
) -> int:
    """Place of the first element of that name and type, counted from 1 (``NVARRAY_FIND_NAME_TYPE``).

    It is 0 if no element has the name, and -1 if all that have it are of another type.

    Raises:
        ArgumentInvalid: ``compare`` is neither CASE_SENSITIVE nor CASE_INSENSITIVE, or there is no such type.
    """
    if type not in _CODES:
        raise ArgumentInvalid(
            f"headers of type {type!r} cannot be found",
            cause="there is no such type",
            cure="give a ValueType, such as ValueType.TEXT",
        )
    wanted = _comparable(name, compare)
    found = 0
    for place, header in enumerate(array or (), 1):
        if _comparable(header.name, compare) == wanted:
            if header.type == type:
                return place
            found = -1
    return found


def nvarray_get(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> Header | None:
    """The first element of that name, or None (``NVARRAY_GET``).

    Raises:
        ArgumentInvalid: ``compare`` is neither CASE_SENSITIVE nor CASE_INSENSITIVE.
    """
    place = nvarray_find_name(array, name, compare)
    return array[place - 1] if array and place else None


def _value(array: _Array, name: str | None, type_: ValueType, compare: Compare) -> HeaderValue | None:
    place = nvarray_find_name_type(array, name, type_, compare)
    return array[place - 1].value if array and place > 0 else None


def nvarray_get_boolean(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> bool | None:
    """Value of the first BOOLEAN of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.BOOLEAN, compare)  # type: ignore[return-value]


def nvarray_get_byte(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> int | None:
    """Value of the first BYTE of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.BYTE, compare)  # type: ignore[return-value]


def nvarray_get_short(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> int | None:
    """Value of the first SHORT of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.SHORT, compare)  # type: ignore[return-value]


def nvarray_get_integer(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> int | None:
    """Value of the first INTEGER of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.INTEGER, compare)  # type: ignore[return-value]


def nvarray_get_long(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> int | None:
    """Value of the first LONG of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.LONG, compare)  # type: ignore[return-value]


def nvarray_get_float(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> float | None:
    """Value of the first FLOAT of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.FLOAT, compare)  # type: ignore[return-value]


def nvarray_get_double(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> float | None:
    """Value of the first DOUBLE of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.DOUBLE, compare)  # type: ignore[return-value]


def nvarray_get_text(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> str | None:
    """Value of the first TEXT of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.TEXT, compare)  # type: ignore[return-value]


def nvarray_get_raw(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> bytes | None:
    """Value of the first RAW of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.RAW, compare)  # type: ignore[return-value]


def nvarray_get_date(array: _Array, name: str | None, compare: Compare = CASE_SENSITIVE) -> float | None:
    """Epoch seconds of the first DATE of that name; None if there is none, or only one of another type."""
    return _value(array, name, ValueType.DATE, compare)  # type: ignore[return-value]


def _comparable(name: str | None, compare: Compare) -> str | None:
    if compare == CASE_SENSITIVE or name is None:
        return name
    if compare == CASE_INSENSITIVE:
        return name.casefold()
    raise ArgumentInvalid(
        f"names cannot be compared with {compare!r}",
        cause="it is no way to compare",
        cure="give CASE_SENSITIVE or CASE_INSENSITIVE",
    )
