# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what the short benchmarks print, and compares the figures of two commits, for `bench_against.py`."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Figure: TypeAlias = "tuple[str, str]"  # the title of its table, and its row
Figures: TypeAlias = "dict[Figure, float]"  # [ms]
Block: TypeAlias = "tuple[Figures, Figures]"  # of REV and of this checkout


def parse_request_cycle(text: str) -> Figures:
    """Return the medians that request_cycle.py prints."""
    figures = {}
    for pace, words, numbers in _rows(text):
        if len(words) == 1 and len(numbers) == 7:  # KB, p50, p95, request cycle, bare p50, p95, ratio
            figures[f"Request cycle: sensors to chunk, {pace} [ms]", words[0]] = numbers[1]
            figures[f"Request cycle: the robot's own measure, {pace} [ms]", words[0]] = numbers[3]
    return figures


def parse_peers(text: str) -> Figures:
    """Return the medians of this package that peers.py prints, without openpi's."""
    return {
        (f"Peers: {words[1]}, {pace} [ms]", words[0]): numbers[0]
        for pace, words, numbers in _rows(text)
        if len(words) == 2 and words[1].startswith("our ") and len(numbers) >= 2  # p50, p95, ratios
    }


def _rows(text: str) -> Iterator[tuple[str, list[str], list[float]]]:
    """Yield the pace of each table with the words and numbers of each of its rows."""
    pace = ""
    for line in text.splitlines():
        if title := re.fullmatch(r"From .*, (back to back|paced) \[ms\]", line):
            pace = title[1]
        elif pace:
            cells = re.split(r" {2,}", line.strip())
            numbers = [float(cell) for cell in cells if re.fullmatch(r"[\d.]+|nan|inf", cell)]
            yield pace, cells[: len(cells) - len(numbers)], numbers


def parse_control(text: str) -> Figures:
    """Return the p99 of the robot's period errors: nobody feels their median, which is 0.1 ms."""
    title = "Control period: error p99 [ms]"
    return {
        (title, f"{each['scenario']}, {each['rate_hz']:g} Hz"): each["robot"][1] for each in json.loads(text)
    }


def parse_capacity(text: str) -> Figures:
    """Return round trip and processor time from the results of capacity.py."""
    figures = {}
    for point in json.loads(text)["points"]:
        title = f"Capacity: {point['sessions']} sessions [ms]"
        figures[title, f"{point['scheduler']}, round trip p50"] = point["round_trip_p50_ms"]
        figures[title, f"{point['scheduler']}, CPU per answer"] = point["cpu_ms"]
    return figures


@dataclass(frozen=True)
class Comparison:
    """One figure of REV and of this checkout in each block [ms]."""

    figure: Figure
    pairs: tuple[tuple[float, float], ...]

    @property
    def ratios(self) -> list[float]:
        """Return here to REV of each block, rising."""
        return sorted(here / rev for rev, here in self.pairs)

    def mark(self, limit: float) -> str:
        """Return what holds in every block: worse than the limit, or at least slower."""
        least = self.ratios[0]
        return f"> {limit:.2f}" if least > limit else "slower" if least > 1.0 else ""

    def row(self, limit: float) -> tuple[str, ...]:
        """Return the cells of this figure under COLUMNS."""
        ratios = self.ratios
        medians = [statistics.median(values) for values in (*zip(*self.pairs, strict=True), ratios)]
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        return (self.figure[1], *(f"{value:.2f}" for value in medians), spread, self.mark(limit))


def compare(blocks: Sequence[Block]) -> tuple[list[Comparison], list[Figure]]:
    """Return the figures that both sides have in every block, and those that are missing somewhere."""
    taken = [figures for block in blocks for figures in block]
    every = list(dict.fromkeys(figure for figures in taken for figure in figures))
    shared = [figure for figure in every if all(figure in figures for figures in taken)]
    found = [Comparison(each, tuple((rev[each], here[each]) for rev, here in blocks)) for each in shared]
    return found, [figure for figure in every if figure not in shared]
