"""Columns of pandas, Polars and PyArrow as numbers or text; types are refused, values never.

Whether a column can be used is decided by its type alone. Python objects are no type that says
what they are: one odd entry makes pandas hold a column of numbers or text in this way. So they are
read one by one as what was declared, numbers or text, and each that is something else is missing.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, MissingExtraError
from ..block import Mask
from ..tables.arrays import as_array, is_sparse, numbers_of, words_of
from ..tables.arrow import (
    distinct,
    family,
    key_of,
    numbers,
    pyarrow,
    reads_numbers,
    require,
    type_name,
    written_numbers,
)
from .schema import Category, ClassLabel, Column, Date, Hashed, Ignore, Label, Schema

_LIBRARIES = ("pandas", "polars", "pyarrow")
_NUMBERS = ("boolean", "integer", "real")
_SHORT = (np.dtype(np.float16), np.dtype(np.float32))
_ENCODE = (
    "Leave it out, or declare all columns in a schema, and fit the table "
    "data.from_frame(frame, encoder=data.TableEncoder(schema))."
)


# -- frames and series ---------------------------------------------------------------------------


def from_library(thing: Any) -> bool:
    """Return whether something comes from a library of data frames."""
    return any(kind.__module__.split(".")[0] in _LIBRARIES for kind in type(thing).__mro__)


def _narwhals(caller: str) -> Any:
    """Return the module of the common interface."""
    try:
        import narwhals
    except ImportError:
        raise MissingExtraError(
            f"{caller} needs narwhals. Install it with: pip install 'dpsco[frames]'. NumPy arrays "
            "work without: from_arrays(X, y)."
        ) from None
    return narwhals


def open_frame(frame: Any, caller: str) -> Any:
    """Return a frame behind the common interface.

    Raises:
        DataError: it is none, or two of its columns have the same name.
    """
    nw = _narwhals(caller)
    names = getattr(frame, "column_names", None)  # PyArrow; pandas and Polars say columns
    if names is None and not hasattr(frame, "collect"):
        names = getattr(frame, "columns", None)
    counts = Counter([] if names is None else list(names))
    twice = sorted(repr(name) for name, count in counts.items() if count > 1)
    if twice:
        raise DataError(f"a frame's columns must have different names; twice: {', '.join(twice)}.")
    try:
        data = nw.from_native(frame, eager_only=True)
    except TypeError:
        data = None
    if data is None or _library(data) is None:
        other = "" if caller == "from_arrays" else "; for arrays use from_arrays"
        raise DataError(
            f"{caller} reads pandas, Polars and PyArrow tables, got {type(frame).__name__}. Call "
            f"collect() on a lazy frame, to_frame() on a column{other}."
        )
    return data


def open_series(column: Any) -> Any:
    """Return a single column behind the common interface.

    Raises:
        DataError: it is none.
    """
    nw = _narwhals("a column of a data frame as y")
    if type(column).__module__.startswith("pyarrow") and isinstance(column, pyarrow().Array):
        column = pyarrow().chunked_array([column])
    column = _as_series(column)
    try:
        series = nw.from_native(column, series_only=True)
    except TypeError:
        series = None
    if series is None or _library(series) is None:
        raise DataError(
            f"y must be one column, got {type(column).__name__}. Pass frame[name], a NumPy array "
            "or a list; or the whole frame: from_frame(frame, label=name)."
        )
    return series


def _as_series(column: Any) -> Any:
    """Return the values of a pandas column, an array of pandas' own, as a column again."""
    pandas = sys.modules.get("pandas")  # whoever holds such an array has loaded it
    if pandas is None or not isinstance(column, pandas.api.extensions.ExtensionArray):
        return column
    return pandas.Series(column)


def _library(data: Any) -> str | None:
    """Return whose frame or series something is."""
    kind = getattr(data, "implementation", None)
    if kind is None:
        return None
    tests = {"pandas": kind.is_pandas(), "polars": kind.is_polars(), "pyarrow": kind.is_pyarrow()}
    return next((name for name, result in tests.items() if result), None)


# -- what a column's type is ---------------------------------------------------------------------

Kind = Literal["number", "text", "objects", "categories", "other"]
Labels = NDArray[Any] | tuple[Any, ...]
Wanted = Literal["number", "text", "key", "date"]
"""How objects are read: as numbers, as text, as dates, or (to be hashed) as text and numbers."""


def column_kind(series: Any) -> Kind:
    """Return how a column is read, from its type."""
    native = series.to_native()
    if _library(series) == "pandas":
        return _pandas_kind(native.dtype)
    if _library(series) == "pyarrow":
        return _arrow_kind(native.type)
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Object:
        return "objects"
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    return "number" if kind.is_numeric() or kind == nw.Boolean else "other"


