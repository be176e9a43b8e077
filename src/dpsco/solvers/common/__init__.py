"""What several families share.

`clips` (how hard to clip by default) and `smoothing` (how smooth a nonsmooth loss is made) serve
everybody. `refits` mends the scale of scores and the intercepts where descent ends. `batches` is
the plan of the single-epoch and the recursive solvers. `passes` takes the sequential steps of
phased SGD and output perturbation. Objective perturbation and phased ERM minimise whole objectives:
read `glm_objective` (an objective and the rounding of its gradients), `quadratic` (one Newton
model), then `minimise` (the certificate).
"""
