# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's notes and ids, wherever a person would look for them: one run of a server and a robot."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.free_ports import free_port
from support.json_lines import read_json_lines
from support.nodes.health_port import ask
from support.nodes.rig import Rig, write_contract, write_manifest

TAGS = {"site": "lab 2", "run": "7"}


@pytest.fixture(scope="module")
def health_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def run(health_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A server and a robot that executes its chunks."""
    folder = tmp_path_factory.mktemp("run")
    rig = Rig(folder)
    try:
        manifest = write_manifest(
            folder, health_port=health_port, audit_file="audit.jsonl", metric_tags=["site"]
        )
        rig.start_server(manifest)
        rig.start_robot(write_contract(folder), tags=[f"{key}={value}" for key, value in TAGS.items()])
        rig.wait_for_state("STREAMING")
        yield rig
    finally:
        rig.close()


def audit_lines(folder: Path) -> list[dict[str, Any]]:
    return read_json_lines(folder / "audit.jsonl")


def test_every_audit_line_bears_the_robot_s_tags(run: Rig) -> None:
    run.wait_for(lambda: len(audit_lines(run.folder)) > 1, "two audit lines")
    assert all(line["tags"] == TAGS for line in audit_lines(run.folder))


def test_the_status_page_shows_the_tags(run: Rig, health_port: int) -> None:
    (session,) = json.loads(ask(health_port, "/status.json")[1])["sessions"]
    assert session["tags"] == TAGS


def test_metrics_have_the_tags_that_the_manifest_names_and_no_others(run: Rig, health_port: int) -> None:
    families = text_string_to_metric_families(ask(health_port, "/metrics")[1])
    labels = [s.labels for family in families for s in family.samples if "robot" in s.labels]
    assert labels
    assert all(label["tag_site"] == "lab 2" and "tag_run" not in label for label in labels)


LINE = re.compile(r"^\[[A-Z]+\] \[[\d.]+\] \[(?P<name>[\w.]+)\]: (?P<text>.*)$", re.MULTILINE)


def log_lines(folder: Path, file: str, name: str) -> list[str]:
    found = LINE.finditer((folder / "logs" / file).read_text())
    return [line["text"] for line in found if line["name"] == name]


def test_every_line_names_the_robot_and_the_session_while_there_is_one(run: Rig) -> None:
    """It ends the server: the last test of the run."""
    session_id = run.states[-1].session_id
    run.server.send_signal(signal.SIGINT)
    run.wait_for_state("RECONNECTING")
    lines = log_lines(run.folder, "remote_inference.log", "rig.remote_inference")
    assert all(line.startswith("[robot=/rig") for line in lines)
    begin, lost = (
        next(index for index, line in enumerate(lines) if words in line)
        for words in ('"after": "STREAMING"', '"after": "RECONNECTING"')
    )
    assert begin < lost
    head = f"[robot=/rig session_id={session_id}] "
    assert [line[: len(head)] for line in lines[begin : lost + 1]] == [head] * (lost + 1 - begin)
    assert '"tags": {"site": "lab 2", "run": "7"}' in lines[lost]
    about = [
        line
        for line in log_lines(run.folder, "policy_server.log", "policy_server")
        if "/rig/remote_inference" in line
    ]
    assert about
    assert all(line.startswith(head) for line in about)
    assert "(site=lab 2, run=7)" in about[0]
