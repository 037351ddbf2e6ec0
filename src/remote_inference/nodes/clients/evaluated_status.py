# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server tells of its policy to an evaluation, and what an evaluation offers to it."""

from __future__ import annotations

from dataclasses import replace

from remote_inference.core.admission import make_offer
from remote_inference.core.contract.image_encodings import RAW
from remote_inference.core.environment import EnvironmentSpec
from remote_inference.core.exchange import ImageFeature, SessionOffer
from remote_inference.core.policy import Continuation, PolicySpec, ServingMode, show_policy_version
from remote_inference.environments.robot_contract import make_robot_contract
from remote_inference.msg import ServerStatus


def find_status_problem(status: ServerStatus, num_envs: int, *, accepts_weight_updates: bool) -> str:
    """Return why a server cannot play `num_envs` episodes at once; empty when it can."""
    if not status.accepting:
        return f"it accepts no sessions; it is {status.lifecycle_state}"
    if status.weights_version >= 0 and not accepts_weight_updates:
        reason = "trainers may change its weights (weights.accept)"
        return f"robot.accept_weight_updates: found false, expected true: {reason}"
    if status.max_sessions < num_envs:
        found = f"found {num_envs}, expected {status.max_sessions} at most"
        return f"num_envs: {found}, the sessions that it admits"
    return ""


def read_spec(status: ServerStatus, environment: EnvironmentSpec) -> PolicySpec:
    """Return what a server tells of its policy. Raises PolicyError.

    The fingerprint has the version of live weights behind it, as in chunks: it tells results apart. Images
    have the sizes that the environment shows: those of the training are not told.
    """
    shown = {name: feature.shape for name, feature in environment.features.items()}
    return PolicySpec(
        name=status.policy_name,
        revision=status.policy_revision,
        fingerprint=show_policy_version(status.policy_fingerprint, max(0, status.weights_version)),
        state_names=tuple(status.state_names),
        action_names=tuple(status.action_names),
        image_shapes={name: _image_shape(shown.get(name, ())) for name in status.image_features},
        chunk_size=status.chunk_size,
        trained_fps=status.trained_fps,
        continuation=Continuation(status.continuation),
        observation_steps=max(1, status.observation_steps),
        serving_mode=ServingMode(status.serving_mode),
    )


def make_episode_offer(
    environment: EnvironmentSpec, policy: PolicySpec, task: str, *, accepts_weight_updates: bool
) -> SessionOffer:
    """Return the offer of an environment as a robot of a policy, with images as they are rendered."""
    contract = make_robot_contract(environment, policy, task)
    offer = make_offer(contract, accepts_weight_updates=accepts_weight_updates)
    images = [ImageFeature(name, RAW, *shape[:2]) for name, shape in policy.image_shapes.items()]
    return replace(offer, images=images)


def _image_shape(shape: tuple[int | None, ...]) -> tuple[int, int, int]:
    """Return `(height, width, channels)`; 0 for a length that nobody knows."""
    height, width, channels = [length or 0 for length in (*shape, 0, 0, 0)[:3]]
    return height, width, channels
