"""Plans of the Frank-Wolfe family: known answers of the specification, and what they cost."""

import itertools
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.data.vertices import VertexSet
from dpsco.errors import AccuracyWarning, AssumptionError, ParameterError
from dpsco.geometry import L1, L2, LINF, Lp
from dpsco.losses import Absolute, Hinge, Logistic, Sigmoid
from dpsco.privacy import ZCDP, ApproxDP, PureDP, SelectionRelease, cost, selection_scale
from dpsco.privacy.accounting import gaussian, renyi
from dpsco.solvers import get
from dpsco.solvers.frank_wolfe import published, rates, schedule

BUDGET = ApproxDP(1.0, 1e-6)
SIGN = dp.Bounds(1.0, label="sign", norm=LINF)
KEYS = ("noisy_fw_gll", "poly_sfw", "noisy_sfw_lp")


def sigmoid(radius=3.0):
    return dp.Problem(loss=Sigmoid(), bounds=SIGN, domain=dp.domains.L1Ball(radius))


def absolute():
    bounds = dp.Bounds(1.0, label=2.0, norm=LINF)
    return dp.Problem(loss=Absolute(), bounds=bounds, domain=dp.domains.L1Ball(1.0))


def disc(d=10):
    bounds = dp.Bounds(1.0, label="sign")
    return dp.Problem(loss=Sigmoid(), bounds=bounds, domain=dp.domains.L2Ball(5.0))


def make(key, problem, n=10_000, d=50, budget=BUDGET, calibration="tight", **options):
    return dp.plan(
        problem, n=n, d=d, budget=budget, solver=key, calibration=calibration, options=options
    )


# -- full passes (specification, section 5.5) ------------------------------------------------------


def test_known_answers_of_full_passes():
    plan = make("noisy_fw_gll", absolute(), d=100)
    assert plan.rounds == 833
    assert plan.smoothing == pytest.approx(7.22409164, rel=1e-8)
    # The zCDP of the specification, 0.02615380, is a little above what Renyi composition needs.
    assert 0.99 * 0.02615380 < plan.scale / 10_000 <= 0.02615380
    (release,) = plan.releases()
    assert release.bound == pytest.approx(2.0, rel=1e-9)  # L0 R D of the sums
    assert (release.candidates, release.count, release.noise) == (200, 833, "gumbel")


def test_a_nonsmooth_loss_may_be_descended_itself():
    plan = make("noisy_fw_gll", absolute(), smoothing=0.0)
    assert (plan.smoothing, plan.loss) == (0.0, plan.problem.loss)
    assert make("noisy_fw_gll", absolute(), smoothing=0.5).loss != plan.loss
    with pytest.raises(ParameterError, match="smoothing"):
        make("noisy_fw_gll", absolute(), smoothing=-1.0)


def test_known_answers_of_the_published_full_passes():
    plan = make("noisy_fw_gll", absolute(), d=100, schedule="paper", calibration="paper")
    assert plan.rounds == 55
    assert plan.smoothing == pytest.approx(3.71254260, rel=1e-8)
    assert plan.scale / 10_000 == pytest.approx(0.04678009, rel=1e-6)
    assert plan.noise == "laplace"
    tight = make("noisy_fw_gll", absolute(), d=100, schedule="paper")
    ratio = plan.scale / tight.scale
    assert 6.9609 <= ratio < 7.3  # by zCDP 6.9609; Renyi composition is a little tighter
    assert plan.step_at(0) == 1.0
    assert [plan.step_at(t) for t in (1, 2)] == [3 / 4, 3 / 5]
    assert [make("noisy_fw_gll", absolute()).step_at(t) for t in range(3)] == [1.0, 2 / 3, 1 / 2]


