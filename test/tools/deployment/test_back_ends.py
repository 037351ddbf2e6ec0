# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference backends` says whose each back end is, what it lacks and whether it can be imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remote_inference import __version__
from remote_inference.server.manifest.sections import BACK_ENDS
from remote_inference.tools.deployment.serving.back_ends import BackEndReport, list_back_ends, try_back_ends
from support.entry_point_files import install


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


DEADLINE_S = 60.0


def write_package(site: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution with the back end `reach`, whose module has this text, for child processes."""
    install(site, "my-policies", "reach = my_policies:load")
    (site / "my_policies.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("def load(source):\n    pass\n", "ready"),
        ("print('hello', flush=True)\nload = print\n", "ready, but its import prints 'hello'"),
        (
            "import os\nimport no_such_library\n",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_library' "
            "(my_policies.py:2, in <module>)",
        ),
        (
            "\n\nraise RuntimeError('two\\nlines')\n",
            "cannot be imported: RuntimeError: two lines (my_policies.py:3, in <module>)",
        ),
        ("import sys\nsys.exit('no licence')\n", "sys.exit('no licence') (my_policies.py:2, in <module>)"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt (my_policies.py:1, in <module>)"),
        ("import os\nos._exit(3)\n", "cannot be imported: it ends the process, exit status 3"),
        ("import os\nos.kill(os.getpid(), 11)\n", "cannot be imported: it ends the process, signal SIGSEGV"),
        ("", "cannot be imported: AttributeError: module 'my_policies' has no attribute 'load'"),
        ("load = 3\n", "found int, expected a callable that takes the manifest's section `model`"),
        ("load = input()\n", "EOFError: EOF when reading a line (my_policies.py:1, in <module>)"),
    ],
)
def test_a_back_end_that_lacks_nothing_is_imported_in_another_process_and_its_failure_said(
    site: Path, monkeypatch: pytest.MonkeyPatch, text: str, state: str
):
    write_package(site, text, monkeypatch)
    (report,) = try_back_ends(find("reach"), DEADLINE_S)
    assert report.state.endswith(state)
    assert "\n" not in report.state
    assert "my_policies" not in sys.modules


def test_a_back_end_whose_import_hangs_is_given_up_and_the_others_are_tried(
    site: Path, monkeypatch: pytest.MonkeyPatch
):
    write_package(site, "import threading\nthreading.Event().wait()\n", monkeypatch)
    (report,) = try_back_ends(find("reach"), 0.5)
    assert report.state == "cannot be imported: it has not ended after 0.5 s"


def test_a_thread_that_a_module_has_started_does_not_keep_its_process(
    site: Path, monkeypatch: pytest.MonkeyPatch
):
    text = "import threading\nthreading.Thread(target=threading.Event().wait).start()\nload = print\n"
    write_package(site, text, monkeypatch)
    assert try_back_ends(find("reach"), DEADLINE_S)[0].state == "ready"


def test_a_back_end_that_lacks_a_package_is_not_imported(site: Path, monkeypatch: pytest.MonkeyPatch):
    install(site, "my-policies", "reach = my_policies:load", requires=("no-such-library>=2",))
    (site / "my_policies.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))
    assert try_back_ends(find("reach"), DEADLINE_S)[0].state == "needs no-such-library>=2"


def test_every_built_in_back_end_that_lacks_nothing_can_be_imported():
    complete = [report for report in list_back_ends() if report.is_complete]
    assert {report.state for report in try_back_ends(complete, DEADLINE_S)} == {"ready"}


def run_verb(site: Path, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", "backends", *arguments],
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
    assert reach.keys() == {
        *("name", "distribution", "version", "missing"),
        *("problem", "failure", "prints", "state"),
    }
