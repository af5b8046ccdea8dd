"""Secrets in what a face prints: hidden here, so that no face knows how they are recognised."""

from __future__ import annotations

from mgw.gateway.state.secrets import redact

__all__ = ["redact"]
