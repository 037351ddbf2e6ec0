# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The how-to pages: every command in them exists, and symptoms are quoted from the code."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest
from fence_checkers import launch_arguments
from fences import SHELL, find_fences
from linters import ROOT

from remote_inference.base.admission import (
    FATAL_REJECTIONS,
    INTERNAL_REJECTION,
    LOADING_REJECTION,
    RULES,
    judge,
)
from remote_inference.base.contract.action_bounds import JointLimit
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.state_source import StateSource
from remote_inference.base.documents.document import allowed_names
from remote_inference.base.limits import RequestLimits
from remote_inference.base.nodes.start import MODULES
from remote_inference.msg import ActionChunk, ClientState, ExecutedAction, Observation, ServerStatus
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.safety import guard
from remote_inference.robot.safety.state_machine import State
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import ServerSnapshot
from remote_inference.server.policies.hold import CONFIG_FILE, HoldConfig
from remote_inference.tools.cli.parser import make_parser
from support.builders import make_offer, make_spec, make_terms

DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
TROUBLESHOOTING = (DOCS / "how-to" / "troubleshooting.md").read_text()
SOURCE = ROOT / "src" / "remote_inference"
# Words of the pages that are no parameters: programs, images, and values of the middleware.
ELSEWHERE = {
    *("RMW_IMPLEMENTATION", "ROS_DOMAIN_ID", "rmw_zenoh_cpp", "rmw_zenohd", "top"),
    *("transition", "measured", "rename", "reason", "name", "TOPIC"),
    *("controller_manager_msgs", "joint_trajectory_controller"),
}
PROGRAMS = (
    "ros2 ",
    "remote-inference ",
    "curl ",
    "nc ",
    "echo ",
    "make ",
    "systemctl ",
    "docker ",
    "kubectl ",
)


def code_spans(page: str) -> list[str]:
    """Return the code spans of a page, outside of the blocks of commands."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def blocks(page: Path) -> list[list[str]]:
    """Return a page's blocks of commands, each line whole and without its comment."""
    found = [fence.text for fence in find_fences(page, page.read_text()) if fence.language in SHELL]
    whole = [re.sub(r"\s*\\\n\s*", " ", block) for block in found]
    return [[re.sub(r"\s+# .*", "", line).strip() for line in block.splitlines()] for block in whole]


BLOCK_LINES = [(page, line) for page in PAGES for block in blocks(page) for line in block]
ALL_COMMANDS = [
    *BLOCK_LINES,
    *((page, span.strip()) for page in PAGES for span in code_spans(page.read_text())),
]


def metric_names() -> set[str]:
    snapshot = ServerSnapshot("/policy_server", "id", "active", 0.0)
    metrics = ServerMetrics(lambda: snapshot, lambda: 0.0)
    metrics.keep({"/robot": {}})
    samples = {sample.name for family in metrics.families() for sample in family.samples}
    return samples | {name.removesuffix("_count") for name in samples}


def known_names() -> set[str]:
    """Return every name that a user of the package can meet."""
    documents = (RobotConfig, Manifest, Contract, Actions, JointLimit, StateSource, CommandSink, HoldConfig)
    messages = (ActionChunk, ClientState, ExecutedAction, Observation, ServerStatus)
    values = {
        word
        for field in (*RobotConfig.model_fields.values(), *Manifest.every_key().values())
        for word in (*re.findall(r"'(\w+)'", str(field.annotation)), *allowed_names(field))
    }
    return {
        *(name for document in documents for name in document.every_key()),
        *(name for message in messages for name in message.get_fields_and_field_types()),
        *(f"model.{name}" for name in ModelSource.model_fields),
        *(f"actions.{name}" for name in Actions.model_fields),
        *("min", "max", "max_velocity", "jpeg_quality", CONFIG_FILE, "pause", "resume", "reset", "record"),
        *MODULES,
        *guard.RULES,
        *RULES,
        INTERNAL_REJECTION,
        LOADING_REJECTION,
        *(state.name for state in State),
        *metric_names(),
        *values,
    }


def spoken() -> str:
    """Return the text of the sources, with the strings that a line's end cuts joined."""
    text = "\n".join(path.read_text() for path in sorted(SOURCE.rglob("*.py")))
    whole = re.sub(r"\"\s*\n\s*f?\"", "", text)
    return "\n".join([whole, *(whole.replace("{verb}", verb) for verb in ("published", "subscribed"))])


