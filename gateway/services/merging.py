"""Some settings over those that an object has: JSON merge patch (RFC 7396), with names as files take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgw.gateway.services.definitions import Definition
from mgw.transforms.errors import GatewayError

__all__ = ["merged"]

#: Mappings whose keys ignore letter case; in all others keys are what they are.
_FOLDED = frozenset(("options", "subscribers"))
_BATCH_SIZE = "msgbatchsize"  # the option that batch_size is another word for


def merged(held: Definition, patch: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an object with some of them changed; None removes one.

    Raises:
        GatewayError: a secret would be removed.
    """
    for name in (*patch, *(patch["options"] if isinstance(patch.get("options"), dict) else ())):
        if name.lower() in {each.lower() for each in held.secrets} and _is_null(patch, name):
            raise GatewayError(
                f"{held.name} keeps its {name}",
                cause="a secret that is left out is kept",
                cure="remove username, and the password goes with it; or give another value",
            )
    base = dict(held.config)
    options = patch.get("options")
    if held.section == "jobs" and isinstance(options, dict) and _BATCH_SIZE in {name.lower() for name in options}:
        base.pop("batch_size", None)
    patch = {name: {} if name == "subscribers" and value is None else value for name, value in patch.items()}
    return _over(base, patch, folded=True, section=held.section)


def _is_null(patch: Mapping[str, Any], name: str) -> bool:
    options = patch.get("options")
    return (name in patch and patch[name] is None) or (isinstance(options, dict) and options.get(name, "") is None)


def _over(base: Mapping[str, Any], patch: Mapping[str, Any], *, folded: bool, section: str) -> dict[str, Any]:
    found = dict(base)
    spelled = {name.lower(): name for name in found} if folded else {}
    for name, value in patch.items():
        own = spelled.get(name.lower(), name)
        below = found.get(own)
        if value is None:
            found.pop(own, None)
        elif name == "subscribers" and not value:
            found[own] = {}
        elif isinstance(value, dict):
            inner = (own in _FOLDED or not folded) and section != "transformations"
            found[own] = _over(below if isinstance(below, dict) else {}, value, folded=inner, section=section)
        else:
            found[own] = value
    return found
