"""Compressed bodies and CloudEvents, read and written by transformations."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
import zstandard

from mgw.transforms import builtin
from mgw.transforms.errors import ConfigInvalid, ConversionFailure, TransformFailed
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation

TEXT = ValueType.TEXT
ENCODINGS = ("gzip", "deflate", "zstd")
NAMES = ("MGW_AMQP_contentEncoding", "content-encoding")


def headers(**values: str) -> tuple[Header, ...]:
    return tuple(Header(name.replace("_", "-"), TEXT, value) for name, value in values.items())


def packed(encoding: str, data: bytes) -> bytes:
    """As other programs write it."""
    return {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[encoding](data)


# ------------------------------------------------------------------------------------------------------- compression


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", NAMES)
def test_a_compressed_body_is_read_as_its_header_says(encoding: str, name: str) -> None:
    sent = Message(
        packed(encoding, b'{"a":1}'), (Header(name, TEXT, encoding), *headers(content_type="application/json"))
    )
    found = builtin.decompress(sent)
    assert found.body == '{"a":1}'
    assert found.headers == headers(content_type="application/json")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("body", ["Grüße", b"\x00\xff" * 1000, b"", "", '{"a":1}'])
def test_what_was_compressed_comes_back_as_it_was(encoding: Any, body: str | bytes) -> None:
    message = Message(body, headers(tenant="acme"))
    sent = builtin.compress(message, encoding=encoding)
    assert isinstance(sent.body, bytes)
    assert sent.header("content-encoding") == encoding
    found = builtin.decompress(sent)
    assert found.body == body
    assert found.header("content-encoding") is None
    assert found.header("tenant") == "acme"


def test_text_is_written_in_the_character_set_of_its_content_type() -> None:
    media = headers(content_type="text/plain; charset=iso-8859-1")
    sent = builtin.compress(Message("Grüße", media))
    assert gzip.decompress(sent.body) == "Grüße".encode("latin-1")  # type: ignore[arg-type]
    assert builtin.decompress(sent) == replace(Message("Grüße", media))
    with pytest.raises(ConversionFailure, match="iso-8859-1"):
        builtin.compress(Message("日本", media))


def test_a_message_that_names_no_encoding_stays_as_it_is() -> None:
    for message in (Message(b"x"), Message("x", headers(content_encoding="utf-8")), Message(None)):
        assert builtin.decompress(message) is message


def test_encodings_are_undone_from_the_last_to_the_first_and_a_character_set_stays() -> None:
    sent = Message(gzip.compress(zlib.compress(b"x")), headers(content_encoding="utf-8, deflate, x-gzip"))
    found = builtin.decompress(sent)
    assert (found.body, found.headers) == (b"x", headers(content_encoding="utf-8"))


@pytest.mark.parametrize("names", ["br", "gzip, br", "snappy"])
def test_an_encoding_that_is_not_known_is_refused(names: str) -> None:
    with pytest.raises(ConversionFailure, match=r"cannot be decompressed as (br|snappy)"):
        builtin.decompress(Message(gzip.compress(b"x"), headers(content_encoding=names)))


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_very_many_empty_members_is_refused_soon(encoding: Any) -> None:
    many = Message(packed(encoding, b"") * 200_000)
    with pytest.raises(ConversionFailure) as caught:
        builtin.decompress(many, encoding=encoding)
    assert "more than 1000 members" in caught.value.cause


def test_the_same_body_is_compressed_to_the_same_bytes() -> None:
    for encoding in ENCODINGS:
        assert builtin.compress(Message("x"), encoding=encoding) == builtin.compress(Message("x"), encoding=encoding)


def test_members_of_gzip_frames_of_zstd_and_a_deflate_body_without_head_are_read() -> None:
    assert builtin.decompress(Message(gzip.compress(b"a") + gzip.compress(b"b")), encoding="gzip").body == b"ab"
    assert builtin.decompress(Message(packed("zstd", b"a" * 9999) * 3), encoding="zstd").body == b"a" * 29997
    assert builtin.decompress(Message(zlib.compress(b"raw")[2:-4]), encoding="deflate").body == b"raw"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_that_would_be_too_large_is_refused_before_it_fills_the_memory(encoding: Any) -> None:
    bomb = Message(packed(encoding, bytes(50_000_000)))
    with pytest.raises(ConversionFailure, match="too large") as caught:
        builtin.decompress(bomb, encoding=encoding, max_size=1000)
    assert "max_size" in str(caught.value.cure)
    exact = Message(packed(encoding, bytes(1000)))
    assert builtin.decompress(exact, encoding=encoding, max_size=1000).body == bytes(1000)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_that_is_cut_off_or_is_something_else_is_refused(encoding: Any) -> None:
    whole = packed(encoding, bytes(range(256)) * 40)
    for data in (*(whole[:length] for length in range(0, len(whole), 7)), b"not compressed", whole[:20] + b"\xff" * 30):
        with pytest.raises(ConversionFailure, match=f"cannot be decompressed as {encoding}"):
            builtin.decompress(Message(data), encoding=encoding)


def test_a_text_body_cannot_be_decompressed_and_says_what_to_do() -> None:
    with pytest.raises(ConversionFailure) as caught:
        builtin.decompress(Message("x", headers(content_encoding="gzip")))
    assert "KAFKA_ValueType" in str(caught.value.cure)


def test_small_and_compressed_bodies_stay_as_they_are() -> None:
    small = Message(b"x" * 9)
    assert builtin.compress(small, min_size=10) is small
    once = builtin.compress(small, encoding="zstd", level=19)
    assert builtin.compress(once) is once


def defined(name: str, **options: Any) -> Any:
    return compile_transformation(TransformationDefinition("z", f"mgw.transforms.builtin:{name}", options))


def test_a_missing_package_is_an_error_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ConfigInvalid, match=r"zstd") as caught:
        builtin.compress(Message(b"x"), encoding="zstd")
    assert "messaging-gateway[zstd]" in str(caught.value.cure)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "rar"}, "option encoding"),
        ({"encoding": "gzip", "level": 10}, "level 10"),
        ({"encoding": "zstd", "level": 0}, "level 0"),
        ({"max_size": 0}, "max_size is 0"),
    ],
)
def test_options_that_do_not_exist_are_refused_when_they_are_defined(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        defined("decompress" if "max_size" in options else "compress", **options)
    assert said in str(caught.value)


# -------------------------------------------------------------------------------------------------------- CloudEvents

ATTRIBUTES = {"specversion": "1.0", "id": "A-1", "source": "/plant/1", "type": "com.example.hot", "sequence": 7}
STRUCTURED = headers(content_type="application/cloudevents+json; charset=utf-8")
PREFIXES = {"kafka": "ce_", "amqp": "cloudEvents:", "mqtt": ""}
DATA: dict[str, tuple[Any, str | None, dict[str, Any]]] = {
    "json": ('{"t":91.5}', "application/json", {"data": {"t": 91.5}, "datacontenttype": "application/json"}),
    "text": ("Grüße", "text/plain", {"data": "Grüße", "datacontenttype": "text/plain"}),
    "bytes": (b"\x00\xff", "image/png", {"data_base64": "AP8=", "datacontenttype": "image/png"}),
    "untyped": (b"\x00\xff", None, {"data_base64": "AP8="}),
    "none": (None, None, {}),
}


def binary(form: str, body: Any, media: str | None) -> Message:
    made = [
        Header(PREFIXES[form] + name, ValueType.INTEGER if name == "sequence" else TEXT, value)  # type: ignore[arg-type]
        for name, value in ATTRIBUTES.items()
    ]
    return Message(body, (*(headers(content_type=media) if media else ()), *made))


def fields(message: Message) -> dict[str, Any]:
    return {header.name: header.value for header in message.headers}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("source", [*PREFIXES, "structured"])
@pytest.mark.parametrize("target", [*PREFIXES, "structured"])
def test_an_event_is_the_same_in_every_form(source: Any, target: Any, kind: str) -> None:
    body, media, structured = DATA[kind]
    whole = Message(json.dumps({**ATTRIBUTES, **structured}), STRUCTURED)
    event = whole if source == "structured" else binary(source, body, media)
    found = builtin.cloudevent(event, form=target)
    if target == "structured":
        assert json.loads(found.body) == {**ATTRIBUTES, **structured}  # type: ignore[arg-type]
        assert found.headers == headers(content_type="application/cloudevents+json")
    else:
        assert found.body == body
        assert fields(found) == fields(binary(target, body, media))


def test_other_headers_stay_and_the_name_of_the_content_type_does_too() -> None:
    event = Message(
        "{}",
        (
            Header("MGW_AMQP_contentType", TEXT, "application/json"),
            *headers(TENANT="a"),
            *binary("amqp", "", None).headers,
        ),
    )
    found = builtin.cloudevent(event, form="structured")
    assert fields(found) == {"TENANT": "a", "MGW_AMQP_contentType": "application/cloudevents+json"}


@pytest.mark.parametrize("source", PREFIXES)
@pytest.mark.parametrize("target", [*PREFIXES, "structured"])
def test_the_trace_context_keeps_its_name_from_form_to_form(source: str, target: Any) -> None:
    event = binary(source, "x", "text/plain")
    found = builtin.cloudevent(replace(event, headers=(*event.headers, *headers(traceparent="00-1"))), form=target)
    assert found.header("traceparent") == "00-1"
    assert "traceparent" not in str(found.body)


def test_the_other_spelling_of_amqp_is_read() -> None:
    made = tuple(h._replace(name=h.name.replace(":", "_")) for h in binary("amqp", b"x", None).headers)
    assert fields(builtin.cloudevent(Message(b"x", made), form="kafka")) == fields(binary("kafka", b"x", None))


def test_a_message_becomes_an_event_with_the_id_of_its_sender_or_of_the_hub() -> None:
    plain = Message("hot", headers(message_id="m-1"), msgid=bytes(15) + b"\x01", enqueue_time=1_700_000_000.25)
    event = json.loads(builtin.cloudevent(plain, form="structured", source="/p", type="t", subject="s").body)  # type: ignore[arg-type]
    assert event == {
        "specversion": "1.0",
        "id": "m-1",
        "source": "/p",
        "type": "t",
        "subject": "s",
        "time": "2023-11-14T22:13:20.250000Z",
        "datacontenttype": "text/plain",
        "data": "hot",
    }
    by_hub = builtin.cloudevent(replace(plain, headers=()), form="kafka", source="/p", type="t")
    assert by_hub.header("ce_id") == "0" * 31 + "1"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (Message("x"), "source and type"),
        (Message("x", headers(ce_x="1", specversion="0.3")), "specversion is '0.3'"),
        (Message("x", headers(specversion="1.0", id="1", source="s")), "attribute type"),
        (Message("no json", STRUCTURED), "no JSON"),
        (Message("[1]", STRUCTURED), "no JSON object"),
        (Message(None, STRUCTURED), "no JSON"),
        (
            Message('{"specversion":"1.0","id":"1","source":"s","type":"t","Bad":1}', STRUCTURED),
            "'Bad' is no attribute",
        ),
        (Message('{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"?"}', STRUCTURED), "base64"),
        (Message("[]", headers(content_type="application/cloudevents-batch+json")), "cloudevents-batch"),
        (
            Message("{", (*headers(content_type="application/json"), *binary("mqtt", "", None).headers)),
            "data is no JSON",
        ),
    ],
)
def test_what_is_no_event_is_refused_with_its_cause(message: Message, cause: str) -> None:
    with pytest.raises(TransformFailed) as caught:
        defined("cloudevent", form="structured")(message)
    assert cause in str(caught.value.cause)


@pytest.mark.parametrize(
    "message",
    [
        Message(
            b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1e999}',
            headers(content_type="application/cloudevents+json"),
        ),
        Message(
            b"x",
            (
                *(Header(f"ce_{name}", TEXT, "1.0") for name in ("specversion", "id", "source", "type")),
                Header("ce_time", ValueType.DATE, 1e18),
            ),
        ),
    ],
)
def test_an_event_that_holds_what_json_does_not_have_is_refused(message: Message) -> None:
    with pytest.raises(ConversionFailure, match="what JSON does not have"):
        builtin.cloudevent(message, form="structured")
