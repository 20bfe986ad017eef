"""How many rounds and stages there are and what each spends follow from released numbers, and from nothing else."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.moments import moment_rows
from hazeglass.errors import BundleError

from .forgery import reseal, restate_noise, write_part

PLANS = {
    "moments": {},
    "linear": {"scale": "linear"},
    "curved": {"dependence": "curved"},
    "entries": {"protects": "entry"},
    "missing": {"budget": {"mu": 5.0}},
    "missing entries": {"protects": "entry", "budget": {"mu": 5.0}},
    "one stage": {"adaptive": False},
    "private radius": {"clip_radius": "private"},
    "persons": {"protects": "person", "id_column": "id", "max_rows": 2},
    "few rows": {"budget": {"mu": 0.05}},
}


@pytest.fixture
def publish(make_plan, tmp_path):
    def made(name):
        rng = np.random.default_rng(4)
        values = rng.standard_normal((900, 1)) + 0.3 * rng.standard_normal((900, 3))
        if "missing" in name:
            values[rng.random(900) < 0.3, :2] = np.nan
        rows = pa.table({**dict(zip("abc", values.T, strict=True)), "id": np.arange(900)})
        return hg.publish(rows, make_plan(**PLANS[name]), tmp_path / "r", simulate_seed=2)

    return made


def kept(path, keep):
    """The part with some of its rows."""
    part = pq.read_table(path).to_pylist()
    write_part(pa.Table.from_pylist([row for row in part if keep(row)], pq.read_table(path).schema), path)


@pytest.mark.parametrize("name", PLANS)
def test_honest_shares_are_accepted(publish, name):
    release = publish(name)
    assert hg.load(reseal(release.path)).manifest == release.manifest


@pytest.mark.parametrize("name", ["moments", "linear", "curved", "entries"])
@pytest.mark.parametrize("factor", [0.9, 0.01])
def test_a_stage_that_spends_another_share_is_refused(publish, name, factor):
    """The promise is kept, with room; but whoever chose the share may have looked at the rows."""
    release = publish(name)

    def cheaper(document):
        document["stages"][-1]["mu"] *= factor
        document["stages"][-1]["tau"] /= factor

    restate_noise(release.path, cheaper)
    with pytest.raises(BundleError, match=r"shares of mu|radii"):
        hg.load(reseal(release.path, cheaper))


def test_a_stage_whose_noise_fits_no_lattice_is_refused(publish):
    release = publish("moments")

    def vast(document):
        document["stages"][-1]["mu"] *= 1e-200
        document["stages"][-1]["tau"] *= 1e200

    with pytest.raises(BundleError, match="do not fit the 64-bit sums"):
        hg.load(reseal(release.path, vast))


@pytest.mark.parametrize("name", ["moments", "one stage", "persons"])
def test_a_mean_that_weighs_less_is_refused(publish, name):
    """Its noise and that of all else is made to fit: the promise is kept, and a free number may tell of rows."""
    release = publish(name)
    stage = release.manifest.stages[-1]
    squares = [stage.radius**2 + (factor * stage.mean_weight) ** 2 for factor in (1.0, 0.9)]
    less = squares[1] / squares[0]

    def lighter(document):
        document["stages"][-1]["tau"] *= less
        document["stages"][-1]["mean_weight"] *= 0.9

    restate_noise(release.path, lighter)
    with pytest.raises(BundleError, match="weights that do not follow"):
        hg.load(reseal(release.path, lighter))


def test_a_stage_that_is_left_out_is_missed(publish):
    release = publish("moments")
    last = len(release.manifest.stages)
    kept(release.path / "moments.parquet", lambda row: row["stage"] < last)
    assert pq.read_table(release.path / "moments.parquet").num_rows == (last - 1) * moment_rows(3)
    with pytest.raises(BundleError, match="a number of stages that does not follow"):
        hg.load(reseal(release.path, lambda document: document["stages"].pop()))


def test_a_round_that_is_left_out_is_missed(publish):
    release = publish("entries")
    last = len(release.manifest.rounds)
    kept(release.path / "marginals.parquet", lambda row: row["round"] < last)
    with pytest.raises(BundleError, match="a number of rounds that its counts do not ask for"):
        hg.load(reseal(release.path, lambda document: document["rounds"].pop()))