def test_a_range_is_the_diameter_times_the_clip():
    """Not twice the radius and diameter, nor the radius: that would double epsilon."""
    for domain, norm, d, diameter in (
        (dp.domains.L1Ball(3.0), L1, 4, 6.0),
        (dp.domains.Simplex(2.0), L1, 4, 4.0),
        (dp.domains.Polytope([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]), L2, 2, 5.0),
    ):
        assert VertexSet(domain, d).diameter(norm) == pytest.approx(diameter, rel=1e-9)
        problem = dp.Problem(loss=Hinge(), bounds=dp.Bounds(1.0, label="sign"), domain=domain)
        plan = make("noisy_fw_gll", problem, d=d)
        assert plan.norm == norm.dual
        assert plan.releases()[0].bound == pytest.approx(diameter * plan.clip, rel=1e-9)


@pytest.mark.parametrize(
    ("rounds", "noise", "e0"),
    [
        (1, "permute_and_flip", 1.0),
        (10, "laplace", 0.1001),
        (50, "laplace", 0.0344),
        (100, "laplace", 0.0240),
        (1000, "laplace", 0.0075),
        (2, "gumbel", 0.5081),
        (5, "gumbel", 0.2328),
        (10, "gumbel", 0.1498),
        (50, "gumbel", 0.0632),
        (100, "gumbel", 0.0444),
        (1000, "gumbel", 0.0140),
    ],
)
def test_the_largest_share_of_each_selection(rounds, noise, e0):
    """The composition table of section 4: bounded range for Gumbel noise only."""
    scale = selection_scale(
        BUDGET, bound=1.0, candidates=9, rows=(0, 100), count=rounds, noise=noise
    )
    assert 2.0 / scale == pytest.approx(e0, abs=6e-5 if e0 < 0.5 else 2e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        (0.5, 1e-5, 0.00850553),
        (1.0, 1e-6, 0.02435597),
        (1.0, 1e-8, 0.01720532),
        (2.0, 1e-6, 0.08815269),
        (4.0, 1e-8, 0.23259431),
    ],
)
def test_budgets_of_selections(epsilon, delta, rho):
    assert renyi.rho(epsilon, delta) == pytest.approx(rho, rel=2e-6)
    assert rates.zcdp(ApproxDP(epsilon, delta)) == pytest.approx(rho, rel=2e-6)
    assert rates.zcdp(ZCDP(rho)) == pytest.approx(rho, rel=1e-9)


# -- one pass of selections (6.6) ------------------------------------------------------------------

FACTS = rates.Geometry(L1, 6.0, 0.25, 1.0 / (6.0 * math.sqrt(3.0)), 1.0)
SHARES = [rates.momentum(t) for t in range(4)]
PAPER = [published.step(t) for t in range(4)]
TUNED = [rates.default_step(t) for t in range(4)]
RHO = renyi.rho(1.0, 1e-6)


def ranges(clips, sizes):
    """Return range_{t,k} = 2 D P G_k/b_k: the table of spreads under replace-one."""
    fresh = [12.0 * clip / size for clip, size in zip(clips, sizes, strict=True)]
    return rates.fading_bounds(fresh, SHARES)


def zcdp_scales(table, shape):
    """Return the scales of a shape that spend RHO on the worst batch, by zCDP alone."""
    paid = rates.paid_by_batch(table, shape, 2.0) / 8.0
    return [math.sqrt(paid.max() / RHO) * each for each in shape]


def test_known_answers_of_the_published_steps():
    clips = rates.clips(PAPER, SHARES, FACTS)
    assert clips == pytest.approx([0.25, 0.32322330, 0.31688360, 0.29166667], rel=1e-7)
    table = ranges(clips, (1000, 500, 333, 250))
    assert [row[0] for row in table] == pytest.approx(
        [0.003, 0.00087868, 0.00037137, 0.00018569], abs=6e-9
    )
    assert [row[1] for row in table[1:]] == pytest.approx(
        [0.00775736, 0.00327865, 0.00163932], abs=6e-9
    )
    assert [row[2] for row in table[2:]] == pytest.approx([0.01141923, 0.00570961], abs=6e-9)
    assert table[3][3] == pytest.approx(0.014, rel=1e-9)
    alike, seen = rates.scale_shapes(table)
    assert zcdp_scales(table, alike) == pytest.approx([0.03171614] * 4, abs=6e-9)
    assert zcdp_scales(table, seen) == pytest.approx(
        [0.00714403, 0.01943708, 0.02892305, 0.03171614], abs=6e-9
    )


