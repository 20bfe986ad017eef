"""A table that stays in its database: DuckDB, PostgreSQL or Spark, reached through ibis.

The table is never read: it is asked for one row of whole numbers at a time, the sums of a query's layers. ibis writes
each layer in the engine's own SQL and quotes its names; a layer is a query over the one before, so that what several
expressions need is computed once. All questions of a release see one snapshot where the engine has such a thing, and
nothing is ever written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

from hazeglass.errors import DataError, HazeglassError, InputError, MissingExtraError, PrivacyRefusal

if TYPE_CHECKING:
    from collections.abc import Generator

    from hazeglass.compute.pieces import Piece

_ADDRESS = re.compile(r"(duckdb|postgres|postgresql)://", re.IGNORECASE)
_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "service")
_EXTRAS = {
    "duckdb": "pip install 'hazeglass[warehouse]'",
    "postgres": "pip install 'ibis-framework[postgres]'",
    "pyspark": "pip install 'ibis-framework[pyspark]'",
}
_SPOKEN = {"duckdb": "DuckDB", "postgres": "PostgreSQL", "pyspark": "Spark"}
# PostgreSQL would write a layer's expressions anew wherever the next one names them, unless it may have left out rows.
_FENCE = {"postgres": " OFFSET 0"}
# DuckDB 2 would write all layers into one expression, to see whether sums can be taken earlier: of a count of different
# things they cannot, and it leaves the layers as they are.
_WHOLE = {"duckdb": 'COUNT(DISTINCT 1) AS "whole", '}
LARGEST_REAL = 1.7976931348623157e308
_REFUSAL = (
    "rows do not leave a warehouse: only sums do. Publish moments or synthetic rows from it, or export the table first "
    "where its rows may leave."
)


def is_warehouse_address(data: object) -> bool:
    """Whether it reads like duckdb:///file.db?table=meters."""
    return isinstance(data, str) and _ADDRESS.match(data) is not None


def of_warehouse(data: Any) -> Warehouse | None:
    """The table behind an address, an ibis table or a Spark data frame; None for anything else."""
    if is_warehouse_address(data):
        return _of_address(str(data))
    module = type(data).__module__
    if module.startswith("pyspark.sql") and hasattr(data, "createOrReplaceTempView"):
        return _of_spark(data)
    if not module.startswith("ibis."):
        return None
    ibis = _ibis("duckdb")
    if not isinstance(data, ibis.Table):
        raise DataError(f"of ibis, a table can be published, got {type(data).__name__}. Pass a table.")
    backend = data.get_backend()
    if backend.name not in _SPOKEN:
        raise DataError(f"a warehouse must be {', '.join(_SPOKEN.values())}, got {backend.name}. Use one of them.")
    return Warehouse(backend, data)


def _ibis(engine: str) -> Any:
    try:
        import ibis

        getattr(ibis, engine)  # it loads what the engine needs
    except (ImportError, AttributeError):
        raise MissingExtraError(
            f"a table in {_SPOKEN[engine]} needs ibis. Install it with: {_EXTRAS[engine]}"
        ) from None
    return ibis


def _of_address(address: str) -> Warehouse:
    """The address carries no password: it would stand in shell histories and process lists."""
    try:
        parts = urlsplit(address)
        options, port, secret = dict(parse_qsl(parts.query)), parts.port, parts.password
    except ValueError:
        raise DataError("the address must read like postgresql://host:5432/database?table=meters.") from None
    if secret is not None or "password" in options:
        raise DataError(
            "an address must not carry a password: others would see it. Leave it to the environment (PGPASSWORD) or "
            "to the client's own file (~/.pgpass), and write the address without it."
        )
    table, schema = options.pop("table", ""), options.pop("schema", None)
    if not table:
        raise DataError("the address must end in the table's name: ?table=meters, and &schema=... where it has one.")
    engine = "duckdb" if parts.scheme == "duckdb" else "postgres"
    if strange := sorted(set(options) - set(_OPTIONS if engine == "postgres" else ())):
        raise DataError(f"the address has the option {strange[0]!r}, which is not known. Remove it.")
    ibis = _ibis(engine)
    with _in_plain_words(engine):
        if engine == "duckdb":
            path = unquote(parts.netloc + parts.path)
            backend = ibis.duckdb.connect(path.removeprefix("/") or ":memory:", read_only=True)
        else:
            backend = ibis.postgres.connect(
                host=parts.hostname,
                user=parts.username,
                port=port or 5432,
                database=unquote(parts.path.strip("/")) or None,
                **options,
            )
    try:
        with _in_plain_words(engine, table):
            return Warehouse(backend, backend.table(table, database=schema), close=backend.disconnect)
    except BaseException:
        backend.disconnect()
        raise


