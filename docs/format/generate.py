"""Write release.md, field by field, from the JSON Schema that ships with hazeglass.

python docs/format/generate.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hazeglass.bundle.verify import release_schema

HEAD = """\
# release.json, field by field

Generated from `src/hazeglass/bundle/release.schema.json` by `python docs/format/generate.py`; a test keeps the two
together. The file is JSON in UTF-8, nested at most 32 deep, without NaN or infinity, no key twice. Every field is
required, no other field is allowed. `[]` after a name stands for each entry of a list.

| field | type | allowed | meaning |
|---|---|---|---|
"""
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "maxProperties": "at most {} entries",
    "pattern": "matches `{}`",
    "const": "`{}`",
}


def rows(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Name, type, limits and meaning of every field below a schema."""
    for name, field in schema.get("properties", {}).items():
        options = field.get("anyOf", [field])
        some = next(option for option in options if option.get("type") != "null")
        nullable = " or null" if len(options) > 1 else ""
        yield f"`{prefix}{name}`", _type(some) + nullable, _limits(some), field.get("description", "")
        if some.get("type") == "array":
            yield from rows(some["items"], f"{prefix}{name}[].")
        else:
            yield from rows(some, f"{prefix}{name}.")


def _type(field: dict[str, Any]) -> str:
    if field.get("type") == "array":
        inner = field["items"].get("type", "")
        return f"list of {inner}s"
    return str(field.get("type", "text"))


def _limits(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join("`null`" if value is None else f"`{value}`" for value in field["enum"])
    return ", ".join(words.format(_number(field[key])) for key, words in LIMITS.items() if key in field)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def page() -> str:
    """The page as Markdown."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows(release_schema())]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    Path(__file__).with_name("release.md").write_text(page(), encoding="utf-8")