def test_known_answers_of_the_default_steps():
    clips = rates.clips(TUNED, SHARES, FACTS)
    assert clips == pytest.approx([0.25, 0.32322330, 0.30701552, 0.26933757], rel=1e-7)
    table = ranges(clips, (250,) * 4)
    alike, seen = rates.scale_shapes(table)
    assert zcdp_scales(table, alike) == pytest.approx([0.03887417] * 4, abs=6e-9)
    assert zcdp_scales(table, seen) == pytest.approx(
        [0.03030737, 0.04122931, 0.03958712, 0.03106243], abs=6e-9
    )


def test_the_move_before_a_round_sets_its_clip():
    """|w_t - w_{t-1}| <= gamma_{t-1} D, which is longer than gamma_t D."""
    smooth = rates.Geometry(L1, 6.0, 1.0, 0.01, 1.0)
    clips = rates.clips(TUNED, SHARES, smooth)
    for t in range(1, 4):
        share = SHARES[t]
        assert clips[t] == (1 - share) * 0.01 * 6.0 * TUNED[t - 1] + share
        assert clips[t] > (1 - share) * 0.01 * 6.0 * TUNED[t] + share


def test_rounds_and_batches():
    sizes = make("poly_sfw", sigmoid(), n=3000).sizes
    assert sizes == (176,) * 17
    few = dp.Task(sigmoid(), 10_000, 50, BUDGET)
    assert rates.fresh_rounds(few, 100, 200) == 31
    task = dp.Task(sigmoid(), 100_000, 50, BUDGET)
    assert rates.fresh_rounds(task, 100, 200) == 98
    assert published.usage(1000, (1, 2, 4)) == 4583
    assert published.largest_batch(10_000, (1, 2, 4, 8)) == 1370
    assert published.largest_batch(100_000, published.stages(5)) == 9362
    assert published.polyhedral_passes(task, 100) == 2
    plan = make("poly_sfw", sigmoid(), n=1003, rounds=10)
    assert plan.sizes == (100,) * 10
    for n in (1, 2, 3, 7, 59):
        plan = make("poly_sfw", sigmoid(), n=n)
        assert 1 <= len(plan.sizes) <= n
        assert sum(plan.sizes) <= n


def test_every_row_enters_one_batch():
    plan = make("poly_sfw", sigmoid(), n=400, rounds=2, schedule="paper")
    assert plan.stages == (1, 2)
    rows = [line.rows for line in plan.trace()]
    assert rows[0][0] == 0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(rows))
    assert rows[-1][1] <= 400
    first, second, third = plan.releases()  # a pass starts anew
    assert first.rows == rows[0]
    assert second.rows == rows[1]
    assert third.rows == (rows[1][0], rows[2][1])
    assert third.new_rows == rows[2]


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("kind", [ApproxDP, PureDP, ZCDP])
@pytest.mark.parametrize("rounds", [1, 2, 12])
def test_plans_spend_their_budget(adjacency, kind, rounds):
    budget = kind(*((1.0, 1e-6) if kind is ApproxDP else (0.5,)), adjacency=adjacency)
    for key, problem in (("noisy_fw_gll", absolute()), ("poly_sfw", sigmoid())):
        plan = make(key, problem, n=2000, budget=budget, rounds=rounds)
        spent, allowed = plan.cost.against(budget)
        assert 0.985 * allowed <= spent <= allowed


def test_a_bound_for_each_batch_saves_noise():
    """One bound for all rows of a release: 2.47 times the noise at n = 1e4, by zCDP."""
    plan = make("poly_sfw", sigmoid())
    newest = [release.bounds[-1] for release in plan.releases()]
    table = [list(release.bounds) for release in plan.releases()]
    alike = rates.paid_by_batch(table, [1.0] * len(table), 2.0).max()
    assert math.sqrt(sum(bound**2 for bound in newest) / alike) == pytest.approx(2.47, abs=0.005)
    one_bound = [
        SelectionRelease(release.bounds[-1], release.scale, 100, rows=release.rows)
        for release in plan.releases()
    ]
    assert cost(one_bound).epsilon(1e-6) > 3.0