SPOKEN = spoken()
# Rejections and the words of the server, as the page's table has them.
REJECTIONS = re.findall(
    r"^\| `(\w+)` \| `([^`]+)`",
    TROUBLESHOOTING.split("## The server refuses the robot")[1].split("\n## ")[0],
    flags=re.MULTILINE,
)
REFUSALS = {words for _, words in REJECTIONS}
# By rejection: what an offer or a server must be like.
VIOLATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "draining": ({}, {"accepting": False}),
    "failing": (
        {},
        {"failing": "the policy failed 10 batches in a row and the server's probe: PolicyError: no room"},
    ),
    "actions": ({"action_names": ("elbow", "shoulder")}, {}),
    "cameras": ({"images": ()}, {}),
    "state": ({"state_names": ("shoulder", "wrist")}, {}),
    "kinds": ({"action_kinds": ("position", "velocity")}, {}),
    "units": ({"state_units": ("degrees", "degrees")}, {}),
    "history": ({"max_observation_steps": 0}, {}),
    "schema": ({"schema_version": 9}, {}),
    "limits": ({}, {"limits": RequestLimits(cameras=0)}),
    "name": ({}, {"name_taken": True}),
    "weights": ({"accepts_weight_updates": False}, {"updates_weights": True}),
    "task": ({"task": "clap"}, {"pin_task": True}),
    "capacity": ({}, {"active_sessions": 4}),
    "fps": ({"fps": 10.0}, {"strict_fps": True}),
}


@pytest.mark.parametrize(
    "name", sorted({s for s in code_spans(TROUBLESHOOTING) if re.fullmatch(r"[A-Za-z_.]+", s)})
)
def test_a_name_of_the_troubleshooting_page_exists(name: str) -> None:
    assert name in known_names() | ELSEWHERE


def sentences() -> set[str]:
    """Return the page's quotations: what the nodes log, answer or publish."""
    spans = {span for span in code_spans(TROUBLESHOOTING) if " " in span and not span.startswith(PROGRAMS)}
    return {span for span in spans if not re.match(r"[A-Z_]+=|waiting for service|1 / |--", span)}


@pytest.mark.parametrize("sentence", sorted(sentences() - REFUSALS))
def test_a_quotation_of_the_troubleshooting_page_is_what_the_code_says(sentence: str) -> None:
    """Dots stand for what the code fills in."""
    for words in (part.strip(" ,") for part in re.split(r"\.\.\.|[():]", sentence)):
        assert words in SPOKEN, words


def rows(heading: str) -> list[str]:
    section = TROUBLESHOOTING.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|.*", section, flags=re.MULTILINE)


def test_every_rejection_is_explained() -> None:
    assert rows("The server refuses the robot") == [*RULES, LOADING_REJECTION, INTERNAL_REJECTION]
    assert [name for name, _ in REJECTIONS] == [*RULES, LOADING_REJECTION]


# test/system/test_idle_release.py hears that of a policy that is being loaded.
@pytest.mark.parametrize(("name", "words"), REJECTIONS[: len(RULES)], ids=dict(REJECTIONS[: len(RULES)]))
def test_a_rejection_is_explained_in_the_server_s_words(name: str, words: str) -> None:
    offer, terms = VIOLATIONS[name]
    spec = make_spec(units={"elbow": "rad"}, kinds={"elbow": ("position", "pose")})
    verdict = judge(make_offer(**offer), spec, make_terms(**terms))
    assert verdict.rejection == name
    pattern = re.escape(words).replace(re.escape("..."), ".+")
    assert re.fullmatch(pattern, verdict.reason), verdict.reason


def test_the_page_says_which_rejections_end_the_node() -> None:
    table = re.findall(
        r"^\| `(\w+)` \|.*\| (.*) \|.*\|$",
        TROUBLESHOOTING.split("## The server refuses")[1],
        flags=re.MULTILINE,
    )
    assert {name for name, then in table if then == "`DEAD`"} == FATAL_REJECTIONS


def test_every_rule_of_the_guard_is_explained() -> None:
    assert set(rows("A counter of the guard rises")) == set(guard.RULES)


def test_every_reason_of_the_health_port_is_explained() -> None:
    section = TROUBLESHOOTING.split("## The server is not ready")[1]
    reasons = []
    for name in ("server/monitoring/snapshot.py", "server/policy_watch.py"):
        source = (SOURCE / name).read_text()
        code = source.split("def unhealthy_reason")[1].split("def to_json")[0]
        reasons += re.findall(r'return f?"([^"]+)"', code)
    assert len(reasons) == 9
    for reason in reasons:
        assert re.sub(r"\{[^}]*\}", "...", reason) in section, reason


# -- commands ------------------------------------------------------------------------------------------------


def of(pattern: str) -> list[tuple[str, ...]]:
    found = [match.groups() for _, line in ALL_COMMANDS for match in re.finditer(pattern, line)]
    assert found
    return found


def test_launch_files_have_the_arguments_that_they_are_given() -> None:
    for name, arguments in of(r"ros2 launch remote_inference (\S+)(.*)"):
        assert set(re.findall(r"(\w+):=", arguments)) <= launch_arguments(name), name


def test_executables_that_are_run_are_installed() -> None:
    for (name,) in of(r"ros2 run remote_inference (\S+)"):
        assert (ROOT / "scripts" / name).is_file()


