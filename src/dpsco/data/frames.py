"""Tables from data frames: pandas, Polars and PyArrow through one interface.

Whether a column is accepted depends on its name and type alone. A missing value becomes NaN, or a
missing label, and so its row a null row; nothing that a column holds raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, MissingExtraError, ParameterError
from .labels import LONGEST_CLASS
from .table import MemoryTable, Table, from_arrays

if TYPE_CHECKING:
    from .encoder import TableEncoder

_ENCODE = "Leave it out with features=[...], or declare it in a schema and pass encoder=."
_RETYPE = "Give it a type of its own first: frame.astype({name: 'float64'}), or 'string' for text."


def from_frame(
    frame: Any,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    encoder: TableEncoder | None = None,
) -> Table:
    """Return a table of a data frame's columns.

    Args:
        frame: a pandas, Polars (not lazy) or PyArrow table.
        label: the name of the column of labels: numbers, booleans or text. Python objects (older
            pandas' way to hold text) are read as text, and what is no string as missing.
        features: the names of the feature columns, in order; by default all but the label. They
            hold numbers or booleans.
        encoder: turns columns of any declared kind into numbers. Its schema says what is a
            feature and what is the label, so the two arguments above are then left out.

    Raises:
        DataError: a column is missing, occurs twice or is not of a type that can be used; the
            message names it. No error depends on a value.
        MissingExtraError: narwhals is not installed.

    >>> import polars
    >>> from_frame(polars.DataFrame({"age": [31.0, None], "ill": [True, False]}), label="ill")
    <MemoryTable: 2 x 1, float64, labels: number>
    """
    if encoder is not None:
        if label is not None or features is not None:
            raise ParameterError(
                "from_frame takes label and features from the encoder's schema: leave them out, or "
                "leave out the encoder."
            )
        return from_arrays(*encoder.encode(frame))
    data = _open(frame)
    names = list(data.columns)
    chosen = _chosen(names, label, features)
    columns = [_number_column(data, name, "a feature") for name in chosen]
    single = all(column.dtype == np.float32 for column in columns)
    rows = np.empty((len(data), len(chosen)), dtype=np.float32 if single else np.float64)
    for place, column in enumerate(columns):
        rows[:, place] = column
    return MemoryTable(rows, *_label_column(data, label))


def _open(frame: Any) -> Any:
    """Return the frame behind the common interface."""
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError(
            "from_frame needs narwhals. Install it with: pip install 'dpsco[frames]'. NumPy arrays "
            "work without: from_arrays(X, y)."
        ) from None
    names = getattr(frame, "column_names", None)  # PyArrow; pandas and Polars say columns
    if names is None and not hasattr(frame, "collect"):
        names = getattr(frame, "columns", None)
    listed = [] if names is None else list(names)
    twice = sorted({repr(name) for name in listed if listed.count(name) > 1})
    if twice:
        raise DataError(f"a frame's columns must have different names; twice: {', '.join(twice)}.")
    try:
        data = nw.from_native(frame, eager_only=True)
    except TypeError:
        data = None
    kind = getattr(data, "implementation", None)
    if kind is None or not (kind.is_pandas() or kind.is_polars() or kind.is_pyarrow()):
        raise DataError(
            f"from_frame reads pandas, Polars and PyArrow tables, got {type(frame).__name__}. Call "
            "collect() on a lazy frame; for arrays use from_arrays."
        )
    return data


def _chosen(names: list[Any], label: str | None, features: Sequence[str] | None) -> list[Any]:
    """Return the feature columns' names, after a check that all columns are there."""
    if isinstance(features, str):
        raise ParameterError(f"features must be a list of column names, got {features!r}.")
    chosen = [name for name in names if name != label] if features is None else list(features)
    wanted = chosen if label is None else [*chosen, label]
    absent = [repr(name) for name in wanted if name not in names]
    if absent:
        shown = ", ".join(repr(name) for name in names[:20])
        raise DataError(
            f"the frame has no column {', '.join(absent)}; it has {shown}"
            f"{' and more' if len(names) > 20 else ''}."
        )
    twice = sorted({repr(name) for name in wanted if wanted.count(name) > 1})
    if twice:
        raise ParameterError(
            f"a column is a feature once, and not the label too; twice: {', '.join(twice)}."
        )
    if not chosen:
        raise DataError("a table needs at least one feature column, got none.")
    return chosen


def _number_column(data: Any, name: Any, use: str) -> NDArray[Any]:
    """Return a column of numbers as float32 or float64, NaN where one is missing."""
    series = data.get_column(name)
    native, kind = series.to_native(), series.dtype
    if not (_plain(native) and (kind.is_numeric() or kind == _boolean())):
        raise DataError(
            f"column {name!r} cannot be used as {use}: its type is {_type_name(native)}. "
            + (_ENCODE if _plain(native) else _RETYPE)
        )
    if data.implementation.is_pyarrow():
        return _from_arrow(native)
    if data.implementation.is_polars():
        found = native if str(kind) == "Float32" else series.cast(_float64()).to_native()
        return np.asarray(found.to_numpy())
    if isinstance(native.dtype, np.dtype):
        found = native.to_numpy()
        return np.asarray(found, dtype=np.float32 if found.dtype in _SHORT else np.float64)
    short = str(native.dtype).lower() in ("float32", "float[pyarrow]")
    # pandas' own types with missing values, and those on Arrow
    return np.asarray(native.to_numpy(dtype=np.float32 if short else np.float64, na_value=np.nan))


def _label_column(
    data: Any, label: str | None
) -> tuple[NDArray[Any] | None, NDArray[np.bool_] | None]:
    """Return the labels, and which are missing where the labels cannot say so themselves."""
    if label is None:
        return None, None
    series = data.get_column(label)
    native = series.to_native()
    if not _is_text(data, native, series.dtype):
        return _number_column(data, label, "the label").astype(np.float64), None
    if data.implementation.is_pandas():
        entries = native.astype(object).tolist()
    else:
        entries = native.to_pylist() if hasattr(native, "to_pylist") else native.to_list()
    missing = np.array([not isinstance(entry, str) for entry in entries], dtype=bool)
    # What is cut off is longer than any class may be: such labels stay unknown ones.
    words = [entry[: LONGEST_CLASS + 1] if isinstance(entry, str) else "" for entry in entries]
    return np.array(words, dtype=np.str_), missing


def _is_text(data: Any, native: Any, kind: Any) -> bool:
    """Return whether a column's type is text, or categories that are text."""
    import narwhals as nw

    if kind == nw.String or not _plain(native):  # Python objects: strings, whatever else is missing
        return True
    if kind not in (nw.Categorical, nw.Enum):
        return False
    if data.implementation.is_pandas():
        return bool(
            nw.from_native(native.cat.categories.to_series(), series_only=True).dtype == nw.String
        )
    if data.implementation.is_pyarrow():
        return str(native.type.value_type) in ("string", "large_string")
    return True


def _plain(native: Any) -> bool:
    """Return whether a column has a type: what one of Python objects holds, its rows would say."""
    return str(getattr(native, "dtype", "")).lower() != "object"


def _from_arrow(column: Any) -> NDArray[Any]:
    """Return an Arrow column as NumPy numbers; no cast of it can fail."""
    from .arrow import numbers

    chunks = [numbers(chunk) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0)


def _type_name(native: Any) -> str:
    """Return the name of a column's type."""
    return str(getattr(native, "dtype", getattr(native, "type", type(native).__name__)))


def _boolean() -> Any:
    import narwhals as nw

    return nw.Boolean


def _float64() -> Any:
    import narwhals as nw

    return nw.Float64


_SHORT = (np.dtype(np.float16), np.dtype(np.float32))
