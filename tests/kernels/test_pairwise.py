"""Float sums of rows stay within the bound that the accountant adds for them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.kernels.pairwise import SUM_LEAF, rounding_slack, sum_rows


def exact_error(total, values):
    """How far a float total of scalars is from their exact sum."""
    return abs(Fraction(float(total)) - sum(map(Fraction, values.tolist())))


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 2, SUM_LEAF, SUM_LEAF + 1, 3 * SUM_LEAF, 50_000])
@pytest.mark.parametrize("kind", ["equal", "alternating", "one third"])
def test_error_is_within_the_slack_on_either_side(n, kind):
    values = {
        "equal": np.full(n, 0.1),
        "alternating": np.where(np.arange(n) % 2, 1.0, 1e-9 - 1.0),
        "one third": 1 / (3.0 + np.arange(n) % 7),
    }[kind]
    assert exact_error(sum_rows(values), values) <= Fraction(rounding_slack(n)) / 2


@pytest.mark.slow
def test_ordinary_sum_over_rows_is_what_the_bound_does_not_cover():
    # Rows in one column are added one by one by NumPy; the error here is far above pairwise leaves.
    n = 2_000_000
    values = np.full((n, 2), 0.1)
    plain = exact_error(values.sum(axis=0)[0], values[:, 0])
    ours = exact_error(sum_rows(values)[0], values[:, 0])
    assert plain > 100 * ours


@settings(max_examples=50, deadline=None)
@given(n=st.integers(0, 3 * SUM_LEAF + 5), d=st.integers(1, 3), single=st.booleans())
def test_shape_type_and_value(n, d, single):
    rows = np.arange(n * d, dtype=np.float32 if single else np.int64).reshape(n, d)
    total = sum_rows(rows)
    assert total.shape == (d,)
    assert total.dtype == np.float64
    assert total.tolist() == rows.astype(np.float64).sum(axis=0).tolist()  # whole numbers: exact
