# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the graph, their managers and their own parameters tell of a robot's controllers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.duration import Duration, Infinite
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.publisher import Publisher
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible
from rclpy.task import Future

from remote_inference.base.contract.commands import controller_facts
from remote_inference.base.contract.commands.controller_facts import ControllerFacts, is_controller
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.executors import as_task
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.wire.qos import COMMAND_QOS, LATCHED_QOS

# -- Finds out whether a controller subscribes to a command, or at most observers do ---------------------

REPEAT_S = 1.0  # until the graph is read again where the number of subscribers stays as it is
DEAF_S = 0.5  # a subscriber that acknowledges nothing for so long may have died
RESTART_S = 3.0  # Fast DDS may let a new subscription hear nothing for so long where another has died
# As the graph shows ours: what a profile leaves out has no bound, and rclpy takes the two for different.
_OFFERED = QoSProfile(
    depth=COMMAND_QOS.depth,
    reliability=COMMAND_QOS.reliability,
    durability=COMMAND_QOS.durability,
    deadline=Infinite,
    liveliness_lease_duration=Infinite,
)


def check_command_qos(asked: QoSProfile) -> tuple[QoSCompatibility, str]:
    """Return whether a subscription, as the graph shows it, gets our commands, and why not."""
    judged: tuple[QoSCompatibility, str] = qos_check_compatible(_OFFERED, asked)
    return judged


class ControllerWatch:
    """Counts the subscribers of each command in each tick; finds out more rarely which are observers.

    A controller that comes is noticed at once, by their number. Where observers stay, one that leaves is
    noticed by the next `update`. Of one that was killed, discovery shows the subscription for many seconds:
    when its successor comes, it counts as absent until that one surely receives.
    """

    def __init__(
        self,
        node: Node,
        commands: Sequence[tuple[CommandSink, Publisher]],
        find_inactive: Callable[[str], str] = lambda _: "",
    ) -> None:
        """find_inactive: of a controller's full name, its state if it takes nothing now, else ""."""
        self._node = node
        self._namespace = node.get_namespace()
        self._commands = tuple(commands)
        self._find_inactive = find_inactive
        self._lock = Lock()  # of the callers: the control thread updates for a controller that comes
        self._observers: dict[str, int] = {}  # by topic: subscribers, where none of them is a controller
        self._known: dict[str, tuple[int, float]] = {}  # by topic: subscribers, all known, and when [s]
        self._counted: dict[str, int] = {}  # by topic: subscribers in the last tick or look
        self._acknowledged_s: dict[str, float] = {}  # by topic: when the last look found that all had heard
        # By topic: the controllers, which are full names of nodes by their subscriptions.
        self.takers: dict[str, dict[bytes, str]] = {}
        self._new_until_s: dict[str, float] = {}  # by topic: its controller has died and come anew

    def unsubscribed(self) -> tuple[str, ...]:
        """Return the topics of commands without a subscribed controller. The control thread calls this."""
        return tuple(sink.topic for sink, publisher in self._commands if not self._is_heard(sink, publisher))

    def _is_heard(self, sink: CommandSink, publisher: Publisher) -> bool:
        count = publisher.get_subscription_count()
        before, self._counted[sink.topic] = self._counted.get(sink.topic, count), count
        if count > before and self.takers.get(sink.topic):  # at once: the next command may be its first
            self._update_topic(sink, publisher)
        return count > self._observers.get(sink.topic, 0) and not self.why_absent(sink.topic)

    def why_absent(self, topic: str) -> str:
        """Return why controllers that subscribe to a command do not receive it; empty when they do."""
        if time.monotonic() < self._new_until_s.get(topic, 0.0):
            return "its controller was started anew"
        states = {node: self._find_inactive(node) for node in self.takers.get(topic, {}).values()}
        if not all(states.values()):
            return ""
        return ", ".join(f"controller {node} is {state}" for node, state in states.items())

    def update(self) -> None:
        """Find out in the graph which subscribers are controllers. Not for the control thread."""
        for sink, publisher in self._commands:
            count, now_s = publisher.get_subscription_count(), time.monotonic()
            if publisher.wait_for_all_acked(Duration()):
                self._acknowledged_s[sink.topic] = now_s
            known, known_s = self._known.get(sink.topic, (-1, 0.0))
            if count != known or now_s - known_s >= REPEAT_S:
                self._update_topic(sink, publisher)

    def _update_topic(self, sink: CommandSink, publisher: Publisher) -> None:
        with self._lock:
            topic, count, now_s = sink.topic, publisher.get_subscription_count(), time.monotonic()
            nodes = {  # of subscriptions that match ours
                bytes(endpoint.endpoint_gid): full_name(endpoint)
                for endpoint in self._node.get_subscriptions_info_by_topic(publisher.topic_name)
                if endpoint.topic_type == sink.type
                and endpoint.node_name != UNKNOWN_NODE
                and check_command_qos(endpoint.qos_profile)[0] != QoSCompatibility.ERROR
            }
            takers = {gid: node for gid, node in nodes.items() if is_controller(node, sink, self._namespace)}
            before = self.takers.get(topic, {})
            twins = {takers[gid] for gid in takers.keys() - before.keys()} & set(before.values())
            # Its name may come seconds later than its subscription: then a death alone tells who it is.
            is_deaf = now_s - self._acknowledged_s.get(topic, now_s) > DEAF_S
            if twins or (before and is_deaf and count > len(nodes)):
                self._new_until_s[topic] = now_s + RESTART_S
            self.takers[topic], self._counted[topic] = takers, count
            self._observers[topic] = 0 if takers else len(nodes)
            if len(nodes) == count:  # else it is checked again: a name may come later than its subscription
                self._known[topic] = count, now_s


