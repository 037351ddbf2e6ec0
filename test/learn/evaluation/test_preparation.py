# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is looked at before an episode is played: whether a folder's results are of the same policies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.results import ResultsError, ResultsFolder, check_versions
from support.evaluation.drawer_evaluation import make_result, write_evaluation


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ResultsFolder]:
    with ResultsFolder(tmp_path / "out", load_evaluation(write_evaluation(tmp_path))) as opened:
        opened.append(make_result(policy="pull", policy_versions=("first",)))
        opened.append(make_result(policy="push", policy_versions=("other",)))
        yield opened


def test_results_of_another_version_are_refused(folder: ResultsFolder) -> None:
    with pytest.raises(
        ResultsError, match=r"policies\.pull: found results of version first, expected second"
    ):
        check_versions({"pull": "second"}, folder)


def test_results_of_policies_that_are_not_asked_do_not_count(folder: ResultsFolder) -> None:
    """A robot in real time has one of the policies whose results are in the folder."""
    check_versions({"pull": "first"}, folder)
