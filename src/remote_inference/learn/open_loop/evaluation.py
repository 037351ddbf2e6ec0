# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays the requests of a bag to a policy, and sums up how its chunks differ from those then.

Chunks are in the policy's units, executed actions in the robot's: errors are in the robot's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from remote_inference.bags.storage.bag import BagReader, OnProgress
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.robot_bag import FloatArray, RobotBag
from remote_inference.base.admission import make_offer
from remote_inference.base.contract.image_source import RAW
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import ImageFeature, SessionOffer
from remote_inference.base.policy import Float32Array
from remote_inference.base.wire.arrays import WireError, read_message
from remote_inference.base.wire.chunk import chunk_from_message
from remote_inference.learn.open_loop.alignment import AlignedChunk, Alignment
from remote_inference.msg import Observation

# -- Errors of predicted actions by joint and by row of the chunk, summed up without keeping them --------

QUANTILE = 0.95
# Errors are counted in classes whose bounds grow by RATIO, so that a quantile is exact to 1 % at any unit.
RATIO = 1.01
SMALLEST = 1e-9
LARGEST = 1e6  # what is larger counts as this in a quantile
CLASSES = 3_500


@dataclass(frozen=True)
class JointErrors:
    """The errors of one joint, in its unit."""

    name: str
    unit: str
    mean_abs: float
    rms: float
    p95: float  # of the absolute error, exact to 1 %
    max: float
    mean_abs_by_row: tuple[float, ...]  # NaN where no row was compared


class ErrorSums:
    """Sums up the errors of any number of chunks."""

    def __init__(self, names: Sequence[str], units: Sequence[str], chunk_size: int) -> None:
        """names, units: of the actions [action_dim]. chunk_size: actions of a chunk."""
        self._names = tuple(names)
        self._units = tuple(units)
        dim = len(self._names)
        self._rows = np.zeros(chunk_size, np.int64)
        self._absolute = np.zeros((chunk_size, dim))
        self._square = np.zeros(dim)
        self._largest = np.zeros(dim)
        self._classes = np.zeros((dim, CLASSES), np.int64)

    @property
    def rows(self) -> int:
        """How many actions were compared."""
        return int(self._rows.sum())

    def add(self, rows: Sequence[int], predicted: FloatArray, expected: FloatArray) -> None:
        """Add actions of one chunk: their places in it, and both values `[len(rows), action_dim]`."""
        places = np.asarray(rows, np.intp)
        if not len(places):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(np.asarray(predicted, np.float64) - np.asarray(expected, np.float64))
            self._rows[places] += 1
            self._absolute[places] += errors
            self._square += (errors**2).sum(axis=0)
            self._largest = np.maximum(self._largest, errors.max(axis=0))
            counted = np.clip(np.nan_to_num(errors, nan=LARGEST), SMALLEST, LARGEST)
            classes = (np.log(counted / SMALLEST) / np.log(RATIO)).astype(np.intp)
            for joint in range(errors.shape[1]):
                self._classes[joint] += np.bincount(classes[:, joint], minlength=CLASSES)

    def mean_abs(self, rows: int) -> FloatArray:
        """Return the mean absolute errors `[action_dim]` of the first rows of the chunks; NaN without any."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._absolute[:rows].sum(axis=0) / self._rows[:rows].sum(), np.float64)

    def by_joint(self) -> tuple[JointErrors, ...]:
        """Return the errors of each joint; none when no row was compared."""
        if not self.rows:
            return ()
        with np.errstate(invalid="ignore"):
            by_row = self._absolute / self._rows[:, np.newaxis]
        return tuple(
            JointErrors(
                name,
                unit,
                float(self._absolute[:, joint].sum() / self.rows),
                float(np.sqrt(self._square[joint] / self.rows)),
                self._quantile(joint),
                float(self._largest[joint]),
                tuple(by_row[:, joint].tolist()),
            )
            for joint, (name, unit) in enumerate(zip(self._names, self._units, strict=True))
        )

    def _quantile(self, joint: int) -> float:
        counts = np.cumsum(self._classes[joint])
        place = int(np.searchsorted(counts, QUANTILE * counts[-1]))
        if place == 0:
            return 0.0
        return float(min(SMALLEST * RATIO ** (place + 0.5), self._largest[joint]))


# -- Who answers recorded requests, and what an answer is ------------------------------------------------


class ReplayError(UserError):
    """Recorded requests cannot be replayed to a policy; the message has the reason."""


@dataclass(frozen=True)
class PolicyIdentity:
    """Which policy answers."""

    source: str  # path of its manifest, or name of its server
    name: str
    revision: str
    fingerprint: str
    chunk_size: int  # rows
    uses_prefix: bool  # its chunks continue the rows that the robot executes meanwhile


@dataclass(frozen=True)
class Answer:
    """A chunk `[chunk_size, action_dim]` in both spaces, or why there is none."""

    model: Float32Array
    robot: Float32Array
    problem: str = ""


class Answerer(Protocol):
    """Answers requests in the order in which a robot made them."""

    policy: PolicyIdentity

    def ask(self, session_id: str, request: bytes) -> Answer:
        """Return the answer to a serialized Observation. session_id: of the recorded session."""


def require_history(source: str, observation_steps: int, offer: SessionOffer) -> None:
    """Raise ReplayError unless the requests show as many control ticks as the policy sees."""
    if observation_steps != offer.max_observation_steps:
        raise ReplayError(
            f"{source} does not fit the bag (history): its policy sees {observation_steps} control ticks, "
            f"the recorded requests show {offer.max_observation_steps}"
        )


# -- The robot's offer of recorded requests: their joints and cameras, in order ---------------------------

STATUS_TYPE = "remote_inference/msg/ServerStatus"


def find_offer(robot: RobotBag) -> SessionOffer:
    """Return the offer of a robot that could have sent the recorded requests.

    Raises BagError when the bag holds no contract or no requests, they cannot be read, or nothing shows which
    of the contract's cameras they show.
    """
    bag, contract = robot.bag, robot.require_contract()
    topic = robot.topic("observation")
    message = _first_request(bag, topic)
    offer = make_offer(contract, client="replay", robot_namespace=robot.namespace or "/")
    return replace(
        offer,
        images=_find_cameras(bag, topic, message, offer.images),
        task=message.task,
        wants_rtc=True,
        max_observation_steps=message.history_steps + 1,
    )


def _first_request(bag: BagReader, topic: str) -> Observation:
    if topic not in bag.topics:
        raise BagError(
            f"{bag.path}: found no {topic}, expected the recorded requests, which a policy is asked"
        )
    first = next(bag.raw_messages([topic]), None)
    if first is None:
        raise BagError(f"{bag.path}: found no message on {topic}, expected the recorded requests")
    try:
        return read_message(first[2], Observation, "the first request")
    except WireError as error:
        raise BagError(f"{bag.path}: {error}") from error


def _find_cameras(
    bag: BagReader, topic: str, message: Observation, cameras: Sequence[ImageFeature]
) -> tuple[ImageFeature, ...]:
    """Return which of the contract's cameras the requests show: all of them, or those of the policy then."""
    candidates = [tuple(cameras), ()]
    if not any(_shows(message, images) for images in candidates):
        needed = _needed_then(bag)
        candidates = [tuple(image for image in cameras if image.name in names) for names in needed]
    found = {images for images in candidates if _shows(message, images)}
    if len(found) == 1:
        return found.pop()
    shown = len(message.images) + len(message.raw_images)
    names = ", ".join(image.name for image in cameras) or "no camera"
    raise BagError(
        f"{bag.path}: {topic} shows {shown} images, the contract has {len(cameras)} ({names}): expected all "
        "of them, or the status of the server in the bag, which names those that its policy used"
    )


