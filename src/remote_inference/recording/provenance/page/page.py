# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run as one HTML file that explains the command at a cursor; it needs no network and no other file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote_inference.core.contract.contract import Contract, parse_contract
from remote_inference.errors import UserError
from remote_inference.recording.bags.bag import BagReader, Window, open_bag
from remote_inference.recording.drafted_file import drafted
from remote_inference.recording.provenance.page.album import MAX_BYTES
from remote_inference.recording.provenance.page.page_data import PageData
from remote_inference.recording.provenance.page.page_reader import PageReader
from remote_inference.recording.provenance.recorded_command import Tell
from remote_inference.recording.provenance.request_lines import find_lines
from remote_inference.recording.timeline.timeline_reader import find_namespace

TEMPLATE, SCRIPT = (Path(__file__).with_name(f"page.{kind}") for kind in ("html", "js"))


class PageError(UserError):
    """A page cannot be made; the message says why."""


@dataclass(frozen=True)
class WrittenPage:
    """What was written. images: observations whose images are in the page."""

    path: Path
    ticks: int
    images: int
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "page": str(self.path),
            "ticks": self.ticks,
            "images": self.images,
            "left_out": list(self.left_out),
        }


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
    tell: Tell = lambda _: None,
) -> WrittenPage:
    """Write the page of a run to `out`, which is replaced.

    window_s: (begin, end) [s] of the bag; None: all of it. cursor_s: what the page explains at first.

    Raises BagError when the bag cannot be read, PageError when nothing of it is in the window, OSError when
    the page cannot be written.
    """
    with open_bag(path) as bag:
        ns = find_namespace(bag, namespace)
        if contract is None and bag.contract:
            contract = parse_contract(bag.contract, f"{path}: recorded contract")
        pages = PageReader(bag, ns, contract, max_image_bytes)
        pages.read(_window_ns(bag, window_s), tell)
        ticks = pages.ticks
        if not ticks.items:
            why = "; ".join(["", *pages.reader.run.damage])
            raise PageError(f"{path}: found no control tick in the part to show, expected some{why}")
        lines = find_lines(request_log, set(pages.reader.run.requests)) if request_log else {}
        left_out = pages.left_out()
        data = PageData(bag, ns, contract, pages, lines).to_json(left_out, cursor_s)
    _write(out, data)
    return WrittenPage(out, len(ticks.items), len(pages.album.shots), tuple(left_out))


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
        text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c")
    head, middle, tail = _split(TEMPLATE.read_text(encoding="utf-8"), "/*DATA*/", "/*SCRIPT*/")
    with drafted(out) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines((head, text, middle, SCRIPT.read_text(encoding="utf-8"), tail))


def _finite(data: Any) -> Any:
    """Return a document with nothing in the place of numbers that are none."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(item) for item in data] if isinstance(data, (list, tuple)) else data


def _split(text: str, *marks: str) -> Iterable[str]:
    for mark in marks:
        part, _, text = text.partition(mark)
        yield part
    yield text
