# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`replay` refuses arguments of another kind, and names those that are missing."""

from __future__ import annotations

import pytest

from remote_inference.tools.cli import main


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--decisions", "BAG: missing, expected the folder of a bag with --decisions"),
        ("--capture a.capture", "--manifest: missing, expected it with --capture: the policy that answers"),
        ("run_1 --capture a.capture", "BAG: found with --capture, expected with --decisions or --policy"),
        ("--capture a.capture --namespace /arm", "--namespace: found with --capture, expected with"),
        ("--decisions run_1 --manifest m.yaml", "--manifest: found with --decisions, expected with --cap"),
    ],
)
def test_arguments_that_do_not_fit_the_kind_are_named(
    words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *words.split()]) == 2
    assert f"remote-inference replay: {problem}" in capsys.readouterr().err
