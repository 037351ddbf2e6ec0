# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fences of a page, and the command lines in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from linters import ROOT

FENCE = "```"
SHELL = ("", "bash")  # languages of fences with commands; those without a name may hold other text
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "config").rglob("*.md")),
]
OPERATORS = set("();<>|&")
PREFIXES = {"sudo", "export", "env", "exec", "time"}  # before a program's name
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
# What begins a line of a fence without a language makes it one of commands.
PROGRAMS = {
    *("remote-inference", "make", "ros2", "policy_server", "python", "python3", "pip", "pip3", "hf", "uv"),
    *("cd", "cp", "curl", "docker", "eval", "export", "git", "jq", "kubectl", "mkdir", "nc", "rosdep"),
    *("sed", "source", "sudo", "systemctl"),
}


@dataclass(frozen=True)
class Fence:
    """A fence of a page. line: where it begins, from 1. language: as it is written; empty: none."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def find_fences(page: Path, text: str) -> Iterator[Fence]:
    """Yield the fences of a page's text. Raises ValueError for one that has no end."""
    opened: tuple[int, str] | None = None
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith(FENCE):
            held.append(line)
        elif opened is None:
            opened, held = (number, line.strip().removeprefix(FENCE)), []
        else:
            begin, language = opened
            yield Fence(page, begin, language, "".join(f"{held_line}\n" for held_line in held))
            opened = None
    if opened is not None:
        raise ValueError(f"{page.name}:{opened[0]}: a fence without an end")


def has_commands(fence: Fence) -> bool:
    """Return whether a fence is of commands: it says so, or a line begins with a program's name."""
    if fence.language:
        return fence.language in SHELL
    lines = [line.split() for line in fence.text.splitlines()]
    firsts = [next((word for word in words if not ASSIGNMENT.fullmatch(word)), "") for words in lines]
    return any(word in PROGRAMS for word in firsts)


def find_commands(text: str) -> list[list[str]]:
    """Return the words of each command of a shell's text, without assignments. Raises ValueError."""
    commands: list[list[str]] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word and set(word) <= OPERATORS:
                commands.append(_without_prefix(words))
                words = []
            else:
                words.append(word)
    return [command for command in commands if command]


def _without_prefix(words: list[str]) -> list[str]:
    while words and (words[0] in PREFIXES or ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    return words
