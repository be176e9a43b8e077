"""What a run cost, for whom, and under which assumptions: for people and for programs.

A certificate holds the releases themselves, so that anybody can recompute its claims from the file
alone: ``Certificate.load(path).verify()``, or ``dpsco verify FILE``.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from .. import _validate
from .._display import Displayed
from .._version import __version__
from ..errors import CertificateError, DpscoError, MissingExtraError
from ..files import limits as _limits
from ..files.reading import read_json
from ..files.writing import write_text
from . import certificate_text
from .accounting.composition import Cost, cost
from .accounting.cross_check import cross_check as second_accountant
from .budget import ApproxDP, Budget, budget_from_json
from .release import Release

SCHEMA = "dpsco.certificate/1"
CURVE_DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
_MOST_CHECKED = 100.0  # an epsilon that protects something; beyond, a PLD grows without limit
_CENTRAL = "central: one trusted holder of the rows adds the noise before anything is released"
_SEED_CAVEAT = (
    "nobody who sees the output knows the seed of the noise, and nothing else is released with it"
)


@dataclass(frozen=True)
class Claims:
    """The numbers that a certificate states; each can be recomputed from its releases."""

    epsilon: float
    delta: float
    mu: float | None
    rho: float | None
    curve: tuple[tuple[float, float], ...]  # (delta, epsilon), where epsilon is finite

    @classmethod
    def of(cls, spent: Cost, delta: float) -> Claims:
        """Compute the claims of a cost."""
        pairs = tuple(pair for pair in spent.curve(CURVE_DELTAS) if math.isfinite(pair[1]))
        return cls(spent.epsilon(delta), delta, spent.mu, spent.rho, pairs)


@dataclass(frozen=True)
class Certificate(Displayed):
    """A true statement about the privacy of one run."""

    shown_as: ClassVar[str] = "certificate"

    budget: Budget
    releases: tuple[Release, ...]
    claims: Claims
    randomness: str
    reproducible: bool
    numeric: str  # law of the noise on the lattice: "exact", or "float64" up to rounding
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
        return cls(
            budget=budget,
            releases=planned,
            claims=Claims.of(spent, _reference_delta(budget)),
            randomness=randomness,
            reproducible=reproducible,
            numeric=_numeric(planned),
            enforced=tuple(enforced),
            trusted=(*trusted, *_caveats(budget, planned, reproducible=reproducible)),
            versions=_versions(),
        )

    @cached_property
    def cost(self) -> Cost:
        """The cost, recomputed from the releases."""
        return cost(self.releases, adjacency=self.budget.adjacency, unit=self.budget.unit)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; the cost is computed again after unpickling."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

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

    def verify(self, *, cross_check: bool = True) -> Verification:
        """Recompute every claim from the releases alone, and ask a second accountant.

        What the second one proves depends on the releases, see :mod:`.accounting.cross_check`; its
        sentence says so. ``cross_check=False`` skips it, for machines without dp-accounting.
        """
        try:
            claims = Claims.of(self.cost, _reference_delta(self.budget))
            spent, allowed = self.cost.against(self.budget)
        except MissingExtraError:  # says nothing about the certificate
            raise
        except (DpscoError, ArithmeticError, MemoryError) as problem:
            return Verification(self, (f"the releases cannot be accounted: {problem}",), "skipped")
        problems = [*_differences(self.claims, claims), *self._omissions()]
        if not spent <= allowed:
            problems.append(f"the releases cost {spent:.12g}, the budget is {allowed:.12g}")
        sentence = "skipped"
        if claims.epsilon > _MOST_CHECKED:
            sentence = f"skipped, because epsilon is above {_MOST_CHECKED:.0f}"
        elif cross_check:
            check = second_accountant(self.cost, max(claims.delta, 1e-10))
            sentence = str(check)
            if not check.agrees:
                problems.append(f"the second accountant disagrees: {check}")
        return Verification(self, tuple(problems), sentence)

    def _omissions(self) -> list[str]:
        """Return a sentence for each caveat that the releases ask for and the text withholds."""
        problems = []
        if self.numeric != (numeric := _numeric(self.releases)):
            problems.append(f"numeric is claimed to be {self.numeric}, the releases are {numeric}")
        caveats = _caveats(self.budget, self.releases, reproducible=self.reproducible)
        problems += [f"'trusted' must say: {note}" for note in caveats if note not in self.trusted]
        return problems

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
            "releases": [release.to_json() for release in self.releases],
            "enforced": list(self.enforced),
            "trusted": list(self.trusted),
            "randomness": {"description": self.randomness, "reproducible": self.reproducible},
            "numeric": self.numeric,
            "versions": dict(self.versions),
        }
        return {**content, "digest": _digest(content)}

    def save(self, path: str | Path) -> None:
        """Write the certificate as a JSON file, whole or not at all.

        Raises:
            DataError: it cannot be written.
        """
        write_text(path, json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n")

    @classmethod
    def from_json(cls, record: Any) -> Certificate:
        """Rebuild a certificate; refuse one that is incomplete or was changed after writing."""
        try:
            content = {name: value for name, value in record.items() if name != "digest"}
            if content["schema"] != SCHEMA:
                raise CertificateError(
                    f"unknown schema {_validate.shown(content['schema'])}, expected {SCHEMA!r}."
                )
            if record["digest"] != _digest(content):
                raise CertificateError(
                    "the digest does not match: the certificate was changed after it was written."
                )
            certificate = cls._from_content(content)
            if certificate.to_json()["digest"] != record["digest"]:
                raise CertificateError("it has unknown fields, or fields of another type.")
            return certificate
        except DpscoError as problem:
            raise CertificateError(f"this certificate is not valid: {problem}") from None
        except KeyError as problem:
            field = _validate.shown(problem.args[0])
            raise CertificateError(
                f"this is not a certificate: its field {field} is missing."
            ) from None
        except (AttributeError, TypeError, ValueError, ArithmeticError) as problem:
            why = _validate.shown(problem)
            raise CertificateError(f"this is not a certificate: {why}.") from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Certificate:
        claims = content["claims"]
        if len(claims["curve"]) > len(CURVE_DELTAS):
            raise CertificateError(f"its curve has more than {len(CURVE_DELTAS)} points.")
        curve = tuple((point["delta"], point["epsilon"]) for point in claims["curve"])
        numbers = {name: claims[name] for name in ("epsilon", "delta", "mu", "rho")}
        stated = [number for number in (numbers["mu"], numbers["rho"]) if number is not None]
        for number in (numbers["epsilon"], numbers["delta"], *stated, *sum(curve, ())):
            _validate.non_negative("every claim", number)
        return cls(
            budget=budget_from_json(content["budget"]),
            releases=_releases_from_json(content["releases"]),
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
        return cls.from_json(
            read_json(
                path,
                what="the certificate",
                limits=_limits.CERTIFICATE,
                error=CertificateError,
            )
        )

    def _line(self) -> str:
        return certificate_text.line(self)

    def __str__(self) -> str:
        return certificate_text.text(self)


@dataclass(frozen=True)
class Verification(Displayed):
    """The outcome of recomputing a certificate.

    A certificate by itself is *not tied* at best: its claims follow from the releases that it
    lists, and nothing says of which run they are. In a model file it may be *valid*: tied to the
    weights and the plan beside it by the file's digest. Neither is a signature.
    """

    shown_as: ClassVar[str] = "verification"

    certificate: Certificate
    problems: tuple[str, ...]
    cross_check: str  # what the second accountant finds, in words
    digest: str | None = None  # of a file with weights, plan and certificate; None without these

    @property
    def ok(self) -> bool:
        """Whether every claim holds."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """ "VALID" and tied to weights and plan, "NOT TIED", or "NOT VALID"."""
        if not self.ok:
            return "NOT VALID"
        return "NOT TIED" if self.digest is None else "VALID"

    def _line(self) -> str:
        return f"{self.verdict}, {certificate_text.line(self.certificate)}"

    def __str__(self) -> str:
        return certificate_text.verdict(self)


def _differences(claimed: Claims, computed: Claims) -> list[str]:
    """Return a sentence for each claim that the releases do not bear out."""
    pairs: list[tuple[str, float | None, float | None]] = [
        (name, getattr(claimed, name), getattr(computed, name))
        for name in ("epsilon", "delta", "mu", "rho")
    ]
    said, true = dict(claimed.curve), dict(computed.curve)
    pairs += [
        (f"epsilon at delta {delta:.3g}", said.get(delta), true.get(delta))
        for delta in sorted({*said, *true})
    ]
    problems = [
        f"{name} is claimed to be {claim}, the releases give {value}"
        for name, claim, value in pairs
        if not _same(claim, value)
    ]
    if len(said) < len(claimed.curve):
        problems.append("the curve states two values for the same delta")
    return problems


def _same(claim: float | None, value: float | None) -> bool:
    if claim is None or value is None:
        return claim is value
    return abs(claim - value) <= 1e-9 * abs(value)


def _numeric(planned: Iterable[Release]) -> str:
    """Return whether all noise has exactly its stated law."""
    releases = (each for release in planned for each in (release, *release.inner()))
    return "exact" if all(release.exact_law for release in releases) else "float64"


def _caveats(budget: Budget, planned: tuple[Release, ...], *, reproducible: bool) -> list[str]:
    """Return what the claims rest on besides the proofs, each once."""
    notes = [note for release in planned for note in release.caveats(budget.adjacency)]
    return [*dict.fromkeys(notes), *([_SEED_CAVEAT] if reproducible else [])]


def _releases_from_json(records: Any) -> tuple[Release, ...]:
    """Rebuild the releases; refuse more of them than anybody can account for in short time."""
    if not isinstance(records, list) or len(records) > _limits.MOST_RELEASES:
        raise CertificateError(
            f"its releases must be a list of at most {_limits.MOST_RELEASES:,} entries."
        )
    return tuple(map(Release.from_json, records))


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _reference_delta(budget: Budget) -> float:
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6


def _versions() -> dict[str, str]:
    versions = {"dpsco": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "cryptography", "dp-accounting"):
        versions[package] = _installed(package)
    return versions


@lru_cache(maxsize=16)
def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
