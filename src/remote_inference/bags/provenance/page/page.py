# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run as one HTML file that explains the command at a cursor; it needs no network and no other file."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.bags.atomic_file import atomic_write
from remote_inference.bags.provenance.explanation import (
    find_chunk_use,
    find_latency,
    find_lines,
    find_sensors,
    show_instant,
    summarise_chunk,
)
from remote_inference.bags.provenance.motion import Command, find_at, find_corrections, find_reasons
from remote_inference.bags.provenance.page.page_reader import MAX_BYTES, PageReader
from remote_inference.bags.provenance.run_reader import Run
from remote_inference.bags.storage.bag import BagReader, OnProgress, no_progress
from remote_inference.bags.storage.bag_file import Window
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.messages import RequestKey
from remote_inference.bags.timeline.robot_bag import (
    Joint,
    JointColumns,
    JointRecord,
    RobotBag,
    find_joints,
    open_robot,
)
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.problems import finite
from remote_inference.robot.command import CommandSource

_DIGITS = 5  # of positions in the page
_STILL = frozenset(source.name for source in (CommandSource.NONE, CommandSource.ZERO, CommandSource.HOLD))


class PageData:
    """A run as the page shows it. Columns of ticks are lists of the same length."""

    def __init__(
        self, robot: RobotBag, pages: PageReader, lines: Mapping[RequestKey, dict[str, Any]]
    ) -> None:
        self._robot, self._bag, self._contract = robot, robot.bag, robot.contract
        self._lines = lines
        self._run: Run = pages.reader.run
        self._ticks = pages.ticks.items
        self._commands = [tick.command for tick in self._ticks]
        self._shots = pages.album.items
        self._pictures = pages.pictures.by_camera
        shown = {c.request for c in self._commands} | {shot.request for shot in self._shots}
        keys = [*self._run.requests, *(key for key in shown if key and key not in self._run.requests)]
        self._places = {key: place for place, key in enumerate(k for k in keys if k in shown)}

    def to_json(self, left_out: Sequence[str], cursor_s: float | None) -> dict[str, Any]:
        """Return it. left_out: what the page does not hold, in words. cursor_s: explained at first."""
        run = self._run
        names = run.joint_names
        joints = self._joints(names)
        policies = list(run.policies.values())
        reasons: dict[tuple[str, ...], int] = {}
        first = {command.request: command for command in reversed(self._commands) if command.request}
        return {
            "bag": self._bag.path.absolute().name,
            "robot": self._robot.namespace or "/",
            "start": show_instant(self._bag.start_ns),
            "start_ms": self._bag.start_ns / 1e6,
            "left_out": list(left_out),
            "missing": list(dict.fromkeys([*run.damage, *run.missing])),
            "cursor": self._first_motion() if cursor_s is None else self._nearest(cursor_s),
            "joints": [
                {
                    "name": joint.name,
                    "unit": joint.unit,
                    "limits": [joint.limit.min, joint.limit.max] if joint.limit else None,
                    "commanded": [_round(c.action[k]) if c.action else None for c in self._commands],
                    "measured": self._measured(joint),
                }
                for k, joint in enumerate(joints)
            ],
            "ticks": {
                "t_s": [round(c.t_s, 4) for c in self._commands],
                "tick": [c.tick for c in self._commands],
                "source": [c.source for c in self._commands],
                "shadow": [int(c.shadow) for c in self._commands],
                "episode": [c.episode_id for c in self._commands],
                "request": [self._places[c.request] if c.request else -1 for c in self._commands],
                "row": [c.row for c in self._commands],
                "fraction": [round(c.row_fraction, 4) for c in self._commands],
                "chunks": [1 + len(c.earlier_seq_ids) for c in self._commands],
                "age_ms": [_round(c.age_ms, 2) for c in self._commands],
                "guard": [list(c.interventions) for c in self._commands],
                "policy": [c.policy_version for c in self._commands],
                "served": [policies.index(p) if (p := run.policy_of(c)) else -1 for c in self._commands],
                "reasons": [self._reasons(c, reasons) for c in self._commands],
            },
            "reasons": [list(texts) for texts in reasons],
            "corrections": self._corrections(),
            "requests": [self._request(key, first.get(key)) for key in self._places],
            "shots": [
                {"request": self._places[shot.request], "jpegs": [_base64(jpeg) for jpeg in shot.jpegs]}
                for shot in self._shots
            ],
            "pictures": self._camera_pictures(),
            "states": [asdict(standing) for standing in run.standings],
            "watchdog": [asdict(change) for change in run.watchdog],
            "policies": [asdict(policy) for policy in policies],
        }

    def _joints(self, names: tuple[str, ...]) -> tuple[Joint, ...]:
        records: dict[str, JointColumns] = {}
        newest: dict[str, JointRecord] = {}
        for tick in self._ticks:
            for topic, record in tick.joints.items():
                if newest.get(topic) is not record:
                    newest[topic] = record
                    records.setdefault(topic, JointColumns()).add(record)
        actions = np.full((len(self._commands), len(names)), np.nan)
        for place, command in enumerate(self._commands):
            if len(command.action) == len(names):
                actions[place] = command.action
        t_s = np.array([command.t_s for command in self._commands])
        return find_joints(names, records, (t_s, actions), self._robot)

    def _measured(self, joint: Joint) -> list[float | None]:
        places = np.searchsorted(joint.t_s, [c.t_s for c in self._commands], side="right") - 1
        return [_round(float(joint.value[place])) if place >= 0 else None for place in places]

    def _first_motion(self) -> int:
        """Return the place of the first tick that moves a joint, of the first one where none does."""
        moves = (bool(one.action) and one.source not in _STILL for one in self._commands)
        return next((place for place, does in enumerate(moves) if does), 0)

    def _nearest(self, t_s: float) -> int:
        return int(np.argmin([abs(command.t_s - t_s) for command in self._commands]))

    def _reasons(self, command: Command, known: dict[tuple[str, ...], int]) -> int:
        if command.request:
            return -1
        standing = find_at(self._run.standings, command.t_s)
        texts = find_reasons(command, standing, find_at(self._run.watchdog, command.t_s))
        return known.setdefault(texts, len(known))

    def _corrections(self) -> dict[int, list[dict[str, Any]]]:
        found = {}
        for place, command in enumerate(self._commands):
            if command.request and command.interventions:
                answer = self._run.answers.get(command.request)
                changed = find_corrections(command, answer, self._run.joint_names, self._contract)
                found[place] = [asdict(one) for one in changed]
        return found

    def _camera_pictures(self) -> list[dict[str, Any]]:
        return [
            {
                "camera": camera,
                "shown": [
                    {
                        "t_s": round(one.t_s, 4),  # as the ticks': it stays before its tick
                        "encoding": one.image.encoding,
                        "width": one.image.width,
                        "height": one.image.height,
                        "jpeg": _base64(one.jpeg),
                    }
                    for one in pictures
                ],
            }
            for camera, pictures in self._pictures.items()
            if pictures
        ]

    def _request(self, key: RequestKey, command: Command | None) -> dict[str, Any]:
        run, answer = self._run, self._run.answers.get(key)
        request = run.requests.get(key)
        summary = summarise_chunk(answer, self._bag.start_ns)
        rows = find_chunk_use(run, command, answer) if command else None
        latency = find_latency(run, command, request, answer) if command else None
        return {
            "session_id": key[0],
            "seq_id": key[1],
            "sent": asdict(request) if request else None,
            "sensors": [asdict(one) for one in find_sensors(run, request)],
            "answer": asdict(summary) if summary else None,
            "rows": asdict(rows) if rows else None,
            "latency": asdict(latency) if latency else None,
            "log": self._lines.get(key),
        }


