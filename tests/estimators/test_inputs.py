"""What rows hold decides neither errors nor other rows, in whatever form they come."""

import datetime
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import dpsco as dp
from dpsco.data import Category, ClassLabel, Number, NumberLabel, Schema, SignLabel, TableEncoder
from dpsco.errors import DataError, ParameterError
from dpsco.estimators.inputs import training_table

N = 60
rng = np.random.default_rng(2)
X = rng.uniform(-1, 1, (N, 3))
LABELS = np.where(X[:, 0] > 0, "yes", "no")
NUMBERS = X[:, 0]


class Odd:
    def __array__(self, *args, **others):
        raise RuntimeError("secret")


ODD = [
    *("n/a", "", b"x", None, 1j, Odd(), object(), [1.0], (), range(3), np.ones(2), np.ma.masked),
    *(10**400, float("nan"), np.datetime64("now"), datetime.timedelta(1), True, "9" * 400),
]


def fitted(model, rows, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dp.errors.OutlookWarning)  # of the size, not of an entry
        return model.fit(rows, labels)


def mean():
    return dp.PrivateMean(epsilon=1.0, feature_norm=1.0, centre=0.5, random_state=0)


def classifier():
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}, "random_state": 0}
    return dp.PrivateLogisticRegression(
        epsilon=1.0, feature_norm=1.0, classes=["no", "yes"], **quick
    )


def regressor():
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}, "random_state": 0}
    return dp.PrivateLinearRegression(epsilon=1.0, feature_norm=1.0, label_range=(-1, 1), **quick)


@pytest.mark.thorough
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_one_entry_of_a_list_decides_nothing(odd):
    rows = X.tolist()
    rows[7][1] = odd
    for labels in (LABELS.tolist(), LABELS):
        fitted(classifier(), rows, labels)
    fitted(mean(), rows, None)
    for model, given in ((classifier(), LABELS.tolist()), (regressor(), NUMBERS.tolist())):
        given[5] = odd
        fitted(model, X.tolist(), given)


def test_a_null_row_is_one_row_alone():
    rows = X.tolist()
    rows[7][1] = "n/a"
    holes = X.copy()
    holes[7, 1] = np.nan
    assert np.array_equal(
        classifier().fit(rows, LABELS).coef_, classifier().fit(holes, LABELS).coef_
    )


def test_a_wrong_column_of_a_sparse_row_stays_in_its_row():
    clean = sparse.csr_matrix(X)
    damaged = clean.copy()
    place = damaged.indptr[7] + 1
    damaged.indices[place] = 3  # beyond the width: SciPy would write into the next row
    holes = X.copy()
    holes[7] = np.nan
    expected = mean().fit(holes).mean_
    assert np.allclose(mean().fit(damaged).mean_, expected)
    damaged.indices[place] = -1
    assert np.allclose(mean().fit(damaged).mean_, expected)


def test_masked_arrays_are_refused_by_type():
    with pytest.raises(ValueError, match="mask"):
        classifier().fit(np.ma.array(X), LABELS)
    with pytest.raises(ValueError, match="mask"):
        regressor().fit(X, np.ma.array(NUMBERS))


@pytest.mark.parametrize("dtype", ["string", "category", "object"])
def test_arrays_of_pandas_are_columns_too(dtype):
    series = pd.Series(LABELS, dtype=dtype)
    expected = classifier().fit(X, LABELS).coef_
    assert np.array_equal(classifier().fit(X, series).coef_, expected)
    assert np.array_equal(classifier().fit(X, series.array).coef_, expected)
    assert np.array_equal(classifier().fit(X, series.values).coef_, expected)
    numbers = pd.Series(NUMBERS, dtype="Float64").array
    assert np.array_equal(regressor().fit(X, numbers).coef_, regressor().fit(X, NUMBERS).coef_)


def test_the_table_of_a_fit_is_what_was_given():
    table = training_table(classifier(), pd.DataFrame(X), pd.Series(LABELS, dtype="string"))
    assert (table.n, table.d, table.labels) == (N, 3, "text")
    with pytest.raises(ValueError, match="centre must be a number, or one for each of 3"):
        dp.PrivateMean(epsilon=1.0, feature_norm=1.0, centre=[0.0, 1.0]).fit(X)


