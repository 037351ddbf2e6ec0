# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Collects the facts that the doctor judges: the shell, the Zenoh router, the ROS graph, nodes and topics."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.action.graph import get_action_client_names_and_types_by_node
from rclpy.node import NodeNameNonExistentError
from rclpy.qos import DurabilityPolicy
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import JointState

from remote_inference.base.clients.operator_client import ROBOT_NODE, OperatorClient, OperatorError
from remote_inference.base.contract.commands.controller_facts import ControllerFacts
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import InstructionInput
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.wire.arrays import WireError, read_message
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.qos import JOINTS_QOS, SENSOR_QOS
from remote_inference.base.wire.sensors.content_time import stamp_reader
from remote_inference.base.wire.sensors.joint_merge import JointDrivers, Need, needs_of
from remote_inference.robot.nodes.controllers import ControllerReader, ManagerWatch
from remote_inference.tools.cli.common import open_client
from remote_inference.tools.deployment import zenoh_config
from remote_inference.tools.deployment.doctor import commands, doctor, sensors
from remote_inference.tools.deployment.doctor.doctor import Fault, Finding, Fine, NodeSettings, TopicFacts
from remote_inference.tools.fleet_view import FleetWatch

OWN_NAME = "doctor_verb"
CONNECT_TIMEOUT_S = 2.0
CONTROLLER_TIMEOUT_S = 2.0  # for what a controller says, and for its managers
LISTEN_S = 2.0  # for the rates
QUIET_S = 1.0  # without a new endpoint, before they are measured
WITHOUT_CONTRACT = (
    "types, rates, joints and stamps of sensors, controllers that a contract names, stop inputs, takeover, "
    "instruction"
)


def examine(
    timeout_s: float, contract: Contract | None, namespace: str, open_until: ExitStack
) -> Iterator[Finding]:
    """Yield the findings, step by step. namespace: of the robot whose contract it is.

    open_until: closes the doctor's node.
    """
    variables = dict(os.environ)  # those of the shell, before the client adds its own
    yield from doctor.judge_environment(variables)
    if variables.get("RMW_IMPLEMENTATION") == zenoh_config.RMW:
        yield from _check_router(variables)
    try:
        ros = open_until.enter_context(open_client(OWN_NAME))
    except OperatorError as error:
        yield Fault("rclpy", str(error), "a node that starts", "mend what stands above")
        return
    if contract is not None:  # others may be known before it
        ros.spin_until(lambda: namespace in ros.find_robots(), timeout_s)
    watch = FleetWatch(ros)
    watch.settle(timeout_s)
    yield Fine("graph", f"looked for {ros.discovery_s:.1f} s")
    yield from _Examination(ros, watch, timeout_s, contract, namespace).findings()


