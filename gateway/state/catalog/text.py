"""How lists and mappings are stored."""

from __future__ import annotations

import json

__all__ = ["ENCRYPTED", "compact"]

ENCRYPTED = "<<ENCRYPTED>>"  # AQ guide 12.2 §21, MGW_AGENT_OPTIONS

#: Mapping as JSON text, names in order, so that equal mappings are equal texts.
compact = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode
