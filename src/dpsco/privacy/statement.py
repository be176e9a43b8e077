"""A certificate in words: numbers rounded up, nothing that a terminal would obey."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from . import releases
from .budget import Budget
from .releases import Release, RepeatedSelectionRelease

if TYPE_CHECKING:
    from .certificate import Certificate

_MOST_SHOWN = 3  # alternatives of a repeated selection


def text(certificate: Certificate) -> str:
    """Return the certificate as lines of a title and what it says."""
    budget, claims = certificate.budget, certificate.claims
    many = budget.unit.rows > 1
    spent = [f"epsilon {rounded_up(claims.epsilon)} at delta {claims.delta:.3g}"]
    spent += [f"mu {rounded_up(claims.mu)} (exact)"] if claims.mu is not None else []
    spent += [f"rho {rounded_up(claims.rho)}"] if claims.rho is not None else []
    unit = f"{budget.unit.rows} rows a {budget.unit.name}" if many else budget.unit.name
    parts: list[tuple[str, list[str]]] = [
        ("spent", [", ".join(spent)]),
        ("budget", [amounts(budget)]),
        ("protects", [f"one {unit}, adjacency {budget.adjacency.value}"]),
        ("trust", [certificate.trust_model]),
        ("randomness", [certificate.randomness]),
        ("numeric", [certificate.numeric]),
        ("curve", [", ".join(f"{rounded_up(e, 4)} at {d:.0e}" for d, e in claims.curve[::2])]),
        ("released", [sentence(release) for release in certificate.releases]),
        *([("rests on", theorems)] if (theorems := _theorems(certificate.releases)) else []),
        ("enforced", list(certificate.enforced) or ["nothing"]),
        ("trusted", list(certificate.trusted) or ["nothing"]),
        ("versions", [", ".join(f"{name} {v}" for name, v in certificate.versions.items())]),
    ]
    lines = [f"Privacy certificate (dpsco {certificate.versions.get('dpsco', '?')})"]
    for title, notes in parts:
        lines += [f"  {'' if i else title:<10}  {note}" for i, note in enumerate(notes)]
    return "\n".join(map(_printable, lines))


def rounded_up(value: float, digits: int = 6) -> str:
    """Return the number in so many digits, never below its value.

    >>> rounded_up(0.12345611), rounded_up(0.5), rounded_up(0.9999999999)
    ('0.123457', '0.5', '1')
    """
    shown = f"{value:.{digits}g}"
    if float(shown) >= value:
        return shown
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return f"{value + 0.6 * unit:.{digits}g}"


def _printable(line: str) -> str:
    """Return the line without control characters, which a forged file could hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def amounts(budget: Budget) -> str:
    """Return the budget in words."""
    record = budget.to_json()
    amounts = [f"{k} {v:.6g}" for k, v in record.items() if k not in ("kind", "adjacency", "unit")]
    return f"{type(budget).__name__}: " + ", ".join(amounts)


def _theorems(planned: tuple[Release, ...]) -> list[str]:
    """Return what the stated sensitivities rest on, each once."""
    inner = [each for release in planned for each in getattr(release, "inner", tuple)()]
    named = [getattr(release, "theorem", None) for release in (*planned, *inner)]
    return list(dict.fromkeys(name for name in named if name))


def sentence(release: Release) -> str:
    """Return one planned or executed release in words."""
    start, stop = release.rows
    if isinstance(release, RepeatedSelectionRelease):
        return f"{release.count} x {release.kind} on rows {start}..{stop - 1}: {_best_of(release)}"
    record = releases.to_json(release)
    hidden = ("kind", "rows", "count", "theorem")
    shown = {k: v for k, v in record.items() if k not in hidden and v is not None}
    if "mechanism" in shown:
        shown["mechanism"] = f"{shown['mechanism']['name']}, {shown['mechanism']['rounds']} rounds"
    numbers = [f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items()]
    return f"{release.count} x {release.kind} on rows {start}..{stop - 1}: " + ", ".join(numbers)


def _best_of(release: RepeatedSelectionRelease) -> str:
    """Return what a repeated selection chooses from, in words."""
    runs, choices = release.runs, release.alternatives
    shown = ["; ".join(map(sentence, each)) for each in choices[:_MOST_SHOWN]]
    more = f", and {len(choices) - _MOST_SHOWN} more" if len(choices) > _MOST_SHOWN else ""
    return (
        f"the best of a secret number of runs ({runs.name}, {runs.mean:.6g} in the mean), each one "
        f"of {len(choices)} at random: [" + "] or [".join(shown) + "]" + more
    )
