# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Packages of the system are installed when a person says so, and what needs none of them goes on without."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
PACKAGES = {
    "ensure_rendering.sh": "libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6",
    "ensure_chromium.sh": "chromium chromium-driver",
}


class Machine:
    """A machine whose programs lack their packages until apt-get has brought them."""

    def __init__(self, folder: Path, *, user: int = 0, apt_works: bool = True) -> None:
        """user: who runs the scripts; 0 is root."""
        self._folder = folder
        self._installed = folder / "installed"
        self._add("id", f"echo {user}")
        brings = f'case "$*" in *install*) echo "$*" >> {self._installed} ;; esac'
        self._add("apt-get", brings if apt_works else "exit 100")
        self._add("python", f"cat >/dev/null; test -f {self._installed}")
        self._add("chromium", f"test -f {self._installed} && echo 42")
        self._add("chromedriver", "true")

    def _add(self, name: str, code: str) -> None:
        program = self._folder / name
        program.write_text(f"#!/bin/sh\n{code}\n")
        program.chmod(0o755)

    @property
    def installed(self) -> str:
        """What apt-get was told to install, empty when nothing."""
        return self._installed.read_text() if self._installed.exists() else ""

    def run(self, script: str, typed: str | None = None, apt: str = "") -> tuple[int, str]:
        """Return a script's exit code and what it printed. typed: on the terminal; None: there is none."""
        environment = {"PATH": f"{self._folder}:/usr/bin:/bin", "APT": apt}
        near, far = pty.openpty()
        try:
            if typed is not None:
                os.write(near, f"{typed}\n".encode())
            ended = subprocess.run(
                ["sh", str(TOOLS / script)],
                env=environment,
                stdin=subprocess.DEVNULL if typed is None else far,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
            )
        finally:
            os.close(near)
            os.close(far)
        return ended.returncode, ended.stdout


both = pytest.mark.parametrize("script", PACKAGES)


@both
def test_nothing_is_said_where_nothing_is_missing(script: str, tmp_path: Path):
    machine = Machine(tmp_path)
    machine.run(script, apt="yes")
    assert machine.run(script, typed="n") == (0, "")


@both
def test_a_person_at_a_terminal_is_asked(script: str, tmp_path: Path):
    machine = Machine(tmp_path)
    code, said = machine.run(script, typed="y")
    assert f"{PACKAGES[script]}\nInstall them with apt-get? [y/N]" in said
    assert code == 0
    assert machine.installed.endswith(f"{PACKAGES[script]}\n")


@both
@pytest.mark.parametrize("typed", ["n", ""])
def test_without_a_yes_nothing_is_installed_and_the_rest_goes_on(script: str, typed: str, tmp_path: Path):
    machine = Machine(tmp_path)
    code, said = machine.run(script, typed=typed)
    assert (code, machine.installed) == (0, "")
    assert f"sudo apt-get install {PACKAGES[script]}" in said


@both
def test_who_is_not_root_is_told_what_to_install(script: str, tmp_path: Path):
    machine = Machine(tmp_path, user=1000)
    code, said = machine.run(script, typed="y")
    assert (code, machine.installed) == (0, "")
    assert f"sudo apt-get install {PACKAGES[script]}" in said


@both
def test_root_without_a_terminal_is_told_what_is_installed(script: str, tmp_path: Path):
    machine = Machine(tmp_path)
    code, said = machine.run(script)
    assert code == 0
    assert said.startswith("installing packages of the system for ")
    assert said.endswith(f": {PACKAGES[script]}\n")
    assert machine.installed


@both
def test_an_answer_beforehand_is_no(script: str, tmp_path: Path):
    machine = Machine(tmp_path)
    assert machine.run(script, apt="no")[0] == 0
    assert not machine.installed


@both
def test_an_answer_beforehand_that_is_yes_makes_their_want_an_error(script: str, tmp_path: Path):
    """A build must not pass for want of a browser."""
    assert Machine(tmp_path, apt_works=False).run(script, apt="yes")[0] == 1
    assert Machine(tmp_path, user=1000).run(script, apt="yes")[0] == 1


def test_want_of_packages_that_cannot_be_had_stops_nobody_else(tmp_path: Path):
    assert Machine(tmp_path, apt_works=False).run("ensure_rendering.sh")[0] == 0
