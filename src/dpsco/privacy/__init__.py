"""The privacy core: what may leave a run, what it costs, how its noise is drawn, who has paid.

Read in this order::

    budget              how much may be spent, against which neighbours, for whom
    release             the base of every record of what may leave, and the registry of kinds
    mechanisms/         one file per mechanism: its record, cost, noise, sentence
    accounting/         from releases to epsilon(delta): sensitivity, composition, calibration
    randomness          secure streams
    lattice             exact noise on a public lattice; rounded_normals draws it
    ledger              every noisy number is released through it
    certificate         what a run cost, recomputed by whoever reads it; in words: certificate_text
    odometer/           several runs under one budget
"""

from ..kernels.pairwise import SUM_LEAF, PairwiseSum, sum_rows
from .accounting.calibration import calibrate
from .accounting.composition import Cost, cost
from .budget import GDP, ZCDP, Adjacency, ApproxDP, Budget, PureDP, Unit
from .certificate import Certificate, Verification
from .ledger import Ledger
from .mechanisms import (
    ClipQuantileRelease,
    FadingSelectionRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixMechanism,
    PrefixSumRelease,
    RepeatedSelectionRelease,
    Runs,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
    gaussian_sigma,
    mechanism,
    prefix_sum_sigma,
    selection_scale,
)
from .odometer.odometer import Odometer
from .randomness import Randomness
from .release import Composition, Release

__all__ = [
    # budgets
    "Budget",
    "ApproxDP",
    "PureDP",
    "ZCDP",
    "GDP",
    "Adjacency",
    "Unit",
    # releases
    "Release",
    "GaussianRelease",
    "GeneralizedGaussianRelease",
    "SelectionRelease",
    "ClipQuantileRelease",
    "FadingSelectionRelease",
    "PrefixSumRelease",
    "PoissonGaussianRelease",
    "FixedSizeGaussianRelease",
    "ShuffledRelease",
    "ShuffledSequenceRelease",
    "StableGaussianRelease",
    "StableGammaRelease",
    "WithReplacementRelease",
    "ObjectivePerturbationRelease",
    "RepeatedSelectionRelease",
    "Runs",
    "Composition",
    # cost and noise
    "Cost",
    "cost",
    "calibrate",
    "gaussian_sigma",
    "prefix_sum_sigma",
    "selection_scale",
    "PrefixMechanism",
    "mechanism",
    "Randomness",
    # the run
    "SUM_LEAF",
    "PairwiseSum",
    "sum_rows",
    "Ledger",
    "Certificate",
    "Verification",
    "Odometer",
]
