# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What reads a bag and writes a file says in a line that the disk is full, and leaves nothing behind."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remote_inference.tools.cli import main
from support.recording.asked_run import write_asked_run, write_policy
from support.recording.picked_run import write_picked_run
from support.recording.simulated_run import write_simulated_run

# Verbs by what they are asked; OUT is a path that is not there. The number: bytes of a file that still fit.
VERBS = {
    "export --csv": (("export", "PICKED", "--csv", "OUT.csv"), 2000),
    "export --parquet": (("export", "PICKED", "--parquet", "OUT.parquet"), 2000),
    "export --lerobot-v3, rows": (("export", "PICKED", "--lerobot-v3", "OUT", "--no-images"), 2000),
    "export --lerobot-v3, first frames": (("export", "PICKED", "--lerobot-v3", "OUT"), 1000),
    "export --lerobot-v3, last frames": (("export", "PICKED", "--lerobot-v3", "OUT"), 20_000),
    "explain": (("explain", "SIMULATED", "--out", "OUT.png"), 2000),
    "explain, PDF": (("explain", "SIMULATED", "--out", "OUT.pdf"), 2000),
    "explain --html": (("explain", "SIMULATED", "--html", "OUT.html"), 2000),
    "replay --policy": (("replay", "--policy", "MANIFEST", "ASKED", "--out", "OUT.png"), 2000),
    "verify --repair": (("verify", "CUT", "--repair", "OUT"), 2000),
}


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bags")
    made = {
        "PICKED": write_picked_run(folder / "picked"),
        "SIMULATED": write_simulated_run(folder / "simulated"),
        "ASKED": write_asked_run(folder / "asked"),
        "CUT": write_picked_run(folder / "cut"),
        "MANIFEST": write_policy(folder),
    }
    (made["CUT"] / "metadata.yaml").unlink()
    return {name: str(path) for name, path in made.items()}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size [bytes]: to it, that is a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_is_said_in_a_line_and_nothing_is_left(
    bags: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    words, size = VERBS[verb]
    filled = [bags.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in words]
    assert main(filled) == 0, "else it proves nothing"
    (made,) = tmp_path.iterdir()
    made.rename(tmp_path.with_name(f"{tmp_path.name}_whole"))
    capfd.readouterr()
    with largest_file(size):
        code = main(filled)
    told = capfd.readouterr()
    assert code == 2
    (line,) = told.err.splitlines()
    assert "File too large" in line
    assert not told.out
    assert not list(tmp_path.iterdir())


def test_the_picture_of_before_stays_when_the_new_one_does_not_fit(
    bags: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run.png"
    out.write_text("before")
    with largest_file(2000):
        assert main(["explain", bags["SIMULATED"], "--out", str(out), "--force"]) == 2
    assert f"{out}: cannot be written: File too large" in capsys.readouterr().err
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]
