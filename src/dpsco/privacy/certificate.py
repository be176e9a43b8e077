"""What a run cost, for whom, and under which assumptions: for people and for programs.

A certificate holds the releases themselves, so that anybody can recompute its claims from the file
alone: ``Certificate.load(path).verify()``, or ``dpsco verify FILE``.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import _validate
from .._version import __version__
from ..errors import CertificateError, DpscoError
from . import releases
from .accounting import Cost, cost
from .budget import Adjacency, ApproxDP, Budget, budget_from_json
from .releases import DiscreteGaussianRelease, PoissonGaussianRelease, Release
from .witness import second_opinion

SCHEMA = "dpsco.certificate/1"
CURVE_DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
_CENTRAL = "central: one trusted holder of the rows adds the noise before anything is released"
_FLOAT_CAVEAT = (
    "noise and sums are float64 approximations of real numbers (numeric='grid' removes this)"
)
_PAIR_CAVEAT = (
    "the antipodal pair dominates Poisson sampling under replace_one (checked numerically only)"
)


@dataclass(frozen=True)
class Claims:
    """The numbers that a certificate states; each can be recomputed from its releases."""

    epsilon: float
    delta: float
    mu: float | None
    rho: float | None
    curve: tuple[tuple[float, float], ...]  # (delta, epsilon)

    @classmethod
    def of(cls, spent: Cost, delta: float) -> Claims:
        """Compute the claims of a cost."""
        pairs = tuple(spent.curve(CURVE_DELTAS))
        return cls(spent.epsilon(delta), delta, spent.mu, spent.rho, pairs)


@dataclass(frozen=True)
class Certificate:
    """A true statement about the privacy of one run."""

    budget: Budget
    releases: tuple[Release, ...]
    claims: Claims
    randomness: str
    reproducible: bool
    numeric: str  # "float64" or "grid"
    enforced: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    trust_model: str = _CENTRAL
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        budget: Budget,
        planned: tuple[Release, ...],
        spent: Cost,
        *,
        randomness: str,
        reproducible: bool,
        enforced: Iterable[str],
        trusted: Iterable[str],
    ) -> Certificate:
        """Write the certificate of executed releases."""
        grid = all(isinstance(release, DiscreteGaussianRelease) for release in planned)
        beliefs = [*trusted]
        if not grid:
            beliefs.append(_FLOAT_CAVEAT)
        if budget.adjacency is Adjacency.REPLACE_ONE and any(
            isinstance(a, PoissonGaussianRelease) and a.pair == "conjectured" for a in planned
        ):
            beliefs.append(_PAIR_CAVEAT)
        if reproducible:
            beliefs.append("nobody who sees the output knows the seed of the noise")
        return cls(
            budget=budget,
            releases=planned,
            claims=Claims.of(spent, _reference_delta(budget)),
            randomness=randomness,
            reproducible=reproducible,
            numeric="grid" if grid else "float64",
            enforced=tuple(enforced),
            trusted=tuple(beliefs),
            versions=_versions(),
        )

    @cached_property
    def cost(self) -> Cost:
        """The cost, recomputed from the releases."""
        return cost(self.releases, adjacency=self.budget.adjacency, unit=self.budget.unit)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon proved at ``delta``."""
        return self.cost.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta proved at ``epsilon``."""
        return self.cost.delta(epsilon)

    @property
    def mu(self) -> float | None:
        """The exact Gaussian parameter, if every release is Gaussian."""
        return self.cost.mu

    def verify(self, *, second_witness: bool = True) -> Verification:
        """Recompute every claim from the releases alone, with both accountants.

        ``second_witness=False`` skips dp-accounting, for machines without it.
        """
        problems = _differences(self.claims, Claims.of(self.cost, self.claims.delta))
        spent, allowed = self.cost.against(self.budget)
        if not spent <= allowed:
            problems.append(f"the releases cost {spent:.12g}, the budget is {allowed:.12g}")
        witness = "skipped"
        if second_witness:
            opinion = second_opinion(self.cost, max(self.claims.delta, 1e-10))
            witness = str(opinion)
            if not opinion.agrees:
                problems.append(f"the second accountant disagrees: {opinion}")
        return Verification(self, tuple(problems), witness)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with a digest of everything else at the end."""
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "trust_model": self.trust_model,
            "budget": self.budget.to_json(),
            "claims": {
                **{name: getattr(self.claims, name) for name in ("epsilon", "delta", "mu", "rho")},
                "curve": [{"delta": d, "epsilon": e} for d, e in self.claims.curve],
            },
            "releases": [releases.to_json(release) for release in self.releases],
            "enforced": list(self.enforced),
            "trusted": list(self.trusted),
            "randomness": {"description": self.randomness, "reproducible": self.reproducible},
            "numeric": self.numeric,
            "versions": dict(self.versions),
        }
        return {**content, "digest": _digest(content)}

    def save(self, path: str | Path) -> None:
        """Write the certificate as a JSON file."""
        Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_json(cls, record: Any) -> Certificate:
        """Rebuild a certificate; refuse one that is incomplete or was changed after writing."""
        try:
            content = {name: value for name, value in record.items() if name != "digest"}
            if content["schema"] != SCHEMA:
                raise CertificateError(
                    f"unknown schema {content['schema']!r}, expected {SCHEMA!r}."
                )
            if record["digest"] != _digest(content):
                raise CertificateError(
                    "the digest does not match: the certificate was changed after it was written."
                )
            return cls._from_content(content)
        except DpscoError as problem:
            raise CertificateError(f"this certificate is not valid: {problem}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise CertificateError(f"this is not a certificate: {problem!r}.") from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Certificate:
        claims = content["claims"]
        curve = tuple((point["delta"], point["epsilon"]) for point in claims["curve"])
        numbers = {name: claims[name] for name in ("epsilon", "delta", "mu", "rho")}
        for name in ("epsilon", "delta"):
            _validate.real(name, numbers[name])
        return cls(
            budget=budget_from_json(content["budget"]),
            releases=tuple(releases.from_json(item) for item in content["releases"]),
            claims=Claims(**numbers, curve=curve),
            randomness=content["randomness"]["description"],
            reproducible=bool(content["randomness"]["reproducible"]),
            numeric=content["numeric"],
            enforced=tuple(content["enforced"]),
            trusted=tuple(content["trusted"]),
            trust_model=content["trust_model"],
            versions=dict(content["versions"]),
        )

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate from a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise CertificateError(f"cannot read {path}: {problem}.") from None
        try:
            record = json.loads(text)
        except json.JSONDecodeError as problem:
            raise CertificateError(f"{path} is not JSON: {problem}.") from None
        return cls.from_json(record)

    def __str__(self) -> str:
        budget, claims = self.budget, self.claims
        unit = (
            budget.unit.name
            if budget.unit.rows == 1
            else f"{budget.unit.rows} rows a {budget.unit.name}"
        )
        lines = [
            f"Privacy certificate (dpsco {self.versions.get('dpsco', '?')})",
            f"  spent       epsilon {claims.epsilon:.6g} at delta {claims.delta:.3g}"
            + (f", mu {claims.mu:.6g} (exact)" if claims.mu is not None else ""),
            f"  budget      {_amounts(budget)}",
            f"  protects    one {unit}, adjacency {budget.adjacency.value}",
            f"  trust       {self.trust_model}",
            f"  randomness  {self.randomness}",
            f"  numeric     {self.numeric}",
            "  curve       " + ", ".join(f"{e:.4g} at {d:.0e}" for d, e in claims.curve[::2]),
        ]
        lines += [
            f"  {'released' if i == 0 else '':<10}  {_sentence(r)}"
            for i, r in enumerate(self.releases)
        ]
        for title, notes in (("enforced", self.enforced), ("trusted", self.trusted)):
            lines += [
                f"  {title if i == 0 else '':<10}  {note}"
                for i, note in enumerate(notes or ["nothing"])
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Verification:
    """The outcome of recomputing a certificate."""

    certificate: Certificate
    problems: tuple[str, ...]
    witness: str

    @property
    def ok(self) -> bool:
        """Whether every claim holds."""
        return not self.problems

    def __str__(self) -> str:
        claims = self.certificate.claims
        lines = [
            f"{'VALID' if self.ok else 'NOT VALID'}: epsilon {claims.epsilon:.6g} at delta "
            f"{claims.delta:.3g}, {self.certificate.budget.adjacency.value}",
            f"  second accountant: {self.witness}",
        ]
        return "\n".join(lines + [f"  problem: {problem}" for problem in self.problems])


def _differences(claimed: Claims, found: Claims) -> list[str]:
    """Return a sentence for each claim that the releases do not bear out."""
    problems = []
    pairs = [("epsilon", claimed.epsilon, found.epsilon), ("mu", claimed.mu, found.mu)]
    pairs.append(("rho", claimed.rho, found.rho))
    pairs += [
        (f"epsilon at delta {delta:.3g}", dict(claimed.curve).get(delta), value)
        for delta, value in found.curve
    ]
    for name, said, true in pairs:
        if said is None and true is None:
            continue
        if said is None or true is None or not abs(said - true) <= 1e-9 * abs(true):
            problems.append(f"{name} is claimed to be {said}, the releases give {true}")
    return problems


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _reference_delta(budget: Budget) -> float:
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6


def _amounts(budget: Budget) -> str:
    record = budget.to_json()
    amounts = [f"{k} {v:.6g}" for k, v in record.items() if k not in ("kind", "adjacency", "unit")]
    return f"{type(budget).__name__}: " + ", ".join(amounts)


def _sentence(release: Release) -> str:
    record = releases.to_json(release)
    shown = {k: v for k, v in record.items() if k not in ("kind", "rows", "count")}
    if "mechanism" in shown:
        shown["mechanism"] = f"{shown['mechanism']['name']}, {shown['mechanism']['rounds']} rounds"
    numbers = [f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items()]
    start, stop = release.rows
    return f"{release.count} x {release.kind} on rows {start}..{stop - 1}: " + ", ".join(numbers)


def _versions() -> dict[str, str]:
    found = {"dpsco": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "cryptography", "dp-accounting"):
        found[package] = _installed(package)
    return found


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