# -- A service that is asked again and again, of which one answer at a time is awaited -------------------


class OneCall:
    """The client of a service that only reads. For the executor's thread, which it never blocks."""

    def __init__(self, node: Node, kind: Any, name: str, timeout_s: float) -> None:
        """timeout_s: until an answer is given up: a request to a node that dies is never answered."""
        self._node = node
        self._client = node.create_client(kind, name)
        self._timeout_s = timeout_s
        self._pending: Future | None = None
        self._end_s = 0.0  # of the wait for it

    def ask(self, request: Any, take: Callable[[Any], None]) -> None:
        """Call the service if it is there and no answer is awaited; `take` gets the answer if one comes."""
        if self._pending is not None and time.monotonic() < self._end_s:
            return
        self.give_up()
        if self._client.service_is_ready():
            self._end_s = time.monotonic() + self._timeout_s
            self._pending = self._client.call_async(request)
            self._pending.add_done_callback(as_task(self._node, partial(self._finish, take)))

    def give_up(self) -> None:
        """Drop the answer to the last call."""
        if self._pending is not None:
            self._client.remove_pending_request(self._pending)
            self._pending.cancel()
            self._pending = None

    def _finish(self, take: Callable[[Any], None], future: Future) -> None:
        if future is not self._pending:  # given up in the callback round in which it came
            return
        self._pending = None
        if (answer := future.result()) is not None:
            take(answer)


# -- Which controllers of ros2_control are active, as their controller managers say -----------------------

PACKAGE = "controller_manager_msgs"
LIST_TYPE = f"{PACKAGE}/srv/ListControllers"
POLL_S = 0.5  # between two questions to a manager that publishes no activity
POLL_BESIDE_ACTIVITY_S = 2.0
MANAGER_TIMEOUT_S = 1.0  # of an answer
STALE_S = 3.0  # then an answer says nothing any more
SEARCH_S = 2.0  # between two searches for managers in the graph


