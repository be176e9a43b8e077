"""Prefix-sum noise: factorisation, sensitivity, streaming, known answers, statistics, refusals."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpsco.errors import ParameterError, RandomnessError
from dpsco.privacy import prefix_matrices
from dpsco.privacy.prefix_noise import NoiseStream
from dpsco.privacy.prefix_sums import MECHANISMS, PrefixMechanism, mechanism

HORIZONS = range(1, 34)
BANDED = ("banded", "bisr")


def variants(rounds: int) -> list[PrefixMechanism]:
    """Every mechanism and option that exists for a horizon."""
    power = rounds >= 2 and rounds & (rounds - 1) == 0
    found = [mechanism(name, rounds=rounds) for name in MECHANISMS if name not in BANDED]
    found += [
        mechanism(name, rounds=rounds, drop_root=True) for name in ("tree", "tree_honaker") if power
    ]
    bands = sorted({b for b in (1, 2, 5, rounds // 2, rounds) if 1 <= b <= rounds})
    return found + [mechanism(name, rounds=rounds, bands=b) for name in BANDED for b in bands]


def streamed_decoder(noise: PrefixMechanism) -> np.ndarray:
    """The decoder as the stream applies it: draw number j is the j-th unit vector."""
    units = iter(np.eye(noise.draws()))
    stream = noise.start(lambda: next(units))
    increments = [stream.next() for _ in range(noise.rounds)]
    assert next(units, None) is None, "the stream must use exactly draws() draws"
    assert stream.position == noise.rounds
    return np.cumsum(increments, axis=0)


def norms(columns: np.ndarray) -> list[float]:
    return [math.sqrt(math.fsum(x * x for x in column)) for column in columns.T.tolist()]


def achieved_mu(decoder: np.ndarray, sigma: float, bound: float = 1.0) -> np.ndarray:
    """Whitened shift of the released prefixes for a canary in each round."""
    shifts = bound * np.tril(np.ones((len(decoder), len(decoder))))
    covariance = sigma**2 * decoder @ decoder.T
    return np.sqrt(np.sum(shifts * np.linalg.solve(covariance, shifts), axis=0))


def increments_of(noise: PrefixMechanism, values: list[float]) -> list[float]:
    feed = iter(values)
    stream = noise.start(lambda: np.array([next(feed)]))
    return [float(stream.next()[0]) for _ in range(noise.rounds)]


def check_mechanism(noise: PrefixMechanism) -> None:
    """What must hold for every mechanism at every horizon."""
    encoder, decoder = noise.encoder(), noise.decoder()
    assert encoder.shape == (noise.draws(), noise.rounds) == decoder.shape[::-1]
    ones = np.tril(np.ones((noise.rounds, noise.rounds)))
    np.testing.assert_allclose(decoder @ encoder, ones, rtol=0, atol=1e-10)
    slack = 1e-10 if noise.name == "bisr" else 1e-12  # its series is inverted in floats
    assert 0 <= noise.column_norm - max(norms(encoder)) < slack
    np.testing.assert_allclose(streamed_decoder(noise), decoder, rtol=0, atol=1e-12)
    np.testing.assert_allclose(noise.prefix_std(), norms(decoder.T), rtol=1e-12)


@pytest.mark.parametrize("rounds", HORIZONS)
def test_encoder_decoder_and_stream_agree(rounds: int) -> None:
    for noise in variants(rounds):
        check_mechanism(noise)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.data())
def test_any_horizon(rounds: int, data: st.DataObject) -> None:
    noise = data.draw(st.sampled_from(variants(rounds)))
    check_mechanism(noise)
    assert achieved_mu(noise.decoder(), noise.column_norm).max() <= 1 + 1e-9


@pytest.mark.parametrize("rounds", HORIZONS)
def test_encoder_is_causal(rounds: int) -> None:
    """The draws of a round are made when the node is complete, never before its last leaf."""
    for noise in variants(rounds):
        decoder = noise.decoder()
        first_use = (decoder != 0).argmax(axis=0)
        last_leaf = [np.flatnonzero(row).max() for row in noise.encoder()]
        assert (first_use >= last_leaf).all()


# The whitened-shift audit


@pytest.mark.parametrize("rounds", HORIZONS)
def test_audit_never_exceeds_the_target(rounds: int) -> None:
    mu, bound = 0.5, 3.0
    for noise in variants(rounds):
        sigma = bound * noise.column_norm / mu
        achieved = achieved_mu(streamed_decoder(noise), sigma, bound)
        assert achieved.max() <= mu + 1e-9
        if noise.name == "toeplitz_cn":
            np.testing.assert_allclose(achieved, mu, rtol=1e-10)
        if noise.name in ("toeplitz", "banded", "bisr", "blt", "tree"):
            assert achieved[0] == pytest.approx(mu, rel=1e-10)
            too_small = achieved_mu(streamed_decoder(noise), 0.99 * sigma, bound)
            assert too_small.max() > mu + 1e-9  # the audit has power


def test_audit_of_plain_toeplitz() -> None:
    noise = mechanism("toeplitz", rounds=15)
    achieved = achieved_mu(streamed_decoder(noise), noise.column_norm / 0.5)
    np.testing.assert_allclose(achieved[[0, 7, 14]], [0.5, 0.47264914, 0.36056151], atol=6e-9)


@pytest.mark.parametrize("rounds", [7, 15, 16, 23])
def test_audit_of_the_tree_counts_nodes(rounds: int) -> None:
    counts = (mechanism("tree", rounds=rounds).encoder() != 0).sum(axis=0)
    noise = mechanism("tree", rounds=rounds)
    achieved = achieved_mu(streamed_decoder(noise), noise.column_norm / 0.5)
    np.testing.assert_allclose(achieved, 0.5 * np.sqrt(counts / rounds.bit_length()), rtol=1e-10)


# Known answers


def test_square_root_coefficients() -> None:
    r, q, energy = prefix_matrices.square_root(200)
    assert r[:6].tolist() == [1, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375]
    assert q[:6].tolist() == [1, -0.5, -0.125, -0.0625, -0.0390625, -0.02734375]
    root, inverse, total = Fraction(1), Fraction(1), Fraction(0)
    for k in range(200):
        if k:
            root *= 1 - Fraction(1, 2 * k)
            inverse *= (k - Fraction(3, 2)) / k
        total += root**2
        assert (r[k], q[k], energy[k]) == (float(root), float(inverse), float(total))


@pytest.mark.parametrize(
    ("rounds", "square"),
    [(1, 1), (2, 1.25), (4, 1.48828125), (8, 1.718379259109), (16, 1.943878847157),
     (32, 2.166975379769), (64, 2.388848108295), (1000, 3.265003080672)],
)  # fmt: skip
def test_toeplitz_column_norm(rounds: int, square: float) -> None:
    noise = mechanism("toeplitz", rounds=rounds)
    assert noise.column_norm**2 == pytest.approx(square, abs=1e-12)
    assert noise.error_max() == pytest.approx(square, abs=1e-12)
    landau = (math.log(rounds) + np.euler_gamma + 4 * math.log(2)) / math.pi
    assert noise.column_norm**2 <= 1.0663 + math.log(rounds) / math.pi
    assert abs(square - landau + 1 / (4 * math.pi * rounds)) < 0.02 / rounds**2


def test_normalised_toeplitz_at_four_rounds() -> None:
    noise = mechanism(rounds=4)
    scales = [1.2199513310, 1.1792476415, 1.1180339887, 1.0]
    np.testing.assert_allclose(prefix_matrices.column_scales(4), scales, atol=6e-11)
    ones = increments_of(noise, [1, 1, 1, 1])
    np.testing.assert_allclose(ones, [1.2199513310, 0.5896238208, 0.4192627458, 0.3125], atol=6e-11)
    prefix = [1.2199513310, 1.8095751518, 2.2288378975, 2.5413378975]
    np.testing.assert_allclose(np.cumsum(ones), prefix, atol=6e-11)
    unit = [1.2199513310, -0.5896238208, -0.1397542486, -0.0625]
    np.testing.assert_allclose(increments_of(noise, [1, 0, 0, 0]), unit, atol=6e-11)
    plain = np.cumsum(increments_of(mechanism("toeplitz", rounds=4), [1, 1, 1, 1]))
    np.testing.assert_allclose(plain, [1, 1.5, 1.875, 2.1875], atol=1e-15)


@pytest.mark.parametrize(
    ("rounds", "norm", "kappa", "first", "last"),
    [(27, 1.453422769, 2.283610210e-2, 3.319051075e-2, 4.099335473e-2),
     (7, 1.294024909, 5.916917212e-3, 7.656638257e-3, 8.753762740e-3),
     (69, 1.553345512, 3.661229324e-4, 5.687154139e-4, 7.363167530e-4),
     (3, 1.179247642, 3.637751953e-2, 4.289810411e-2, 4.640407712e-2)],
)  # fmt: skip
def test_plans_of_the_specification(
    rounds: int, norm: float, kappa: float, first: float, last: float
) -> None:
    assert mechanism("toeplitz", rounds=rounds).column_norm == pytest.approx(norm, abs=6e-10)
    std = kappa * mechanism(rounds=rounds).prefix_std()
    assert std[[0, -1]].tolist() == pytest.approx([first, last], rel=1e-9)


@pytest.mark.parametrize("name", ["tree", "tree_honaker"])
@pytest.mark.parametrize(
    ("rounds", "drop_root", "levels"),
    [(1, False, 1), (2, False, 2), (3, False, 2), (7, False, 3), (15, False, 4), (16, False, 5),
     (2, True, 1), (8, True, 3), (16, True, 4), (17, False, 5), (1023, False, 10)],
)  # fmt: skip
def test_tree_levels(name: str, rounds: int, drop_root: bool, levels: int) -> None:
    noise = mechanism(name, rounds=rounds, drop_root=drop_root)
    assert noise.column_norm == pytest.approx(math.sqrt(levels), rel=1e-14)
    assert noise.memory_vectors() == levels


@pytest.mark.parametrize(
    "counts",
    [[3, 2, 2, 1, 2, 1, 1],
     [4, 3, 3, 2, 3, 2, 2, 1, 3, 2, 2, 1, 2, 1, 1],
     [5, 4, 4, 3, 4, 3, 3, 2, 4, 3, 3, 2, 3, 2, 2, 1]],
)  # fmt: skip
def test_tree_nodes_above_each_leaf(counts: list[int]) -> None:
    noise = mechanism("tree", rounds=len(counts))
    assert noise.encoder().sum(axis=0).tolist() == counts
    popcounts = [i.bit_count() for i in range(1, len(counts) + 1)]
    np.testing.assert_allclose(noise.prefix_std() ** 2, popcounts, rtol=1e-14)


@pytest.mark.parametrize("rounds", HORIZONS)
def test_honaker_is_the_best_causal_estimate(rounds: int) -> None:
    """No unbiased linear estimate from the nodes complete so far has less variance."""
    for noise in (n for n in variants(rounds) if n.name == "tree_honaker"):
        encoder = noise.encoder()
        last = np.array([np.flatnonzero(row).max() for row in encoder])
        best = [
            np.linalg.inv(encoder[last <= t, : t + 1].T @ encoder[last <= t, : t + 1]).sum()
            for t in range(rounds)
        ]
        np.testing.assert_allclose(noise.prefix_std() ** 2, best, rtol=1e-10)
        assert noise.draws() == 2 * rounds - rounds.bit_count() - noise.drop_root


def test_single_round_costs_plain_gaussian_noise() -> None:
    for noise in variants(1):
        assert noise.column_norm == pytest.approx(1.0, rel=1e-14)
        assert noise.prefix_std().tolist() == [1.0]
        assert increments_of(noise, [2.5]) == [2.5]


@pytest.mark.parametrize(
    ("rounds", "buffers", "square", "error"),
    [(16, 2, 1.942575408, 1.9440), (64, 2, 2.381163082, 2.3913), (256, 2, 2.801344082, 2.8480),
     (1024, 3, 3.263789154, 3.2776), (4096, 3, 3.686785187, 3.7324),
     (16384, 3, 4.090591060, 4.2032)],
)  # fmt: skip
def test_blt_designs(rounds: int, buffers: int, square: float, error: float) -> None:
    noise = mechanism("blt", rounds=rounds)
    assert noise.memory_vectors() == buffers
    assert noise.column_norm**2 == pytest.approx(square, abs=6e-10)
    assert noise.error_max() == pytest.approx(error, abs=6e-5)


@pytest.mark.parametrize("rounds", [1, 2, 17, 100, 5000, 16385, 40_000])
def test_blt_norm_is_that_of_the_actual_horizon(rounds: int) -> None:
    series = prefix_matrices.blt_series(rounds)
    exact = math.sqrt(math.fsum(c * c for c in series.tolist()))
    assert 0 <= mechanism("blt", rounds=rounds).column_norm - exact < 1e-12
    beyond = prefix_matrices.blt_design(16385)[0]
    assert beyond.tolist() == prefix_matrices.blt_design(16384)[0].tolist()


ERRORS = {  # largest / root mean square: tree, tree_honaker, toeplitz, toeplitz_cn; lower bound
    16: ((4.472, 3.211), (3.723, 2.663), (1.9439, 1.7968), (1.7833, 1.7091), 1.6284),
    32: ((5.477, 3.897), (4.441, 3.156), (2.1670, 2.0120), (1.9968, 1.9163), 1.8305),
    64: ((6.481, 4.594), (5.154, 3.652), (2.3888, 2.2297), (2.2118, 2.1277), 2.0401),
    128: ((7.483, 5.297), (5.865, 4.151), (2.6101, 2.4488), (2.4279, 2.3417), 2.2544),
    256: ((8.485, 6.003), (6.574, 4.650), (2.8310, 2.6688), (2.6450, 2.5573), 2.4714),
    512: ((9.487, 6.710), (7.282, 5.150), (3.0518, 2.8892), (2.8626, 2.7739), 2.6901),
    1024: ((10.488, 7.417), (7.989, 5.650), (3.2726, 3.1098), (3.0807, 2.9914), 2.9096),
    2048: ((11.489, 8.124), (8.697, 6.150), (3.4932, 3.3305), (3.2992, 3.2093), 3.1296),
    4096: ((12.490, 8.832), (9.404, 6.650), (3.7139, 3.5513), (3.5180, 3.4276), 3.3499),
}


@pytest.mark.parametrize("rounds", ERRORS)
def test_error_table(rounds: int) -> None:
    names = ("tree", "tree_honaker", "toeplitz", "toeplitz_cn")
    for name, (largest, rms) in zip(names, ERRORS[rounds][:4], strict=True):
        digits = 6e-4 if name.startswith("tree") else 6e-5
        noise = mechanism(name, rounds=rounds)
        assert noise.error_max() == pytest.approx(largest, abs=digits)
        assert noise.error_rms() == pytest.approx(rms, abs=digits)
    assert nuclear_bound(rounds) == pytest.approx(ERRORS[rounds][4], abs=6e-5)


def nuclear_bound(rounds: int) -> float:
    """The mean singular value of the prefix sums: no factorisation has less error."""
    k = np.arange(1, rounds + 1)
    return float(np.mean(0.5 / np.sin((2 * k - 1) * math.pi / (4 * rounds + 2))))


def test_nuclear_bound_is_the_mean_singular_value() -> None:
    for rounds in (1, 5, 64):
        values = np.linalg.svd(np.tril(np.ones((rounds, rounds))), compute_uv=False)
        assert nuclear_bound(rounds) == pytest.approx(values.mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("rounds", "tree", "honaker"), [(15, 4, 3.33), (63, 6, 4.772), (255, 8, 6.198)]
)
def test_good_horizons_of_the_trees(rounds: int, tree: float, honaker: float) -> None:
    assert mechanism("tree", rounds=rounds).error_max() == pytest.approx(tree, abs=1e-12)
    assert mechanism("tree_honaker", rounds=rounds).error_max() == pytest.approx(honaker, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "bands", "ratio"),
    [("banded", 8, 4.10), ("banded", 32, 2.33), ("banded", 256, 1.18), ("banded", 512, 1.06),
     ("bisr", 8, 2.85), ("bisr", 32, 1.64), ("bisr", 256, 1.03), ("bisr", 512, 1.00)],
)  # fmt: skip
def test_banded_against_toeplitz(name: str, bands: int, ratio: float) -> None:
    banded = mechanism(name, rounds=1024, bands=bands).error_max()
    assert banded / mechanism("toeplitz", rounds=1024).error_max() == pytest.approx(ratio, abs=6e-3)


@pytest.mark.parametrize(
    ("noise", "error"),
    [(mechanism("toeplitz_cn", rounds=64), 1.230), (mechanism("toeplitz", rounds=64), 1.238),
     (mechanism("tree", rounds=63), 1.746), (mechanism("tree", rounds=64), 1.857),
     (mechanism("banded", rounds=64, bands=1), 4.673)],
)  # fmt: skip
def test_error_of_the_mean_prefix(noise: PrefixMechanism, error: float) -> None:
    mean = np.linalg.norm(streamed_decoder(noise).mean(axis=0))
    assert noise.column_norm * mean == pytest.approx(error, abs=6e-4)


@pytest.mark.parametrize("rounds", [*range(1, 34), 64, 100, 256])
def test_default_has_the_least_error_above_the_lower_bound(rounds: int) -> None:
    default = mechanism(rounds=rounds)
    lower = nuclear_bound(rounds)
    assert lower <= default.error_rms() * (1 + 1e-12)
    assert default.error_max() <= 1.1 * lower
    for noise in variants(rounds):
        assert default.error_max() <= noise.error_max() * (1 + 1e-12)
        assert default.error_rms() <= noise.error_rms() * (1 + 1e-12)


# Statistics: seeds fixed, false-alarm rate 1e-6 a test

SAMPLES = 20_000  # coordinates are independent copies of the stream


def prefix_noise(noise: PrefixMechanism, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    stream = noise.start(lambda: generator.standard_normal(SAMPLES))
    return np.cumsum([stream.next() for _ in range(noise.rounds)], axis=0)


def variance_rejected(sample: np.ndarray, std: np.ndarray) -> bool:
    """Two-sided chi-square test of each prefix's variance, shared out over the rounds."""
    tail = 1e-6 / (2 * len(std))
    statistic = np.sum((sample / std[:, np.newaxis]) ** 2, axis=1)
    low, high = special.chdtri(SAMPLES, 1 - tail), special.chdtri(SAMPLES, tail)
    return bool(np.any((statistic < low) | (statistic > high)))


