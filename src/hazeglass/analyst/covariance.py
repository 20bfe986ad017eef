"""What any release comes down to: the covariance of its columns' features, and how its error is distributed.

A table is corrected for the noise in its cells. A moments release is undone stage by stage and pooled (pooling.py),
seen through its marginals (scored.py), and held against the model that its error bars rest on (checks.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hazeglass.analyst import checks
from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.mixed import mixed_covariance
from hazeglass.analyst.noisy import NoisyCovariance, Stacked, score_in_cosines
from hazeglass.analyst.pooling import Pooled, StageMoments, Undone, pool
from hazeglass.analyst.scored import Presence, block_correlations, correlations, drawn_scores
from hazeglass.analyst.select import scatter_of
from hazeglass.analyst.series import SeasonNoise
from hazeglass.bundle.manifest import Stage
from hazeglass.bundle.moments import ReleasedMoments, pooled_rows
from hazeglass.bundle.reader import Release
from hazeglass.compute.engines import Engine, Serial
from hazeglass.errors import InputError
from hazeglass.features.harmonics import cosines
from hazeglass.features.marginal import Levels, Marginal
from hazeglass.features.scores import LevelMoments, Link, link_of, link_through
from hazeglass.glasso.linalg import FloatArray

_NEARLY_SMOOTH, _SOME_CLIPPED = 0.98, 0.002  # attenuations and rows from which simulation is worth its time


def covariance_of(release: Release, engine: Engine | None = None, *, curved: bool = False) -> NoisyCovariance:
    """The corrected covariance of a release's columns, or if `curved` of the functions of them that it holds."""
    if release.form == "table":
        return _of_table(release, engine or Serial())
    measured = Measured.of(release)
    return covariance_of_harmonics(measured) if curved else covariance_of_columns(measured)


def covariance_of_rows(rows: FloatArray, noise: FloatArray, names: tuple[str, ...]) -> NoisyCovariance:
    """cov(X~) minus the known covariance of the noise in a row."""
    return _without_noise(np.cov(rows, rowvar=False).reshape(len(names), len(names)), noise, len(rows), names)


def stacks_of_rows(rows: FloatArray, lags: int, names: tuple[str, ...]) -> Stacked:
    """Of every row with those before it, column by column from the latest on."""
    shifted = np.stack([rows[lags - k : len(rows) - k] for k in range(lags + 1)], axis=2)
    stacked = shifted.reshape(len(rows) - lags, -1)
    of_each = tuple(name if k == 0 else f"{name} [t-{k}]" for name in names for k in range(lags + 1))
    noisy = covariance_of_rows(stacked, np.zeros((stacked.shape[1],) * 2), of_each)
    return Stacked(noisy, noisy.error)


def noise_of(release: Release) -> FloatArray:
    """The covariance of the noise in each row of a table release (exact variances, no correlation)."""
    return np.diag([column.cell_noise.variance if column.cell_noise else 0.0 for column in release.columns])


def noise_matrix(noise_cov: npt.ArrayLike, columns: int, rows: int | None = None) -> FloatArray:
    """Known noise, however people state it, as the (p, p) covariance of the noise in a row.

    A number is the variance in every column; p numbers are the variances per column; a (p, p) array is the covariance;
    an (n, p) array is the variance of each cell, of which the mean over the rows counts.

    >>> noise_matrix([1.0, 4.0], 2).tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """
    noise = np.asarray(noise_cov, dtype=np.float64)
    if not np.all(np.isfinite(noise)):
        raise InputError("noise_cov must be finite, and holds NaN or infinity.")
    if noise.ndim == 0:
        matrix = np.eye(columns) * float(noise)
    elif noise.shape == (columns,):
        matrix = np.diag(noise)
    elif noise.shape == (columns, columns):
        matrix = noise
    elif rows is not None and noise.shape == (rows, columns):
        matrix = np.diag(noise.mean(axis=0))
    else:
        per_cell = f", or {rows}x{columns} for one variance per cell" if rows else ""
        raise InputError(
            f"noise_cov must be {columns}x{columns} to match the data{per_cell}, got {noise.shape}. "
            "Pass a number, one per column, or 0.0 for clean data."
        )
    if np.any(np.diag(matrix) < 0) or not np.allclose(matrix, matrix.T):
        raise InputError("noise_cov must be a covariance: symmetric, with no negative variance.")
    return matrix


