# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How the doctor's findings are printed: a line for each in a pipe, folded on a terminal."""

from __future__ import annotations

import sys

import pytest

from remote_inference.tools import cli
from remote_inference.tools.cli.verbs import checks
from remote_inference.tools.deployment.doctor.doctor import Finding, Level

FINDINGS = [
    Finding(Level.OK, "domain", "ROS_DOMAIN_ID 0"),
    Finding(Level.ERROR, "command /arm/commands", "no subscriber", "a controller " * 9, "start it"),
]


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_examine", lambda *_: iter(FINDINGS))


def test_in_a_pipe_a_finding_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines() == [str(finding) for finding in FINDINGS]


@pytest.mark.parametrize("columns", [50, 100])
def test_on_a_terminal_a_finding_is_folded_at_its_width(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main(["doctor", "--quiet"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert columns - 20 < max(map(len, lines)) <= columns
    assert " ".join(line.strip() for line in lines).split() == str(FINDINGS[1]).split()
