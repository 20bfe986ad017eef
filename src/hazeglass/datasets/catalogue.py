"""What a data set is, and what is known of each before a byte of it is read: files, hashes, terms, where it comes from.

A hash is the SHA-256 of a file's contents after decompression, so `x.csv` and `x.csv.gz` are the same file here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hazeglass.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Edges = frozenset[frozenset[str]]
FloatArray = npt.NDArray[np.float64]
# Buildings 12 and 15 read zero in half of their hours and were left out.
HOMES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16, 17)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, names, and the true graph where there is one.

    data         array of shape (rows, columns), as measured
    columns      their names
    truth        the true edges as unordered pairs of names, or None
    kind         'continuous' or 'integer'
    name         what `hazeglass datasets` calls it
    note         what a reader must know before trusting a result on it
    scaling      what the paper does to the rows first: 'none' or 'z-score'
    truths       every candidate for the truth, by name, where there are several or where each is a guess
    column_info  more about the columns (a region, a party, genres): one value per column
    row_info     more about the rows (a date, a pH): one value per row
    """

    data: FloatArray
    columns: tuple[str, ...]
    truth: Edges | None
    kind: Literal["continuous", "integer"]
    licence: str
    source: str
    name: str = field(default="", kw_only=True)
    note: str = field(default="", kw_only=True)
    scaling: Literal["none", "z-score"] = field(default="none", kw_only=True)
    truths: Mapping[str, Edges] = field(default_factory=dict, kw_only=True)
    column_info: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)
    row_info: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        edges = "no known graph" if self.truth is None else f"{len(self.truth)} true edges"
        rows, columns = self.data.shape
        size = f"{rows:,} rows x {columns} {self.kind} columns"
        return f"{type(self).__name__}({self.name or 'made up'}: {size}, {edges})"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table with named columns."""
        import pyarrow as pa

        return pa.table({name: self.data[:, k] for k, name in enumerate(self.columns)})

    def scaled(self) -> FloatArray:
        """The rows as the paper uses them: z-scored by column (dividing by n), or as they are."""
        if self.scaling == "none":
            return self.data.copy()
        return np.asarray((self.data - self.data.mean(axis=0)) / self.data.std(axis=0))

    def truth_matrix(self, which: str | None = None) -> npt.NDArray[np.bool_]:
        """The true graph as a symmetric matrix in the order of the columns; `which` names one of `truths`."""
        edges = self.truth if which is None else self._named_truth(which)
        if edges is None:
            known = f" It has these guesses: {', '.join(self.truths)}." if self.truths else ""
            raise DataError(f"{self.name or 'this data set'} has no true graph.{known}")
        place = {name: k for k, name in enumerate(self.columns)}
        matrix = np.zeros((len(place), len(place)), dtype=np.bool_)
        for a, b in edges:
            matrix[place[a], place[b]] = matrix[place[b], place[a]] = True
        return matrix

    def _named_truth(self, which: str) -> Edges:
        if which not in self.truths:
            raise DataError(f"the truth must be one of {', '.join(self.truths) or '(none)'}, got {which!r}.")
        return self.truths[which]


@dataclass(frozen=True)
class Entry:
    """One data set.

    folder   where its files lie inside the data folder
    files    name of each file the loader needs, with the SHA-256 of its contents
    extra    further files it reads where they are there or where asked to
    rows, columns   shape of what the loader returns by default
    truth    the true graph, in words
    scaling  what the paper does to the rows first
    as_fetched  a second hash, where what the source serves has more digits than the files results refer to
    addresses  where `fetch` may get it for the user; none where the terms or the form of the source do not allow it
    obtain   how else to come by it
    """

    name: str
    folder: str
    files: Mapping[str, str]
    rows: int
    columns: int
    kind: Literal["continuous", "integer"]
    truth: str
    licence: str
    source: str
    extra: Mapping[str, str] = field(default_factory=dict)
    as_fetched: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    obtain: str = ""
    note: str = ""
    scaling: Literal["none", "z-score"] = "none"

    def expected(self, name: str) -> str:
        """SHA-256 of the contents of the file `name`."""
        return {**self.files, **self.extra}[name]

    def knows(self, name: str, digest: str) -> bool:
        """Whether contents with this SHA-256 are those of the file `name`."""
        return digest in (self.expected(name), self.as_fetched.get(name))

    def dataset(self, data: FloatArray, columns: Sequence[str], truth: Edges | None = None, **more: Any) -> Dataset:
        """The rows together with what this entry knows; `more` are the further fields of Dataset."""
        return Dataset(
            data=data,
            columns=tuple(columns),
            truth=truth,
            kind=self.kind,
            licence=self.licence,
            source=self.source,
            name=self.name,
            note=self.note,
            scaling=self.scaling,
            **more,
        )


def entry(name: str) -> Entry:
    """The entry called `name`."""
    if name not in CATALOGUE:
        raise DataError(f"a data set must be one of {', '.join(CATALOGUE)}, got {name!r}.")
    return CATALOGUE[name]


_ENTRIES = (
    Entry(
        name="cell-signalling",
        folder="sachs",
        files={"sachs.csv": "a03396a1144661a4681b7997456a544ea780a336e3fb9361c39ddb1ed158d70e"},
        rows=7466,
        columns=11,
        kind="continuous",
        scaling="z-score",
        truth="17 edges (also 18, 19)",
        licence="MIT (the copy in the Causal Discovery Toolbox)",
        source="Sachs et al., Science 308 (2005), as in the Python package cdt 0.6.0",
        addresses=(
            "https://raw.githubusercontent.com/FenTechSolutions/CausalDiscoveryToolbox/"
            "4aa0d0df0d9cb252c2dbdd247b2a9c810e5dfeeb/cdt/data/resources/cyto_full_data.csv",
        ),
        note="Which of the three published graphs the paper took for the truth is not known.",
    ),
    Entry(
        name="lawmakers",
        folder="les",
        files={
            "les_matrix_10x73_icpsr.csv": "fafde0c8a53fc9d09e4b5e12e00e0331d3762bf98182a8d8363ad160a0407775",
            "members_73.csv": "e637153069e6199136f8ffd3410a9d83f671935896411fb86e14c17e716eab92",
        },
        extra={
            "les_matrix_10x76_name.csv": "268abb48675d0ef267aaecdf21471e00a2dcdfd636adf63c2a0adfdea6ba3157",
        },
        rows=10,
        columns=73,
        kind="continuous",
        scaling="z-score",
        truth="none",
        licence="free for research with citation (Center for Effective Lawmaking)",
        source="Volden and Wiseman, Legislative Effectiveness Scores, U.S. House, 93rd-102nd Congress",
        obtain="The scores are at https://thelawmakers.org/data-download; its current files are later revisions, "
        "so these need the 93rd-110th edition.",
        note="Ten rows: the covariance has rank 9.",
    ),
    Entry(
        name="chickenpox",
        folder="chickenpox",
        files={
            "hungary_chickenpox.csv": "bd1b802f1059b9b0f0d2c29d6171bc2f302994f81a92d7c7bb25191f76dc4a23",
            "hungary_county_edges.csv": "0061c603b935f3722b7c621e545a30f9129b0c0c619bd4bd30e62a7975c8d609",
        },
        rows=522,
        columns=20,
        kind="integer",
        truth="41 pairs of neighbouring counties",
        licence="CC BY 4.0",
        source="Rozemberczki et al. 2021, UCI Machine Learning Repository, data set 580",
        addresses=("https://archive.ics.uci.edu/static/public/580/hungarian+chickenpox+cases.zip",),
    ),
    Entry(
        name="soil",
        folder="soil",
        files={
            "soil_116.csv": "451e7d995180f64a924cbf7344864fc012edd259cf24ec51aa3919c23e477130",
            "ph.csv": "be7fce45e87d6f755f90b350e262a7cec07308ba485fd4e303b4d6200346baa7",
        },
        extra={
            "taxonomy_116.csv": "540a4a73cd1bf77e9661b4cbfcb1f550dcdc43b03b1a4066683473641f4f078f",
        },
        rows=89,
        columns=116,
        kind="integer",
        truth="none",
        licence="MIT (the copy in GGLasso)",
        source="Lauber et al. 2009, Qiita study 103, as in github.com/fabian-sp/GGLasso",
        addresses=(
            "https://raw.githubusercontent.com/fabian-sp/GGLasso/master/data/soil/processed/soil_116.csv",
            "https://raw.githubusercontent.com/fabian-sp/GGLasso/master/data/soil/processed/ph.csv",
        ),
        note="The numbers are counts plus 1, as the paper uses them.",
    ),
    Entry(
        name="movielens",
        folder="movielens",
        files={
            "ratings.csv": "c205d28a3d4bafac7fc8bf3ba7d3e8e8333dd56ecc71e829a96245ba8c898ccb",
            "movies.csv": "f32cc1ee5daac3a8bc4e49825845da458bcfcd72272562c109c70476cfe6a727",
        },
        rows=6040,
        columns=55,
        kind="integer",
        truth="none; sharing a genre is a guess",
        licence="GroupLens: research only, no redistribution, no commercial use without permission",
        source="MovieLens 1M, GroupLens Research, University of Minnesota",
        addresses=("https://files.grouplens.org/datasets/movielens/ml-1m.zip",),
        note="The paper names neither its movies nor its truth; the 55 most-rated come closest to its epsilon.",
    ),
    Entry(
        name="fmri",
        folder="fmri",
        files={
            "abide_ho_control01.csv": "5609feb2b1e74eba180cafaea4b4875cbe744bb76808540fee2821ba62d63f06",
            "msdl39_nearest_columns.csv": "ce31bcec95d83147db038a5c0bf7af740073fc84c401423ac09b4c199f2a73b2",
        },
        extra={
            "abide_ho_control02.csv": "e6751bf0b1e3cb6a99d3181ceaa926187f36ff29a2137a5e3b774af88f76dd37",
            "abide_ho_control03.csv": "dbef7a172b5bfffa97cde68453446b543c01cd9c5a3212ca9b6a589792cb2c2f",
            "abide_ho_control04.csv": "aa76ff94904b59470fadbb141b2922ef2f14ecf5a5875838c27293580bf1f48f",
            "abide_ho_control05.csv": "b0489add6949fd252497bed6fa5f2764edddd40924e62a0b727db2e3b3171352",
        },
        rows=176,
        columns=39,
        kind="continuous",
        scaling="z-score",
        truth="none",
        licence="CC BY-NC-SA 3.0 (ABIDE): no commercial use",
        source="ABIDE, Preprocessed Connectomes Project, Harvard-Oxford atlas",
        obtain="The series of five ABIDE controls come from https://preprocessed-connectomes-project.org/abide; the "
        "copy used here states no licence of its own, so it is not fetched for you.",
        note="A substitute: real series, but not the paper's MSDL atlas; the 39 columns are those nearest to it.",
    ),
    Entry(
        name="grid11",
        folder="grid11",
        files={
            "voltages.csv": "b241f4e8ffb8742a6829a5bb72addd52affd3c3ce3d7f8290ce8ae973b10e75d",
            "edges.csv": "0773e4ce860f61e1d8f0295c0b7c5cdc86c7bfc46445206b1aa3a40e9f3de0e5",
        },
        rows=8760,
        columns=11,
        kind="continuous",
        scaling="z-score",
        truth="10 lines",
        licence="made by hazeglass from BSD-3 (pandapower) and MIT (CityLearn) sources",
        source="CIGRE medium-voltage feeder 1 of pandapower, driven by the home loads",
        obtain="Or make it again with hazeglass_experiments.grids.make_grid11(), from the home loads and "
        "hazeglass[grid].",
        note="A reconstruction: the paper's voltages are not public.",
    ),
    Entry(
        name="grid115",
        folder="grid115",
        files={
            "voltages.csv": "ad9f04839ade51c97aeff75d649ff72992bef1e18b6c391aa715933e72107959",
            "edges.csv": "72909cb3a8f30b1d57c8c93de74c7e0d7e43238b9ccadaee3001c21ea67e46b9",
        },
        rows=8760,
        columns=115,
        kind="continuous",
        scaling="z-score",
        truth="114 lines",
        licence="made by hazeglass from BSD-3 (pandapower) and MIT (CityLearn) sources",
        source="Kerber village grid of pandapower, driven by the home loads",
        obtain="Or make it again with hazeglass_experiments.grids.make_grid115(), from the home loads and "
        "hazeglass[grid].",
        note="A reconstruction: the paper's voltages are not public. The covariance is nearly singular.",
    ),
    Entry(
        name="grid8",
        folder="grid8_stanford",
        files={
            "voltages_fixpf.csv": "8a5c8dd04fc111a153c359a6167b46b0bc85bc2b31b2c92def8b02921acfa1be",
            "edges.csv": "593320255c78049c39fb0e93f314a07679b2809dee85648681289f4644b492ec",
        },
        extra={
            "voltages_randpf_solar.csv": "67716de3f2fd3db2701782a0b68398ecd7949e9bfbf1290935e26e4490c94db4",
        },
        rows=8760,
        columns=7,
        kind="continuous",
        scaling="z-score",
        truth="6 lines",
        licence="none stated (fixed power factor); MIT-style (with solar)",
        source="github.com/speckhard/matlab_grid_estimation and python_grid_est (Stanford Sustainable Systems Lab)",
        obtain="The voltages are in Node8_fixPF.mat and Node8_randPF_solar.mat of those two repositories.",
        note="Not in the paper. The slack bus, which never moves, is left out.",
    ),
    Entry(
        name="home-loads",
        folder="home_loads",
        files={"homes_hourly_kwh.csv": "ce90de0a451c25271c23d7e6ef9f5c20d0066e60cba01adbbca80e807345691d"},
        as_fetched={"homes_hourly_kwh.csv": "4a3a6af65d0aa3b5537481fdb896d5e95fa3a409170154e5330d14f968bc2438"},
        rows=8760,
        columns=15,
        kind="continuous",
        truth="none",
        licence="MIT (CityLearn)",
        source="CityLearn 2.1.2, challenge 2022: 15 homes in Fontana, California",
        addresses=tuple(
            "https://raw.githubusercontent.com/intelligent-environments-lab/CityLearn/v2.1.2/citylearn/data/"
            f"citylearn_challenge_2022_phase_all/Building_{home}.csv"
            for home in HOMES
        ),
        note="Not in the paper: what drives the two reconstructed grids.",
    ),
)

CATALOGUE: Mapping[str, Entry] = {one.name: one for one in _ENTRIES}