def _shows(message: Observation, images: Sequence[ImageFeature]) -> bool:
    raw = sum(image.encoding == RAW for image in images)
    return (len(message.images), len(message.raw_images)) == (len(images) - raw, raw)


def _needed_then(bag: BagReader) -> set[frozenset[str]]:
    """Return the camera features of each policy in the bag, by the status of its server."""
    topics = [name for name, topic in bag.topics.items() if topic.msgtype == STATUS_TYPE]
    messages = bag.messages(topics) if topics else ()
    return {frozenset(status.image_features) for _, _, status in messages if status.policy_name}


# -- The begin of a comparison, to be drawn: what was executed, and the chunks that were predicted for it

LENGTH_S = 15.0


class Excerpt:
    """Keeps the first LENGTH_S from the first executed action on."""

    def __init__(self, names: Sequence[str], units: Sequence[str], period_s: float) -> None:
        """names, units: of the actions. period_s: of the policy's actions."""
        self.names = tuple(names)
        self.units = tuple(units)
        self.period_s = period_s
        self.executed: dict[int, FloatArray] = {}  # action by tick
        self.chunks: list[tuple[int, FloatArray]] = []  # tick of row 0, and the rows
        self.first: int | None = None  # tick

    def add(self, aligned: AlignedChunk, rows: FloatArray) -> None:
        """Add a chunk's actions and what was executed in their place."""
        if aligned.begin is None or not aligned.places:
            return
        if self.first is None:
            self.first = aligned.begin + aligned.places[0]
        end = self.first + round(LENGTH_S / self.period_s)
        if not self.first <= aligned.begin + aligned.places[0] < end:
            return
        self.chunks.append((aligned.begin, rows))
        for place, action in zip(aligned.places, aligned.actions, strict=True):
            if aligned.begin + place < end:
                self.executed[aligned.begin + place] = action


MOST_UNANSWERED = 1_000  # requests whose recorded chunk may still come
Key = tuple[str, int]  # session and seq_id


