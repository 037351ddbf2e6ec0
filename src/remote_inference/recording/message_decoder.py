# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads messages by the definitions that their bag carries."""

from __future__ import annotations

from typing import Any

from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

from remote_inference.recording.message_definitions import SEPARATOR, message_definition


class MessageDecoder:
    """Turns CDR bytes into messages, whose numeric sequences are numpy arrays."""

    def __init__(self) -> None:
        self._store = get_typestore(Stores.EMPTY)

    def add_type(self, msgtype: str, definition: str, *, is_idl: bool = False) -> None:
        """Declare a type. definition: as in the bag; empty: the installed one.

        Raises TypesysError when it cannot be read, BagError when none is installed.
        """
        if is_idl:
            for section in definition.split(SEPARATOR):
                self._store.register(get_types_from_idl(section.partition("\n")[2]) if section else {})
        else:
            text = definition or message_definition(msgtype)
            self._store.register(get_types_from_msg(text, msgtype))

    def decode(self, msgtype: str, cdr: bytes) -> Any:
        """Return a message. When it does not fit its type, raises what rosbags raises: anything."""
        # Not Typestore.deserialize_cdr: it refuses the trailing bytes that rclpy's serialize_message leaves
        # behind messages with empty sequences, and so bags whose writer used that function.
        definition = self._store.get_msgdef(msgtype)
        decode = definition.deserialize_cdr_le if cdr[1:2] == b"\x01" else definition.deserialize_cdr_be
        message, _ = decode(cdr[4:], 0, definition.cls, self._store)
        return message

    def type_hash(self, msgtype: str) -> str:
        """Return the hash of a declared type's fields and of all types in it, as ROS 2 computes it."""
        return self._store.hash_rihs01(msgtype)
