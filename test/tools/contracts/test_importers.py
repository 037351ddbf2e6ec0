# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Other distributions import contracts of their formats by entry points."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.tools.cli import main
from remote_inference.tools.contracts import GROUP, IMPORTERS
from support.entry_point_files import install

READER = """
from remote_inference.base.contract.generated import GeneratedContract

def read(text, source):
    return GeneratedContract({"robot_type": text.decode().strip()}, (f"from {source}",))
"""


def test_an_entry_point_gives_a_verb_that_imports_its_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "my-bench", "bench = my_bench_format:read", group=GROUP)
    (tmp_path / "my_bench_format.py").write_text(READER)
    file = tmp_path / "bench.txt"
    file.write_text("bench_arm\n")
    assert IMPORTERS.every_name == ("lerobot", "rosetta", "hud", "bench")
    assert main(["contract", "from-bench", str(file)]) == 0
    written = capsys.readouterr().out
    assert f"# from {file}" in written
    assert written.endswith("robot_type: bench_arm\n") or "{robot_type: bench_arm}" in written
