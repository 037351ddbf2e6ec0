# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the fault tests. The arm's fixture judges the commands at the end of every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from support.faults.arm import Arm, control_ticks, of_first_node
from support.faults.fault import Fault
from support.faults.fault_table import PROPERTY, Row, write_table
from support.faults.judge import find_violations
from support.faults.lying_arm import LyingArm
from support.faults.mixed_robot import MixedRobot
from support.faults.moving_arm import MovingArm
from support.faults.scripted_server import ScriptedServer
from support.faults.watched_arm import WatchedArm
from support.nodes.decision_tape import DecisionTape

AnyArm = TypeVar("AnyArm", bound=WatchedArm)
ORDER = pytest.StashKey[int]()


class FaultTable:
    """Collects the rows of a run, also from worker processes, and writes them when every test has passed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = Row.of(report.user_properties)
        if report.when == "call" and row is not None:
            self._rows.append(row)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK:
            write_table(self._path, self._rows)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        done = "written" if exitstatus == pytest.ExitCode.OK else "not written: a test has failed"
        terminalreporter.write_line(f"{self._path}: {done}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-table", type=Path, metavar="FILE", help="write what the robot did, as Markdown")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(name): the row of the fault table that this test makes")
    path = config.getoption("fault_table", None)  # absent when this file was not there at start-up
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FaultTable(path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for order, item in enumerate(items):
        item.stash[ORDER] = order


@pytest.fixture
def watched(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[WatchedArm]:
    yield from _with_its_tape(WatchedArm(tmp_path, request.param), tmp_path)


@pytest.fixture
def moving(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MovingArm]:
    yield from _with_its_tape(MovingArm(tmp_path, request.param), tmp_path)


@pytest.fixture
def lying(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LyingArm]:
    yield from _with_its_tape(LyingArm(tmp_path, request.param), tmp_path)


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[MixedRobot]:
    yield from _with_its_tape(MixedRobot(tmp_path), tmp_path)


def _with_its_tape(made: AnyArm, folder: Path) -> Iterator[AnyArm]:
    """What the nodes of the arm did must follow from what they were told, up to their death."""
    try:
        tape = DecisionTape(made, commands=False)
        yield made
    finally:
        made.close()
    if made.states:
        tape.check(folder, enough=0)  # the journal of a killed node's last half second dies with it


@pytest.fixture
def arm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Arm]:
    """The arm of every fault; an indirect parameter makes another one in the test's folder."""
    made = getattr(request, "param", Arm)(tmp_path)
    try:
        tape = DecisionTape(made, commands=False)  # a controller's absence must be seen
        yield made
        ended = made.robot.poll()
    finally:
        made.close()
    assert ended == made.expected_exit, "exit code of the robot's process by itself"
    assert made.robot.returncode == (made.expected_exit or 0), "exit code of the robot's process, stopped"
    assert made.record.commands, "the arm was never commanded"
    executed = of_first_node(made.executed) if made.has_namesake else made.executed
    made.record.ticks = control_ticks(executed)
    violations = find_violations(made.record)
    assert not violations, "\n".join([f"{len(violations)} unsafe commands:", *violations[:20]])
    tape.check(tmp_path, of_first_node=made.has_namesake)


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Take what was observed and the time to recover, for the row that the test's marker names."""
    marker = request.node.get_closest_marker("fault")
    order = request.node.stash[ORDER]

    def take(observed: str, recovery: str) -> None:
        row = Row(order, marker.args[0], observed, recovery)
        request.node.user_properties.append((PROPERTY, row.properties()))

    return take


@pytest.fixture
def fault(arm: Arm, note: Callable[[str, str], None]) -> Fault:
    """The fault named by the test's marker."""
    return Fault(arm, note)


@pytest.fixture
def scripted(arm: Arm) -> ScriptedServer:
    return ScriptedServer(arm)
