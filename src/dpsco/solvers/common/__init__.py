"""What several families share.

`options` (checks of settings, in one wording), `clips` (how hard to clip by default) and
`smoothing` (how smooth a nonsmooth loss is made) serve everybody. `batches` is the plan of the
single-epoch and the recursive solvers: one batch per round, and which correlated noise.
`lp_constants` (a loss where weights are measured in l_p) serves mirror descent and proximal steps.
`refits` mends the scale of scores and the intercepts where descent ends; `loss_meter` reads the
loss off released gradients, and says how small a clip it calls for.

Heavy tails: `found_clip` plans and pays for a clip that a run finds, and has the steppers that use
it; `mean_oracle` says how gradients without a bound are bounded, `moment_clips` which clip follows
from moments, or from nothing.

`passes` takes the sequential steps of phased SGD and output perturbation. Objective perturbation
and phased ERM minimise whole objectives: read `glm_objective` (an objective and the rounding of its
gradients), `quadratic` (one Newton model), then `minimise` (the certificate).
"""
