"""How SQLite and PostgreSQL say what the ``MGW_*`` views need."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.links.contract import Field

__all__ = ["POSTGRESQL", "SQLITE", "Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one database says what the views need."""

    now: str  # epoch seconds
    moment: str  # epoch seconds {0} as text
    day: str
    time: str
    text: str  # attribute {0} of the JSON text l.attributes
    integer: str

    def shown(self, field: Field) -> str:
        """An attribute of a link as the value of its column."""
        value = (self.integer if field.type is int else self.text).format(field.name.lower())
        if field.type is not bool:
            return value
        # SQLite has 0 and 1 for them; a link that an older release made has no value of a newer attribute.
        other = "FALSE" if field.default else "TRUE"
        signs = "('false', '0')" if field.default else "('true', '1')"
        return (
            f"CASE WHEN CAST({value} AS TEXT) IN {signs} THEN '{other}' ELSE '{str(bool(field.default)).upper()}' END"
        )


SQLITE = Dialect(
    now="((julianday('now') - 2440587.5) * 86400.0)",
    moment="strftime('%Y-%m-%d %H:%M:%S', {0}, 'unixepoch')",
    day="strftime('%Y-%m-%d', {0}, 'unixepoch')",
    time="strftime('%H:%M:%S', {0}, 'unixepoch')",
    text="json_extract(l.attributes, '$.{0}')",
    integer="json_extract(l.attributes, '$.{0}')",
)
POSTGRESQL = Dialect(
    now="extract(epoch FROM clock_timestamp())::double precision",
    moment="to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')",
    day="to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    time="to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'HH24:MI:SS')",
    text="(l.attributes::json ->> '{0}')",
    integer="(l.attributes::json ->> '{0}')::bigint",
)
