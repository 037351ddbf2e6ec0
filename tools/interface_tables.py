# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the messages and services, from the comments of their files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from markdown_table import make_table
from rclpy.qos import HistoryPolicy, QoSProfile

from remote_inference.wire import qos

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"(?P<type>\S+)\s+(?P<name>[^\s=]+)\s*(?:=\s*(?P<value>[^#\s]+))?\s*(?:#\s*(?P<text>.*))?")


ROBOT, SERVER = "/<robot>/", "/<server>/"
# Topic, type, QoS, and who publishes to whom.
TOPICS = (
    (f"{ROBOT}{qos.OBSERVATION_TOPIC}", "Observation", qos.EXCHANGE_QOS, "robot to server: a request"),
    (f"{ROBOT}{qos.CHUNK_TOPIC}", "ActionChunk", qos.EXCHANGE_QOS, "server to robot: the answer"),
    (
        f"{ROBOT}{qos.STATE_TOPIC}",
        "ClientState",
        qos.LATCHED_QOS,
        "robot to people: on every change, and at 2 Hz",
    ),
    (
        f"{ROBOT}{qos.EXECUTED_TOPIC}",
        "ExecutedAction",
        qos.EXECUTED_QOS,
        "robot to bags: one in each control tick",
    ),
    (
        f"{ROBOT}{qos.HEARTBEAT_TOPIC}",
        "Heartbeat",
        qos.HEARTBEAT_QOS,
        "robot's control thread to its watchdog: one in each control tick, at most 100 a second",
    ),
    (
        f"{ROBOT}{qos.WATCHDOG_TOPIC}",
        "WatchdogState",
        qos.LATCHED_QOS,
        "watchdog to the robot and to people: on every change, and at 2 Hz",
    ),
    (f"{SERVER}status", "ServerStatus", qos.LATCHED_QOS, "server to all: on every change, and at 1 Hz"),
    (
        f"{SERVER}{qos.WEIGHTS_TOPIC}",
        "WeightsFragment",
        qos.WEIGHTS_QOS,
        "trainers to a node that takes weights: pieces of frames",
    ),
    (
        f"{SERVER}{qos.WEIGHTS_REPLIES_TOPIC}",
        "WeightsFragment",
        qos.WEIGHTS_REPLIES_QOS,
        "that node to trainers: answers, and what it has read",
    ),
)


def topics_table() -> str:
    """Return the package's own topics."""
    return make_table(
        ("topic", "type", "QoS", "from and to"),
        (
            (f"`{name}`", f"[{kind}](#{kind.lower()})", _qos(profile), why)
            for name, kind, profile, why in TOPICS
        ),
    )


def _qos(profile: QoSProfile) -> str:
    depth = "" if profile.history is HistoryPolicy.KEEP_ALL else f" {profile.depth}"
    words = [profile.reliability.name, f"{profile.history.name}{depth}", profile.durability.name]
    return ", ".join(words).replace("SYSTEM_DEFAULT", "VOLATILE").lower().replace("_", " ")


def messages() -> str:
    """Return a section for each message."""
    return "\n\n".join(_describe(path) for path in sorted(ROOT.glob("msg/*.msg")))


def services() -> str:
    """Return a section for each service: what is asked, what is answered."""
    return "\n\n".join(_describe(path) for path in sorted(ROOT.glob("srv/*.srv")))


def actions() -> str:
    """Return a section for each action: its goal, its result, what is told meanwhile."""
    return "\n\n".join(_describe(path) for path in sorted(ROOT.glob("action/*.action")))


PARTS = {1: (), 2: ("Request", "Response"), 3: ("Goal", "Result", "Feedback")}


def _describe(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    head = [line.removeprefix("# ") for line in _leading_comments(text)]
    parts = [_table(part) for part in re.split(r"^---$", text, flags=re.MULTILINE)]
    if names := PARTS[len(parts)]:
        parts = [f"{name}:\n\n{part}" for name, part in zip(names, parts, strict=True)]
    return "\n\n".join([f"### {path.stem}", " ".join(head), *parts])


def _leading_comments(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line


def _table(text: str) -> str:
    """Return the fields and constants of a part of a file, in order; a constant names its value."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if not lines:
        return "Nothing."
    return make_table(("field", "type", "meaning"), (_row(line) for line in lines))


def _row(line: str) -> tuple[str, str, str]:
    found = LINE.fullmatch(line)
    if found is None:
        raise LookupError(f"{line}: expected a field or a constant")
    name = f"{found['name']} = {found['value']}" if found["value"] else found["name"]
    return f"`{name}`", f"`{found['type']}`", (found["text"] or "").strip()
