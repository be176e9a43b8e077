"""The path of a fit, from a task to a result.

Read `run` (plan and run: the one path of every fit), `choose` (which solver ``"auto"`` takes, and
what is predicted of one), `outlook` (what to expect before anything is paid), `tradeoff` (both for
several epsilons, with the bound on attacks), `rehearsal` and `made_up_rows` (the same, measured on
rows that cost nothing), `forecast` (what fewer rounds of a single epoch cost), `checkpoint` (what
brings a run over a crash), `resample` (empirical risk by a solver for population risk), then
`weight_noise` (how much noise there is in the weights) and `progress` (rounds as a bar).
"""
