# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`make bench-against`: what it reads of the benchmarks, how it takes turns, and what counts as worse."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import bench_against
import bench_figures
import capacity
import control_jitter
import peers
import pytest
import request_cycle
from bench_against import BENCHMARKS, Benchmark, Side
from bench_figures import Block, Comparison, Figures
from rich.console import Console

from remote_inference.base.errors import UserError
from remote_inference.tools.tables import Table
from support.waiting import process_state, wait_until

CYCLES = """\
Request cycle: the robot's own measure, from stamping the request to merging the
chunk; the policy takes no time, so all of it is overhead.
2 processors, load average before the run: 0.6
From the sensors to the chunk beside a bare ping-pong, back to back [ms]
                           sensors to          request  bare        ratio
observation            KB   chunk p50   p95  cycle p50   p50   p95    p50
state only              3        1.80  1.82       1.25  0.42  0.42   4.28
2 cameras, JPEG q90   105        6.28  6.34       4.35  0.49  0.49  12.82
From the sensors to the chunk beside a bare ping-pong, paced [ms]
                           sensors to          request  bare        ratio
observation            KB   chunk p50   p95  cycle p50   p50   p95    p50
state only              3        2.34  2.36       1.62  0.42  0.42   5.56
2 cameras, JPEG q90   105       10.17  8.25       5.66  0.49  0.49  16.67
2 cameras, JPEG q90, back to back: 6.28 ms, 1.85 of the 3.4 ms in which
openpi-client encodes, sends, decodes and answers two such images on two cores,
without sensors that are processes of their own.
"""
# Before the sides took turns in blocks, the table had p50 and p95 of the ratio.
PEERS_BEFORE_BLOCKS = """\
2 processors, load average before the run: 0.6
From an observation to its chunk, paced [ms]
                                                              to openpi  to openpi
two images                          side          p50    p95        p50        p95
640x480, raw                        openpi       5.46   5.69
640x480, raw                        our client   6.83   7.12       1.25       1.25
640x480: openpi resizes, ours JPEG  openpi       8.19   8.54
640x480: openpi resizes, ours JPEG  our client   9.55   9.96       1.17       1.17
640x480: openpi resizes, ours JPEG  our nodes   10.92  11.39       1.33       1.33
"""
FULL = [benchmark.arguments for benchmark in BENCHMARKS]
MOVED = ("a table", "moved")
STEADY = ("a table", "steady")


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Side, Side]:
    names = ("REV", "here")
    rev, here = (Side(name, tmp_path / name, Path(sys.executable)) for name in names)
    return rev, here


def blocks_of(*pairs: tuple[float, float]) -> list[Block]:
    """Return blocks in which one figure is as given for REV and here, and another stays the same."""
    return [({MOVED: rev, STEADY: 2.0}, {MOVED: here, STEADY: 2.0}) for rev, here in pairs]


def test_the_medians_of_the_request_cycle_are_read() -> None:
    assert bench_figures.parse_request_cycle(CYCLES) == {
        ("Request cycle: sensors to chunk, back to back [ms]", "state only"): 1.80,
        ("Request cycle: the robot's own measure, back to back [ms]", "state only"): 1.25,
        ("Request cycle: sensors to chunk, back to back [ms]", "2 cameras, JPEG q90"): 6.28,
        ("Request cycle: the robot's own measure, back to back [ms]", "2 cameras, JPEG q90"): 4.35,
        ("Request cycle: sensors to chunk, paced [ms]", "state only"): 2.34,
        ("Request cycle: the robot's own measure, paced [ms]", "state only"): 1.62,
        ("Request cycle: sensors to chunk, paced [ms]", "2 cameras, JPEG q90"): 10.17,
        ("Request cycle: the robot's own measure, paced [ms]", "2 cameras, JPEG q90"): 5.66,
    }


def test_the_medians_of_peers_are_read_without_openpi_s() -> None:
    assert bench_figures.parse_peers(PEERS_BEFORE_BLOCKS) == {
        ("Peers: our client, paced [ms]", "640x480, raw"): 6.83,
        ("Peers: our client, paced [ms]", "640x480: openpi resizes, ours JPEG"): 9.55,
        ("Peers: our nodes, paced [ms]", "640x480: openpi resizes, ours JPEG"): 10.92,
    }


def test_this_checkout_s_request_cycle_prints_what_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        request_cycle.Measurement(case, pace, 924_000, [3.5] * 3, [0.9] * 3, 2.5)
        for pace in request_cycle.PAUSES_S
        for case in request_cycle.CASES
    ]
    Console().print(request_cycle.METHOD)
    for pace in request_cycle.PAUSES_S:
        request_cycle.print_results(pace, [result for result in results if result.pace == pace])
    figures = bench_figures.parse_request_cycle(capsys.readouterr().out)
    assert len(figures) == 2 * len(results)
    assert set(figures.values()) == {3.5, 2.5}


