# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The environment of `make test-policies`: its Python is found, and it stays with its requirements."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
WORKS = f'exec "{sys.executable}" "$@"'
SHIM = f"echo 'pyenv: python{VERSION}: command not found' >&2; exit 127"
TIMEOUT_S = 60.0
INSTALL_TIMEOUT_S = 300.0


def write_program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with what the search itself needs; a PATH of this folder has no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "mktemp", "rm", "grep", "cat"):
        program = shutil.which(name)
        assert program
        (folder / name).symlink_to(program)
    return folder


def search(*folders: Path, version: str = VERSION, named: str = "") -> tuple[str, str]:
    """Return what the search prints as found, and what it says about a failure."""
    done = subprocess.run(
        [str(ROOT / "tools" / "find_python.sh"), version, named],
        env={"PATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode == 0) == bool(done.stdout) == (not done.stderr)
    return done.stdout.strip(), done.stderr


def test_a_python_of_the_path_is_found(bin_folder: Path) -> None:
    write_program(bin_folder / f"python{VERSION}", WORKS)
    assert search(bin_folder) == (sys.executable, "")


def test_a_python_behind_a_shim_that_runs_nothing_is_found(bin_folder: Path, tmp_path: Path) -> None:
    shim = write_program(tmp_path / "shims" / f"python{VERSION}", SHIM)
    found, problem = search(shim.parent, bin_folder)
    assert not found
    assert f"{shim}: pyenv: python{VERSION}: command not found" in problem
    write_program(tmp_path / "other folder" / f"python{VERSION}", WORKS)
    assert search(shim.parent, tmp_path / "other folder", bin_folder) == (sys.executable, "")


def test_a_python_of_pyenv_is_found(bin_folder: Path, tmp_path: Path) -> None:
    write_program(bin_folder / f"python{VERSION}", SHIM)
    root = tmp_path / "my pyenv"
    write_program(bin_folder / "pyenv", f'[ "$*" = root ] && echo "{root}"')
    assert not search(bin_folder)[0]
    write_program(root / "versions" / f"{VERSION}.9" / "bin" / f"python{VERSION}", WORKS)
    assert search(bin_folder) == (sys.executable, "")


def test_a_python_that_uv_has_installed_is_found(bin_folder: Path, tmp_path: Path) -> None:
    python = write_program(tmp_path / "uv" / f"python{VERSION}", WORKS)
    write_program(bin_folder / "uv", f'[ "$*" = "python find --system {VERSION}" ] && echo "{python}"')
    assert search(bin_folder) == (sys.executable, "")
    write_program(bin_folder / "uv", "echo 'error: No interpreter found' >&2; exit 2")
    assert not search(bin_folder)[0]


def test_a_python_that_is_named_is_the_only_one_tried(bin_folder: Path, tmp_path: Path) -> None:
    write_program(bin_folder / f"python{VERSION}", SHIM)
    named = write_program(tmp_path / "mine", WORKS)
    assert search(bin_folder, named=str(named)) == (sys.executable, "")
    write_program(bin_folder / "python3.4", WORKS)
    found, problem = search(bin_folder, version="3.4", named=str(named))
    assert not found
    assert f"Found no Python 3.4 that works.\n  {named}: is Python {VERSION}\n" in problem


def test_a_machine_without_one_is_told_what_to_do(bin_folder: Path) -> None:
    found, problem = search(bin_folder, version="3.4")
    assert not found
    assert problem == (
        "Found no Python 3.4 that works.\nInstall one, for example with: uv python install 3.4\n"
    )


def test_the_environment_is_installed_again_when_requirements_change_and_not_when_they_are_newer(
    tmp_path: Path,
) -> None:
    """A fresh clone's files are newer than an environment that was kept for it."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")

    def find_install() -> str:
        """Return the stamp that `make` would set after installing, or "" when it would install nothing."""
        done = subprocess.run(
            ["make", "--dry-run", "test-lerobot"],
            cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        installs = "cached_environment.sh" in done.stdout
        (stamp,) = re.findall(r"^touch (\S+)", done.stdout, re.MULTILINE) if installs else [""]
        return stamp

    stamp = tmp_path / find_install()
    stamp.parent.mkdir(parents=True)
    stamp.touch()
    os.utime(stamp, (0, 0))
    assert not find_install()
    with (tmp_path / "requirements" / "jazzy.txt").open("a") as file:
        file.write("# another line\n")
    assert find_install() not in {"", str(stamp.relative_to(tmp_path))}


def make_environment(folder: Path, cache: Path, requirements: Path, name: str) -> str:
    """Make an environment as a build does; return what it says."""
    done = subprocess.run(
        [ROOT / "tools" / "cached_environment.sh", folder, sys.executable, requirements, name],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def packages_of(folder: Path) -> Path:
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages


def test_packages_are_installed_once_for_all_checkouts_and_a_checkout_s_own_stay_there(
    tmp_path: Path,
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("# nothing: an environment has pip\n")
    cache, first, second = tmp_path / "cache", tmp_path / "one_checkout", tmp_path / "another"
    assert "installing" in make_environment(first, cache, requirements, "policies-1")
    (packages_of(first) / "own.py").write_text("OWN = 1\n")
    assert "installing" not in make_environment(second, cache, requirements, "policies-1")
    for module in (packages_of(folder) / "pip" / "__init__.py" for folder in (first, second)):
        assert module.samefile(packages_of(cache / "remote_inference" / "policies-1") / "pip" / "__init__.py")
    assert not (packages_of(second) / "own.py").exists()
    for command in (["python", "-m", "pip"], ["pip"]):  # a script names the Python that runs it
        program, *words = command
        told = subprocess.run(
            [second / "bin" / program, *words, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert str(second) in told.stdout, told.stderr
    assert "installing" in make_environment(second, cache, requirements, "policies-2")


def test_an_environment_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("")
    (tmp_path / "remote_inference" / "policies-1" / "bin").mkdir(parents=True)
    assert "installing" in make_environment(tmp_path / "checkout", tmp_path, requirements, "policies-1")
    assert packages_of(tmp_path / "checkout").is_dir()
