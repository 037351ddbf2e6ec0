# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulators of a node are leased by other processes, which may vanish, and survive a node that does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_inference.learn.environment import EnvError
from remote_inference.learn.leases import LeaseError
from remote_inference.learn.rollouts import BlockingRolloutPool, Group, LocalPolicy, LocalTransport, Transport
from remote_inference.learn.rollouts.pool_client import connect_to_pool
from remote_inference.tools.deployment.bringup import Process, simulator_pool
from support.environments.drawer import PullPolicy
from support.importable import python_path
from support.nodes.rig import RigProcesses
from support.waiting import read_line, wait_until

NODE = "/environment_pool"
WAIT_S = 120.0  # for processes to start on a busy machine
LEASE_S = 5.0
HOLDER = f"""
import asyncio
import numpy
from remote_inference.learn.rollouts.pool_client import connect_to_pool
from remote_inference.learn.rollouts import RolloutPool

async def hold():
    async with RolloutPool(connect_to_pool("{NODE}"), 2, holder="doomed") as pool:
        await pool.slots.reset(0, 1, "open", [])
        print("held", *pool.slots.process_ids, flush=True)
        while True:
            await pool.slots.reset(0, 1, "open", [])
            await pool.slots.execute(0, numpy.zeros((40, 2)))

asyncio.run(hold())
"""


class Pool:
    """The node as a process, and what it says."""

    def __init__(self, folder: Path, environment: str, **options: Any) -> None:
        self._log = folder / "logs" / "environment_pool.log"
        self.group = RigProcesses(folder / "logs")
        self.process = self.group.start(
            simulator_pool(environment, slots=2, options=options, lease_s=LEASE_S)
        )
        wait_until(lambda: "slots are ready" in self.log, "the slots are ready", WAIT_S)

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""


@pytest.fixture
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan"


@pytest.fixture
def drawers(tmp_path: Path, plan: Path, _importable: None) -> Iterator[Pool]:
    pool = Pool(tmp_path, "support.environments.flaky_drawer:Flaky", plan=str(plan), step_s=0.01)
    yield pool
    pool.group.stop()


def play(transport: Transport, policy: Any = None, count: int = 2, **options: Any) -> Group:
    with BlockingRolloutPool(transport, count) as pool:
        return pool.run_group(LocalPolicy(policy or PullPolicy()), seed=10, **options)


def lease_and_release(count: int) -> tuple[int | None, ...]:
    """Return the processes of a lease that was had for a moment."""
    with BlockingRolloutPool(connect_to_pool(NODE), count) as pool:
        return pool.slots.process_ids


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_group_through_the_node_is_the_local_one_bit_for_bit(drawers: Pool, plan: Path) -> None:
    local = play(LocalTransport.of("support.environments.drawer:Drawer", {}, 2), keep_observations=True)
    remote = play(connect_to_pool(NODE), keep_observations=True)
    assert [one.digest() for one in remote.trajectories] == [one.digest() for one in local.trajectories]
    assert remote.environment == local.environment
    assert len({one.process_id for one in remote.trajectories} - {None, drawers.process.pid}) == 2


def test_more_than_is_free_is_refused_with_the_load_and_a_name_that_is_none_is_told(drawers: Pool) -> None:
    with (
        BlockingRolloutPool(connect_to_pool("environment_pool"), 1, holder="somebody"),
        pytest.raises(LeaseError, match="found 2 slots asked for; 1 of 2 are free, 1 held by somebody"),
    ):
        lease_and_release(2)
    with pytest.raises(LeaseError, match="found 3 slots asked for, expected 1 to 2"):
        lease_and_release(3)
    with pytest.raises(EnvError, match="/no name: cannot be reached: "):
        play(connect_to_pool("no name"))


def test_failures_while_slots_connect_leak_none_and_the_first_is_told(drawers: Pool, plan: Path) -> None:
    """A failed slot is made anew by the next lease; so each place and kind has its turn."""
    said = {
        "reset raise": "reset: RuntimeError: planned in reset",
        "make raise": "environment support.environments.flaky_drawer:Flaky: RuntimeError: planned in make",
        "reset exit": r"reset: its process has ended \(code 7\)",
        "make exit": r"make: its process has ended \(code 7\)",
    }
    for planned, words in said.items():
        plan.write_text(planned)
        for _ in range(2):
            with pytest.raises(LeaseError, match=f"slot [01]: .*{words}"):
                lease_and_release(2)
        if "make" in planned:
            plan.unlink()
            assert None not in lease_and_release(2)