def test_this_checkout_s_peers_print_what_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"openpi": [[1.0]], "bare rclpy": [[0.5]], "our client": [[2.0]], "our nodes": [[3.0]]}
    Console().print(peers.METHOD)
    for pace in peers.PAUSES_S:
        peers.print_results(
            pace, [peers.Measurement(contest.name, pace, values) for contest in peers.CONTESTS]
        )
    printed = capsys.readouterr().out
    assert re.search(r"our nodes +3\.00 +3\.00 +3\.00 +3\.00 +3\.00 +6\.00\n", printed)
    figures = bench_figures.parse_peers(printed)
    assert len(figures) == len(peers.PAUSES_S) * len(peers.CONTESTS) * len(peers.OURS)
    assert set(figures.values()) == {2.0, 3.0}


def test_this_checkout_s_control_period_is_read() -> None:
    quantiles = (0.05, 1.34, 2.43, 2.45)
    results = [
        control_jitter.Measurement(scenario, 100.0, quantiles, quantiles, 2000, 0, 0, 30.0)
        for scenario in ("idle", "network")
    ]
    written = json.dumps([dataclasses.asdict(result) for result in results])
    title = "Control period: error p99 [ms]"
    assert bench_figures.parse_control(written) == {
        (title, "idle, 100 Hz"): 1.34,
        (title, "network, 100 Hz"): 1.34,
    }


def test_this_checkout_s_capacity_is_read() -> None:
    fields: dict[str, Any] = {field.name: 1.0 for field in dataclasses.fields(capacity.Point)}
    named = {"scheduler": "round_robin", "sessions": 8, "round_trip_p50_ms": 9.5, "cpu_ms": 3.1}
    written = json.dumps({"points": [dataclasses.asdict(capacity.Point(**{**fields, **named}))]})
    title = "Capacity: 8 sessions [ms]"
    assert bench_figures.parse_capacity(written) == {
        (title, "round_robin, round trip p50"): 9.5,
        (title, "round_robin, CPU per answer"): 3.1,
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "result.json cannot be read: FileNotFoundError"),
        ("", "result.json cannot be read: JSONDecodeError"),
        ("[]", "result.json: found no figure, expected a row for each case"),
        ('[{"scenario": "idle"}]', "result.json cannot be read: KeyError: 'rate_hz'"),
        (
            '[{"scenario": "idle", "rate_hz": 100, "robot": [0, NaN]}]',
            "Control period: error p99 [ms], idle, 100 Hz: found nan, expected a positive number",
        ),
    ],
)
def test_a_result_that_cannot_be_read_says_what_was_expected(
    written: str | None, message: str, tmp_path: Path
) -> None:
    control = next(benchmark for benchmark in BENCHMARKS if benchmark.script == "control_jitter.py")
    if written is not None:
        (tmp_path / control.result).write_text(written)
    with pytest.raises(UserError, match=re.escape(message)):
        control.read(tmp_path)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.script)
def test_each_script_knows_its_arguments(benchmark: Benchmark) -> None:
    source = (bench_against.ROOT / "benchmarks" / benchmark.script).read_text()
    for arguments in (benchmark.arguments, benchmark.rehearsal):
        assert re.findall(r"--[a-z]+", arguments)
        for option in re.findall(r"--[a-z]+", arguments):
            assert f'"{option}"' in source


@pytest.mark.parametrize(
    ("pairs", "ratio", "spread", "mark"),
    [
        pytest.param(
            [(4, 4.6), (4, 4.8), (5, 6)], "1.20", "1.15 to 1.20", "> 1.10", id="15 % in every block"
        ),
        pytest.param([(4, 4.2), (4, 4.8), (5, 6)], "1.20", "1.05 to 1.20", "slower", id="once only 5 %"),
        pytest.param([(4, 3.9), (4, 4.8), (5, 6)], "1.20", "0.97 to 1.20", "", id="once faster"),
        pytest.param([(4, 4), (4, 8), (4, 8)], "2.00", "1.00 to 2.00", "", id="once the same"),
        pytest.param([(4, 2), (4, 2), (4, 2)], "0.50", "0.50 to 0.50", "", id="faster"),
    ],
)
def test_only_what_holds_in_every_block_is_marked(
    pairs: list[tuple[float, float]], ratio: str, spread: str, mark: str
) -> None:
    moved, steady = bench_figures.compare(blocks_of(*pairs))[0]
    assert moved.row(1.10)[3:] == (ratio, spread, mark)
    assert steady.row(1.10) == ("steady", "2.00", "2.00", "1.00", "1.00 to 1.00", "")