SECRET = 918273.4655
RECORDS = np.array([(SECRET, 1.0)] * N, dtype=[("a", float), ("b", float)])
FLAT = sparse.coo_array(np.full(N, SECRET))
SHAPES = {
    "one axis": np.full(N, SECRET),
    "no axis": np.array(SECRET),
    "three axes": np.full((N, 2, 2), SECRET),
    "records": RECORDS,
    "records in rows": RECORDS[:, None],
    "complex": np.full((N, 3), SECRET + 1j),
    "text": np.full((N, 3), str(SECRET)),
    "bytes": np.full((N, 3), str(SECRET).encode()),
    "dates": np.full((N, 3), 918273, dtype="M8[s]"),
    "objects in one axis": np.full(N, SECRET, dtype=object),
    "ragged": [[SECRET]] * (N - 1) + [[SECRET, 1.0]],
    "flat list": [SECRET] * N,
    "a string": str(SECRET),
    "a number": SECRET,
    "dict": {"a": [SECRET] * N},
    "set": {SECRET},
    "generator": (row for row in [[SECRET]] * N),
    "no array": Odd(),
    "series": pd.Series([SECRET] * N),
    "twice": pd.DataFrame(np.full((N, 2), SECRET), columns=["a", "a"]),
    "text column": pd.DataFrame({"a": pd.array([str(SECRET)] * N, dtype="string")}),
    "polars series": pl.Series([SECRET] * N),
    "lazy": pl.LazyFrame({"a": [SECRET] * N}),
    "arrow column": pa.chunked_array([[SECRET] * N]),
    **({"sparse, one axis": FLAT} if FLAT.ndim == 1 else {}),  # older SciPy makes it a row
    "sparse, complex": sparse.csr_matrix(np.full((N, 3), SECRET + 1j)),
}


def texts_of(error):
    """Return everything that an error and those behind it say."""
    found = []
    while error is not None:
        found += [str(error), repr(error.args)]
        error = error.__cause__ or error.__context__
    return " ".join(found)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_types_are_refused_without_a_number_of_theirs(name):
    odd, fitted_model = SHAPES[name], regressor().fit(X, NUMBERS)
    calls = [
        lambda: classifier().fit(odd, LABELS),
        lambda: regressor().fit(odd, NUMBERS),
        lambda: mean().fit(odd),
        lambda: fitted_model.predict(odd),
        lambda: fitted_model.score(odd, NUMBERS),
        lambda: fitted_model.model_.predict(odd),
        lambda: dp.data.from_arrays(odd),
        lambda: dp.data.from_frame(odd),
    ]
    for call in calls:
        with pytest.raises(DataError) as caught:
            call()
        assert "918273" not in texts_of(caught.value)
        assert "secret" not in texts_of(caught.value)


@pytest.mark.parametrize("name", sorted({*SHAPES} - {"one axis", "series", "polars series"}))
def test_labels_of_other_shapes_and_types_are_refused_likewise(name):
    odd, fitted_model = SHAPES[name], regressor().fit(X, NUMBERS)
    if name in ("flat list", "ragged", "objects in one axis", "arrow column"):
        return  # labels, one by one
    for call in (lambda: regressor().fit(X, odd), lambda: fitted_model.score(X, odd)):
        warnings.simplefilter("ignore")  # of a column: scikit-learn's own words
        with pytest.raises(DataError) as caught:
            call()
        assert "918273" not in texts_of(caught.value)


def test_a_score_is_that_of_scikit_learn():
    from sklearn.metrics import accuracy_score, r2_score

    weights = np.arange(N)
    model = classifier().fit(X, LABELS)
    found = accuracy_score(LABELS, model.predict(X), sample_weight=weights)
    for labels in (LABELS, LABELS.tolist(), LABELS.astype(object), pd.Series(LABELS)):
        assert model.score(X, labels, weights) == pytest.approx(found)
    odd = [*LABELS[:-1].tolist(), None]
    assert model.score(X, odd) == accuracy_score([*LABELS[:-1], "?"], model.predict(X))
    line = regressor().fit(X, NUMBERS)
    assert line.score(X, NUMBERS) == r2_score(NUMBERS, line.predict(X))
    for labels in (NUMBERS, LABELS[:5]):
        with pytest.raises(DataError, match=r"strings, but|has 5 labels"):
            model.score(X, labels)
    for wrong in ([1.0], [SECRET, *[np.nan] * (N - 1)], [-SECRET] * N):
        with pytest.raises(DataError, match="sample_weight needs") as caught:
            model.score(X, LABELS, wrong)
        assert "918273" not in texts_of(caught.value)


