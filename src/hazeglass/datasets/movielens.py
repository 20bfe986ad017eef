"""MovieLens 1M: users by movies. GroupLens's terms forbid handing it on, so nothing of it is in this package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hazeglass.datasets.catalogue import entry
from hazeglass.datasets.dataset import Dataset, Edges
from hazeglass.datasets.files import read_table, strings
from hazeglass.errors import DataError

__all__ = ["load_movielens"]

_USERS, _RATED = 6040, 3706


def load_movielens(data_dir: str | Path | None = None, *, movies: int = 55) -> Dataset:
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
