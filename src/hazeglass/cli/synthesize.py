"""hazeglass synthesize: rows from a release."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hazeglass.cli.releases import KeyOption
from hazeglass.cli.terminal import Printer, ReleaseArgument, plain, speaking

if TYPE_CHECKING:
    from hazeglass.analyst.synthesize import Synthesis


@speaking
def synthesize(
    printer: Printer,
    release: ReleaseArgument,
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")],
    out: Annotated[Path, typer.Option(help="A new folder; or a new file that ends in .parquet or .csv.")],
    form: Annotated[Literal["parquet", "csv"], typer.Option("--format", help="What a folder holds.")] = "parquet",
    copies: Annotated[int, typer.Option(min=1, max=100, help="How many sets of rows, for error bars.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same rows.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Exactly the released mean and covariance (linear and public scale).")
    ] = False,
    complete: Annotated[bool, typer.Option("--complete", help="No missing cells.")] = False,
    compare: Annotated[
        Path | None, typer.Option(help="Publisher only: draw these real rows beside the synthetic ones.", metavar="RAW")
    ] = None,
    key: KeyOption = None,
) -> None:
    """Draw rows from a release of moments, at no further cost in privacy.

    Example: hazeglass synthesize release/ --rows 10000 --out rows/
    """
    import secrets

    from hazeglass.analyst.rows_package import PAGE, check_rows_place, write_comparison, write_package
    from hazeglass.bundle.reader import load
    from hazeglass.errors import InputError

    check_rows_place(out)
    if compare is not None and (
        copies > 1 or exact or complete or form != "parquet" or out.suffix in (".csv", ".parquet")
    ):
        raise InputError(
            "--compare makes a folder with one page and writes no rows. Leave --copies, --exact, --complete and "
            "--format out, and name a folder."
        )
    loaded = load(release, key=key)
    number = secrets.randbelow(2**53) if seed is None else seed
    with printer.steps("drawing rows") as progress:
        if compare is not None:
            made = [write_comparison(loaded, compare, out, rows, number)]
        else:
            write = partial(write_package, copies=copies, kind=form, exact=exact, missing=not complete)
            made = write(loaded, out, rows, number, progress=progress)
        for one in made:
            one.warn()
    _say(printer, out if compare is None else out / PAGE, made, compared=compare is not None)


def _say(printer: Printer, out: Path, made: list[Synthesis], *, compared: bool) -> None:
    """What was written, and how good it is."""
    rows, number, copies = made[0].rows, made[0].seed, len(made)
    what = f"{rows:,} rows" if copies == 1 else f"{copies} times {rows:,} rows"
    checked = [one.checked() for one in made]
    if checked[0]["model"].endswith("field"):
        worst = max(one["worst_agreement"] for one in checked)
        printer.say(
            f"Pairs of columns with tables of their own: {checked[0]['pairs']}. Rows miss the released ones by at most "
            f"{worst:.2g} times what noise and so many rows explain."
        )
    if compared:
        what = f"real rows beside {rows:,} synthetic ones. No noise protects what is on it: do not hand it over"
    printer.say(f"Wrote {plain(out)}: {what}{'' if compared else f', seed {number}'}.")
    printer.answer({"out": str(out), "checked": checked})
