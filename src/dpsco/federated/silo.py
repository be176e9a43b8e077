"""A party with rows for every round: a hospital, a bank. One name, one journal, a worker per round.

Where every round asks all rows there is one worker. In a single epoch each row belongs to one
round, so the rows are cut into one part per round, in their order and in proportion to the plan's
batches: by public numbers, so the order must not have been chosen by looking at the rows.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

from ..data.source import Source
from ..data.tables.origin import shareable
from ..data.tables.table import Table
from ..errors import LedgerError, ParameterError
from ..fit.run import as_table
from ..privacy.release import NonCopyable
from ..solvers.engine import EnginePlan
from .agreement import fingerprint
from .helper import NoiseHelper
from .journal import Journal
from .messages import Answer, Request, check_name
from .pairwise_masks import PairwiseMasks
from .protection import WORKER, protected, rounds_of
from .terms import Agreement
from .worker import Worker


class Silo(NonCopyable):
    """All rows of one party, answering every round of one run.

    Args:
        data: the party's rows, as `Worker` takes them.
        agreement: the plan, and how sums are added.
        name: of the party, public.
        masks: the party's own, where the agreement has a roster.
        journal: the file in which it writes down what it has answered; it goes on from it.

    Raises:
        AssumptionError, DataError, ParameterError: as `Worker` does.

    >>> import numpy as np
    >>> import dpsco as dp
    >>> from dpsco.federated import Agreement, Coordinator, Silo
    >>> problem = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0))
    >>> budget = dp.ApproxDP(1.0, 1e-6)
    >>> options = {"rounds": 2, "clip": 1.0}
    >>> plan = dp.plan(problem, n=8, d=2, budget=budget, solver="dp_ftrl", options=options)
    >>> silo = Silo((np.ones((8, 2)), np.ones(8)), Agreement(plan), name="north")
    >>> coordinator = Coordinator(plan)
    >>> while not coordinator.finished:
    ...     coordinator.receive([silo.answer(coordinator.request())])
    """

    def __init__(
        self,
        data: Any,
        agreement: Agreement,
        *,
        name: str,
        masks: PairwiseMasks | None = None,
        journal: str | Path | None = None,
    ) -> None:
        self.name, self.agreement = check_name(name), agreement
        _check_masks(masks, agreement, name)
        plan, table = agreement.plan, as_table(data)
        self._journal = None if journal is None else Journal(journal)
        self._lock = threading.Lock()
        origin = table.origin if isinstance(table, Table) and _in_parts(plan) else None
        self._rows = None if origin is None else _digest(str(shareable(origin)))
        how: dict[str, Any] = {
            "trust": agreement.trust,
            "encoding": agreement.encoding,
            "masks": masks,
            "journal": self._journal,
            "resend": True,
        }
        try:
            self._workers = _workers(table, plan, name, how)
        except BaseException:
            self.close()
            raise

    def answer(self, request: Request) -> Answer:
        """Return the party's contribution to a round; refusals as those of `Worker.answer`.

        Raises:
            LedgerError: rows that are cut into parts lie in other files than when the run began.
        """
        workers = self._workers
        self._check_rows(request.run)
        return workers[min(request.round, len(workers) - 1)].answer(request)

    def _check_rows(self, run: str) -> None:
        """Refuse files that changed since a run began: rows in another order would come twice."""
        if self._journal is None or self._rows is None:
            return
        head = {"worker": self.name, "plan": fingerprint(self.agreement.plan), "run": run}
        with self._lock:
            known = [e["rows"] for e in self._journal.entries if {**e, **head} == e and "rows" in e]
            if not known:
                self._journal.append({**head, "rows": self._rows})
            elif known != [self._rows]:
                raise LedgerError(
                    f"the rows of {self.name!r} have changed since this run began, in which each "
                    "row belongs to one round. Put back the table that it began with, or begin a "
                    "new run."
                )

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Silo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Silo {self.name!r}>"


class HelpingSilo(NonCopyable):
    """A party without rows: a noise helper, for as long as its process lives.

    Its noise is kept nowhere. So a run goes on with the process that began it, or not at all: other
    noise for a round that was answered before would tell what both had.

    Args:
        agreement: the plan, and how sums are added, with this party among the helpers.
        name: of the party, public.
        masks: the party's own.
        journal: the file in which it writes down which runs it has begun.

    Raises:
        ParameterError: the agreement has no noise helpers, or the masks are not this party's.
    """

    def __init__(
        self,
        agreement: Agreement,
        *,
        name: str,
        masks: PairwiseMasks,
        journal: str | Path | None = None,
    ) -> None:
        self.name, self.agreement, encoding = check_name(name), agreement, agreement.encoding
        _check_masks(masks, agreement, name)
        if agreement.roster is None or encoding is None or name not in agreement.roster.helpers:
            raise ParameterError(f"{name!r} is no helper of the roster: it takes part with rows.")
        self._helper = NoiseHelper(agreement.plan, name=name, encoding=encoding, masks=masks)
        self._journal = None if journal is None else Journal(journal)
        entries = [] if self._journal is None else self._journal.entries
        self._over = {entry.get("run") for entry in entries}  # begun by processes before this one
        self._begun: str | None = None  # the run that this process has written down last

    def answer(self, request: Request) -> Answer:
        """Return the noise of a round, once; refusals as those of `NoiseHelper.answer`.

        Raises:
            LedgerError: another process has begun the run.
        """
        if request.run in self._over:
            raise LedgerError(
                f"helper {self.name!r} was started anew, and the noise of this run was lost with "
                "the process before. Begin a new run."
            )
        if self._journal is not None and request.run != self._begun:
            self._journal.append({"helper": self.name, "run": request.run})
            self._begun = request.run
        return self._helper.answer(request)

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> HelpingSilo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Party = Silo | HelpingSilo


def answer_name(plan: EnginePlan, party: str, round: int) -> str:
    """Return the name under which a party answers a round: another one for each part of its rows.

    A coordinator counts a name once in a run of a single epoch.
    """
    return f"{party}, part {round}" if _in_parts(plan) else party


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _in_parts(plan: EnginePlan) -> bool:
    """Return whether each row belongs to one round, and rows are what is protected."""
    return rounds_of(plan).single_epoch and protected(plan) != WORKER


def _workers(table: Table | Source, plan: EnginePlan, name: str, how: Any) -> list[Worker]:
    """Return one worker for every round, or one for all of them."""
    if not _in_parts(plan):
        return [Worker(table, plan, name=name, **how)]
    source = table if isinstance(table, Source) else _bounded(table, plan)
    batches = [round.rows for round in rounds_of(plan)]
    edges = [0, *(stop for _, stop in batches)]
    cuts = [source.n * edge // plan.n for edge in edges]
    return [
        Worker(source, plan, name=answer_name(plan, name, t), rows=(cuts[t], cuts[t + 1]), **how)
        for t in range(len(edges) - 1)
    ]


def _bounded(table: Table, plan: EnginePlan) -> Source:
    """Return the rows within their bounds; refuse, by a worker's own rules, what does not fit."""
    Worker(table, plan, name="check")
    return table.bounded(plan.problem.bounds, order="given")


def _check_masks(masks: PairwiseMasks | None, agreement: Agreement, name: str) -> None:
    """Refuse a party without the masks that were agreed on, or with somebody else's."""
    roster = agreement.roster
    if (masks is None) != (roster is None):
        raise ParameterError(
            "a roster and masks go together: pass masks=PairwiseMasks(name, roster, key) where the "
            "agreement has a roster, and none where it has none.",
        )
    if masks is not None and (masks.name != name or masks.roster != roster):
        raise ParameterError(f"the masks are not those of {name!r} in the agreement's roster.")