@dataclass
class Evaluation:
    """How one policy's answers to the requests of a bag differ from what was answered and executed."""

    policy: PolicyIdentity
    recorded: ErrorSums  # from the recorded chunks
    executed: ErrorSums  # from the actions that were executed
    excerpt: Excerpt
    requests: int = 0
    failed: int = 0  # requests without an answer of this policy
    first_failure: str = ""
    compared_chunks: int = 0
    identical_chunks: int = 0  # bit for bit, in both spaces
    same_policy_chunks: int = 0  # recorded from the policy of this fingerprint
    with_prefix: int = 0  # requests that continue a chunk
    recorded_policies: set[str] = field(default_factory=set)  # fingerprints


def evaluate(robot: RobotBag, answerer: Answerer, on_progress: OnProgress) -> Evaluation:
    """Replay a robot's requests to a policy. Raises BagError for a bag that is damaged or does not fit."""
    return _Run(robot, answerer).read(on_progress)


class _Run:
    def __init__(self, robot: RobotBag, answerer: Answerer) -> None:
        self._robot, self._bag = robot, robot.bag
        contract = robot.require_contract()
        self._names = contract.actions.names
        self._units = contract.action_units
        # Actions of chunks are offsets then, executed ones are targets.
        self._is_relative = contract.actions.is_relative
        self._answerer = answerer
        units = [contract.actions.unit(name) for name in self._names]
        rows = answerer.policy.chunk_size
        self._found = Evaluation(
            answerer.policy,
            recorded=ErrorSums(self._names, units, rows),
            executed=ErrorSums(self._names, units, rows),
            excerpt=Excerpt(self._names, units, contract.row_period_s),
        )
        self._alignment = Alignment(contract.ticks_per_row)
        self._answers: OrderedDict[Key, Answer] = OrderedDict()  # whose recorded chunk may still come

    def read(self, on_progress: OnProgress) -> Evaluation:
        robot, bag = self._robot, self._bag
        observation, chunk = robot.topic("observation"), robot.topic("chunk")
        wanted = robot.topics("observation", "chunk", "executed")
        for topic, stamp_ns, data in bag.raw_messages(wanted, on_progress=on_progress):
            if topic == observation:
                self._ask_policy(data)
            elif topic == chunk:
                self._compare_chunk(bag.decode(topic, stamp_ns, data))
            else:
                self._compare_tick(bag.decode(topic, stamp_ns, data))
        self._compare(self._alignment.finish())
        return self._found

    def _ask_policy(self, data: bytes) -> None:
        found = self._found
        found.requests += 1
        try:
            message = read_message(data, Observation, f"request {found.requests} of the bag")
        except WireError as error:
            self._fail(str(error))
            return
        found.with_prefix += message.prefix_length > 0
        answer = self._answerer.ask(message.session_id, data)
        if answer.problem:
            self._fail(f"request {message.seq_id}: {answer.problem}")
            return
        key = message.session_id, int(message.seq_id)
        self._answers[key] = answer
        if len(self._answers) > MOST_UNANSWERED:
            self._answers.popitem(last=False)
        stamp_ns = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        self._alignment.add_request(*key, stamp_ns, len(answer.robot), answer)

    def _fail(self, problem: str) -> None:
        self._found.failed += 1
        self._found.first_failure = self._found.first_failure or problem

    def _compare_chunk(self, message: Any) -> None:
        try:
            chunk = chunk_from_message(message)
        except WireError as error:
            raise BagError(f"{self._bag.path}: chunk {message.seq_id}: {error}") from error
        answer = self._answers.pop((chunk.session_id, chunk.seq_id), None)
        if answer is None or not chunk.robot.size:
            return
        found = self._found
        self._require(f"chunk {chunk.seq_id}", chunk.robot.shape[1], self._units.policy_dim)
        found.compared_chunks += 1
        found.identical_chunks += all(
            mine.tobytes() == theirs.tobytes()
            for mine, theirs in ((answer.robot, chunk.robot), (answer.model, chunk.model))
        )
        found.recorded_policies.add(chunk.policy_version)
        found.same_policy_chunks += chunk.policy_version == found.policy.fingerprint
        rows = min(len(answer.robot), len(chunk.robot))
        answered, recorded = (self._units.to_robot(one.robot[:rows]) for one in (answer, chunk))
        found.recorded.add(range(rows), answered, recorded)

    def _compare_tick(self, message: Any) -> None:
        if len(message.joint_names) and tuple(message.joint_names) != self._names:
            raise BagError(
                f"{self._bag.path}: the executed actions are not the contract's: found "
                f"{', '.join(message.joint_names)}, expected {', '.join(self._names)}"
            )
        if len(message.action):
            self._require(f"tick {message.tick}", len(message.action), len(self._names))
        self._compare(self._alignment.add_tick(message))

    def _require(self, what: str, found: int, expected: int) -> None:
        if found != expected:
            raise BagError(
                f"{self._bag.path}: {what} has {found} actions, the contract {expected}: expected "
                "the contract of the recorded robot"
            )

    def _compare(self, aligned: Iterable[AlignedChunk]) -> None:
        for one in aligned if not self._is_relative else ():
            rows = self._units.to_robot(one.payload.robot)
            self._found.executed.add(one.places, rows[one.places], one.actions)
            self._found.excerpt.add(one, rows)
