# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML as people and ROS read it: equal keys are refused, numbers are those of YAML 1.2.

PyYAML reads YAML 1.1, in which 010 is 8, 1:30 is 90, 1_6 is 16 and 1e3 is text. Words stay as they were:
`off` is false.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MERGE_TAG = "tag:yaml.org,2002:merge"  # of the key `<<`
MAX_DEPTH = 50  # of nested values; a contract has five
TOO_DEEP = f"it is nested too deeply, expected at most {MAX_DEPTH} levels"
MAX_VALUES = 100_000  # of a document with its aliases (`*name`) written out: a few lines can be billions
_NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "tag:yaml.org,2002:float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")


def load_yaml(text: str) -> Any:
    """Return the content of a text. Raises yaml.YAMLError, and what int() and date() raise."""
    return yaml.load(text, _Loader)


def dump_yaml(content: Any, dumper: type[yaml.SafeDumper] | None = None, **options: Any) -> str:
    """Return a text that readers of YAML 1.1 and 1.2 read as the content. options: PyYAML's."""
    text: str = yaml.dump(content, Dumper=dumper or PlainDumper, sort_keys=False, **options)
    return text


def explain_yaml_error(error: yaml.YAMLError) -> str:
    """Return place and problem on one line, without the name that PyYAML would give the text."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    context = f", {error.context}" if error.context else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{context}"


class PlainDumper(yaml.SafeDumper):
    """Quotes a text that YAML 1.1 or 1.2 reads as a number: a version such as 12e4."""


class _Loader(yaml.SafeLoader):
    """Refuses equal keys: PyYAML keeps the last one, which hides the one that a reader sees first.

    Refuses endless and huge aliases, too: what reads the content would not end. So does deep nesting, on
    which PyYAML spends the square of the depth.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if parent is not None and self._depth > MAX_DEPTH:
            raise yaml.constructor.ConstructorError(None, None, TOO_DEEP, parent.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _count_values(node, {})
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:  # as they are written: merges come later
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                if key.value in seen:
                    text = f"key {key.value!r} found twice"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen.add(key.value)
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        text = self.construct_scalar(node)
        if _LEADING_ZERO.fullmatch(text):
            plain = text.lstrip("+-").lstrip("0")
            problem = f"found {text}, which some readers take for octal, expected {plain or '0'}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return int(text, 0)


def _read_numbers_as_yaml_1_2() -> None:
    _Loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in resolvers if tag not in _NUMBERS]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern in _NUMBERS.items():  # the whole numbers are found first
        for side in (_Loader, PlainDumper):
            side.add_implicit_resolver(tag, re.compile(f"^(?:{pattern})$"), list("-+.0123456789"))
    _Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


_read_numbers_as_yaml_1_2()


def _count_values(node: yaml.Node, counts: dict[int, int]) -> int:
    """Return how many values a node holds with its aliases written out. counts: of the nodes seen so far."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if (known := counts.get(id(node))) is not None:
        if known == 0:  # its own count is under way
            raise yaml.constructor.ConstructorError(None, None, "an alias holds itself", node.start_mark)
        return known
    counts[id(node)] = 0
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(item,) for item in node.value]
    count = 1 + sum(_count_values(item, counts) for pair in pairs for item in pair)
    if count > MAX_VALUES:
        text = f"found {count} values with aliases written out, expected at most {MAX_VALUES}"
        raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
    counts[id(node)] = count
    return count
