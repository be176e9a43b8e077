"""Several runs under one budget, in a file that outlives them.

Read in this order:

odometer   what was spent, what is left; refuses what the budget does not allow
file       the SQLite file, in transactions that are on the disk when they return
counter    the second place of its counter, which tells the newest copy from an old one
payment    whoever can pay, and what a run that was interrupted says of its payment
"""