def test_rows_to_predict_are_never_quoted():
    model = regressor().fit(X, NUMBERS)
    for odd in ("n/a", None, np.nan, np.inf, 1j):
        rows = X.tolist()
        rows[0] = [SECRET, odd, SECRET]
        for given in (rows, np.array(rows, dtype=object), pd.DataFrame(rows)):
            with pytest.raises(DataError, match="contains NaN") as caught:
                model.predict(given)
            assert "918273" not in texts_of(caught.value)


@pytest.mark.parametrize("column", [3, 10**6, -1, -(10**6), 2**31 - 1])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_a_wrong_column_of_a_row_to_predict_is_refused(form, column):
    """SciPy follows it: another row's numbers, those of foreign memory, or a crash."""
    model = classifier().fit(X, LABELS)
    damaged = sparse.csr_matrix(X).asformat(form)
    places = damaged.col if form == "coo" else damaged.indices
    places[7] = N if form == "csc" and column == 3 else column  # which compresses columns
    saved = dp.models.SavedModel(model.model_, model.certificate_)
    calls = (model.predict, model.decision_function, model.predict_proba, saved.predict)
    for call in (*calls, model.model_.predict, lambda rows: model.score(rows, LABELS)):
        with pytest.raises(DataError, match=r"contains NaN|do not belong together"):
            call(damaged)


def test_a_matrix_that_was_changed_in_place_is_looked_at_anew():
    """SciPy remembers that columns are sorted and different, and believes it."""
    model = classifier().fit(X, LABELS)
    matrix = sparse.csr_matrix(X)
    assert matrix.has_canonical_format
    matrix.indices[:3] = [0, 0, 2]  # the first two entries are one now
    summed = X.copy()
    summed[0] = [X[0, 0] + X[0, 1], 0.0, X[0, 2]]
    expected = model.decision_function(summed)
    np.testing.assert_allclose(model.decision_function(matrix), expected)
    for broken in ([0, 3, 2], [5], np.arange(N + 1) * 4):
        matrix = sparse.csr_matrix(X)
        matrix.indptr = np.array(broken, dtype=np.int32)
        with pytest.raises(DataError, match="do not belong together"):
            model.predict(matrix)


# -- what a schema and a type declare --------------------------------------------------------------

