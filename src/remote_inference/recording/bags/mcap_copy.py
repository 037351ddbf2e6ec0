# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes an MCAP file from what was read from another one, chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from mcap.writer import CompressionType, Writer

from remote_inference import __version__
from remote_inference.recording.bags.append_only_file import AppendOnlyFile
from remote_inference.recording.bags.mcap_scan import ScannedChannel, ScannedMessage


class McapCopy:
    """Keeps messages, their numbers and the records between them; chunks are compressed with zstd.

    Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self._output = AppendOnlyFile(path)
        self._writer = Writer(cast("IO[bytes]", self._output), 1 << 62, CompressionType.ZSTD)
        self._writer.start("ros2", f"remote_inference {__version__}")
        self._schemas: dict[tuple[str, str, bytes], int] = {}
        self._channels: dict[str, int] = {}

    def add_chunk(self, messages: Sequence[ScannedMessage]) -> None:
        """Write messages as one chunk."""
        for message in messages:
            number = self._channels.get(message.channel.topic) or self._add_channel(message.channel)
            self._writer.add_message(
                number, message.log_time_ns, message.data, message.publish_time_ns, message.sequence
            )
        self._writer.flush()

    def _add_channel(self, channel: ScannedChannel) -> int:
        schema = (channel.msgtype, channel.encoding, channel.definition)
        if schema not in self._schemas:
            self._schemas[schema] = self._writer.register_schema(*schema)
        number = self._writer.register_channel(
            channel.topic, channel.message_encoding, self._schemas[schema], channel.metadata
        )
        self._channels[channel.topic] = number
        return number

    def add_record(self, name: str, values: Mapping[str, str]) -> None:
        """Write a metadata record behind the chunks so far."""
        self._writer.add_metadata(name, dict(values))

    def close(self) -> None:
        """Write the index and hand the file to the disk."""
        self._writer.finish()
        self._output.close()

    def abandon(self) -> None:
        """Close the file as it is; nothing after `close`."""
        self._output.close(sync=False)