def _check_router(variables: dict[str, str]) -> Iterator[Finding]:
    try:
        endpoint = doctor.router_endpoint(variables)
    except zenoh_config.EndpointError as error:
        yield Fault("Zenoh router", str(error), "", "mend it: nodes would not start")
        return
    if endpoint is None or endpoint.protocol not in ("tcp", "tls"):
        return  # without nodes that meet, nothing shows whether a router listens
    problem = ""
    try:
        socket.create_connection((endpoint.host, endpoint.port), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        problem = error.strerror or str(error)
    yield doctor.judge_router(endpoint, problem)


@dataclass
class _Examination:
    """Examines robots and servers, then the topics of the robots."""

    _ros: OperatorClient
    _watch: FleetWatch
    _timeout_s: float
    _contract: Contract | None
    _namespace: str

    def __post_init__(self) -> None:
        self._settings = self._read_settings()
        self._clocks = names_of(self._ros.node.get_publishers_info_by_topic("/clock"))

    def findings(self) -> Iterator[Finding]:
        """Yield the findings; those about robots come last, as the others may explain them."""
        yield from self._judge_graph()
        servers = list(doctor.judge_servers(self._watch.servers, self._watch.robots))
        yield from servers

        own = self._find_commands()
        stale = self._stale_sources()
        topics = self._collect_topics(own, stale)
        self._watch.update()
        still = self._stale_sources()  # one that was late once is no finding
        stale = {name: [one for one in found if one in still.get(name, ())] for name, found in stale.items()}
        seen: dict[str, list[Finding]] = {}
        for robot in dict.fromkeys((*([self._namespace] if self._contract else []), *self._watch.robots)):
            seen[robot] = list(self._judge_sensors(robot, topics, stale.get(robot, [])))
            yield from seen[robot]
            yield from commands.judge_commands(own.get(robot, []), robot, topics)
            if self._contract is not None and robot == self._namespace:
                inactive = self._find_inactive(self._contract, own[robot], topics)
                yield from commands.judge_activity(inactive)
                found = self._read_controllers(own[robot], topics)
                yield from commands.judge_controllers(self._contract, robot, found)
        if self._contract is not None:
            yield from commands.judge_inputs(self._contract, self._namespace, topics)
        else:
            missed = WITHOUT_CONTRACT if any(own.values()) else f"commands, {WITHOUT_CONTRACT}"
            yield Fine("not examined without --contract", missed)
        wanted = self._namespace if self._contract is not None else ""
        yield from commands.judge_robots(self._watch.robots, wanted=wanted, servers=servers, sensors=seen)

    def _judge_graph(self) -> Iterator[Finding]:
        simulated = (robot for robot, its in self._settings.items() if its.use_sim_time)
        nodes = [in_namespace(robot, ROBOT_NODE) for robot in simulated]
        yield from doctor.judge_clock(time.time(), self._clocks, nodes)
        nodes = [
            in_namespace(namespace, name)
            for name, namespace in self._ros.node.get_node_names_and_namespaces()
            if not name.startswith("_") and not name.endswith("_verb")  # of other shells, which come and go
        ]
        yield from doctor.judge_names(nodes, list(self._watch.robots), list(self._watch.servers))

    def _judge_sensors(
        self, robot: str, topics: Mapping[str, TopicFacts], stale: list[str]
    ) -> Iterator[Finding]:
        """Judge a robot's sensors, those of the contract first. stale: what its node misses."""
        state = self._watch.robots.get(robot)
        lost = [] if state is None else list(state.lost_publishers)
        if self._contract is not None and robot == self._namespace:
            yield from sensors.judge_sensors(
                self._contract,
                robot,
                topics,
                self._settings.get(robot, NodeSettings()),
                unused=sensors.find_unused_topics(self._contract, self._watch.servers),
                stale=stale,
                lost=lost,
                simulated=bool(self._clocks),
                losses=sensors.advise_on_losses(get_rmw_implementation_identifier()),
            )
            stale = [topic for topic in stale if topic not in self._contract.sensor_types]
        if state is not None and state.implausible:
            advice = "stop the other one, or mend the driver"
            yield Fault(f"{robot}: joints", state.implausible, "one publisher that says the truth", advice)
        yield from sensors.judge_stale(robot, stale, topics, lost)

    def _read_settings(self) -> dict[str, NodeSettings]:
        """Read the parameters of the robots' nodes, by namespace; those that do not answer are left out."""
        end_s = time.monotonic() + self._timeout_s
        settings = {}
        names = ["max_sensor_age_s", "use_sim_time"]
        for robot, state in self._watch.robots.items():
            left_s = end_s - time.monotonic()
            if state is None or left_s <= 0.0:
                continue  # it hangs, as will be said; or there are many
            service = f"{in_namespace(robot, ROBOT_NODE)}/get_parameters"
            with suppress(OperatorError):
                asked = GetParameters.Request(names=names)
                values = self._ros.call(GetParameters, service, asked, left_s).values
                if len(values) == len(names):  # a node of another version may not know them
                    settings[robot] = NodeSettings(values[0].double_value, values[1].bool_value)
        return settings

    def _find_commands(self) -> dict[str, list[commands.Command]]:
        """Return what each robot commands: of the contract, or what the graph shows of its node."""
        found = {}
        for robot in self._watch.robots:
            with suppress(NodeNameNonExistentError):  # it has just ended
                published = self._ros.node.get_publisher_names_and_types_by_node(ROBOT_NODE, robot)
                goals = get_action_client_names_and_types_by_node(self._ros.node, ROBOT_NODE, robot)
                found[robot] = commands.commands_in_graph(robot, published, goals)
        if self._contract is not None:
            found[self._namespace] = commands.commands_of(self._contract, self._namespace)
        return found

    def _read_controllers(
        self, own: Sequence[commands.Command], topics: Mapping[str, TopicFacts]
    ) -> dict[str, ControllerFacts]:
        """Return the parameters of the only controller of each command topic, by topic."""
        services = {name for name, _ in self._ros.node.get_service_names_and_types()}
        found = {}
        for command in own:
            nodes = commands.controllers_of(command, topics.get(command.name, TopicFacts()))
            if len(nodes) == 1 and not command.is_action and f"{nodes[0]}/get_parameters" in services:
                found[command.name] = self._read_controller(nodes[0])
        return found

    def _read_controller(self, node: str) -> ControllerFacts:
        reader = ControllerReader(self._ros.node, node)
        self._ros.spin_until(lambda: reader.facts is not None, CONTROLLER_TIMEOUT_S, reader.poll)
        problem = f"{node} did not answer within {CONTROLLER_TIMEOUT_S:g} s"
        return reader.facts or ControllerFacts(node, problem=problem)

    def _find_inactive(
        self, contract: Contract, own: Sequence[commands.Command], topics: Mapping[str, TopicFacts]
    ) -> dict[str, str]:
        """Return the states of the commands' controllers that are not active, by full name."""
        managers = ManagerWatch(self._ros.node, contract, self._namespace)
        self._ros.spin_until(lambda: managers.is_answered, CONTROLLER_TIMEOUT_S, managers.poll)
        controllers: set[str] = set()
        for command in own:
            facts = topics.get(command.announced_topic, TopicFacts())
            takers = facts.publishers if command.is_action else commands.controllers_of(command, facts)
            controllers.update(takers)
        return {node: state for node in sorted(controllers) if (state := managers.find_inactive(node))}

    def _stale_sources(self) -> dict[str, list[str]]:
        states = self._watch.robots.items()
        return {robot: list(state.stale_sources) for robot, state in states if state is not None}

    def _collect_topics(
        self, own: Mapping[str, list[commands.Command]], stale: Mapping[str, list[str]]
    ) -> dict[str, TopicFacts]:
        """Return facts on commands, on what the robots' nodes miss and on what the contract names."""
        probe = TopicProbe(self._ros)
        for command in (command for found in own.values() for command in found):
            probe.watch(command.announced_topic)
        if self._contract is not None:
            for topic, kind in self._contract.sensor_types.items():
                needs = needs_of(self._contract.joint_sources, topic)
                probe.listen(in_namespace(self._namespace, topic), kind, needs=needs)
            for source in self._contract.operator_inputs.values():
                may_rest = isinstance(source, InstructionInput) or source.silent_s is None
                name = in_namespace(self._namespace, source.topic)
                probe.listen(name, source.type, may_rest=may_rest)
        types = dict(self._ros.node.get_topic_names_and_types())
        for name in (in_namespace(robot, topic) for robot, topics in stale.items() for topic in topics):
            for kind in types.get(name, ())[:1]:
                probe.listen(name, kind)
        return probe.collect(self._timeout_s)


# -- The facts on topics: from the ROS graph, and by subscribing for a while -----------------------------


class TopicProbe:
    """Collects facts on topics: of some the endpoints alone, of others also the messages."""

    def __init__(self, ros: OperatorClient) -> None:
        self._ros = ros
        self._listeners: dict[str, _Listener] = {}
        self._resting: set[str] = set()
        self._watched: list[str] = []

    def listen(
        self, name: str, type_name: str, *, needs: Collection[Need] = (), may_rest: bool = False
    ) -> None:
        """Subscribe to a topic, unless that is done already.

        needs: what is read of its joints. may_rest: a publisher need not send anything.
        """
        if name in self._listeners:
            return
        with suppress(WireError):  # nobody can subscribe to a type that is not installed
            listener = self._listeners[name] = _Listener(message_class(type_name), needs)
            qos = JOINTS_QOS if listener.kind is JointState else SENSOR_QOS
            self._ros.node.create_subscription(listener.kind, name, listener.receive, qos, raw=True)
        self._watched.append(name)
        if may_rest:
            self._resting.add(name)

    def watch(self, name: str) -> None:
        """Collect the endpoints of a topic alone."""
        self._watched.append(name)

    def collect(self, timeout_s: float) -> dict[str, TopicFacts]:
        """Return the facts by topic, once each that is published has sent a message, or after the timeout."""
        self._settle(timeout_s)  # a driver that is discovered late is no slow one
        for listener in self._listeners.values():
            listener.reset()
        begun_s = time.monotonic()
        if self._listeners:
            self._ros.spin(LISTEN_S)
        listened_s = time.monotonic() - begun_s
        types = dict(self._ros.node.get_topic_names_and_types())
        return {name: self._facts(name, types.get(name, ()), listened_s) for name in self._watched}

    def _settle(self, timeout_s: float) -> None:
        node = self._ros.node
        seen: dict[str, tuple[int, int]] = {}
        seen_s = time.monotonic()  # since then no other endpoint

        def is_known() -> bool:
            nonlocal seen, seen_s
            counts = {n: (node.count_publishers(n), node.count_subscribers(n)) for n in self._watched}
            if counts != seen:
                seen, seen_s = counts, time.monotonic()
            published = {name for name, (publishers, _) in counts.items() if publishers}
            awaited = published & self._listeners.keys() - self._resting
            received = all(self._listeners[name].count for name in awaited)
            found = {name for name, count in counts.items() if any(count)}
            return received and time.monotonic() - seen_s >= QUIET_S and self._all_named(found)

        self._ros.spin_until(is_known, timeout_s)

    def _all_named(self, names: Collection[str]) -> bool:
        """Return whether the nodes of topics are known by name, which may be later than their endpoints."""
        node = self._ros.node
        return not any(
            UNKNOWN_NODE in endpoint.node_name
            for name in names
            for find in (node.get_publishers_info_by_topic, node.get_subscriptions_info_by_topic)
            for endpoint in find(name)
        )

    def _facts(self, name: str, types: Collection[str], listened_s: float) -> TopicFacts:
        publishers = self._ros.node.get_publishers_info_by_topic(name)
        listening = self._ros.node.get_subscriptions_info_by_topic(name)
        subscribers = [info for info in listening if info.node_name != OWN_NAME]  # it does not matter
        latched = [s for s in subscribers if s.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL]
        received = self._listeners[name].facts(listened_s) if name in self._listeners else {}
        return TopicFacts(
            types=tuple(sorted({info.topic_type for info in (*publishers, *subscribers)} or set(types))),
            publishers=names_of(publishers),
            subscribers=names_of(subscribers),
            latched_subscribers=names_of(latched),
            **received,
        )


class _Listener:
    """The messages of one topic since `reset`."""

    def __init__(self, kind: Any, needs: Collection[Need]) -> None:
        self.kind = kind
        self._needs = needs
        self._read_stamp = stamp_reader(kind)
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self._first = self._last = b""
        self._heads: list[bytes] = []
        self._arrival_s = 0.0  # of the last message, by the wall clock
        self._drivers = JointDrivers(self._needs)
        self._unreadable = False

    def receive(self, data: bytes) -> None:
        self.count += 1
        self._first, self._last, self._arrival_s = self._first or data, data, time.time()
        self._heads.append(data[: sensors.HEAD_BYTES])
        if self.kind is JointState and (joints := self._read(data)) is not None:
            self._drivers.take(joints, time.monotonic_ns())

    def _read(self, data: bytes) -> Any:
        try:
            return read_message(data, self.kind, "a message")
        except WireError:
            self._unreadable = True
            return None

    def facts(self, listened_s: float) -> dict[str, Any]:
        """Return what TopicFacts hold of messages."""
        ends = [self._read(data) if data else None for data in (self._first, self._last)]
        first_ns, last_ns = (self._read_stamp(message) if message is not None else 0 for message in ends)
        return {
            "rate_hz": self.count / listened_s,
            "joints": tuple(tuple(sorted(names)) for names in self._drivers.name_sets),
            "missing": self._drivers.missing if self.count else (),
            "unreadable": self._unreadable,
            "repeats": self.count > 1 and first_ns == last_ns != 0,
            "sent_hz": sensors.find_sent_hz(self._heads),
            **({"stamp_age_s": self._arrival_s - last_ns / 1e9} if last_ns else {}),
        }


def names_of(endpoints: Any) -> tuple[str, ...]:
    """Return the full names of endpoints' nodes, sorted."""
    return tuple(sorted(full_name(endpoint) for endpoint in endpoints))