def _without_noise(observed: FloatArray, noise: FloatArray, n: int, names: tuple[str, ...]) -> NoisyCovariance:
    return NoisyCovariance(names, n, observed - noise, ErrorModel.of_gaussian_rows(observed, n))


def _of_table(release: Release, engine: Engine) -> NoisyCovariance:
    observed = scatter_of(release, engine).covariance()
    found = _without_noise(observed, noise_of(release), release.n, release.manifest.names)
    radius = release.manifest.clip_radius
    if radius is None:
        return found
    note = f"Rows were clipped to length {radius:.3g}; the covariance is that of clipped rows."
    return replace(found, notes=(note,))


def covariance_of_moments(moments: ReleasedMoments, n: int) -> NoisyCovariance:
    """Of all features of one stage, as they were released."""
    names = tuple(dict.fromkeys(feature.column for feature in moments.features))
    covariance = moments.covariance(n)
    noise_sd = float(moments.second_noise_sd[0, -1]) if len(moments.features) > 1 else 0.0
    error = ErrorModel.of_gaussian_rows(covariance, n).plus_isotropic(noise_sd)
    mean_sd = float(moments.mean_noise_sd[0])
    if len(names) == len(moments.features):
        return NoisyCovariance(names, n, covariance, error.plus_noisy_mean(moments.mean, mean_sd))
    return NoisyCovariance(names, n, covariance, error.plus_tied_mean(moments.mean, mean_sd), moments.mean)


@dataclass(frozen=True, eq=False)
class Measured:
    """What a moments release says of its columns.

    scale      'scores', 'linear' (standardised by the marginals) or 'public' (on the public bounds, no marginals)
    stages     of the columns themselves
    box        that scores were moved into, cell by cell; infinite where they were not
    signs      products of presence, of the columns `signs_of`, where they were released
    levels     moments of the indicators of categorical columns, where there are such
    seasons    what noise means by hour or weekday had that were taken off, where any were
    known_presence  what is known of missing cells, where that was found out before
    harmonics  moments of cosines, where they were released
    """

    names: tuple[str, ...]
    n: int
    scale: str
    marginals: tuple[Marginal, ...] = ()
    stages: tuple[StageMoments, ...] = ()
    box: float = math.inf
    signs: ReleasedMoments | None = None
    signs_of: tuple[int, ...] = ()
    harmonics: ReleasedMoments | None = None
    levels: tuple[LevelMoments, ...] = ()
    known_presence: Presence | None = None
    seasons: SeasonNoise | None = None

    @classmethod
    def of(cls, release: Release) -> Measured:
        """From a release."""
        stages = list(zip(release.manifest.stages, release.moments(), strict=True))
        by_kind = {kind: [both for both in stages if both[0].features == kind] for kind in ("presence", "cosines")}
        own = [both for both in stages if both[0].features == "columns"]
        presence, curved = (by_kind[kind][-1] if by_kind[kind] else None for kind in ("presence", "cosines"))
        box = own[-1][0].box if own else None
        scored = tuple(_stage(stage, moments) for stage, moments in own)
        series = release.manifest.series
        each = range(1 if series is None else series.size)  # rows in time have every column once for each lag
        return cls(
            tuple(name if k == 0 else f"{name} [t-{k}]" for name in release.manifest.names for k in each),
            release.n if series is None else pooled_rows([one for one in release.manifest.stages if one.lags]),
            release.manifest.scale or "public",
            tuple(one for one in release.marginals() for _ in each),
            scored,
            math.inf if box is None or release.manifest.scale == "public" else box,
            None if presence is None else presence[1],
            () if presence is None else tuple(len(each) * k + lag for k in presence[0].of for lag in each),
            None if curved is None else curved[1],
            tuple(
                _levels(stage, moments, scores)
                for (stage, moments), scores in zip(own, scored, strict=True)
                if stage.levels
            ),
            seasons=_season_noise(release, stages),
        )

    @property
    def ordered(self) -> list[int]:
        """Numbers of the columns that are not categorical."""
        levels = [k for k, one in enumerate(self.marginals) if isinstance(one, Levels)]
        return [k for k in range(len(self.names)) if k not in levels]

    def of_scores(self) -> Measured:
        """The ordered columns alone."""
        kept, presence = self.ordered, self.presence
        return replace(
            self,
            names=tuple(self.names[k] for k in kept),
            marginals=tuple(self.marginals[k] for k in kept),
            signs=None,
            levels=(),
            known_presence=None if presence is None else presence.of(kept),
        )

    @property
    def presence(self) -> Presence | None:
        """Shares of rows with both cells; None where nothing is known of missing cells."""
        if self.known_presence is not None or not self.marginals:
            return self.known_presence
        independent = Presence.of_marginals(self.marginals, self.n)
        if self.signs is None:
            return independent
        of = np.array(self.signs_of or range(len(self.names)))
        present = np.diag(independent.both)[of]
        signs = Presence.of_signs(self.signs.second, present, float(self.signs.second_noise_sd[0, -1]))
        return independent.with_signs(of, signs)

    @cached_property
    def links(self) -> list[Link] | None:
        """What scores, or cells in a box, say of the columns; None for cells as they are."""
        if self.seasons is not None:  # what is left of columns of numbers, whose variances are not known beforehand
            return None
        if self.scale == "scores":
            return [link_of(one.latent_borders, one.coarse, self.box) for one in self.marginals]
        return (
            None
            if math.isinf(self.box)
            else [link_through(partial(_boxed_cell, one, self.box)) for one in self.marginals]
        )