def _round(value: float | None, digits: int = _DIGITS) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _base64(jpeg: bytes | None) -> str | None:
    return None if jpeg is None else base64.b64encode(jpeg).decode("ascii")


TEMPLATE, SCRIPT = (Path(__file__).with_name(f"page.{kind}") for kind in ("html", "js"))


@dataclass(frozen=True)
class WrittenPage:
    """What was written. images: observations whose images are in the page."""

    page: Path
    ticks: int
    images: int
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "page": str(self.page)}


def write_page(
    path: Path,
    out: Path,
    namespace: str | None = None,
    contract: Contract | None = None,
    *,
    window_s: tuple[float, float] | None = None,
    cursor_s: float | None = None,
    request_log: Path | None = None,
    max_image_bytes: int = MAX_BYTES,
    on_progress: OnProgress = no_progress,
) -> WrittenPage:
    """Write the page of a run to `out`, which is replaced.

    window_s: (begin, end) [s] of the bag; None: all of it. cursor_s: what the page explains at first; None:
    the first motion.

    Raises BagError when the bag cannot be read, or nothing of it is in the window, OSError when the page
    cannot be written.
    """
    with open_robot(path, namespace, contract) as robot:
        pages = PageReader(robot, max_image_bytes)
        pages.read(_window_ns(robot.bag, window_s), on_progress)
        ticks = pages.ticks
        if not ticks.items:
            why = "; ".join(["", *pages.reader.run.damage])
            raise BagError(f"{path}: found no control tick in the part to show, expected some{why}")
        lines = find_lines(request_log, set(pages.reader.run.requests)) if request_log else {}
        left_out = pages.left_out()
        data = PageData(robot, pages, lines).to_json(left_out, cursor_s)
    _write(out, data)
    left_out += dict.fromkeys(pages.reader.run.damage)  # which the page has among what is missing
    return WrittenPage(out, len(ticks.items), len(pages.album.items), tuple(left_out))


def _window_ns(bag: BagReader, window_s: tuple[float, float] | None) -> Window:
    if window_s is None:
        return None, None
    begin, end = window_s
    end_ns = None if math.isinf(end) else bag.start_ns + round(end * 1e9)
    return bag.start_ns + round(begin * 1e9), end_ns


def _write(out: Path, data: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a recorded number is none, which JSON does not know
        text = json.dumps(finite(data), separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c")
    head, rest = TEMPLATE.read_text(encoding="utf-8").split("/*DATA*/")
    middle, tail = rest.split("/*SCRIPT*/")
    with atomic_write(out) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines((head, text, middle, SCRIPT.read_text(encoding="utf-8"), tail))