def _arrow_kind(kind: Any) -> Kind:
    """Return the kind of an Arrow type; numbers that are categories are none."""
    result = family(kind)
    if result == "text":
        return "text"
    return "number" if result in _NUMBERS and not hasattr(kind, "value_type") else "other"


def _pandas_kind(dtype: Any) -> Kind:
    """Return the kind of a pandas type; narwhals would look at the values of some."""
    import narwhals as nw

    pd = nw.dependencies.get_pandas()
    if isinstance(dtype, pd.CategoricalDtype):
        return "categories"
    if isinstance(dtype, pd.StringDtype):
        return "text"
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_kind(dtype.pyarrow_dtype)
    plain = getattr(dtype, "numpy_dtype", dtype)  # of pandas' own types with missing values
    if not isinstance(plain, np.dtype):
        return "other"
    return "objects" if plain.kind in "Oc" else "number" if plain.kind in "biuf" else "other"


def _count_type(series: Any) -> np.dtype[Any] | None:
    """Return the NumPy type of a column of booleans or short counts; None for other numbers."""
    if _library(series) == "pyarrow":
        words = [type_name(series.to_native().type)]
    else:
        words = re.split(r"\W", str(series.to_native().dtype).lower())
    names = {"bool": "bool", "boolean": "bool", "uint8": "u1", "uint16": "u2", "uint32": "u4"}
    return next((np.dtype(names[word]) for word in words if word in names), None)


# -- numbers -------------------------------------------------------------------------------------


def number_rows(data: Any, names: Sequence[Any]) -> NDArray[Any]:
    """Return columns of a frame side by side, float32 if all of them are, NaN for what is missing.

    Raises:
        DataError: a column's type is none of numbers; the message names it.
    """
    columns = [number_column(data.get_column(name), name, "a feature") for name in names]
    single = all(column.dtype == np.float32 for column in columns)
    rows = np.empty((len(data), len(columns)), dtype=np.float32 if single else np.float64)
    for place, column in enumerate(columns):
        rows[:, place] = column
    return rows


def number_column(series: Any, name: Any, use: str) -> NDArray[Any]:
    """Return a column of numbers as float32 or float64, NaN where one is missing."""
    kind = column_kind(series)
    if kind not in ("number", "objects"):
        raise DataError(
            f"column {name!r} cannot be used as {use}: its type is {_named(series)}. {_ENCODE}"
        )
    return np.asarray(_read(series, name, _numbers if kind == "number" else _object_numbers))


def _objects(series: Any) -> list[Any]:
    """Return a column of Python objects as they are."""
    native = series.to_native()
    if _library(series) == "pandas":
        return list(native.to_numpy(dtype=object))
    return list(native.to_list())


def _object_numbers(series: Any) -> NDArray[Any]:
    """Return the numbers among Python objects, NaN for the rest."""
    return numbers_of(_objects(series))


def _numbers(series: Any) -> NDArray[Any]:
    """Return a column of numbers, by the library's own way."""
    native = series.to_native()
    if _library(series) == "pyarrow":
        return _joined([numbers(chunk) for chunk in native.chunks], np.float64)
    if _library(series) == "polars":
        import narwhals as nw

        result = native if series.dtype == nw.Float32 else series.cast(nw.Float64).to_native()
        return np.asarray(result.to_numpy())
    if hasattr(native.dtype, "pyarrow_dtype"):
        return _joined([numbers(chunk) for chunk in _chunks(native)], np.float64)
    if isinstance(native.dtype, np.dtype):
        result = native.to_numpy()
        return np.asarray(result, dtype=np.float32 if result.dtype in _SHORT else np.float64)
    short = native.dtype.numpy_dtype in _SHORT
    return np.asarray(native.to_numpy(dtype=np.float32 if short else np.float64, na_value=np.nan))


# -- labels --------------------------------------------------------------------------------------


def label_column(series: Any, name: Any) -> tuple[Labels, Mask | None, np.dtype[Any] | None]:
    """Return a column of labels as `raw_labels` does.

    Python objects are a tuple: the bounds will say whether text or numbers are read from it.

    Raises:
        DataError: the column's type is none of numbers or text; the message names it.
    """
    kind = column_kind(series)
    if kind == "categories":
        return *_category_labels(series, name), None
    if kind == "objects":
        return tuple(_read(series, name, _objects)), None, None
    if kind != "text":
        labels = number_column(series, name, "the label").astype(np.float64)
        return labels, None, _count_type(series)
    return *_read(series, name, _words), None


