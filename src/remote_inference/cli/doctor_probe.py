# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Gathers the facts that `deployment.doctor.doctor` judges: from the index, a socket and the ROS graph."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.qos import DurabilityPolicy

from remote_inference.cli.fleet_watch import FleetWatch
from remote_inference.cli.robot_calls import open_client
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.operator_inputs import InstructionInput
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment import zenoh_config
from remote_inference.deployment.doctor import doctor
from remote_inference.deployment.doctor.doctor import Finding, Level, TopicFacts
from remote_inference.deployment.doctor.inputs import judge_inputs
from remote_inference.deployment.doctor.topics import find_unused_topics, judge_contract
from remote_inference.nodes.clients.operator_client import OperatorClient, OperatorError
from remote_inference.nodes.graph import full_name
from remote_inference.wire import WireError, message_class
from remote_inference.wire.qos import SENSOR_QOS

OWN_NAME = "doctor_verb"
CONNECT_TIMEOUT_S = 2.0
LISTEN_S = 2.0  # for the rates
QUIET_S = 1.0  # without a new topic, before they are measured
TCP_PROTOCOLS = ("tcp", "tls")


def examine(timeout_s: float, contract: Contract | None, namespace: str) -> Iterator[Finding]:
    """Yield the findings, step by step."""
    variables = dict(os.environ)  # those of the shell, before the client adds its own
    yield from doctor.judge_environment(variables)
    if variables.get("RMW_IMPLEMENTATION") == zenoh_config.RMW:
        yield from _look_for_router(variables)
    try:
        client = open_client(OWN_NAME)
    except OperatorError as error:
        yield Finding(Level.ERROR, "rclpy", str(error), "a node that starts", "mend what stands above")
        return
    with client as ros:
        watch = FleetWatch(ros)
        watch.settle(timeout_s)
        yield Finding(Level.OK, "graph", f"looked for {ros.looked_s:.1f} s")
        yield from _examine_graph(ros, watch)
        if contract is not None:
            unused = find_unused_topics(contract, watch.servers)
            topics = _observe_topics(ros, contract, namespace, timeout_s)
            yield from judge_contract(contract, namespace, topics, unused)
            yield from judge_inputs(contract, namespace, topics)


def _look_for_router(variables: dict[str, str]) -> Iterator[Finding]:
    endpoint = doctor.router_endpoint(variables)
    if endpoint.protocol not in TCP_PROTOCOLS:
        return  # without nodes that meet, nothing shows whether a router listens
    try:
        socket.create_connection((endpoint.host, endpoint.port), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        yield doctor.judge_router(endpoint, error.strerror or str(error))
    else:
        yield doctor.judge_router(endpoint, "")


def _examine_graph(ros: OperatorClient, watch: FleetWatch) -> Iterator[Finding]:
    clocks = _names(ros.node.get_publishers_info_by_topic("/clock"))
    yield from doctor.judge_clock(time.time(), clocks)
    nodes = [
        in_namespace(namespace, name)
        for name, namespace in ros.node.get_node_names_and_namespaces()
        if not name.startswith("_") and not name.endswith("_verb")  # of other shells, which come and go
    ]
    yield from doctor.judge_names(nodes, list(watch.robots), list(watch.servers))
    yield from doctor.judge_servers(watch.servers, watch.robots)
    yield from doctor.judge_robots(watch.robots)


def _observe_topics(
    ros: OperatorClient, contract: Contract, namespace: str, timeout_s: float
) -> dict[str, TopicFacts]:
    """Return what the contract's topics show, once each that is published was heard, or after a time."""
    arrivals: dict[str, list[float]] = {}
    inputs = contract.operator_inputs.values()
    listened = {source.topic: source.type for source in inputs}
    may_rest = {
        in_namespace(namespace, source.topic)
        for source in inputs
        if isinstance(source, InstructionInput) or source.silent_s is None
    }
    for topic, type_name in (listened | contract.sensor_types).items():
        name = in_namespace(namespace, topic)
        arrivals[name] = []
        take = partial(_keep_arrival, arrivals[name])
        with suppress(WireError):  # a type that is not installed is heard by nobody
            ros.node.create_subscription(message_class(type_name), name, take, SENSOR_QOS, raw=True)
    commands = [in_namespace(namespace, sink.announced_topic) for sink in contract.commands]
    seen: set[str] = set()
    seen_s = time.monotonic()  # since then no other topic

    def is_heard() -> bool:
        nonlocal seen, seen_s
        published = {name for name in arrivals if ros.node.count_publishers(name)}
        found = published | {name for name in commands if ros.node.count_subscribers(name)}
        if found - seen:
            seen, seen_s = seen | found, time.monotonic()
        return all(arrivals[name] for name in published - may_rest) and time.monotonic() - seen_s >= QUIET_S

    ros.spin_until(is_heard, timeout_s)  # a driver that is discovered late is no slow one
    begun_s = time.monotonic()
    ros.spin(LISTEN_S)
    listened_s = time.monotonic() - begun_s
    known = dict(ros.node.get_topic_names_and_types())
    heard = {name: sum(arrival > begun_s for arrival in times) for name, times in arrivals.items()}
    return {
        name: _facts(ros, name, known.get(name, ()), heard.get(name, 0) / listened_s)
        for name in (*arrivals, *commands)
    }


def _keep_arrival(arrivals: list[float], _: bytes) -> None:
    arrivals.append(time.monotonic())


def _facts(ros: OperatorClient, name: str, types: Any, rate_hz: float) -> TopicFacts:
    publishers = ros.node.get_publishers_info_by_topic(name)
    subscribers = [
        info for info in ros.node.get_subscriptions_info_by_topic(name) if info.node_name != OWN_NAME
    ]
    endpoints = [*publishers, *subscribers]
    latched = [s for s in subscribers if s.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL]
    return TopicFacts(
        types=tuple(sorted({info.topic_type for info in endpoints} or set(types))),
        publishers=_names(publishers),
        subscribers=_names(subscribers),
        latched_subscribers=_names(latched),
        rate_hz=rate_hz,
    )


def _names(endpoints: Any) -> tuple[str, ...]:
    return tuple(sorted(full_name(endpoint) for endpoint in endpoints))
