# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a run, or a part of one, for provenance: what was commanded, and all that it came from.

A bag is read once from begin to end. Images and chunks are not kept whole: of an image its facts, of a chunk
its rows.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from remote_inference.bags.provenance.motion import (
    Command,
    ImageFacts,
    Policy,
    Request,
    RobotStatus,
    WatchdogChange,
    find_at,
)
from remote_inference.bags.storage.bag import OnProgress, no_progress
from remote_inference.bags.storage.bag_file import Window
from remote_inference.bags.storage.bag_records import POLICY, SERVER_STATUS, BagError, policy_of
from remote_inference.bags.timeline import messages
from remote_inference.bags.timeline.messages import Newest, RecordedChunk, RequestKey
from remote_inference.bags.timeline.robot_bag import RobotBag
from remote_inference.base.contract.image_source import RAW, find_encoding
from remote_inference.base.policy import fingerprint_of
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError
from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.robot.command import CommandSource
from remote_inference.robot.decisions import DecisionDecoder
from remote_inference.robot.journal import Entry, time_of
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.watchdog import WatchdogState

_REMEMBERED = 5_000  # calls of the engine; a request and the journal's message of it are a moment apart

# Arrivals by topic: of the newest message, and of the newest one at the last control tick.
_Seen = tuple[Mapping[str, int], Mapping[str, int]]


class JournalTimes:
    """Finds sensor arrivals of requests in the messages of the topic `decisions`; either may come first.

    All times are the robot's monotonic clock [ns].
    """

    def __init__(self) -> None:
        self._decoder = DecisionDecoder()
        self._run: tuple[int, int] | None = None  # instance, and place of the entry that must come next
        self._calls: OrderedDict[int, _Seen] = OrderedDict()  # by the time of the call
        self._seen: _Seen = ({}, {})
        self._has_sets = False  # sources had to fit together
        self._wanted: dict[int, bool] = {}
        self.arrivals: dict[int, Mapping[str, int]] = {}  # by the time of a request
        self.chunk_ns: dict[RequestKey, int] = {}  # when a request's first chunk came to the robot
        self.problem = ""  # why something of the journal could not be read

    def add_request(self, request_ns: int, *, of_ticks: bool) -> None:
        """Find the arrivals of a request that was made then. of_ticks: its observation shows ticks."""
        if request_ns in self._calls:
            self.arrivals[request_ns] = self._calls[request_ns][of_ticks]
        else:
            self._wanted[request_ns] = of_ticks

    def add(self, message: Any) -> None:
        run = int(message.instance), int(message.first)
        if run != self._run:  # another run of the node, or entries are missing: what is known is no longer so
            self._decoder, self._seen, self._has_sets = DecisionDecoder(), ({}, {}), False
        self._run = run[0], run[1] + int(message.count)
        try:
            for entry in self._decoder.decode(bytes(message.data)):
                self._add_entry(entry)
        except (WireError, IndexError, TypeError, AttributeError) as error:
            self.problem = self.problem or str(error)
            self._run = None

    def _add_entry(self, entry: Entry) -> None:
        method, arguments = entry.method, entry.arguments
        if method == "take_sensors":
            samples = arguments[3] if len(arguments) > 3 else ()
            self._seen = arguments[0], samples[-1].arrivals if samples else self._seen[1]
            self._has_sets |= any(sample.tick_ns is None for sample in samples)
            if self._has_sets:  # requests show older content, too
                self._seen = {}, {}
        elif method == "take_chunk":
            chunk, taken_ns = arguments[:2]
            arrival_ns = entry.named.get("arrival_ns")
            came_ns = taken_ns if arrival_ns is None else arrival_ns
            self.chunk_ns.setdefault((chunk.session_id, chunk.seq_id), came_ns)
        if (now_ns := time_of(entry)) is not None:
            self._note(now_ns)

    def _note(self, now_ns: int) -> None:
        if now_ns in self._wanted:
            self.arrivals[now_ns] = self._seen[self._wanted.pop(now_ns)]
        messages.remember(self._calls, now_ns, self._seen, _REMEMBERED)


# Topics of a robot, and what is not known without each.
TOPICS: Mapping[str, str] = {
    "executed": "no command can be explained",
    "observation": "the request, its images and what the policy saw are not known",
    "chunk": "the chunk, its latency and what the guard changed are not known",
    "state": "the node's state and its causes are not known",
    "decisions": "when each sensor's message had arrived is not known",
}
WATCHDOG = "watchdog"  # a robot may have none

Served = tuple[str, str]  # fingerprint of a policy, and its server
OnPictures = Callable[[Request, Sequence[Any]], None]  # the images' messages, in the request's order
OnCommand = Callable[[Command], None]


