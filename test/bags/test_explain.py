# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference explain`: what it draws, and that it never overwrites silently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from remote_inference.tools.cli import main
from support.recording.synthetic_run import whole_run


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_run(tmp_path_factory.mktemp("bags") / "run", 12.0)


def explain(bag: Path, out: Path, *options: str) -> int:
    return main(["explain", str(bag), "--out", str(out), *options])


def test_a_picture_is_replaced_only_on_request(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.png"
    out.write_text("mine")
    assert explain(bag, out) != 0
    assert f"{out} exists, expected a new file, or --force to replace it" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert explain(bag, out, "--force") == 0
    with Image.open(out) as image:
        assert image.width > 1500


def test_a_part_of_the_run_is_another_picture(bag: Path, tmp_path: Path) -> None:
    whole, late = tmp_path / "whole.png", tmp_path / "late.png"
    assert explain(bag, whole, "--from", "0") == 0
    assert explain(bag, late, "--from", "8") == 0
    assert whole.read_bytes() != late.read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "9", "--to", "3"), "window: found 9 to 3 s, expected a part of 0 to 12.0 s"),
        (("--from", "99"), "window: found 99 s and later, expected a part of 0 to 12.0 s"),
        (("--namespace", "/leg"), "no robot /leg in the bag, which holds /arm"),
        (("--contract", "none.yaml"), "none.yaml: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_drawn_is_named(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert explain(bag, tmp_path / "report.png", *options) != 0
    assert words in capsys.readouterr().err
    assert not (tmp_path / "report.png").exists()


def test_a_folder_that_is_not_there_is_named(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(bag, tmp_path / "none" / "report.png") != 0
    assert "none/report.png: cannot be written: No such file or directory" in capsys.readouterr().err


def test_json_is_the_run_in_numbers_and_the_pictures_path(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.png"
    assert explain(bag, out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["picture"] == str(out)
    assert out.exists()
    assert report["duration_s"] == pytest.approx(12.0, abs=0.5)
    assert {"requests", "latency_ms", "actions", "states", "seams"} <= report.keys()


def test_the_run_is_told_in_sentences_and_the_picture_is_named(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.png"
    assert explain(bag, out) == 0
    *sentences, last = capsys.readouterr().out.splitlines()
    assert last == f"picture: {out}"
    assert max(map(len, sentences)) <= 80
    told = " ".join(sentences)
    for words in ("/arm, 12.0 s: of 360 control ticks", "The longest hold took ", "step in 1 tick"):
        assert words in told


def test_quiet_prints_nothing(bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(bag, tmp_path / "report.png", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
def test_a_part_that_begins_or_ends_at_no_second_is_refused(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, seconds: str
) -> None:
    for out in ("--out", "--html"):
        with pytest.raises(SystemExit) as ended:
            main(["explain", str(bag), out, str(tmp_path / "out"), option, seconds])
        assert ended.value.code == 2
        assert f"found {seconds}, expected seconds since the run's beginning" in capsys.readouterr().err
