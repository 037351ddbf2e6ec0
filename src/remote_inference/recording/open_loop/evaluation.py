# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Streams a bag, asks a policy what the robot asked, and sums up how the answers differ.

Chunks are in the policy's units, executed actions in the robot's: errors are in the robot's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import Chunk
from remote_inference.msg import Observation
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.open_loop.alignment import Alignment, Laid
from remote_inference.recording.open_loop.answers import Answer, Answerer, PolicyIdentity
from remote_inference.recording.open_loop.errors import ErrorSums
from remote_inference.recording.open_loop.excerpt import Excerpt
from remote_inference.wire import WireError, chunk_from_message
from remote_inference.wire.serialized import read_message

OWN = "remote_inference"
MOST_UNANSWERED = 1_000  # requests whose recorded chunk may still come
Tell = Callable[[float], None]  # takes the fraction of the bag that is done
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


def evaluate(
    bag: BagReader, namespace: str, contract: Contract, answerer: Answerer, tell: Tell = lambda _: None
) -> Evaluation:
    """Ask a policy about all requests of a robot in a bag.

    namespace: the robot's, without a slash at its end. Raises BagError for a damaged bag or one of other
    joints than the contract's.
    """
    return _Run(bag, namespace, contract, answerer).read(tell)


class _Run:
    def __init__(self, bag: BagReader, namespace: str, contract: Contract, answerer: Answerer) -> None:
        self._bag = bag
        self._names = contract.actions.names
        self._units = contract.action_units
        self._is_relative = contract.actions.is_relative  # rows say how far, and executed actions where to
        self._answerer = answerer
        self._observation, self._chunk, self._executed = (
            f"{namespace}/{OWN}/{kind}" for kind in ("observation", "chunk", "executed")
        )
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

    def read(self, tell: Tell) -> Evaluation:
        bag = self._bag
        duration_ns = max(1, bag.end_ns - bag.start_ns)
        wanted = [topic for topic in (self._observation, self._chunk, self._executed) if topic in bag.topics]
        for topic, stamp_ns, data in bag.raw_messages(wanted):
            tell((stamp_ns - bag.start_ns) / duration_ns)
            if topic == self._observation:
                self._take_request(data)
                continue
            message = bag.decode(topic, stamp_ns, data)
            with bag.expecting(topic):
                if topic == self._chunk:
                    self._take_chunk(message)
                else:
                    self._take_tick(message)
        self._compare(self._alignment.finish())
        return self._found

    def _take_request(self, data: bytes) -> None:
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
        self._alignment.expect(*key, stamp_ns, len(answer.robot), answer)

    def _fail(self, problem: str) -> None:
        self._found.failed += 1
        self._found.first_failure = self._found.first_failure or problem

    def _take_chunk(self, message: Any) -> None:
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
        found.identical_chunks += _is_identical(answer, chunk)
        found.recorded_policies.add(chunk.policy_version)
        found.same_policy_chunks += chunk.policy_version == found.policy.fingerprint
        rows = min(len(answer.robot), len(chunk.robot))
        said, then = (self._units.to_robot(one.robot[:rows]) for one in (answer, chunk))
        found.recorded.add(range(rows), said, then)

    def _take_tick(self, message: Any) -> None:
        if len(message.joint_names) and tuple(message.joint_names) != self._names:
            raise BagError(
                f"{self._bag.path}: the executed actions are not the contract's: found "
                f"{', '.join(message.joint_names)}, expected {', '.join(self._names)}"
            )
        if len(message.action):
            self._require(f"tick {message.tick}", len(message.action), len(self._names))
        self._compare(self._alignment.take(message))

    def _require(self, what: str, found: int, expected: int) -> None:
        if found != expected:
            raise BagError(
                f"{self._bag.path}: {what} has {found} actions, the contract {expected}: expected "
                "the contract of the recorded robot"
            )

    def _compare(self, laid: Iterable[Laid]) -> None:
        for one in laid if not self._is_relative else ():
            rows = self._units.to_robot(one.payload.robot)
            self._found.executed.add(one.places, rows[one.places], one.actions)
            self._found.excerpt.add(one, rows)


def _is_identical(answer: Answer, chunk: Chunk) -> bool:
    return all(
        found.tobytes() == recorded.tobytes()
        for found, recorded in ((answer.robot, chunk.robot), (answer.model, chunk.model))
    )
