# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Drills on a robot's process: faults that its operator injects, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.srv import InjectFault
from support.nodes.rig import Rig, write_contract, write_manifest

SERVICE = "remote_inference/inject_fault"
WARNING = "inject_fault disturbs this robot"  # of each node that has the service


def start(rig: Rig, folder: Path, **parameters: bool) -> None:
    rig.start_server(write_manifest(folder))
    # The requests lost in the drill must not lose the session: the chunks alone are missing.
    rig.start_robot(
        write_contract(folder), request_timeout_s=1.0, degraded_after_s=0.3, max_timeouts=100, **parameters
    )
    rig.wait_for_state("STREAMING")
    rig.wait_for_commands(5)


@pytest.mark.parametrize(
    "fault",
    [
        {"target": "chunks", "kind": "drop", "probability": 1.0},
        {"target": "observations", "kind": "drop", "probability": 1.0},
        {"target": "sensors", "kind": "freeze"},
    ],
    ids=lambda fault: fault["target"],
)
def test_a_robot_stalls_in_a_drill_and_comes_back(
    rig: Rig, tmp_path: Path, fault: dict[str, float | str]
) -> None:
    start(rig, tmp_path, allow_fault_injection=True)
    before = len(rig.states)
    answer = rig.call(InjectFault, SERVICE, duration_s=4.0, **fault)
    assert answer.success, answer.message
    rig.wait_for(
        lambda: any(state.injected_fault == answer.message for state in rig.states[before:]),
        "the fault in the state",
    )
    rig.wait_for_state("STALLED", after=before)
    rig.wait_for(lambda: not rig.states[-1].injected_fault, "the end of the fault")
    rig.wait_for_state("STREAMING", after=len(rig.states) - 1)
    rig.wait_for_commands(5)
    log = "".join(path.read_text() for path in (rig.folder / "logs").glob("*.log"))
    assert WARNING in log
    assert f"FAULT INJECTION begins: {answer.message}" in log
    assert f"FAULT INJECTION ends: {answer.message}" in log


def test_a_fault_out_of_bounds_is_refused_with_what_was_expected(rig: Rig, tmp_path: Path) -> None:
    start(rig, tmp_path, allow_fault_injection=True)
    answer = rig.call(InjectFault, SERVICE, target="chunks", kind="freeze", duration_s=3600.0)
    assert (answer.success, answer.message) == (False, "duration_s: found 3600, expected above 0 to 60")


def test_without_the_parameter_there_is_no_such_service(rig: Rig, tmp_path: Path) -> None:
    start(rig, tmp_path)
    names = {name for name, _ in rig.node.get_service_names_and_types()}
    assert f"{rig.namespace}/remote_inference/resume" in names
    assert f"{rig.namespace}/{SERVICE}" not in names
    # The graph may show a service late: the log tells sooner.
    assert WARNING not in (rig.folder / "logs" / "remote_inference.log").read_text()
