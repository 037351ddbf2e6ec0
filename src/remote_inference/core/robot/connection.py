# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's connection to a server: the handshake, its checks, and how the loss of a session shows."""

from __future__ import annotations

import random

from remote_inference.core.admission import NAME_REJECTION, FatalMismatch, check_reply
from remote_inference.core.contract import Contract
from remote_inference.core.exchange import SCHEMA_VERSION_MAX, SessionOffer, SessionReply
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.effects import CloseSession, Effect, GetStatus, OpenSession, Warn
from remote_inference.core.robot.handshake import Backoff, Link, Phase

UNLISTED_MAX = 3  # a status from before the session does not list it either
RIVAL_WARNING_NS = 10_000_000_000  # between two warnings of it


class Connection:
    """Walks the link through the handshake. Each method returns effects, or why the session is lost."""

    def __init__(
        self, contract: Contract, config: RobotConfig, client: str, robot_namespace: str, seed: int | None
    ) -> None:
        rng = random.Random(seed)
        self._contract = contract
        self._config = config
        self._client = client
        self._instance_id = f"{rng.getrandbits(48):012x}"
        self._robot_namespace = robot_namespace
        self._matched = False
        self._listed_session = ""  # the session that the server's status has named
        self._unlisted = 0  # statuses in a row that did not name the session
        self._first_fingerprint: str | None = None
        self._rival = False
        self._next_warning_ns = 0
        self.established = False  # true once a session has been open
        self.link = Link(
            config.servers,
            Backoff(config.reconnect_initial_backoff_s, config.reconnect_max_backoff_s),
            int(config.service_timeout_s * 1e9),
            rng,
        )

    # -- what the node tells -------------------------------------------------------------------------------

    def take_status_reply(self, server: str, accepting: bool | None, task: str, now_ns: int) -> list[Effect]:
        """Take the answer to GetStatus; None when the server is silent."""
        if self.link.phase is not Phase.CHECKING or server != self.link.server:
            return []
        if not accepting:
            self.link.fail(now_ns)
            text = "is silent" if accepting is None else "accepts no sessions"
            return [Warn(f"server {server} {text}")]
        self.link.advance(Phase.OPENING, now_ns)
        return [OpenSession(server, self._offer(task))]

    def take_session_reply(
        self, server: str, epoch: int, reply: SessionReply | None, task: str, now_ns: int
    ) -> list[Effect]:
        """Take a server's answer to the OpenSession of an epoch; None when the server is silent.

        Raises FatalMismatch when the answer violates the contract; `close_unused` then ends what it opened.
        """
        if epoch != self.link.epoch or self.link.phase is not Phase.OPENING:
            return self.close_unused(server, reply)  # granted after we gave up
        if reply is None:
            self.link.fail(now_ns)
            return [Warn(f"server {server} does not answer open_session")]
        if self.established and reply.rejection == NAME_REJECTION:
            raise FatalMismatch("another process has taken this robot over")
        fingerprint = None if self._config.accept_new_policy else self._first_fingerprint
        check_reply(self._offer(task), reply, fingerprint)
        if not reply.accepted:
            self.link.fail(now_ns)
            return [Warn(f"server {server} refuses ({reply.rejection}): {reply.message}")]
        self._first_fingerprint = self._first_fingerprint or reply.policy_fingerprint
        self.link.session = reply
        self.link.advance(Phase.MATCHING, now_ns)
        return [Warn(f"server {server}: {text}") for text in reply.warnings]

    @staticmethod
    def close_unused(server: str, reply: SessionReply | None) -> list[Effect]:
        """End a session that was granted and will not be used: do not occupy the server."""
        return [CloseSession(server, reply.session_id)] if reply is not None and reply.accepted else []

    def take_presence(self, matched: bool) -> str:
        """Take whether the server in use is matched with our endpoints both ways."""
        lost = self._matched and not matched and self.link.open
        self._matched = matched
        return "server's presence lost" if lost else ""

    def take_server_status(self, server: str, instance_id: str, sessions: tuple[str, ...]) -> str:
        """Take a ServerStatus: a restarted server, or one that dropped our session, has forgotten us."""
        session = self.link.session
        if session is None or not self.link.open or server != self.link.server:
            return ""
        if instance_id != session.server_instance_id:
            return "server restarted"
        if session.session_id in sessions:
            self._listed_session = session.session_id
            self._unlisted = 0
            return ""
        self._unlisted += 1
        if self._listed_session == session.session_id or self._unlisted >= UNLISTED_MAX:
            return "server closed the session"
        return ""

    def take_rival(self, present: bool, now_ns: int) -> list[Effect]:
        """Take whether another node of this name is alive: two must never command one robot.

        The one that has had a session stays; a newcomer waits until the other is gone.
        """
        appeared = present and not self._rival
        self._rival = present
        if self.established or not present or (not appeared and now_ns < self._next_warning_ns):
            return []
        self._next_warning_ns = now_ns + RIVAL_WARNING_NS
        effects = self.close()
        if appeared:
            self.link.fail(now_ns)
        return [*effects, Warn(f"another node is called {self._client}: waiting until it is gone")]

    # -- time ----------------------------------------------------------------------------------------------

    def advance(self, now_ns: int) -> list[Effect]:
        """Take the step of the handshake that is due."""
        link = self.link
        if link.phase is Phase.MATCHING and self._matched:
            link.advance(Phase.OPEN, now_ns)
            self._unlisted = 0
            self.established = True
            return []
        if not link.is_due(now_ns) or (self._rival and not self.established):
            return []
        if link.phase is Phase.WAITING:
            link.advance(Phase.CHECKING, now_ns)
            return [GetStatus(link.server)]
        server, phase = link.server, link.phase
        close = self.close()
        link.fail(now_ns)
        return [*close, Warn(f"server {server}: no progress in step '{phase.value}' of the handshake")]

    def lose(self, now_ns: int, *, move_on: bool) -> list[Effect]:
        """Give the session up and begin a new handshake, with the next server of the list if `move_on`."""
        close = self.close()
        self.link.lose(now_ns, move_on=move_on)
        self._matched = False
        return close

    def close(self) -> list[Effect]:
        """End the session, if there is one."""
        session, self.link.session = self.link.session, None
        return [CloseSession(self.link.server, session.session_id)] if session else []

    def _offer(self, task: str) -> SessionOffer:
        return SessionOffer(
            client=self._client,
            client_instance_id=self._instance_id,
            robot_namespace=self._robot_namespace,
            robot_type=self._contract.robot_type,
            session_epoch=self.link.epoch,
            schema_version=SCHEMA_VERSION_MAX,
            action_names=self._contract.actions.names,
            state_names=self._contract.state_names,
            images=self._contract.image_features,
            fps=self._contract.fps,
            task=task,
            wants_rtc=self._config.merge_mode != "append",
        )
