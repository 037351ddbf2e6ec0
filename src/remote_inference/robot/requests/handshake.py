# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's side of a session: which server, the handshake's steps, and what ends it."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from remote_inference.base import admission
from remote_inference.base.admission import FatalMismatch
from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import SessionReply, StatusReply
from remote_inference.base.tags import parse_tags
from remote_inference.robot.config import RobotConfig, to_ns
from remote_inference.robot.requests.attempt import Attempt, KeptSession
from remote_inference.robot.requests.policy_choice import PolicyChoice
from remote_inference.robot.requests.server_list import DuplicateServers, Invitations, ServerList
from remote_inference.robot.requests.timing import Timing, find_timing_problem, find_timing_warnings
from remote_inference.robot.safety import effects
from remote_inference.robot.safety.effects import CloseSession, Effect, Inform, Warn

DUPLICATE_WARNING_NS = 10_000_000_000  # between two warnings
INVITATION_JITTER_S = 0.2  # 300 robots then ask for 3 sessions in 2 ms, which a server grants as fast
DISCOVERY_NS = 5_000_000_000  # of discovery: until then a silent server is not worth a warning


class Phase(Enum):
    """Steps of the handshake, in order."""

    WAITING = "waiting"  # until the pause between attempts is over
    CHECKING = "checking"  # get_status is called
    OPENING = "opening"  # open_session is called
    MATCHING = "matching"  # session granted, endpoints not matched both ways yet
    OPEN = "open"


# What a server did not do in time.
MISSED = {
    Phase.CHECKING: "did not answer get_status",
    Phase.OPENING: "did not answer open_session",
    Phase.MATCHING: "granted a session, but its topics for this robot were not seen",
}


@dataclass(frozen=True)
class _Step:
    """The step of the handshake that is under way. Times are monotonic [ns].

    begin_ns: when it began. repeat_ns: when get_status is called a second time. due_ns: when the pause
    between attempts is over, or the step's deadline has passed.
    """

    phase: Phase = Phase.WAITING
    begin_ns: int = 0
    repeat_ns: int = 0
    due_ns: int = 0


