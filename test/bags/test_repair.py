# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is whole in a damaged bag comes back, what is not is named, and the bag itself stays as it is."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import UInt64

from remote_inference.bags.checks.check import Level
from remote_inference.bags.checks.repair import repair
from remote_inference.bags.checks.verification import verify
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.bag_writer import BagLimits, BagWriter
from remote_inference.bags.storage.mcap_scan import Messages, scan_file
from remote_inference.tools.cli import main
from support.recording import kill_writers
from support.recording.synthetic_run import whole_run

KILLS = 50


def fingerprint(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_run(tmp_path_factory.mktemp("run") / "run", duration_s=6.0)


@pytest.fixture
def bag(run: Path, tmp_path: Path) -> Path:
    """A copy of a finished bag, to be damaged."""
    return shutil.copytree(run, tmp_path / "run")


def the_file(bag: Path) -> Path:
    (file,) = bag.glob("*.mcap")
    return file


def test_a_killed_recorder_costs_its_last_chunk_only(tmp_path: Path) -> None:
    """Each of the writers counts upwards: what comes back is a count without gaps, to its last chunk."""
    script = [sys.executable, kill_writers.__file__, str(tmp_path), str(KILLS), "7"]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=300, check=True)
    recovered = []
    for line in ended.stdout.splitlines():
        killed = json.loads(line)
        path, out = Path(killed["bag"]), Path(killed["bag"] + "_repaired")
        if not path.exists() or not list(path.glob("*.mcap")):  # killed before it began
            assert killed["linked"] == 0
            continue
        before = fingerprint(path)
        assert any("recorder was killed" in finding.text for finding in verify(path).findings)
        refusal = ""
        try:
            repair(path, out)
        except BagError as error:
            refusal = str(error)
        if refusal:
            assert killed["linked"] == 0, refusal
            assert "nothing can be recovered" in refusal
            assert not out.exists()
        else:  # also where it was killed before it could say that its first chunk is linked
            with BagReader(out) as reader:
                counted = [int(message.data) for _, _, message in reader.messages()]
            assert counted == list(range(len(counted)))
            assert len(counted) >= killed["linked"]
            assert verify(out).is_intact, verify(out).findings
            recovered.append(len(counted))
        assert fingerprint(path) == before
    assert len(recovered) > KILLS / 2, "most writers lived long enough to finish a chunk"


