"""Changes the key that secrets are encrypted with, while agents run.

1. The new key is written into the key file behind the one in use, marked ``# next``. Every process reads it from there.
2. The agents that run tell the hub which keys they can read; until all know the new one, nothing else happens.
3. The file is written again with the new key first. Whatever is stored from now on is encrypted with it.
4. One transaction encrypts every secret again.

A process that is killed at any moment leaves a hub that every process can read: the former key stays in the file, and
the same command goes on where it ended. Where the environment has the keys, or the file cannot be written, the operator
does the first and the third step by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.catalog.stored_secrets import StoredSecret, agents_keys, stored_secrets, update_secret
from mgw.gateway.state.keys import key_id, new_key
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = ["Rotation", "forget_former_keys", "rotate_key", "steps"]

_POLL = 0.2  # seconds between two looks whether the agents know the new key


@dataclass(frozen=True, slots=True)
class Rotation:
    """What was done: ids of the keys, and how many secrets were encrypted again."""

    key: str
    former: tuple[str, ...]
    secrets: int
    place: str


def rotate_key(admin: GatewayAdmin, *, wait: float = 30.0, force: bool = False) -> Rotation:
    """Encrypt every secret with a new key.

    Args:
        wait: seconds for agents that run to learn of the new key.
        force: do not wait for them; one that cannot read the new key fails when it next reads its definitions.

    Raises:
        ConfigInvalid: a secret cannot be read, the keys are not in a file, or it cannot be written.
        GatewayError: an agent that runs does not know the new key.
        HubError: the database refused.
    """
    done = Rotation("", (), 0, "")
    for step in steps(admin, wait=wait, force=force):
        if isinstance(step, Rotation):
            done = step
    return done


def steps(admin: GatewayAdmin, *, wait: float = 30.0, force: bool = False) -> Iterator[str | Rotation]:
    """The same step by step; each is on disk when its name comes, except what comes within the transaction."""
    with admin.secrets.keys.alone():
        yield from _steps(admin, wait=wait, force=force)


def _steps(admin: GatewayAdmin, *, wait: float, force: bool) -> Iterator[str | Rotation]:
    keys, secrets = admin.secrets.keys, admin.secrets
    with admin.hub.read() as conn:
        stored = stored_secrets(conn)
    ring = dict(keys.read_if_there())
    if not ring and not stored:
        raise GatewayError(
            "there is no key to change", cause="no secret is stored, and no key was made", cure="none needed"
        )
    found = _keys_of(secrets.key_of, stored)
    first, coming = next(iter(ring)), keys.coming()
    begun = any(used != first for used in found.values())  # a former run ended before it was done, or keys by hand
    if not begun:
        if keys.file is None:
            raise ConfigInvalid(
                "the key cannot be changed by this command alone",
                cause="it is in MGW_SECRET_KEY, and every secret is encrypted with the first key there",
                cure="create a key (openssl rand -base64 32), set MGW_SECRET_KEY=NEW,OLD for every process and start "
                "it again, then run this command again",
            )
        former = [key for known, key in ring.items() if known not in (first, coming)]
        made = ring[coming] if coming is not None else new_key()
        if coming is None:
            keys.write(ring[first], coming=[made], former=former)
            yield "next"
        first, old = key_id(made), ring[first]
        _wait_for_agents(admin, first, wait, force=force)
        keys.write(made, former=[old, *former])
        yield "first"
    else:
        _wait_for_agents(admin, first, wait, force=force)
    count = 0
    with admin.change("key", keys.name, "rotate", deed=True) as conn:
        for secret in stored_secrets(conn):
            if secrets.key_of(secret.token) != first or ":" not in secret.token:
                update_secret(conn, secret, secrets.rotate(secret.token, secret.owner))
                count += 1
                yield "secret"
        _check(conn, first, secrets.key_of)
    yield "stored"
    former_ids = tuple(known for known in keys.read(create=False) if known != first)
    yield Rotation(first, former_ids, count, keys.name)


def forget_former_keys(admin: GatewayAdmin) -> Rotation:
    """Remove every key from the file that no secret is encrypted with any more.

    Raises:
        ConfigInvalid: a secret cannot be read, the keys are not in a file, or it cannot be written.
        GatewayError: a secret is still encrypted with a former key.
    """
    keys = admin.secrets.keys
    if keys.file is None:
        raise ConfigInvalid(
            "former keys cannot be removed by this command",
            cause="the keys are in MGW_SECRET_KEY",
            cure="set MGW_SECRET_KEY to the first key alone, and start every process again",
        )
    with (
        keys.alone(),
        admin.change("key", keys.name, "forget former", deed=True) as conn,
    ):  # nothing is stored meanwhile
        ring = dict(keys.read(create=False))
        first = next(iter(ring))
        _check(conn, first, admin.secrets.key_of)
        keys.write(ring[first])
    return Rotation(first, tuple(known for known in ring if known != first), 0, keys.name)


def _keys_of(key_of: Callable[[str], str | None], stored: list[StoredSecret]) -> dict[str, str]:
    """Ids of the keys by the owners of the secrets.

    Raises:
        ConfigInvalid: one cannot be read with any key.
    """
    found = {}
    for secret in stored:
        used = key_of(secret.token)
        if used is None:
            kind, _, name = secret.owner.partition(" ")
            told = secret.token.partition(":")[0] if ":" in secret.token else "of an older release"
            again = f"mgw links alter {name} --password-file FILE" if kind == "link" else f"set {secret.owner} again"
            raise ConfigInvalid(
                f"the stored secret of {secret.owner} cannot be decrypted",
                cause=f"its key {told} is not among those that are there",
                cure=f"put the former key back behind the first one; if it is lost: {again}",
            )
        found[secret.owner] = used
    return found


def _check(conn: sa.Connection, first: str, key_of: Callable[[str], str | None]) -> None:
    for secret in stored_secrets(conn):
        if key_of(secret.token) != first:
            raise GatewayError(
                f"the stored secret of {secret.owner} is not encrypted with key {first}",
                cause="another program stored it with a former key meanwhile",
                cure="run mgw hub rotate-key again",
            )


def _wait_for_agents(admin: GatewayAdmin, wanted: str, wait: float, *, force: bool) -> None:
    """Raises GatewayError: an agent that runs does not know the key."""
    if force:
        return
    deadline = time.monotonic() + wait
    while True:
        with admin.hub.read() as conn:
            ignorant = [each for each in agents_keys(conn, admin.clock.now()) if wanted not in (each.keys or ())]
        if not ignorant:
            return
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL)
    names = ", ".join(f"{each.name} (process {each.pid} on {each.host})" for each in ignorant)
    raise GatewayError(
        "the key is not changed yet",
        cause=f"these agents do not know key {wanted} after {wait:g} s: {names}",
        cure=f"give them the keys of {admin.secrets.keys.name} (a copy of the file, or MGW_SECRET_KEY=NEW,OLD and a "
        "restart), or stop them; then run this again",
    )