def _category_labels(series: Any, name: Any) -> tuple[Labels, Mask | None]:
    """Return labels that are categories, as a column of the categories' own type is read."""
    array = series.to_native().array
    result, missing, _ = label_column(
        _narwhals("y").from_native(array.categories.to_series(), series_only=True), name
    )
    codes = np.asarray(array.codes)  # -1: missing, which finds the last one
    if isinstance(result, tuple):
        entries = (*result, None)
        return tuple(entries[code] for code in codes), None
    if missing is None:
        return np.append(result, np.nan)[codes], None
    return np.append(result, "")[codes], np.append(missing, True)[codes]


def _words(series: Any) -> tuple[NDArray[np.str_], Mask]:
    """Return a column of text, and where it is missing."""
    native = series.to_native()
    if _library(series) == "pyarrow":
        return _arrow_words(native.chunks)
    if _library(series) == "pandas" and not _python_text(native.dtype):
        return _arrow_words(_chunks(native))
    return words_of(_objects(series))


def _python_text(dtype: Any) -> bool:
    """Return whether pandas holds a column's text as Python strings."""
    return getattr(dtype, "storage", None) == "python"


def _arrow_words(chunks: Sequence[Any]) -> tuple[NDArray[np.str_], Mask]:
    """Return Arrow text; bytes that are no UTF-8 are missing."""
    words: list[NDArray[np.str_]] = []
    missing: list[Mask] = []
    for chunk in chunks:
        entries, codes = distinct(chunk)
        result, absent = words_of([*map(_decoded, entries), None])
        words.append(result[codes])
        missing.append(absent[codes])
    return _joined(words, np.str_), _joined(missing, np.bool_)


def _decoded(entry: bytes) -> str | None:
    """Return bytes as text, None if they are none."""
    try:
        return entry.decode()
    except UnicodeDecodeError:
        return None


# -- Arrow ---------------------------------------------------------------------------------------


def arrow_column(series: Any, name: Any, wanted: Wanted = "text") -> Any:
    """Return a column of a frame as Arrow data.

    Args:
        series: the column.
        name: of it.
        wanted: how Python objects, and categories of them, are read.

    Raises:
        DataError: Arrow has no such type; the message names it and the column.
    """
    return _read(series, name, lambda column: _as_arrow(column, wanted))


def _as_arrow(series: Any, wanted: Wanted) -> Any:
    """Return Arrow data; text that has no UTF-8 form is missing."""
    kind, native = column_kind(series), series.to_native()
    if kind == "objects":
        return _arrow_objects(_objects(series), wanted)
    if kind == "text" and _python_text(native.dtype):
        return _arrow_objects(_objects(series), "text")
    if kind == "categories":
        entries = native.array.categories
        inner = _pandas_kind(entries.dtype)
        if inner == "objects" or _python_text(entries.dtype):
            codes = np.asarray(native.array.codes)
            places = pyarrow().array(codes, mask=codes < 0)
            how: Wanted = wanted if inner == "objects" else "text"
            listed = _arrow_objects(list(entries.to_numpy(dtype=object)), how)
            return pyarrow().DictionaryArray.from_arrays(places, listed)
    return series.to_arrow()


def _arrow_objects(entries: Sequence[Any], wanted: Wanted) -> Any:
    """Return what was declared among Python objects, and nothing where there is something else."""
    if wanted == "number":
        return pyarrow().array(numbers_of(entries), type=pyarrow().float64())
    if wanted == "date":  # of Python or NumPy, beside those in text
        entries = [
            str(entry) if isinstance(entry, (date, np.datetime64)) else entry for entry in entries
        ]
    if wanted == "key":
        entries = [entry if isinstance(entry, str) else key_of(entry) for entry in entries]
    return pyarrow().array([_encodable(entry) for entry in entries], type=pyarrow().string())


def _encodable(entry: Any) -> str | None:
    """Return a string that UTF-8 can write: half of a surrogate pair cannot be."""
    try:
        return entry if isinstance(entry, str) and entry.encode() is not None else None
    except UnicodeEncodeError:
        return None


# -- help ----------------------------------------------------------------------------------------


def _read(series: Any, name: Any, how: Callable[[Any], Any]) -> Any:
    """Return what ``how`` makes of a column; an error of its library is not passed on.

    It may quote a value. The new error is raised outside the handler, so that not even its context
    holds the old one.
    """
    try:
        with np.errstate(all="ignore"):
            return how(series)
    except MissingExtraError:
        raise
    except Exception:
        kind = _named(series)
    raise DataError(
        f"column {name!r} has the type {kind}, which cannot be read. Leave it out, or convert it "
        "to numbers or text first."
    )


