# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Zenoh's settings of a deployment: endpoints, and what wins over what."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.base.errors import MAX_LINE, UserError
from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup, middleware, zenoh_config
from remote_inference.tools.deployment.zenoh_config import EndpointError, parse_endpoint

FOLDER = Path("/share/zenoh")
OVERRIDE = zenoh_config.OVERRIDE_VARIABLE


@pytest.mark.parametrize(
    "text",
    ["tls/host:7447", "tcp/10.0.0.2:7447", "quic/[2001:db8::1]:443", "tcp/host:7447#so_sndbuf=65536"],
)
def test_an_endpoint_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_endpoint(text, "router:=")) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("host:7447", "no protocol in 'host:7447'"),
        ("http/host:7447", "the protocol 'http' in 'http/host:7447'"),
        ("tls//host:7447", "no host and port in 'tls//host:7447'"),
        ("tls/host", "no host and port in 'tls/host'"),
        ("tls/:7447", "no host and port in 'tls/:7447'"),
        ("tls/host:0", "the port '0' in 'tls/host:0'"),
        ("tls/host:70000", "the port '70000' in 'tls/host:70000'"),
        ("tls/::1:7447", "'::1' in 'tls/::1:7447'"),
        ("tcp/a:1;mode=router", "';'"),
    ],
)
def test_a_bad_endpoint_is_refused_with_place_finding_and_expectation(text: str, found: str) -> None:
    with pytest.raises(EndpointError) as refused:
        parse_endpoint(text, "router:=")
    assert str(refused.value).startswith("router:=: found ")
    assert found in str(refused.value)
    assert "expected" in str(refused.value)


def test_an_error_quotes_only_the_beginning_of_a_long_endpoint() -> None:
    with pytest.raises(EndpointError) as refused:
        parse_endpoint("x" * 100_000, "router:=")
    assert len(str(refused.value)) <= MAX_LINE


def test_a_node_is_a_peer_beside_its_router_and_a_client_of_one_elsewhere() -> None:
    modes = {
        router: zenoh_config.router_settings(parse_endpoint(router, "router:="))["mode"]
        for router in ("tcp/localhost:7447", "tcp/127.0.0.1:7447", "tcp/[::1]:7447", "tls/host:7447")
    }
    assert list(modes.values()) == ['"peer"', '"peer"', '"peer"', '"client"']


def test_nodes_beside_different_routers_of_one_host_do_not_meet() -> None:
    addresses = [
        zenoh_config.router_settings(parse_endpoint(router, "router:="))["scouting/multicast/address"]
        for router in ("tcp/localhost:7447", "tcp/localhost:7449")
    ]
    assert addresses == ['"224.0.0.224:7446"', '"224.0.0.224:7448"']


def test_files_that_the_user_has_named_stay() -> None:
    variables = zenoh_config.environment(FOLDER, "", {zenoh_config.SESSION_VARIABLE: "/mine.json5"})
    assert variables == {zenoh_config.ROUTER_VARIABLE: "/share/zenoh/router.json5"}


def test_a_named_router_wins_over_the_same_keys_of_the_user_s_override_and_keeps_the_rest() -> None:
    present = {OVERRIDE: 'connect/endpoints=["tcp/old:1"];scouting/multicast/enabled=true'}
    text = zenoh_config.environment(FOLDER, "tls/new:7447", present)[OVERRIDE]
    assert zenoh_config.parse_overrides(text) == {
        "connect/endpoints": '["tls/new:7447"]',
        "scouting/multicast/enabled": "true",
        "mode": '"client"',
    }


def test_without_a_router_the_user_s_override_is_left_alone() -> None:
    assert OVERRIDE not in zenoh_config.environment(FOLDER, "", {OVERRIDE: "mode=client"})


WAIT = "transport/link/tx/queue/congestion_control/drop/wait_before_drop"


