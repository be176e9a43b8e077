"""Known sizes, strengths and published phases."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.solvers.localized import published, rates

FACTS = published.Facts(
    n=1024, size=10, mu=0.5, distance=4.0, diameter=8.0, moment=1.5, second=1.0, lipschitz=3.0,
    order=2.0, power=1.0,
)  # fmt: skip


def test_published_phases():
    assert published.first_step(FACTS, 1024) == pytest.approx(0.02042195857, rel=1e-8)
    phases = published.phases(FACTS)
    first, second, last = phases[0], phases[1], phases[9]
    assert (first.rows, first.rounds, first.radius) == (512, 4112, 8.0)
    assert (first.step, first.strength, first.clip) == pytest.approx(
        (0.0051054896, 0.38255391, 8.3177311), rel=1e-7
    )
    assert (second.rows, second.rounds) == (256, 3831)
    assert (second.step, second.strength, second.clip, second.radius) == pytest.approx(
        (0.0012763724, 3.0604312, 5.8815241, 1.960508), rel=1e-7
    )
    assert (last.rows, last.rounds, len(phases)) == (1, 71, 10)
    assert sum(phase.rounds for phase in phases) == 15242
    assert sum(phase.rounds * phase.rows for phase in phases) == 3614937


def test_sizes_and_strengths():
    """n = 1000, d = 10, D0 = 2, r = 3, mu = 1/2, the clip of moments."""
    scales = rates.Size(1000, 10, 4.0, 0.5)
    assert rates.phase_sizes(scales) == (563, 250, 125, 62)
    pull = rates.first_strength(scales, 563, 200, 10.007266, 3.0)
    assert pull / 2.0 == pytest.approx(0.26502039, rel=1e-7)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (100, (7, 15, 78)),
        (1024, (51, 102, 204, 667)),
        (4096, (170, 341, 682, 2903)),
        (10_000, (376, 752, 1505, 7367)),
        (10**6, (25085, 50171, 100343, 200686, 623715)),
    ],
)
def test_stages(n, sizes):
    assert rates.stage_sizes(n) == sizes


@given(n=st.integers(1, 10**6), size=st.integers(1, 500), mu=st.floats(1e-3, 1e3))
@settings(max_examples=80, deadline=None)
def test_phases_and_stages_cover_all_rows(n, size, mu):
    scales = rates.Size(n, size, 2.0 / mu, mu)
    assert sum(rates.phase_sizes(scales)) == n
    assert min(rates.phase_sizes(scales)) >= min(n, scales.fewest)
    stages = rates.merged(rates.stage_sizes(n), scales.fewest)
    assert sum(stages) == n
    assert min(stages) >= min(n, scales.fewest)
    assert rates.sample_size(n) <= n