@pytest.mark.parametrize("rounds", [7, 16])
def test_variance_of_the_prefix_noise(rounds: int) -> None:
    for seed, noise in enumerate(variants(rounds)):
        sample, std = prefix_noise(noise, seed), noise.prefix_std()
        assert not variance_rejected(sample, std)
        assert variance_rejected(1.1 * sample, std)
        assert variance_rejected(sample / 1.1, std)


@pytest.mark.parametrize("rounds", [7, 16])
def test_covariance_of_the_prefix_noise(rounds: int) -> None:
    """Whitened prefixes are uncorrelated; white noise of the right variances is not accepted."""
    pairs = np.triu_indices(rounds, 1)
    limit = -special.ndtri(1e-6 / (2 * len(pairs[0]))) * 1.05 / math.sqrt(SAMPLES)
    for seed, noise in enumerate(variants(rounds)):
        decoder = noise.decoder()
        factor = np.linalg.cholesky(decoder @ decoder.T)

        def worst(sample: np.ndarray, factor: np.ndarray = factor) -> float:
            white = np.linalg.solve(factor, sample)
            return float(np.abs(white @ white.T / SAMPLES)[pairs].max())

        assert worst(prefix_noise(noise, 100 + seed)) < limit
        independent = np.random.default_rng(seed).standard_normal((rounds, SAMPLES))
        assert worst(noise.prefix_std()[:, np.newaxis] * independent) > limit


