# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the page's script reads, ready for JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.provenance.corrections import find_corrections
from remote_inference.recording.provenance.moment import show_instant
from remote_inference.recording.provenance.motion import Command
from remote_inference.recording.provenance.page.page_reader import PageReader
from remote_inference.recording.provenance.reasons import find_at, find_reasons
from remote_inference.recording.provenance.run_reader import Run
from remote_inference.recording.provenance.walk import find_latency, find_rows, find_sensors
from remote_inference.recording.timeline.answers import RequestKey
from remote_inference.recording.timeline.joint_records import JointColumns, JointRecord
from remote_inference.recording.timeline.joints import Joint, find_joints

_DIGITS = 5  # of positions in the page


class PageData:
    """A run as the page shows it. Columns of ticks are lists of the same length."""

    def __init__(
        self,
        bag: BagReader,
        ns: str,
        contract: Contract | None,
        pages: PageReader,
        lines: Mapping[RequestKey, dict[str, Any]],
    ) -> None:
        self._bag, self._ns, self._contract, self._lines = bag, ns, contract, lines
        self._run: Run = pages.reader.run
        self._ticks = pages.ticks.items
        self._commands = [tick.command for tick in self._ticks]
        self._shots = pages.album.shots
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
            "robot": self._ns or "/",
            "start": show_instant(self._bag.start_ns),
            "start_ms": self._bag.start_ns / 1e6,
            "left_out": list(left_out),
            "missing": list(dict.fromkeys([*run.damage, *run.missing])),
            "cursor": 0 if cursor_s is None else self._nearest(cursor_s),
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
        return find_joints(names, records, (t_s, actions), self._ns, self._contract)

    def _measured(self, joint: Joint) -> list[float | None]:
        places = np.searchsorted(joint.t_s, [c.t_s for c in self._commands], side="right") - 1
        return [_round(float(joint.value[place])) if place >= 0 else None for place in places]

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
        rows = find_rows(run, command, answer) if command else None
        latency = find_latency(run, command, request, answer) if command else None
        return {
            "session_id": key[0],
            "seq_id": key[1],
            "sent": asdict(request) if request else None,
            "sensors": [asdict(one) for one in find_sensors(run, request)],
            "answer": None
            if answer is None
            else {
                "received_s": (answer.received_ns - self._bag.start_ns) * 1e-9,
                "status": answer.status,
                "message": answer.message,
                "horizon": len(answer.rows),
                "superseded": answer.superseded,
            },
            "rows": asdict(rows) if rows else None,
            "latency": asdict(latency) if latency else None,
            "log": self._lines.get(key),
        }


def _round(value: float | None, digits: int = _DIGITS) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _base64(jpeg: bytes | None) -> str | None:
    return None if jpeg is None else base64.b64encode(jpeg).decode("ascii")
