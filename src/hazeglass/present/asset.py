"""The drawing library of the interactive report, taken from an installed package: d3, as the wheel of gravis ships it.

Nothing of gravis is imported or run. The file is used only when it is, byte for byte, the one that was looked at.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

__all__ = ["drawing_library"]

_FOLDER = Path("_internal/plotting/third_party/d3")
_SHA256 = {
    "d3.v7.min.def.js": "3659989c4e97794f43ea723057f5f96702bdbeffd6b244dbbd436b286431d149",
    "ORIGINAL_LICENSE": "e008c5e25a6be382593089c29bfabbc553c6378eee02895aec46ce396cc404ee",
}
# The file calls define(name, dependencies, factory) of a module loader; this is all of one that it needs.
_BEFORE = "var d3={};(function(){const require={defined:()=>false},define=(name,needs,factory)=>factory(d3);\n"
_AFTER = "\n})();\n"


def drawing_library() -> str | None:
    """d3 7.1.1 with its licence, as a script that defines `d3`; None when the package is missing or another version."""
    spec = find_spec("gravis")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / _FOLDER
    texts = []
    for name, expected in _SHA256.items():
        try:
            raw = (folder / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(raw).hexdigest() != expected:
            return None
        texts.append(raw.decode("utf-8"))
    code, licence = texts
    return f"/*\nd3 7.1.1\n{licence.strip()}\n*/\n{_BEFORE}{code}{_AFTER}"