@dataclass
class Run:
    """What was read."""

    joint_names: tuple[str, ...] = ()
    rows: dict[RequestKey, list[int]] = field(default_factory=dict)  # that were executed of a chunk
    requests: dict[RequestKey, Request] = field(default_factory=dict)
    answers: dict[RequestKey, RecordedChunk] = field(default_factory=dict)
    standings: list[RobotStatus] = field(default_factory=list)
    watchdog: list[WatchdogChange] = field(default_factory=list)
    policies: dict[Served, Policy] = field(default_factory=dict)
    times: JournalTimes = field(default_factory=JournalTimes)
    missing: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    def policy_of(self, command: Command) -> Policy | None:
        """Return the policy of a command, that of the server in use where several have its weights."""
        served = self.served(command)
        if not served[0]:
            return None
        same = (policy for policy in self.policies.values() if policy.fingerprint == served[0])
        return self.policies.get(served) or next(same, None)

    def served(self, command: Command) -> Served:
        """Return which policy a command names, and the node's server at its time."""
        standing = find_at(self.standings, command.t_s)
        return fingerprint_of(command.policy_version), standing.server if standing else ""


def read_command(received_ns: int, message: Any, start_ns: int) -> Command:
    return messages.from_message(
        Command,
        message,
        t_s=(messages.stamped_ns(received_ns, message) - start_ns) * 1e-9,
        received_ns=received_ns,
        source=messages.name_of(CommandSource, message.source),
        action=tuple(map(float, message.action)),
        interventions=tuple(message.interventions),
        session_id=message.session_id if message.source == CommandSource.CHUNK else "",
        row=message.step_index,
        age_ms=message.action_age_s * 1e3 if math.isfinite(message.action_age_s) else None,
        earlier_seq_ids=tuple(map(int, message.earlier_seq_ids)),
    )


