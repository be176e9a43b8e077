"""Tuning within one budget: the best of a secret number of fits, each of a random candidate.

Every run draws a candidate, fits it on one part of the rows, and scores it on the rest with noise;
only the run with the best noisy score is released. The number of runs stays secret, which is what
makes the search cheap: see `dpsco.privacy.mechanisms.repeated_selection`. Read in this order:

| module      | holds                                                                     |
|-------------|---------------------------------------------------------------------------|
| grid_search | `PrivateGridSearch`: parameters, what may be tuned, the fitted attributes |
| plan        | what a search decides before a row is read, and how it makes a run        |
| scoring     | how good a run is: sums of bounded parts, and the scores made of them     |
"""

from .grid_search import PrivateGridSearch

__all__ = ["PrivateGridSearch"]
