# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent for HUD's bridges whose actions come from a policy server, in a session like a robot's."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.base.clients.server_session import ServerSession, read_status
from remote_inference.base.contract.image_source import RAW
from remote_inference.base.documents.document import parse_document
from remote_inference.base.documents.problems import show_value
from remote_inference.base.exchange import ChunkStatus, ImageFeature, Request, SessionOffer
from remote_inference.base.policy import Float32Array
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.learn.hud.client import HudControl, HudError, HudRobot
from remote_inference.learn.hud.contract import ACTION, OBSERVATION, HudContract
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.ensemble import Ensemble
from remote_inference.robot.queue.plan import ChunkSource

# -- How an agent plays an episode of a HUD bridge: in turns, or in real time, as the bridge's clock goes

MAX_STEPS = 520  # of an episode, as HUD's own agent

# Called with an observation, and whether it is the first; returns a chunk `[H, A]`.
Ask = Callable[[Mapping[str, Any], bool], Float32Array]


@dataclass(frozen=True)
class Played:
    """An episode that has ended. steps: of the environment. requests: chunks that it took."""

    steps: int
    requests: int
    ended: bool  # by the environment, not by our limit
    score: Mapping[str, Any] = field(default_factory=dict)  # the bridge's result


def play(robot: HudRobot, ask: Ask, max_steps: int, ensemble: Ensemble | None = None) -> Played:
    """Play a claimed episode of so many steps at most; a bridge in real time is known by its frames' `meta`.

    ensemble: ask in each turn, and play means of all chunks so far. Raises HudError for the bridge, also for
    one in real time with an ensemble, and what `ask` raises.
    """
    shown = robot.observe()
    if "meta" not in shown:
        return _play_stepped(robot, shown, ask, max_steps, ensemble)
    if ensemble is not None:
        raise HudError("--ensemble-coeff: found a bridge in real time, expected one in turns")
    return _play_in_real_time(robot, shown, ask, max_steps)


def _play_stepped(
    robot: HudRobot, shown: Mapping[str, Any], ask: Ask, max_steps: int, ensemble: Ensemble | None
) -> Played:
    """Play each chunk to its end, then ask for the next; of means, one action."""
    steps = requests = 0
    queue = ActionQueue(ensemble=ensemble)
    while not shown.get("terminated") and steps < max_steps:
        chunk = ask(shown, requests == 0)
        requests += 1
        if ensemble is not None:
            source = ChunkSource(0, "", requests, 0, "", "")
            queue.merge(source, chunk, chunk, MergeMode.REPLACE, latency_steps=0, executed_before=steps)
            chunk = queue.plan.head_point[np.newaxis].astype(np.float32)
            queue.get()
        for action in chunk:
            robot.act(action)
            shown, steps = robot.observe(), steps + 1
            if shown.get("terminated") or steps == max_steps:
                break
    return Played(steps, requests, bool(shown.get("terminated")))


def _play_in_real_time(robot: HudRobot, shown: Mapping[str, Any], ask: Ask, max_steps: int) -> Played:
    """Answer the newest observation again and again; those that came meanwhile are skipped."""
    frames = robot.follow()
    steps, requests = _index_of(shown), 0
    while not shown.get("terminated") and steps < max_steps:
        chunk = ask(shown, requests == 0)
        requests += 1
        try:
            robot.send_chunk(chunk, steps)
        except HudError:  # a bridge may leave at the episode's end
            shown = frames.last()
        else:
            shown = frames.newest()
        steps = _index_of(shown)
    return Played(steps, requests, bool(shown.get("terminated")))


def _index_of(shown: Mapping[str, Any]) -> int:
    """Return the control ticks before an observation. Raises HudError where `meta` lacks them."""
    meta = shown.get("meta")
    index = meta.get("obs_index") if isinstance(meta, dict) else None
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or index < 0:
        raise HudError(f"meta: obs_index: found {show_value(index)}, expected the observation's number")
    return int(index)


