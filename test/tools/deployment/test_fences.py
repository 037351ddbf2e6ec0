# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Every fence of the documentation, of whatever language, says what the code takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from fence_checkers import find_problems
from fences import PAGES, Fence, find_commands, find_fences
from linters import ROOT

PAGE = ROOT / "README.md"


def fence(language: str, text: str) -> Fence:
    return Fence(PAGE, 1, language, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_fences_of_a_page_are_what_the_code_takes(page: Path) -> None:
    fences = find_fences(page, page.read_text())
    assert [problem for fence in fences for problem in find_problems(fence)] == []


@pytest.mark.parametrize(
    ("language", "text", "problem"),
    [
        ("toml", "a = 1\n", "found the language 'toml', expected one of '', 'bash'"),
        ("yaml", "a: [1\n", "is not valid YAML"),
        ("yaml", "- a\n", "expected a mapping of keys"),
        ("yaml", "max_sesions: 4\n", "found the keys max_sesions, which no document has together"),
        ("yaml", "max_sessions: many\n", "max_sessions: found 'many', expected a whole number"),
        ("yaml", "model: {backend: hold}\n", "model.path: missing"),
        ("yaml", "model: {backend: lerobot, path: a, options: {data: b}}\n", "data: unknown key"),
        ("yaml", "robot_type: arm\n", "fps: missing"),
        ("yaml", "/**:\n  ros__parameters: {falback: hold}\n", "falback: unknown key"),
        ("json", "{\n", "is not valid JSON"),
        ("json", '{"name": "still"}\n', "revision: missing"),
        ("python", "def f(:\n", "line 1: "),
        ("python", "import remote_inference.gone\n", "No module named 'remote_inference.gone'"),
        ("python", "from remote_inference.base import gone\n", "remote_inference.base.gone"),
        ("bash", "if true\n", "syntax error"),
        ("bash", 'echo "a\n', "expected what a shell can read"),
        ("bash", "cd x && remote-inference serv x\n", "invalid choice: 'serv'"),
        ("bash", "remote-inference serve x --datset y\n", "unrecognized arguments: --datset"),
        ("", "remote-inference serve\n", "the following arguments are required: path"),
        ("", "remote-inference gone | tail\n", "invalid choice: 'gone'"),
        ("bash", "make gone\n", "found no target 'gone'"),
        ("bash", "make test GONE=1\n", "found no variable 'GONE'"),
        ("bash", 'make demo ARGS="--gone"\n', "unrecognized arguments: --gone"),
        ("bash", "ros2 launch remote_inference gone.launch.py\n", "found no launch file 'gone.launch.py'"),
        ("bash", "ros2 launch remote_inference server.launch.py gone:=1\n", "found no argument 'gone'"),
        ("bash", "ros2 run remote_inference gone\n", "found no executable 'gone'"),
        ("bash", "policy_server --ros-args -p manifst:=a.yaml\n", "found no parameter 'manifst'"),
        ("bash", "policy_server --ros-args -p manifest:=a.yaml\n", "found no autostart:=true"),
        ("bash", "python tools/gone.py\n", "found no file 'tools/gone.py'"),
        ("bash", "pip install -r requirements/gone.txt\n", "found no file 'requirements/gone.txt'"),
    ],
)
def test_a_mistake_in_a_fence_is_named(language: str, text: str, problem: str) -> None:
    found = find_problems(fence(language, text))
    assert any(problem in line for line in found), found
    assert all(line.startswith("README.md:1: ") for line in found)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("", " robot ── policy_server\n"),
        ("", "run_1: intact\nto begin: remote-inference gone\n"),
        ("yaml", "# a comment\n"),
        ("yaml", "stops:\n  button: {topic: estop, type: std_msgs/msg/Bool, stop_when: true}\n"),
        ("yaml", 'fps: "FILL_IN: the training rate"\n'),
        ("yaml", "my_controller:\n  ros__parameters: {joints: [elbow]}\n"),
        ("python", "await start()\n"),
        ("json", '// hold/policy.json\n{"anything": 1}\n'),
        ("bash", "remote-inference check \\\n    --run arm.manifest.yaml  # and look\n"),
    ],
)
def test_these_are_in_order(language: str, text: str) -> None:
    assert find_problems(fence(language, text)) == []


def test_a_fence_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match=r"README\.md:2: a fence without an end"):
        list(find_fences(PAGE, "a\n```bash\nmake test\n"))


def test_a_fence_is_found_where_it_is_indented() -> None:
    (found,) = find_fences(PAGE, "- a point\n\n  ```yaml\n  a: 1\n  ```\n")
    assert (found.line, found.language, found.text) == (3, "yaml", "  a: 1\n")


def test_commands_are_parted_as_a_shell_parts_them() -> None:
    text = "A=1 sudo b 'c; d' && e | f > g  # h\nexport I=j k\\\n  l\n"
    assert find_commands(text) == [["b", "c; d"], ["e"], ["f"], ["g"], ["kl"]]
