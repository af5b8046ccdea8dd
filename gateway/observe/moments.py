"""Moments as the log shows them."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["at", "since"]


def at(seconds: float, now: float) -> str:
    """Epoch seconds as ``MOMENT UTC (N s ago)``, or ``(in N s)``."""
    away = f"{now - seconds:.0f} s ago" if seconds <= now else f"in {seconds - now:.0f} s"
    return f"{_text(seconds)} UTC ({away})"


def since(seconds: float | None, now: float) -> str:
    """Epoch seconds as `` since MOMENT UTC (N s)``; empty where they are not known."""
    return "" if seconds is None else f" since {_text(seconds)} UTC ({max(0.0, now - seconds):.0f} s)"


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