def test_the_ratio_is_that_of_the_blocks_and_not_of_the_medians() -> None:
    """A machine that slows down moves both sides of a block, and neither block's ratio."""
    comparison = Comparison(MOVED, ((1.0, 1.1), (2.0, 2.2), (4.0, 4.4)))
    assert comparison.row(1.2)[1:4] == ("2.00", "2.20", "1.10")


@pytest.mark.parametrize(
    ("pairs", "failures", "code"),
    [
        ([(4, 4), (4, 5), (4, 5)], {}, 0),
        ([(4, 5), (4, 5), (4, 5)], {}, 1),
        ([(4, 4), (4, 5), (4, 5)], {"peers.py": "peers.py, REV: found no such script"}, 2),
        ([(4, 5), (4, 5), (4, 5)], {"peers.py": "peers.py, REV: found no such script"}, 1),
    ],
)
def test_the_exit_code_says_whether_there_is_a_step_back(
    pairs: list[tuple[float, float]],
    failures: dict[str, str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench_against.report({"request_cycle.py": blocks_of(*pairs)}, failures, 1.10) == code
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Not")] == [
        f"Not compared: {why}" for why in failures.values()
    ]


def test_the_limit_is_of_the_least_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    results = {"request_cycle.py": blocks_of((4, 5), (4, 5), (4, 6))}
    assert bench_against.report(results, {}, 1.25) == 0
    assert "2 figures. Slower in every block: 1; by more than 1.25: 0." in capsys.readouterr().out
    assert bench_against.report(results, {}, 1.24) == 1


def test_a_figure_of_one_side_alone_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    results: dict[str, list[Block]] = {"peers.py": [({STEADY: 1.0}, {STEADY: 1.0, MOVED: 1.0})] * 3}
    assert bench_against.report(results, {}, 1.10) == 2
    assert "Not compared: peers.py: not on both sides: a table, moved" in capsys.readouterr().out


def test_the_widest_table_fits_a_terminal() -> None:
    contest = max((contest.name for contest in peers.CONTESTS), key=len)
    row = Comparison(("", contest), ((23.45, 28.14),) * 3).row(1.10)
    table = Table("", bench_against.COLUMNS, [row], bench_against.COLUMNS[1:4])
    assert max(map(len, table.to_text().splitlines())) <= 80
    console = Console(width=80)
    with console.capture() as drawn:
        console.print(table.to_rich())
    assert "640x480: openpi resizes, ours JPEG" in drawn.get()
    assert "> 1.10" in drawn.get()


def test_sides_swap_in_every_block_and_benchmarks_take_turns(sides: tuple[Side, Side]) -> None:
    calls: list[tuple[str, str, str]] = []

    def measure(benchmark: Benchmark, arguments: str, scripts: Path, side: Side, name: str) -> Figures:
        assert scripts == sides[1].root  # this checkout's run on both sides
        if arguments in FULL:
            calls.append((name, benchmark.script, side.name))
        return {STEADY: 1.05 if side.name == "here" else 1.0}

    results, failures = bench_against.measure_all(*sides, 3, measure)
    first = BENCHMARKS[0].script
    assert [(name, side) for name, script, side in calls if script == first] == [
        ("block 1", "REV"),
        ("block 1", "here"),
        ("block 2", "here"),
        ("block 2", "REV"),
        ("block 3", "REV"),
        ("block 3", "here"),
    ]
    assert [name for name, _, _ in calls] == sorted(name for name, _, _ in calls)
    assert results == {each.script: [({STEADY: 1.0}, {STEADY: 1.05})] * 3 for each in BENCHMARKS}
    assert failures == {}


@pytest.mark.parametrize(("later", "worse"), [(1.3, True), (1.0, False)])
def test_what_is_worse_is_measured_as_often_again(
    sides: tuple[Side, Side], later: float, worse: bool
) -> None:
    """A machine has moods that last for a few blocks."""

    def measure(benchmark: Benchmark, arguments: str, scripts: Path, side: Side, name: str) -> Figures:
        if side.name == "REV" or benchmark.script != "peers.py":
            return {STEADY: 1.0}
        return {STEADY: later if name in ("block 4", "block 5", "block 6") else 1.3}

    results, failures = bench_against.measure_all(*sides, 3, measure)
    assert failures == {}
    blocks = {each.script: 6 if each.script == "peers.py" else 3 for each in BENCHMARKS}
    assert {name: len(taken) for name, taken in results.items()} == blocks
    assert bench_against.is_worse(results["peers.py"], 1.10) == worse


def test_a_benchmark_that_fails_once_is_left_out_and_the_others_go_on(sides: tuple[Side, Side]) -> None:
    calls: list[str] = []

    def measure(benchmark: Benchmark, arguments: str, scripts: Path, side: Side, name: str) -> Figures:
        calls.append(benchmark.script)
        if benchmark.script == "peers.py" and name == "block 2":
            raise UserError("peers.py, block 2, here: exit code 1")
        return {STEADY: 1.0}

    results, failures = bench_against.measure_all(*sides, 3, measure)
    assert failures == {"peers.py": "peers.py, block 2, here: exit code 1"}
    assert set(results) == {each.script for each in BENCHMARKS} - {"peers.py"}
    assert calls.count("peers.py") == 5  # two rehearsals, two in block 1, and one that failed
    assert calls.count("capacity.py") == 8


@pytest.mark.parametrize(
    ("fitting", "chosen"),
    [
        pytest.param({"REV": ["REV", "here"], "here": ["REV", "here"]}, ("here", "here"), id="all fit"),
        pytest.param({"REV": ["REV"], "here": ["REV", "here"]}, ("REV", "REV"), id="the old fit both"),
        pytest.param({"REV": ["REV"], "here": ["here"]}, ("REV", "here"), id="each fits its own alone"),
        pytest.param({"REV": [], "here": ["here"]}, None, id="missing at REV"),
    ],
)
def test_the_same_scripts_measure_both_sides_where_they_can(
    fitting: dict[str, list[str]],
    chosen: tuple[str, str] | None,
    sides: tuple[Side, Side],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(benchmark: Benchmark, arguments: str, scripts: Path, side: Side, name: str) -> Figures:
        assert arguments == benchmark.rehearsal
        if scripts.name not in fitting[side.name]:
            raise UserError(f"{scripts.name}'s script does not fit {side.name}")
        return {STEADY: 1.0}

    if chosen is None:
        with pytest.raises(UserError, match=r"^REV's script does not fit REV$"):
            bench_against.choose_scripts(BENCHMARKS[0], *sides, measure)
        return
    roots = bench_against.choose_scripts(BENCHMARKS[0], *sides, measure)
    assert tuple(root.name for root in roots) == chosen
    said = capsys.readouterr().err
    assert ("because of here's script does not fit REV" in said) == (chosen != ("here", "here"))


SCRIPT = """\
import os, sys, time
from pathlib import Path
Path("seen").write_text(" ".join(sys.argv[1:]) + os.environ.get("MAKEFLAGS", ""))
{}
"""


def run_script(
    lines: str, root: Path, monkeypatch: pytest.MonkeyPatch, parse: Any = bench_figures.parse_request_cycle
) -> Figures:
    """Run a script as if it were a benchmark of a checkout."""
    monkeypatch.setattr(bench_against, "OUTPUT", root / "output")
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "one.py").write_text(SCRIPT.format(lines))
    side = Side("REV", root, Path(sys.executable))
    return bench_against.run(
        Benchmark("one.py", "--cycles 3", "", parse), "--cycles 3", root, side, "block 1"
    )


def test_a_script_runs_in_a_folder_of_its_own_without_make_s_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFLAGS", "-- REV=main")
    figures = run_script(f"print({CYCLES!r})", tmp_path, monkeypatch)
    assert len(figures) == 8
    assert (tmp_path / "output" / "block_1_REV_one" / "seen").read_text() == "--cycles 3"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "import missing_module",
            "exit code 1: ModuleNotFoundError: No module named 'missing_module' (more in ",
        ),
        ("sys.exit('no answer')", "exit code 1: no answer (more in "),
        ("time.sleep(60)", "did not end within 1 s"),
        ("print('nothing')", "stdout.txt: found no figure, expected a row for each case"),
    ],
)
def test_a_script_that_fails_is_named_with_its_last_words(
    lines: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_against, "RUN_TIMEOUT_S", 1.0 if "sleep" in lines else 60.0)
    with pytest.raises(UserError, match=re.escape(f"one.py, block 1, REV: {message}")):
        run_script(lines, tmp_path, monkeypatch)