def test_a_holder_that_is_killed_frees_its_slots_and_what_runs_there(drawers: Pool) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    words = read_line(holder, WAIT_S).split()
    assert (words[:1], len(words)) == (["held"], 3)
    with pytest.raises(LeaseError, match="0 of 2 are free, 2 held by doomed"):
        lease_and_release(1)
    wait_until(lambda: "slots: 0 of 2 are free, 2 held by doomed" in drawers.log, "the load is told", WAIT_S)
    holder.kill()
    holder.communicate(timeout=WAIT_S)
    ending = "doomed has not renewed it for 5 s"
    wait_until(lambda: ending in drawers.log, "the lease ends", WAIT_S)
    freed = "slots: 2 of 2 are free"  # once what runs there has been broken off
    wait_until(lambda: freed in drawers.log.partition(ending)[2], "both slots are free", WAIT_S)
    assert len(lease_and_release(2)) == 2


def test_a_node_that_is_killed_while_a_group_is_played_is_an_error_and_closing_ends(drawers: Pool) -> None:
    class Fatal(PullPolicy):
        def predict_with_log_probabilities(self, batch: Any) -> Any:
            drawers.process.kill()
            drawers.process.wait(WAIT_S)
            return super().predict_with_log_probabilities(batch)

    simulators = lease_and_release(2)
    with pytest.raises(EnvError, match=r"/environment_pool/touch_slot: found no .* within 10 s"):
        play(connect_to_pool(NODE), Fatal())
    wait_until(lambda: not any(map(is_running, filter(None, simulators))), "the simulators end, too", WAIT_S)


def test_the_end_of_a_node_ends_leases_and_simulators(drawers: Pool) -> None:
    async def hold() -> None:
        transport = connect_to_pool(NODE)
        slots = await transport.lease("holder", 2)
        drawers.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(drawers.process.wait, WAIT_S)
        for process_id in slots.process_ids:
            assert not is_running(process_id or -1)
        await transport.close()

    asyncio.run(hold())
    assert drawers.process.returncode == 0
    assert "Traceback" not in drawers.log


@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"environment": "nowhere"}, "cannot start: slot 0: environment nowhere: .*expected 'belt_arm'"),
        (
            {"environment": "support.environments.drawer:Drawer", "options": '{"weight": 3}'},
            "slot 0: .*weight",
        ),
        (
            {"environment": "support.environments.drawer:Drawer", "options": "weight"},
            "parameter options: found 'weight', expected JSON",
        ),
        ({"environment": "support.environments.drawer:Drawer", "slots": 0}, "slots: .*0"),
        ({}, "environment"),
    ],
)
def test_parameters_that_cannot_work_end_the_node_at_once(parameters: dict[str, Any], said: str) -> None:
    process = Process("environment_pool", "environment_pool", parameters={"slots": 1, **parameters})
    ended = subprocess.run(process.command(), capture_output=True, text=True, timeout=WAIT_S)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert re.search(said, ended.stderr), ended.stderr


def test_the_verb_plays_a_group_in_the_simulators_of_a_pool(tmp_path: Path) -> None:
    """Of the belt arm, with cameras and a policy that sees them."""
    pool = Pool(tmp_path, "belt_arm")
    verb = [
        sys.executable,
        "-m",
        "remote_inference.tools.cli",
        "rollouts",
        "--seed",
        "7",
        "--max-steps",
        "12",
    ]

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*verb, *words, "--film-strip", str(tmp_path / "strip.png")]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)

    try:
        played = [
            ask(*where, "--group", "2", "--json")
            for where in (("--pool", NODE), ("--environment", "belt_arm"))
        ]
        assert [one.returncode for one in played] == [0, 0], [one.stderr for one in played]
        remote, local = (json.loads(one.stdout) for one in played)
        assert remote["isolation"]["is_proven"]
        for each in (remote, local):
            for rollout in each["group"]["rollouts"]:
                assert rollout.pop("process_id") > 0
                assert [chunk.pop("chunk_id") for chunk in rollout["chunks"]]
        assert remote["group"] == local["group"]
        refused = ask("--pool", NODE, "--group", "3")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "found 3 slots asked for, expected 1 to 2" in refused.stderr
    finally:
        pool.group.stop()
