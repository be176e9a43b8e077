"""What the page says in plain language, whatever the run was."""

from __future__ import annotations

from ..data.counts import RowCount
from ..models.linear import LinearModel
from ..privacy.budget import Adjacency, Unit
from ..solvers.base import BasePlan

NEIGHBOURS: dict[Adjacency, str] = {
    Adjacency.REPLACE_ONE: (
        "The guarantee compares two tables that differ in the data of {who}: in the second table "
        "anything else stands in its place. The number of rows is public."
    ),
    Adjacency.ZERO_OUT: (
        "The guarantee compares two tables: in the second one the data of {who} is blanked out and "
        "contributes nothing. The number of rows is public."
    ),
    Adjacency.ADD_REMOVE: (
        "The guarantee compares two tables, one with the data of {who} and one without it. The "
        "number of rows is protected too."
    ),
}

QUESTION: dict[Adjacency, str] = {
    Adjacency.REPLACE_ONE: "whether the table holds the data of {who}, or something else instead",
    Adjacency.ZERO_OUT: "whether the data of {who} was used, or blanked out",
    Adjacency.ADD_REMOVE: "whether the data of {who} is in the table",
}

MODELS: dict[str, str] = {
    "logistic": "logistic regression",
    "sparse_logistic": "logistic regression with a bound on the sum of the weights' sizes",
    "svc": "support vector classification",
    "linear": "linear regression (least squares)",
    "lasso": "least squares with a bound on the sum of the weights' sizes",
    "simplex": "least squares with weights of at least 0 and a given sum",
    "huber": "Huber regression",
    "quantile": "quantile regression",
    "absolute": "regression by least absolute residuals",
    "epsilon_insensitive": "support vector regression",
}

LOSSES: dict[str, str] = {
    "Logistic": "logistic loss",
    "Softmax": "cross-entropy",
    "Hinge": "hinge loss",
    "SquaredHinge": "squared hinge loss",
    "QHinge": "hinge loss raised to a power",
    "OneVersusRest": "hinge loss of each class against the others",
    "Squared": "squared error",
    "Huber": "Huber loss",
    "Pinball": "pinball loss",
    "Absolute": "absolute error",
    "EpsilonInsensitive": "absolute error beyond a width",
    "SquaredDistance": "squared distance",
}

MEASURED_ON: dict[str, str] = {
    "public": "These rows are public, so the numbers cost no privacy.",
    "paid": (
        "These rows are private. The numbers carry noise and were paid for from a budget. This "
        "certificate covers them only if they are among its releases."
    ),
    "unpaid": (
        "These rows are private and the numbers are exact: nothing protects those rows here, and "
        "the certificate does not cover them. Keep the numbers to yourself, or take them out "
        "before the report is passed on."
    ),
}

UNCERTAIN: dict[str, str] = {
    "public": "± two standard errors, given this number of rows",
    "paid": "± two standard deviations of the noise",
    "unpaid": "± two standard errors, given this number of rows",
}

ENCODED = (
    "Weights belong to encoded columns: the schema scales a number's range to -1 to 1 and gives "
    "each value of a category a column of 0 and 1."
)
AS_READ = "Weights are for columns as the model reads them."

PROVENANCE: tuple[tuple[str, str], ...] = (
    ("purpose", "Purpose"),
    ("dataset", "Dataset"),
    ("period", "Period"),
    ("owner", "Owner of the data"),
    ("approver", "Approved by"),
    ("date", "Date"),
)

SEEDED = (
    "Reproducible: the guarantee holds only while the seed is secret. This run drew its noise from "
    "a given seed. Anybody who knows or guesses it can remove the noise. Use seeds for tests only."
)

VERDICTS: dict[str, str] = {
    "good": "Noise leaves most of what can be learnt",
    "weak": "Noise is expected to take more than half of what can be learnt",
    "constant": "Expect a model no better than a constant prediction",
    "hopeless": "Noise exceeds what can be learnt",
    "unknown": "Nothing is predicted",
}