def _season_noise(release: Release, stages: Sequence[tuple[Stage, ReleasedMoments]]) -> SeasonNoise | None:
    series = release.manifest.series
    if series is None or not series.seasons:
        return None
    stage, moments = next(both for both in stages if both[0].features == "seasons")
    return SeasonNoise.of(moments.second, stage.levels, float(moments.second_noise_sd[0, -1]), series.step, series.lags)


def _boxed_cell(known: Marginal, box: float, z: FloatArray) -> FloatArray:
    """What a column's hidden normal becomes on the linear scale, in its box."""
    return np.clip((known.quantile(ndtr(z)) - known.location) / known.spread, -box, box)


def _stage(stage: Stage, moments: ReleasedMoments) -> StageMoments:
    p = stage.scored
    return StageMoments(
        moments.mean[:p],
        moments.second[:p, :p],
        float(moments.second_noise_sd[0, -1]),
        float(moments.mean_noise_sd[0]),
        np.eye(p) if moments.map is None else moments.map[:p, :p],
        np.array(stage.centre[:p]),
        stage.radius if stage.clipped else None,
    )


def _levels(stage: Stage, moments: ReleasedMoments, scores: StageMoments) -> LevelMoments:
    p = stage.scored
    return LevelMoments(
        moments.mean[p:],
        scores.mean,
        moments.second[:p, p:],
        moments.second[p:, p:],
        float(moments.second_noise_sd[0, -1]),
        float(moments.mean_noise_sd[0]),
    )


def covariance_of_columns(measured: Measured) -> NoisyCovariance:
    """Correlations of the columns: latent ones behind scores, those of standardised cells on the linear scale."""
    if not measured.stages:
        return _first_harmonics(measured)
    if measured.levels:
        return _of_all_kinds(measured)
    return _of_scores(measured)[0]


def stacks_of(release: Release) -> Stacked:
    """Rows in time: the covariance of stacks, and its errors apart, because stacks share rows and noise does not."""
    measured = Measured.of(release)
    noisy, pooled = _of_scores(measured)
    seasons, back = measured.seasons, np.linalg.inv(pooled.error.basis)

    def draw(rng: np.random.Generator) -> FloatArray:
        left = pooled.draw_noise(rng)
        return left if seasons is None else left + back @ seasons.draw(rng) @ back.T

    own, noise = noisy.error, pooled.noise
    return Stacked(
        noisy,
        replace(
            own, off=np.maximum(pooled.error.off - noise.off, 0.0), diagonal=pooled.error.diagonal - noise.diagonal
        ),
        replace(own, off=noise.off / pooled.inflation, diagonal=noise.diagonal / pooled.inflation, own=None),
        draw,
    )


def _of_all_kinds(measured: Measured) -> NoisyCovariance:
    """Ordered columns by themselves first, then with categorical ones beside them."""
    presence = measured.presence
    assert presence is not None  # a release with categorical columns has marginals
    known = [one if isinstance(one, Levels) else None for one in measured.marginals]
    scored = _of_scores(measured.of_scores()) if measured.ordered else None
    return mixed_covariance(measured.names, measured.n, known, measured.levels, presence, scored)


