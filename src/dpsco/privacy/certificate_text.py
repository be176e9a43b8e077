"""A certificate in words: numbers rounded up, nothing that a terminal would obey."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..errors import DpscoError
from .budget import ApproxDP, Budget, PureDP
from .release import Release

if TYPE_CHECKING:
    from .certificate import Certificate, Verification


def text(certificate: Certificate) -> str:
    """Return the certificate as lines of a title and what it says."""
    budget, claims = certificate.budget, certificate.claims
    many = budget.unit.rows > 1
    paid = list(dict.fromkeys([spent(certificate), at(claims.epsilon, claims.delta)]))
    paid += [f"mu {rounded_up(claims.mu)} (exact)"] if claims.mu is not None else []
    paid += [f"rho {rounded_up(claims.rho)}"] if claims.rho is not None else []
    unit = f"{budget.unit.rows} rows a {budget.unit.name}" if many else budget.unit.name
    parts: list[tuple[str, list[str]]] = [
        ("spent", [", ".join(paid)]),
        ("budget", [amounts(budget)]),
        ("protects", [f"one {unit}, adjacency {budget.adjacency.value}"]),
        ("trust", [certificate.trust_model]),
        ("randomness", [certificate.randomness]),
        ("numeric", [certificate.numeric]),
        ("curve", [", ".join(f"{rounded_up(e, 4)} at {d:.0e}" for d, e in claims.curve[::2])]),
        ("released", [release.sentence() for release in certificate.releases]),
        *([("rests on", theorems)] if (theorems := _theorems(certificate.releases)) else []),
        ("enforced", list(certificate.enforced) or ["nothing"]),
        ("trusted", list(certificate.trusted) or ["nothing"]),
        ("versions", [", ".join(f"{name} {v}" for name, v in certificate.versions.items())]),
    ]
    lines = [f"Privacy certificate (dpsco {certificate.versions.get('dpsco', '?')})"]
    for title, notes in parts:
        lines += [f"  {'' if i else title:<10}  {note}" for i, note in enumerate(notes)]
    return "\n".join(map(printable, lines))


def line(certificate: Certificate) -> str:
    """Return the certificate in one line: what was spent, for whom, and whether it was seeded."""
    budget = certificate.budget
    seeded = ", seeded: private only while the seed is secret" if certificate.reproducible else ""
    paid = f"{spent(certificate)}, {budget.adjacency.value}"
    return printable(f"{paid}, for {owner(budget)}{seeded}")


def point(certificate: Certificate) -> tuple[float, float]:
    """Return the epsilon and delta to speak of: of a pure budget what is spent at delta 0."""
    claims = certificate.claims
    if isinstance(certificate.budget, PureDP):
        try:
            pure = certificate.cost.pure_epsilon
        except (DpscoError, ArithmeticError, MemoryError):  # forged releases
            pure = math.inf
        if math.isfinite(pure):
            return pure, 0.0
    return claims.epsilon, claims.delta


def spent(certificate: Certificate) -> str:
    """Return what a run cost, in one phrase."""
    return at(*point(certificate))


def at(epsilon: float, delta: float) -> str:
    """Return a point of a privacy curve in words.

    >>> at(1.0, 0.0), at(0.5, 1e-6)
    ('epsilon 1, pure (delta 0)', 'epsilon 0.5 at delta 1e-06')
    """
    shown = f"epsilon {rounded_up(epsilon)}"
    return f"{shown} at delta {delta:.3g}" if delta else f"{shown}, pure (delta 0)"


def verdict(verification: Verification) -> str:
    """Return the outcome of a verification as lines."""
    certificate = verification.certificate
    seeded = ", if the seed of its noise is secret" if certificate.reproducible else ""
    lines = [
        f"{verification.verdict}: {spent(certificate)}, "
        f"{certificate.budget.adjacency.value}{seeded}",
        *_standing(verification),
        f"  second accountant: {verification.cross_check}",
    ]
    return "\n".join(lines + [f"  problem: {problem}" for problem in verification.problems])


def _standing(verification: Verification) -> list[str]:
    """Return what a verdict rests on, and what it does not say."""
    if verification.verdict == "VALID":
        return [
            "  the file's digest covers these weights, this plan and this certificate, and they "
            "agree:",
            f"  {verification.digest}",
            "  it is not a signature: compare it with the one stated by the person who ran the fit",
        ]
    if verification.verdict == "NOT TIED":
        return [
            "  the claims follow from the releases that it lists; it is not tied to a run: nothing "
            "here says",
            "  which weights and which plan it is of",
        ]
    return []


def owner(budget: Budget) -> str:
    """Return whom a budget protects: a row, or somebody with several.

    >>> from dpsco.privacy.budget import Unit
    >>> owner(ApproxDP(1.0, 1e-6)), owner(ApproxDP(1.0, 1e-6, unit=Unit(3, "person")))
    ('one row', 'one person with up to 3 rows')
    """
    unit = budget.unit
    return f"one {unit.name}" + (f" with up to {unit.rows:,} rows" if unit.rows > 1 else "")


def of_total(amount: float, budget: Budget) -> str:
    """Return an amount beside a whole budget, in the budget's own notion of privacy.

    >>> of_total(0.5, ApproxDP(3.0, 1e-6))
    'epsilon 0.5 of 3 at delta 1e-06'
    """
    if isinstance(budget, ApproxDP):
        return f"epsilon {rounded_up(amount)} of {budget.epsilon:.6g} at delta {budget.delta:.3g}"
    if isinstance(budget, PureDP):
        return f"epsilon {rounded_up(amount)} of {budget.epsilon:.6g}, pure (delta 0)"
    ((name, total),) = budget.amounts().items()
    return f"{name} {rounded_up(amount)} of {total:.6g}"


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


def printable(line: str) -> str:
    """Return the line without control characters, which a forged file could hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def amounts(budget: Budget) -> str:
    """Return the budget in words."""
    numbers = [f"{name} {value:.6g}" for name, value in budget.amounts().items()]
    return f"{type(budget).__name__}: " + ", ".join(numbers)


def _theorems(planned: tuple[Release, ...]) -> list[str]:
    """Return what the stated sensitivities rest on, each once."""
    return list(dict.fromkeys(name for release in planned for name in release.theorems()))
