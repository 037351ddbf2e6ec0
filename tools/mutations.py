# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The single changes of a module that `mutants.py` tries: each is a mistake that somebody could make.

Left as they are: texts, annotations, decorators, assertions and what else only checks: zip's `strict=True`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.MatMult: ast.Mult,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
MANY = 100  # from here on, one more or less makes no difference that matters
NOT_CODE = {"annotation", "returns", "decorator_list", "type_params"}

Change = tuple[ast.AST, ast.AST]  # a node, and what stands in its place


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    function: str  # qualified name, "" outside of functions
    statement: int  # line of the smallest statement around the change, 0 outside of functions
    number: int  # line of the change
    line: str  # as it stands there, without comments, in single spaces
    becomes: str
    source: str  # of the whole module

    @property
    def identity(self) -> tuple[str, str, str]:
        """What stays as it is when lines are added above it."""
        return (self.function, self.line, self.becomes)


def find_mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    lines = source.encode().splitlines(keepends=True)
    found: dict[str, Mutant] = {}
    for function, statement, (old, new) in _walk(ast.parse(source)):
        mutant = _splice(lines, function, statement, old, ast.unparse(new))
        found.setdefault(mutant.source, mutant)
    return sorted(found.values(), key=lambda mutant: mutant.number)


def _splice(lines: list[bytes], function: str, statement: int, old: ast.AST, new: str) -> Mutant:
    assert isinstance(old, ast.stmt | ast.expr)
    assert old.end_lineno is not None
    assert old.end_col_offset is not None
    first, last = old.lineno - 1, old.end_lineno - 1
    head, tail = lines[first][: old.col_offset].decode(), lines[last][old.end_col_offset :].decode()
    is_whole = isinstance(old, ast.stmt | ast.Slice)
    changed = head + (new if is_whole else f"({new})") + tail  # an operator must not bind its neighbours
    before, after = b"".join(lines[:first]).decode(), b"".join(lines[last + 1 :]).decode()
    line = b"".join(lines[first : last + 1]).decode()
    becomes = _shortened(head + new + tail)
    return Mutant(function, statement, old.lineno, _shortened(line), becomes, before + changed + after)


def _shortened(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"  #.*", "", text)).strip()


def _walk(
    node: ast.AST, function: str = "", statement: int = 0, in_body: bool = False
) -> Iterator[tuple[str, int, Change]]:
    """Yield each change with the function and the statement around it."""
    is_check = isinstance(node, ast.keyword) and node.arg == "strict"
    if is_check or isinstance(node, ast.Assert | ast.JoinedStr):
        return
    if in_body and isinstance(node, ast.stmt):
        statement = node.lineno
    if not (function.endswith("__init__") and isinstance(node, ast.Assign)):  # never set: found at once
        yield from ((function, statement, change) for change in _changes(node))
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        function = f"{function}.{node.name}".lstrip(".")
    for name, value in ast.iter_fields(node):
        into_body = in_body or (isinstance(node, ast.FunctionDef) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in NOT_CODE:
                yield from _walk(child, function, statement, into_body)


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield test, ast.Constant(False)
            if isinstance(node, ast.If):
                yield test, ast.Constant(True)
        case ast.comprehension(ifs=conditions):
            yield from ((condition, ast.Constant(True)) for condition in conditions)
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple()]):
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value)):
                yield node, ast.Pass()
        case ast.AugAssign(target=target, op=operator, value=value):
            yield node, ast.Pass()
            yield node, ast.AugAssign(target, OPERATORS[type(operator)](), value)
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue():
            yield node, ast.Break()
        case _:
            yield from ((node, new) for new in _other_expressions(node))


def _other_expressions(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            for place, operator in enumerate(operators):
                for other in COMPARISONS[type(operator)]:
                    yield ast.Compare(left, [*operators[:place], other(), *operators[place + 1 :]], others)
        case ast.BinOp(left=left, op=operator, right=right):
            yield ast.BinOp(left, OPERATORS[type(operator)](), right)
        case ast.BoolOp(op=operator, values=values):
            for place in range(len(values)):
                rest = values[:place] + values[place + 1 :]
                yield ast.BoolOp(operator, rest) if rest[1:] else rest[0]
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Constant(value=value):
            yield from (ast.Constant(other) for other in _other_values(value))
        case ast.Slice(lower=lower, upper=upper, step=step):
            if lower is not None:
                yield ast.Slice(None, upper, step)
            if upper is not None:
                yield ast.Slice(lower, None, step)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            match function:
                case ast.Name(id=name) if name in FUNCTIONS:
                    yield ast.Call(ast.Name(FUNCTIONS[name]), arguments, keywords)
                case ast.Attribute(value=owner, attr=name) if name in FUNCTIONS:
                    yield ast.Call(ast.Attribute(owner, FUNCTIONS[name]), arguments, keywords)
            for place in range(len(keywords)):
                if keywords[place].arg != "strict":
                    yield ast.Call(function, arguments, keywords[:place] + keywords[place + 1 :])


def _other_values(value: object) -> tuple[bool | float | str, ...]:
    match value:
        case bool():
            return (not value,)
        case int() if value < MANY:
            return (value + 1, value - 1)
        case int():
            return (2 * value, value // 2)
        case float():
            return (2.0 * value, value / 2.0) if value else (1.0,)
        case "":
            return ("mutant",)
    return ()
