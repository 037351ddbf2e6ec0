# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The metadata records that the recorder writes between the messages of an MCAP file: name, and text by key.

A value that is not a plain text is JSON. `docs/reference/bags.md` explains them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from rosbags.interfaces import Qos, QosTime

from remote_inference.base.errors import UserError
from remote_inference.base.paths import PACKAGE
from remote_inference.base.repeats import Repeats

# Topics of a robot of this package, below its namespace and PACKAGE.
TOPIC_TYPES: Mapping[str, str] = {
    "executed": f"{PACKAGE}/msg/ExecutedAction",
    "state": f"{PACKAGE}/msg/ClientState",
    "observation": f"{PACKAGE}/msg/Observation",
    "chunk": f"{PACKAGE}/msg/ActionChunk",
    "decisions": f"{PACKAGE}/msg/Decisions",
    "watchdog": f"{PACKAGE}/msg/WatchdogState",
}
SERVER_STATUS = f"{PACKAGE}/msg/ServerStatus"


class BagError(UserError):
    """A bag cannot be written or read; names the bag and what is wrong with it."""


class UnsupportedBagError(BagError):
    """A bag is of a kind that cannot be read here, whole as it may be."""


# The clock of a recording: wall time at its start, and from there on as steady as the monotonic clock.
# So messages stay in order when somebody sets the wall clock, which robots without a battery do after each
# start.
JUMP_NS = 50_000_000  # smaller steps are those of reading two clocks one after the other on a busy machine


class BagClock:
    """Stamps messages, and detects jumps of the wall clock."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._offset_ns = wall_ns() - steady_ns()
        self._jumped_ns = 0

    def now_ns(self) -> int:
        return self._steady_ns() + self._offset_ns

    def find_jump(self) -> dict[str, str]:
        """Return the values of a record CLOCK when the wall clock has jumped since the last call, else none.

        jump_s: its step. ahead_s: the wall clock minus the bag's from now on.
        """
        now_ns = self.now_ns()
        ahead_ns = self._wall_ns() - now_ns
        jump_ns = ahead_ns - self._jumped_ns
        if abs(jump_ns) < JUMP_NS:
            return {}
        self._jumped_ns = ahead_ns
        return {"at_ns": str(now_ns), "jump_s": f"{jump_ns * 1e-9:.3f}", "ahead_s": f"{ahead_ns * 1e-9:.3f}"}


SEQUENCES = 1 << 32  # MCAP keeps 32 bits of a number


def count_missing(before: int, after: int) -> int:
    """Return how many messages lie between two of one publisher. 0: unknown, or a restart."""
    step = (after - before) % SEQUENCES
    return step - 1 if before and after and 0 < step < SEQUENCES // 2 else 0


class LostMessages:
    """Counts the messages that did not reach the recorder, by their publishers' numbers."""

    def __init__(self) -> None:
        self.before: Counter[str] = Counter()  # lost on the way to the recorder, by topic
        self.uncounted: set[str] = set()  # topics with several publishers, whose numbers interleave
        self._last: dict[str, int] = {}

    def add(self, topic: str, sequence: int) -> None:
        """Add the number of the next message of a topic, 0 where the middleware gives none."""
        if topic not in self.uncounted and (missing := count_missing(self._last.get(topic, 0), sequence)):
            self.before[topic] += missing
        self._last[topic] = sequence

    def set_publishers(self, topic: str, publishers: int) -> None:
        """Set how many publishers a topic has; several numbers cannot be counted."""
        if publishers > 1 and topic not in self.uncounted:
            self.uncounted.add(topic)
            del self.before[topic]  # numbers of two that interleave, taken for one's


LOSS_CAUSES = {
    "queue": "the queue is full, the disk is too slow",
    "before": "they did not reach the recorder",
}


class LossReport:
    """The lines on losses for the log: of a topic that begins to lose at once, of growth fewer and fewer."""

    def __init__(self) -> None:
        self._repeats = Repeats()
        self._told: dict[str, dict[str, int]] = {cause: {} for cause in LOSS_CAUSES}

    def lines(self, losses: Mapping[str, Mapping[str, int]], now_s: float) -> list[str]:
        """Return the lines that are due at `now_s` [s, monotonic].

        losses: messages lost so far, by cause and topic.
        """
        found = []
        for cause, why in LOSS_CAUSES.items():
            lost, told = losses[cause], self._told[cause]
            grown = [f"{count} of {name}" for name, count in lost.items() if count > told.get(name, 0)]
            topics = " ".join([cause, *sorted(lost)])  # with one more, it is another matter
            if grown and self._repeats.left_out(topics, now_s) is not None:
                self._told[cause] = dict(lost)
                found.append(f"messages lost so far: {', '.join(grown)}: {why}")
        return found


