"""Secrets at rest and in texts."""

from __future__ import annotations

import base64
import os
import stat
import threading
from pathlib import Path

import pytest

from mgw.gateway.state.secrets import Secrets, redact
from mgw.transforms.errors import ConfigInvalid

KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(3)]
CLEAR = "pässwörd with spaces"


def secrets(*keys: str) -> Secrets:
    return Secrets(environ={"MGW_SECRET_KEY": ",".join(keys)})


def test_what_was_encrypted_comes_back_and_is_not_readable_in_between() -> None:
    token = secrets(KEYS[0]).encrypt(CLEAR)
    assert CLEAR not in token
    assert token.isascii()
    assert secrets(KEYS[0]).decrypt(token, "link a") == CLEAR


def test_equal_secrets_have_different_tokens() -> None:
    keys = secrets(KEYS[0])
    assert keys.encrypt(CLEAR) != keys.encrypt(CLEAR)


def test_keys_are_rotated_by_putting_a_new_one_first() -> None:
    token = secrets(KEYS[0]).encrypt(CLEAR)
    both = secrets(KEYS[1], KEYS[0])
    renewed = both.rotate(token, "link a")
    assert secrets(KEYS[1]).decrypt(renewed, "link a") == CLEAR


def test_another_key_is_refused_with_object_cause_and_cure() -> None:
    token = secrets(KEYS[0]).encrypt(CLEAR)
    with pytest.raises(ConfigInvalid) as caught:
        secrets(KEYS[1]).decrypt(token, "link plant")
    error = caught.value
    assert "link plant" in error.what
    assert "MGW_SECRET_KEY" in error.cause
    assert error.cure


@pytest.mark.parametrize("token", ["", "gAAAAA", "höhö", base64.b64encode(os.urandom(80)).decode()])
def test_damaged_tokens_are_refused(token: str) -> None:
    with pytest.raises(ConfigInvalid, match="link a"):
        secrets(KEYS[0]).decrypt(token, "link a")


@pytest.mark.parametrize("key", ["short", "not base64 at all!", base64.b64encode(b"x" * 16).decode(), ", ,"])
def test_keys_that_are_none_are_refused(key: str) -> None:
    with pytest.raises(ConfigInvalid, match="MGW_SECRET_KEY"):
        secrets(key).encrypt(CLEAR)


def test_standard_and_url_safe_base64_are_the_same_key() -> None:
    raw = bytes([251, 255, 190]) * 10 + b"ab"
    token = secrets(base64.b64encode(raw).decode()).encrypt(CLEAR)
    assert secrets(base64.urlsafe_b64encode(raw).decode().rstrip("=")).decrypt(token, "link a") == CLEAR


def test_keys_come_from_a_named_file_one_per_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# new\n{KEYS[1]}\n\n{KEYS[0]}\n")
    token = secrets(KEYS[0]).encrypt(CLEAR)
    assert Secrets(environ={"MGW_SECRET_KEY_FILE": str(path)}).decrypt(token, "link a") == CLEAR
    with pytest.raises(ConfigInvalid, match="MGW_SECRET_KEY_FILE"):
        Secrets(environ={"MGW_SECRET_KEY_FILE": str(tmp_path / "missing")}).encrypt(CLEAR)


def test_a_key_file_is_made_private_when_the_first_secret_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "new" / "hub.key"
    made = Secrets(path, {})
    with pytest.raises(ConfigInvalid, match="no secret key"):
        made.decrypt("x", "link a")
    assert not path.exists()
    token = made.encrypt(CLEAR)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secrets(path, {}).decrypt(token, "link a") == CLEAR
    assert os.listdir(path.parent) == ["hub.key"]


def test_a_key_file_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "hub.key"
    token = Secrets(path, {}).encrypt(CLEAR)
    path.chmod(0o640)
    with pytest.raises(ConfigInvalid, match="chmod 600"):
        Secrets(path, {}).decrypt(token, "link a")


def test_simultaneous_first_uses_agree_on_one_key(tmp_path: Path) -> None:
    path = tmp_path / "hub.key"
    start = threading.Barrier(8)
    tokens: list[str] = []

    def store() -> None:
        start.wait(10)
        tokens.append(Secrets(path, {}).encrypt(CLEAR))

    threads = [threading.Thread(target=store) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [Secrets(path, {}).decrypt(token, "link a") for token in tokens] == [CLEAR] * 8


def test_key_files_lie_beside_sqlite_and_in_the_configuration_folder_otherwise(tmp_path: Path) -> None:
    Secrets.for_hub(f"sqlite:///{tmp_path}/hub.db", {}).encrypt(CLEAR)
    assert (tmp_path / "hub.db.key").exists()
    Secrets.for_hub(f"sqlite:///{tmp_path}/a%20b.db?timeout=5", {}).encrypt(CLEAR)
    assert (tmp_path / "a b.db.key").exists()
    Secrets.for_hub("postgresql://user@host/hub", {"XDG_CONFIG_HOME": f"{tmp_path}/config"}).encrypt(CLEAR)
    assert (tmp_path / "config/mgw/secret.key").exists()
    with pytest.raises(ConfigInvalid, match="MGW_SECRET_KEY"):
        Secrets.for_hub("postgresql://user@host/hub", {}).encrypt(CLEAR)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid, match="cannot be created"):
        Secrets(tmp_path / "file" / "hub.key", {}).encrypt(CLEAR)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://guest:s3cret@host:5672/v", "amqp://guest:***@host:5672/v"),
        ("postgresql+psycopg://u:p%40ss@h/db and more", "postgresql+psycopg://u:***@h/db and more"),
        ("mqtt://host:1883/a@b", "mqtt://host:1883/a@b"),
        ("password=s3cret, user=u", "password=***, user=u"),
        ('{"sasl_password": "a b", "x": 1}', '{"sasl_password": ***, "x": 1}'),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_passwords_in_texts_are_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_known_secrets_are_hidden_wherever_they_stand() -> None:
    keys = secrets(KEYS[0])
    keys.encrypt("hunter22")
    keys.remember("abc", None, "")
    assert keys.redact("login hunter22 failed: xhunter22x, abc, abcd") == "login *** failed: x***x, ***, abcd"
    assert "hunter22" not in repr(keys)


def test_user_name_that_is_also_the_password_is_shown_but_not_the_password() -> None:
    keys = secrets(KEYS[0])
    keys.remember("gateway", "other-secret")
    keys.show("gateway", None)
    text = "user 'gateway' was refused at amqp://gateway:gateway@host with password=gateway, other-secret"
    assert keys.redact(text) == "user 'gateway' was refused at amqp://gateway:***@host with password=***, ***"
