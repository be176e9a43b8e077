"""``recommend``: the solvers ranked by what was measured and predicted, before any data."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from .arguments import (
    PUBLIC_EXAMPLES,
    add_budget,
    add_calibration,
    add_json,
    add_label_facts,
    add_model,
    add_prefer,
    add_public_facts,
    command,
    expected,
    finite,
)

if TYPE_CHECKING:
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    recommend = command(
        commands,
        "recommend",
        "rank the solvers by measurements and predictions, without data",
        examples=PUBLIC_EXAMPLES.format("recommend"),
    )
    add_public_facts(recommend)
    add_budget(recommend, required=True)
    add_model(recommend)
    add_label_facts(recommend)
    add_json(recommend)
    add_calibration(recommend)
    add_prefer(recommend)
    recommend.set_defaults(run=_recommend)


def _recommend(options: argparse.Namespace, session: Session) -> int:
    from ..fit.choose import recommend
    from ..task import Task
    from .config import budget, from_options

    model = from_options(options)
    n = options.n
    task = Task(model.config.problem(), n, model.d, budget(options, n), options.calibration)
    ranking = recommend(task, prefer=options.prefer)
    best = ranking.best  # refuses where none applies
    ranking = ranking.with_attacks(task, "all")
    sentence = expected(options, task, best).sentence
    if options.json:
        record = ranking.to_json()
        for candidate in record["ranked"]:
            candidate["risk"] = finite(candidate["risk"])
        print(json.dumps({"best": best, "outlook": sentence, **record}, indent=2))
    else:
        print(f"{ranking}\n\nrecommended: {best}. {sentence}")
    return 0
