"""From releases to epsilon(delta), for the worst row: the mathematics, without any mechanism.

Read in this order:

privacy_loss         what one execution of a release costs a row, or several rows at once, in each
                     notion of privacy
sensitivity          from a row's bound to the distance between neighbours: here and only here
composition          which releases touch a row together, and what they cost it
calibration          the least noise for a budget
attack_roc           bounds on every membership attack, from the privacy curve
cross_check          the same cost by a second accountant
gaussian, renyi, pld closed forms, Renyi divergences, privacy loss distributions (dp-accounting)
bounded_range        the exponential mechanism, alone and beside Gaussian releases
amplification        sampling and shuffling
resampling           a solver on rows that were drawn with replacement
stability            how far neighbours move the output of an algorithm

Mechanisms import from here, and nothing here imports a mechanism.
"""
