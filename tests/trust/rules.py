"""The rules of a release of moments, stated once more: what must be in it, by the plan and the noised numbers alone.

Nothing here sees a row. `follow` walks through a release and takes from it the noised numbers, one after the other, as
the rules ask for them: counts from marginals.parquet, moments and (for persons) numbers of rows. How many rounds and
stages there are, the leaves, scores, maps, centres, radii and shares follow; if the release asked otherwise, the
numbers do not last, or some are left over, or the files made of them are others.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hazeglass.bundle.columns import unit_step
from hazeglass.bundle.manifest import Manifest, RadiusSearch, Round, Stage, Standard
from hazeglass.bundle.moments import (
    MARGINAL_COLUMNS,
    MOMENT_COLUMNS,
    ReleasedMoments,
    marginals_to_arrow,
    moments_to_arrow,
    pooled_rows,
    schema_of,
)
from hazeglass.bundle.synthetic import rounding, synthetic_rows
from hazeglass.bundle.writer import BundleWriter
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import (
    Marginal,
    first_borders,
    marginals_of,
    needs_another_look,
    next_borders,
    often_missing,
)
from hazeglass.features.shaping import BOX, first_shape, largest_entry, next_shape
from hazeglass.guarantee.budget import BudgetFilter
from hazeglass.guarantee.lattice import RoundedGaussian, total_variation
from hazeglass.guarantee.units import bisect_radius, questions, radius_grid
from hazeglass.publisher.marginals import Encoder, count_noise, marginals_share, standard_of
from hazeglass.publisher.moments import NoisyMoments, add_noise, plain_stage, stage_of
from hazeglass.publisher.noise import SeededBits, draw
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.sums import answer_noise
from hazeglass.publisher.table import synthetic_batches, synthetic_schema

SEED = 20_25
Files = Mapping[str, bytes]


def manifest_of(files: Files) -> Manifest:
    return Manifest.from_json(json.loads(files["release.json"]))


class Bits(SeededBits):
    """The seed's words, from a known place on."""

    def __init__(self, position: int = 0) -> None:
        super().__init__(SEED)
        self._position = position

    @property
    def position(self) -> int:
        return self._position


class Numbers:
    """Noised numbers in the order in which they were written."""

    def __init__(self, files: Files, name: str, column: str) -> None:
        table = pq.read_table(pa.BufferReader(files[name]))
        self.name, self._left = name, table[column].to_numpy()

    def take(self, count: int) -> np.ndarray:
        assert count <= self._left.size, f"{self.name} holds fewer numbers than the rules ask for"
        found, self._left = self._left[:count], self._left[count:]
        return found

    def end(self) -> None:
        assert not self._left.size, f"{self.name} holds more numbers than the rules ask for"


@dataclass(frozen=True, eq=False)
class Counted:
    """A round: what was asked, with how much noise, drawn from which place of the seed's words, and the answer."""

    mu: float
    noise: RoundedGaussian
    borders: list[np.ndarray]
    place: int
    answer: np.ndarray


@dataclass(frozen=True, eq=False)
class Summed:
    """A stage: what was asked, and the answer."""

    encoder: Encoder
    place: int
    answer: NoisyMoments

    @property
    def stage(self) -> Stage:
        return self.answer.stage


@dataclass(eq=False)
class Followed:
    """Everything that a release of moments is made of."""

    search: RadiusSearch | None = None
    rounds: list[Counted] = field(default_factory=list)
    counts: list[tuple[Counts, ...]] = field(default_factory=list)
    columns: tuple[Marginal, ...] = ()
    standard: Standard | None = None
    stages: list[Summed] = field(default_factory=list)
    bits: Bits = field(default_factory=Bits)


def most_loss(plan: Plan) -> float:
    """The distance from the ideal of the most draws that a release may take, however many this one took."""
    levels = [len(one.levels) for one in plan.columns if one.kind == "categorical"]
    scored = (len(plan.columns) - len(levels)) * (3 if plan.dependence == "curved" else 1)
    lags = (plan.lags or 1) if plan.rows == "series" else 0
    size = scored * (lags + 1) + sum(levels)
    stage = size + size * (size + 1) // 2 + (plan.protects == "person" or lags > 0)
    counts = sum(max(256, len(one.levels)) + 1 for one in plan.columns)
    draws = 4 * counts + 9 * stage if plan.adaptive else stage + 10
    return draws * total_variation(RoundedGaussian(2.0**58))


