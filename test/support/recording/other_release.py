# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags as another release of the package, or another program, would have written them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from remote_inference.recording.bags.bag import open_bag
from remote_inference.recording.bags.bag_records import CONTRACT_KEY
from remote_inference.recording.bags.message_decoder import SEPARATOR, MessageDecoder

Definitions = Mapping[str, Callable[[str], str]]  # by type, what becomes of a definition's text
Change = Callable[[str, Any], None]  # changes a message of a topic
RENAMED = "_now"  # at the end of a renamed field's name


def rewrite(
    source: Path,
    target: Path,
    definitions: Definitions | None = None,
    change: Change = lambda topic, message: None,
    *,
    rename: Mapping[str, str] | None = None,
    contract: str = "",
) -> Path:
    """Write a bag anew with other definitions. Fields of the same name keep their values, new ones are empty.

    rename: other names of topics. contract: another text of it.
    """
    with open_bag(source) as whole:
        contract = contract or whole.contract
    with Reader(source) as bag, Writer(target, version=9, storage_plugin=StoragePlugin.MCAP) as out:
        out.set_custom_data(CONTRACT_KEY, contract)
        before, after = MessageDecoder(), get_typestore(Stores.EMPTY)
        for connection in bag.connections:
            text = connection.msgdef.data
            before.add_type(connection.msgtype, text)
            own, *nested = text.split(SEPARATOR)
            own = (definitions or {}).get(connection.msgtype, str)(own)
            after.register(get_types_from_msg(SEPARATOR.join([own, *nested]), connection.msgtype))
        names = {c.id: (rename or {}).get(c.topic, c.topic) for c in bag.connections}
        written = {c.id: out.add_connection(names[c.id], c.msgtype, typestore=after) for c in bag.connections}
        for connection, stamp_ns, data in bag.messages():
            message = _convert(before.decode(connection.msgtype, data), after)
            change(connection.topic, message)
            out.write(written[connection.id], stamp_ns, after.serialize_cdr(message, connection.msgtype))
    return target


def _convert(message: Any, store: Typestore) -> Any:
    kind = store.types[message.__msgtype__]
    own = store.fielddefs[message.__msgtype__][1]
    return kind(**{name: _value(message, name, field) for name, field in own})


def _value(message: Any, name: str, kind: tuple[Any, Any]) -> Any:
    value = getattr(message, name, getattr(message, name.removesuffix(RENAMED), None))
    node, what = kind
    if node == Nodetype.NAME:
        return value
    if node in {Nodetype.ARRAY, Nodetype.SEQUENCE}:
        return np.empty(0) if value is None else value
    if what[0] == "string":
        return value if isinstance(value, str) else ""
    return value if isinstance(value, (bool, int, float)) else 0


def renamed(name: str) -> Callable[[str], str]:
    """Return what gives a field of a definition another name."""
    return lambda text: _replace_line(text, name, lambda kind: f"{kind} {name}{RENAMED}")


def retyped(name: str, kind: str) -> Callable[[str], str]:
    """Return what gives a field another type."""
    return lambda text: _replace_line(text, name, lambda _: f"{kind} {name}")


def grown(text: str) -> str:
    """Return a definition with fields that only a later release has."""
    return f"{text.rstrip()}\nstring novelty\nfloat64[] novelties\n"


def _replace_line(text: str, name: str, change: Callable[[str], str]) -> str:
    """Change the line of a field. change: from its type."""
    lines = text.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.split()[1:2] == [name])
    lines[place] = change(lines[place].split()[0])
    return "\n".join(lines) + "\n"
