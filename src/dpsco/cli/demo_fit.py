"""A private spam filter on real messages: the path of every fit, from a file to a certificate.

The rows are bundled (``demo_data/``, with source and licence). Their schema is public; the model,
its budget and its plan are settled before a row is read; the other messages, which the fit does not
see, tell how good it is beside a model without privacy and one that learns nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import Schema
from ..data.tables.frames import from_frame
from ..data.tables.table import Table
from ..errors import MissingExtraError
from ..files.writing import explained, write_files
from ..models import SavedModel
from ..models.config import ModelConfig, configure_for
from ..models.plan import ModelPlan, plan_model
from ..privacy import certificate_text as statement
from ..privacy.budget import fit_budget
from ..privacy.certificate import Certificate
from ..privacy.randomness import Randomness

Floats = NDArray[np.float64]

HOME = Path(str(resources.files(__package__))) / "demo_data"
FEATURE_NORM = 2.0  # as long as a message with four of the words
TRIVIAL, PLAIN = "always the larger class", "not private"


@dataclass(frozen=True)
class Outcome:
    """What the demonstration prints and writes."""

    saved: SavedModel
    accuracy: dict[str, float]  # on fresh messages, by model
    rows: tuple[int, int]  # fitted on, measured on

    @property
    def certificate(self) -> Certificate:
        """What the private model cost."""
        return self.saved.certificate

    def __str__(self) -> str:
        plan, spent = self.saved.plan, statement.spent(self.certificate)
        assert plan is not None
        lines = [
            f"Is a text message spam? Fitted on {self.rows[0]:,} messages, {plan.d} features; "
            f"measured on {self.rows[1]:,} others.",
            "",
            f"{'model':<28}{'accuracy':>10}  privacy",
        ]
        costs = {TRIVIAL: "nothing learnt", PLAIN: "none"}
        lines += [
            f"{name:<28}{100 * value:>8.1f} %  {costs.get(name, spent)}"
            for name, value in self.accuracy.items()
        ]
        return "\n".join([*lines, "", f"solver: {plan.solver}"])

    def save(self, folder: Path, more: Mapping[str, tuple[str, bytes]] = {}) -> dict[str, Path]:
        """Write model, certificate, schema, fresh messages and report; return where they are.

        All of them are written, or none. The report is left out where its extra is not installed.

        Args:
            folder: where; it is made if it is not there.
            more: other files by what they are: their name, and what they hold.

        Raises:
            DataError: a file cannot be written.
        """
        contents = {
            "model": ("model.json", _json(self.saved.to_json(), indent=1)),
            "certificate": ("certificate.json", _json(self.certificate.to_json(), indent=2)),
        }
        with contextlib.suppress(MissingExtraError):
            contents["report"] = ("report.html", self._report().encode())
        for name, file in (("schema", "schema.json"), ("fresh rows", "fresh_messages.parquet")):
            contents[name] = (file, (HOME / file).read_bytes())
        contents |= more
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_files({folder / file: content for file, content in contents.values()})
        return {name: folder / file for name, (file, _) in contents.items()}

    def _report(self) -> str:
        from ..fit.choose import recommend
        from ..report import Utility, render

        plan = self.saved.plan
        assert plan is not None
        trivial, private, plain = ({"accuracy": value} for value in self.accuracy.values())
        return render(
            self.certificate,
            plan=plan,
            recommendation=recommend(plan.task).with_attacks(plan.task, "all"),
            utility=Utility(
                private,
                f"{self.rows[1]:,} messages that the fit did not see",
                {TRIVIAL: trivial, PLAIN: plain},
            ),
            title="Privacy report: is a text message spam?",
            model=self.saved,
        )


@dataclass(frozen=True)
class Messages:
    """The bundled tables, and what is public of them."""

    schema: Schema
    encoder: TableEncoder
    config: ModelConfig
    private: Any  # frames
    fresh: Any

    @classmethod
    def load(cls) -> Messages:
        """Read them."""
        schema = Schema.load(HOME / "schema.json")
        config = configure_for(schema, "logistic", feature_norm=FEATURE_NORM)
        tables = _read("messages.parquet"), _read("fresh_messages.parquet")
        return cls(schema, TableEncoder(schema), config, *tables)

    @property
    def table(self) -> Table:
        """The messages that count as private, for a fit."""
        return from_frame(self.private, encoder=self.encoder)

    def plan(self, epsilon: float) -> ModelPlan:
        """Return the plan of a fit; delta is 1/n^2."""
        n, d = len(self.private), self.encoder.width
        budget = fit_budget(n, epsilon=epsilon)
        return plan_model(self.config, n=n, d=d, budget=budget, count_rows=False)

    def encoded(self, frame: Any) -> tuple[Floats, Floats]:
        """Return rows and labels of a frame, 1 for spam."""
        X, y = self.encoder.encode(frame)
        assert y is not None
        return X, y


def run(*, epsilon: float = 1.0, randomness: Randomness | None = None) -> Outcome:
    """Fit the bundled messages with and without privacy, and compare on fresh ones.

    Args:
        epsilon: the budget; delta is 1/n^2.
        randomness: secure by default; tests seed it.
    """
    messages = Messages.load()
    planned = messages.plan(epsilon)
    outcome = planned.run(messages.table, randomness=randomness)
    model, certificate = outcome.model, outcome.result.certificate
    names = messages.encoder.feature_names
    saved = SavedModel(model, certificate, planned.fit, messages.schema, names)
    (X, y), (Z, answers) = messages.encoded(messages.private), messages.encoded(messages.fresh)
    larger = float(np.mean(y) > 0.5)
    guesses = {
        TRIVIAL: np.full(len(answers), larger),
        f"private, epsilon {epsilon:g}": model.decision(Z) > 0,
        PLAIN: not_private(X, y)(Z) > 0,
    }
    accuracy = {name: float(np.mean(guess == answers)) for name, guess in guesses.items()}
    return Outcome(saved, accuracy, (len(y), len(answers)))


def _json(record: Any, *, indent: int) -> bytes:
    """Return JSON text as `SavedModel.save` and `Certificate.save` write it."""
    return (json.dumps(record, indent=indent, allow_nan=False) + "\n").encode()


def _read(name: str) -> Any:
    """Return a bundled table."""
    from ..data.schema.draft import read_public

    return read_public(HOME / name)


def not_private(X: Floats, y: Floats) -> Any:
    """Return the scores of logistic regression without privacy, with a trace of a penalty."""
    from scipy.optimize import minimize

    rows, signs = np.column_stack([X, np.ones(len(X))]), 2.0 * y - 1.0

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = signs * (rows @ weights)
        slopes = -signs / (1.0 + np.exp(np.clip(margins, -500, 500)))
        value = np.logaddexp(0.0, -margins).mean() + 0.5e-4 * weights @ weights
        return float(value), rows.T @ slopes / len(rows) + 1e-4 * weights

    weights = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
    return lambda Z: Z @ weights[:-1] + weights[-1]
