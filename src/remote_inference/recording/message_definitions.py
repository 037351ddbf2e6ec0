# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Message definitions as rosbag2 embeds them in a bag, from the installed packages.

Every bag carries the full text of its message definitions, comments included. So Foxglove and PlotJuggler
open the bag as it is, and it stays readable when the installed messages have grown.
"""

from __future__ import annotations

from typing import Any

from rosbags.interfaces import Nodetype
from rosbags.typesys import get_types_from_msg

from remote_inference.paths import share_path
from remote_inference.recording.bag_error import BagError

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
        waiting += _nested_types(text, name)
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


def _nested_types(text: str, msgtype: str) -> list[str]:
    _, fields = get_types_from_msg(text, msgtype)[msgtype]
    # A field is (kind, value). Of an array or a sequence, value is (element, length); element is a field.
    elements: list[Any] = [
        value[0] if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE} else (kind, value)
        for _, (kind, value) in fields
    ]
    return [value for kind, value in elements if kind == Nodetype.NAME]
