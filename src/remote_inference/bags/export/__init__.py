# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a bag can be exported to: one file and one line each."""

from remote_inference.bags.export.format import Format
from remote_inference.base.documents.registry import Registry

__all__ = ["FORMATS"]

FORMATS = Registry[type[Format]]("format")
FORMATS.add("lerobot-v3", f"{__name__}.lerobot_v3:LeRobotDataSet", needs=("pyarrow", "av"))
FORMATS.add("parquet", f"{__name__}.parquet:ParquetTable", needs=("pyarrow",))
FORMATS.add("csv", f"{__name__}.table:CsvTable")
