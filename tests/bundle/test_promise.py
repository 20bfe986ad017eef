"""A manifest with recomputed hashes cannot claim more than its stated noise gives."""

import math
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.bundle.contents import check_spread
from hazeglass.bundle.promise import check_manifest
from hazeglass.bundle.transport import parse_checksums, read_checksums
from hazeglass.errors import BundleError
from hazeglass.guarantee.gdp import GaussianDP, explain
from hazeglass.guarantee.lattice import DiscreteGaussian, RoundedGaussian, delta_slack, total_variation
from hazeglass.guarantee.units import Unit

from .forgery import reseal, write_part

FORMS = {
    "moments": {},
    "one stage": {"adaptive": False},
    "curved": {"dependence": "curved"},
    "private radius": {"clip_radius": "private"},
    "entries": {"protects": "entry"},
    "readings": {"protects": "readings", "readings": 4},
    "linear": {"scale": "linear"},
    "entries in one stage": {"protects": "entry", "adaptive": False},
    "synthetic": {"form": "synthetic"},
    "table": {"form": "table"},
    "clipped table": {"form": "table", "clip_radius": 1.0},
    "table of entries": {"form": "table", "protects": "entry"},
    "table of columns": {"form": "table", "protects": "column"},
}


def claim(mu):
    """Set mu and everything that follows from it, as a careful forger would."""

    def change(document):
        words = explain(GaussianDP(mu), Unit("record"), document["delta"])
        ratio = (1 + math.exp(min(words.epsilon, 600))) / (1 + math.exp(min(document["epsilon"], 600)))
        document.update(mu=mu, epsilon=words.epsilon, delta_slack=document["delta_slack"] * ratio)
        document["epsilon_delta_curve"] = [{"epsilon": e, "delta": d} for e, d in words.curve]
        document["attack_odds"] = [
            {"false_positive_rate": o.false_positive_rate, "true_positive_rate": o.true_positive_rate}
            for o in words.odds
        ]

    return change


@pytest.mark.parametrize("name", FORMS)
def test_a_careful_claim_of_a_smaller_mu_is_refused_in_every_form(make_plan, table, tmp_path, name):
    release = hg.publish(table, make_plan(**FORMS[name]), tmp_path / "r")
    reseal(release.path, claim(release.manifest.mu))
    assert hg.load(release.path).manifest == release.manifest
    reseal(release.path, claim(0.99 * release.manifest.mu))
    with pytest.raises(BundleError, match="the noise it describes only gives mu"):
        hg.load(release.path)


def larger_unit(document, counted=False):
    """The same noise for persons of nine rows, as a forger would have it."""
    document["unit"].update(name="person", max_rows=9)
    document["persons"] = 500
    for stage in document["stages"]:
        stage["count_weight"] = 0.0 if counted else stage["radius"] ** 2 / 2


