"""One self-contained HTML page: no network, no script, everything from a certificate escaped."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime, timezone
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import MissingExtraError, ParameterError
from ..files.writing import write_text
from ..fit.choose import Recommendation
from ..models import LinearModel, Provenance, SavedModel
from ..privacy.certificate import Certificate
from ..solvers.base import BasePlan
from . import view
from .formatting import Markup, safe
from .model_view import Utility

if TYPE_CHECKING:
    import jinja2

TITLE = "Privacy report"


def render(
    certificate: Certificate,
    *,
    plan: BasePlan | None = None,
    recommendation: Recommendation | None = None,
    utility: Utility | None = None,
    title: str = TITLE,
    model: LinearModel | SavedModel | None = None,
    created: datetime | str | None = None,
    provenance: Provenance | None = None,
) -> str:
    """Return the report of a run as the text of one HTML file.

    The certificate is verified; if it does not hold, the report says so and why. Nothing of the
    private rows is read.

    Args:
        certificate: of the run.
        plan: adds the settings and the schedule.
        recommendation: from `dpsco.recommend`; adds the comparison of solvers.
        utility: how good the model is, on which rows.
        title: the heading.
        model: the fitted model, or the saved one; says what was fitted.
        created: when; the present time by default.
        provenance: what the fit is for and who answers for it; adds to what the saved model says.

    Raises:
        MissingExtraError: jinja2 is not installed, or the certificate's releases can only be
            accounted with dp-accounting.
        ParameterError: an argument has another type.

    >>> from dpsco.privacy import ApproxDP, Ledger, GaussianRelease
    >>> release = GaussianRelease(1.0, 20.0, rows=(0, 100))
    >>> ledger = Ledger(release, ApproxDP(1.0, 1e-6))
    >>> _ = ledger.gaussian([0.0], bound=1.0, sigma=20.0, rows=(0, 100))
    >>> render(ledger.close()).startswith("<!doctype html>")
    True
    """
    environment, moment = _environment(), when(created)
    inputs = view.check_inputs(
        certificate,
        plan=plan,
        recommendation=recommendation,
        utility=utility,
        model=model,
        provenance=provenance,
    )
    style = _style()
    return environment.get_template("report.html").render(
        title=title,
        created=moment,
        version=__version__,
        style=style,
        style_hash=_hash(style),
        **view.page(inputs),
    )


def write(
    path: str | Path,
    certificate: Certificate,
    *,
    plan: BasePlan | None = None,
    recommendation: Recommendation | None = None,
    utility: Utility | None = None,
    title: str = TITLE,
    model: LinearModel | SavedModel | None = None,
    created: datetime | str | None = None,
    provenance: Provenance | None = None,
) -> Path:
    """Write the report of a run to a file, whole, and return its path. Arguments as in `render`.

    Raises:
        DataError: it cannot be written.
    """
    text = render(
        certificate,
        plan=plan,
        recommendation=recommendation,
        utility=utility,
        title=title,
        model=model,
        created=created,
        provenance=provenance,
    )
    write_text(path, text)
    return Path(path)


def _style() -> Markup:
    """Return the style sheet, which is ours."""
    home = resources.files(__package__) / "templates" / "style.css"
    return Markup(home.read_text(encoding="utf-8"))


def _hash(style: str) -> str:
    """Return the style's digest: the page allows this one style, and no script at all."""
    digest = hashlib.sha256(style.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _environment() -> jinja2.Environment:
    """Return the template engine; every value is cleaned and escaped."""
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError(
            "a report needs jinja2. Install it with: pip install 'dpsco[report]'. Without it, "
            "print(certificate) says the same in plain text."
        ) from None
    return jinja2.Environment(
        loader=jinja2.PackageLoader("dpsco.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _clean(value: Any) -> Any:
    """Return text of unknown origin without marks that mislead; drawings as they are."""
    return value if hasattr(value, "__html__") else safe(value)


def when(created: datetime | str | None) -> str:
    """Return a time in words; the present one by default."""
    if isinstance(created, str):
        return created
    if not isinstance(created, (datetime, type(None))):
        raise ParameterError(
            f"a report's created must be a datetime or a text, got {type(created).__name__}."
        )
    moment = datetime.now(timezone.utc) if created is None else created
    return moment.strftime("%d %B %Y, %H:%M %Z").strip().removesuffix(",")
