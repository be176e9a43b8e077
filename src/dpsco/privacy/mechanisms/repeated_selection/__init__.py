"""The best of a secret, random number of private runs.

Read in this order:

profile        the laws of the number of runs, and the bounds, proved
release        the record and its cost, from what one run costs any row
best_of_runs   carrying it out: runs with ledgers of their own, of which one leaves
"""
