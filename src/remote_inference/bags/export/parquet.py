# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`--parquet`: one flat table, a row per control tick and a row group per piece of an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from remote_inference.bags.export.format import ControlTick, Format
from remote_inference.bags.export.table import columns_of, row_of
from remote_inference.base.contract.contract import Contract

ROWS_IN_MEMORY = 10_000


class ParquetTable(Format):
    """Writes a Parquet file, compressed by zstd."""

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        super().__init__(out, contract, images=images)
        types = {name: pa.type_for_alias(alias) for name, alias in columns_of(contract).items()}
        self._writer = pq.ParquetWriter(str(out), pa.schema(types), compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def add(self, tick: ControlTick) -> None:
        self._rows.append(row_of(tick, self.written.episodes, self.contract))
        self.written.ticks += 1
        if len(self._rows) >= ROWS_IN_MEMORY:
            self._flush()

    def end_episode(self) -> None:
        super().end_episode()
        self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._writer.schema))
            self._rows = []

    def close(self) -> None:
        self._flush()
        self._writer.close()