CHANGES = {
    "a larger unit": (lambda d: larger_unit(d), "whose noise gives"),
    "a person whose rows are counted": (lambda d: larger_unit(d, counted=True), "does not protect the number of rows"),
    "a person without a number of them": (lambda d: d["unit"].update(name="person"), "state the number of persons"),
    "another number of rows": (lambda d: d.update(n=d["n"] + 1), "another number of rows"),
    "a stage of fewer rows": (lambda d: d["stages"][0].update(rows=7), "another number of rows"),
    "an order of moments": (lambda d: d.update(order="kept"), "the order of a table"),
    "a unit that counts another": (lambda d: d["unit"].update(max_rows=9), "counts another unit"),
    "less noise in a stage": (lambda d: d["stages"][1].update(tau=d["stages"][1]["tau"] / 2), "whose noise gives"),
    "a stage that costs less": (lambda d: d["stages"][1].update(mu=0.01), "whose noise gives"),
    "rows that are not clipped": (lambda d: d["stages"][1].update(clipped=False), "no plan leads to"),
    "a stage too short": (lambda d: d["stages"][0]["centre"].pop(), "no plan leads to"),
    "no stage": (lambda d: d.update(stages=[]), "must state the stages"),
    "one row": (lambda d: d.update(n=1), "not a valid manifest"),
    "a curve of another promise": (lambda d: d["epsilon_delta_curve"][2].update(epsilon=0.1), "Do not rely on it"),
    "odds of another promise": (lambda d: d["attack_odds"][0].update(true_positive_rate=0.001), "attack odds"),
    "no odds": (lambda d: d.update(attack_odds=[]), "attack odds"),
    "odds at one rate": (lambda d: d["attack_odds"].__delitem__(slice(1, None)), "attack odds"),
    "odds at rates that look better": (
        lambda d: d.update(attack_odds=[{"false_positive_rate": 0.0, "true_positive_rate": 0.0}] * 3),
        "attack odds",
    ),
    "odds twice": (lambda d: d.update(attack_odds=2 * d["attack_odds"]), "attack odds"),
    "no curve": (lambda d: d.update(epsilon_delta_curve=[]), "a curve of epsilons"),
    "a short curve": (lambda d: d["epsilon_delta_curve"].pop(), "a curve of epsilons"),
    "a curve at deltas that look better": (
        lambda d: d.update(epsilon_delta_curve=[{"epsilon": 0.0, "delta": 0.99}] * 9),
        "a curve of epsilons",
    ),
    "the last epsilon of a curve at next to no delta": (
        lambda d: d["epsilon_delta_curve"][-1].update(delta=1e-300),
        "a curve of epsilons",
    ),
    "a delta at which nothing is promised": (lambda d: d.update(delta=0.99, epsilon=0.0), "is the most that says"),
    "an epsilon of another delta": (lambda d: d.update(delta=1e-5), "states epsilon that mu"),
    "a charge in a ledger of no name": (
        lambda d: d.update(ledger={"dataset": "rows\nepsilon: 0.001", "event": 2, "digest": "0" * 64}),
        "a charge that no ledger can hold",
    ),
    "a charge of a simulation": (
        lambda d: d.update(ledger={"dataset": "rows", "event": 2, "digest": "0" * 64}, simulation=True),
        "a charge that no ledger can hold",
    ),
    "bounds the wrong way round": (lambda d: d["columns"][0].update(lower=9.0), "lower must be below upper"),
    "a logarithm of nothing": (lambda d: d["columns"][0].update(transform="log"), "no plan can have: column 'a'"),
    "bounds beyond all measure": (lambda d: d["columns"][0].update(upper=1e200), "bounds must lie within"),
    "half an integer": (lambda d: d["columns"][0].update(kind="integer", upper=4.5), "must be whole"),
    "a part twice": (lambda d: d["files"].append(d["files"][0]), "lists a file twice"),
    "a tiny mu": (lambda d: d.update(mu=1e-300), "Do not rely on it|no release can have"),
    "a message among the versions": (
        lambda d: d["versions"].update({"certified: epsilon 0.003 by": "1"}),
        "not a valid manifest: versions",
    ),
    "a message as a version": (
        lambda d: d["versions"].update(python="3.11 certified"),
        "not a valid manifest: versions",
    ),
    "software that vouches": (lambda d: d["versions"].update({"audited-by-nist": "2026"}), "names other software"),
    "a version that vouches": (
        lambda d: d["versions"].update(python="3.11.7-certified-epsilon-0.003"),
        "versions that are none",
    ),
    "a long name among the versions": (lambda d: d["versions"].update({"x" * 900: "1"}), "not a valid manifest"),
    "many versions": (lambda d: d["versions"].update({f"x{k}": "1" for k in range(9)}), "not a valid manifest"),
    "no version of hazeglass": (lambda d: d["versions"].pop("hazeglass"), "not a valid manifest: versions"),
    "a hazeglass of another format": (lambda d: d["versions"].update(hazeglass="0.1.9"), "writes another format"),
    "a message for a time": (lambda d: d.update(created="2026-01-01, certified"), "not a valid manifest: created"),
    "a time of no calendar": (lambda d: d.update(created="2026-02-30T00:00:00Z"), "that no calendar has"),
    "a line behind the time": (lambda d: d.update(created=d["created"] + "\n"), "not a valid manifest: created"),
    "a line behind the format": (lambda d: d.update(format_version="3.0\n"), "not a valid manifest: format_version"),
    "a line behind a hash": (
        lambda d: d["files"][0].update(sha256=d["files"][0]["sha256"] + "\n"),
        "not a valid manifest: files",
    ),
    "rows that are no integer": (lambda d: d.update(n=float(d["n"])), "not a valid manifest: n:"),
    "rows of a stage that are no integer": (
        lambda d: d["stages"][0].update(rows=float(d["n"])),
        "not a valid manifest: stages",
    ),
    "truth for a number": (lambda d: d["unit"].update(max_rows=True), "not a valid manifest: unit"),
    "an old version": (lambda d: d.update(format_version="0.9"), "no format version"),
    "no version": (lambda d: d.pop("format_version"), "no format version"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_claim_that_does_not_hang_together_is_refused(make_plan, table, tmp_path, name):
    change, message = CHANGES[name]
    release = hg.publish(table, make_plan(), tmp_path / "r")
    reseal(release.path, change)
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ({"protects": "entry"}, lambda d: (d["stages"][0], "box")),
        ({"form": "table", "protects": "entry"}, lambda d: (d["columns"][0]["cell_noise"], "step")),
    ],
)
def test_a_whole_number_may_be_spelled_as_an_integer(make_plan, table, tmp_path, form, place):
    columns = [{"name": name, "kind": "integer", "lower": -4, "upper": 4, "noise": "discrete"} for name in "abc"]
    plan = make_plan(**form, columns_as=columns if "form" in form else None)
    release = hg.publish(table, plan, tmp_path / "r")

    def spell(document):
        entry, key = place(document)
        entry[key] = int(entry[key])

    assert hg.load(reseal(release.path, spell)).manifest == release.manifest


