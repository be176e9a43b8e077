"""Which releases touch a row: the sweep finds what looking at every row finds."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError
from dpsco.privacy.accounting.composition import heaviest_group, largest_groups

RANGES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
    max_size=14,
)


def by_rows(ranges):
    """Return the set of releases on each row."""
    last = max(stop for _, stop in ranges)
    return [
        frozenset(i for i, (low, high) in enumerate(ranges) if low <= row < high)
        for row in range(last)
    ]


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(RANGES)
def test_the_largest_sets_are_those_of_all_rows(ranges):
    groups = set(by_rows(ranges)) - {frozenset()}
    largest = {group for group in groups if not any(group < other for other in groups)}
    found = largest_groups(ranges)
    assert {frozenset(group) for group in found} == largest
    assert len(found) == len(largest)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(RANGES, st.randoms(use_true_random=False))
def test_the_heaviest_set_is_that_of_the_worst_row(ranges, rng):
    weights = [rng.choice((0.1, 0.25, 1.0, 3.0)) for _ in ranges]
    found = heaviest_group(ranges, weights)
    worst = max(math.fsum(weights[i] for i in group) for group in by_rows(ranges))
    assert math.fsum(weights[i] for i in found) == worst
    assert frozenset(found) in by_rows(ranges)


def test_many_batches_take_time_in_proportion():
    ranges = [(k, k + 1) for k in range(50_000)]
    started = time.process_time()
    assert len(heaviest_group(ranges, [1.0] * len(ranges))) == 1
    assert len(largest_groups(ranges)) == len(ranges)
    assert time.process_time() - started < 2.0


def test_more_overlaps_than_can_be_listed_are_refused_quickly():
    ranges = [(k, k + 5000) for k in range(10_000)]
    started = time.process_time()
    with pytest.raises(AssumptionError, match="2,000,000 members"):
        largest_groups(ranges)
    assert time.process_time() - started < 2.0
