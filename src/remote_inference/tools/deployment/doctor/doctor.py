# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges a shell, its machine and who is there: facts in, findings out, without the network.

The other judges of this folder make the same findings, of the facts on topics and robots' nodes.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from remote_inference.base import fast_dds
from remote_inference.base.exchange import in_namespace
from remote_inference.robot.config import RobotConfig
from remote_inference.tools.deployment import zenoh_config
from remote_inference.tools.deployment.middleware import Installation

INDENT = 9 * " "  # of a finding's lines after its first
UNREADABLE = "messages that cannot be read"
SAME_DEFINITION = "its machine knows another definition of the type: install the same version on both"
DEFAULT_ROUTER = "tcp/localhost:7447"  # of rmw_zenoh
LARGEST_DOMAIN = 232  # above it, DDS has no ports
OLDEST_WALL_CLOCK_S = 1_735_689_600  # 2025-01-01: a clock without a battery starts in 1970
SHOWN_VARIABLES = ("ROS_", "RMW_", "ZENOH_", "FASTRTPS_", "FASTDDS_", "CYCLONEDDS_", "MALLOC_")
FILE_VARIABLES = (zenoh_config.SESSION_VARIABLE, zenoh_config.ROUTER_VARIABLE, *fast_dds.PROFILES)


class Level(str, Enum):
    """The severity of a finding. Only an error makes the exit code 1."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """A finding of the report. expected, advice: empty where all is well."""

    level: Level
    subject: str
    found: str
    expected: str = ""
    advice: str = ""

    def __str__(self) -> str:
        """Return the finding on one line, whatever a robot or server says of itself."""
        return " ".join(f"{self.level.value:8} {self.text}".splitlines())

    def fold(self, columns: int) -> str:
        """Return the finding in lines for a terminal; a longer word is not broken."""
        return textwrap.fill(
            str(self), columns, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
        )

    @property
    def text(self) -> str:
        """The finding without its level."""
        expected = f", expected {self.expected}" if self.expected else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.subject}: {self.found}{expected}{advice}"


Fine = partial(Finding, Level.OK)
Warn = partial(Finding, Level.WARNING)
Fault = partial(Finding, Level.ERROR)


@dataclass(frozen=True)
class TopicFacts:
    """Facts on one topic, from the graph and from listening for two seconds.

    latched_subscribers: nodes whose subscription accepts only a publisher that keeps its last message.
    joints: of JointState messages, the names in each kind of message.
    missing: joints, or fields of them, that the contract reads and no message has.
    unreadable: messages came that are none of the topic's type, by the definition that is installed here.
    repeats: several messages came, and all with one stamp.
    stamp_age_s: of the last message by this machine's wall clock; NaN for one without a stamp.
    sent_hz: rate at which messages were made, by their stamps; NaN where these do not say it.
    """

    types: tuple[str, ...] = ()
    publishers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()
    latched_subscribers: tuple[str, ...] = ()
    rate_hz: float = math.nan
    joints: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    unreadable: bool = False
    repeats: bool = False
    stamp_age_s: float = math.nan
    sent_hz: float = math.nan

    @property
    def kinds(self) -> str:
        return ", ".join(self.types)

    @property
    def who(self) -> str:
        return ", ".join(self.publishers)

    @property
    def rate(self) -> str:
        return f"{self.rate_hz:.1f} Hz from {self.who}"


@dataclass(frozen=True)
class NodeSettings:
    """Parameters of a robot's node that findings depend on; by itself those of a node that is not there."""

    max_sensor_age_s: float = RobotConfig.model_fields["max_sensor_age_s"].default
    use_sim_time: bool = False


def judge_middleware(variables: Mapping[str, str], installation: Installation) -> Iterator[Finding]:
    """Judge RMW_IMPLEMENTATION by what is installed."""
    wanted = variables.get("RMW_IMPLEMENTATION", "")
    installed = installation.middlewares
    if wanted and wanted not in installed:
        found, advice = installation.describe_missing(wanted), installation.remedy(wanted)
        yield Fault("middleware", found, "one that is installed", advice)
    elif wanted == zenoh_config.RMW:
        yield Fine("middleware", wanted)
    elif installation.is_wheels:
        in_use = wanted or ", ".join(installed)
        yield Fine("middleware", f"{in_use}, that of the wheels of ROS 2 {installation.distribution}")
    else:
        how = "export it in every shell: robots and servers meet only on the same middleware"
        if zenoh_config.RMW not in installed:
            how = f"install {installation.package_of(zenoh_config.RMW)} and {how}"
        yield Warn("middleware", wanted or "RMW_IMPLEMENTATION is not set", zenoh_config.RMW, how)


