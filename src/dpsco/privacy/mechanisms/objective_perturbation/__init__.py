"""Minimisers of an objective with a random linear term.

Read in this order:

release   the record, its cost and its noise
loss      its privacy profile, proved
zcdp      its Renyi divergences; `chi_law` has expectations over lengths of normal vectors
check     the same cost a second time, by another derivation
"""
