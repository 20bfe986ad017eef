"""Read the data sets of the paper from a folder: rows with named columns, the true graph, and what else is known.

A file of the bnlearn repository lists the levels of every variable of a discrete network, and the probabilities of its
levels for every configuration of its parents. Two variables depend on each other given all others where one is the
other's parent, or where both are parents of a third: the moral graph is the truth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hazeglass.datasets.dataset import (
    Dataset,
    Edges,
    Entry,
    FloatArray,
    contents,
    entry,
    find,
    numbers,
    read_table,
    strings,
)
from hazeglass.errors import DataError

Folder = str | Path | None


def _edges(text: str) -> Edges:
    return frozenset(frozenset(pair.split("-")) for pair in text.split())


TRUTHS = {
    # the structure of sachs.bif in the bnlearn repository
    "bnlearn17": _edges(
        "Erk-Akt PKA-Akt Mek-Erk PKA-Erk PKA-Jnk PKC-Jnk PKA-Mek PKC-Mek Raf-Mek PKA-P38 PKC-P38 PIP3-PIP2 Plcg-PIP2 "
        "Plcg-PIP3 PKC-PKA PKA-Raf PKC-Raf"
    ),
    # the graph the Causal Discovery Toolbox ships
    "cdt18": _edges(
        "PIP2-PKC Plcg-PIP2 PIP3-Plcg PIP2-PIP3 Plcg-PKC PKC-Jnk PKC-P38 PKA-P38 PKC-Raf PKA-Raf Raf-Mek Mek-Erk "
        "PKC-Mek PKA-Akt PIP3-Akt PKA-Mek PKA-Erk PKA-Jnk"
    ),
    # those 18 and Erk-Akt: the set in an earlier public script of the paper's first author
    "undirected19": _edges(
        "Raf-Mek Raf-PKA Raf-PKC Mek-Erk Mek-PKA Mek-PKC Plcg-PIP2 Plcg-PIP3 Plcg-PKC PIP2-PIP3 PIP2-PKC PIP3-Akt "
        "Erk-Akt Erk-PKA Akt-PKA PKA-P38 PKA-Jnk PKC-P38 PKC-Jnk"
    ),
}


def load_cell_signalling(data_dir: Folder = None) -> Dataset:
    """7,466 cells by 11 proteins; the truth is bnlearn's 17 edges, the other two graphs are in `truths`."""
    known = entry("cell-signalling")
    table = read_table(known, "sachs.csv", data_dir)
    names = table.column_names
    return known.dataset(numbers(table, names), names, truth=TRUTHS["bnlearn17"], truths=TRUTHS)


# Members counted by name alone: a father and a son under one name each, and one man under two numbers.
_BY_NAME_ONLY = {"Duncan, John": ("TN", "R"), "Perkins, Carl": ("KY", "D"), "Goodling, William": ("PA", "R")}


def load_lawmakers(data_dir: Folder = None, *, members: int = 73) -> Dataset:
    """10 congresses by 73 members identified by number, or by 76 identified by name.

    `column_info` holds their state and party ('D' or 'R'); both numbers of members give the paper's epsilon.
    """
    if members not in (73, 76):
        raise DataError(f"members must be 73 (by number) or 76 (by name), got {members}.")
    known = entry("lawmakers")
    people = _members(known, data_dir)
    name = "les_matrix_10x73_icpsr.csv" if members == 73 else "les_matrix_10x76_name.csv"
    table = read_table(known, name, data_dir)
    fields = [column for column in table.column_names if column != "congress"]
    columns = tuple(people) if members == 73 else tuple(fields)
    about = {**people, **_BY_NAME_ONLY}
    return known.dataset(
        numbers(table, fields),
        columns,
        column_info={
            "state": tuple(about[name][0] for name in columns),
            "party": tuple(about[name][1] for name in columns),
        },
        row_info={"congress": tuple(int(c) for c in table.column("congress").to_pylist())},
    )


def _members(known: Entry, data_dir: Folder) -> dict[str, tuple[str, str]]:
    """Name to state and party, in the order of the columns of the 73."""
    table = read_table(known, "members_73.csv", data_dir)
    parties = ["D" if one else "R" for one in table.column("dem").to_pylist()]
    rows = zip(strings(table, "name"), strings(table, "state"), parties, strict=True)
    return {name: (state, party) for name, state, party in rows}


