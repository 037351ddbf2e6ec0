# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The topics, and what messages, services and actions are for, from the comments of their files."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from markdown_table import make_table
from rclpy.qos import HistoryPolicy, QoSProfile

from remote_inference.base.wire import qos

ROOT = Path(__file__).parents[1]


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
    (
        f"{ROBOT}{qos.PREVIEW_TOPIC}",
        "trajectory_msgs/JointTrajectory",
        qos.LATCHED_QOS,
        "robot to people, with `preview`: the actions ahead whenever a chunk joins them",
    ),
    (
        f"{ROBOT}{qos.PREVIEW_TOPIC}/<pose>",
        "nav_msgs/Path",
        qos.LATCHED_QOS,
        "the same for each pose of the contract, in the `header.frame_id` of its command",
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
            (f"`{name}`", f"`{kind}`" if "/" in kind else f"[{kind}](#{kind.lower()})", _qos(profile), why)
            for name, kind, profile, why in TOPICS
        ),
    )


def _qos(profile: QoSProfile) -> str:
    depth = "" if profile.history is HistoryPolicy.KEEP_ALL else f" {profile.depth}"
    words = [profile.reliability.name, f"{profile.history.name}{depth}", profile.durability.name]
    return ", ".join(words).replace("SYSTEM_DEFAULT", "VOLATILE").lower().replace("_", " ")


def messages() -> str:
    """Return a section for each message."""
    return _sections("msg")


def services() -> str:
    """Return a section for each service."""
    return _sections("srv")


def actions() -> str:
    """Return a section for each action."""
    return _sections("action")


def _sections(kind: str) -> str:
    return "\n\n".join(_describe(path) for path in sorted((ROOT / kind).glob(f"*.{kind}")))


def _describe(path: Path) -> str:
    """Return a type's section: what its file says at its head. Each field is explained in the file alone."""
    lines = takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    file = f"{path.parent.name}/{path.name}"
    head = " ".join(line.removeprefix("# ") for line in lines)
    return f"### {path.stem}\n\n{head} Fields: [{file}](../../{file})."
