"""What several families share.

`clips` (how hard to clip by default) and `smoothing` (how smooth a nonsmooth loss is made) serve
everybody. `refits` mends the scale of scores and the intercepts where descent ends. `found_clip`
plans and pays for a clip that a run finds, and has the steppers that use it; `mean_oracle` says how
gradients without a bound are bounded, `moment_clips` which clip follows from moments, or from
nothing. `lp_constants` (a loss where weights are measured in l_p) serves mirror descent and
proximal steps. `batches` is the plan of the single-epoch and the recursive solvers. `passes` takes
the sequential steps of phased SGD and output perturbation. Objective perturbation and phased ERM
minimise whole objectives: read `glm_objective` (an objective and the rounding of its gradients),
`quadratic` (one Newton model), then `minimise` (the certificate).
"""