def load_chickenpox(data_dir: Folder = None) -> Dataset:
    """522 weeks by 20 counties, counts; `row_info` holds the first day of each week as dd/mm/yyyy."""
    known = entry("chickenpox")
    table = read_table(known, "hungary_chickenpox.csv", data_dir)
    borders = read_table(known, "hungary_county_edges.csv", data_dir)
    columns = [name for name in table.column_names if name != "Date"]
    return known.dataset(
        numbers(table, columns),
        columns,
        # the ids beside the names follow another order than the columns do: only the names can be trusted
        truth=_pairs(strings(borders, "name_1"), strings(borders, "name_2")),
        row_info={"date": tuple(strings(table, "Date"))},
    )


def load_soil(data_dir: Folder = None) -> Dataset:
    """89 samples by 116 OTUs, counts plus 1.

    `row_info` holds the samples and their pH; `column_info` taxonomy and phylum, where the file with them is there.
    """
    known = entry("soil")
    table = read_table(known, "soil_116.csv", data_dir)
    acidity = read_table(known, "ph.csv", data_dir)
    columns = [name for name in table.column_names if name != "sample"]
    samples = strings(table, "sample")
    ph = dict(zip(strings(acidity, "sample"), acidity.column("ph").to_pylist(), strict=True))
    return known.dataset(
        numbers(table, columns),
        columns,
        column_info=_taxonomy(known, columns, data_dir),
        row_info={"sample": tuple(samples), "ph": tuple(ph[sample] for sample in samples)},
    )


def _taxonomy(known: Entry, columns: list[str], data_dir: Folder) -> dict[str, tuple[str, ...]]:
    """What each OTU is, where the file that says so is there."""
    if find(known, "taxonomy_116.csv", data_dir) is None:
        return {}
    names = read_table(known, "taxonomy_116.csv", data_dir)
    taxonomy = dict(zip(strings(names, "otu"), strings(names, "taxonomy"), strict=True))
    return {
        "taxonomy": tuple(taxonomy[otu] for otu in columns),
        "phylum": tuple(_phylum(taxonomy[otu]) for otu in columns),
    }


def _phylum(taxonomy: str) -> str:
    """'k__Bacteria; p__Acidobacteria; ...' to 'Acidobacteria'."""
    for rank in taxonomy.split(";"):
        if rank.strip().startswith("p__"):
            return rank.strip()[3:]
    return ""


_USERS, _RATED = 6040, 3706


def load_movielens(data_dir: Folder = None, *, movies: int = 55) -> Dataset:
    """6,040 users by the most-rated movies, ratings 1 to 5 and 0 where there is none.

    Movies are ordered by their number of ratings, ties by their number. `column_info` holds their genres and ids;
    `truths['genre']` joins two movies that share a genre. The paper says neither which movies nor which truth it took.
    """
    if not 2 <= movies <= _RATED:
        raise DataError(f"movies must be between 2 and {_RATED}, got {movies}.")
    known = entry("movielens")
    ratings = read_table(known, "ratings.csv", data_dir)
    films = read_table(known, "movies.csv", data_dir)
    movie, user, rating = (ratings.column(name).to_numpy() for name in ("movie_id", "user_id", "rating"))
    ids, counts = np.unique(movie, return_counts=True)
    chosen = ids[np.argsort(-counts, kind="stable")[:movies]]
    place = np.full(ids[-1] + 1, -1)
    place[chosen] = np.arange(movies)
    kept = place[movie] >= 0
    data = np.zeros((_USERS, movies))
    data[user[kept] - 1, place[movie[kept]]] = rating[kept]
    rows = zip(films.column("movie_id").to_pylist(), strings(films, "title"), strings(films, "genres"), strict=True)
    about = {number: (title, tuple(genres.split("|"))) for number, title, genres in rows}
    titles = tuple(about[int(one)][0] for one in chosen)
    genres = tuple(about[int(one)][1] for one in chosen)
    return known.dataset(
        data,
        titles,
        truths={"genre": _sharing(titles, genres)},
        column_info={"genres": genres, "movie_id": tuple(int(one) for one in chosen)},
    )


