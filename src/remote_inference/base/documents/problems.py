# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a document, in words for people: where, what was found and what was expected."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from remote_inference.base.limits import shorten

LONGEST_VALUE = 80  # characters of a value that are shown
LONGEST_PLACE = 200  # and of the keys that lead to it
MOST_SHOWN = 20  # problems of a document; the others are counted

# By pydantic's kind of problem; other kinds keep pydantic's words. `{...}` are pydantic's numbers.
_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "mapping_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "at least {min_length} character",
    "string_too_long": "at most {max_length} characters",
    "literal_error": "{expected}",
}


def describe_problems(source: str, model: type[BaseModel], problems: Sequence[Any]) -> str:
    """Return a line for each problem that pydantic has found, for the first ones if there are very many.

    source: names the document.
    """
    # A list with an invalid item is reported as too short as well: the item's problem is enough.
    places = {problem["loc"] for problem in problems}
    outer = {place[:length] for place in places for length in range(len(place))}
    innermost = [problem for problem in problems if problem["loc"] not in outer]
    by_place: dict[tuple[Any, ...], list[Any]] = {}  # a value that may be of several kinds has one for each
    for count, problem in enumerate(innermost):
        place = _place(model, problem["loc"])
        if place not in by_place and len(by_place) == MOST_SHOWN:
            more = [f"{source}: and {len(innermost) - count} more problems"]
            break
        by_place.setdefault(place, []).append(problem)
    else:
        more = []
    return "\n".join([*(_describe(source, model, *item) for item in by_place.items()), *more])


def name_unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the words for an unknown key: the known key that is close to it, or all known keys."""
    known = sorted(known)
    if len(key) <= LONGEST_PLACE and (close := get_close_matches(key, known, n=1)):
        return f"unknown key, did you mean {close[0]!r}?"
    return f"unknown key, expected one of {', '.join(known)}" if known else "unknown key, expected none"


_SURROGATE = re.compile("[\ud800-\udfff]")


def find_no_text(content: Any, place: str = "") -> list[str]:
    """Return a line for each key that is no text; YAML reads some words otherwise than people do.

    And for each text with half of a pair of surrogates, which no file and no message can hold.
    """
    if isinstance(content, str) and not content.isascii() and (half := _SURROGATE.search(content)):
        return [f"{place}: found {half.group()!a} in a text, expected characters of Unicode"]
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(content, (list, tuple)):
        items = enumerate(content)
    elif isinstance(content, Mapping):
        items = content.items()
    found = []
    for key, value in items:
        inner = f"{place}.{key}" if place else str(key)
        if isinstance(content, Mapping) and not isinstance(key, str):
            why = " (YAML reads on, off, yes and no so)" if isinstance(key, bool) else ""
            where = f"{place}: " if place else ""
            found.append(f"{where}found the key {show_value(key)}{why}, expected text: quote it")
        else:
            found += find_no_text(value, inner)
    return found


def show_value(value: Any) -> str:
    """Return a value as its document would spell it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(with_sequences(value, list))
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _describe(source: str, model: type[BaseModel], place: tuple[Any, ...], problems: list[Any]) -> str:
    problem = problems[0]
    key = shorten(".".join(str(part) for part in place), LONGEST_PLACE)
    where = f"{source}: {key}" if key else source
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        field = _keys_at(model, place[:-1]).get(place[-1])
        meaning = field.description if field is not None and field.description else "a value"
        return f"{where}: missing, expected {meaning}"
    if kind == "extra_forbidden":
        return f"{where}: {name_unknown_key(str(place[-1]), _keys_at(model, place[:-1]))}"
    if kind == "value_error":  # raised by our own validators, whose messages say found and expected
        return f"{where}: {context['error']}"
    if kind == "too_short":
        return f"{where}: found {context['actual_length']} items, expected at least {context['min_length']}"
    expected = " or ".join(dict.fromkeys(_expected(problem) for problem in problems))
    return f"{where}: found {show_value(problem['input'])}, expected {expected}"


def _expected(problem: Any) -> str:
    if words := _EXPECTED.get(problem["type"]):
        numbers = {
            name: f"{value:g}" if isinstance(value, float) else value
            for name, value in problem.get("ctx", {}).items()
        }
        return words.format(**numbers)
    return str(problem["msg"]).removeprefix("Input should be ")


def _place(model: type[BaseModel], loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the place of a problem in the document, without the kind that pydantic tried."""
    place: list[Any] = []
    kind: Any = model
    for part in loc:
        if len(_alternatives(kind)) > 1:
            kind = None  # the part names one of them
        else:
            place.append(part)
            kind = _kind_at(kind, part)
    return tuple(place)


def _keys_at(model: type[BaseModel], place: tuple[Any, ...]) -> Mapping[str, Any]:
    kind: Any = model
    for part in place:
        kind = _kind_at(kind, part)
    kind = _item(_alternatives(kind)[0])
    if not isinstance(kind, type) or not issubclass(kind, BaseModel):
        return {}
    return kind.every_key() if hasattr(kind, "every_key") else kind.model_fields


def _kind_at(kind: Any, part: Any) -> Any:
    """Return the annotation of the value under a key or index; None when it is unknown."""
    kind = _alternatives(kind)[0]
    if isinstance(part, str):
        kind = _item(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(part)
        return field.annotation if field is not None else None
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return arguments[0] if arguments[-1] is ... else arguments[part]
    return arguments[1] if len(arguments) == 2 else None


def _item(kind: Any) -> Any:
    """Return what a list holds: a section may stand in place of a list of one."""
    return get_args(kind)[0] if get_origin(kind) is tuple and get_args(kind)[-1] is ... else kind


def _alternatives(kind: Any) -> list[Any]:
    """Return the kinds that a value may have, except None."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, types.UnionType):
        return [kind]
    return [argument for argument in get_args(kind) if argument is not type(None)]


def with_sequences(value: Any, make: Callable[[list[Any]], Any]) -> Any:
    """Return a value whose lists and tuples are all of one type, at any depth. make: list or tuple."""
    if isinstance(value, dict):
        return {key: with_sequences(item, make) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return make([with_sequences(item, make) for item in value])
    return value


def finite(data: Any) -> Any:
    """Return a document with None in the place of NaN and infinity, which JSON does not know."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    return [finite(item) for item in data] if isinstance(data, (list, tuple)) else data
