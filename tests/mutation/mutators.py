"""The small wrongs that mutation testing does to a module: one change of its syntax tree at a time.

Left alone: annotations, docstrings, `__all__`, imports for type checkers, and whatever stands inside a `raise` or an
f-string, because those are words for people. Strings are changed only where something is compared with them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
CALLS = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "all": "any", "any": "all"}
CALLS |= {"minimum": "maximum", "maximum": "minimum", "rint": "floor"}
DROPPED = {"sqrt", "abs", "reversed", "sorted", "float"}
_WORDS_FOR_PEOPLE = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutant:
    """One changed tree, and what the change is."""

    line: int
    column: int
    change: str
    tree: ast.Module

    @property
    def key(self) -> str:
        return f"{self.line}:{self.column} {self.change}"


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    for place in sorted(_places(tree, ()), key=lambda place: (_line(tree, place), place)):
        yield from _mutants_at(tree, place)


Place = tuple[tuple[str, int], ...]  # from the root: a field's name, and the position in it (-1: no list)


def _places(node: ast.AST, here: Place) -> Iterator[Place]:
    """Every node that may be changed."""
    yield here
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_ignores"):
            continue
        children = value if isinstance(value, list) else [value]
        for position, child in enumerate(children):
            if isinstance(child, ast.AST) and not _is_for_people(child):
                yield from _places(child, (*here, (name, position if isinstance(value, list) else -1)))


def _is_for_people(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.ClassDef(bases=[ast.Name(id="Protocol")]):
            return True
    return isinstance(node, _WORDS_FOR_PEOPLE)


def _at(tree: ast.AST, place: Place) -> ast.AST:
    node = tree
    for name, position in place:
        value = getattr(node, name)
        node = value if position < 0 else value[position]
    return node


def _line(tree: ast.AST, place: Place) -> int:
    return getattr(_at(tree, place), "lineno", 0)


def _mutants_at(tree: ast.Module, place: Place) -> Iterator[Mutant]:
    node = _at(tree, place)
    compared = any(isinstance(_at(tree, place[:k]), ast.Compare | ast.MatchValue) for k in range(len(place)))
    for new, change in _changes(node, compared):
        changed = copy.deepcopy(tree)
        parent, (name, position) = _at(changed, place[:-1]), place[-1]
        if position < 0:
            setattr(parent, name, new)
        else:
            getattr(parent, name)[position] = new
        ast.fix_missing_locations(changed)
        yield Mutant(getattr(node, "lineno", 0), getattr(node, "col_offset", 0), change, changed)


def _changes(node: ast.AST, compared: bool) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in the node's place, with the change in words."""
    for new in _replacements(node, compared):
        ast.copy_location(new, node)
        yield new, " -> ".join(_where_they_differ(_code(node), _code(new)))


def _replacements(node: ast.AST, compared: bool) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=right):
            for k, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:k], COMPARISONS[type(op)](), *ops[k + 1 :]], right)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in ARITHMETIC:
            yield ast.AugAssign(target, ARITHMETIC[type(op)](), value)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield operand
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Constant():
            yield from _other_constants(node, compared)
        case ast.Call():
            yield from _other_calls(node)
        case ast.If(body=body, orelse=orelse):
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.IfExp(test=test, body=body, orelse=orelse) if not isinstance(test, ast.Compare):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _other_constants(node: ast.Constant, compared: bool) -> Iterator[ast.AST]:
    match node.value:
        case bool() as value:
            yield ast.Constant(not value)
        case int() as value:
            yield ast.Constant(value + 1)
        case float() as value:
            yield ast.Constant(value * 1.5 if value else 1.0)
        case str() as value if compared:
            yield ast.Constant(value + "?")


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    """Rounding the other way, the wrong one of two extremes, a root not taken."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in DROPPED and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
        yield node.args[0]
    if name in CALLS:
        swapped = copy.copy(function)
        setattr(swapped, "attr" if isinstance(function, ast.Attribute) else "id", CALLS[name])
        yield ast.Call(swapped, node.args, node.keywords)


def _code(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _where_they_differ(old: str, new: str, room: int = 70) -> tuple[str, str]:
    """Both texts, cut to the neighbourhood of their difference where they are too long for a table."""
    if len(old) <= room:
        return old, new
    same = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - 30)
    before = "..." if start else ""

    def cut(text: str) -> str:
        return before + text[start : same + 40] + ("..." if len(text) > same + 40 else "")

    return cut(old), cut(new)
