# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`colcon build`, which runs cmake, installs a package that imports.

It generates two of the interfaces: all of them are in pip's installation, which every other test runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FROM_WHEELS = Path(sys.prefix, "share", "ament_cmake", "cmake").is_dir()
DEADLINE_S = 300.0
INTERFACES = ("msg/Observation.msg", "srv/CloseSession.srv")


def run(*command: str, cwd: Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("workspace")
    package = workspace / "src" / "remote_inference"
    package.mkdir(parents=True)
    for name in ("action", "msg", "srv", "src", "scripts", "launch", "config", "examples", "test", "tools"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("package.xml", "setup.cfg"):
        shutil.copy(ROOT / name, package)
    lines = (ROOT / "CMakeLists.txt").read_text().splitlines(keepends=True)
    (package / "CMakeLists.txt").write_text("".join(line for line in lines if not _is_left_out(line)))
    project = package / "tools" / "ros_wheels.cmake"
    wheels = [f"-DCMAKE_PROJECT_INCLUDE={project}", "-DGENERATE_CPP=ON"] if FROM_WHEELS else []
    run(
        *(sys.executable, "-m", "colcon", "build", "--cmake-args", "-DBUILD_TESTING=OFF", *wheels),
        cwd=workspace,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    )
    return workspace / "install" / "remote_inference"


def _is_left_out(line: str) -> bool:
    """Return whether a line of CMakeLists.txt names an interface that the build leaves out."""
    return line.strip().endswith((".action", ".msg", ".srv")) and line.strip() not in INTERFACES


def test_colcon_installs_modules_interfaces_executables_and_data(install: Path) -> None:
    (site_packages,) = install.glob("lib/python3*/site-packages")
    located = run(
        sys.executable,
        "-c",
        "import remote_inference, remote_inference.msg as m, remote_inference.tools.cli as c;"
        "print(m.Observation.__name__, remote_inference.__file__)",
        cwd=install,
        PYTHONPATH=str(site_packages),
        AMENT_PREFIX_PATH=f"{install}:{os.environ.get('AMENT_PREFIX_PATH', sys.prefix)}",
        LD_LIBRARY_PATH=f"{install / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}",
    )
    assert located.split() == ["Observation", str(site_packages / "remote_inference" / "__init__.py")]
    for name in ("policy_server", "remote_inference", "belt_arm", "bag_recorder", "command_watchdog"):
        assert os.access(install / "lib" / "remote_inference" / name, os.X_OK)
    assert os.access(install / "bin" / "remote-inference", os.X_OK)
    assert (install / "include/remote_inference/remote_inference/msg/observation.hpp").is_file()
    assert (install / "lib/libremote_inference__rosidl_typesupport_fastrtps_cpp.so").is_file()
    assert (site_packages / "remote_inference" / "server" / "monitoring" / "status_page.html").is_file()
    share = install / "share" / "remote_inference"
    for name in (
        "launch/robot.launch.py",
        "config/belt_arm.manifest.yaml",
        "config/robots/so101.contract.yaml",
        "config/grafana_dashboard.json",
        "config/models/belt_arm/policy.json",
        "examples/belt_arm/trainer.py",
    ):
        assert (share / name).is_file()
