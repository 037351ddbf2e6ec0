# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a fence: one checker for each language, which returns a line for each problem."""

from __future__ import annotations

import ast
import pkgutil
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from typing import Any

from fences import SHELL, Fence, find_commands, has_commands
from linters import ROOT

from remote_inference.bags.nodes.recorder_config import RecorderConfig
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import (
    Document,
    DocumentError,
    find_marks,
    parse_document,
    parse_json,
    parse_yaml,
)
from remote_inference.base.nodes.start import MODULES
from remote_inference.learn.evaluation.document import Evaluation
from remote_inference.robot.config import RobotConfig
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policies.hold import HoldConfig
from remote_inference.server.policies.lerobot.checkpoint import LeRobotOptions
from remote_inference.server.policies.onnx.file import OnnxOptions
from remote_inference.server.policies.remote.gr00t import Gr00tOptions
from remote_inference.server.policies.remote.openpi import OpenpiOptions
from remote_inference.tools.cli.parser import make_parser

Problems = Iterator[str]

MAKEFILE = (ROOT / "Makefile").read_text()
LAUNCH = ROOT / "launch"
# Documents by the keys that make one whole: with others missing, it is a part of one.
DOCUMENTS: tuple[tuple[type[Document], set[str]], ...] = (
    (Manifest, {"model"}),
    (Contract, {"robot_type"}),
    (Evaluation, {"environment", "policies"}),
    (RobotConfig, set()),
)
PARAMETERS: tuple[type[Document], ...] = (RobotConfig, RecorderConfig)
OPTIONS: Mapping[str, type[Document]] = {
    "gr00t": Gr00tOptions,
    "hold": Document,
    "lerobot": LeRobotOptions,
    "onnx": OnnxOptions,
    "openpi": OpenpiOptions,
}
FOREIGN = ("groups", "scrape_configs")  # first keys of Prometheus' files
# Packages of other programs, which not every environment has.
PEERS = {"hud", "lerobot", "openpi_client"}
MISSING = ": missing, expected "


def find_problems(fence: Fence) -> list[str]:
    """Return a line for each problem of a fence, with its place."""
    check = CHECKERS.get(fence.language)
    if check is None:
        known = ", ".join(repr(language) for language in CHECKERS)
        return [f"{fence.place}: found the language {fence.language!r}, expected one of {known}"]
    return [f"{fence.place}: {problem}" for problem in check(fence)]


# -- documents -----------------------------------------------------------------------------------------------


def _check_yaml(fence: Fence) -> Problems:
    try:
        content = parse_yaml(fence.text, "fence")
    except DocumentError as error:
        yield str(error)
        return
    if content is None:
        return  # comments alone
    if not isinstance(content, dict):
        yield f"found {content!r}, expected a mapping of keys"
    elif any(key in content for key in FOREIGN):
        return
    elif "control_rate_hz" in content:
        yield from _check_mapping(content)
    elif all(isinstance(part, dict) and "ros__parameters" in part for part in content.values()):
        yield from _check_parameters(content)
    else:
        yield from _check_document(content)


def _check_document(content: dict[str, Any]) -> Problems:
    """Compare a document, or a part of one, with those of the package."""
    fitting = [(kind, marks) for kind, marks in DOCUMENTS if content.keys() <= kind.every_key().keys()]
    if not fitting:
        yield f"found the keys {', '.join(content)}, which no document has together"
        return
    found = [_problems_of(content, kind, is_whole=marks <= content.keys()) for kind, marks in fitting]
    yield from min(found, key=len)
    model = content.get("model")
    if isinstance(model, dict) and model.get("backend") in OPTIONS:
        yield from _problems_of(model.get("options", {}), OPTIONS[model["backend"]], is_whole=True)


def _problems_of(content: dict[str, Any], kind: type[Document], *, is_whole: bool) -> list[str]:
    if find_marks(content):
        return []  # the page shows what a person is to fill in
    try:
        parse_document(content, kind, kind.__name__)
    except DocumentError as error:
        return [line for line in str(error).splitlines() if is_whole or MISSING not in line]
    return []


def _check_parameters(content: dict[str, Any]) -> Problems:
    """Check the parameters of this package's nodes; other nodes' are theirs."""
    for name, part in content.items():
        node = name.rpartition("/")[2]
        if node in {*MODULES, "**"}:
            given = part["ros__parameters"]
            yield from min((_problems_of(given, kind, is_whole=False) for kind in PARAMETERS), key=len)


def _check_mapping(content: dict[str, Any]) -> Problems:
    if find_spec("gymnasium"):
        kind = pkgutil.resolve_name(
            "remote_inference.learn.environments.gymnasium_environment:GymnasiumMapping"
        )
        yield from _problems_of(content, kind, is_whole=True)


def _check_json(fence: Fence) -> Problems:
    try:
        content = parse_json(re.sub(r"\A//.*\n", "", fence.text), "fence")
    except DocumentError as error:
        yield str(error)
        return
    if isinstance(content, dict) and content.keys() <= HoldConfig.model_fields.keys():
        yield from _problems_of(content, HoldConfig, is_whole=True)


# -- Python --------------------------------------------------------------------------------------------------