def judge_environment(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the variables that decide which nodes meet, and name the others that matter."""
    domain = variables.get("ROS_DOMAIN_ID") or "0"
    if domain.isdecimal() and int(domain) <= LARGEST_DOMAIN:
        yield Fine("domain", f"ROS_DOMAIN_ID {domain}")
    else:
        expected = f"a number from 0 to {LARGEST_DOMAIN}"
        yield Fault("domain", f"ROS_DOMAIN_ID {domain!r}", expected, "the same in every shell")
    reach = variables.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    if variables.get("ROS_LOCALHOST_ONLY") == "1":
        reach = "LOCALHOST"
    if reach == "OFF":
        remedy = "unset ROS_AUTOMATIC_DISCOVERY_RANGE"
        yield Fault("discovery", "OFF: nodes find nobody", "SUBNET or LOCALHOST", remedy)
    else:
        alone = ", nodes of this host alone" if reach == "LOCALHOST" else ""
        yield Fine("discovery", f"{reach}{alone}")
    for name in FILE_VARIABLES:
        if (path := variables.get(name)) and not Path(path).is_file():
            yield Fault(name, f"no file {path}", "an existing file", f"unset {name} or mend it")
    others = [
        f"{name}={'(holds a password)' if 'password' in value else value}"
        for name, value in sorted(variables.items())
        if name.startswith(SHOWN_VARIABLES)
    ]
    yield Fine("environment", " ".join(others) or "nothing set")


def router_endpoint(variables: Mapping[str, str]) -> zenoh_config.Endpoint | None:
    """Return the router that Zenoh nodes of this shell connect to; None: there is none, or it is not known.

    ZENOH_CONFIG_OVERRIDE wins over the session's file, which is read where json5 is installed. Raises
    EndpointError.
    """
    json5 = import_module("json5").loads if find_spec("json5") else None  # with the packages for fleets
    overrides = zenoh_config.parse_overrides(variables.get(zenoh_config.OVERRIDE_VARIABLE, ""))
    if text := overrides.get("connect/endpoints"):
        source = f"{zenoh_config.OVERRIDE_VARIABLE}: connect/endpoints"
        found = _read(json5 or json.loads, text, source)
    elif path := variables.get(zenoh_config.SESSION_VARIABLE):
        if json5 is None or not Path(path).is_file():  # another finding
            return None
        source = f"{path}: connect: endpoints"
        session = _read(lambda name: json5(Path(name).read_text(encoding="utf-8")), path, path)
        connect = session.get("connect") if isinstance(session, dict) else None
        found = connect.get("endpoints", []) if isinstance(connect, dict) else []
    else:
        source, found = "rmw_zenoh's default", [DEFAULT_ROUTER]
    if isinstance(found, dict):  # by the mode of the session
        found = found.get("peer") or found.get("client") or []
    if not isinstance(found, list):
        raise zenoh_config.EndpointError(f"{source}: found {found}, expected a list of endpoints")
    return zenoh_config.parse_endpoint(str(found[0]), source) if found else None


def _read(loads: Callable[[str], Any], text: str, source: str) -> Any:
    try:
        return loads(text)
    except (OSError, ValueError) as error:
        raise zenoh_config.EndpointError(f"{source}: cannot be read: {error}") from None


def judge_router(endpoint: zenoh_config.Endpoint, problem: str) -> Finding:
    """Judge an attempt to connect to the Zenoh router; `problem` is empty when it succeeded."""
    if not problem:
        return Fine("Zenoh router", f"{endpoint} answers")
    found = f"{endpoint} does not answer: {problem}"
    advice = f"start 'ros2 run rmw_zenoh_cpp rmw_zenohd', or name another in {zenoh_config.OVERRIDE_VARIABLE}"
    return Fault("Zenoh router", found, "a router that listens there", advice)


def judge_clock(
    wall_s: float, clock_publishers: Sequence[str], simulated: Sequence[str] = ()
) -> Iterator[Finding]:
    """Judge the wall clock, and simulated time. simulated: full names of nodes whose use_sim_time is true."""
    if wall_s < OLDEST_WALL_CLOCK_S:
        found = f"{wall_s:.0f} s since 1970"
        yield Warn("clock", found, "a date after 2024", "set the clock: bags and logs carry it")
    else:
        yield Fine("clock", "the wall clock is set")
    if clock_publishers:
        found = f"/clock is published by {', '.join(clock_publishers)}"
        yield Fine("simulated time", f"{found}; control ticks go by the machine's own clock")
    elif simulated:
        found = f"use_sim_time of {', '.join(simulated)}, and nobody publishes /clock"
        advice = "start the simulator or its clock's bridge, or leave use_sim_time out: every stamp is 0"
        yield Warn("simulated time", found, "a publisher of /clock", advice)


def judge_names(nodes: Sequence[str], robots: Sequence[str], servers: Sequence[str]) -> Iterator[Finding]:
    """Judge full node names: two robots or servers of one name are taken for each other."""
    ours = {*(in_namespace(robot, "remote_inference") for robot in robots), *servers}
    twice = sorted(name for name, count in Counter(nodes).items() if count > 1)
    for name in twice:
        judge = Fault if name in ours else Warn
        yield judge(f"node {name}", f"{nodes.count(name)} of this name", "one", "stop or rename one")
    if not twice:
        yield Fine("node names", f"{len(nodes)}, each once")


def judge_servers(servers: Mapping[str, Any], robots: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge servers by their newest status, by name; None: in the graph, but silent.

    robots: by namespace, None one that is silent. A server that is full is a finding only when a robot may
    wait for it.
    """
    alive = [state for state in robots.values() if state is not None and state.state != state.DEAD]
    is_wanted = not robots or not all(state.session_id for state in alive)
    if not servers:
        advice = "start 'remote-inference server', on the same middleware and domain"
        yield Fault("servers", "none", "at least one", advice)
    for name, status in servers.items():
        subject = f"server {name}"
        if status is None:
            yield Fault(subject, "no status", "one a second", "look whether it hangs")
        elif status.accepting:
            sessions = f"{len(status.sessions)} of {status.max_sessions} sessions"
            if is_wanted and len(status.sessions) >= status.max_sessions:
                advice = "end another robot's, or raise max_sessions in its manifest"
                yield Warn(subject, f"{sessions} are open", "a free one", advice)
            else:
                yield Fine(subject, f"accepts, {status.policy_name}, {sessions}")
        else:
            found = f"{status.lifecycle_state}, refuses sessions"
            yield Fault(subject, found, "active, accepting", "look at its log")