def _sharing(titles: tuple[str, ...], genres: tuple[tuple[str, ...], ...]) -> Edges:
    """Pairs of movies with a genre in common."""
    return frozenset(
        frozenset((titles[i], titles[j]))
        for i in range(len(titles))
        for j in range(i)
        if set(genres[i]) & set(genres[j])
    )


def load_fmri(data_dir: Folder = None, *, subject: int = 1, regions: Literal["msdl39", "all"] = "msdl39") -> Dataset:
    """176 time points by the 39 columns nearest to the MSDL regions, or by all 110 regions.

    Subjects 1 to 5 are controls; the default was not picked by result. With 'msdl39', `column_info` holds the region
    each column stands for ('region'), its network ('network'), its own name ('atlas_name') and the region's centre in
    millimetres ('xyz').
    """
    if subject not in range(1, 6):
        raise DataError(f"subject must be 1 to 5, got {subject}.")
    if regions not in ("msdl39", "all"):
        raise DataError(f"regions must be 'msdl39' or 'all', got {regions!r}.")
    known = entry("fmri")
    table = read_table(known, f"abide_ho_control{subject:02d}.csv", data_dir)
    columns, about = _nearest(known, data_dir) if regions == "msdl39" else (table.column_names, {})
    return known.dataset(numbers(table, columns), columns, column_info=about)


def _nearest(known: Entry, data_dir: Folder) -> tuple[list[str], dict[str, tuple[Any, ...]]]:
    table = read_table(known, "msdl39_nearest_columns.csv", data_dir)
    centres = numbers(table, ["x", "y", "z"])
    about: dict[str, tuple[Any, ...]] = {
        "region": tuple(strings(table, "msdl_region")),
        "network": tuple(strings(table, "msdl_network")),
        "atlas_name": tuple(strings(table, "ho_name")),
        "xyz": tuple((float(x), float(y), float(z)) for x, y, z in centres),
    }
    return strings(table, "column"), about


# In the order of the file, which has no header; those with levels have them as they are sorted.
_ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
_ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def load_adult(data_dir: Folder = None) -> Dataset:
    """32,561 people by 15 columns: numbers, skewed amounts, words, and cells that are missing.

    The raw file, in which `?` is a missing cell, is in the folder; `docs/guide/kinds.md` has a plan for it.
    """
    known = entry("adult")
    lines = contents(known, "adult.data", data_dir).decode("ascii").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line]
    data, levels = np.full((len(rows), len(_ADULT)), np.nan), {}
    for k, name in enumerate(_ADULT):
        cells = [row[k] for row in rows]
        if name in _ADULT_NUMBERS:
            data[:, k] = [float(cell) for cell in cells]
            continue
        levels[name] = tuple(sorted(set(cells) - {"?"}))
        number = {level: float(place) for place, level in enumerate(levels[name])}
        data[:, k] = [number.get(cell, np.nan) for cell in cells]
    return known.dataset(data, _ADULT, levels=levels)


def load_grid11(data_dir: Folder = None) -> Dataset:
    """8,760 hours by 11 buses: voltage magnitudes per unit on a medium-voltage feeder. A reconstruction."""
    return _grid("grid11", "voltages.csv", data_dir)


def load_grid115(data_dir: Folder = None) -> Dataset:
    """8,760 hours by 115 buses: voltage magnitudes per unit on a village grid. A reconstruction."""
    return _grid("grid115", "voltages.csv", data_dir)


def load_grid8(data_dir: Folder = None, *, variant: Literal["fixed", "solar"] = "fixed") -> Dataset:
    """8,760 hours by the 7 buses that move: one power factor per bus, or random ones with solar power."""
    files = {"fixed": "voltages_fixpf.csv", "solar": "voltages_randpf_solar.csv"}
    if variant not in files:
        raise DataError(f"variant must be 'fixed' or 'solar', got {variant!r}.")
    return _grid("grid8", files[variant], data_dir, slack="bus1")


def load_home_loads(data_dir: Folder = None) -> Dataset:
    """8,760 hours by 15 homes, kWh: what drives the two reconstructed grids."""
    known = entry("home-loads")
    table = read_table(known, "homes_hourly_kwh.csv", data_dir)
    return known.dataset(numbers(table, table.column_names), table.column_names)


