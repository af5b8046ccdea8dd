"""A schema registry that speaks the API of Confluent's: schemas by their id, and by subject.

A schema of an id never changes, so it is asked for once. What is the latest of a subject is asked again after five
minutes. The registry has ten seconds for an answer.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mgw.transforms.errors import ConfigInvalid, ConversionFailure, RegistryUnavailable

__all__ = ["Access", "Registry", "Schema", "registry_at"]

_PATIENCE = 10.0  # seconds for an answer
_LATEST = 300.0  # seconds for which the latest schema of a subject is taken for that
_MISSING = 30.0  # seconds after which a schema that was missing is asked for again
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_MAX_ANSWER = 16 * 1024 * 1024
_MAX_DEPTH = 32  # of references
_MOST_MISSING = 1000  # ids that are remembered as missing


@dataclass(frozen=True, slots=True)
class Access:
    """Where a registry is, and how it is asked.

    Attributes:
        url: ``http://`` or ``https://`` address.
        login_file: file that holds ``user:password`` for HTTP basic authentication, read for every question; or None.
        ca_file: file of the certificates that are trusted instead of the system's; or None.
    """

    url: str
    login_file: str | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of a registry: its id, its text, its language (AVRO, PROTOBUF, JSON) and what it refers to, by name.

    The text of PROTOBUF is that of a file's descriptor in base64, where the registry was asked for that.
    """

    id: int
    text: str
    language: str
    references: tuple[tuple[str, str], ...] = ()


class Registry:
    """One registry; its answers are kept. May be called from any thread.

    Args:
        form: ``serialized`` asks for schemas of Protobuf as descriptors instead of source text.
    """

    def __init__(self, access: Access, form: str = "") -> None:
        parts = urllib.parse.urlsplit(access.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigInvalid(
                f"schema registry {access.url!r} cannot be used",
                cause="it is no http or https address",
                cure="give an address such as https://registry.example:8081",
            )
        if parts.username is not None or parts.password is not None:
            raise ConfigInvalid(
                f"schema registry {parts.hostname} cannot be used",
                cause="its address holds a login",
                cure="write user:password into a file, and name it in registry_login_file",
            )
        self._access = access
        self._form = f"?format={form}" if form else ""
        self._lock = threading.Lock()
        self._schemas: dict[int, Schema] = {}
        self._missing: dict[int, float] = {}
        self._latest: dict[str, tuple[float, Schema]] = {}  # by subject: until when, and which

    def schema(self, number: int) -> Schema:
        """The schema of an id.

        Raises:
            RegistryUnavailable: the registry does not answer, or refuses to.
            ConversionFailure: there is no such schema.
        """
        found = self._schemas.get(number)
        if found is not None:
            return found  # without the lock: another job may wait for the registry
        with self._lock:
            found = self._schemas.get(number)
            if found is not None:
                return found
            now = time.monotonic()
            if now >= self._missing.get(number, 0.0):
                answer = self._ask(f"/schemas/ids/{number}")
                if answer is not None:
                    self._missing.pop(number, None)
                    return self._keep(number, answer)
                if len(self._missing) >= _MOST_MISSING:
                    self._missing.clear()
                self._missing[number] = now + _MISSING
        raise ConversionFailure(
            f"schema {number} does not exist in the registry at {self._access.url}",
            cause="the message names it, and another registry may have given it",
            cure="name the registry of the message's sender, or register the schema",
        )

    def latest(self, subject: str) -> Schema:
        """The latest schema of a subject; the last that was known, while the registry does not answer.

        Raises:
            RegistryUnavailable: the registry does not answer, refuses to, or has no such subject.
        """
        known = self._latest.get(subject)
        if known is not None and time.monotonic() < known[0]:
            return known[1]  # without the lock, as above
        with self._lock:
            try:
                answer = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
                if answer is None:
                    raise RegistryUnavailable(
                        f"subject {subject} does not exist in the registry at {self._access.url}",
                        cause="no schema was registered for it",
                        cure="register one, or correct the option subject of the transformation",
                    )
                schema = self._keep(self._number(answer), answer)
            except RegistryUnavailable:
                if known is None:
                    raise
                schema = known[1]
            self._latest[subject] = time.monotonic() + _LATEST, schema
            return schema

    def _keep(self, number: int, answer: dict[str, Any]) -> Schema:
        named: dict[str, str] = {}
        self._collect(answer, named, 0)
        kind = str(answer.get("schemaType") or "AVRO")
        schema = Schema(number, answer["schema"], kind, tuple(named.items()))
        self._schemas[number] = schema
        return schema

    def _collect(self, answer: dict[str, Any], named: dict[str, str], depth: int) -> None:
        """What a schema refers to, what these refer to first."""
        if depth > _MAX_DEPTH:
            raise self._unavailable("schemas refer to one another too deeply")
        for each in answer.get("references") or ():
            try:
                name, subject, version = str(each["name"]), str(each["subject"]), int(each["version"])
            except (KeyError, TypeError, ValueError):
                raise self._unavailable("a reference in its answer is none") from None
            if name in named:
                continue
            found = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")
            if found is None:
                raise self._unavailable(f"{name}, which a schema refers to, does not exist there")
            self._collect(found, named, depth + 1)
            named[name] = found["schema"]

    def _ask(self, path: str) -> dict[str, Any] | None:
        """The answer to a question, which holds a schema; None: there is no such thing."""
        address = self._access.url.rstrip("/") + path + self._form
        request = urllib.request.Request(address, headers={"Accept": _ACCEPT})  # noqa: S310  http and https only
        try:
            if self._access.login_file is not None:
                login = Path(self._access.login_file).read_text(encoding="utf-8").strip()
                basic = base64.b64encode(login.encode()).decode()
                request.add_unredirected_header("Authorization", f"Basic {basic}")  # not to where it may redirect
            context = ssl.create_default_context(cafile=self._access.ca_file)
            with urllib.request.urlopen(request, timeout=_PATIENCE, context=context) as answer:  # noqa: S310
                found = json.loads(answer.read(_MAX_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
            raise self._unavailable(f"it answers {error.code} {error.reason}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._unavailable(str(getattr(error, "reason", error)) or type(error).__name__) from None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._unavailable("its answer is no schema")
        return found

    def _unavailable(self, cause: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"the schema registry at {self._access.url} cannot be used",
            cause=cause,
            cure="see that it runs and can be reached; the job goes on by itself when it answers",
        )

    def _number(self, answer: dict[str, Any]) -> int:
        number = answer.get("id")
        if not isinstance(number, int):
            raise self._unavailable("its answer has no id")
        return number


@lru_cache(maxsize=64)
def registry_at(access: Access, form: str = "") -> Registry:
    """The registry at a place: one for the whole process, so that a schema is asked for once; ``form`` as above.

    Raises:
        ConfigInvalid: the address is none, or holds a login.
    """
    return Registry(access, form)
