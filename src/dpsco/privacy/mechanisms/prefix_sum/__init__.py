"""Running sums over rows with correlated Gaussian noise.

Read in this order:

mechanism   which matrices there are, their norms and errors
release     the record and its cost
encoding    what the noise is added to: the rows of C x
noise       from independent to correlated noise, round by round
streams     the open release: batch sums in, noisy prefix sums out
matrices    series and norms of the matrices
"""
