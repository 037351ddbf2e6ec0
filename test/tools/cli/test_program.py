# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How every verb begins and ends: quickly, and with a line and an exit code instead of a traceback."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from remote_inference.base.errors import UserError
from remote_inference.tools import cli
from remote_inference.tools.cli import common, parser

# Each of these takes longer to import than help may take to appear.
SLOW_IMPORTS = ("rclpy", "torch", "pydantic", "rich", "numpy", "matplotlib", "cryptography")
NAMES = [verb.name for verb in parser.VERBS]


def verb_parser(name: str) -> argparse.ArgumentParser:
    choices = parser.make_parser(complete=True)._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    return choices[name]  # type: ignore[index, no-any-return, call-overload]


def examples(name: str) -> list[str]:
    """Return the commands that a verb's help ends with."""
    _, _, shown = (verb_parser(name).epilog or "").partition("examples:\n")
    return [line.strip() for line in shown.splitlines() if line.startswith(f"  {parser.PROGRAM} ")]


def slow_imports_of(*arguments: str) -> set[str]:
    """Return which slow packages a process has imported once it has parsed a command line."""
    code = (
        "import sys\nfrom remote_inference.tools.cli import parser\n"
        "try: parser.make_parser().parse_args(sys.argv[1:])\nexcept SystemExit: pass\n"
        f"print('imported', *sorted(set({SLOW_IMPORTS}) & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, timeout=60.0
    )
    return set(ended.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in NAMES)], ids=" ".join)
def test_help_imports_nothing_slow(arguments: list[str]) -> None:
    assert not slow_imports_of(*arguments)


@pytest.mark.parametrize("name", NAMES)
def test_parsing_imports_nothing_slow(name: str) -> None:
    assert not slow_imports_of(*shlex.split(examples(name)[0])[1:])


@pytest.mark.parametrize("name", NAMES)
def test_help_ends_with_examples_that_are_accepted(name: str) -> None:
    assert examples(name)
    for example in examples(name):
        assert parser.make_parser().parse_args(shlex.split(example)[1:]).verb == name