class ManagerWatch:
    """Asks the controller managers of a robot. Any thread may call `find_inactive`.

    A controller that is inactive keeps its subscription, and takes no command. The messages of the manager
    need not be installed: then nothing is known of any controller.
    """

    def __init__(self, node: Node, contract: Contract | None, namespace: str) -> None:
        """namespace: the robot's. contract: it may name the manager; None: none is known yet."""
        self._node = node
        self._namespace = namespace
        self._managers: dict[str, _Manager] = {}  # by full name
        self._searched_s = -SEARCH_S
        try:
            self._kind = import_module(f"{PACKAGE}.srv").ListControllers
        except ImportError:
            self._kind = None
        switch = contract.watchdog_switch if contract is not None else None
        self._is_found = switch is None and self._kind is not None  # in the graph; else the contract names it
        if switch is not None:
            self._add(in_namespace(namespace, switch.controller_manager))

    def poll(self) -> None:
        """Ask each manager that is due, and look for others now and then. For the executor's thread."""
        now_s = time.monotonic()
        if now_s - self._searched_s >= SEARCH_S:
            self._searched_s = now_s
            for name in self._find() if self._is_found else ():
                self._add(name)
        for manager in self._managers.values():
            manager.poll(now_s)

    @property
    def is_answered(self) -> bool:
        """Whether each manager that is known has said something."""
        return self._searched_s >= 0.0 and all(manager.said for manager in self._managers.values())

    def find_inactive(self, controller: str) -> str:
        """Return the state of a controller that is not active; empty where it is, or nothing is known.

        controller: full name of its node.
        """
        now_s = time.monotonic()
        for manager in tuple(self._managers.values()):
            if state := manager.states(now_s).get(controller):
                return "" if state == "active" else state
        return ""

    def _find(self) -> list[str]:
        """Return the full names of the managers in the robot's namespace and in the root."""
        own = self._namespace.rstrip("/")
        services = self._node.get_service_names_and_types()
        names = [name.rpartition("/")[0] for name, kinds in services if LIST_TYPE in kinds]
        return [name for name in names if name.rpartition("/")[0] in ("", own)]

    def _add(self, name: str) -> None:
        if self._kind is not None and name not in self._managers:
            self._managers[name] = _Manager(self._node, self._kind, name)


class _Manager:
    """One controller manager. Its controllers are nodes of its own namespace."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._namespace = name.rpartition("/")[0]
        self._kind = kind
        self._call = OneCall(node, kind, f"{name}/list_controllers", MANAGER_TIMEOUT_S)
        self._asked_s = -POLL_BESIDE_ACTIVITY_S
        self._period_s = POLL_S
        self.said: tuple[float, Mapping[str, str]] | None = None  # when [s], and states by full name
        activity = getattr(import_module(f"{PACKAGE}.msg"), "ControllerManagerActivity", None)
        if activity is not None:  # not in older versions
            node.create_subscription(activity, f"{name}/activity", self._take_activity, LATCHED_QOS)

    def poll(self, now_s: float) -> None:
        if now_s - self._asked_s >= self._period_s:
            self._asked_s = now_s
            self._call.ask(self._kind.Request(), self._take_answer)

    def states(self, now_s: float) -> Mapping[str, str]:
        """Return the states of its controllers by full name; empty when it has not reported lately."""
        said_s, states = self.said or (0.0, {})
        return states if now_s - said_s <= STALE_S else {}

    def _take_answer(self, answer: Any) -> None:
        self._take({found.name: found.state for found in answer.controller})

    def _take_activity(self, message: Any) -> None:
        self._period_s = POLL_BESIDE_ACTIVITY_S
        self._call.give_up()  # an answer to what was asked before may be older
        self._take({found.name: found.state.label for found in message.controllers})

    def _take(self, states: Mapping[str, str]) -> None:
        named = {in_namespace(self._namespace or "/", name): state for name, state in states.items()}
        self.said = time.monotonic(), named


# -- Reads what the parameters of controllers say of their commands, and compares it with the contract ----

READ_TIMEOUT_S = 0.5  # then it is asked again: a node that was just discovered may answer nobody


class ControllerReader:
    """Reads the parameters of one controller until it has answered. For the executor's thread."""

    def __init__(self, node: Node, controller: str) -> None:
        """Ask nothing before `poll`. controller: full name of its node."""
        self._controller = controller
        self._names = OneCall(node, ListParameters, f"{controller}/list_parameters", READ_TIMEOUT_S)
        self._values = OneCall(node, GetParameters, f"{controller}/get_parameters", READ_TIMEOUT_S)
        self._known: list[str] | None = None  # parameters that it has and facts need
        self.facts: ControllerFacts | None = None  # what it said last; None until it has answered
        self._is_read = False

    def begin_anew(self) -> None:
        """Read it again: it may have been loaded with others since."""
        self._known, self._is_read = None, False

    def poll(self) -> None:
        """Ask for what is not known yet."""
        if self._is_read:
            return
        if self._known is None:  # rclcpp answers nothing at all where one was not declared
            self._names.ask(ListParameters.Request(), self._take_names)
        else:
            self._values.ask(GetParameters.Request(names=self._known), self._take_values)

    def _take_names(self, answer: ListParameters.Response) -> None:
        needed, limits = controller_facts.PARAMETERS, controller_facts.JOINT_LIMITS
        self._known = [name for name in answer.result.names if name in needed or name.startswith(limits)]
        if self._known:
            self.poll()
        else:
            self._end({})

    def _take_values(self, answer: GetParameters.Response) -> None:
        if self._known is not None and len(answer.values) == len(self._known):
            values = zip(self._known, map(parameter_value_to_python, answer.values), strict=True)
            self._end(dict(values))

    def _end(self, values: dict[str, object]) -> None:
        self.facts, self._is_read = controller_facts.facts_of(self._controller, values), True