def test_a_server_waits_longer_than_a_robot_before_it_drops_a_chunk(no_zenoh_settings: None) -> None:
    """A robot's control thread would wait, too."""
    config = share_path("config")
    server = bringup.server(config / "belt_arm.manifest.yaml").environment
    robot = bringup.robot(config / "belt_arm.contract.yaml", namespace="robot_1").environment
    assert zenoh_config.parse_overrides(server[OVERRIDE]) == {WAIT: "20000"}
    assert OVERRIDE not in robot


def test_the_user_s_override_wins_over_the_server_s_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERRIDE, f'{WAIT}=5000;mode="client"')
    server = bringup.server(share_path("config", "belt_arm.manifest.yaml")).environment
    assert zenoh_config.parse_overrides(server[OVERRIDE]) == {WAIT: "5000", "mode": '"client"'}


def test_every_process_of_a_robot_and_its_server_get_the_router(tmp_path: Path) -> None:
    config = share_path("config")
    processes = bringup.robot_processes(
        config / "belt_arm.contract.yaml",
        namespace="robot_1",
        bag=tmp_path / "bag",
    )
    processes.append(bringup.server(config / "belt_arm.manifest.yaml"))
    for process in processes:
        routed = bringup.with_middleware(process, zenoh_config.RMW, "tls/host:7447").environment
        assert "tls/host:7447" in routed[OVERRIDE]
        assert (WAIT in routed[OVERRIDE]) == (process.name == "policy_server")
        assert routed["RMW_IMPLEMENTATION"] == zenoh_config.RMW


def test_another_middleware_than_zenoh_is_named_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ["rmw_cyclonedds_cpp", zenoh_config.RMW]
    monkeypatch.setattr(middleware, "installed_middlewares", lambda: installed)
    assert middleware.middleware_warnings(zenoh_config.RMW, "tls/host:7447") == []
    in_use, unused = middleware.middleware_warnings("rmw_cyclonedds_cpp", "tls/host:7447")
    assert "in use is rmw_cyclonedds_cpp, not rmw_zenoh_cpp" in in_use
    assert unused == "router:=tls/host:7447 has no effect with rmw_cyclonedds_cpp"
    assert "default of this ROS 2 distribution" in middleware.middleware_warnings("")[0]
    installed.remove(zenoh_config.RMW)
    assert middleware.middleware_warnings("") == []  # there is no choice


def test_a_middleware_that_is_not_installed_is_said_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"rmw:=rmw_none_cpp is not installed, found .*rmw_"):
        middleware.middleware_warnings("rmw_none_cpp")


def test_the_installation_is_that_which_is_sourced_or_the_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "distribution_of_wheels", lambda: "jazzy")
    sourced = middleware.find_installation({"ROS_DISTRO": "kilted"})
    assert (sourced.distribution, sourced.is_wheels) == ("kilted", False)
    wheels = middleware.find_installation({})
    assert (wheels.distribution, wheels.is_wheels) == ("jazzy", True)
    monkeypatch.setattr(middleware, "distribution_of_wheels", lambda: "")
    unknown = middleware.find_installation({})
    assert (unknown.distribution, unknown.is_wheels) == ("", False)
    assert unknown.middlewares


@pytest.mark.parametrize(
    ("distribution", "is_wheels", "remedy"),
    [
        ("jazzy", False, "install ros-jazzy-rmw-zenoh-cpp, or choose another with rmw:="),
        ("", False, "install rmw_zenoh_cpp for this ROS 2 distribution, or choose another with rmw:="),
        ("jazzy", True, "leave out rmw:=: the wheels of ROS 2 have no other middleware"),
    ],
)
def test_what_to_do_about_a_missing_middleware_fits_the_installation(
    distribution: str, is_wheels: bool, remedy: str
) -> None:
    installation = middleware.Installation(("rmw_fastrtps_cpp",), distribution, is_wheels=is_wheels)
    assert installation.remedy(zenoh_config.RMW, "rmw:=") == remedy
