# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference backends` says whose each back end is and what it lacks, and imports none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from entry_point_files import install

from remote_inference import __version__
from remote_inference.core.server.backends import BACK_ENDS
from remote_inference.deployment.back_ends import BackEndReport, list_back_ends


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the path, to install into."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_policies", raising=False)  # another test's module of that name
    return tmp_path


def find(name: str) -> list[BackEndReport]:
    return [report for report in list_back_ends() if report.name == name]


def test_every_built_in_back_end_is_listed_with_the_package_s_version():
    listed = [report for report in list_back_ends() if report.distribution == "remote_inference"]
    assert [report.name for report in listed] == list(BACK_ENDS.names)
    assert {report.version for report in listed} == {__version__}
    assert find("hold")[0].state == "ready"


def test_a_built_in_back_end_says_which_package_it_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(BACK_ENDS._needs, "hold", ("json", "no_such_library"))
    assert find("hold")[0].state == "needs no_such_library"


def test_a_declared_back_end_says_what_it_lacks(site: Path):
    requires = (
        "numpy>=1",
        "numpy>=99",
        "no-such-library>=2",
        'other-library; extra == "gpu"',
        'third-library; python_version < "3"',
    )
    install(site, "my-policies", "reach = my_policies:load [gpu]", version="0.2", requires=requires)
    (report,) = find("reach")
    assert (report.distribution, report.version) == ("my-policies", "0.2")
    own, numpy, library, extra = report.missing
    assert own == "its own module my_policies"
    assert numpy.startswith("numpy>=99 (found ")
    assert (library, extra) == ("no-such-library>=2", "other-library")
    (site / "my_policies.py").write_text("raise RuntimeError('imported')")
    assert len(find("reach")[0].missing) == 3


def test_back_ends_of_one_name_are_all_listed_as_refused(site: Path):
    install(site, "my-policies", "reach = my_policies:load")
    install(site, "your-policies", "reach = your_policies:load\nhold = your_policies:hold")
    assert [report.distribution for report in find("reach")] == ["my-policies", "your-policies"]
    for report in (*find("reach"), *find("hold")):
        assert "your-policies 1.0" in report.problem
        assert report.state == f"refused, {report.problem}"


def run_verb(site: Path, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "remote_inference.cli", "backends", *arguments],
        env={**os.environ, "PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")},
        check=True,
        capture_output=True,
        text=True,
        timeout=60.0,
    ).stdout


def test_the_verb_prints_a_line_for_each_in_a_pipe_and_one_shape_in_json(site: Path):
    install(site, "my-policies", "reach = my_policies:load", requires=("onnxruntime>=99",))
    (site / "my_policies.py").write_text("raise RuntimeError('imported')")
    heading, *lines = run_verb(site).splitlines()
    assert heading.split() == ["back", "end", "distribution", "version", "state"]
    assert len(lines) == len(BACK_ENDS.names) + 1
    (line,) = [line for line in lines if line.startswith("reach ")]
    assert "  my-policies  " in line
    assert "needs onnxruntime>=99" in line
    assert all(len(line) <= 80 for line in (heading, *lines))
    (reach,) = [one for one in json.loads(run_verb(site, "--json"))["backends"] if one["name"] == "reach"]
    assert reach.keys() == {"name", "distribution", "version", "missing", "problem", "state"}