def test_zero_out_halves_the_noise():
    for key, problem in (("noisy_fw_gll", absolute()), ("poly_sfw", sigmoid())):
        whole = make(key, problem, n=1000)
        half = make(key, problem, n=1000, budget=ApproxDP(1.0, 1e-6, adjacency="zero_out"))
        pairs = zip(whole.releases(), half.releases(), strict=True)
        assert all(a.scale == pytest.approx(2 * b.scale, rel=1e-5) for a, b in pairs)


def test_without_differences_each_batch_is_selected_once():
    plan = make("poly_sfw", sigmoid(), variance_reduction=False)
    kinds = {(release.kind, release.noise) for release in plan.releases()}
    assert kinds == {("selection", "permute_and_flip")}
    assert [release.bound for release in plan.releases()] == pytest.approx([1.5] * 31, rel=1e-9)
    e0 = 2 * plan.releases()[0].bound / plan.scales[0]
    assert e0 == pytest.approx(1.0, abs=2e-5)  # parallel: each is the only one on its rows


def test_the_published_selections_are_covered_by_the_accountant():
    plan = make("poly_sfw", sigmoid(), n=100_000, schedule="paper", calibration="paper")
    spent, allowed = plan.cost.against(BUDGET)
    assert plan.noise == "laplace"
    assert 0.05 * allowed < spent < 0.5 * allowed  # section 6.4: it suffices with room


def test_published_passes_need_many_rows():
    with pytest.raises(AssumptionError, match="makes no pass at n = 3,000"):
        make("poly_sfw", sigmoid(), n=3000, schedule="paper")


# -- one pass of Gaussian noise (7.5) --------------------------------------------------------------


def test_known_answers_of_noisy_means():
    clips = rates.clips(TUNED, SHARES, rates.Geometry(L2, 6.0, 0.25, FACTS.smoothness, 1.0))
    sigmas = [2.0 * clip / (250 * BUDGET.mu_per_row()) for clip in clips]
    expected = [0.00844936, 0.01092412, 0.01037634, 0.00910292]
    assert sigmas == pytest.approx(expected, abs=6e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"),
    [(0.5, 1e-6, 0.93), (1.0, 1e-6, 0.98), (1.0, 1e-8, 1.03), (2.0, 1e-6, 1.04), (4.0, 1e-6, 1.13),
     (8.0, 1e-6, 1.26)],
)  # fmt: skip
def test_the_printed_noise_of_two_releases_does_not_suffice(epsilon, delta, ratio):
    """Gradient and difference of one batch, with gamma_t for gamma_{t-1}: section 7.3, at t = 1."""
    mu = epsilon / (2 * math.sqrt(math.log(1 / delta))) * math.sqrt(1 + 2)
    assert gaussian.epsilon(delta, mu) / epsilon == pytest.approx(ratio, abs=0.006)
    batch = published.sizes(1000, (1, 2))
    assert batch == (1000, 1000, 500)
    assert published.usage(int(1e5 / math.log(1e5) ** 2), published.stages(4)) == 5501


def test_rounds_of_noisy_means():
    task = dp.Task(disc(), 10_000, 10, BUDGET)
    reached = 0.5 * math.sqrt(10_000 * BUDGET.mu_per_row() / math.sqrt(10))
    assert reached == pytest.approx(13.68, abs=0.005)
    assert rates.gaussian_rounds(task, 2.0, 999) == 14
    assert published.lp_passes(dp.Task(disc(), 100_000, 10, BUDGET), 2.0) == 4


