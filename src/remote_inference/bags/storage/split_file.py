# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One MCAP file of a bag: chunks compressed with zstd, each followed by its link of the digest chain."""

from __future__ import annotations

import hashlib
import os
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

from mcap.writer import CompressionType, Writer

from remote_inference import __version__
from remote_inference.bags.storage.bag_records import LINK, UNLINKED, BagTopic, Link, read_qos
from remote_inference.bags.storage.mcap_records import ScannedChannel
from remote_inference.bags.storage.message_decoder import MessageDecoder, message_definition

# The hash chain over what a bag holds: each link is the SHA-256 of the one before and of what came since.
# Messages are hashed as they were received, not as they lie in the file: another compression or another size
# of chunks changes no link. There is no key in it. It shows every accidental change, and every deliberate one
# by somebody who did not also compute all later links anew; against that one, keep the last digest elsewhere.
START = bytes(32)  # what the first link of a bag follows
_MESSAGE = struct.Struct("<c32sIQQQ")


def digest_texts(*texts: str | bytes) -> bytes:
    """Return the SHA-256 of some texts, each with its length before it: "a", "bc" differs from "ab", "c"."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        digest.update(struct.pack("<Q", len(data)) + data)
    return digest.digest()


class DigestChain:
    """Hashes what is written, in its order; `link` closes a link and begins the next."""

    def __init__(self) -> None:
        self.continue_from(START)

    def add_message(
        self, channel: bytes, sequence: int, log_time_ns: int, publish_time_ns: int, data: bytes
    ) -> None:
        """Add a message. channel: [32 bytes] digest of its topic, type and definition."""
        self._hash.update(_MESSAGE.pack(b"m", channel, sequence, log_time_ns, publish_time_ns, len(data)))
        self._hash.update(data)
        self.messages += 1

    def add_record(self, name: str, values: Mapping[str, str]) -> None:
        """Add a metadata record; the order of its values does not matter."""
        texts = [text for key in sorted(values) for text in (key, values[key])]
        self._hash.update(b"r" + digest_texts(name, *texts))

    def link(self) -> bytes:
        """Close the link and return its digest [32 bytes]."""
        self.continue_from(self._hash.digest())
        return self.digest

    def continue_from(self, previous: bytes) -> None:
        """Begin a link after a digest [32 bytes]: also where a link of a bag does not fit, the next may."""
        self.digest = previous
        self.messages = 0  # of the open link
        self._hash = hashlib.sha256(previous)


class AppendOnlyFile:
    """A new file to append to, without a buffer: what `write` took is the kernel's."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.offset = 0

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            written = os.write(self._file, rest)
            self.offset += written
            rest = rest[written:]
        return len(data)

    def tell(self) -> int:
        return self.offset

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self, *, sync: bool = True) -> None:
        """Close the file; a second call does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            try:
                if sync:
                    os.fsync(file)
            finally:
                os.close(file)


_NEVER = 1 << 62  # bytes: the library ends no chunk by itself, because each one needs its link


class McapFile:
    """A new MCAP file whose chunks are compressed with zstd. After a failed write it can only be abandoned.

    Raises OSError. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self._output = AppendOnlyFile(path)
        self._writer = Writer(
            cast("IO[bytes]", self._output), _NEVER, CompressionType.ZSTD, enable_data_crcs=True
        )
        self._writer.start("ros2", f"remote_inference {__version__}")
        self._schemas: dict[tuple[str, str, bytes], int] = {("", "", b""): 0}  # 0: without one

    def register_channel(self, channel: ScannedChannel) -> int:
        """Return the number by which messages name the channel."""
        schema = channel.msgtype, channel.encoding, channel.definition
        if schema not in self._schemas:
            self._schemas[schema] = self._writer.register_schema(*schema)
        number = self._schemas[schema]
        return self._writer.register_channel(
            channel.topic, channel.message_encoding, number, channel.metadata
        )

    def add_record(self, name: str, values: Mapping[str, str]) -> None:
        self._writer.add_metadata(name, dict(values))

    def close(self) -> None:
        """Write the index and hand the file to the disk."""
        self._writer.finish()
        self._output.close()

    def abandon(self) -> None:
        """Close the file as it is; nothing after `close`."""
        self._output.close(sync=False)


CHUNK_BYTES = 1 << 20  # of messages, uncompressed: a chunk is what a killed recorder loses ...
CHUNK_PERIOD_NS = 10**9  # ... and it holds at most the messages of this time


@dataclass(frozen=True)
class Channel:
    """A topic with everything that the reader of its messages must know."""

    topic: BagTopic
    definition: str  # empty: the file has none
    type_hash: str  # RIHS01
    encoding: str = "ros2msg"  # of the definition

    @property
    def is_idl(self) -> bool:
        return self.encoding.endswith("idl")

    @classmethod
    def read(cls, name: str, found: ScannedChannel) -> Channel:
        """Return what a file says of a topic. name: the topic's here."""
        topic = BagTopic(name, found.msgtype, read_qos(found.metadata.get("offered_qos_profiles", "")))
        definition = found.definition.decode(errors="replace")
        return cls(topic, definition, found.metadata.get("topic_type_hash", ""), found.encoding)

    @classmethod
    def of(cls, topic: BagTopic) -> Channel:
        """Describe a topic by the installed messages. Raises BagError when its type is not installed."""
        definition = message_definition(topic.msgtype)
        decoder = MessageDecoder()
        decoder.add_type(topic.msgtype, definition)
        return cls(topic, definition, decoder.type_hash(topic.msgtype))


