"""No rows make a release fail, and what every pass draws again stays between the publisher and the rows."""

import pickle
import warnings

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.publisher.moments import publish_moments
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.rows import Rows
from simulate import simulate

N = 2000
x = np.random.default_rng(3).normal(size=N)
none, still = np.full(N, np.nan), np.zeros(N)
ROWS = {
    "one value in every cell": (still, still, still),
    "a column that follows another": (x, (x > 0) * 1.0, still),
    "columns twice": (x, x, still),
    "no number at all": (none, none, none),
    "one number": (np.append(none[1:], 1.0), none, x),
    "numbers far out": (x * 1e300, np.where(x > 0, np.inf, -np.inf), x),
    "two values": ((x > 0) * 1.0, (x > 1.5) * 1.0, (x > -1.5) * 1.0),
}


def plan(kind="continuous", **other):
    ends = {"lower": -8.0, "upper": 8.0, **other.pop("ends", {})}
    columns = [hg.Column(f"x{k}", kind, **ends) for k in (1, 2, 3)]
    return hg.Plan(**{"title": "Any", "form": "synthetic", "mu": 1.0, "delta": 1e-6, "columns": columns, **other})


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("mu", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_no_rows_make_a_release_fail(rows, mu, scale):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = simulate(np.column_stack(ROWS[rows]), plan(mu=mu, scale=scale), 1)
    assert sum(part.num_rows for name, part in release.tables.items() if name.startswith("data/")) == N


@pytest.mark.parametrize("upper", [1, 2.0**40, 1e19, 1e90])
@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_whole_numbers_may_have_any_bounds(upper, scale):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = plan("integer", ends={"lower": 0, "upper": upper}, scale=scale)
        simulate(np.abs(np.rint(np.column_stack([x, 2 * x, 3 * x]))), made, 1)


@pytest.mark.parametrize("form", ["table", "moments"])
@pytest.mark.parametrize("engine", ["serial", "threads"])
@pytest.mark.parametrize("numpy", ["warn", "raise"])
def test_nothing_is_said_of_a_nan_that_signals_or_a_number_too_small(form, engine, numpy, tmp_path, capfd):
    """The first is what R writes for a missing number; what the caller asked NumPy to say of either is not said."""
    cells = np.abs(np.column_stack([x, x, x]))
    cells[4], cells[5] = np.array([0x7FF0_0000_0000_07A2]).view(np.float64), 1e-310
    columns = [hg.Column(f"x{k + 1}", "continuous", 0, 8, t) for k, t in enumerate(["log1p", "sqrt", "asinh"])]
    with warnings.catch_warnings(), np.errstate(all=numpy):
        warnings.simplefilter("error")
        hg.publish(cells, plan(columns=columns, form=form), tmp_path / "out", engine=engine)
    assert capfd.readouterr() == ("", "")


class Scheduler(Serial):
    """Keeps what a cluster's scheduler would see: the function, and the blocks that are public."""

    remote = True

    def __init__(self):
        self.seen, self.shown = [], []

    def map(self, function, blocks):
        sent = pickle.dumps(function)
        self.seen.append(sent)
        self.shown.append(repr(function))
        for block in blocks:
            self.shown.append(repr(block))
            if block.public:
                self.seen.append(pickle.dumps(block))
            yield pickle.loads(sent)(block)


def test_the_key_of_the_draws_goes_straight_to_the_rows():
    made, bits = plan("integer", form="moments"), SeededBits(5)
    cells = np.rint(np.column_stack([x, 2 * x, 3 * x]))
    scheduler = Scheduler()
    sent = publish_moments(Rows(made, open_table(cells)), made, scheduler, bits)
    assert len(scheduler.seen) > 3  # counts, and stages after them
    assert not [part for part in scheduler.seen if bits.key() in part]
    assert not [part for part in scheduler.shown if repr(bits.key())[2:20] in part]
    here = publish_moments(Rows(made, open_table(cells)), made, Serial(), SeededBits(5))
    assert np.array_equal(sent.stages[-1].second, here.stages[-1].second)