def _check_python(fence: Fence) -> Problems:
    try:
        compile(fence.text, fence.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
        return
    written = set(re.findall(r"^# (\w+)\.py$", fence.page.read_text(), re.MULTILINE))  # by the page's reader
    for node in ast.walk(ast.parse(fence.text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _check_import(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module not in written:
            for alias in node.names:
                yield from _check_import(node.module or "", alias.name)


def _check_import(module: str, name: str = "") -> Problems:
    package = module.partition(".")[0]
    if package in PEERS and ((spec := find_spec(package)) is None or spec.origin is None):
        return  # not installed: a folder of tests of that name has no origin
    try:
        found = import_module(module)
        if name and not hasattr(found, name):
            import_module(f"{module}.{name}")
    except ImportError as error:
        yield f"import: {error}"


# -- commands ------------------------------------------------------------------------------------------------


def _check_shell(fence: Fence) -> Problems:
    if not has_commands(fence):
        return
    read = subprocess.run(["bash", "-n"], input=fence.text, capture_output=True, text=True, check=False)
    yield from read.stderr.splitlines()
    try:
        commands = find_commands(fence.text)
    except ValueError as error:
        yield f"{error}, expected what a shell can read"
        return
    for program, *words in commands:
        if check := COMMANDS.get(program):
            yield from (f"{program} {' '.join(words)}: {problem}" for problem in check(words))


def _check_verb(words: list[str]) -> Problems:
    said = StringIO()
    try:
        with redirect_stderr(said):
            make_parser().parse_args(words)
    except SystemExit as error:
        if error.code:
            yield said.getvalue().strip().splitlines()[-1]


def _check_make(words: list[str]) -> Problems:
    """Check targets, variables, and what ARGS hands to a verb of the package."""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    targets = [word for word in words if "=" not in word]
    known = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    yield from (f"found no target {target!r}" for target in targets if target not in known)
    yield from (f"found no variable {name!r}" for name in given if not re.search(rf"\b{name}\b", MAKEFILE))
    if targets == ["demo"]:
        yield from _check_verb(["demo", *shlex.split(given.get("ARGS", ""))])


def _check_ros2(words: list[str]) -> Problems:
    match words:
        case ["launch", "remote_inference", name, *arguments]:
            if not (LAUNCH / name).is_file():
                yield f"found no launch file {name!r}"
                return
            given = {argument.partition(":=")[0] for argument in arguments}
            unknown = sorted(given - launch_arguments(name))
            yield from (f"found no argument {argument!r}" for argument in unknown)
        case ["run", "remote_inference", name, *arguments]:
            if name not in MODULES:
                yield f"found no executable {name!r}"
                return
            yield from _check_node(name, arguments)


def _check_node(executable: str, arguments: list[str]) -> Problems:
    """Check the parameters that a node's command line sets, and that its server will serve."""
    source = (ROOT / "src" / f"{MODULES[executable].replace('.', '/')}.py").read_text()
    known = {*re.findall(r"^    (\w+): Annotated\[", source, re.MULTILINE)}
    if executable == "remote_inference":
        known |= {"contract", *RobotConfig.model_fields}
    for flag, setting in pairwise(arguments):
        if flag == "-p" and (name := setting.partition(":=")[0]) not in known:
            yield f"found no parameter {name!r}"
    if executable == "policy_server" and "autostart:=true" not in arguments:
        yield "found no autostart:=true: the server would wait, unconfigured"


SHARED_ARGUMENTS = {  # of launch_actions.py
    "NAMESPACE": {"namespace"},
    "ENVIRONMENT": {"environment", "options"},
    "CONTRACT": {"contract"},
}


def launch_arguments(name: str) -> set[str]:
    """Return the arguments that a launch file declares."""
    described = (LAUNCH / name).read_text().partition("return describe(")[2].partition("\n\n\n")[0]
    found = {*re.findall(r'\(\s*"(\w+)",', described)}
    for shared, names in SHARED_ARGUMENTS.items():
        found |= names if shared in described else set()
    return found if "has_middleware=False" in described else found | {"rmw", "router"}


def _check_script(words: list[str]) -> Problems:
    """Check the script of a command that runs one of the repository's."""
    script = words[0] if words else ""
    if re.match(r"(test|tools|benchmarks|scripts)/", script) and not (ROOT / script).is_file():
        yield f"found no file {script!r}"


def _check_pip(words: list[str]) -> Problems:
    """Check the files of requirements; people stand in the repository, or in that folder."""
    for flag, file in pairwise(words):
        if flag in {"-r", "-c"} and not (ROOT / "requirements" / file.rpartition("/")[2]).is_file():
            yield f"found no file {file!r}"


COMMANDS: Mapping[str, Callable[[list[str]], Problems]] = {
    "make": _check_make,
    "pip": _check_pip,
    "pip3": _check_pip,
    "policy_server": lambda words: _check_node("policy_server", words),
    "python": _check_script,
    "python3": _check_script,
    "remote-inference": _check_verb,
    "ros2": _check_ros2,
}
CHECKERS: Mapping[str, Callable[[Fence], Problems]] = {
    **dict.fromkeys(SHELL, _check_shell),
    "json": _check_json,
    "python": _check_python,
    "yaml": _check_yaml,
}
