# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The verbs of the command line, from its parser: what they are for, their exit codes and examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from markdown_table import make_table

from remote_inference.tools.cli.common import MEANINGS, OF_VERB
from remote_inference.tools.cli.parser import EXAMPLES, PROGRAM, make_parser


def verbs() -> str:
    """Return a section for each verb, in the order of the help."""
    return "\n\n".join(_sections(make_parser(complete=True)))


def exit_codes() -> str:
    """Return what the exit codes of every verb mean."""
    return _table_of(MEANINGS)


def _table_of(codes: Mapping[int, str]) -> str:
    return make_table(("exit code", "meaning"), ((f"`{code}`", text) for code, text in codes.items()))


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    for name, verb, text in _verbs_of(parser):
        deeper = list(_verbs_of(verb))
        parts = [f"### {name}"]
        if text:
            parts.append(f"{text[0].upper()}{text[1:].rstrip('.')}.")
        if own := OF_VERB.get(name.removeprefix(f"{PROGRAM} ")):
            parts.append(_table_of(own))
        if verb.epilog:
            parts.append(f"```\n{_examples(verb.epilog)}\n```")
        yield "\n\n".join(parts)
        if deeper:
            yield from _sections(verb)


def _verbs_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Yield the verbs of a parser: whole name, parser and help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, verb in action.choices.items():
                yield verb.prog, verb, helps.get(name) or verb.description or ""


def _examples(epilog: str) -> str:
    """Return the examples at the end of a verb's help, one a line."""
    _, _, examples = epilog.partition(f"{EXAMPLES}\n")
    return "\n".join(line.strip() for line in examples.splitlines())