# The stream as an object


def test_stream_ends_at_the_horizon() -> None:
    for noise in variants(8):
        stream = noise.start(lambda: np.ones(3))
        for t in range(8):
            assert stream.position == t
            assert stream.next().shape == (3,)
        with pytest.raises(RandomnessError, match="8 rounds"):
            stream.next()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_stream_cannot_be_duplicated(duplicate: object) -> None:
    stream = mechanism(rounds=3).start(lambda: np.ones(2))
    stream.next()
    with pytest.raises(RandomnessError, match="copied or pickled"):
        duplicate(stream)  # type: ignore[operator]


def test_stream_stays_in_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = mechanism(rounds=3).start(lambda: np.ones(2))
    monkeypatch.setattr("dpsco.privacy.prefix_noise.os.getpid", lambda: -1)
    with pytest.raises(RandomnessError, match="process"):
        stream.next()


def test_stream_shares_no_memory_with_its_surroundings() -> None:
    """Draws in one reused buffer and increments overwritten by the caller change nothing."""
    for noise in variants(16):
        numbers, buffer = count(1.0), np.empty(2)

        def reuse(numbers: count = numbers, buffer: np.ndarray = buffer) -> np.ndarray:
            buffer[:] = next(numbers) ** 0.5
            return buffer

        stream, seen = noise.start(reuse), []
        for _ in range(16):
            increment = stream.next()
            seen.append(increment[0])
            increment[:] = np.nan
        expected = increments_of(noise, [(j + 1.0) ** 0.5 for j in range(noise.draws())])
        np.testing.assert_allclose(seen, expected, rtol=1e-12, atol=1e-12)