def test_services_and_topics_have_the_names_and_types_that_are_called() -> None:
    nodes = {
        "remote_inference": "robot/nodes/**/*.py",
        "belt_arm": "learn/nodes/environment.py",
        "environment": "learn/nodes/environment.py",
    }
    for node, service, type_name in of(r"ros2 service call /\w+/(\w+)/(\w+) (\S+)"):
        source = "".join(path.read_text() for path in SOURCE.glob(nodes[node]))
        assert f'{type_name.rsplit("/", 1)[1]}, "~/{service}"' in source, service
    qos = (SOURCE / "base" / "wire" / "qos.py").read_text()
    for (topic,) in of(r"ros2 topic echo --once /(\S+)"):
        assert topic == "policy_server/status" or f'"{topic.split("/", 1)[1]}"' in qos


def test_verbs_of_the_command_line_are_the_package_s() -> None:
    verbs = make_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    used = {verb for (verb,) in of(r"^remote-inference ([a-z-]+)")}
    assert used <= verbs.keys()


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Return every option of a parser and of its verbs."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found = found.union(*(options(verb) for verb in action.choices.values()))
    return found


def test_options_that_are_named_are_the_package_s() -> None:
    named = {
        option
        for _, line in ALL_COMMANDS
        if line.startswith(("--", "remote-inference "))
        for option in re.findall(r"--[a-z0-9-]+", line)
    }
    assert named <= options(make_parser(complete=True))


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {target for (target,) in of(r"^make ([a-z-]+)")} <= targets


def test_scripts_that_are_run_exist() -> None:
    for (script,) in of(r"^python ([a-z_/]+/[a-z_]+\.py)"):
        assert (ROOT / script).is_file()


SPEAKS = re.compile(r"^(remote-inference (robot|serve|server) |ros2 (service|topic|node|param|lifecycle) )")
# Those that have no common set-up.
WITHOUT_PREAMBLE = [
    page for page in PAGES if page.stem in {"fleet_keys", "install", "record_and_explain", "zenoh"}
]


@pytest.mark.parametrize("page", WITHOUT_PREAMBLE, ids=lambda page: page.stem)
def test_a_block_that_speaks_to_nodes_says_on_which_middleware(page: Path) -> None:
    """On another middleware the commands would wait for ever without an error."""
    for block in blocks(page):
        if any(SPEAKS.match(line) for line in block):
            assert "export RMW_IMPLEMENTATION=rmw_zenoh_cpp" in block, block


def test_variables_set_keys_of_the_manifest() -> None:
    for (key,) in of(r"REMOTE_INFERENCE_MANIFEST_(\w+)="):
        section, _, name = key.lower().rpartition("__")
        assert name in (ModelSource if section == "model" else Manifest).every_key()


def test_files_that_are_named_exist() -> None:
    for (file,) in of(r"-[rc] (\S+\.txt)"):
        assert (ROOT / "requirements" / Path(file).name).is_file()
    for file, target in of(r"-f (\S+) --target (\S+)"):
        assert f" AS {target}" in (ROOT / file).read_text()
    for (files,) in of(r"^sudo cp ((?:deploy/systemd/\S+ )+)"):
        assert all((ROOT / file).is_file() for file in files.split())
    assert all((ROOT / folder).is_dir() for (folder,) in of(r"kubectl apply -k (\S+)"))


def test_paths_of_the_repository_that_are_named_exist() -> None:
    roots = "benchmarks|config|deploy|docs|launch|requirements|test|tools"
    named = {
        (page.name, span)
        for page in (*PAGES, ROOT / "CONTRIBUTING.md")
        for span in code_spans(page.read_text())
        if re.fullmatch(rf"(?:{roots})/[\w./-]+", span)
    }
    assert named
    assert [(page, path) for page, path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_secrets_that_the_pods_mount_are_made() -> None:
    made = {name for (name,) in of(r"kubectl create secret generic (\S+)")}
    mounted = {
        name
        for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml")
        for name in re.findall(r"secretName: ([\w-]+)", path.read_text())
    }
    assert made == mounted
    members = {name for (name,) in of(r"^remote-inference fleet add \w+ (\w+)")}
    for name, folder in of(r"secret generic (\S+) --from-file fleet/members/(\S+)"):
        assert folder in members
        assert f"mountPath: /etc/remote_inference/{folder}," in "".join(
            path.read_text() for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml")
        ), name


def test_the_port_of_the_firewall_is_the_router_s() -> None:
    config = (ROOT / "config" / "zenoh" / "router.json5").read_text()
    for (port,) in of(r"ufw allow (\d+)/tcp"):
        assert f'endpoints: ["tcp/[::]:{port}"]' in config
    for (port,) in of(r"connect/endpoints=\[\"tcp/gpu-1:(\d+)\"\]"):
        assert f'endpoints: ["tcp/[::]:{port}"]' in config