def parsers_of(parser_: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its verbs."""
    yield parser_
    for action in parser_._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers_of(one)


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_and_every_verb_of_a_verb_is_described(name: str) -> None:
    for one in parsers_of(verb_parser(name)):
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                described = {choice.dest for choice in action._choices_actions if choice.help}
                assert described == set(action.choices)
            else:
                assert action.help, f"{one.prog} {action.dest}"


@pytest.mark.parametrize("name", ["explain", "verify", "export", "replay"])
def test_a_bag_has_one_name_in_every_help(name: str) -> None:
    assert "BAG" in verb_parser(name).format_usage()


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_each_exit_code_means_in_80_columns(name: str) -> None:
    _, _, said = (verb_parser(name).epilog or "").partition("exit codes:\n")
    lines = said.partition("\n\n")[0].splitlines()
    assert max(map(len, lines)) <= 80
    codes = {int(line.split()[0]) for line in lines if line[2] != " "}
    assert codes == set(common.meanings(name)) >= {0, 2, 130, 141}


def test_exit_codes_are_those_of_verbs_that_exist() -> None:
    assert set(common.OF_VERB) <= set(NAMES)


def end_of_verb(monkeypatch: pytest.MonkeyPatch, run: Callable[[], int]) -> int:
    """Run a verb that ends as `run` does."""
    module = ModuleType("remote_inference.tools.cli.verbs.dummy")
    own = {"EXAMPLES": {"dummy": ()}, "add_dummy": lambda parser: None, "run_dummy": lambda arguments: run()}
    vars(module).update(own)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(parser, "VERBS", (parser.Verb("dummy", "do as the test says", "dummy:dummy"),))
    return cli.main(["dummy"])


def raiser(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("a.yaml: fps: found -1"), "a.yaml: fps: found -1"),
        (PermissionError(13, "Permission denied", "/run/report.png"), "/run/report.png: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (
            ModuleNotFoundError("No module named 'rich'", name="rich"),
            "found no Python package rich: install it with pip or rosdep",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    assert end_of_verb(monkeypatch, raiser(error)) == common.EXIT_USAGE
    assert capsys.readouterr() == ("", f"remote-inference dummy: {line}\n")


def test_an_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of_verb(monkeypatch, raiser(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_a_bug_is_not_taken_for_the_user_s_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        end_of_verb(monkeypatch, raiser(ZeroDivisionError()))


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["check", "CONTRACT"]], ids=" ".join)
def test_a_reader_that_is_gone_ends_a_verb_quietly(arguments: list[str]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    contract = str(Path(__file__).parents[3] / "config" / "belt_arm.contract.yaml")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "remote_inference.tools.cli",
                *(a.replace("CONTRACT", contract) for a in arguments),
            ],
            env=buffered,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60.0,
        )
    assert (ended.returncode, ended.stderr) == (common.EXIT_BROKEN_PIPE, "")


def test_a_file_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(tmp_path / "none.yaml")]) == common.EXIT_USAGE
    assert capsys.readouterr().err == (
        f"remote-inference check: {tmp_path}/none.yaml: cannot be read: No such file or directory\n"
    )


def test_the_doctor_names_a_middleware_that_is_not_installed() -> None:
    """Rcl ends a process that asks for one, with a line of its own source."""
    ended = subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", "doctor"],
        env={**os.environ, "RMW_IMPLEMENTATION": "rmw_nope_cpp"},
        capture_output=True,
        text=True,
        timeout=60.0,
    )
    assert ended.returncode == 1
    assert ended.stdout.startswith("error    middleware: rmw_nope_cpp is not installed, found ")


@pytest.mark.parametrize("name", [verb.name for verb in parser.VERBS if verb.has_nodes])
def test_a_middleware_that_is_not_installed_is_exit_code_2_in_the_doctors_words(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", *shlex.split(examples(name)[0])[1:]],
        env={**os.environ, "RMW_IMPLEMENTATION": "rmw_nope_cpp"},
        capture_output=True,
        text=True,
        timeout=60.0,
    )
    assert (ended.returncode, ended.stdout) == (common.EXIT_USAGE, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"remote-inference {name}: middleware: rmw_nope_cpp is not installed, found ")


WITHOUT_RESULT = {"robot", "server", "serve", "hud"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_RESULT])
def test_every_verb_with_a_result_prints_json_on_request(name: str) -> None:
    example = next(example for example in reversed(examples(name)) if "--json" not in example)
    assert parser.make_parser().parse_args([*shlex.split(example)[1:], "--json"]).json


NAMED = ["resume", "pause", "clear-stop", "takeover", "release", "reset"]


@pytest.mark.parametrize("arguments", [*([name] for name in NAMED), ["weights", "rollback"]], ids=" ".join)
def test_what_changes_a_robot_wants_its_name(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where discovery takes its time, the only robot that is known may be one of two."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == common.EXIT_USAGE
    missing = "SERVER" if "rollback" in arguments else "ROBOT"
    assert f"the following arguments are required: {missing}" in capsys.readouterr().err


def test_only_results_reach_the_standard_output() -> None:
    """rmw_zenoh logs to file descriptor 1, in the middle of what `--json` prints."""
    code = (
        "import os\n"
        "from remote_inference.tools.cli.common import print_json, results_apart\n"
        "print('before')\n"
        "with results_apart():\n"
        "    os.write(1, b'WARN zenoh: no router\\n')\n"
        "    print_json({'robot': '/arm'})\n"
        "    os.system('echo a child')\n"
        "os.write(1, b'after\\n')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60.0
    )
    assert ended.stdout == 'before\n{"robot": "/arm"}\nafter\n'
    assert ended.stderr == "WARN zenoh: no router\na child\n"