def test_a_repaired_bag_is_intact_and_says_what_is_missing(bag: Path, tmp_path: Path) -> None:
    whole = verify(bag)
    data = the_file(bag).read_bytes()
    the_file(bag).write_bytes(data[: len(data) // 2])
    (bag / "metadata.yaml").unlink()
    before = fingerprint(bag)
    result = repair(bag, tmp_path / "out")
    assert fingerprint(bag) == before
    assert 0 < result.messages < whole.counts.total()
    assert result.lost[0].startswith("run_0.mcap: at byte ")
    assert f"{result.messages} messages before it recovered, until " in result.lost[0]
    mended = verify(tmp_path / "out")
    assert mended.is_intact
    assert mended.counts.total() == result.messages
    assert 0 < mended.links < whole.links
    missing = [finding.text for finding in mended.of(Level.MISSING)]
    assert any(text.startswith("repaired: run_0.mcap: at byte ") for text in missing)
    assert "the bag was repaired: what came after its last link is lost" in missing
    with BagReader(tmp_path / "out") as reader:
        assert len(list(reader.messages())) == result.messages


def test_a_bag_cut_off_anywhere_is_repaired_or_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    data, chance = the_file(run).read_bytes(), random.Random(3)
    for index in range(30):
        bag = tmp_path / f"bag_{index}"
        bag.mkdir()
        (bag / "run_0.mcap").write_bytes(data[: chance.randrange(len(data))])
        refusal = ""
        try:
            result = repair(bag, tmp_path / f"out_{index}")
        except BagError as error:
            refusal = str(error)
        if refusal:
            assert "\n" not in refusal
            assert not (tmp_path / f"out_{index}").exists()
        else:
            assert verify(result.out).is_intact


def test_a_damaged_chunk_costs_its_own_messages_only(bag: Path, tmp_path: Path) -> None:
    total = verify(bag).counts.total()
    data = bytearray(the_file(bag).read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    the_file(bag).write_bytes(data)
    found = verify(bag)
    assert not found.is_intact
    result = repair(bag, tmp_path / "out")
    assert total - 400 < result.messages < total
    assert any("is damaged" in text and "what it held is lost" in text for text in result.lost)
    assert len(list(BagReader(tmp_path / "out").raw_messages())) == result.messages
    assert verify(tmp_path / "out").is_intact


def test_a_bag_without_metadata_only_gets_it_back(bag: Path, tmp_path: Path) -> None:
    with BagReader(bag) as reader:
        topics = reader.topics
    (bag / "metadata.yaml").unlink()
    result = repair(bag, tmp_path / "out")
    assert result.lost == ["metadata.yaml was absent: written anew"]
    assert fingerprint(tmp_path / "out")["run_0.mcap"] == fingerprint(bag)["run_0.mcap"]
    with BagReader(tmp_path / "out") as reader:
        assert {name: topic.msgtype for name, topic in reader.topics.items()} == {
            name: topic.msgtype for name, topic in topics.items() if name in reader.topics
        }
    assert verify(tmp_path / "out").is_intact


def count_in_three_files(folder: Path) -> list[Path]:
    """Record ten counted messages into each of three files."""
    limits = BagLimits(max_split_duration_s=1.0)
    with BagWriter(folder, [BagTopic("/count", "std_msgs/msg/UInt64")], limits=limits) as bag:
        for number in range(30):
            bag.write("/count", 10**18 + number * 10**8, serialize_message(UInt64(data=number)))
    return sorted(folder.glob("*.mcap"))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_file_cut_off_anywhere_leaves_the_others_proven(index: int, tmp_path: Path) -> None:
    files = count_in_three_files(tmp_path / "bag")
    (tmp_path / "bag" / "metadata.yaml").unlink()
    data = files[index].read_bytes()
    for size in [8, 20, 51, *range(60, len(data), 101)]:
        files[index].write_bytes(data[:size])
        repair(tmp_path / "bag", tmp_path / f"out_{size}")
        mended = verify(tmp_path / f"out_{size}")
        assert mended.is_intact, mended.findings
        assert mended.counts.total() >= 20
        assert any(files[index].name in finding.text for finding in mended.of(Level.MISSING))


def test_a_file_that_was_only_begun_is_no_removal_of_digests(tmp_path: Path) -> None:
    last = count_in_three_files(tmp_path / "bag")[-1]
    (tmp_path / "bag" / "metadata.yaml").unlink()
    last.write_bytes(last.read_bytes()[:51])
    assert {finding.check for finding in verify(tmp_path / "bag").of(Level.PROBLEM)} == {"files"}


def test_a_recorder_that_was_killed_between_two_files_is_told(tmp_path: Path) -> None:
    count_in_three_files(tmp_path / "bag")
    max((tmp_path / "bag").glob("*.mcap")).unlink()
    (tmp_path / "bag" / "metadata.yaml").unlink()
    result = repair(tmp_path / "bag", tmp_path / "out")
    assert result.lost[0] == "bag_1.mcap: its recorder was killed when the file was finished"
    assert result.messages == 20
    mended = verify(tmp_path / "out")
    assert mended.is_intact
    assert f"repaired: {result.lost[0]}" in [finding.text for finding in mended.of(Level.MISSING)]


def test_a_whole_bag_needs_no_repair(bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bag), "--repair", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{bag}: whole, there is nothing to repair\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"SQLite format 3\0" * 9, "no MCAP file: it begins otherwise"),
        (b"\x89MCAP0\r\n", "cut off between two records"),
        (b"\x89MCAP0\r\n" + b"\xff" * 99, "unreadable from here on"),
        (b"\x89MC", "cut off in its first bytes"),
    ],
)
def test_what_holds_nothing_is_refused(
    data: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "bag_0.mcap").write_bytes(data)
    assert main(["verify", str(tmp_path / "bag"), "--repair", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "nothing can be recovered" in error
    assert reason in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()
    assert main(["verify", str(tmp_path / "bag")]) == 1
    assert reason in capsys.readouterr().out


def test_a_place_that_cannot_take_the_bag_is_refused(
    bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bag / "metadata.yaml").unlink()
    with pytest.raises(BagError, match="exists already, expected a new folder"):
        repair(bag, tmp_path)
    with pytest.raises(BagError, match="lies in the bag, which stays as it is"):
        repair(bag, bag / "mended")
    with pytest.raises(BagError, match="no bag there"):
        repair(tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(BagError, match="found a file, expected the folder"):
        repair(the_file(bag), tmp_path / "out")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(BagError, match="found 10 bytes free, expected"):
        repair(bag, tmp_path / "out")


def test_a_disk_that_fills_up_leaves_no_half_a_bag(
    bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (bag / "metadata.yaml").unlink()
    monkeypatch.setattr(shutil, "copyfile", fail)
    with pytest.raises(OSError, match="No space left"):
        repair(bag, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_first_chunk_costs_its_own_messages_only(bag: Path, tmp_path: Path) -> None:
    """It holds the definitions of all topics; so does the file's end."""
    total = verify(bag).counts.total()
    data = bytearray(the_file(bag).read_bytes())
    first = next(item for item in scan_file(the_file(bag)) if isinstance(item, Messages))
    length = int.from_bytes(data[first.offset + 1 : first.offset + 9], "little")
    data[first.offset + 9 + length - 20] ^= 0xFF
    the_file(bag).write_bytes(data)
    result = repair(bag, tmp_path / "out")
    assert result.messages == total - len(first.messages)
    assert len(list(BagReader(tmp_path / "out").raw_messages())) == result.messages
