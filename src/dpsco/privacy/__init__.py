"""The privacy core: budgets, releases, accounting, noise, ledger, certificate, odometer.

| module                              | holds                                                     |
|-------------------------------------|-----------------------------------------------------------|
| budget                              | how much may be spent, against which neighbours, for whom |
| releases                            | records of what may leave                                 |
| release_base, output_releases       | their base; those that rest on a stability theorem        |
| charges, units                      | what a release costs a row, and several rows at once      |
| accounting, calibration             | releases to epsilon(delta); least noise for a budget      |
| gaussian, renyi, amplification, pld | the mathematics behind: closed forms and numerical bounds |
| gaussian_grid                       | Gaussian curves at many points, for mixtures              |
| stability                           | how far neighbours move a solver's output                 |
| perturbation, random_hits           | objective perturbation; averages over random hits         |
| perturbation_zcdp, chi_law          | its zCDP; expectations over lengths of normal vectors     |
| perturbation_check                  | its cost a second time, by another derivation             |
| repeated, repeated_charge           | privacy of the best of a secret number of runs            |
| repeated_release, repeated_ledger   | its record; how it is carried out                         |
| randomness                          | secure streams                                            |
| lattice, rounded_normals            | exact Gaussian noise on a lattice, and why it is exact    |
| selection, mechanisms               | exact noisy selection; laws that are computed in floats   |
| summation                           | sums of rows, and what rounding can do to them            |
| prefix_sums, _encoding, _noise,     | correlated noise for prefix sums                          |
| _matrices                           |                                                           |
| grid                                | rows as integers, for secure aggregation                  |
| ledger, ledger_parts, open_releases | the one door through which noisy numbers leave            |
| certificate, statement, witness     | what a run cost, in words; a second accountant's opinion  |
| odometer                            | several runs under one budget                             |
"""

from .accounting.calibration import calibrate, gaussian_sigma, prefix_sum_sigma
from .accounting.composition import Cost, cost
from .budget import GDP, ZCDP, Adjacency, ApproxDP, Budget, PureDP, Unit
from .certificate import Certificate, Verification
from .ledger import Ledger
from .mechanisms.prefix_sum.mechanism import PrefixMechanism, mechanism
from .mechanisms.releases import (
    Composition,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    Release,
    RepeatedSelectionRelease,
    SelectionRelease,
    ShuffledRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from .mechanisms.repeated_selection.profile import Runs
from .odometer.odometer import Odometer
from .randomness import Randomness
from .summation import SUM_LEAF, PairwiseSum, sum_rows

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
    "PrefixSumRelease",
    "PoissonGaussianRelease",
    "FixedSizeGaussianRelease",
    "ShuffledRelease",
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
