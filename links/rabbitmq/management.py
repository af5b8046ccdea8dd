"""RabbitMQ's management API, for what AMQP does not tell or do: policies, and the end of another connection.

Asked only where the link names its address.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from mgw.links.rabbitmq.settings import Settings

__all__ = ["LastPolicies", "Policies", "close_owner"]

_SECONDS = 5.0  # for one answer
_MOST = 4 * 1024 * 1024  # bytes of one answer


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a virtual host: those of users, and those of operators. ``unseen``: why they are not known."""

    users: Sequence[Mapping[str, Any]] = ()
    operators: Sequence[Mapping[str, Any]] = ()
    unseen: str = "policies are not visible without AMQP_ManagementURL"

    def of_queue(self, name: str, type_: str) -> dict[str, tuple[str, str]]:
        """What the policies in force set on a queue: setting -> value and where it comes from."""
        kinds = {"all", "queues", f"{type_}_queues", f"{type_}s"}
        found: dict[str, tuple[str, str]] = {}
        for policies, word in ((self.users, "policy"), (self.operators, "operator policy")):
            policy = _strongest(policies, name, kinds)
            for setting, value in (policy.get("definition") or {}).items():
                held = found.get(setting)
                if held is None or (held[0].isdecimal() and str(value).isdecimal() and int(value) < int(held[0])):
                    found[setting] = (str(value), f"{{setting}} (by {word} {policy['name']})")
        return found

    def of_exchange(self, name: str) -> tuple[str, str]:
        """The alternate exchange that a policy sets, and where it comes from."""
        policy = _strongest(self.users, name, {"all", "exchanges"})
        alternate = (policy.get("definition") or {}).get("alternate-exchange", "")
        return str(alternate), f"policy {policy['name']}" if alternate else ""


def _strongest(policies: Sequence[Mapping[str, Any]], name: str, kinds: set[str]) -> Mapping[str, Any]:
    """The one policy that is in force: the highest priority of those that match."""
    matching = [policy for policy in policies if policy.get("apply-to", "all") in kinds and _matches(policy, name)]
    return max(matching, key=lambda policy: int(policy.get("priority", 0)), default={})


def _matches(policy: Mapping[str, Any], name: str) -> bool:
    try:
        return re.search(str(policy.get("pattern", "")), name) is not None
    except re.error:
        return True  # a pattern that only the broker understands: rather a promise too small than one too large


class LastPolicies:
    """The policies of a broker, and what was told of them last. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str, str], Policies] = {}  # by address, virtual host and user

    def read(self, settings: Settings) -> Policies:
        """Ask for all policies of the link's virtual host; never raises.

        While nobody answers, those told last count: a job must not promise more because less is seen.
        """
        if not settings.management_url:
            return Policies()
        host = quote(settings.virtual_host, safe="")
        place = settings.management_url, settings.virtual_host, settings.username
        try:
            users, operators = (_policies(settings, f"{kind}/{host}") for kind in ("policies", "operator-policies"))
        except (OSError, HTTPException, ValueError) as error:
            unseen = f"policies are not visible: {_answer(settings, error)}"
            with self._lock:
                return replace(self._told.get(place, Policies()), unseen=unseen)
        told = Policies(users, operators, "")
        with self._lock:
            self._told[place] = told
        return told


def close_owner(settings: Settings, queue: str) -> str:
    """Have the broker end the connection that owns an exclusive queue; never raises.

    Returns:
        What came of it, in plain words.
    """
    if not settings.management_url:
        return "it ends when the broker has missed its heartbeats; with AMQP_ManagementURL it would be closed"
    try:
        told = _ask(settings, f"queues/{quote(settings.virtual_host, safe='')}/{quote(queue, safe='')}")
        owner = (told.get("owner_pid_details") or {}).get("name") if isinstance(told, dict) else None
        if not owner:
            return "the management API does not list it yet"
        _ask(settings, f"connections/{quote(str(owner), safe='')}", "DELETE")
    except (OSError, HTTPException, ValueError) as error:
        return f"it cannot be closed: {_answer(settings, error)}"
    return f"connection {owner} was closed over the management API"


def _answer(settings: Settings, error: OSError | HTTPException | ValueError) -> str:
    """What the management API answered instead."""
    if isinstance(error, urllib.error.HTTPError):
        with error:
            reason = f"HTTP {error.code} {error.reason}"
        if error.code in {401, 403}:
            reason += f"; user {settings.username!r} needs the tag management"
    else:
        reason = str(getattr(error, "reason", None) or error) or type(error).__name__
    return f"{settings.management_url} (AMQP_ManagementURL) answers {reason}"


def _policies(settings: Settings, what: str) -> Sequence[Mapping[str, Any]]:
    found = _ask(settings, what)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError("something other than policies")
    return found


def _ask(settings: Settings, what: str, method: str = "GET") -> Any:
    """Raises OSError, HTTPException or ValueError."""
    url = f"{settings.management_url.rstrip('/')}/api/{what}"
    login = base64.b64encode(f"{settings.username}:{settings.password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}"}
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - http or https
    context = settings.tls.context(settings.management_url, named=False) if url.startswith("https:") else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(request, timeout=_SECONDS) as answer:
        text = answer.read(_MOST)
    return json.loads(text) if text else None
