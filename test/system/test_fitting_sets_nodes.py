# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A node whose sensors have to fit together: how far apart they are is in its requests and in its state."""

from __future__ import annotations

from pathlib import Path

from remote_inference.base.wire.qos import EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import Observation
from support.nodes.rig import Rig, write_contract, write_manifest

WITHIN_S = 0.02
JOINTS_PERIOD_S = 0.07  # with the 33 ms of the camera, the newest of both are up to 70 ms apart


def publish_joints_by_themselves(rig: Rig) -> None:
    """Publish the joints at a period of their own: requests come at any time between two of them."""
    publish = rig._publish_joints

    def measure() -> None:
        publish(rig.node.get_clock().now().to_msg())

    rig._publish_joints = lambda _: None  # type: ignore[method-assign]
    rig.run_on_executor(lambda: rig.node.create_timer(JOINTS_PERIOD_S, measure))


def test_requests_show_sets_and_say_how_far_apart_they_are(rig: Rig, tmp_path: Path) -> None:
    """Of the newest messages, many would not fit."""
    seen: list[Observation] = []
    publish_joints_by_themselves(rig)
    rig.subscribe(Observation, OBSERVATION_TOPIC, seen.append, EXCHANGE_QOS)
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), max_observation_skew_s=WITHIN_S, merge_mode="replace")
    rig.wait_for_state("STREAMING")
    rig.wait_for(lambda: len(seen) > 20, "requests")
    assert max(message.capture_skew_s for message in seen) <= WITHIN_S
    state = rig.states[-1]
    assert 0.0 < state.capture_skew_ms <= 1e3 * WITHIN_S
    assert state.apart == ""


def test_a_node_without_a_set_that_fits_asks_nothing_and_says_why(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), max_observation_skew_s=1e-9)
    rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "session")
    rig.wait_for(lambda: rig.states[-1].apart, "why nothing is asked")
    state = rig.states[-1]
    assert "max_observation_skew_s is 1e-09" in state.apart
    assert state.sets_refused > 0
    assert (state.requests, list(state.stale_sources)) == (0, [])
