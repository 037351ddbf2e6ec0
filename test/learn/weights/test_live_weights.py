# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The served side: what a policy cannot be served with is taken back, and operators can take updates back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from safetensors.numpy import save_file

from remote_inference.base.errors import UserError
from remote_inference.learn.weights import WeightSender
from remote_inference.learn.weights.frames import Applied, LinkClosedError, Refused
from remote_inference.learn.weights.live import LiveWeights
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.shared_memory import SharedMemoryListener, connect
from remote_inference.tools.cli.parser import make_parser
from support.waiting import wait_until

DEADLINE_S = 60.0


class Served:
    """A server with one tensor, of which a trainer changes the beginning. The policy works up to `limit`."""

    def __init__(self, folder: Path) -> None:
        self.limit = 100.0
        self.interrupt: BaseException | None = None
        self.path = folder / "weights.socket"
        self.tensor, self.trained = (np.zeros(1000, np.float32) for _ in range(2))
        self.outcomes: list[Applied | Refused] = []
        self.weights = LiveWeights(
            {"w": self.tensor}, [SharedMemoryListener(self.path)], self._check, self.outcomes.append
        )
        self.sender = WeightSender(lambda: {"w": self.trained})

    def _check(self) -> str:
        if self.interrupt is not None:
            raise self.interrupt
        return f"{self.tensor.max():g} is too much" if self.tensor.max() > self.limit else ""

    @property
    def changed(self) -> list[float]:
        values: list[float] = self.tensor[:8].tolist()
        return values

    def begin(self) -> None:
        self.sender.init_sender({"server": lambda: connect(self.path, DEADLINE_S)})
        self.serve()

    def train(self, value: float) -> None:
        self.trained[:8] = value
        self.sender.sync(self.sender.version + 1)
        self.serve()

    def serve(self) -> None:
        """Apply, as a worker does between two batches, until the trainer has an answer to its last update."""
        seen = len(self.outcomes)
        wait_until(lambda: self.weights.apply() >= 0 and len(self.outcomes) > seen, "the update has an end")
        self.sender.wait(DEADLINE_S)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    made.begin()
    yield made
    made.sender.close()
    made.weights.close()


def test_weights_that_the_policy_cannot_be_served_with_are_taken_back(served: Served) -> None:
    served.train(7.0)
    served.train(101.0)
    assert served.changed == [7.0] * 8
    assert served.weights.view.version == 2
    refused = served.outcomes[-1]
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.text) == (Reason.PROBE, "update 3: 101 is too much")
    status = served.sender.statuses["server"]
    assert (status.is_current, status.reason) == (False, Reason.PROBE)
    served.train(9.0)
    assert served.changed == [9.0] * 8
    assert served.sender.statuses["server"].is_current


def test_weights_are_taken_back_before_an_interrupt_of_their_probe_passes(served: Served) -> None:
    """Nobody is told of the version that was probed, so nobody may be served with it."""
    served.train(7.0)
    served.interrupt = KeyboardInterrupt("in the probe")
    with pytest.raises(KeyboardInterrupt, match="in the probe"):
        served.train(8.0)
    assert served.changed == [7.0] * 8
    assert served.weights.view.version == 2


def test_the_way_back_is_still_there_after_weights_that_were_refused(served: Served) -> None:
    served.train(7.0)
    served.train(101.0)
    back = served.weights.ask_for_rollback()
    assert served.weights.apply() == back.result(DEADLINE_S) == 1
    assert served.changed == [0.0] * 8


def test_a_rollback_serves_the_version_before_and_the_trainer_begins_anew(served: Served) -> None:
    served.train(7.0)
    served.train(8.0)
    back = served.weights.ask_for_rollback()
    assert not back.done(), "it waits for the thread that calls the policy"
    assert served.weights.apply() == 2
    assert back.result(DEADLINE_S) == 2
    assert served.changed == [7.0] * 8
    again = served.weights.ask_for_rollback()
    served.weights.apply()
    with pytest.raises(WeightsError, match="version 2 has none before it here"):
        again.result(DEADLINE_S)
    served.train(9.0)
    assert served.sender.statuses["server"].reason is Reason.BASE, "the trainer learns that it was taken back"
    served.train(9.0)
    assert served.sender.statuses["server"].is_current
    assert served.changed == [9.0] * 8


def test_the_view_tells_what_became_of_updates(served: Served) -> None:
    before = served.weights.view
    served.train(7.0)
    served.train(float("nan"))
    served.weights.ask_for_rollback()
    served.weights.apply()
    view = served.weights.view
    assert (view.version, view.applied - before.applied, view.rolled_back) == (1, 1, 1)
    assert dict(view.refused) == {"values": 1}
    assert view.received_bytes > before.received_bytes
    assert view.apply_s > 0.0


def test_the_view_tells_by_how_many_versions_the_served_weights_are_behind(served: Served) -> None:
    served.train(7.0)
    assert served.weights.view.behind == 0
    served.trained[:8] = 8.0
    served.sender.sync(served.sender.version + 3)
    wait_until(lambda: served.weights.view.behind, "the update has begun")  # and nobody applies it
    assert served.weights.view.behind == 3
    served.serve()
    assert served.weights.view.behind == 0
    back = served.weights.ask_for_rollback()
    assert served.weights.apply() == back.result(DEADLINE_S) == 2
    assert served.weights.view.behind == 3


def test_a_rollback_that_nobody_serves_any_more_is_cancelled(tmp_path: Path) -> None:
    served = Served(tmp_path)
    back = served.weights.ask_for_rollback()
    served.weights.close()
    for asked in (back, served.weights.ask_for_rollback()):  # before the end, and after it
        with pytest.raises(CancelledError):
            asked.result(DEADLINE_S)


def test_weights_that_are_pushed_and_not_served_in_time_are_not_called_refused(
    served: Served, tmp_path: Path
) -> None:
    served.sender.close()
    pushed = tmp_path / "pushed.safetensors"
    save_file({"w": np.ones(1000, np.float32)}, pushed)
    words = ["weights", "push", str(pushed), "--socket", str(served.path), "--timeout", "0.5"]
    arguments = make_parser().parse_args(words)
    with pytest.raises(UserError, match=r"weights\.socket: .* s; it may still be served$"):
        arguments.run(arguments)  # nobody applies what has come


def test_a_trainer_goes_on_above_the_version_that_is_served(served: Served) -> None:
    served.train(7.0)
    served.sender.close()
    served.sender = WeightSender(lambda: {"w": served.trained})
    served.trained[:8] = 8.0
    served.begin()
    assert served.sender.version == served.weights.view.version == 3
    assert served.changed == [8.0] * 8


KILLED = dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from remote_inference.learn.weights.shared_memory import SharedMemoryListener
    listener = SharedMemoryListener(Path(sys.argv[1]))
    os.kill(os.getpid(), signal.SIGKILL)
    """
)


def test_the_socket_of_a_server_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "weights.socket"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=DEADLINE_S).returncode < 0
    assert path.is_socket()
    listener = SharedMemoryListener(path)
    with pytest.raises(LinkClosedError, match="no socket can be made"):
        SharedMemoryListener(path)
    listener.close()
    path.write_text("a file of somebody else")
    with pytest.raises(LinkClosedError, match="no socket can be made"):
        SharedMemoryListener(path)
    assert path.read_text() == "a file of somebody else"