def test_releases_are_in_units_of_the_clip_where_it_follows():
    plan = make("noisy_sfw_lp", disc(), d=10)
    assert {release.bound for release in plan.releases()} == {1.0}
    assert plan.cost.mu == pytest.approx(BUDGET.mu_per_row(), rel=1e-6)
    planned = make("noisy_sfw_lp", disc(), d=10, follow_steps=False)
    assert [release.bound for release in planned.releases()] == list(planned.clips)
    ratios = {release.sigma / release.bound for release in planned.releases()}
    assert max(ratios) == pytest.approx(min(ratios), rel=1e-12)
    assert plan.clips == planned.clips
    diameter = plan.geometries[1].diameter
    for t in range(1, len(plan.sizes)):
        longest = diameter * plan.step_at(t - 1)
        assert plan.clip_after(t, (longest, longest)) == pytest.approx(plan.clips[t], rel=1e-12)
        assert plan.clip_after(t, (0.0, 0.0)) == pytest.approx(plan.share(t) * 0.25, rel=1e-12)


def test_balls_have_a_geometry_of_their_own():
    for p, expected in ((1.5, 1.5), (2.0, 2.0), (3.0, 2.0), (1.0, 1.0 + 1.0 / math.log(50))):
        problem = dp.Problem(loss=Sigmoid(), bounds=SIGN, domain=dp.domains.LpBall(p, 2.0))
        facts = rates.ball_geometry(dp.Task(problem, 100, 50, BUDGET))
        assert facts.norm == Lp(expected)
        assert facts.feature == pytest.approx(50 ** (1.0 - 1.0 / expected), rel=1e-12)
        assert facts.lipschitz == pytest.approx(0.25 * facts.feature, rel=1e-12)
    small = dp.Problem(loss=Sigmoid(), bounds=SIGN, domain=dp.domains.L1Ball(2.0))
    assert rates.ball_geometry(dp.Task(small, 100, 2, BUDGET)).norm == L2  # 1 + 1/ln d exceeds 2


# -- what plans refuse -----------------------------------------------------------------------------


def refusal(key, problem, **more):
    with pytest.raises(AssumptionError) as caught:
        make(key, problem, **more)
    return str(caught.value)


def test_domains_without_vertices_or_minimisers():
    free = dp.Problem(loss=Logistic(), bounds=SIGN)
    ball = dp.Problem(loss=Logistic(), bounds=SIGN, domain=dp.domains.L2Ball(1.0))
    box = dp.Problem(loss=Logistic(), bounds=SIGN, domain=dp.domains.LInfBall(1.0))
    for key in KEYS:
        assert "give a bounded domain, such as domains.L1Ball" in refusal(key, free)
    for key in KEYS[:2]:
        assert "it selects among vertices, and L2Ball(radius=1.0) has none" in refusal(key, ball)
        assert "too many to enumerate: 2**50 of them" in refusal(key, box)
    make("noisy_sfw_lp", ball)
    make("noisy_sfw_lp", box)


def test_losses_without_a_constant():
    hinge = dp.Problem(loss=Hinge(), bounds=SIGN, domain=dp.domains.L1Ball(1.0))
    for key in KEYS[1:]:
        assert "losses.Smoothed(loss, b) is smooth" in refusal(key, hinge)
    assert "is not convex" in refusal("noisy_fw_gll", sigmoid())


@pytest.mark.parametrize("key", KEYS)
def test_budgets_that_do_not_pay(key):
    problem = absolute() if key == "noisy_fw_gll" else sigmoid()
    removed = ApproxDP(1.0, 1e-6, adjacency="add_remove")
    assert "adjacency='zero_out' (same noise) or 'replace_one'" in refusal(
        key, problem, budget=removed
    )
    other = PureDP(1.0) if key == "noisy_sfw_lp" else dp.GDP(1.0)
    assert "cannot be paid from a" in refusal(key, problem, budget=other)


@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan])
def test_a_radius_is_a_positive_number(radius):
    with pytest.raises(ParameterError, match="radius"):
        dp.domains.L1Ball(radius)