def _grid(name: str, voltages: str, data_dir: Folder, slack: str | None = None) -> Dataset:
    known = entry(name)
    table = read_table(known, voltages, data_dir)
    lines = read_table(known, "edges.csv", data_dir)
    columns = [bus for bus in table.column_names if bus != slack]
    truth = _pairs(strings(lines, "from"), strings(lines, "to"))
    return known.dataset(numbers(table, columns), columns, frozenset(line for line in truth if slack not in line))


def _pairs(first: list[str], second: list[str]) -> Edges:
    """Unordered pairs of names from two parallel lists; a name joined to itself is no edge."""
    return frozenset(frozenset((a, b)) for a, b in zip(first, second, strict=True) if a != b)


ROWS = 20_000
_VARIABLE = re.compile(r"variable\s+(\S+)\s*\{[^{}]*\{([^{}]*)\}")
_TABLE = re.compile(r"probability\s*\(\s*([^()|]+?)\s*(?:\|\s*([^()]+?)\s*)?\)\s*\{([^{}]*)\}")
_LINE = re.compile(r"(?:table|\(([^()]*)\))([^;]*);")


@dataclass(frozen=True, eq=False)
class Network:
    """Variables in the file's order: their levels, their parents, and a table with one axis for each parent and a last
    one for the variable's own levels."""

    levels: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, FloatArray]

    @property
    def moral(self) -> Edges:
        """Every variable joined to its parents, and these to each other."""
        families = ([name, *parents] for name, parents in self.parents.items())
        return frozenset(frozenset(pair) for family in families for pair in combinations(family, 2))

    def draw(self, rows: int, seed: int) -> FloatArray:
        """Rows of level numbers, each variable drawn once its parents are."""
        rng = np.random.default_rng(seed)
        drawn: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        while len(drawn) < len(self.levels):
            for name in self.levels:
                if name not in drawn and all(parent in drawn for parent in self.parents[name]):
                    chances = self.tables[name][tuple(drawn[parent] for parent in self.parents[name])]
                    steps = np.cumsum(np.broadcast_to(chances, (rows, len(self.levels[name]))), axis=1)
                    drawn[name] = np.sum(rng.random((rows, 1)) * steps[:, -1:] >= steps[:, :-1], axis=1)
        return np.column_stack([drawn[name] for name in self.levels]).astype(np.float64)


def parse(text: str) -> Network:
    """A network in the interchange format (.bif)."""
    levels = {name: _words(listed) for name, listed in _VARIABLE.findall(text)}
    parents, tables = {}, {}
    for name, given, body in _TABLE.findall(text):
        parents[name] = _words(given)
        table = np.zeros([len(levels[one]) for one in (*parents[name], name)])
        for configuration, shares in _LINE.findall(body):
            at = tuple(levels[p].index(level) for p, level in zip(parents[name], _words(configuration), strict=True))
            table[at] = [float(share) for share in _words(shares)]
        tables[name] = table
    return Network(levels, parents, tables)


def _words(listed: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in listed.split(",") if word.strip())


def load_asia(data_dir: str | Path | None = None, *, rows: int = ROWS, seed: int = 0) -> Dataset:
    """A chest clinic: 8 yes or no columns; `rows` of them drawn with `seed`."""
    return _drawn("asia", data_dir, rows, seed)


def load_child(data_dir: str | Path | None = None, *, rows: int = ROWS, seed: int = 0) -> Dataset:
    """Newborn children with heart disease: 20 columns of 2 to 6 levels; `rows` of them drawn with `seed`."""
    return _drawn("child", data_dir, rows, seed)


def load_insurance(data_dir: str | Path | None = None, *, rows: int = ROWS, seed: int = 0) -> Dataset:
    """Car insurance: 27 columns of 2 to 5 levels; `rows` of them drawn with `seed`."""
    return _drawn("insurance", data_dir, rows, seed)


def _drawn(name: str, data_dir: str | Path | None, rows: int, seed: int) -> Dataset:
    if rows < 1:
        raise DataError(f"rows must be at least 1, got {rows}.")
    known = entry(name)
    network = parse(contents(known, f"{name}.bif", data_dir).decode("utf-8"))
    columns: Sequence[str] = tuple(network.levels)
    return known.dataset(network.draw(rows, seed), columns, truth=network.moral, levels=network.levels)
