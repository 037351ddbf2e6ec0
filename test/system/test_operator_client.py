# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The operator's client waits for what is still unknown to it, and handles signals when rclpy is done."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import Trigger

from remote_inference.base.clients import operator_client
from remote_inference.base.clients.operator_client import (
    SETTLE_S,
    OperatorClient,
    OperatorError,
    deferred_signals,
)
from remote_inference.base.wire.qos import LATCHED_QOS
from remote_inference.msg import ServerStatus
from remote_inference.tools.cli.task_client import TaskClient
from support.native_threads import native_threads
from support.nodes.rig import DEEP_QOS
from support.waiting import wait_until

TIMEOUT_S = 30.0


class Elsewhere:
    """A process's worth of nodes, which spin on a thread of their own."""

    def __init__(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._nodes: list[Node] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def add(self, name: str, namespace: str = "/") -> Node:
        node = rclpy.create_node(name, namespace=namespace, context=self._context)
        self._nodes.append(node)
        self._executor.add_node(node)
        return node

    def run(self, work: Callable[[], object]) -> None:
        """Let the executor's thread do something."""
        self._executor.create_task(work)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        self._executor.shutdown(timeout_sec=1.0)
        for node in self._nodes:
            node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    made = Elsewhere()
    yield made
    made.close()


def test_ctrl_c_is_raised_after_the_work_and_not_within_it() -> None:
    done = []

    def work() -> None:
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            done.append("the work")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_only_robot_is_found_also_when_a_server_was_seen_long_before_it(elsewhere: Elsewhere) -> None:
    elsewhere.add("gpu").create_publisher(ServerStatus, "~/status", LATCHED_QOS)
    with OperatorClient("operator") as ros:
        ros.wait_for(lambda: bool(ros.find_servers()), "the server", TIMEOUT_S)
        late = threading.Timer(2 * SETTLE_S, elsewhere.add, ("remote_inference", "/arm"))
        late.start()
        assert ros.find_robot(None, TIMEOUT_S) == "/arm"
        late.join()


def test_while_the_only_robot_is_read_a_second_one_makes_it_a_choice(elsewhere: Elsewhere) -> None:
    """The second robot may become known long after the first one, which may be silent."""
    elsewhere.add("remote_inference", "/arm")
    with OperatorClient("operator") as ros:
        assert ros.find_robot(None, TIMEOUT_S) == "/arm"
        late = threading.Timer(SETTLE_S, elsewhere.add, ("remote_inference", "/leg"))
        late.start()
        with pytest.raises(OperatorError, match="found robots /arm, /leg, expected the name of one of them"):
            ros.read_one(ServerStatus, "/arm/nothing", LATCHED_QOS, TIMEOUT_S, ros.watch_robots(None))
        late.join()


def test_who_looks_for_robots_and_servers_waits_for_the_kind_that_is_known_later(
    elsewhere: Elsewhere,
) -> None:
    elsewhere.add("remote_inference", "/arm")
    with OperatorClient("operator") as ros:
        ros.wait_for(lambda: bool(ros.find_robots()), "the robot", TIMEOUT_S)
        gpu = elsewhere.add("gpu")
        late = threading.Timer(2 * SETTLE_S, gpu.create_publisher, (ServerStatus, "~/status", LATCHED_QOS))
        late.start()
        ros.settle(TIMEOUT_S)
        assert ros.find_servers() == ["/gpu"]
        late.join()


def test_who_finds_nothing_says_how_long_was_really_looked() -> None:
    with OperatorClient("operator") as ros:
        for name, missing in ((None, "no robot"), ("arm", "no robot /arm")):
            begun_s = time.monotonic()
            with pytest.raises(OperatorError) as caught:
                ros.find_robot(name, 1.5)
            waited_s = time.monotonic() - begun_s
            told = re.match(rf"{missing} within (\d+\.\d) s", str(caught.value))
            assert told is not None, caught.value
            assert 1.5 <= float(told[1]) == pytest.approx(waited_s, abs=0.1)


def test_a_middleware_that_ends_badly_is_a_warning_and_not_the_verb_s_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer was given: exit code 1 would mean that the robot refused."""

    def fail(context: rclpy.Context) -> None:
        end(context=context)
        raise RuntimeError("a lock was poisoned")

    end = rclpy.shutdown
    monkeypatch.setattr(operator_client.rclpy, "shutdown", fail)
    with OperatorClient("operator"):
        pass
    assert capsys.readouterr().err == "warning: the middleware did not end in order: a lock was poisoned\n"


def test_a_service_that_is_known_later_than_its_node_is_waited_for(elsewhere: Elsewhere) -> None:
    """A request that leaves before its service is known is lost."""
    node = elsewhere.add("remote_inference", "/arm")

    def answer(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = True
        return response

    def create() -> None:
        node.create_service(Trigger, "~/pause", answer)

    with OperatorClient("operator") as ros:
        known = f"{node.get_fully_qualified_name()}/get_parameters"
        ros.call(GetParameters, known, GetParameters.Request(), TIMEOUT_S)
        late = threading.Timer(2.0, elsewhere.run, (create,))
        late.start()
        pause = "/arm/remote_inference/pause"
        assert ros.call(Trigger, pause, Trigger.Request(), TIMEOUT_S).success
        late.join()


def test_a_condition_is_looked_at_after_every_message() -> None:
    """Who waits for an answer has it at once, not at the end of a period."""
    with OperatorClient("looking") as client:
        taken: list[ServerStatus] = []
        client.subscribe(ServerStatus, "status", taken.append, DEEP_QOS)
        publisher = client.node.create_publisher(ServerStatus, "status", DEEP_QOS)
        client.wait_for(lambda: publisher.get_subscription_count() > 0, "endpoints matched", TIMEOUT_S)
        for _ in range(5):
            publisher.publish(ServerStatus())
        seen: list[int] = []

        def has_all() -> bool:
            seen.append(len(taken))
            return len(taken) == 5

        assert client.spin_until(has_all, TIMEOUT_S)
        assert set(seen) == {0, 1, 2, 3, 4, 5}


def test_a_client_that_had_an_action_ends_its_part_of_the_middleware() -> None:
    before = native_threads()
    with OperatorClient("operator") as ros:
        task = TaskClient(ros, "/robot")
        assert len(native_threads()) > len(before)
    wait_until(lambda: native_threads() == before, "the middleware's end", 5.0)
    del task  # only now: the garbage collector may find what holds it after the process's end