class Handshake:
    """Opens a session and watches it. Each method returns effects, or why the session is lost."""

    def __init__(
        self, contract: Contract, config: RobotConfig, client: str, robot_namespace: str, seed: int | None
    ) -> None:
        """Build the handshake of the node `client`. `seed` fixes the backoff's jitter."""
        self._rng = rng = random.Random(seed)
        self._invitations = Invitations()
        self.duplicate_servers = DuplicateServers()
        self._contract = contract
        self._config = config
        self._timeout_ns = to_ns(config.service_timeout_s)  # of each step
        self._base_offer = admission.make_offer(
            contract,
            client=client,
            client_instance_id=secrets.token_hex(6),
            robot_namespace=robot_namespace,
            wants_rtc=not config.appends,
            tags=parse_tags(config.tags),
            accepts_weight_updates=config.accept_weight_updates,
        )
        self.servers = ServerList(
            config.servers, config.reconnect_initial_backoff_s, config.reconnect_max_backoff_s, rng
        )
        self._step = _Step()
        self._attempt = Attempt()
        self._matched = False  # endpoints of the server and of this robot, both ways
        self.policies = PolicyChoice(config.servers, keeps_first=not config.accept_new_policy)
        self._kept: dict[str, KeptSession] = {}  # by server
        self._epochs = 0  # sessions that were asked for
        self._has_duplicate = False
        self._next_warning_ns = 0
        self._quiet_until_ns = 0  # set by the first attempt
        self._remarks: dict[str, set[Effect]] = {}  # that were made, by instance of the server
        self.offer = self._base_offer  # offer to the server in use
        self.session: SessionReply | None = None
        self.established = False  # true once a session has been open

    @property
    def server(self) -> str:
        """The server in use or tried next."""
        return self.servers.current

    @property
    def phase(self) -> Phase:
        """The step that is under way."""
        return self._step.phase

    @property
    def open(self) -> bool:
        return self.phase is Phase.OPEN

    @property
    def epoch(self) -> int:
        """Number of the session in use, or asked for last, among all that were asked for."""
        return self.offer.session_epoch

    @property
    def duplicate_node(self) -> str:
        """The duplicate that must end first, in words; empty without one, or once this node had a session."""
        waits = self._has_duplicate and not self.established
        return f"another node is called {self._base_offer.client}" if waits else ""

    @property
    def expected_latency_s(self) -> float:
        """What the first answer may take: the round trip of the handshake, and the server's own time."""
        return self._attempt.round_trip_ns / 1e9 + self._attempt.response_s

    # -- what the node reports -----------------------------------------------------------------------------

    def take_status_reply(
        self, server: str, reply: StatusReply | None, task: str, now_ns: int
    ) -> list[Effect]:
        """Handle the answer to GetStatus; None when the server is silent."""
        if self.phase is not Phase.CHECKING or server != self.server:
            return []
        at_ns, instance_id = (now_ns, reply.instance_id) if reply else (self._step.begin_ns, "")
        self.servers.note(server, at_ns, loading=bool(reply and reply.loading), instance_id=instance_id)
        if reply is None or not reply.accepting:
            self._fail(now_ns)
            if reply is not None:
                self._invitations.answer(server)
                return [] if reply.loading else [Warn(f"server {server} accepts no sessions")]
            return [] if now_ns < self._quiet_until_ns else [Warn(f"server {server} is silent")]
        self._attempt = Attempt(now_ns - self._step.begin_ns, reply.response_s)
        self._enter(Phase.OPENING, now_ns)
        images = admission.choose_images(self._base_offer.images, reply.image_features)
        self._epochs += 1
        self.offer = replace(self._base_offer, session_epoch=self._epochs, task=task, images=images)
        return [effects.OpenSession(server, self.offer)]

    def take_session_reply(
        self, server: str, epoch: int, reply: SessionReply | None, now_ns: int
    ) -> list[Effect]:
        """Handle a server's answer to the OpenSession of an epoch; None when the server is silent.

        Raises FatalMismatch when the answer violates the contract; `close_unused` then ends what it opened.
        """
        if epoch != self.epoch or self.phase is not Phase.OPENING:
            return self.close_unused(server, reply)  # granted after we gave up
        if reply is None:
            self._fail(now_ns)
            return [Warn(f"server {server} does not answer open_session")]
        self._invitations.answer(server, session_in_the_way=reply.rejection in admission.OCCUPIED_REJECTIONS)
        if self.established and reply.rejection == admission.NAME_REJECTION:
            raise FatalMismatch("another process has taken this robot over")
        if reply.policy_name and (problem := self.policies.find_other(server, reply)):
            self._fail(now_ns)
            return [*self.close_unused(server, reply), Warn(f"server {server}: {problem}")]
        fingerprint = None if self._config.accept_new_policy else self.policies.fingerprint
        # Cameras chosen for a policy that has been exchanged since: the next offer fits the new one.
        if not (reply.rejection == admission.CAMERAS_REJECTION and self._unused_images()):
            admission.check_reply(self.offer, reply, fingerprint)
        if not reply.accepted:
            self._fail(now_ns)
            return [Warn(f"server {server} refuses ({reply.rejection}): {reply.message}")]
        if problem := find_timing_problem(self._timing(reply)):
            raise FatalMismatch(problem)
        self.policies.note_session(reply)
        self.session = reply
        round_trip_ns = min(self._attempt.round_trip_ns, now_ns - self._step.begin_ns)
        self._attempt = replace(self._attempt, round_trip_ns=round_trip_ns)
        self._enter(Phase.MATCHING, now_ns)
        return self._remark(server, reply)

    @staticmethod
    def close_unused(server: str, reply: SessionReply | None) -> list[Effect]:
        """End a granted session that will not be used, so that it does not occupy the server."""
        if reply is None or not reply.accepted:
            return []
        return [CloseSession(server, reply.session_id, reply.session_token)]

    def take_presence(self, matched: bool) -> str:
        """Note whether the server in use is matched with our endpoints both ways."""
        lost = self._matched and not matched and self.open
        self._matched = matched
        return "server's presence lost" if lost else ""

    def take_invitation(
        self, server: str, instance_id: str, accepting: bool, now_ns: int, sessions: Iterable[str]
    ) -> None:
        """Note a status of any server: one that accepts this robot again ends the pause between attempts.

        Not at the same instant for every robot of a fleet: all of them receive the status.
        """
        if not self._invitations.note_status(server, instance_id, accepting, now_ns, sessions):
            return
        due_ns = now_ns + int(self._rng.uniform(0.0, INVITATION_JITTER_S) * 1e9)
        if self.phase is Phase.WAITING and due_ns < self._step.due_ns and server in self.policies.servers:
            self.servers.take(server)
            self._step = _Step(due_ns=due_ns)

    def take_server_status(self, server: str, instance_id: str, sessions: tuple[str, ...]) -> str:
        """Handle a ServerStatus; return why the session is lost, or an empty string."""
        self._look_at_kept(server, instance_id, sessions)
        if self.session is None or not self.open or server != self.server:
            return ""
        if instance_id != self.session.server_instance_id:
            return "" if self.duplicate_servers.include(server, instance_id) else "server restarted"
        self._attempt = self._attempt.after_status(self.session.session_id in sessions)
        return "server closed the session" if self._attempt.is_ended else ""

    def take_delivery(self) -> None:
        """Note a chunk: when a session that has delivered is lost, the next attempt needs no pause."""
        self._attempt = replace(self._attempt, is_delivering=True)
        self.servers.succeed()

    def take_latency(self, latency_s: float) -> list[Effect]:
        """Return warnings of a known latency: the robot may have to wait for each answer."""
        assert self.session is not None, "answers come in a session"
        return [Warn(text) for text in find_timing_warnings(self._timing(self.session, latency_s))]

    def note_duplicate(self, present: bool, now_ns: int) -> list[Effect]:
        """Note whether another node of this name is alive: two must never command one robot.

        A node that has had a session stays; a second node waits until the other one is gone.
        """
        appeared = present and not self._has_duplicate
        self._has_duplicate = present
        if not self.duplicate_node or (not appeared and now_ns < self._next_warning_ns):
            return []
        self._next_warning_ns = now_ns + DUPLICATE_WARNING_NS
        close = self.close()
        if appeared:
            self._fail(now_ns)
        return [*close, Warn(f"{self.duplicate_node}: waiting until it is gone")]

    # -- time ----------------------------------------------------------------------------------------------

    def advance(self, now_ns: int) -> list[Effect]:
        """Begin the step of the handshake that is due."""
        if self.phase is Phase.MATCHING and self._matched:
            self._enter(Phase.OPEN, now_ns)
            self.established = True
            return []
        if self.open or self.duplicate_node:
            return []
        if now_ns < self._step.due_ns:
            if self.phase is not Phase.CHECKING or now_ns < self._step.repeat_ns:
                return []
            # Half-way to the deadline, and no third time. It only reads: under Zenoh, a server may answer
            # before it has discovered the robot, and such an answer is lost.
            self._step = replace(self._step, repeat_ns=self._step.due_ns)
            return [effects.GetStatus(self.server)]
        if self.phase is Phase.WAITING:
            self._quiet_until_ns = self._quiet_until_ns or now_ns + DISCOVERY_NS
            self._enter(Phase.CHECKING, now_ns)
            return [effects.GetStatus(self.server)]
        missed = f"server {self.server} {MISSED[self.phase]} within {self._config.service_timeout_s:g} s"
        close = self.close()
        self.servers.note(self.server, self._step.begin_ns, loading=False)
        self._fail(now_ns)
        return [*close, Warn(missed)]

    def lose(self, now_ns: int, *, move_on: bool) -> list[Effect]:
        """Give the session up and begin a new handshake, with the next server of the list if `move_on`.

        A session that never delivered counts as a failed attempt; after others the next begins at once.
        """
        close = self.close()
        self._matched = False
        if self._attempt.is_delivering:
            if move_on:
                self.servers.move_on()
            self._step = _Step(due_ns=now_ns)
        else:
            self._fail(now_ns)
        return close

    def close(self) -> list[Effect]:
        """End the session, if there is one."""
        session, self.session = self.session, None
        return [CloseSession(self.server, session.session_id, session.session_token)] if session else []

    # -- policies that goals name ----------------------------------------------------------------------------

    def note_policy(self, server: str, names: tuple[str, ...]) -> None:
        """Note the policy of a server: its name, then its tags."""
        self.policies.note(server, names)
        servers = self.policies.servers
        if self.server in servers:
            self.servers.only(servers, first=self.server)
        elif servers and self.phase is Phase.WAITING:  # else its answer is judged first
            self.servers.only(servers)

    def use_policy(self, policy: str, now_ns: int) -> list[Effect]:
        """Use a policy from now on, by its name or a tag: one without `find_problem`; "" for any.

        A session with a server of another policy is kept, and one that was kept before is in use at once.
        """
        known = (self.server, *self._kept, *self.policies.listed)
        self.policies.choose(self.policies.find_name(policy, known))
        servers = self.policies.servers
        first = next((server for server in servers if server in self._kept), None)
        if self.server in servers and (self.open or first is None):
            self.servers.only(servers, first=self.server)
            if self.session is not None:
                self.policies.note_session(self.session)
            return []
        closed: list[Effect] = []
        if self.open and self.session is not None:
            self._kept[self.server] = KeptSession(self.offer, self.session, self._attempt)
            self.session = None
        else:
            closed = self.close()
        self.servers.only(servers, first=first)
        self._matched, self._step = False, _Step(due_ns=now_ns)
        if first is not None:
            kept = self._kept.pop(first)
            self.offer, self.session, self._attempt = kept.offer, kept.session, kept.attempt
            self.policies.note_session(kept.session)
            self._matched = True  # else the graph says so soon
            self._enter(Phase.OPEN, now_ns)
        return closed

    def give_policy_back(self, now_ns: int) -> list[Effect]:
        """Use the policy before the one that was refused."""
        effects = self.use_policy(self.policies.before, now_ns)
        if self.session is None:
            self._fail(now_ns)
        return effects

    def _look_at_kept(self, server: str, instance_id: str, sessions: tuple[str, ...]) -> None:
        """Forget a kept session that its server has ended."""
        if (kept := self._kept.get(server)) is None:
            return
        if instance_id != kept.session.server_instance_id:
            if not self.duplicate_servers.include(server, instance_id):
                del self._kept[server]
            return
        attempt = kept.attempt.after_status(kept.session.session_id in sessions)
        self._kept[server] = replace(kept, attempt=attempt)
        if attempt.is_ended:
            del self._kept[server]

    @property
    def kept_sessions(self) -> list[str]:
        """Ids of the sessions that are open and not in use."""
        return [kept.session.session_id for kept in self._kept.values()]

    def close_all(self) -> list[Effect]:
        """End the session in use, and those that are kept."""
        kept, self._kept = self._kept, {}
        unused = [one for server in kept for one in self.close_unused(server, kept[server].session)]
        return [*self.close(), *unused]

    def _remark(self, server: str, reply: SessionReply) -> list[Effect]:
        """Return the remarks on a new session, each once for each instance of the server."""
        remarks: list[Effect] = [Inform(f"server {server}: {self._config.merging}")]
        remarks += [Warn(f"server {server}: {text}") for text in reply.warnings]
        remarks += [Warn(text) for text in find_timing_warnings(self._timing(reply))]
        topics = self._contract.camera_topics
        for image in self._unused_images():
            unused = f"the policy does not use {image}: nothing of {topics[image]} is sent or waited for"
            remarks.append(Inform(f"server {server}: {unused}"))
        made = self._remarks.setdefault(reply.server_instance_id, set())
        new = [remark for remark in remarks if remark not in made]
        made.update(new)
        return new

    def _timing(self, reply: SessionReply, latency_s: float | None = None) -> Timing:
        return Timing(self._config, self._contract.row_fps, reply.chunk_size, latency_s, reply.rtc)

    def _unused_images(self) -> list[str]:
        offered = {image.name for image in self.offer.images}
        return [image.name for image in self._base_offer.images if image.name not in offered]

    def _enter(self, phase: Phase, now_ns: int) -> None:
        self._step = _Step(phase, now_ns, now_ns + self._timeout_ns // 2, now_ns + self._timeout_ns)

    def _fail(self, now_ns: int) -> None:
        """Go on with the next server, after a pause when all of them have failed."""
        self._step = _Step(due_ns=now_ns + self.servers.fail())
