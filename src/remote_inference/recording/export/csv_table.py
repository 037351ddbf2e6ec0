# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`--csv`: one flat table as text, a line per control tick."""

from __future__ import annotations

import csv
from pathlib import Path

from remote_inference.core.contract.contract import Contract
from remote_inference.recording.export.control_tick import ControlTick
from remote_inference.recording.export.format import Format
from remote_inference.recording.export.table import columns_of, row_of


class CsvTable(Format):
    """Writes RFC 4180 with a header line; an unknown value is an empty field."""

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        super().__init__(out, contract, images=images)
        self._file = out.open("x", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._file, list(columns_of(contract)))
        self._writer.writeheader()

    def add(self, tick: ControlTick) -> None:
        self._writer.writerow(row_of(tick, self.written.episodes, self.contract))
        self.written.ticks += 1

    def close(self) -> None:
        self._file.close()
