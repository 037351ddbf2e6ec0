# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Spoils valid inputs: as bytes, as text, as a JSON tree and field by field as a ROS message."""

from __future__ import annotations

import json
import math
import struct
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from rclpy.serialization import deserialize_message, serialize_message

MAX_INPUT_BYTES = 64 * 1024
NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, 1e-45, 3.5e38, 1e308, math.inf, -math.inf, math.nan)
# What parsers of text treat in a way of their own.
TOKENS = (
    *b"\x00 \xff \xef\xbb\xbf \xed\xa0\x80 \t - ? : , [ ] { } # & * ! | > ' \" % @ ` ~".split(b" "),
    *b"<< <<: --- ... &a *a null true false yes no .inf -.inf .nan 1e999 0x 0o8 0b 1_000 1:2:3".split(b" "),
    *b"2001-99-99 2001-01-01 !!binary !!python/object:os.system !!timestamp !!set !!omap !!int".split(b" "),
    *b"\\u0000 \\ud800 ../ \xc2\x85 HTTP/1.1 Content-Length: ; = / tls/ [::1] $".split(b" "),
    *(b"\n", b"\r\n", b"\n  ", b"9" * 5000, b"[" * 2000, b'{"a":' * 2000, b"&a [*a]"),
    b"- [*a, *a, *a, *a, *a, *a, *a, *a]\n",
)
TEXTS = ("", "/", "//", "a/b", "~", "\x00", "é", "\ud7ff", "x" * 300, "/robot_1")
WORDS = ("jpeg", "png", "rgb8", "16UC1", "32FC1")

Mutator = Callable[[Random, bytes, Sequence[bytes]], bytes]


