# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`explain --html`: what the page of a run holds, and what is left out of it."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sensor_msgs.msg import CompressedImage, Image as RawImage

from remote_inference.bags.provenance.explanation import explain_motion
from remote_inference.bags.provenance.motion import Request
from remote_inference.bags.provenance.page import page_reader
from remote_inference.bags.provenance.page.page import write_page
from remote_inference.bags.provenance.page.page_reader import MAX_SIDE, PERSON_SHARE, Thinned, Thumbnails
from remote_inference.base.wire.images.encodings.png import encode_png
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.tools.cli import main
from support.builders import JOINTS
from support.recording.explained_run import (
    BEGIN_TICK,
    CLAMPED_TICK,
    PERSON_TICKS,
    PICTURE_MS,
    picture_red,
    write_explained_run,
    write_long_run,
    write_takeover_run,
)


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explained_run(tmp_path_factory.mktemp("bags") / "run")


@pytest.fixture(scope="module")
def page(bag: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "run.html"
    assert main(["explain", str(bag), "--html", str(out), "--quiet"]) == 0
    return out


def data_of(page: Path) -> Any:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_holds_each_command_with_its_origin(bag: Path, page: Path) -> None:
    data = data_of(page)
    ticks = data["ticks"]
    assert ticks["tick"] == list(range(110))
    for tick in (BEGIN_TICK, CLAMPED_TICK, BEGIN_TICK + 9):
        motion = explain_motion(bag, tick=tick)
        request = data["requests"][ticks["request"][tick]]
        assert (request["session_id"], request["seq_id"]) == motion.command.request
        assert ticks["row"][tick] == motion.command.row
        assert motion.request is not None
        assert [i["sha256"] for i in request["sent"]["images"]] == [i.sha256 for i in motion.request.images]
        assert motion.latency is not None
        assert request["latency"]["transport_ms"] == pytest.approx(motion.latency.transport_ms)
        assert [joint["commanded"][tick] for joint in data["joints"]] == list(motion.command.action)
        corrections = [vars(one) for one in motion.corrections]
        assert data["corrections"].get(str(tick), []) == corrections
    still = explain_motion(bag, tick=60)
    assert ticks["request"][60] == -1
    assert tuple(data["reasons"][ticks["reasons"][60]]) == still.reasons


def test_each_camera_s_images_are_its_own(page: Path) -> None:
    data = data_of(page)
    for shot in data["shots"]:
        cameras = [image["camera"] for image in data["requests"][shot["request"]]["sent"]["images"]]
        assert cameras == ["wrist", "front"]
        blue_of = []
        for jpeg in shot["jpegs"]:
            with Image.open(io.BytesIO(base64.b64decode(jpeg))) as image:
                blue_of.append(image.convert("RGB").getpixel((300, 220))[2])
        assert blue_of == pytest.approx([130, 0], abs=12)


def test_a_page_begins_at_the_first_motion_and_at_the_first_tick_of_a_part_without(
    bag: Path, page: Path, tmp_path: Path
) -> None:
    assert data_of(page)["cursor"] == BEGIN_TICK
    assert data_of(write_page(bag, tmp_path / "still.html", window_s=(4.0, 4.5)).page)["cursor"] == 0


def test_measured_joints_are_those_heard_by_the_tick(page: Path) -> None:
    """Joint n is sent 3 ms before the time of tick n, and tick n is commanded 160 ms late."""
    elbow = data_of(page)["joints"][1]
    assert elbow["name"] == JOINTS[1]
    assert elbow["limits"] == [-1.0, 1.0]
    assert elbow["measured"][BEGIN_TICK] == pytest.approx(0.01 * (BEGIN_TICK + 3))


def test_a_part_of_the_run_knows_the_state_from_before(bag: Path, tmp_path: Path) -> None:
    written = write_page(bag, tmp_path / "part.html", window_s=(4.0, 4.5))
    data = data_of(written.page)
    assert written.ticks == len(data["ticks"]["tick"]) == 10
    reasons = data["reasons"][data["ticks"]["reasons"][0]]
    assert "stopped: /e_stop: pressed" in reasons


def test_nothing_in_the_part_is_one_line(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "part.html"
    assert main(["explain", str(bag), "--html", str(out), "--from", "90"]) == 2
    assert "found no control tick in the part to show" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_page_is_replaced_only_on_request(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    out.write_text("mine")
    assert main(["explain", str(bag), "--html", str(out)]) == 2
    assert f"--html: {out} exists" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["explain", str(bag), "--html", str(out), "--force", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"page": str(out), "ticks": 110, "images": 2, "left_out": []}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17, 1000])
def test_a_thinned_list_is_even_and_bounded(count: int) -> None:
    kept: Thinned[int] = Thinned(8)
    for number in range(count):
        if kept.takes_next():
            kept.add(number)
    assert kept.items == list(range(0, count, kept.every))
    assert len(kept.items) <= 8
    assert len(kept.items) > 3 or kept.every == 1


def test_a_long_run_keeps_some_ticks_and_says_how_many_it_left_out(
    bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_reader, "MAX_TICKS", 30)
    written = write_page(bag, tmp_path / "page.html")
    assert data_of(written.page)["ticks"]["tick"] == list(range(0, 110, 4))
    assert written.left_out == ("82 of 110 control ticks: one of 4 is shown",)
    rows = data_of(written.page)["requests"][0]["rows"]
    assert rows["executed"] == 7, "counted over all ticks"


def test_images_are_shrunk_and_thinned_to_the_limit(tmp_path: Path) -> None:
    limit = 250_000
    written = write_page(write_long_run(tmp_path / "run", 20), tmp_path / "page.html", max_image_bytes=limit)
    data = data_of(written.page)
    jpegs = [base64.b64decode(shot["jpegs"][0]) for shot in data["shots"]]
    assert 2 < len(jpegs) == written.images < 20
    assert sum(map(len, jpegs)) <= limit
    with Image.open(io.BytesIO(jpegs[0])) as image:
        assert max(image.size) == MAX_SIDE
    told = f"the images of {20 - len(jpegs)} of 20 observations: all would be over {limit / 2**20:g} MiB"
    assert written.left_out == (told,)
    assert data["left_out"] == [told]
    assert written.page.stat().st_size < 2 * limit


def test_raw_and_depth_images_are_shown_and_unreadable_ones_counted() -> None:
    album = Thumbnails()
    request = Request("s", 1, 1, 1, False, "", 0.0, 0, 0, 0, 0, 0, (), ())
    depth = np.linspace(0, 4000, 64 * 48).reshape(48, 64).astype(np.uint16)
    raw = image_to_message(np.full((48, 64, 3), (200, 10, 10), np.uint8))
    pictures = [
        raw,
        CompressedImage(format="png", data=encode_png(depth)),
        CompressedImage(format="jpeg", data=b"no JPEG"),
        RawImage(encoding="bayer_rggb8", width=2, height=2, step=2, data=bytes(4)),
    ]
    album.add_images(request, pictures)
    colour, grey, *broken = album.items[0].jpegs
    assert broken == [None, None]
    assert album.left_out() == ["2 images that cannot be read"]
    assert colour is not None
    assert grey is not None
    with Image.open(io.BytesIO(colour)) as image:
        red, green, _ = image.convert("RGB").getpixel((32, 24))
        assert (red > 180, green < 40) == (True, True)
    with Image.open(io.BytesIO(grey)) as image:
        assert image.convert("L").getpixel((60, 46)) > 230


def red_of(jpeg: str) -> int:
    with Image.open(io.BytesIO(base64.b64decode(jpeg))) as image:
        return image.convert("RGB").getpixel((32, 24))[0]


def test_a_person_s_commands_come_with_the_camera_s_own_picture_before_each(tmp_path: Path) -> None:
    written = write_page(write_takeover_run(tmp_path / "run"), tmp_path / "page.html")
    data = data_of(written.page)
    (front,) = data["pictures"]
    assert front["camera"] == "front"
    ticks = data["ticks"]
    for tick, t_s in enumerate(ticks["t_s"]):
        assert (ticks["source"][tick] == "HUMAN") == (tick in PERSON_TICKS)
        if tick in PERSON_TICKS:
            newest = next(one for one in reversed(front["shown"]) if one["t_s"] <= t_s)
            number = int(t_s * 1e3 // PICTURE_MS)
            assert newest["t_s"] == pytest.approx(PICTURE_MS * number / 1e3)
            assert red_of(newest["jpeg"]) == pytest.approx(picture_red(number), abs=4)
            assert (newest["encoding"], newest["width"], newest["height"]) == ("rgb8", 64, 48)
    assert len(front["shown"]) == 5, "each once, and none from outside the takeover"
    assert len(data["shots"]) == 1
    assert written.left_out == ()


def test_without_recorded_cameras_a_person_s_commands_have_no_pictures(bag: Path, tmp_path: Path) -> None:
    run = write_takeover_run(tmp_path / "run", leave_out="image_raw")
    for path in (run, bag):
        assert data_of(write_page(path, tmp_path / f"{path.name}.html").page)["pictures"] == []


def test_pictures_of_a_person_s_commands_are_thinned_out_to_the_limit(tmp_path: Path) -> None:
    run = write_takeover_run(tmp_path / "run")
    whole = data_of(write_page(run, tmp_path / "whole.html").page)["pictures"][0]["shown"]
    largest = max(len(base64.b64decode(one["jpeg"])) for one in whole)
    limit = PERSON_SHARE * int(3.5 * largest)
    written = write_page(run, tmp_path / "page.html", max_image_bytes=limit)
    assert data_of(written.page)["pictures"][0]["shown"] == whole[::2]
    assert written.left_out == ("2 of 5 pictures of front in takeovers: one of 2 is shown",)