def follow(plan: Plan, public: Manifest, files: Files) -> Followed:
    """Walk through the release; of the manifest in it only noised numbers are looked at."""
    walk = _Walk(plan, public, files)
    budget = BudgetFilter(plan.guarantee.mu)
    if plan.adaptive:
        walk.count(budget)
        walk.stages(budget)
    else:
        radius = walk.search(budget) if plan.clip_radius == "private" else None
        walk.sum(plain_stage(plan, walk.size, budget.take(1.0), radius), Encoder("public", "columns"))
    walk.moments.end()
    return walk.found


class _Walk:
    def __init__(self, plan: Plan, public: Manifest, files: Files) -> None:
        self.plan, self.public, self.files = plan, public, files
        self.size = public.n if public.persons is None else public.persons
        self.moments = Numbers(files, "moments.parquet", "value")
        self.rows = iter([stage.rows for stage in manifest_of(files).stages])
        self.found = Followed()

    def count(self, budget: BudgetFilter) -> None:
        """Three looks at most, each for 20 % of what is left of the counts' share, and the rest for the last round."""
        plan, found = self.plan, self.found
        answers = Numbers(self.files, "marginals.parquet", "count")
        own = BudgetFilter(budget.take(marginals_share(plan, self.size)))
        steps = [unit_step(column, plan.scale) for column in plan.columns]
        last, levels = False, [not column.ordered for column in plan.columns]
        while not last:
            more = any(map(needs_another_look, found.columns)) if found.counts else not all(levels)
            last = len(found.counts) == 3 or not more
            mu = own.take(1.0 if last else 0.2)
            noise = count_noise(plan.unit, len(steps), mu)
            borders = [next_borders(one, noise.scale / self.size, last=last) for one in found.columns]
            borders = borders or [first_borders(step, levels=own) for step, own in zip(steps, levels, strict=True)]
            sizes = [one.size for one in borders]  # as many leaves but one, and missing cells
            place, answer = found.bits.position, answers.take(sum(sizes))
            draw(noise, answer.size, found.bits)
            found.rounds.append(Counted(mu, noise, borders, place, answer))
            parts = np.split(answer.astype(np.float64), np.cumsum(sizes)[:-1])
            deviation = math.sqrt(noise.variance)
            found.counts.append(
                tuple(
                    Counts(one, part[:-1], float(part[-1]), deviation) for one, part in zip(borders, parts, strict=True)
                )
            )
            rows = None if plan.protects == "person" else self.size  # how many rows persons have is secret
            found.columns = marginals_of(tuple(zip(*found.counts, strict=True)), steps, levels, rows)
        answers.end()

    def stages(self, budget: BudgetFilter) -> None:
        """Presence where cells are missing in several columns, for 5 % of what is left; then stage after stage."""
        plan, found = self.plan, self.found
        boxed, curved = plan.protects in ("entry", "readings"), plan.dependence == "curved"
        lags = (plan.lags or 1) if plan.rows == "series" else 0
        missing = often_missing(found.columns)
        if len(missing) > 1:
            encoder = Encoder(plan.scale, "presence", of=missing, box=1.0 if boxed else None, lags=lags)
            shape = first_shape(len(missing) * (lags + 1), shaped=True)
            self.sum(stage_of(plan.unit, self.size, budget.take(0.05), encoder, shape), encoder)
        box = BOX if boxed else None
        if plan.scale == "linear":
            found.standard = standard_of(found.columns)
            encoder = Encoder("linear", "columns", standard=found.standard, box=box)
        else:
            encoder = Encoder.of_scores(found.columns, "cosines" if curved else "columns", Bits().key(), box)
        encoder = replace(encoder, lags=lags)
        width = encoder.width(len(plan.columns))
        shape = first_shape(width, shaped=not boxed and not curved and width > 1, beside=sum(encoder.levels))
        number = 0
        while True:
            stage = stage_of(plan.unit, self.size, budget.take(shape.share), encoder, shape)
            answer = self.sum(stage, encoder, shape.whole_map)
            number += 1
            if shape.share == 1.0:
                return
            noise = float(answer.second_noise_sd)
            largest = largest_entry(plan.scale)
            shape = next_shape(shape, stage.radius, answer.mean, answer.second, noise, number, largest)

    def sum(self, stage: Stage, encoder: Encoder, through: np.ndarray | None = None) -> NoisyMoments:
        found, size = self.found, stage.size
        place, empty = found.bits.position, np.zeros(size, dtype=np.int64)
        noise = add_noise(empty, np.zeros((size, size), dtype=np.int64), 0, stage, found.bits)
        rows = next(self.rows, 0)  # for persons one of the noised numbers
        mean, second = self.moments.take(size), np.zeros((size, size))
        second[np.triu_indices(size)] = self.moments.take(size * (size + 1) // 2)
        second = np.triu(second) + np.triu(second, 1).T
        divided = noise.divided(rows if stage.count_weight else self.public.n)
        answer = replace(divided, mean=mean, second=second, map=through)
        found.stages.append(Summed(encoder, place, answer))
        return answer

    def search(self, budget: BudgetFilter) -> float:
        """The questions and the radius, from nothing but the answers."""
        plan, grid, mu = self.plan, radius_grid(len(self.plan.columns)), budget.take(0.05)
        stated = manifest_of(self.files).radius_search
        assert stated is not None
        answers, asked = iter(stated.answers), []

        def answer(number: int) -> int:
            asked.append((float(grid[number]), next(answers)[1]))
            return asked[-1][1]

        person = plan.protects == "person"
        n = answer(grid.size - 1) if person else self.public.n
        radius = float(grid[bisect_radius(answer, grid.size, 0.95 * n)])
        noise = answer_noise(plan.unit, mu)
        draw(noise, questions(plan.unit), self.found.bits)
        loss = len(asked) * total_variation(noise)
        self.found.search = RadiusSearch(mu, 0.95, noise.scale, tuple(asked), radius, loss)
        return radius


def released_moments(plan: Plan, found: Followed) -> list[ReleasedMoments]:
    return [one.answer.released(plan.columns) for one in found.stages]


def write_again(plan: Plan, public: Manifest, files: Files, writer: BundleWriter) -> tuple[pa.Table | None, Manifest]:
    """Write the files of numbers; the synthetic rows, if any, and the manifest that go with them."""
    found = follow(plan, public, files)
    numbers = released_moments(plan, found)
    if plan.adaptive:
        writer.parquet("marginals.parquet", marginals_to_arrow(plan.names, found.counts), schema_of(MARGINAL_COLUMNS))
    writer.parquet("moments.parquet", moments_to_arrow(numbers), schema_of(MOMENT_COLUMNS))
    stages = tuple(one.stage for one in found.stages)
    expected = replace(
        public,
        n=public.n if plan.rows == "series" and public.persons is None else pooled_rows(stages),
        scale=plan.scale if plan.adaptive else "public",
        rounds=tuple(Round(one.mu, one.noise.scale) for one in found.rounds),
        standard=found.standard,
        stages=stages,
        radius_search=found.search,
        delta_slack=(1 + math.exp(public.epsilon)) * most_loss(plan),
    )
    if plan.form != "synthetic":
        return None, expected
    assert public.synthetic is not None
    note = replace(public.synthetic, seed=int(found.bits.uint64(1)[0]) >> 11, offset=0)
    # The offset is no choice: it follows from what was released with noise.
    note = replace(note, offset=rounding(replace(expected, synthetic=note), numbers, found.columns))
    expected = replace(expected, synthetic=note)
    made = synthetic_rows(expected, numbers, found.columns)
    return pa.Table.from_batches(list(synthetic_batches(made, synthetic_schema(plan)))), expected


def progress_of(manifest: Manifest) -> Iterator[int]:
    """What progress is told: hundredths of the public number of rows, or the number of persons, pass after pass."""
    passes = 1
    if manifest.form != "table":
        passes = len(manifest.rounds) + len(manifest.stages) + (manifest.radius_search is not None)
    marks = sorted({manifest.n * k // 100 for k in range(1, 101)} - {0})
    for _ in range(passes):
        yield from marks if manifest.persons is None else [manifest.persons]
