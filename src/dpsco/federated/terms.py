"""What a party and a coordinator tell each other before a run: that they agreed on the same things.

All of it is public, and both sides have it beforehand, each from its own files. It travels to be
compared: a party that holds another plan, trust model, encoding or roster is told so at once, and
does not first wait for a round.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import Schema
from ..errors import DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import parse_json
from ..models.config import ModelConfig, config_of, declared_classes, require_label
from ..models.file import SavedModel
from ..privacy.certificate_text import amounts, owner
from ..solvers.base import Result
from ..solvers.engine import EnginePlan
from .agreement import checked, fingerprint, helped_encoding
from .fixed_point import FixedPoint
from .pairwise_masks import Roster
from .protection import protected
from .trust import Trust

PROTOCOL = 1
"""Of the messages; another number means other fields."""

_WORDS = {
    "protocol": "version of the messages",
    "plan": "plan",
    "trust": "trust model",
    "encoding": "encoding of integers",
    "roster": "roster",
}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What was agreed on; equal on all sides.

    Args:
        plan: its `fingerprint`.
        trust: the trust model's name.
        encoding: of integers, in a few words; empty for floats.
        roster: its digest; empty where answers are not masked.
        protocol: of the messages.
    """

    plan: str
    trust: str
    encoding: str = ""
    roster: str = ""
    protocol: int = PROTOCOL

    def objection(self, others: Terms) -> str:
        """Return the first thing that the other side has otherwise, in words; empty if none."""
        for item in dataclasses.fields(self):
            ours, theirs = getattr(self, item.name), getattr(others, item.name)
            if ours != theirs:
                return f"another {_WORDS[item.name]}: {_short(theirs)} there, {_short(ours)} here"
        return ""

    def to_json(self) -> str:
        """Return JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Terms:
        """Return the terms that `to_json` wrote.

        Raises:
            ParameterError: these are no terms.
        """
        what = "the terms of a run"
        record = parse_json(text, what=what, limits=_limits.AGREEMENT, error=ParameterError)
        kinds = {item.name: int if item.name == "protocol" else str for item in FIELDS}
        if (
            not isinstance(record, dict)
            or set(record) != set(kinds)
            or any(type(record[name]) is not kind for name, kind in kinds.items())
        ):
            raise ParameterError(f"these are not {what}: their fields are others.")
        return cls(**record)


FIELDS = dataclasses.fields(Terms)


@dataclass(frozen=True)
class Agreement:
    """A plan with how its sums are added: what every side of a run makes of the same files.

    Without a roster a trusted coordinator adds floats. With one, integers are added behind masks;
    and where the roster has noise helpers, their noise is in every sum.

    Args:
        plan: of the run.
        roster: who takes part behind masks, or None.

    Raises:
        AssumptionError, ParameterError: the plan cannot be run by workers, or not with integers.
    """

    plan: EnginePlan
    roster: Roster | None = None

    def __post_init__(self) -> None:
        checked(self.plan)
        _ = self.encoding

    @property
    def trust(self) -> Trust:
        """Who has to be believed."""
        if self.roster is None:
            return Trust.TRUSTED_COORDINATOR
        return Trust.NOISE_HELPERS if self.roster.helpers else Trust.SECURE_AGGREGATION

    @property
    def helpers(self) -> int:
        """How many noise helpers there are."""
        return 0 if self.roster is None else len(self.roster.helpers)

    @property
    def encoding(self) -> FixedPoint | None:
        """How contributions become integers; None: they are floats."""
        if self.roster is None:
            return None
        choice = FixedPoint.choose(self.plan, helpers=self.helpers)
        return helped_encoding(self.plan, self.trust, choice, self.helpers)

    @property
    def terms(self) -> Terms:
        """What travels of it."""
        encoding = self.encoding
        return Terms(
            plan=fingerprint(self.plan),
            trust=self.trust.value,
            encoding="" if encoding is None else f"{encoding.step!r}, {encoding.bits} bits",
            roster="" if self.roster is None else self.roster.digest,
        )

    @property
    def config(self) -> ModelConfig:
        """The model that the plan is for.

        Raises:
            ParameterError: it is for none, or for rows in units that are found first.
        """
        config = config_of(self.plan)
        if config is None or config.units is not None:
            problem = "is for no model" if config is None else "looks for units before it fits"
            raise ParameterError(
                f"the plan {problem}, and parties fit one model in the units that its schema "
                "declares. Make it with: dpsco plan --units declared ... -o plan.json."
            )
        return config

    def check_schema(self, schema: Schema) -> None:
        """Refuse a schema of other columns or labels than the plan is for.

        Raises:
            DataError: it makes other rows.
        """
        config, width = self.config, TableEncoder(schema).width
        if width != self.plan.d or config.classes != declared_classes(require_label(schema)):
            raise DataError(
                f"the plan is for a {config.name} model of rows of {self.plan.d} features, the "
                f"schema makes rows of {width}, or has other labels. Use the schema that the plan "
                "was made with."
            )

    def saved(self, result: Result, schema: Schema | None = None) -> SavedModel:
        """Return the model of a run that is over, for a file."""
        model = self.config.model(result.weights)
        names = None if schema is None else TableEncoder(schema).feature_names
        return SavedModel(model, result.certificate, self.plan, schema, names)

    def __str__(self) -> str:
        """What a party agrees to, for people, before it joins."""
        plan, unit = self.plan, protected(self.plan)
        noise = sorted({line.sigma for line in plan.schedule() if line.sigma})
        ends = f"{noise[0]:g}" if len(noise) == 1 else f"{noise[0]:g} to {noise[-1]:g}"
        rows = f"{plan.n:,} {unit}s of all parties together"
        return "\n".join(
            [
                f"plan {fingerprint(plan)}: {plan.solver}, {plan.total_rounds:,} rounds, {rows}",
                f"  budget    {amounts(plan.budget)}, {plan.budget.adjacency.value}",
                f"  protects  {owner(plan.budget)}",
                f"  noise     standard deviation {ends} on each sum",
                *(f"  enforced  {sentence}" for sentence in plan.enforced),
                f"  trust     {self.trust.model}",
            ]
        )


def _short(value: object) -> str:
    """Return a term as a sentence shows it."""
    text = "".join(letter for letter in str(value) if letter.isprintable())
    return f"{text[:12]}..." if len(text) > 40 else text or "none"