def test_options_that_fit_nothing():
    for options in ({"rounds": 201}, {"schedule": "none"}, {"output": "best"}, {"clip": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            make("poly_sfw", sigmoid(), **options)
    with pytest.raises(ParameterError, match="rounds must be at most n = 20"):
        make("poly_sfw", sigmoid(), n=20, rounds=30)
    with pytest.raises(ParameterError, match="variance_reduction"):
        make("poly_sfw", sigmoid(), variance_reduction="yes")


def test_rows_in_the_largest_norm_are_told_which_bounds_would_do():
    problem = dp.Problem(loss=Logistic(), bounds=SIGN, domain=dp.domains.L1Ball(2.0))
    text = refusal("noisy_gd", problem, d=100)
    assert "Bounds(feature_norm=10, norm=L2)" in text
    assert "noisy_fw_gll" in text.split("Solvers that apply: ")[1]
    applying = [each.solver for each in dp.recommend(problem, 10_000, 100, BUDGET).ranked]
    assert set(KEYS) <= set(applying)


def test_a_random_point_is_drawn_with_the_plan():
    drawn = {make("noisy_sfw_lp", disc(), d=10, output="random").chosen for _ in range(40)}
    assert drawn <= set(range(14))
    assert len(drawn) >= 5  # fewer with probability below 1e-12
    assert make("noisy_sfw_lp", disc(), d=10).chosen == 14


def test_plans_survive_json_and_refuse_other_numbers():
    for key, problem in zip(KEYS, (absolute(), sigmoid(), disc()), strict=True):
        plan = make(key, problem, n=300, d=10, rounds=4)
        assert dp.load_plan(plan.to_json()) == plan
        assert get(key).stepper(plan).query().bound > 0
    plan = make("poly_sfw", sigmoid(), n=300, rounds=4)
    text = plan.to_json().replace('"sizes": [75', '"sizes": [750')
    assert text != plan.to_json()
    with pytest.raises(ParameterError, match="fit no table"):
        dp.load_plan(text)


@pytest.mark.parametrize("key", KEYS)
def test_risks_fall_with_rows(key):
    problem = absolute() if key == "noisy_fw_gll" else sigmoid()
    risks = [get(key).risk(dp.Task(problem, n, 50, BUDGET)) for n in (1000, 10_000, 100_000)]
    assert np.all(np.diff(risks) < 0)
    assert get(key).gradients(dp.Task(problem, 1000, 50, BUDGET)) >= 1000


@pytest.mark.parametrize("key", KEYS)
def test_too_few_rows_are_warned_of_before_the_fit(key):
    problem = absolute() if key == "noisy_fw_gll" else sigmoid()
    assert make(key, problem, n=10_000).warnings == ()
    X, y = np.ones((10, 50)), np.ones(10)
    with pytest.warns(AccuracyWarning, match=f"{key}: (the )?noise") as said:
        dp.solve(problem, (X, y), BUDGET, solver=key)
    assert said[0].filename == __file__


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("noisy_fw_gll", {}),
        ("poly_sfw", {}),
        ("poly_sfw", {"variance_reduction": False}),
    ],
)
def test_the_warning_begins_where_noise_is_half_of_the_largest_gap(key, options):
    """Rows that all agree set two vertices apart by rows times the spread of one row's scores."""
    problem = absolute() if key == "noisy_fw_gll" else sigmoid()
    for n in (30, 60, 120, 240):
        plan = make(key, problem, n=n, rounds=2, **options)
        release = plan.releases()[0]
        bounds = getattr(release, "bounds", None) or (release.bound,)
        rows = release.rows[1] - release.rows[0]
        ratio = release.scale * math.log(100) / (rows * bounds[-1])
        assert bool(plan.warnings) is (ratio > 0.5)
        if plan.warnings:
            assert f"noise of a selection is {ratio:.2g} times" in plan.warnings[0]
    assert make(key, problem, n=30, rounds=2, **options).warnings
    assert ratio < 0.5  # both sides were seen


def test_schedule_names_are_the_two():
    assert published.SCHEDULES == ("default", "paper")
    assert schedule.step_of("paper")(3) == 0.5
    assert schedule.step_of("default")(3) == 0.4
