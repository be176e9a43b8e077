"""Noise is never shared between classes, fits, processes or threads.

Rows of zeros have no gradient, so a model's coefficients are its noise alone. Independent vectors
of m = 200 normals have a sample correlation beyond 6 / sqrt(m) = 0.42 with probability below 1e-8;
shared noise has correlation 1.
"""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed

import dpsco as dp

D, CLASSES, LIMIT = 200, 4, 6 / 200**0.5


def noise_of(model):
    """Fit on nothing; return one row of noise a class."""
    X, y = np.zeros((50, D)), np.zeros(50)
    return model.fit(X, y).coef_


def model_of(kind=dp.PrivateLogisticRegression, **others):
    return kind(
        epsilon=1.0,
        feature_norm=1.0,
        classes=range(CLASSES),
        solver="noisy_gd",
        options={"rounds": 1},
        **others,
    )


def largest_correlation(vectors):
    found = np.abs(np.corrcoef(np.vstack(vectors)) - np.eye(len(np.vstack(vectors))))
    return found.max()


def test_the_measure_sees_shared_noise():
    noise = noise_of(model_of())
    assert noise.shape == (CLASSES, D)
    assert noise.std() > 0
    assert largest_correlation([noise, noise]) > 0.999
    assert largest_correlation([noise, 0.5 * noise + 0.5 * noise_of(model_of())]) > LIMIT


@pytest.mark.parametrize("kind", [dp.PrivateLogisticRegression, dp.PrivateSVC])
def test_classes_have_noise_of_their_own(kind):
    assert largest_correlation([noise_of(model_of(kind)), noise_of(model_of(kind))]) < LIMIT


@pytest.mark.slow
def test_workers_of_joblib_have_noise_of_their_own():
    model = model_of()  # pickled into each worker
    found = Parallel(n_jobs=2)(delayed(noise_of)(model) for _ in range(4))
    assert largest_correlation(found) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_have_noise_of_their_own(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform cannot {method}")
    model = model_of()
    before = noise_of(model)  # whatever generator there is has been used before the fork
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        found = list(pool.map(noise_of, [model] * 4))
    assert largest_correlation([before, *found, noise_of(model)]) < LIMIT


def test_threads_and_copies_have_noise_of_their_own():
    model = model_of()
    copies = [pickle.loads(pickle.dumps(model)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(noise_of, copies))
    assert largest_correlation(found) < LIMIT


def test_a_seed_repeats_noise_and_says_so():
    first, second = model_of(random_state=7), model_of(random_state=7)
    assert np.array_equal(noise_of(first), noise_of(second))
    assert largest_correlation([noise_of(first)]) < LIMIT  # between classes there is none
    assert first.certificate_.reproducible
    assert "seed" in " ".join(first.certificate_.trusted)
