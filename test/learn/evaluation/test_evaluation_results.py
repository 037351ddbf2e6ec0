# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Results survive whatever ends their writer, and belong to one configuration and one writer."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from remote_inference.learn.evaluation.document import Evaluation, load_evaluation
from remote_inference.learn.evaluation.episode_ledger import EpisodeLedger, Played
from remote_inference.learn.evaluation.policies import ServerLostError
from remote_inference.learn.evaluation.report import write_report
from remote_inference.learn.evaluation.results import (
    EpisodeResult,
    LostEpisode,
    ResultsError,
    ResultsFolder,
    Times,
    merge_folders,
    read_lines,
)
from remote_inference.tools.cli.common import EXIT_USAGE
from support.evaluation.drawer_evaluation import in_order, make_result, write_evaluation


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    return load_evaluation(write_evaluation(tmp_path))


def test_results_are_read_again_as_they_were_written(tmp_path: Path, evaluation: Evaluation) -> None:
    written = [make_result(1, metrics={"pull": 0.1, "way": None, "tries": 3, "open": True}), make_result(0)]
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        for result in written:
            folder.append(result)
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        assert in_order(folder) == [written[1], written[0]]


def read_strictly(text: str) -> Any:
    """Return a JSON document's content as readers do that know neither NaN nor infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_number_that_is_not_finite_is_null_in_the_file_and_left_out_of_every_mean(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    times = {"count": 2, "mean_ms": None, "p95_ms": None, "p99_ms": None}
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        folder.append(make_result(0, total_reward=math.nan, metrics={"way": math.inf}, inference=times))
        folder.append(make_result(1, total_reward=3.0, metrics={"way": 2.0}))
        write_report(evaluation, folder, "drawer")
    for line in (tmp_path / "out" / "episodes.jsonl").read_text().splitlines():
        read_strictly(line)
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        first, second = in_order(folder)
        assert (first.total_reward, first.metrics) == (None, {"way": None})
        assert second.total_reward == 3.0
        (summary,) = write_report(evaluation, folder, "drawer").summaries
    assert {name: (one.episodes, one.mean) for name, one in summary.numbers.items()} == {
        "total_reward": (1, 3.0),
        "way": (1, 2.0),
    }
    assert read_strictly((tmp_path / "out" / "task_summary.json").read_text())["episodes_played"] == 2


def test_a_duration_that_is_unknown_does_not_count() -> None:
    assert Times.of([0.002, math.nan, math.inf]) == Times(count=1, mean_ms=2.0, p95_ms=2.0, p99_ms=2.0)
    assert Times.of([math.nan]) == Times.of([])


def test_an_evaluation_that_is_refused_takes_its_own_files_with_it_alone(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "films").mkdir()
    for name in ("notes.txt", "blind.json"):
        (out / name).write_text("of a person")
    with pytest.raises(ResultsError, match="no such task"), ResultsFolder(out, evaluation):
        raise ResultsError("no such task")
    assert sorted(file.name for file in out.iterdir()) == ["blind.json", "films", "notes.txt"]


def test_a_result_that_was_written_stays_whatever_ends_the_run(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    """Ctrl-C may come between the line in the file and what the folder knows of it."""
    out = tmp_path / "out"
    folder = ResultsFolder(out, evaluation)
    folder.append(make_result(0))
    folder.results.clear()
    with pytest.raises(KeyboardInterrupt), folder:
        raise KeyboardInterrupt
    with ResultsFolder(out, evaluation) as opened:
        assert len(opened.results) == 1


@settings(max_examples=60, deadline=None)
@given(kept=st.integers(0, 3000))
def test_a_file_cut_anywhere_loses_at_most_the_line_that_is_torn(
    kept: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "episodes.jsonl"
    lines = [make_result(seed).to_line() for seed in range(4)]
    whole = b"".join(lines)
    path.write_bytes(whole[:kept])
    expected = sum(len(b"".join(lines[: count + 1])) <= kept for count in range(4))
    assert [one.seed for one in read_lines(path, EpisodeResult, mends=True)] == list(range(expected))
    assert path.read_bytes() == b"".join(lines[:expected])


def test_a_damaged_line_that_is_not_the_last_one_is_named(tmp_path: Path, evaluation: Evaluation) -> None:
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        folder.append(make_result(0))
    path = tmp_path / "out" / "episodes.jsonl"
    path.write_bytes(b'{"task": \n' + path.read_bytes())
    with pytest.raises(ResultsError, match=r"episodes\.jsonl: line 1: is not valid JSON"):
        ResultsFolder(tmp_path / "out", evaluation)


def test_an_episode_is_never_written_twice(tmp_path: Path, evaluation: Evaluation) -> None:
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        folder.append(make_result(0))
        with pytest.raises(ResultsError, match="seed 0: found twice"):
            folder.append(make_result(0))
    path = tmp_path / "out" / "episodes.jsonl"
    assert len(path.read_bytes().splitlines()) == 1
    path.write_bytes(2 * path.read_bytes())
    with pytest.raises(ResultsError, match="seed 0: found twice"):
        ResultsFolder(tmp_path / "out", evaluation)


def test_a_second_evaluator_is_refused_while_the_first_one_lives(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    first = ResultsFolder(tmp_path / "out", evaluation)
    with pytest.raises(ResultsError, match="another evaluation writes there"):
        ResultsFolder(tmp_path / "out", evaluation)
    first.close()
    ResultsFolder(tmp_path / "out", evaluation).close()


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"max_steps": 9}, "max_steps: found nothing, expected 9"),
        (
            {"robot": {"accept_weight_updates": False}},
            r"robot\.accept_weight_updates: found true, expected false",
        ),
        (
            {
                "environment": {
                    "name": "support.evaluation.trying_drawer:TryingDrawer",
                    "options": {"step_s": 0.5},
                }
            },
            r"environment\.options\.step_s: found nothing, expected 0\.5",
        ),
    ],
)
def test_results_of_another_configuration_are_refused(
    tmp_path: Path, evaluation: Evaluation, changes: dict[str, Any], difference: str
) -> None:
    ResultsFolder(tmp_path / "out", evaluation).close()
    other = load_evaluation(write_evaluation(tmp_path, **changes))
    with pytest.raises(ResultsError, match=rf"evaluation\.json: {difference}: these"):
        ResultsFolder(tmp_path / "out", other)


def test_an_option_of_the_results_that_is_asked_no_longer_is_a_difference(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": {"step_s": 0.5}}
    before = load_evaluation(write_evaluation(tmp_path, environment=environment))
    ResultsFolder(tmp_path / "out", before).close()
    with pytest.raises(ResultsError, match=r"environment\.options\.step_s: found 0\.5, expected nothing"):
        ResultsFolder(tmp_path / "out", evaluation)


def test_more_episodes_and_other_numbers_of_environments_go_on_in_the_same_folder(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    ResultsFolder(tmp_path / "out", evaluation).close()
    more = load_evaluation(write_evaluation(tmp_path, episodes=9, num_envs=3))
    ResultsFolder(tmp_path / "out", more).close()


def test_results_without_their_configuration_are_refused(tmp_path: Path, evaluation: Evaluation) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "episodes.jsonl").write_bytes(make_result().to_line())
    with pytest.raises(ResultsError, match=r"evaluation\.json: not found"):
        ResultsFolder(tmp_path / "out", evaluation)


def lose(out: Path, evaluation: Evaluation, seed: int) -> None:
    """Let one run lose an episode to the network."""

    def attempt(_: object) -> Played:
        raise ServerLostError("server /gpu_1 is gone")

    with ResultsFolder(out, evaluation) as folder:
        EpisodeLedger(folder).play(make_result(seed).key, attempt)


def test_an_episode_that_was_lost_counts_until_it_is_played_and_then_its_errors_do(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    out = tmp_path / "out"
    for seed in (0, 1, 0):
        lose(out, evaluation, seed)
    with ResultsFolder(out, evaluation) as folder:
        assert write_report(evaluation, folder, "drawer").lost == {"network": 2}
        assert "Lost to errors, by kind: network 2." in (out / "report.html").read_text()
        result = make_result(0, session_wait_ms=1500.0)
        EpisodeLedger(folder).play(result.key, lambda _: Played(result))
        findings = write_report(evaluation, folder, "drawer")
    assert findings.lost == {"network": 1}
    (summary,) = findings.summaries
    assert (summary.troubles, summary.session_wait_ms) == ({"network": 2}, 1500.0)
    content = json.loads((out / "task_summary.json").read_text())
    assert content["episodes_lost"] == {"network": 1}
    assert [one.troubles for one in read_lines(out / "episodes.jsonl", EpisodeResult, mends=False)] == [
        {"network": 2}
    ]


def test_a_lost_episode_that_the_document_no_longer_asks_for_does_not_count(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    lose(tmp_path / "out", evaluation, 4)
    fewer = load_evaluation(write_evaluation(tmp_path, episodes=4))
    with ResultsFolder(tmp_path / "out", fewer) as folder:
        assert write_report(fewer, folder, "drawer").lost == {}


def test_a_torn_line_of_a_lost_episode_is_mended(tmp_path: Path, evaluation: Evaluation) -> None:
    out = tmp_path / "out"
    lose(out, evaluation, 0)
    with (out / "lost.jsonl").open("ab") as file:
        file.write(b'{"task": "op')
    lose(out, evaluation, 1)
    with ResultsFolder(out, evaluation) as folder:
        assert [one.seed for one in folder.lost] == [0, 1]


FILL = """
import resource, signal, sys
from pathlib import Path
from support.evaluation.drawer_evaluation import make_result
from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.results import ResultsFolder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with ResultsFolder(Path(sys.argv[2]), load_evaluation(Path(sys.argv[1]))) as folder:
    folder.append(make_result(0))
    size = (folder.folder / "episodes.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
    folder.append(make_result(1))
"""

JOIN = """
import resource, sys
from pathlib import Path
from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.results import ResultsFolder, merge_folders
evaluation = load_evaluation(Path(sys.argv[1]))
with ResultsFolder(Path(sys.argv[2]), evaluation) as folder:
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
    merge_folders([Path(sys.argv[3])], folder, evaluation)
"""


def test_a_file_that_cannot_grow_is_named_and_keeps_what_it_has(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    """A limit on the size of files stands for a full disk: part of the line is written, the rest is not."""
    out = tmp_path / "out"
    call = [sys.executable, "-c", FILL, str(tmp_path / "drawer.evaluation.yaml"), str(out)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert "episodes.jsonl: cannot be written: File too large; free the disk" in done.stderr
    assert (out / "episodes.jsonl").read_bytes() == make_result(0).to_line()
    with ResultsFolder(out, evaluation) as folder:
        assert [one.seed for one in in_order(folder)] == [0]


@pytest.mark.parametrize("name", ["task_summary.json", "report.html"])
def test_a_report_that_finds_no_room_is_named_in_one_line_and_the_one_before_stays(
    tmp_path: Path, evaluation: Evaluation, name: str
) -> None:
    part, out = write_shard(tmp_path / "part", evaluation, 0), tmp_path / "out"
    document = str(tmp_path / "drawer.evaluation.yaml")
    call = [sys.executable, "-m", "remote_inference.tools.cli", "evaluate", document]
    call += ["--out", str(out), "--merge", str(part)]
    subprocess.run(call, capture_output=True, timeout=120)
    before = {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}
    limit = len(before["task_summary.json"]) if name == "report.html" else 100

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(call, capture_output=True, text=True, timeout=120, preexec_fn=limit_files)
    assert done.returncode == EXIT_USAGE
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"{out / name}: cannot be written: File too large")
    assert {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()} == before


def test_a_film_strip_that_finds_no_room_is_not_left_half_written(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    part = write_shard(tmp_path / "part", evaluation, 0, success=False, film="films/a.png")
    (part / "films" / "a.png").write_bytes(bytes(10_000))
    out = tmp_path / "out"
    call = [sys.executable, "-c", JOIN, str(tmp_path / "drawer.evaluation.yaml"), str(out), str(part)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert "a.png: cannot be written: File too large" in done.stderr
    assert not out.exists(), "a refused merge leaves nothing"


def write_shard(folder: Path, evaluation: Evaluation, *seeds: int, **changes: object) -> Path:
    with ResultsFolder(folder, evaluation) as shard:
        for seed in seeds:
            shard.append(make_result(seed, **changes))
    return folder


def test_shards_are_joined_and_joining_again_changes_nothing(tmp_path: Path, evaluation: Evaluation) -> None:
    parts = [write_shard(tmp_path / f"{seed}", evaluation, seed, seed + 2) for seed in (0, 1)]
    with ResultsFolder(tmp_path / "all", evaluation) as folder:
        assert merge_folders(parts, folder, evaluation) == 4
        assert merge_folders(parts, folder, evaluation) == 0
        assert [one.seed for one in in_order(folder)] == [0, 1, 2, 3]


def test_what_shards_have_lost_is_joined_once_unless_another_has_played_it(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    parts = [write_shard(tmp_path / f"{seed}", evaluation, seed) for seed in (0, 1)]
    for seed in (1, 2):
        lose(parts[0], evaluation, seed)
    with ResultsFolder(tmp_path / "all", evaluation) as folder:
        for _ in range(2):
            merge_folders(parts, folder, evaluation)
            assert folder.lost == [LostEpisode.of(make_result(2).key, "network", {"network": 1})]


def test_shards_that_disagree_about_an_episode_are_refused_as_a_whole(
    tmp_path: Path, evaluation: Evaluation
) -> None:
    parts = [
        write_shard(tmp_path / "a", evaluation, 0, 1),
        write_shard(tmp_path / "b", evaluation, 1, 2, steps=4),
    ]
    with ResultsFolder(tmp_path / "all", evaluation) as folder:
        with pytest.raises(ResultsError, match="seed 1: found another result than in"):
            merge_folders(parts, folder, evaluation)
        assert not folder.results


def test_a_shard_of_another_configuration_is_refused(tmp_path: Path, evaluation: Evaluation) -> None:
    part = write_shard(tmp_path / "a", evaluation, 0)
    found = json.loads((part / "evaluation.json").read_text())
    (part / "evaluation.json").write_text(json.dumps({**found, "first_seed": 5}))
    with ResultsFolder(tmp_path / "all", evaluation) as folder:
        with pytest.raises(ResultsError, match="first_seed: found 5, expected 0"):
            merge_folders([part], folder, evaluation)
        with pytest.raises(ResultsError, match=r"evaluation\.json: not found"):
            merge_folders([tmp_path / "nowhere"], folder, evaluation)