def test_what_a_script_has_started_ends_with_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_against, "RUN_TIMEOUT_S", 2.0)
    child = "import subprocess; child = subprocess.Popen(['sleep', '60']); "
    lines = f"{child}Path('child').write_text(str(child.pid)); time.sleep(60)"
    with pytest.raises(UserError, match="did not end within 2 s"):
        run_script(lines, tmp_path, monkeypatch)
    pid = int((tmp_path / "output" / "block_1_REV_one" / "child").read_text())
    wait_until(lambda: not process_state(pid), "the child of the script ends", 10.0)


def test_a_missing_script_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_against, "OUTPUT", tmp_path / "output")
    side = Side("REV", tmp_path, Path(sys.executable))
    with pytest.raises(UserError, match=r"^peers\.py, rehearsal 3, REV: found no such script$"):
        bench_against.run(BENCHMARKS[1], "", tmp_path, side, "rehearsal 3")


# Its package takes as many milliseconds as `ms` says, and is installed as a Python that knows them.
MAKEFILE = """\
BIN := .venv/$(DISTRO)/bin
setup:
\t@mkdir -p $(BIN)
\t@printf '#!/bin/sh\\nexport PACKAGE_MS=%s\\nexec "%s" "$$@"\\n' "$$(cat ms)" "$(PYTHON)" > $(BIN)/python
\t@chmod +x $(BIN)/python
"""
FAKE_BENCHMARK = """\
import os
print("From the sensors to the chunk beside a bare ping-pong, paced [ms]")
ms = os.environ.get("PACKAGE_MS", "3.00")
print(f"state only  3  {ms}  2.36  {ms}  0.42  0.42   5.56")
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of a commit whose package takes 2 ms; 3 ms are installed for this checkout."""
    for program in ("git", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"found no {program}, which makes the other side")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # within a hook, git would mean the repository of the hook
    root = tmp_path / "checkout"
    (root / "benchmarks").mkdir(parents=True)
    (root / "Makefile").write_text(MAKEFILE)
    (root / "ms").write_text("2.00")
    (root / "benchmarks" / "request_cycle.py").write_text(FAKE_BENCHMARK)
    (root / ".gitignore").write_text("/build/\n/.venv/\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "First")):
        subprocess.run(["git", "-C", root, *words], check=True, timeout=60)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bench_against, "ROOT", root)
    monkeypatch.setattr(bench_against, "OUTPUT", root / "build" / "bench_against")
    monkeypatch.setattr(bench_against, "BENCHMARKS", BENCHMARKS[:1])
    return root