def search(**change):
    return lambda document: document["radius_search"].update(change)


def without_its_last_answer(document):
    document["radius_search"]["answers"].pop()


def turned_answer(document):
    """The last answer tells the search to take the other of two radii."""
    last = document["radius_search"]["answers"][-1]
    last["rows"] = 0 if last["rows"] >= 0.95 * document["n"] else 2 * document["n"]


def farther_answer(document):
    """It leads to the same radius."""
    first = document["radius_search"]["answers"][0]
    first["rows"] = 10**9 if first["rows"] >= 0.95 * document["n"] else -(10**9)


SEARCHES = {
    "no answers": (search(answers=[]), "asks 6 questions; release.json states 0"),
    "an answer less": (without_its_last_answer, "asks 6 questions; release.json states 5"),
    "a radius nobody asked for": (search(radius=0.123456), "another clip radius than its search found"),
    "an answer that leads elsewhere": (turned_answer, "another clip radius|questions that no search"),
    "questions off the grid": (
        lambda d: d["radius_search"]["answers"][0].update(radius=0.5),
        "questions that no search",
    ),
    "a search that costs nothing": (search(mu=1e-9), "a search of another mu"),
    "a search that costs more": (search(mu=5.0), "a search of another mu"),
    "another quantile": (search(quantile=0.9500001), "another clip radius than its search found"),
    "an answer that no noise gives": (farther_answer, "no noise reaches"),
    "a perfect sampler": (search(total_variation=0.0), "closer to the ideal"),
    "a poor sampler": (search(total_variation=1e-20), "farther from the ideal"),
    "a stage of another radius": (
        lambda d: d["stages"][0].update(radius=1.0),
        "another clip radius|gives",
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_for_a_radius_is_replayed(make_plan, table, tmp_path, name):
    change, message = SEARCHES[name]
    release = hg.publish(table, make_plan(clip_radius="private"), tmp_path / "r")
    assert hg.load(reseal(release.path)).manifest == release.manifest
    reseal(release.path, change)
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize(
    "form",
    [
        {"form": "table", "row_counts": "public"},
        {"form": "moments"},
        {"form": "moments", "clip_radius": "private"},
        {"form": "synthetic"},
    ],
)
def test_persons_have_no_more_rows_than_they_may(make_plan, table, tmp_path, form):
    plan = make_plan(protects="person", id_column="id", max_rows=2, **form)
    rows = table.append_column("id", pa.array(np.arange(600) // 2))
    release = hg.publish(rows, plan, tmp_path / "r")
    assert release.manifest.persons == 300
    for persons, refused in ((300, False), (2, True)):
        reseal(release.path, lambda d, persons=persons: d.update(persons=persons))
        if refused:
            with pytest.raises(BundleError, match="more rows than its persons can have"):
                hg.load(release.path)
        else:
            assert hg.load(release.path).n == release.n


OTHER_FORMS = {
    "a radius of cells in moments": ("moments", {"clip_radius": 0.001}, "a moments release does not have"),
    "a note on synthetic rows in moments": (
        "moments",
        {"synthetic": {"seed": 7, "integers_rounded": True, "exact": False, "offset": 0}},
        "a moments release does not have",
    ),
    "synthetic rows without a note": ("synthetic", {"synthetic": None}, "a synthetic release does not have"),
    "a perfect sampler of moments": ("moments", {"delta_slack": 0.0}, "closer to the ideal"),
    "a perfect sampler of a table": ("table", {"delta_slack": 0.0}, "another sampler than its noise"),
    "a poor sampler of moments": ("moments", {"delta_slack": 1e-9}, "farther from the ideal than ours"),
    "a useless sampler of a table": ("table", {"delta_slack": 1e300}, "another sampler than its noise"),
    "a sampler of fewer draws": ("table", {"delta_slack": 1e-38}, "another sampler than its noise"),
    "a sampler that is a little better": ("table", lambda slack: 0.99 * slack, "another sampler than its noise"),
    "a sampler that is a little worse": ("table", lambda slack: 1.01 * slack, "another sampler than its noise"),
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_what_a_form_does_not_have_is_refused(make_plan, table, tmp_path, name):
    form, change, message = OTHER_FORMS[name]
    release = hg.publish(table, make_plan(form=form), tmp_path / "r")
    made = {"delta_slack": change(release.manifest.delta_slack)} if callable(change) else change
    reseal(release.path, lambda document: document.update(made))
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "holds NaN"),
        ('{"a": -Infinity}', "holds -Infinity"),
        ('{"a": 1e999}', "too large to be one"),
        ('{"a": 1' + "0" * 5000 + "}", "integer of 5001 digits"),
        ('{"a": 1, "a": 2}', "one key two values"),
        ("[" * 40 + "]" * 40, "nested more than 32 deep"),
        ('{"a":' * 10_000, "nested more than 32 deep"),
        ('{"a":' * 50_000, "more values than its columns and parts need"),
        ('{"a": "' + '\\"' * 1000, "not valid JSON"),
        ('{"a": "\\', "not valid JSON"),
        ('{"a": "' + "[" * 100 + '"}', "must describe a hazeglass-release"),
        ('{"a": "\\ud800', "not valid JSON"),
        ("\ufeff{}", "not valid JSON"),
    ],
)
def test_json_that_is_not_strict_gets_its_own_sentence(text, message):
    from hazeglass.bundle.verify import parse_manifest

    with pytest.raises(BundleError, match=message):
        parse_manifest(text.encode())


def test_moments_with_other_noise_or_numbers_are_refused(make_plan, table, tmp_path):
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    release = hg.publish(table, make_plan(), tmp_path / "r")
    part = release.path / "moments.parquet"
    honest = pq.read_table(part)
    for column, change, message in (
        ("noise_sd", lambda c: pc.multiply(c, 0.5), "other noise"),
        ("noise_sd", lambda c: pc.multiply(c, 1e306), "other noise"),
        ("value", lambda c: pc.multiply(c, 1e6), "too large for any noise"),
        ("value", lambda c: pc.divide(c, 0.0), "not a number"),
    ):
        index = honest.column_names.index(column)
        write_part(honest.set_column(index, column, change(honest[column])), part)
        reseal(release.path)
        with pytest.raises(BundleError, match=message):
            hg.load(release.path)


@pytest.mark.parametrize("change", ["negate", "four times", "no squares"])
def test_sums_that_rows_and_noise_cannot_make_are_refused(make_plan, table, tmp_path, change):
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rows = pa.concat_tables([table] * 20)
    release = hg.publish(rows, make_plan(adaptive=False, clip_radius=0.7, budget={"mu": 3.0}), tmp_path / "r")
    part = release.path / "moments.parquet"
    honest = pq.read_table(part)
    squares = pc.fill_null(pc.equal(honest["left"], honest["right"]), False)
    other = {
        "negate": pc.negate(honest["value"]),
        "four times": pc.multiply(honest["value"], 4.0),
        "no squares": pc.if_else(squares, 0.0, honest["value"]),
    }[change]
    write_part(honest.set_column(honest.column_names.index("value"), "value", other), part)
    reseal(release.path)
    with pytest.raises(BundleError, match="rows and noise cannot make"):
        hg.load(release.path)


@pytest.mark.parametrize("factor", [0.0, 1.9])
def test_counts_that_do_not_come_to_the_rows_are_refused(make_plan, table, tmp_path, factor):
    import pyarrow.parquet as pq

    release = hg.publish(pa.concat_tables([table] * 20), make_plan(budget={"mu": 2.0}), tmp_path / "r")
    part = release.path / "marginals.parquet"
    honest = pq.read_table(part)
    last = honest["round"].to_numpy() == honest["round"].to_numpy().max()
    counts = np.where(last, np.rint(factor * honest["count"].to_numpy()), honest["count"].to_numpy()).astype(np.int64)
    write_part(honest.set_column(honest.column_names.index("count"), "count", pa.array(counts)), part)
    reseal(release.path)
    with pytest.raises(BundleError, match="more or fewer rows than there are"):
        hg.load(release.path)


def test_cells_beyond_their_bounds_are_refused(make_plan, tmp_path):
    rows = pa.table({name: np.full(5000, 3.9) for name in "abc"})
    release = hg.publish(rows, make_plan(form="table", protects="entry", budget={"mu": 2.0}), tmp_path / "r")
    release.check_values()
    columns = tuple(replace(one, lower=-1.0, upper=1.0) for one in release.columns)
    with pytest.raises(BundleError, match="lies beyond its bounds and noise"):
        check_spread(columns, (block for name in release.parts for block in release.blocks(name)))


def clipped(make_plan, folder, p, radius, mu, n=2000):
    """A table of rows in the corners of their box, which is as far out as rows can lie before they are clipped."""
    names = [f"x{k}" for k in range(p)]
    columns = [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in names]
    corners = np.where(np.random.default_rng(p).random((n, p)) < 0.5, -4.0, 4.0)
    corners[: n // 2] = 4.0
    plan = make_plan(form="table", clip_radius=radius, budget={"mu": mu, "delta": 1e-6}, columns_as=columns)
    return hg.publish(pa.table(dict(zip(names, corners.T, strict=True))), plan, folder, weak_on_purpose=True)


@pytest.mark.parametrize(("p", "radius", "mu"), [(2, 0.3, 0.2), (3, 1.0, 5.0), (20, 1.5, 1.0), (40, 1, 40.0)])
def test_clipped_rows_lie_within_their_ball_and_noise(make_plan, tmp_path, p, radius, mu):
    for number in range(3):
        clipped(make_plan, tmp_path / str(number), p, radius, mu).check_values()


@pytest.mark.parametrize("rows", [1, 2000])
def test_rows_beyond_their_ball_and_noise_are_refused(make_plan, tmp_path, rows):
    """One far out, which no cell of it shows; or all of them a little, which no row shows."""
    import pyarrow.parquet as pq

    release = clipped(make_plan, tmp_path / "r", 40, 1.0, 40.0 if rows == 1 else 2.0)
    release.check_values()
    part = release.path / release.parts[0]
    honest, noise = pq.read_table(part), release.columns[0].cell_noise
    corner = round(release.columns[0].half_width / noise.step * (0.999 if rows == 1 else 0.5))
    moved = {name: honest[name].to_numpy().copy() for name in honest.column_names}
    for cells in moved.values():
        place = np.rint(cells[:rows] / noise.step) + corner * np.sign(cells[0] if rows == 1 else cells.mean())
        cells[:rows] = noise.step * place
    write_part(pa.table(moved, honest.schema), part)
    forged = hg.load(reseal(release.path))
    with pytest.raises(BundleError, match="rows that clipping and noise cannot make so long"):
        forged.check_values()
    with pytest.raises(BundleError, match="rows that clipping and noise cannot make so long"):
        forged.table()


@pytest.mark.parametrize("width", [1, 3])
def test_discrete_noise_is_charged_exactly(make_plan, tmp_path, width):
    """At these scales the discrete Gaussian costs per cents more than the Gaussian of the same scale."""
    columns = [{"name": "k", "kind": "integer", "lower": 0, "upper": width, "noise": "discrete"}]
    plan = make_plan(form="table", protects="entry", budget={"mu": 1.0, "delta": 1e-6}, columns_as=columns)
    release = hg.publish(pa.table({"k": np.arange(50) % (width + 1)}), plan, tmp_path / "r")
    noise = release.columns[0].cell_noise
    assert noise.family == "discrete-gaussian"
    assert width / noise.scale < 0.999
    reseal(release.path, claim(width / noise.scale))
    with pytest.raises(BundleError, match=r"the noise it describes only gives mu = (1|0\.99)"):
        hg.load(release.path)


@pytest.mark.parametrize(("columns", "apart"), [(1000, 0.0), (500, 0.01)])
def test_many_columns_of_discrete_noise_are_checked_in_a_moment(make_plan, tmp_path, columns, apart):
    plain = [{"name": "k", "kind": "integer", "lower": 0, "upper": 500, "noise": "discrete"}]
    plan = make_plan(form="table", protects="entry", columns_as=plain)
    release = hg.publish(pa.table({"k": np.arange(20)}), plan, tmp_path / "r")
    first, step = release.columns[0], release.columns[0].cell_noise.step
    scales = [first.cell_noise.scale + apart * i for i in range(columns)]
    noises = [replace(first.cell_noise, scale=scale, variance=(scale * step) ** 2) for scale in scales]
    many = tuple(replace(first, name=f"k{i}", cell_noise=noise) for i, noise in enumerate(noises))
    loss = 20 * sum(total_variation(DiscreteGaussian(scale)) for scale in scales)
    manifest = replace(release.manifest, columns=many, delta_slack=delta_slack(release.manifest.epsilon, loss))
    started = time.process_time()
    check_manifest(manifest, parse_checksums(read_checksums(release.path)))
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["columns"][0].update(kind="continuous"),
        lambda d: d["columns"][0].update(transform="sqrt"),
        lambda d: d.update(clip_radius=0.5),
    ],
)
def test_discrete_noise_is_refused_where_no_release_has_it(make_plan, tmp_path, change):
    columns = [{"name": "k", "kind": "integer", "lower": 0, "upper": 9, "noise": "discrete"}]
    plan = make_plan(form="table", columns_as=columns)
    release = hg.publish(pa.table({"k": np.arange(50) % 10}), plan, tmp_path / "r")
    reseal(release.path, change)
    with pytest.raises(BundleError, match="discrete noise is for integers"):
        hg.load(release.path)


def test_a_step_that_does_not_divide_the_range_is_counted_whole(make_plan, table, tmp_path):
    """A range of 0.6 steps either side of the middle reaches a whole step on each side, not six tenths of one."""
    release = hg.publish(table, make_plan(form="table", protects="entry"), tmp_path / "r")
    half = release.columns[0].half_width

    def coarse(document):
        for column in document["columns"]:
            step = half / 0.6
            column["cell_noise"].update(step=step, scale=2.0, variance=(4 + 1 / 12) * step**2)
        claim(0.65)(document)

    reseal(release.path, coarse)
    with pytest.raises(BundleError, match="only gives mu = 1 "):
        hg.load(release.path)


@pytest.mark.parametrize("budget", [{"mu": 1e-4}, {"epsilon": 500.0, "delta": 1e-6}, {"mu": 30.0}])
@pytest.mark.parametrize("name", FORMS)
def test_the_sampler_of_every_honest_release_is_accepted(make_plan, table, tmp_path, name, budget):
    hg.load(hg.publish(table, make_plan(budget=budget, **FORMS[name]), tmp_path / "r", weak_on_purpose=True).path)


def test_the_loss_of_our_worst_sampler_is_within_what_a_reader_accepts():
    from hazeglass.bundle.promise import _LEAST_LOSS_PER_DRAW, _MOST_LOSS_PER_DRAW

    losses = [total_variation(kind(2.0**k)) for kind in (RoundedGaussian, DiscreteGaussian) for k in range(-6, 58)]
    assert min(losses) > _LEAST_LOSS_PER_DRAW
    assert max(losses) < _MOST_LOSS_PER_DRAW / 2


def test_rows_in_time_are_of_no_single_period(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(rows="series", lags=1), tmp_path / "r")
    assert hg.load(reseal(release.path)).manifest == release.manifest
    with pytest.raises(BundleError, match="stacks rows of a table or of one period"):
        hg.load(reseal(release.path, lambda document: document.update(period={"column": "m", "value": "May"})))