@lru_cache(maxsize=1024)  # a reader of a bag asks with each message
def channel_digest(topic: str, msgtype: str, encoding: str, definition: str | bytes) -> bytes:
    """Return the digest [32 bytes] of what gives the bytes of a topic's messages their meaning."""
    return digest_texts(topic, msgtype, encoding, definition)


class SplitFile(McapFile):
    """Writes one MCAP file of a bag.

    Every whole chunk is in the file when `end_chunk` returns, so that a killed process costs the last one
    only.
    """

    def __init__(self, path: Path, chain: DigestChain, total: int) -> None:
        """total: messages in the bag's splits before."""
        super().__init__(path)
        self.path = path
        self.counts: Counter[str] = Counter()  # messages by topic
        self.start_ns = self.end_ns = 0  # reception of the first and of the last message, by time
        self._total = total
        self._chain = chain
        self._channels: dict[str, tuple[int, bytes]] = {}  # id and digest by topic
        self._index_bytes = 0  # written at the file's end
        self._chunk_bytes = 0
        self._chunk_start_ns = 0
        self._largest = 0  # message so far [bytes]
        self._is_linked = True  # all that was written is covered by a link

    @property
    def bytes_written(self) -> int:
        return self._output.offset

    @property
    def bytes_expected(self) -> int:
        """Bytes that the file would have at most if it were finished now."""
        return self._output.offset + self._chunk_bytes * 257 // 256 + self._index_bytes + 4096

    @property
    def has_open_chunk(self) -> bool:
        return self._chunk_bytes > 0

    @property
    def headroom(self) -> int:
        """Bytes that the next chunk may have: it ends with the message that fills it."""
        return CHUNK_BYTES + self._largest

    @property
    def messages(self) -> int:
        return self.counts.total()

    def add_channel(self, channel: Channel) -> None:
        topic, data, schemas = channel.topic, channel.definition.encode(), len(self._schemas)
        metadata = {"offered_qos_profiles": topic.qos_text(), "topic_type_hash": channel.type_hash}
        number = self.register_channel(
            ScannedChannel(topic.name, topic.msgtype, channel.encoding, data, "cdr", metadata)
        )
        if len(self._schemas) > schemas:
            self._index_bytes += len(data)
        self._index_bytes += 2048 + 2 * len(metadata["offered_qos_profiles"])  # also in metadata.yaml's copy
        digest = channel_digest(topic.name, topic.msgtype, channel.encoding, channel.definition)
        self._channels[topic.name] = (number, digest)
        self.counts[topic.name] = 0

    def add_message(
        self, topic: str, log_time_ns: int, publish_time_ns: int, sequence: int, cdr: bytes
    ) -> None:
        number, digest = self._channels[topic]
        if not self._chunk_bytes:
            self._chunk_start_ns = log_time_ns
        self.start_ns = min(self.start_ns, log_time_ns) if self.messages else log_time_ns
        self.end_ns = max(self.end_ns, log_time_ns)
        self._writer.add_message(number, log_time_ns, cdr, publish_time_ns, sequence)
        self._chain.add_message(digest, sequence, log_time_ns, publish_time_ns, cdr)
        self._is_linked = False
        self._chunk_bytes += len(cdr) + 47  # with the record's head and its entry in the index
        self._largest = max(self._largest, len(cdr))
        self.counts[topic] += 1

    def is_chunk_due(self, now_ns: int) -> bool:
        """Return whether the open chunk should be ended. now_ns: by the clock of the messages."""
        return self._chunk_bytes >= CHUNK_BYTES or (
            self._chunk_bytes > 0 and not 0 <= now_ns - self._chunk_start_ns < CHUNK_PERIOD_NS
        )

    def add_record(self, name: str, values: Mapping[str, str]) -> None:
        """Write a metadata record behind the messages so far; the next link covers it."""
        if name not in UNLINKED:
            self.end_chunk()
            self._chain.add_record(name, values)
            self._is_linked = False
        super().add_record(name, values)
        self._index_bytes += 64

    def end_chunk(self) -> None:
        """Write the open chunk and the link that covers all since the last one, if there is anything."""
        if self._is_linked:
            return
        self._writer.flush()
        self._chunk_bytes = 0
        self._index_bytes += 128 + 10 * len(self._channels)
        messages = self._chain.messages
        link = Link(self._chain.link(), messages, self._total + self.messages)
        self._is_linked = True
        self.add_record(LINK, link.values())

    def close(self) -> None:
        self.end_chunk()
        super().close()