SCHEMA = Schema(
    (Number("age", 0, 100), Category("job", ("a", "b"))), label=ClassLabel("ill", ("no", "yes"))
)
PEOPLE = pd.DataFrame({"age": np.linspace(0, 100, N), "job": ["a", "b"] * (N // 2)})
PEOPLE["ill"] = np.where(PEOPLE["age"] > 50, "yes", "no")
TWO = {"feature_norm": 2.0, "solver": "noisy_gd", "options": {"rounds": 20}, "random_state": 0}


def encoded_tables(tmp_path, schema=SCHEMA, people=PEOPLE):
    encoder = TableEncoder(schema)
    people.to_parquet(tmp_path / "people.parquet")
    yield dp.data.from_frame(people, encoder=encoder)
    yield dp.data.from_parquet(tmp_path / "people.parquet", encoder=encoder, spill=tmp_path)


def test_the_classes_of_a_schema_are_those_of_a_classifier(tmp_path):
    features = TableEncoder(SCHEMA).features(PEOPLE)
    for k in range(2):
        models = []
        for classes in (["no", "yes"], [0, 1], ["yes", "no"]):
            table = list(encoded_tables(tmp_path))[k]
            model = dp.PrivateLogisticRegression(epsilon=1e4, classes=classes, **TWO).fit(table)
            assert model.classes_.tolist() == classes
            models.append(model)
        assert np.array_equal(models[0].coef_, models[1].coef_)
        assert np.sign(models[0].coef_[0, 0]) == -np.sign(models[2].coef_[0, 0])
        assert models[0].score(features, PEOPLE["ill"]) > 0.9
        assert models[2].score(features, PEOPLE["ill"]) > 0.9


def test_other_labels_than_the_schema_s_are_refused_in_the_estimator_s_words(tmp_path):
    remedy = re.escape("pass PrivateLogisticRegression(classes=['no', 'yes'])")
    for table in encoded_tables(tmp_path):
        for classes in (["no", "maybe"], ["no", "yes", "x"], [0, 1, 2], [-1, 1]):
            with pytest.raises(DataError, match=remedy):
                dp.PrivateLogisticRegression(epsilon=1.0, classes=classes, **TWO).fit(table)
        with pytest.raises(DataError, match=r"has classes. Use a classifier"):
            dp.PrivateLinearRegression(epsilon=1.0, label_range=(0, 1), **TWO).fit(table)
        with pytest.raises(ParameterError, match="needs classes"):
            dp.PrivateLogisticRegression(epsilon=1.0, **TWO).fit(table)
    number = Schema((Category("job", ("a", "b")),), NumberLabel("age", 0, 100))
    for table in encoded_tables(tmp_path, number, PEOPLE[["job", "age"]]):
        with pytest.raises(DataError, match=r"has none. Use a regressor"):
            dp.PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], **TWO).fit(table)
    turned = Schema((Category("job", ("a", "b")),), ClassLabel("y", (1, 0)))
    for table in encoded_tables(tmp_path, turned, PEOPLE[["job"]].assign(y=[0, 1] * (N // 2))):
        with pytest.raises(DataError, match=r"List them as \[0, 1\]"):
            dp.PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], **TWO).fit(table)


@pytest.mark.parametrize("classes", [[-1, 1], [1, -1]])
def test_signs_are_classes_too(tmp_path, classes):
    signs = PEOPLE[["age"]].assign(y=np.where(PEOPLE["age"] > 50, 1, -1))
    for table in encoded_tables(tmp_path, Schema((Number("age", 0, 100),), SignLabel("y")), signs):
        model = dp.PrivateLogisticRegression(epsilon=1e4, classes=classes, **TWO).fit(table)
        assert model.predict([[0.9], [-0.9]]).tolist() == [1, -1]


@pytest.mark.parametrize("labels", [NUMBERS > 0, pd.Series(NUMBERS > 0), pl.Series(NUMBERS > 0)])
def test_a_type_that_cannot_be_the_declared_classes_is_refused(labels):
    """A dtype is public; that labels are -1 and 1 where 0 and 1 were declared is not."""
    with pytest.raises(DataError, match="type bool are never -1"):
        dp.PrivateSVC(epsilon=1.0, classes=[-1, 1], **TWO).fit(X, labels)
    dp.PrivateSVC(epsilon=1.0, classes=[0, 1], **TWO).fit(X, labels)
    with pytest.raises(DataError, match="strings, but the table's labels are numbers"):
        dp.PrivateSVC(epsilon=1.0, classes=["no", "yes"], **TWO).fit(X, NUMBERS)


def test_the_advice_about_a_column_of_words_leads_to_a_fit():
    frame = PEOPLE[["age", "job"]].astype({"job": "string"})
    with pytest.raises(DataError, match=r"from_frame\(frame, encoder=data.TableEncoder\(schema\)"):
        dp.PrivateLogisticRegression(epsilon=1.0, classes=["no", "yes"], **TWO).fit(
            frame, PEOPLE["ill"]
        )
    table = dp.data.from_frame(PEOPLE, encoder=TableEncoder(SCHEMA))
    dp.PrivateLogisticRegression(epsilon=1.0, classes=["no", "yes"], **TWO).fit(table)


def test_half_a_character_is_no_class():
    with pytest.raises(ParameterError, match="half a character"):
        dp.PrivateLogisticRegression(epsilon=1.0, classes=["\ud800", "b"], **TWO).fit(X, LABELS)
    odd = LABELS.tolist()
    odd[0] = "\ud800"
    for given in (odd, np.array(odd, dtype=object), np.array(odd), pd.Series(odd, dtype=object)):
        classifier().fit(X, given)