def spoil_bytes(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with one to eight random changes. others: to splice with."""
    spoiled = bytearray(data)
    for _ in range(_count(random)):
        _BYTE_CHANGES[random.randrange(len(_BYTE_CHANGES))](random, spoiled, others)
    return bytes(spoiled[:MAX_INPUT_BYTES])


def spoil_text(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a text with tokens and lines inserted, doubled, exchanged or removed, or spoiled as bytes."""
    if random.random() < 0.25:
        return spoil_bytes(random, data, others)
    lines = data.splitlines(keepends=True) or [b""]
    for _ in range(_count(random)):
        line = random.randrange(len(lines))
        match random.randrange(6):
            case 0:
                place = random.randrange(len(lines[line]) + 1)
                lines[line] = lines[line][:place] + random.choice(TOKENS) + lines[line][place:]
            case 1:
                lines.insert(line, lines[random.randrange(len(lines))])
            case 2 if len(lines) > 1:
                del lines[line]
            case 3:
                words = lines[line].split(b" ")
                words[random.randrange(len(words))] = random.choice(TOKENS)
                lines[line] = b" ".join(words)
            case 4:
                lines[line] = b" " * random.randrange(9) + lines[line].lstrip(b" ")
            case 5:
                other = random.choice(others).splitlines(keepends=True) or [b""]
                lines[line] = random.choice(other)
    return b"".join(lines)[:MAX_INPUT_BYTES]


def spoil_tree(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a JSON text with values exchanged, keys removed, added or renamed, or spoiled as text."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return spoil_text(random, data, others)
    if random.random() < 0.1:
        return spoil_text(random, data, others)
    for _ in range(_count(random)):
        tree = _spoil_value(random, tree)
    return json.dumps(tree).encode("utf-8", "surrogatepass")[:MAX_INPUT_BYTES]


def spoil_message(message_type: type[Any]) -> Mutator:
    """Return what spoils serialized messages of a type: their fields, or their bytes."""

    def spoil(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        if random.random() < 0.5:
            return spoil_bytes(random, data, others)
        try:
            message = deserialize_message(data, message_type)
        except Exception:  # it was spoiled before
            return spoil_bytes(random, random.choice(others), others)
        for _ in range(_count(random)):
            _spoil_fields(random, message)
        try:
            return serialize_message(message)[:MAX_INPUT_BYTES]
        except Exception:  # such as text that CDR cannot hold
            return spoil_bytes(random, data, others)

    return spoil


def _count(random: Random) -> int:
    """Return a number of changes: many would all fail the first check."""
    return random.choice((1, 1, 1, 2, 2, 4, 8))


# -- bytes ---------------------------------------------------------------------------------------------------


def _flip(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_number(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    size, kind = random.choice(((1, "B"), (2, "H"), (4, "I"), (8, "Q"), (4, "f"), (8, "d")))
    order = random.choice("<>")
    if len(data) < size:
        return
    place = random.randrange(len(data) - size + 1)
    if kind in "fd":
        with suppress(OverflowError):
            data[place : place + size] = struct.pack(order + kind, random.choice(FLOATS))
    else:
        number = random.choice(NUMBERS) & ((1 << 8 * size) - 1)
        data[place : place + size] = struct.pack(order + kind, number)


def _insert(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    place = random.randrange(len(data) + 1)
    data[place:place] = random.randbytes(1 << random.randrange(7))


def _insert_token(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    place = random.randrange(len(data) + 1)
    data[place:place] = random.choice(TOKENS)


def _remove(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    place = random.randrange(len(data) + 1)
    del data[place : place + (1 << random.randrange(9))]


def _repeat(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    place = random.randrange(len(data) + 1)
    data[place:place] = data[place : place + (1 << random.randrange(9))]


def _truncate(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[random.randrange(len(data) + 1) :]


def _overwrite(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    place, size = random.randrange(len(data) + 1), 1 << random.randrange(6)
    data[place : place + size] = random.randbytes(size)


def _splice(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = random.choice(others)
    place = random.randrange(len(data) + 1)
    data[place:] = other[random.randrange(len(other) + 1) :]


_BYTE_CHANGES = (
    _flip, _flip, _set_number, _set_number, _set_number, _insert, _insert_token, _remove, _repeat, _truncate,
    _overwrite, _splice,
)  # fmt: skip

# -- trees and messages --------------------------------------------------------------------------------------


def _odd_value(random: Random) -> Any:
    match random.randrange(8):
        case 0:
            return random.choice(NUMBERS)
        case 1:
            return random.choice(FLOATS)
        case 2:
            return random.choice(TEXTS)
        case 3:
            return random.choice((None, True, False, [], {}, [[]], [{}], {"": None}))
        case 4:
            return [_odd_value(random) for _ in range(random.randrange(4))]
        case 5:
            return {random.choice(TEXTS): _odd_value(random) for _ in range(random.randrange(4))}
        case 6:
            return 10 ** random.randrange(400)
        case _:
            return random.choice(TOKENS).decode("latin-1")


def _spoil_value(random: Random, value: Any) -> Any:
    """Return the value with one change somewhere within."""
    if not isinstance(value, (dict, list)) or not value or random.random() < 0.15:
        return _odd_value(random)
    key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
    match random.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[random.choice(TEXTS)] = value.pop(key)
        case 1:
            value.insert(key, value[random.randrange(len(value))])
        case 2 if isinstance(value, dict):
            value[random.choice(TEXTS)] = _odd_value(random)
        case _:
            value[key] = _spoil_value(random, value[key])
    return value


def _spoil_fields(random: Random, message: Any) -> None:
    """Change one field of a message or of one nested within; values that rclpy refuses change nothing."""
    name, kind = random.choice(list(message.get_fields_and_field_types().items()))
    value = getattr(message, name)
    if hasattr(value, "get_fields_and_field_types"):
        _spoil_fields(random, value)
    elif isinstance(value, list) and value and hasattr(value[0], "get_fields_and_field_types"):
        _spoil_items(random, value)
    else:
        with suppress(AssertionError, TypeError, ValueError, OverflowError):
            setattr(message, name, _odd_field(random, value, kind))


def _spoil_items(random: Random, messages: list[Any]) -> None:
    match random.randrange(4):
        case 0:
            del messages[random.randrange(len(messages))]
        case 1:
            messages.append(random.choice(messages))
        case _:
            _spoil_fields(random, random.choice(messages))


def _odd_field(random: Random, value: Any, kind: str) -> Any:
    if isinstance(value, array):
        return _odd_array(random, value)
    if isinstance(value, list):
        texts = [*value, *random.choices(TEXTS, k=2)]
        return random.sample(texts, random.randrange(len(texts) + 1))
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return random.choice((*TEXTS, *WORDS))
    if isinstance(value, float):
        return random.choice(FLOATS)
    return random.choice(NUMBERS) & ((1 << int("".join(filter(str.isdigit, kind)) or 8)) - 1)


def _odd_array(random: Random, value: array[Any]) -> array[Any]:
    odd = array(value.typecode, value)
    numbers = FLOATS if value.typecode in "fd" else (0, 1, 255)
    match random.randrange(4):
        case 0:
            del odd[random.randrange(len(odd) + 1) :]
        case 1:
            odd.extend(array(value.typecode, [random.choice(numbers)]) * (1 << random.randrange(12)))
        case _ if len(odd):
            odd[random.randrange(len(odd))] = random.choice(numbers)
    return odd
