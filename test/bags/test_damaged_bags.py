# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever reads a bag tells what is wrong with a damaged one in a line, and never changes it."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from remote_inference.bags.timeline.robot_bag import open_robot
from remote_inference.bags.timeline.timeline_reader import read_commands
from remote_inference.base.errors import UserError
from remote_inference.tools.cli import main
from support.builders import make_config
from support.recording.decision_bag import messages_of, write
from support.recording.explained_run import write_explained_run
from support.recording.picked_run import NS, write_picked_run
from support.robot.simulation import World, streaming

CUTS = 4  # random places of each kind


@pytest.fixture(scope="module")
def picked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot's run, with its contract, cameras and joints."""
    return write_picked_run(tmp_path_factory.mktemp("picked") / "run")


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot's run with the requests that its picture shows."""
    return write_explained_run(tmp_path_factory.mktemp("explained") / "run")


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot's run with the journal of its decisions."""
    run = streaming(World(make_config())).run(3)
    return write(tmp_path_factory.mktemp("decided") / "run", messages_of(run))


def file_of(bag: Path) -> Path:
    return next(bag.glob("*.mcap"))


def cut(bag: Path, chance: random.Random) -> None:
    data = file_of(bag).read_bytes()
    file_of(bag).write_bytes(data[: chance.randrange(1, len(data))])


def cut_without_metadata(bag: Path, chance: random.Random) -> None:
    """As a killed recorder leaves it."""
    cut(bag, chance)
    (bag / "metadata.yaml").unlink()


def overwrite(bag: Path, chance: random.Random) -> None:
    data = bytearray(file_of(bag).read_bytes())
    for _ in range(20):
        data[chance.randrange(len(data))] = chance.randrange(256)
    file_of(bag).write_bytes(data)


def empty(bag: Path, chance: random.Random) -> None:
    file_of(bag).write_bytes(b"")


def replace(bag: Path, chance: random.Random) -> None:
    """Another program's file."""
    file_of(bag).write_bytes(b"SQLite format 3\x00" + chance.randbytes(5000))


def lose_file(bag: Path, chance: random.Random) -> None:
    file_of(bag).unlink()


def spoil_metadata(bag: Path, chance: random.Random) -> None:
    metadata = bag / "metadata.yaml"
    lines = metadata.read_text().splitlines()
    del lines[chance.randrange(len(lines))]
    metadata.write_text("\n".join(lines))


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    *(cut, cut_without_metadata, overwrite, empty, replace, lose_file, spoil_metadata),
)
# Verbs that read a bag, by what they are asked; OUT is a path that is not there.
READERS = {
    "explain": ("explain", "BAG", "--out", "OUT.png"),
    "explain --at": ("explain", "BAG", "--at", "1.0"),
    "explain --html": ("explain", "BAG", "--at", "1.0", "--html", "OUT.html"),
    "export": ("export", "BAG", "--csv", "OUT.csv"),
    "verify": ("verify", "BAG"),
    "verify --repair": ("verify", "BAG", "--repair", "OUT"),
    "replay --decisions": ("replay", "--decisions", "BAG"),
}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_bag_is_read_or_refused_in_words_and_stays_as_it_is(
    picked: Path,
    explained: Path,
    decided: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reader: str,
    damage: Callable[[Path, random.Random], None],
) -> None:
    whole = decided if "decisions" in reader else explained if "explain" in reader else picked
    chance = random.Random(f"{reader} {damage.__name__}")
    for index in range(CUTS):
        bag, out = tmp_path / f"bag_{index}", tmp_path / f"out_{index}"
        shutil.copytree(whole, bag)
        damage(bag, chance)
        before = contents(bag)
        words = [word.replace("BAG", str(bag)).replace("OUT", str(out)) for word in READERS[reader]]
        code = main(words)
        told = capsys.readouterr()
        assert code in {0, 1, 2}
        assert contents(bag) == before
        if code == 2:
            (line,) = told.err.splitlines()
            assert str(bag) in line
            assert not list(tmp_path.glob(f"*out_{index}*")), "what cannot be read leaves nothing"


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_bag_s_commands_are_refused_or_a_part_of_the_whole_ones(
    picked: Path, tmp_path: Path, damage: Callable[[Path, random.Random], None]
) -> None:
    """`replay --arm` moves an arm by them."""
    chance = random.Random(damage.__name__)
    for index in range(CUTS):
        bag = tmp_path / f"bag_{index}"
        shutil.copytree(picked, bag)
        damage(bag, chance)
        before = contents(bag)
        refusal, rows = "", commands_of(picked)
        try:
            rows = commands_of(bag)
        except UserError as error:
            refusal = str(error)
        assert rows == commands_of(picked)
        assert not refusal or (str(bag) in refusal and "\n" not in refusal)
        assert contents(bag) == before


def commands_of(bag: Path) -> list[list[float]]:
    with open_robot(bag, NS) as robot:
        return read_commands(robot).rows.tolist()