class RunReader:
    """Reads a robot's part of a bag."""

    def __init__(
        self,
        robot: RobotBag,
        on_command: OnCommand = lambda _: None,
        on_pictures: OnPictures = lambda *_: None,
    ) -> None:
        self._robot, self._bag = robot, robot.bag
        self._on_command, self._on_pictures = on_command, on_pictures
        adders: Mapping[str, Callable[[int, Any], None]] = {
            "executed": self._add_executed,
            "observation": self._add_observation,
            "chunk": self._add_chunk,
            "state": self._add_state,
            "decisions": lambda _, message: self.run.times.add(message),
            WATCHDOG: self._add_watchdog,
        }
        self._add = {robot.topic(kind): add for kind, add in adders.items()}
        contract = robot.contract
        cameras = contract.images if contract else {}
        # As a request has them: encoded images, then raw ones.
        self._cameras = tuple(sorted(cameras, key=lambda name: cameras[name].travels_as == RAW))
        self._state_units = contract.state_units if contract else None
        absent = {kind: unknown for kind, unknown in TOPICS.items() if not robot.topics(kind)}
        missing = [f"{robot.topic(kind)} is not in the bag: {unknown}" for kind, unknown in absent.items()]
        self.run = Run(missing=missing)

    def read(
        self,
        kinds: Sequence[str] = (*TOPICS, WATCHDOG),
        window: Window = (None, None),
        others: Mapping[str, Newest] = {},
        on_progress: OnProgress = no_progress,
    ) -> None:
        """Add the messages of some kinds. others: by topic, get reception [ns] and bytes of each message.

        Damage of the bag ends the reading, and is among what is missing.
        """
        if not (wanted := self._robot.topics(*kinds)):
            return
        try:
            for topic, received_ns, cdr in self._bag.raw_messages([*wanted, *others], window, on_progress):
                if topic in self._add:
                    self.add(topic, received_ns, self._bag.decode(topic, received_ns, cdr))
                else:
                    others[topic].add(received_ns, (received_ns, cdr))
        except BagError as error:
            self.run.damage.append(describe_damage(error))

    def add(self, topic: str, received_ns: int, message: Any) -> None:
        self._add[topic](received_ns, message)

    def read_policies(self, commands: Iterable[Command]) -> None:
        """Add the recorder's records of policies, or else those of some commands by the servers' status."""
        try:
            for name, values in self._bag.records():
                if name == POLICY:
                    policy = Policy(*(values.get(key.name, "") for key in fields(Policy)))
                    self.run.policies[policy.fingerprint, policy.server] = policy
            known = {"", *(fingerprint for fingerprint, _ in self.run.policies)}
            self._read_statuses({s for s in map(self.run.served, commands) if s[0] not in known})
        except BagError as error:
            self.run.missing.append(f"the policy's name and revision are not known: {error}")

    def _read_statuses(self, unknown: set[Served]) -> None:
        """Add the policies of these weights, until each was found in its server's status."""
        wanted = {fingerprint for fingerprint, _ in unknown}
        topics = [name for name, topic in self._bag.topics.items() if topic.msgtype == SERVER_STATUS]
        if not unknown or not topics:
            return
        for _, _, status in self._bag.messages(topics):
            policy = Policy(**policy_of(status))
            if policy.fingerprint in wanted:
                self.run.policies[policy.fingerprint, policy.server] = policy
                unknown.discard((policy.fingerprint, policy.server))
                if not unknown:
                    return

    def _add_executed(self, received_ns: int, message: Any) -> None:
        command = read_command(received_ns, message, self._bag.start_ns)
        self.run.joint_names = self.run.joint_names or tuple(message.joint_names)
        if command.request is not None:
            rows = self.run.rows.setdefault(command.request, [])
            if not (rows and command.row_fraction):
                rows.append(command.row)
        self._on_command(command)

    def _add_observation(self, received_ns: int, message: Any) -> None:
        pictures = [*message.images, *message.raw_images]
        named = self._cameras if len(self._cameras) == len(pictures) else ()
        images = tuple(
            describe_image(picture, named[place] if named else picture.header.frame_id or f"camera {place}")
            for place, picture in enumerate(pictures)
        )
        state = np.asarray(message.state, np.float64)
        if self._state_units is not None and len(state) == self._state_units.policy_dim:
            state = self._state_units.to_robot(state)  # in the robot's units, as everything else
        request = messages.from_message(
            Request,
            message,
            sent_s=self._bag.seconds(messages.stamped_ns(received_ns, message)),
            received_ns=received_ns,
            mono_ns=message.client_mono_ns,
            delay_steps=message.inference_delay_steps,
            prefix_rows=message.prefix_length,
            state=tuple(state.tolist()),
            images=images,
            capture_skew_ms=message.capture_skew_s * 1e3,
        )
        self.run.requests[messages.request_key(message)] = request
        self.run.times.add_request(request.mono_ns, of_ticks=request.history_steps > 0)
        self._on_pictures(request, pictures)

    def _add_chunk(self, received_ns: int, message: Any) -> None:
        self.run.answers.setdefault(messages.request_key(message), RecordedChunk.of(received_ns, message))

    def _add_state(self, received_ns: int, message: Any) -> None:
        t_s = self._bag.seconds(messages.stamped_ns(received_ns, message))
        before = self.run.standings[-1].paused_s if self.run.standings else None
        standing = messages.from_message(
            RobotStatus,
            message,
            t_s=t_s,
            state=messages.name_of(State, message.state),
            paused_s=(t_s if before is None else before) if message.paused else None,
            stale_sources=tuple(message.stale_sources),
        )
        _append_change(self.run.standings, standing)

    def _add_watchdog(self, received_ns: int, message: Any) -> None:
        t_s = self._bag.seconds(messages.stamped_ns(received_ns, message))
        state = messages.name_of(WatchdogState, message.state)
        _append_change(self.run.watchdog, WatchdogChange(t_s, state, message.cause, tuple(message.stops)))


def _append_change(seen: list[Any], new: Any) -> None:
    """Append a node's status unless it equals the one before. Instants do not fall.

    What is published later holds later, though somebody has set the node's clock back.
    """
    if seen and new.t_s < seen[-1].t_s:
        new = replace(new, t_s=seen[-1].t_s)
    if not seen or {**vars(seen[-1]), "t_s": 0.0} != {**vars(new), "t_s": 0.0}:
        seen.append(new)


def describe_damage(error: BagError) -> str:
    """Return what is missing after damage of a bag, in words."""
    return f"nothing behind the damage is known: {error}"


def describe_image(picture: Any, camera: str) -> ImageFacts:
    """Return the facts of a CompressedImage or an Image."""
    encoding = str(picture.format if hasattr(picture, "format") else picture.encoding)
    width, height = int(getattr(picture, "width", 0)), int(getattr(picture, "height", 0))
    known = find_encoding(picture.format) if hasattr(picture, "format") else None
    if known is not None:
        try:
            height, width = IMAGE_ENCODINGS.get(known).size(picture.data)
        except ImageError:
            width = height = 0
    digest = hashlib.sha256(picture.data).hexdigest()
    return ImageFacts(camera, encoding, width, height, len(picture.data), digest, stamp_ns(picture) or None)