VERDICT_MEANS: dict[str, str] = {
    "VALID": (
        "The cost was recomputed from the releases and agrees with the certificate, which "
        "belongs to these weights and this plan."
    ),
    "NOT TIED": (
        "The cost was recomputed from the releases and agrees with the certificate. Nothing "
        "here ties it to weights."
    ),
    "NOT VALID": ("Do not rely on this certificate: its claims do not follow from its releases."),
}

TRADEOFF = (
    'Thick line: the solver that "auto" takes; thin lines: others. First picture: the expected '
    "excess risk with its band; dashed: the loss of the best constant prediction. Second picture: "
    "the proven bound on how often an attacker is right; guessing is right in 50 %."
)

NO_PLAN = "Without a plan nothing is known of the noise in the weights."
MOST_WEIGHTS = 60  # that a page lists

NOT_COVERED: tuple[tuple[str, str], ...] = (
    (
        "Choices made by looking at the rows",
        "Bounds, settings, categories or the solver must come from public knowledge. If somebody "
        "chose them by looking at the private rows, that choice is not protected.",
    ),
    (
        "Other uses of the same data",
        "Every further model, statistic or report on the same people adds to the cost. An odometer "
        "keeps the sum; this report speaks of one run only.",
    ),
    (
        "Facts about the whole population",
        "If the model shows that smokers fall ill more often, that can be held against a smoker, "
        "in the table or not. The guarantee is about the effect of taking part.",
    ),
    (
        "The holder of the rows",
        "The machine that runs the fit sees the data in the clear. Its operators, its program, "
        "its memory, swap and logs are trusted.",
    ),
    (
        "Timing and floating point",
        "The amount of computation is planned, except for milestones that the certificate lists. "
        "The time that a pass takes is not protected, so nobody may time the run from outside. "
        "Released numbers lie on a public lattice, on which the noise has its exact distribution.",
    ),
    (
        "A forged certificate",
        "Verification recomputes the cost of the releases that the certificate lists. It cannot "
        "know whether these releases were the ones that ran. The digest is not a signature.",
    ),
)

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "Certificate",
        "A file that lists every release of a run and claims what they cost. Anybody can recompute "
        "the claims from it, without the data.",
    ),
    (
        "Clipping",
        "Shortening a row, or its influence on a step, to a public bound, so that no row matters "
        "more than the noise can hide.",
    ),
    (
        "Delta (δ)",
        "The slack: a bound on the chance that a run reveals more than epsilon allows. It should "
        "be far below one over the number of rows.",
    ),
    (
        "Epsilon (ε)",
        "How much the probability of anything observable can change because of one protected "
        "unit: at most by the factor e^ε. Smaller is more private; common choices lie between "
        "0.1 and 10.",
    ),
    (
        "Excess risk",
        "How much larger the model's average loss is than that of the best model without privacy. "
        "The value here is predicted from public facts; eight of ten real tables lay in its range.",
    ),
    (
        "False alarm",
        "An attacker says that the data was used when it was not.",
    ),
    (
        "Neighbouring tables",
        "Two tables that differ in the data of one protected unit. The guarantee says that the "
        "output barely tells them apart.",
    ),
    (
        "Odometer (ledger)",
        "A file that adds up what several runs on the same data cost, and refuses more than the "
        "budget.",
    ),
    (
        "Privacy curve",
        "All pairs of epsilon and delta that hold for the run. One pair is a point on it; the "
        "whole curve says more.",
    ),
    (
        "Release",
        "Anything that left the data, with its noise. Whatever is computed from releases "
        "costs nothing more.",
    ),
    (
        "Sigma (σ)",
        "The standard deviation of the noise on a sum over rows, for each coordinate.",
    ),
)


def protected(unit: Unit) -> str:
    """Return whom the budget protects.

    >>> protected(Unit()), protected(Unit(3, "person"))
    ('one row', 'one person (up to 3 rows)')
    """
    return f"one {unit.name}" + (f" (up to {unit.rows:,} rows)" if unit.rows > 1 else "")


def size(plan: BasePlan, model: LinearModel | None, counted: RowCount | None) -> str:
    """Return on how much was fitted; a model names its features already."""
    features = f" of {plan.d:,} features" if model is None else ""
    return f"{plan.n:,} rows{features}" + ("" if counted is None else f"; {counted}")