def test_state_is_plain_and_as_large_as_stated() -> None:
    for noise in variants(16):
        stream = noise.start(lambda: np.ones(5))
        assert stream.state()["memory"].shape == (noise.memory_vectors(), 0)
        for _ in range(16):
            stream.next()
        state = stream.state()
        assert (state["position"], state["drawn"]) == (16, noise.draws())
        assert state["memory"].shape == (noise.memory_vectors(), 5)


def test_a_failed_round_ends_the_stream() -> None:
    vectors = iter([np.ones(3), np.ones(4), np.ones(3)])
    stream = mechanism("blt", rounds=5).start(lambda: next(vectors))
    stream.next()
    with pytest.raises(RandomnessError, match="one length"):
        stream.next()
    with pytest.raises(RandomnessError, match="interrupted"):
        stream.next()


@pytest.mark.parametrize("vector", [np.array([np.nan]), np.ones((2, 2)), np.ones(0), np.float64(1)])
def test_bad_draws_are_refused(vector: np.ndarray) -> None:
    with pytest.raises(RandomnessError, match="finite vector"):
        mechanism(rounds=2).start(lambda: vector).next()


def test_description_is_public_data() -> None:
    for noise in variants(16):
        again = mechanism(**json.loads(json.dumps(dataclasses.asdict(noise))))
        assert again == noise
        assert hash(again) == hash(noise)
        with pytest.raises(dataclasses.FrozenInstanceError):
            noise.rounds = 1  # type: ignore[misc]
    assert type(mechanism(rounds=np.int64(3)).rounds) is int