class ControllerCheck:
    """Compares the contract with the parameters of each command's only controller; for the executor."""

    def __init__(
        self, node: Node, contract: Contract, watch: ControllerWatch, report: Callable[[str], None]
    ) -> None:
        """report: called when what a controller would do otherwise than the contract means has changed.

        It gets that in words, "" when none does any more.
        """
        self._node = node
        self._contract = contract
        self._watch = watch
        self._report = report
        self._reported = ""
        self._readers: dict[str, ControllerReader] = {}  # by the full name of the controller
        self._subscriptions: dict[str, Mapping[bytes, str]] = {}  # whose controllers were asked, by topic
        self._judged: dict[str, ControllerFacts] = {}  # by topic

    def poll(self) -> None:
        """Ask the controllers that are new, and judge what they have said."""
        problems = [self._check(sink) for sink in self._contract.topic_commands]
        problem = next(filter(None, problems), "")
        if problem != self._reported:
            self._reported = problem
            self._report(problem)

    def _check(self, sink: CommandSink) -> str:
        takers = self._watch.takers.get(sink.topic, {})
        nodes = set(takers.values())
        if len(nodes) != 1:
            self._subscriptions.pop(sink.topic, None)
            return ""
        (node,) = nodes
        if node not in self._readers:
            self._readers[node] = ControllerReader(self._node, node)
        reader = self._readers[node]
        if takers.keys() - self._subscriptions.get(sink.topic, {}).keys():
            reader.begin_anew()
        self._subscriptions[sink.topic] = takers
        reader.poll()
        return self._judge(sink, reader.facts) if reader.facts else ""

    def _judge(self, sink: CommandSink, facts: ControllerFacts) -> str:
        if facts is not self._judged.get(sink.topic):
            self._judged[sink.topic] = facts
            if controller_facts.starts_at_measured_position(sink, facts):
                found = f"controller {facts.node} begins each trajectory where its joints are measured"
                follows = "its setpoint falls back in each tick, and the arm is led faster than its limits"
                expected = controller_facts.INTERPOLATE
                self._node.get_logger().warning(f"{found}: {follows}; expected {expected}")
        mismatch = controller_facts.find_mismatch(sink, self._contract.kind_of(sink), facts)
        if mismatch is None:
            return ""
        return f"controller {facts.node} {mismatch.found}; expected {mismatch.expected}: {mismatch.advice}"