def test_a_slower_checkout_is_found(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert bench_against.main(["HEAD"]) == 1
    printed = capfd.readouterr().out
    assert re.search(r"REV is HEAD \(\w{10}\), here is \w{10}\. 3 blocks\.", printed)
    assert "state only  2.00  3.00   1.50  1.50 to 1.50  > 1.10" in printed
    assert "2 figures. Slower in every block: 2; by more than 1.10: 2." in printed


def test_the_other_side_is_built_once(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    commit = bench_against.find_commit("HEAD")
    side = bench_against.build(commit)
    assert side.root.is_relative_to(os.environ["XDG_CACHE_HOME"])
    (side.root / "kept").touch()
    assert bench_against.build(commit) == side
    assert (side.root / "kept").exists()
    shutil.rmtree(side.root)
    assert bench_against.build(commit).python.exists()


def test_a_change_that_is_not_committed_is_named(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (checkout / "ms").write_text("3.00")
    assert bench_against.main(["HEAD", "--limit", "2"]) == 0
    assert " with changes. 3 blocks.\n" in capfd.readouterr().out


def test_a_commit_that_cannot_be_built_is_named(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (checkout / "Makefile").write_text("other:\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    bench_against.git(*author, "commit", "-q", "-a", "-m", "Forget how to build")
    assert bench_against.main(["HEAD"]) == 2
    assert re.search(
        r"bench-against: REV: make setup in \S+ ended with exit code 2\n", capfd.readouterr().err
    )


def test_an_unknown_commit_is_refused(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert bench_against.main(["v9.9"]) == 2
    assert "REV: found 'v9.9', expected a branch, tag or hash of a commit" in capfd.readouterr().err


def test_a_branch_that_a_clone_has_not_checked_out_is_its_origin_s(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a fresh clone of a branch, which has no `main` of its own."""
    commit = bench_against.find_commit("HEAD")
    bench_against.git("branch", "other")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "other", checkout, clone], check=True, timeout=60)
    main = bench_against.git("branch", "--show-current")
    monkeypatch.setattr(bench_against, "ROOT", clone)
    assert bench_against.git("branch", "--format", "%(refname:short)") == "other"
    assert bench_against.find_commit(main) == commit


def test_fewer_than_three_blocks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        bench_against.main(["main", "--blocks", "2"])
    assert error.value.code == 2
    assert "--blocks: found 2, expected 3 or more" in capsys.readouterr().err