# Refusals


@pytest.mark.parametrize(
    "arguments",
    [
        {"rounds": 0},
        {"rounds": -3},
        {"rounds": 4.0},
        {"rounds": math.nan},
        {"rounds": True},
        {"rounds": "4"},
        {"rounds": None},
        {"name": "bisr", "rounds": 4},
        {"name": None, "rounds": 4},
        {"name": ["tree"], "rounds": 4},
        {"name": "banded", "rounds": 4},
        {"name": "banded", "rounds": 4, "bands": 0},
        {"name": "banded", "rounds": 4, "bands": 5},
        {"name": "banded", "rounds": 4, "bands": math.nan},
        {"name": "banded", "rounds": 4, "bands": True},
        {"name": "bisr", "rounds": 4, "bands": 5},
        {"name": "toeplitz", "rounds": 4, "bands": 2},
        {"name": "tree", "rounds": 1, "drop_root": True},
        {"name": "tree", "rounds": 7, "drop_root": True},
        {"name": "tree_honaker", "rounds": 12, "drop_root": True},
        {"name": "toeplitz_cn", "rounds": 8, "drop_root": True},
        {"name": "tree", "rounds": 8, "drop_root": 1},
        {"name": "tree", "rounds": 8, "drop_root": math.nan},
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        mechanism(**arguments)
    with pytest.raises(ParameterError):
        PrefixMechanism(**{"name": "toeplitz_cn", **arguments})


def test_stream_needs_a_mechanism_and_a_function() -> None:
    with pytest.raises(ParameterError, match="draw"):
        mechanism(rounds=2).start(np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="PrefixMechanism"):
        NoiseStream("tree", lambda: np.ones(3))  # type: ignore[arg-type]
