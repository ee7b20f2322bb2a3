"""What holds for every message, whatever Hypothesis or a vandal makes of it.

* What is encoded decodes to itself, at every version, from any kind of buffer and from its middle.
* A decoder given any bytes at all either decodes them or raises ProtocolError, and takes no more memory than
  a fixed multiple of what it was given.
"""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codec.compiler import decode, decoder, encode, piece_encoder
from protocol.codec.decoding import minimum_size
from protocol.codec.message import Message
from protocol.codec.schema import Kind, schema
from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from tests.support.samples.messages import RandomChoice, build, message_versions, messages

PAIRS = message_versions()
FIRST_AND_LAST = [(cls, version) for cls, version in PAIRS if version in cls.declaration.versions]

BYTES_PER_BYTE = 64
"""A decoder may take this many bytes for each byte given: an empty list takes 56, and one on the wire …"""

BASE_BYTES = 16 * 1024
"""… beside what Python itself takes for tracebacks and texts."""


@st.composite
def any_message(draw: st.DrawFn) -> tuple[Message, int]:
    cls, version = draw(st.sampled_from(PAIRS))
    return draw(messages(cls, version)), version


@settings(max_examples=300, deadline=None)
@given(any_message(), st.binary(max_size=9), st.binary(max_size=9))
def test_what_is_encoded_decodes_to_itself(pair: tuple[Message, int], before: bytes, after: bytes) -> None:
    message, version = pair
    cls = type(message)
    raw = encode(message, version)
    assert decode(cls, version, raw) == message
    assert decode(cls, version, bytearray(raw)) == message
    assert decode(cls, version, memoryview(raw)) == message
    assert decoder(cls, version)(memoryview(before + raw + after), len(before)) == (
        message,
        len(before + raw),
    )
    assert b"".join(piece_encoder(cls, version)(message)) == raw  # type: ignore[arg-type]
    assert len(raw) >= minimum_size(cls, version, cls.declaration.flexible.covers(version))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PAIRS), st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(pair: tuple[type[Message], int], raw: bytes) -> None:
    cls, version = pair
    try:
        message, end = decoder(cls, version)(raw, 0)
    except ProtocolError:
        return
    assert 0 <= end <= len(raw)
    assert decode(cls, version, encode(message, version)) == message


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_a_header_or_are_refused(raw: bytes) -> None:
    try:
        _, end = decode_request_header(raw, 0)
    except ProtocolError:
        return
    assert 10 <= end <= len(raw)


def mutations(raw: bytes, random_source: random.Random) -> list[bytes]:
    """Truncations, flipped bits, bytes set to the borders of the encodings, pieces doubled or cut out."""
    spoiled = [raw[: random_source.randrange(len(raw) + 1)]]
    for _ in range(8):
        copy = bytearray(raw or b"\x00")
        for _ in range(random_source.choice((1, 1, 2, 5))):
            place = random_source.randrange(len(copy))
            match random_source.randrange(4):
                case 0:
                    copy[place] ^= 1 << random_source.randrange(8)
                case 1:
                    copy[place] = random_source.choice((0, 1, 0x7F, 0x80, 0xFF))
                case 2:
                    copy[place : place + 4] = random_source.choice(
                        (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 4)
                    )
                case _:
                    copy[place:place] = copy[place : place + random_source.randrange(1, 9)]
        spoiled.append(bytes(copy))
    return spoiled


@pytest.mark.parametrize("part", range(8))
def test_spoiled_messages_raise_protocol_errors_and_take_little_memory(part: int) -> None:
    refused = decoded = 0
    for cls, version in PAIRS[part::8]:
        random_source = random.Random(f"{cls.__name__} {version}")
        decode_this = decoder(cls, version)
        raw = encode(build(cls, version, RandomChoice((cls.__name__, version))), version)
        tracemalloc.start()
        try:
            for spoiled in mutations(raw, random_source):
                with contextlib.suppress(ProtocolError):
                    decode_this(spoiled, 0)  # text that is no UTF-8 has a codec compiled, once
                tracemalloc.reset_peak()
                start, _ = tracemalloc.get_traced_memory()
                try:
                    decode_this(spoiled, 0)
                    decoded += 1
                except ProtocolError:
                    refused += 1
                _, peak = tracemalloc.get_traced_memory()
                assert peak - start <= BASE_BYTES + BYTES_PER_BYTE * len(spoiled), (cls.__name__, version)
        finally:
            tracemalloc.stop()
    assert refused > 100
    assert decoded > 100


def peak_of_decoding(cls: type[Message], version: int, raw: bytes) -> int:
    decode_this = decoder(cls, version)
    with contextlib.suppress(ProtocolError):
        decode_this(raw, 0)  # whatever codec it takes is compiled now
    tracemalloc.start()
    try:
        with contextlib.suppress(ProtocolError):
            decode_this(raw, 0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_hostile_frame_takes_little_memory() -> None:
    """Counts promise what the bytes cannot hold, in every message, wherever a count may stand."""
    frames = [bytes([fill]) * (1 << 16) for fill in (0x00, 0x01, 0x02, 0x7F, 0xFF)]
    for cls, version in FIRST_AND_LAST:
        for frame in frames:
            peak = peak_of_decoding(cls, version, frame)
            assert peak <= BASE_BYTES + BYTES_PER_BYTE * len(frame), (cls.__name__, version, frame[0])


def test_the_cheapest_elements_that_a_peer_can_send() -> None:
    """Whole and well-formed, and as many objects for a byte as the protocol allows."""
    for cls, version in FIRST_AND_LAST:
        for field in schema(cls):
            if field.is_array and field.kind is not Kind.FIXED and field.present.covers(version):
                element = field.struct_class() if field.kind is Kind.STRUCT else ""
                raw = encode(cls(**{field.name: [element] * 250}), version)
                peak = peak_of_decoding(cls, version, raw)
                assert peak <= BASE_BYTES + BYTES_PER_BYTE * len(raw), (cls.__name__, version, field.name)