@dataclass(frozen=True)
class HudFeatures:
    """The observations and actions of a bridge's contract."""

    control_rate_hz: float
    action_names: tuple[str, ...]
    state: Mapping[str, tuple[str, ...]]  # vectors of the observation, with the names of their entries
    images: Mapping[str, str]  # keys of the observation, and the policy's names for them

    @classmethod
    def of(cls, contract: Mapping[str, Any], rename: Mapping[str, str]) -> HudFeatures:
        """Read a contract. Raises DocumentError or HudError for one without what a session needs."""
        hud = parse_document(dict(contract), HudContract, "HUD contract")
        observed = {name: one for name, one in hud.features.items() if one.role == OBSERVATION}
        actions = [one for one in hud.features.values() if one.role == ACTION]
        if len(actions) != 1 or not actions[0].joints or hud.control_rate is None:
            raise HudError("HUD contract: expected a control_rate, and one action with names")
        images = {name: rename.get(name, name) for name, one in observed.items() if one.is_image}
        state = {name: one.joints for name, one in observed.items() if one.joints and not one.is_image}
        if unknown := [name for name in rename if name not in images]:
            raise HudError(f"--rename: found {', '.join(unknown)}, expected of {', '.join(images) or 'none'}")
        return cls(float(hud.control_rate), actions[0].joints, state, images)

    def offer(self, task: str, needed: Collection[str]) -> SessionOffer:
        """Return the offer of a robot with these features, and only the cameras that are needed."""
        return SessionOffer(
            action_names=self.action_names,
            state_names=tuple(name for names in self.state.values() for name in names),
            images=[ImageFeature(name, RAW) for name in self.images.values() if name in needed],
            fps=self.control_rate_hz,
            task=task,
            wants_rtc=False,
        )

    def read_state(self, shown: Mapping[str, Any]) -> Float32Array:
        """Return the state of an observation. Raises HudError for one that lacks a vector."""
        parts = []
        for name, names in self.state.items():
            part = np.ravel(np.asarray(shown.get(name, ()), np.float32))
            if len(part) != len(names):
                raise HudError(f"{name}: found {len(part)} entries, expected {len(names)} as in the contract")
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def read_image(self, shown: Mapping[str, Any], name: str) -> NDArray[np.uint8]:
        """Return a camera's image. Raises HudError for one that is missing."""
        image = shown.get(name)
        if not isinstance(image, np.ndarray):
            raise HudError(f"{name}: found {type(image).__name__}, expected an image as in the contract")
        return image


class HudAgent:
    """Plays episodes of one bridge with the chunks of one server."""

    def __init__(
        self,
        client: OperatorClient,
        control: HudControl,
        server: str,
        timeout_s: float,
        rename: Mapping[str, str],
        *,
        ensemble: Ensemble | None = None,
    ) -> None:
        """rename: the policy's names of cameras. ensemble: as of `play`. Raises HudError for the contract."""
        self._client = client
        self._control = control
        self._server = server
        self._timeout_s = timeout_s
        self._ensemble = ensemble
        found = control.call("contract").get("contract")
        self._features = HudFeatures.of(found if isinstance(found, dict) else {}, rename)
        self._url = str(control.call("url").get("url"))

    def play(self, task: Mapping[str, Any]) -> Played:
        """Play one episode. task: what the bridge's reset takes, such as seed and task.

        Raises HudError for the bridge, OperatorError and SessionRefusedError for the server.
        """
        episode = self._control.call("reset", **task)
        prompt, token = str(episode.get("prompt", "")), episode.get("token")
        try:
            status = read_status(self._client, self._server, self._timeout_s)
            offer = self._features.offer(prompt, status.image_features)
            with (
                ServerSession(self._client, self._server, offer, self._timeout_s) as session,
                HudRobot(self._url, token, self._timeout_s) as robot,
            ):
                played = play(robot, partial(self._ask, session, prompt), MAX_STEPS, self._ensemble)
        finally:
            score = self._control.call("result", token=token)
        return replace(played, score=score)

    def _ask(
        self, session: ServerSession, prompt: str, shown: Mapping[str, Any], is_first: bool
    ) -> Float32Array:
        needed = {image.name for image in session.offer.images}
        request = Request(
            session_id="",  # these three are the session's
            session_epoch=0,
            seq_id=0,
            episode_id=1,
            episode_start=is_first,
            client_mono_ns=time.monotonic_ns(),
            task=prompt,
            inference_delay_steps=0,
        )
        stamp = self._client.node.get_clock().now().to_msg()
        try:
            images = [
                image_to_message(self._features.read_image(shown, key))
                for key, name in self._features.images.items()
                if name in needed
            ]
            message = observation_to_message(request, self._features.read_state(shown), images, stamp)
            chunk = session.ask(message)
        except WireError as error:
            raise HudError(f"server {self._server}: {error}") from error
        if chunk.status is ChunkStatus.ERROR or not chunk.robot.size:
            raise HudError(f"server {self._server} answered {chunk.status.name}: {chunk.message}")
        return chunk.robot