def _named(series: Any) -> str:
    """Return the name of a column's type, as its library says."""
    native = series.to_native()
    return type_name(native.type if _library(series) == "pyarrow" else native.dtype)


def _chunks(column: Any) -> list[Any]:
    """Return the Arrow arrays of a pandas column that is made of them."""
    result = column.array.__arrow_array__()
    return list(result.chunks) if hasattr(result, "chunks") else [result]


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    """Return arrays one after the other, there may be none."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


# -- frames as Arrow tables, their objects read as a schema declares -------------------------------


def to_arrow(table: Any, schema: Schema | None = None) -> Any:
    """Return a frame as an Arrow table.

    Args:
        table: the frame.
        schema: says how Python objects are read, and which columns are left out, whatever they
            hold; without one objects are text.

    Raises:
        DataError: it is no frame, or a column has a type that Arrow does not have.
    """
    pa = pyarrow()
    if isinstance(table, (pa.Table, pa.RecordBatch)):
        return table
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError(
            "Data frames need narwhals. Install it with: pip install 'dpsco[frames]'."
        ) from None
    try:
        frame = nw.from_native(table, eager_only=True)
    except Exception:  # names appear twice, a lazy frame, no frame at all
        frame = None
    if frame is None:
        raise DataError(
            f"a {type(table).__name__} cannot be encoded: pass a pandas, Polars or PyArrow table "
            "with distinct column names (call collect() on a lazy one)."
        )
    columns = () if schema is None else schema.columns
    ignored = {column.name for column in columns if isinstance(column, Ignore)}
    names = [name for name in frame.columns if name not in ignored]
    if len(set(map(str, names))) < len(names):
        raise DataError("two columns of the table have the same name, written as text.")
    declared = {} if schema is None else {item.name: item for item in schema.items}
    result = [
        _arrow(frame.get_column(name), name, declared.get(str(name)), schema) for name in names
    ]
    return pa.table(dict(zip(map(str, names), result, strict=True)))


def _arrow(series: Any, name: Any, item: Column | Label | None, schema: Schema | None) -> Any:
    """Return a column of a frame; among objects, numbers may be written as text."""
    wanted: Wanted = "text" if item is None else _wanted(item)
    if wanted != "number" or schema is None or schema.decimal is None:
        return arrow_column(series, name, wanted)
    result = arrow_column(series, name, "text")
    if column_kind(series) != "objects":
        return result
    import pyarrow.compute as pc

    numbers = pc.fill_null(arrow_column(series, name, "number"), math.nan)
    written = written_numbers(result, schema)
    return pyarrow().array(np.where(np.isnan(written), numbers.to_numpy(), written))


def _wanted(item: Column | Label) -> Wanted:
    """Return how Python objects in a declared column are read."""
    if isinstance(item, Hashed) or (isinstance(item, (Category, ClassLabel)) and item.labels):
        return "key"
    if isinstance(item, Date):
        return "date"
    return "number" if reads_numbers(item) else "text"


def named_table(X: Any, schema: Schema) -> Any:
    """Return an array whose columns stand in a schema's order, as an Arrow table.

    Raises:
        DataError: it has another shape, or a type that cannot be read; no entry is quoted.
    """
    pa = pyarrow()
    if is_sparse(X):
        raise DataError("a table of columns is dense, got sparse data: pass a data frame.")
    values = as_array("X", X)
    columns, objects = schema.encoded, values.dtype.kind in "OUS"
    if values.ndim != 2:
        raise DataError(
            f"X must have two axes, got shape {values.shape}. Reshape your data: X.reshape(-1, 1) "
            "for a single column, X.reshape(1, -1) for a single row."
        )
    if values.shape[1] == 0:
        raise DataError(f"0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")
    if values.dtype.kind == "c":
        raise DataError("Complex data not supported: pass numbers, text or a data frame.")
    if values.shape[1] != len(columns):
        names = ", ".join(column.name for column in columns[:20])
        raise DataError(
            f"X has {values.shape[1]} features, but TableEncoder is expecting {len(columns)} "
            f"features as input, the columns of its schema: {names}. Pass a data frame, whose "
            "columns have names, or the columns in this order."
        )
    if not objects and values.dtype.kind not in "biuf":
        raise DataError(f"X has the type {values.dtype}, which cannot be read. Pass a data frame.")
    arrays = [
        _arrow_objects(list(part), _wanted(column)) if objects else pa.array(part)
        for column, part in zip(columns, values.T, strict=True)
    ]
    table = pa.table(arrays, names=[column.name for column in columns])
    pairs = zip(table.schema.names, table.schema.types, strict=True)
    require(schema, pairs, "X", label=False)
    return table
