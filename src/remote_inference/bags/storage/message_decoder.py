# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Definitions of messages as bags carry them, and the messages that are read by them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore

from remote_inference import __version__
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.base.paths import share_path

SEPARATOR = "=" * 80 + "\n"  # between the definitions of nested messages


def message_definition(msgtype: str) -> str:
    """Return the text of an installed message and of all messages nested in it, in the form rosbag2 embeds.

    Raises BagError when `msgtype` is not of the form `package/msg/Name`, or no such .msg file is installed.
    """
    texts: dict[str, str] = {}
    waiting = [msgtype]
    while waiting:
        name = waiting.pop(0)
        if name in texts:
            continue
        texts[name] = text = _installed_text(name)
        fields = [_element(field) for _, field in get_types_from_msg(text, name)[name][1]]
        waiting += [value for kind, value in fields if kind == Nodetype.NAME]
    first, *others = texts.items()
    return first[1] + "".join(f"\n{SEPARATOR}MSG: {n.replace('/msg/', '/')}\n{t}" for n, t in others)


def _installed_text(msgtype: str) -> str:
    package, kind, name = [*msgtype.split("/"), "", ""][:3]
    if kind != "msg" or not name or msgtype.count("/") != 2:
        raise BagError(f"message type {msgtype!r}: expected the form 'package/msg/Name'")
    try:
        return share_path("msg", f"{name}.msg", package=package).read_text(encoding="utf-8")
    except (OSError, LookupError, ImportError) as error:
        raise BagError(f"message type {msgtype!r}: no definition is installed ({error})") from error


def _element(field: Any) -> Any:
    """Return the field of which an array or a sequence has several; any other field as it is."""
    kind, value = field  # of an array or a sequence, value is (element, length)
    return value[0] if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE} else field


def _spell(field: Any) -> str:
    """Return a field's type as a definition has it: `string`, `float64[]`, `std_msgs/msg/Header`."""
    kind, value = field
    if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE}:
        element, length = value
        return f"{_spell(element)}[{length or ''}]"
    return str(value if kind == Nodetype.NAME else value[0])


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

    def find_difference(self, msgtype: str) -> str:
        """Return, as "found ..., expected ...", how a declared type differs from the installed one.

        Empty for equal types and for those that are not installed. Further fields of another package's type
        are no difference: nobody here asks for them.
        """
        installed = _installed(msgtype)
        if installed is None or installed.type_hash(msgtype) == self.type_hash(msgtype):
            return ""
        found, expected = self._fields(msgtype), installed._fields(msgtype)
        words = [f"without {name}" for name in expected if name not in found]
        changed = {name: kind for name, kind in found.items() if expected.get(name, kind) != kind}
        words += [f"with {name} as {kind} instead of {expected[name]}" for name, kind in changed.items()]
        if msgtype.startswith("remote_inference/"):
            words += [f"with {name}" for name in found if name not in expected]
            words = words or ["with its fields in another order"]
        expectation = f"expected the messages of version {__version__} of this package"
        return f"found {msgtype} {', '.join(words)}, {expectation}" if words else ""

    def _fields(self, msgtype: str, prefix: str = "") -> dict[str, str]:
        """Return the fields of a declared type and of the types in it, spelt as in a definition."""
        fields: dict[str, str] = {}
        for name, field in self._store.fielddefs[msgtype][1]:
            fields[f"{prefix}{name}"] = _spell(field)
            kind, value = _element(field)
            if kind == Nodetype.NAME:
                fields |= self._fields(value, f"{prefix}{name}.")
        return fields

    def type_hash(self, msgtype: str) -> str:
        """Return the hash of a declared type's fields and of all types in it, as ROS 2 computes it."""
        return self._store.hash_rihs01(msgtype)


@lru_cache(maxsize=64)
def _installed(msgtype: str) -> MessageDecoder | None:
    """Return a decoder of an installed type, None when it is not installed."""
    decoder = MessageDecoder()
    try:
        decoder.add_type(msgtype, "")
    except (TypesysError, BagError):
        return None
    return decoder
