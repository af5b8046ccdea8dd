"""Damage done to an archive on purpose, so that the audit has something to find."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FAULTS", "tamper"]

FAULTS = ("drop", "alter")


def tamper(archive: Path, fault: str) -> str:
    """Drop one message of the archive, or change one byte of its body; says which."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = max(archive.rglob("*.parquet"), key=lambda each: each.stat().st_size)
    table = pq.read_table(path, partitioning=None)
    at = table.num_rows // 2
    body = table["body"][at].as_py()
    row = table.slice(at, 1)
    changed = []
    if fault == "alter":
        other = pa.array([bytes([body[0] ^ 1]) + body[1:]], table.schema.field("body").type)
        changed = [row.set_column(table.schema.get_field_index("body"), table.schema.field("body"), other)]
    whole = pa.concat_tables([table.slice(0, at), *changed, table.slice(at + 1)])
    pq.write_table(whole, path, use_deprecated_int96_timestamps=True)  # as Spark writes them
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # the checksum that Spark keeps beside it
    done = "dropped" if fault == "drop" else "altered"
    return f"{done} one message of the archive: {body[:60].decode(errors='replace')}"
