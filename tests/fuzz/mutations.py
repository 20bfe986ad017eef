"""Ways to damage a document or a string of bytes, drawn by hypothesis."""

import copy
import hashlib
import json
import math
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hazeglass.bundle.catalogue import derived
from hazeglass.bundle.manifest import Manifest

NASTY = [
    None, True, False, [], {}, [[]], [1, 2, 3], {"a": 1}, [None],
    0, -1, 1, 2, 3, 10**6, 10**18, -(10**18), 10**30, 0.0, -0.0, 0.5, 1e-300, 5e-324, 1e300, -1e300, 1e308,
    math.inf, -math.inf, math.nan, "", "a", "b", "\x00", "\ud800", "x" * 2000, "<script>alert(1)</script>",
    "record", "table", "person", "moments", "synthetic", "private", "hermite", "log", "sqrt", "asinh", "integer",
    "discrete", "rounded-gaussian", "discrete-gaussian", "1.0", "2.0", "3.0", "../x", "/etc/passwd", "data/x.parquet",
]  # fmt: skip
values = st.one_of(st.sampled_from(NASTY), st.floats(), st.integers(), st.floats(1e-6, 1e6))
document_edits = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "set", "delete", "add", "repeat", "scale"]), st.integers(0, 10**6), values
    ),
    min_size=1,
    max_size=3,
)
byte_edits = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "swap"]), st.integers(0, 10**6), st.binary(min_size=1, max_size=8)
    ),
    min_size=1,
    max_size=4,
)


def _places(node, found):
    """Every (container, key) below a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in list(items):
        found.append((node, key))
        if isinstance(child, dict | list):
            _places(child, found)
    return found


def edit_document(document, edits):
    document = copy.deepcopy(document)
    for kind, position, value in edits:
        places = _places(document, [])
        if not places:
            break
        node, key = places[position % len(places)]
        if kind == "delete":
            del node[key]
        elif kind == "add" and isinstance(node, dict):
            node[str(value)[:50]] = value
        elif kind in ("add", "repeat") and isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        elif kind == "scale" and isinstance(node[key], int | float) and not isinstance(node[key], bool):
            factor = value if isinstance(value, float) and math.isfinite(value) else 1.5
            node[key] = node[key] * factor
        else:
            node[key] = copy.deepcopy(value)
    return document


def edit_bytes(raw, edits):
    for kind, position, piece in edits:
        place = position % max(1, len(raw))
        if kind == "flip":
            raw = raw[:place] + bytes([raw[place] ^ (piece[0] or 1)]) + raw[place + 1 :] if raw else piece
        elif kind == "cut":
            raw = raw[:place] + raw[place + len(piece) ** 3 :]
        elif kind == "insert":
            raw = raw[:place] + piece + raw[place:]
        else:
            other = piece[0] % max(1, len(raw))
            raw = raw[other:] + raw[:other]
    return raw


def many(examples):
    """So many examples: always the same ones in the gate, HAZEGLASS_FUZZ times as many new ones by hand."""
    more = int(os.environ.get("HAZEGLASS_FUZZ", "0"))
    return settings(
        max_examples=examples * max(1, more),
        derandomize=more == 0,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


def one_sentence(error):
    for sentence in error.gaps or (str(error),):  # several are one each, in a list
        assert 5 < len(sentence) < 700
        assert "\n" not in sentence


def sealed(files):
    """The files with what follows from release.json and a SHA256SUMS that fits, as a forger would write them."""
    manifest = Manifest.from_json(json.loads(files["release.json"]))
    files = {**files, **{name: "".join(pieces).encode() for name, pieces in derived(manifest)}}
    lines = "".join(f"{hashlib.sha256(raw).hexdigest()}  {name}\n" for name, raw in files.items())
    return {**files, "SHA256SUMS": lines.encode()}
