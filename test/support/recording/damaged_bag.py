# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Damages of a bag: bits of its MCAP files' records, files that are gone, and what metadata.yaml says."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from mcap.opcode import Opcode
from mcap.records import Chunk, Message
from mcap.stream_reader import StreamReader, breakup_chunk

from support.recording.rewritten_bag import ROOT

HEAD = struct.Struct("<BQ")  # opcode and length of a record's content
OPCODE, LENGTH = -HEAD.size, 1 - HEAD.size  # where the head has them, seen from the content
MAGIC_BYTES = 8
FOOTER_BYTES = HEAD.size + 20 + MAGIC_BYTES
Damage = Callable[[Path], object]  # changes a bag's folder
Count = Callable[[Path], int]  # of messages of a bag, as it was before its damage


@dataclass(frozen=True)
class Place:
    """Where a record of a file lies."""

    opcode: int
    offset: int
    length: int  # of its content


def places_of(data: bytes) -> Iterator[Place]:
    """Yield the records of a whole file, those of its index, too, but not those within chunks."""
    offset = MAGIC_BYTES
    while offset < len(data) - MAGIC_BYTES:
        opcode, length = HEAD.unpack_from(data, offset)
        yield Place(opcode, offset, length)
        offset += HEAD.size + length


def file_of(bag: Path, number: int = 0) -> Path:
    return bag / f"{bag.name}_{number}.mcap"


def messages_of_chunk(number: int) -> Count:
    """Return what counts the messages of a chunk of the first file."""

    def count(bag: Path) -> int:
        with file_of(bag).open("rb") as stream:
            chunks = [one for one in StreamReader(stream, emit_chunks=True).records if isinstance(one, Chunk)]
        return sum(isinstance(record, Message) for record in breakup_chunk(chunks[number]))

    return count


def messages_of_file(number: int) -> Count:
    """Return what counts the messages of a file."""

    def count(bag: Path) -> int:
        with file_of(bag, number).open("rb") as stream:
            return sum(isinstance(record, Message) for record in StreamReader(stream).records)

    return count


def flip(opcode: Opcode, byte: int, bit: int = 0, *, which: int = 0, is_sealed: bool = False) -> Damage:
    """Return what flips a bit of a record. byte: of its content. which: among those of its opcode.

    is_sealed: the index gets the checksum that fits: a program wrote it so.
    """

    def damage(bag: Path) -> None:
        data = bytearray(file_of(bag).read_bytes())
        found = [place for place in places_of(data) if place.opcode == opcode]
        data[found[which].offset + HEAD.size + byte] ^= 1 << bit
        if is_sealed:
            start = int.from_bytes(data[-FOOTER_BYTES + HEAD.size :][:8], "little")
            end = len(data) - MAGIC_BYTES - 4
            data[end : end + 4] = zlib.crc32(data[start:end]).to_bytes(4, "little")
        file_of(bag).write_bytes(data)

    return damage


def cut(share: float) -> Damage:
    """Return what leaves this share of the first file."""

    def damage(bag: Path) -> None:
        data = file_of(bag).read_bytes()
        file_of(bag).write_bytes(data[: int(len(data) * share)])

    return damage


def say(edit: Callable[[dict[str, Any]], object]) -> Damage:
    """Return what edits metadata.yaml below its root."""

    def damage(bag: Path) -> None:
        file = bag / "metadata.yaml"
        document = yaml.safe_load(file.read_text())
        edit(document[ROOT])
        file.write_text(yaml.safe_dump(document, sort_keys=False))

    return damage


def tell_of(topic: str, **said: Any) -> Damage:
    """Return what changes what metadata.yaml says of a topic: its type or message_count."""

    def edit(content: dict[str, Any]) -> None:
        for one in content["topics_with_message_count"]:
            if one["topic_metadata"]["name"] == topic:
                (one if "message_count" in said else one["topic_metadata"]).update(said)

    return say(edit)


def lose_metadata(bag: Path) -> None:
    (bag / "metadata.yaml").unlink()


def cut_metadata(bag: Path) -> None:
    """Leave a part of metadata.yaml that still is YAML, as a full disk does."""
    text = (bag / "metadata.yaml").read_text()
    (bag / "metadata.yaml").write_text(text[: text.index("relative_file_paths")])


def lose_file(number: int, *, is_named: bool = True) -> Damage:
    """Return what removes a file. is_named: metadata.yaml still names it."""

    def damage(bag: Path) -> None:
        file = file_of(bag, number)
        file.unlink()
        if not is_named:
            say(lambda content: content["relative_file_paths"].remove(file.name))(bag)

    return damage