def _of_scores(measured: Measured) -> tuple[NoisyCovariance, Pooled]:
    """The correlations of ordered columns, and the pooled stages behind them."""
    known = () if measured.seasons is not None else measured.marginals  # which say what variances are
    found = checks.agreeing(measured.stages, measured.n, _like_the_data(measured))
    swung = checks.swing(measured.stages[0], found, known, measured.links)
    more = checks.more_sampling(swung)
    bias = checks.marginals_bias(found, known) if measured.scale == "linear" else None
    doubt, contradicted = checks.doubt(measured.stages, found.covariance, swung), contradiction(measured, found)

    def noisy(pooled: Pooled) -> NoisyCovariance:
        made = NoisyCovariance(
            measured.names,
            measured.n,
            pooled.covariance if measured.seasons is None else pooled.covariance - measured.seasons.mean,
            pooled.error,
            notes=_notes(pooled.stages[-1]),
            swing=more - 1,
            distrusted=contradicted or checks.biased(found, bias),
        )
        seen, scored = measured.presence, measured.scale == "scores"
        return made if seen is None else correlations(made, measured.marginals, measured.links, seen, scored=scored)

    widened = found.with_doubt(more, doubt, bias)
    plain = None if bias is None else noisy(found.with_doubt(more, doubt))
    return replace(noisy(widened), plain=plain), widened


def _like_the_data(measured: Measured) -> FloatArray | None:
    """Scores of coarse columns, drawn as the publisher draws them, where stages that were clipped must be undone."""
    links = measured.links if measured.scale == "scores" else None
    if links is None or min(link.attenuation for link in links) > _NEARLY_SMOOTH:
        return None
    if all(stage.radius is None for stage in measured.stages):
        return None
    pooled = pool(measured.stages, measured.n)
    if not any(one.converged and one.share_clipped > _SOME_CLIPPED for one in pooled.stages):
        return None
    rough = NoisyCovariance(measured.names, measured.n, pooled.covariance, pooled.error)
    found = correlations(rough, measured.marginals, links, measured.presence, scored=True).covariance
    return drawn_scores(measured.marginals, checks.nearest_correlation(np.clip(found, -1, 1)))


def covariance_of_harmonics(measured: Measured) -> NoisyCovariance:
    """Of the cosines of every column's rank, as if no cell were missing."""
    noisy = replace(covariance_of_moments(_cosines(measured), measured.n), functions="cosines")
    return noisy if measured.presence is None else block_correlations(noisy, measured.presence)


def _cosines(measured: Measured) -> ReleasedMoments:
    if measured.harmonics is None:
        raise InputError("this release holds moments of neither columns nor cosines. Do not rely on it.")
    return measured.harmonics


def contradiction(measured: Measured, pooled: Pooled) -> str | None:
    """Why error bars cannot be trusted, in words; None where the release does not contradict them."""
    found = checks.undoing(pooled) or checks.agreement(pooled)
    if found is not None:
        return found
    if measured.seasons is not None:
        return None
    match measured.scale:
        case "public":
            return checks.public(pooled)
        case "linear":
            return None  # judged with the bias that clipping leaves (checks.biased)
        case _:
            links = measured.links or []
            return checks.lengths(pooled, measured.marginals, links, measured.n) if math.isinf(measured.box) else None


def _notes(last: Undone) -> tuple[str, ...]:
    return clipping_notes(last.stage.radius, last.share_clipped) if last.converged else ()


def clipping_notes(radius: float | None, share: float) -> tuple[str, ...]:
    """How rows were clipped, and which share of them."""
    if radius is None or share == 0:
        return ()
    return (
        f"Rows were clipped to length {radius:.3g}, which about {100 * share:.2g} % of them exceed; their second "
        "moments were widened again under a Gaussian model.",
    )


def _first_harmonics(measured: Measured) -> NoisyCovariance:
    """The columns themselves as far as their cosines know them: h(Z) = sum_k b_k f_k(Z), nearly Z."""
    moments = _cosines(measured)
    known = covariance_of_moments(moments, measured.n)
    itself = np.array(score_in_cosines())
    project = np.kron(np.eye(len(measured.names)), itself)
    error = replace(known.error, basis=project @ known.error.basis)
    noisy = NoisyCovariance(measured.names, measured.n, project @ known.covariance @ project.T, error)
    links = [link_through(lambda z: cosines(z) @ itself)] * len(measured.names)
    return correlations(noisy, measured.marginals, links, measured.presence, scored=True)