PREFIX = "remote_inference."
SPLIT = f"{PREFIX}split"  # first in each split: which bag and split, and the digest that it follows
LINK = f"{PREFIX}link"  # after each chunk: the digest of all since the link before
RUN = f"{PREFIX}run"  # package version, contract and the recorder's parameters
NODE = f"{PREFIX}node"  # parameters of the robot's node
POLICY = f"{PREFIX}policy"  # a server's policy: name, revision, fingerprint
LOSSES = f"{PREFIX}losses"  # messages lost so far, by topic
CLOCK = f"{PREFIX}clock"  # the wall clock jumped
DROPPED = f"{PREFIX}dropped"  # splits that the disk budget has cost so far
END = f"{PREFIX}end"  # last in the bag: why the recording ended
REPAIR = f"{PREFIX}repair"  # what `verify --repair` could not bring back; written by it, behind the last link
ROSBAG2 = "rosbag2"  # rosbag2's own: metadata.yaml as it was when the split was finished
UNLINKED = frozenset({LINK, REPAIR, ROSBAG2})  # not part of the chain

FORMAT = "1"  # of these records
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # no message begins so: the first byte of one is 0

# Keys of the custom data in metadata.yaml.
CONTRACT_KEY = f"{PREFIX}contract"  # its text ...
QUOTED_CONTRACT_KEY = f"{PREFIX}contract_quoted"  # ... percent-encoded, where `ros2 bag` wrote it


@dataclass(frozen=True)
class BagTopic:
    """One recorded topic. `offered_qos`: the QoS of its publishers, which `ros2 bag play` offers again."""

    name: str
    msgtype: str  # as in "std_msgs/msg/Header"
    offered_qos: tuple[Qos, ...] = ()

    def qos_document(self) -> list[dict[str, Any]]:
        """Return the offered QoS as the metadata of a bag holds them."""
        return [{name: _plain(value) for name, value in qos._asdict().items()} for qos in self.offered_qos]

    def qos_text(self) -> str:
        """Return the offered QoS as a channel of an MCAP file holds them."""
        return yaml.safe_dump(self.qos_document(), sort_keys=False).strip() if self.offered_qos else ""


def absolute_name(topic: str) -> str:
    """Return a topic's name as ROS has it: some tools leave the slash out."""
    return topic if topic.startswith("/") else f"/{topic}"


def advise_repair(bag: Path) -> str:
    """Return what brings back the messages of a bag that is damaged or was never finished."""
    return f"`remote-inference verify {bag} --repair NEW_FOLDER` recovers what is whole"


def read_qos(recorded: Any) -> tuple[Qos, ...]:
    """Return the QoS that a channel or metadata.yaml has; none when it makes no sense: readers go on."""
    return _parse_qos(recorded if isinstance(recorded, str) else json.dumps(recorded, default=str))


@lru_cache(maxsize=1024)  # most channels have one of a few, and its YAML takes milliseconds
def _parse_qos(text: str) -> tuple[Qos, ...]:
    from rosbags.rosbag2 import ReaderError  # noqa: PLC0415  slow to import, and a recorder needs it not
    from rosbags.rosbag2.metadata import parse_qos  # noqa: PLC0415

    try:
        return tuple(parse_qos(text))
    except (ReaderError, TypeError, KeyError, ValueError, AttributeError):
        return ()


def _plain(value: Any) -> Any:
    if isinstance(value, QosTime):
        return value._asdict()
    return value.name.lower() if isinstance(value, Enum) else value


@dataclass(frozen=True)
class Link:
    """One closed link of the digest chain."""

    digest: bytes  # [32]
    messages: int  # in this link
    total: int  # in the bag so far

    def values(self) -> dict[str, str]:
        return {"digest": self.digest.hex(), "messages": str(self.messages), "total": str(self.total)}

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Link:
        """Read a record's values. Raises BagError when they are not a link's."""
        try:
            link = cls(bytes.fromhex(values["digest"]), int(values["messages"]), int(values["total"]))
        except (KeyError, ValueError) as error:
            expected = "digest, messages, total"
            raise BagError(f"record {LINK}: found {dict(values)}, expected {expected}") from error
        if len(link.digest) != 32:
            raise BagError(f"record {LINK}: found a digest of {len(link.digest)} bytes, expected 32")
        return link


def policy_of(status: Any) -> dict[str, str]:
    """Return the values of the record POLICY that a ServerStatus says."""
    policy = {name: getattr(status, f"policy_{name}") for name in ("name", "revision", "fingerprint")}
    return {"server": status.server, **policy, "manifest_digest": status.manifest_digest}


def read_json(name: str, values: Mapping[str, str], key: str) -> Any:
    """Return the JSON value of a record. Raises BagError when it is absent or no JSON."""
    try:
        return json.loads(values[key])
    except (KeyError, ValueError) as error:
        raise BagError(f"record {name}: found no JSON in {key!r}") from error
