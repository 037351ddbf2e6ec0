# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The configuration files: complete, as rmw_zenoh's but for marked deviations, accepted by the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import json5
import pytest
import zenoh

from remote_inference.tools.deployment import bringup, zenoh_config
from support import zenoh_router
from support.free_ports import free_port
from support.transport.engine import CONFIG, configuration, opened

FILES = ("session", "router")
# Key paths and values of rmw_zenoh_cpp 0.6.7's two default files.
DEFAULTS = json.loads(Path(__file__).with_name("rmw_zenoh_defaults.json").read_text())
# Zenoh 1.9 and later warn of these keys. Left out, they are Zenoh's defaults, which are these of rmw_zenoh.
LEFT_OUT = {"routing/peer/mode": "peer_to_peer", "routing/peer/linkstate": {}}
LEFT_OUT_OF = {
    "session": LEFT_OUT | {"routing/router/peers_failover_brokering": True},
    "router": LEFT_OUT,  # whose brokering rmw_zenoh turns off
}
MARK = re.compile(r"// rmw_zenoh: (\w+)\. ")


def settings(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Walk the leaves of a configuration: key path and value."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from settings(value, f"{path}/{key}" if path else key)
    else:
        yield path, tree


def read(name: str) -> dict[str, Any]:
    return dict(settings(json5.loads((CONFIG / f"{name}.json5").read_text())))


def marks(name: str) -> dict[str, str]:
    """Return what the marks say rmw_zenoh has, by the last part of the key that follows each."""
    found: dict[str, str] = {}
    lines = (CONFIG / f"{name}.json5").read_text().splitlines()
    for number, line in enumerate(lines):
        if mark := MARK.search(line):
            key = next(at for at in lines[number:] if not at.strip().startswith("//"))
            found[key.split(":")[0].strip()] = mark[1]
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_key_of_rmw_zenoh_is_there_and_every_deviation_is_marked_with_its_value(name: str) -> None:
    ours, expected = read(name), DEFAULTS["common"] | DEFAULTS[name]
    assert {key: expected[key] for key in expected.keys() - ours.keys()} == LEFT_OUT_OF[name]
    deviations = {key: expected.get(key, "none") for key in ours if ours[key] != expected.get(key, "none")}
    marked = {key: marks(name).get(key.split("/")[-1]) for key in deviations}
    assert marked == {key: str(value).lower() for key, value in deviations.items()}


@pytest.mark.parametrize("name", FILES)
def test_every_mark_belongs_to_a_deviation(name: str) -> None:
    ours, expected = read(name), DEFAULTS["common"] | DEFAULTS[name]
    deviations = {key.split("/")[-1] for key in ours if ours[key] != expected.get(key, "none")}
    assert set(marks(name)) == deviations


@pytest.mark.parametrize("name", FILES)
def test_the_engine_accepts_the_file_and_takes_every_transport_value(name: str) -> None:
    taken = dict(settings(json.loads(configuration(CONFIG / f"{name}.json5", {}).get_json("transport"))))
    written = {key: value for key, value in read(name).items() if key.startswith("transport/")}
    assert {key: taken.get(key.removeprefix("transport/")) for key in written} == written


def test_the_engine_refuses_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    misspelt = tmp_path / "session.json5"
    misspelt.write_text((CONFIG / "session.json5").read_text().replace("keep_alive:", "keepalive:"))
    with pytest.raises(zenoh.ZError):
        configuration(misspelt, {})


def test_the_configurations_are_installed(no_zenoh_settings: None) -> None:
    variables = bringup.environment()
    for variable in (zenoh_config.SESSION_VARIABLE, zenoh_config.ROUTER_VARIABLE):
        assert json5.loads(Path(variables[variable]).read_text())["mode"] in {"peer", "router"}


@pytest.mark.parametrize("router", ["tcp/localhost:7447", "tls/gateway.example.org:7447", "quic/[::1]:7448"])
def test_the_engine_accepts_every_override_that_a_launch_sets(router: str) -> None:
    node = bringup.with_middleware(bringup.Process("remote_inference", "node"), zenoh_config.RMW, router)
    text = node.environment[zenoh_config.OVERRIDE_VARIABLE]
    config = configuration(CONFIG / "session.json5", zenoh_config.parse_overrides(text))
    assert json.loads(config.get_json("connect/endpoints")) == [router]
    assert json.loads(config.get_json("mode")) == ("client" if "example" in router else "peer")


def test_a_test_process_on_rmw_zenoh_gets_a_router_of_its_own() -> None:
    port = free_port()
    with (
        opened_as_rmw_zenoh(zenoh_router.router_variables(port), zenoh_config.ROUTER_VARIABLE) as router,
        opened_as_rmw_zenoh(zenoh_router.node_variables(port), zenoh_config.SESSION_VARIABLE) as node,
    ):
        assert node.info.routers_zid() == [router.info.zid()]


def opened_as_rmw_zenoh(variables: dict[str, str], file: str) -> Any:
    return opened(
        Path(variables[file]), zenoh_config.parse_overrides(variables[zenoh_config.OVERRIDE_VARIABLE])
    )