def _of_spark(frame: Any) -> Warehouse:
    ibis = _ibis("pyspark")
    with _in_plain_words("pyspark"):
        session = frame.sparkSession
        zone = session.conf.get("spark.sql.session.timeZone")
        backend = ibis.pyspark.connect(session)
        session.conf.set("spark.sql.session.timeZone", zone)  # it is the caller's
        name = f"hazeglass_{uuid4().hex}"
        frame.createOrReplaceTempView(name)
        return Warehouse(backend, backend.table(name), close=lambda: session.catalog.dropTempView(name))


@dataclass
class Warehouse:
    """A table in an engine. Of a TableSource it has the names and kinds; its rows it keeps to itself."""

    backend: Any
    table: Any
    close: Callable[[], object] | None = None
    index: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """'duckdb', 'postgres' or 'pyspark'."""
        return str(self.backend.name)

    @property
    def spoken(self) -> str:
        """As its makers write it."""
        return _SPOKEN[self.engine]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        with _in_plain_words(self.engine):
            return tuple(map(str, self.table.columns))

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The type of each column."""
        with _in_plain_words(self.engine):
            return dict(self.table.schema().items())

    def kinds(self, *only: str) -> dict[str, str]:
        """By the declared types."""
        return {name: _kind(self.schema[name]) for name in only or self.schema}

    def sizes(self) -> list[int]:
        """Refused: there are no pieces."""
        raise PrivacyRefusal(_REFUSAL)

    def pieces(self, numbers: Sequence[str], ids: Sequence[str] = (), readings: Any = None) -> Iterator[Piece]:
        """Refused: rows stay where they are."""
        raise PrivacyRefusal(_REFUSAL)

    # ---------------------------------------------------------------------------------------------- questions

    def sql(self, expression: Any) -> str:
        """The expression in the engine's words."""
        with _in_plain_words(self.engine):
            return str(self.backend.compile(expression, pretty=False))

    def numbers(self, query: str) -> list[int]:
        """The one row of whole numbers that the query gives; a sum of no rows is 0."""
        with _in_plain_words(self.engine):
            found = self._fetch(query)
            row = found[0]
            if len(found) != 1:
                raise DataError("a query for sums must give one row of numbers.")
            return [0 if value is None else int(value) for value in row]

    def _fetch(self, query: str) -> list[Any]:
        if self.engine == "pyspark":
            return list(self.backend._session.sql(query).limit(2).collect())
        cursor = self.backend.con.execute(query)
        return list(cursor.fetchmany(2))

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """All questions see the table as it is now, and nothing can be written; Spark has no such thing."""
        begin = {
            "duckdb": "BEGIN TRANSACTION READ ONLY",
            "postgres": "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }.get(self.engine)
        with ExitStack() as stack:
            if self.close is not None:
                stack.callback(_quietly, self.close)
            if begin is not None:
                connection = self.backend.con
                if self.engine == "postgres":
                    _check_idle(connection)
                    stack.callback(_quietly, setattr, connection, "autocommit", connection.autocommit)
                    connection.autocommit = True  # so that the transaction is the one that begins here
                with _in_plain_words(self.engine):
                    connection.execute(begin)
                stack.callback(_quietly, connection.execute, "ROLLBACK")
            yield


def _quietly(step: Callable[..., object], *arguments: Any) -> None:
    """A connection that is lost has no transaction any more, and is closed already."""
    with suppress(Exception):
        step(*arguments)


def _check_idle(connection: Any) -> None:
    if connection.info.transaction_status != 0:
        raise InputError(
            "the connection is in the middle of a transaction, and a release needs one of its own. Commit or roll back "
            "first."
        )


@contextmanager
def closing(source: Any) -> Generator[Any]:
    """The source of a table, and what was opened for it closed again."""
    try:
        yield source
    finally:
        if isinstance(source, Warehouse) and source.close is not None:
            _quietly(source.close)


def _kind(declared: Any) -> str:
    """One of compute/tables.py's DECLARED."""
    if declared.is_boolean():
        return "binary"
    if declared.is_integer():
        return "integer"
    if declared.is_floating() or declared.is_decimal():
        return "continuous"
    if declared.is_date() or declared.is_timestamp():
        return "date"
    return "text" if declared.is_string() or declared.is_uuid() else "other"


# ------------------------------------------------------------------------------------------------------------ layers


@dataclass
class Layers:
    """A query as a chain of layers, each over the columns of the one before.

    ibis would join neighbouring selections and write a column's expression wherever it is used; layers that it writes
    one by one stay apart. Columns named in `beside` go along from layer to layer.
    """

    warehouse: Warehouse
    queries: list[str] = field(default_factory=list)
    top: Any = None
    beside: tuple[str, ...] = ()

    def first(self, expression: Any) -> None:
        """The layer that names the engine's own table."""
        self._push(expression)

    def add(self, **columns: Any) -> None:
        """One more layer, of these expressions over :attr:`top`."""
        self._push(self.top.select(**columns, **{name: self.top[name] for name in self.beside}))

    def keep(self, condition: Any) -> None:
        """Only rows of :attr:`top` for which this is true."""
        self._push(self.top.filter(condition))

    def count_each(self, name: str) -> None:
        """A row for each value of this column of :attr:`top`, and in `cells` how often it occurs."""
        self._push(self.top.group_by(name).aggregate(cells=self.top.count()))

    def _push(self, expression: Any) -> None:
        import ibis

        fence = _FENCE.get(self.warehouse.engine, "")
        self.queries.append(self.warehouse.sql(expression) + fence)
        self.top = ibis.table(expression.schema(), name=f"layer_{len(self.queries)}")

    def numbers(self, **sums: Any) -> list[int]:
        """Sums over the last layer."""
        chain = ", ".join(f"layer_{number} AS ({query})" for number, query in enumerate(self.queries, 1))
        whole, asked = _WHOLE.get(self.warehouse.engine, ""), self.warehouse.sql(self.top.aggregate(**sums))
        found = self.warehouse.numbers(f"WITH {chain} SELECT {whole}{asked.removeprefix('SELECT ')}")
        return found[1:] if whole else found


def md5(text: Any) -> Any:
    """Its hash in 32 hexadecimal digits; all three engines call it so, and ibis does not know it of all of them."""
    import ibis

    @ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
    def digest(text: str) -> str: ...  # type: ignore[empty-body]

    return digest(text)


def real(number: float) -> Any:
    """A 64-bit float as the engine is told it: in words, because some engines read decimals inexactly."""
    import ibis

    return ibis.literal(repr(float(number)), "string").cast("float64")


def reals(numbers: Sequence[float]) -> Any:
    """A public list of floats: one word that the engine takes apart once, before it looks at any row."""
    return _listed(map(float, numbers)).cast("array<float64>")


def wholes(numbers: Sequence[int]) -> Any:
    """A public list of whole numbers."""
    return _listed(map(int, numbers)).cast("array<int64>")


def _listed(numbers: Iterable[float]) -> Any:
    import ibis

    return ibis.literal(",".join(map(repr, numbers))).split(",")


# ------------------------------------------------------------------------------------------------------------ errors


@contextmanager
def _in_plain_words(engine: str, table: str = "the table") -> Generator[None]:
    """What an engine says may quote cells, addresses and passwords: its sort is told, and not its words."""
    try:
        yield
    except HazeglassError:
        raise
    except Exception as error:
        failure = error
    else:
        return
    _refuse(engine, table, failure)


def _refuse(engine: str, table: str, error: Exception) -> NoReturn:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    condition = str(getattr(error, "getCondition", lambda: "")() or "") if engine == "pyspark" else ""
    spoken = _SPOKEN[engine]
    if kinds & {"InsufficientPrivilege", "PermissionException"}:
        what = "does not let this user read the table. Ask for SELECT on it; nothing else is needed"
    elif kinds & {"TableNotFound", "UndefinedTable", "InvalidSchemaName"} or "TABLE_OR_VIEW_NOT_FOUND" in condition:
        what = f"has no table called {table!r}, or does not show it to this user. Check its name and schema"
    elif kinds & {"InvalidPassword", "InvalidAuthorizationSpecification"} or _asked_password(error):
        what = "refuses this user, password or database. Set PGUSER and PGPASSWORD, or use ~/.pgpass"
    elif kinds & {"CatalogException", "BinderException", "UndefinedColumn", "AnalysisException"}:
        what = "does not know the table, a column or a function any more. Check that the table is as the plan says"
    elif kinds & {"OutOfMemoryException", "OutOfMemory", "DiskFull"}:
        what = "has too little memory or disk for this query. Give it more, or publish fewer columns at a time"
    elif kinds & {"QueryCanceled", "LockNotAvailable"}:
        what = "ended a query that took too long, or somebody did. Raise statement_timeout for this user"
    elif "IOException" in kinds:
        what = "cannot open the file: it must be a DuckDB file that is there, may be read, and is not being written"
    elif kinds & {"TransactionException"}:
        what = "is in the middle of a transaction, and a release needs one of its own. Commit or roll back first"
    elif kinds & {"OperationalError", "ConnectionException", "AdminShutdown", "InterfaceError"} or type(
        error
    ).__name__.startswith("Py4J"):
        what = "cannot be reached, or the connection was lost. Check that it runs, and start again"
    else:
        what = f"failed ({type(error).__name__}); its own log says why, and its words are not repeated here"
    raise DataError(f"{spoken} {what}.") from None


def _asked_password(error: Exception) -> bool:
    """Whether PostgreSQL wanted a password and refused; its words are in the language of the server."""
    connection = getattr(error, "pgconn", None)
    return connection is not None and bool(connection.needs_password or connection.used_password)
