"""One file (or folder) per mechanism: record, cost, noise, sentence and storage of a release.

Read :mod:`..release` first, the base of every record, then `gaussian`, the model of all others.
The rest in any order:

gaussian, generalized_gaussian   sums over rows
sampled_gaussian                 sums over a secret sample: Poisson, or of fixed size
shuffled, shuffled_sequence      one report per row in secret order, at once or one after the other
selection                        the best of several candidates
fading_selection                 the same, where older rows count less
clip_quantile                    a clip near a quantile of the rows' norms
stable, with_replacement         outcomes of stable algorithms
prefix_sum/                      running sums with correlated noise
objective_perturbation/          minimisers of a tilted objective
repeated_selection/              the best of a secret number of runs
gamma                            Gamma numbers, for noise that is computed in floats

Importing this package registers every kind.
"""

from .clip_quantile import ClipQuantileRelease
from .fading_selection import FadingSelectionRelease
from .gaussian import GaussianRelease, gaussian_sigma
from .generalized_gaussian import GeneralizedGaussianRelease
from .objective_perturbation.release import ObjectivePerturbationRelease
from .prefix_sum.mechanism import PrefixMechanism, mechanism
from .prefix_sum.release import PrefixSumRelease, prefix_sum_sigma
from .repeated_selection.profile import Runs
from .repeated_selection.release import RepeatedSelectionRelease
from .sampled_gaussian import FixedSizeGaussianRelease, PoissonGaussianRelease
from .selection import SelectionRelease, selection_scale
from .shuffled import ShuffledRelease
from .shuffled_sequence import ShuffledSequenceRelease, shuffled_sigma
from .stable import StableGammaRelease, StableGaussianRelease
from .with_replacement import WithReplacementRelease

__all__ = [
    "ClipQuantileRelease",
    "FadingSelectionRelease",
    "FixedSizeGaussianRelease",
    "GaussianRelease",
    "GeneralizedGaussianRelease",
    "ObjectivePerturbationRelease",
    "PoissonGaussianRelease",
    "PrefixMechanism",
    "PrefixSumRelease",
    "RepeatedSelectionRelease",
    "Runs",
    "SelectionRelease",
    "ShuffledRelease",
    "ShuffledSequenceRelease",
    "StableGammaRelease",
    "StableGaussianRelease",
    "WithReplacementRelease",
    "gaussian_sigma",
    "mechanism",
    "prefix_sum_sigma",
    "selection_scale",
    "shuffled_sigma",
]
