"""What a label may be: nothing, a sign, a bounded number, or one of a declared list of classes.

A rule turns raw labels into float64 within a public bound, and says which of them it cannot read:
those make their rows null. It never raises for a value, only for a type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import flag, positive, real, shown
from ..errors import DataError, ParameterError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

LONGEST_CLASS = 255
"""Most characters in the name of a class."""

_SMALLEST_UNIT = 1e-290  # below, a division by it may overflow
_LARGEST_CODE = 2.0**53  # beyond, neighbouring integers are one float64
_RULES_HINT = (
    "Pass None (no labels), 'sign' (-1 or 1), a positive number Y (clip to [-Y, Y]), a pair "
    "(low, high), Scaled(low, high), or Classes(...)."
)


@dataclass(frozen=True, init=False)
class Classes:
    """The labels that may occur, declared in public: two become -1 and 1, more 0, 1, 2, ...

    >>> Classes("no", "yes").codes
    (-1.0, 1.0)
    >>> Classes((3, 4, 5)).codes
    (0.0, 1.0, 2.0)
    """

    values: tuple[Any, ...]  # all strings, or all numbers

    def __init__(self, *values: Any) -> None:
        single = len(values) == 1 and isinstance(values[0], (tuple, list, range, np.ndarray))
        declared = tuple(values[0]) if single else values
        if len(declared) < 2:
            raise ParameterError(
                f"Classes needs two or more labels, got {shown(declared)}. List every label that "
                "may occur; it is never read off the data."
            )
        if all(isinstance(value, str) for value in declared):
            cleaned: tuple[Any, ...] = tuple(str(value) for value in declared)
            if max(map(len, cleaned)) > LONGEST_CLASS:
                raise ParameterError(f"a class has at most {LONGEST_CLASS} characters.")
            if any("\ud800" <= letter <= "\udfff" for letter in "".join(cleaned)):
                raise ParameterError("a class is text that no file can hold: half a character.")
        else:
            cleaned = tuple(_class_number(value) for value in declared)
        if len(set(cleaned)) < len(cleaned):
            raise ParameterError(
                f"Classes must be different from each other, got {shown(declared)}."
            )
        object.__setattr__(self, "values", cleaned)

    @property
    def text(self) -> bool:
        """Whether the labels are strings."""
        return isinstance(self.values[0], str)

    @property
    def codes(self) -> tuple[float, ...]:
        """The number that stands for each class in a loss."""
        if len(self.values) == 2:
            return (-1.0, 1.0)
        return tuple(float(code) for code in range(len(self.values)))

    def encode(self, labels: NDArray[Any]) -> tuple[Floats, Mask]:
        """Return codes, and which labels are among the declared ones."""
        known = np.array(self.values)
        order = np.argsort(known)
        ranked, codes = known[order], np.array(self.codes)[order]
        places = np.minimum(np.searchsorted(ranked, labels), len(ranked) - 1)
        return codes[places], np.asarray(ranked[places] == labels)

    def __repr__(self) -> str:
        return f"Classes{self.values!r}"


@dataclass(frozen=True)
class Scaled:
    """A number between ``low`` and ``high``: clipped, and mapped to [-1, 1] before a loss sees it.

    A loss of labels that are centred needs half the gradient of one of labels on one side of zero.
    A prediction p of such a model stands for ``centre + unit * p``.

    Args:
        low, high: the public range.
        centred: whether the middle of the range becomes 0, which takes a model with an intercept;
            otherwise 0 stays 0.

    Raises:
        ParameterError: the range is empty or not finite.

    >>> Scaled(0.0, 500.0).encode(np.array([0.0, 375.0, 1e9])).tolist()
    [-1.0, 0.5, 1.0]
    >>> Scaled(0.0, 500.0, centred=False).encode(np.array([0.0, 250.0, 1e9])).tolist()
    [0.0, 0.5, 1.0]
    """

    low: float
    high: float
    centred: bool = True

    def __post_init__(self) -> None:
        low, high = _range((self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "centred", flag("centred", self.centred))
        if self.unit < _SMALLEST_UNIT:
            raise ParameterError(
                f"the range from {low!r} to {high!r} is too narrow; labels are told apart down to "
                f"{_SMALLEST_UNIT:g}."
            )

    @property
    def centre(self) -> float:
        """The label that becomes 0."""
        return 0.5 * self.low + 0.5 * self.high if self.centred else 0.0

    @property
    def unit(self) -> float:
        """What one unit of the mapped label is worth."""
        if self.centred:
            return 0.5 * self.high - 0.5 * self.low
        return max(abs(self.low), abs(self.high))

    def encode(self, labels: NDArray[Any]) -> Floats:
        """Return the labels within [-1, 1]."""
        with np.errstate(all="ignore"):  # a label that is not finite
            mapped = (np.clip(labels, self.low, self.high) - self.centre) / self.unit
        return np.asarray(np.clip(mapped, -1.0, 1.0))


LabelRule = None | Literal["sign"] | float | tuple[float, float] | Classes | Scaled


def check_rule(rule: Any) -> LabelRule:
    """Return the rule, numbers as floats; refuse anything else."""
    if rule is None or isinstance(rule, (Classes, Scaled)):
        return rule
    if isinstance(rule, str):
        if rule == "sign":
            return "sign"
        raise ParameterError(
            f"label must be a rule, got {shown(rule)}. {_RULES_HINT}", parameter="label"
        )
    if isinstance(rule, (tuple, list)):
        if len(rule) != 2:
            raise ParameterError(
                f"label must be a pair (low, high), got {shown(rule)}. {_RULES_HINT}",
                parameter="label",
            )
        return _range(rule)
    return positive("label", rule, hint=_RULES_HINT)


def _range(ends: Any) -> tuple[float, float]:
    """Return both ends of a range of labels."""
    low, high = (real("label", end, hint=_RULES_HINT) for end in ends)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(
            f"label=(low, high) needs finite numbers with low < high, got {(low, high)}."
        )
    return low, high


def label_bound(rule: LabelRule) -> float:
    """Return the largest |label| that can leave the rule."""
    if isinstance(rule, Scaled):
        return 1.0
    if isinstance(rule, Classes):
        return max(abs(code) for code in rule.codes)
    if isinstance(rule, tuple):
        return max(abs(rule[0]), abs(rule[1]))
    if rule is None:
        return 0.0
    return 1.0 if rule == "sign" else float(rule)


def require_labels(loss: Any, rule: LabelRule) -> None:
    """Refuse a loss whose constants would be false for labels that obey the rule.

    Raises:
        ParameterError: the message says which rule the loss needs.
    """
    classes = len(rule.values) if isinstance(rule, Classes) else 2 if rule == "sign" else 0
    number = isinstance(rule, (float, tuple, Scaled))
    kind = loss.labels
    if kind == "sign":
        fits, need = classes == 2, "label='sign', or Classes(...) with two labels"
    elif kind == "classes":
        fits, need = classes == loss.classes, f"label=Classes(...) with {loss.classes} labels"
    elif kind == "count":
        fits, need = isinstance(rule, tuple) and rule[0] >= 0.0, "label=(0, most)"
    elif kind == "real":
        fits, need = number or classes == 2, "label=Y or label=(low, high)"
    else:  # the loss reads no labels, or whatever there is
        return
    if not fits:
        raise ParameterError(f"{loss.name} needs bounds with {need}; they declare label={rule!r}.")


def describe_rule(rule: LabelRule) -> tuple[str, ...]:
    """Return what the rule enforces, as sentences; none where there are no labels."""
    if rule is None:
        return ()
    if isinstance(rule, Classes):
        return (f"a label is one of the {len(rule.values)} declared classes",)
    if rule == "sign":
        return ("a label is -1 or 1",)
    if isinstance(rule, Scaled):
        ends = f"between {rule.low:g} and {rule.high:g}"
        return (f"a label lies {ends}, by clipping, and is scaled to [-1, 1]",)
    low, high = rule if isinstance(rule, tuple) else (-float(rule), float(rule))
    return (f"a label lies between {low:g} and {high:g}, by clipping",)


def default_label(rule: LabelRule) -> float:
    """Return the label of a null row: a constant of the rule."""
    if isinstance(rule, Classes):
        return rule.codes[-1] if len(rule.values) == 2 else 0.0
    if isinstance(rule, tuple):
        return min(max(0.0, rule[0]), rule[1])
    if isinstance(rule, Scaled):
        return float(rule.encode(np.array(rule.centre)))
    return 1.0 if rule == "sign" else 0.0


def label_kind(labels: NDArray[Any] | None) -> Literal["none", "number", "text"]:
    """Return what a label array holds; refuse types that no rule reads."""
    if labels is None:
        return "none"
    if labels.dtype.kind in "biuf":
        return "number"
    if labels.dtype.kind == "U":
        return "text"
    raise DataError(
        f"labels must be numbers or strings, got an array of {array_type(labels.dtype)}. "
        "Convert them first: y.astype(float), or y.astype(str) with Classes(...)."
    )


def array_type(dtype: np.dtype[Any]) -> str:
    """Return what an array holds, in words: the type of text would tell the longest entry."""
    words = {"U": "text", "S": "bytes", "T": "StringDType", "V": "records", "O": "Python objects"}
    return words.get(dtype.kind) or str(dtype.name).split("[")[0]


def reads_text(rule: LabelRule) -> bool:
    """Return whether the rule reads strings; otherwise it reads numbers."""
    return isinstance(rule, Classes) and rule.text


def check_kind(rule: LabelRule, kind: str) -> None:
    """Refuse labels of a type that the rule does not read; only public facts are looked at."""
    if rule is None and kind != "none":
        raise DataError(
            "the table has labels, but the bounds declare none. Give Bounds(label=...): "
            f"{_RULES_HINT} To ignore the labels, make the table without them."
        )
    if rule is not None and kind == "none":
        raise DataError(
            f"the bounds declare label={rule!r}, but the table has no labels. Make the table with "
            "y (or label=...), or leave label out of the bounds."
        )
    text = reads_text(rule)
    if kind != "none" and text != (kind == "text"):
        wanted = "strings" if text else "numbers"
        result = "strings" if kind == "text" else "numbers"
        named = f"label={rule!r} reads"
        advice = "Declare Classes(...) with values of the labels' own type, or convert the labels."
        if isinstance(rule, Scaled):
            named = f"labels between {rule.low:g} and {rule.high:g} are"
            advice = "Convert the labels."
        raise DataError(f"{named} {wanted}, but the table's labels are {result}. {advice}")


def check_type(rule: LabelRule, dtype: np.dtype[Any] | None) -> None:
    """Refuse labels of a type that cannot hold two of the declared classes.

    Of the types that no library chooses because of a single value: booleans, short counts.
    """
    if dtype is None or not (dtype.kind == "b" or (dtype.kind == "u" and dtype.itemsize < 8)):
        return
    if rule != "sign" and not (isinstance(rule, Classes) and not rule.text):
        return
    values = rule.values if isinstance(rule, Classes) else (-1.0, 1.0)
    largest = 1 if dtype.kind == "b" else np.iinfo(dtype).max
    never = [value for value in values if not (0 <= value <= largest and value == int(value))]
    if len(values) - len(never) >= 2:
        return
    instead = "Classes(False, True), or Classes(0, 1)"
    if isinstance(rule, Classes):
        instead = "the classes that they are, such as 0 and 1"
    raise DataError(
        f"label={rule!r} is declared, but labels of type {dtype} are never {never[0]:g}. Declare "
        f"{instead}."
    )


def check_declared(rule: LabelRule, encoded: EncodedLabels) -> None:
    """Refuse a rule that would misread labels which an encoder has made numbers of."""
    ranges = (float, tuple, Scaled)
    numbers = isinstance(rule, ranges) and isinstance(encoded.rule, ranges)
    signs = encoded.rule == "sign" and isinstance(rule, Classes) and set(rule.values) == {-1.0, 1.0}
    if rule == encoded.rule or numbers or signs or encoded.named_by(rule):
        return  # a narrower range is fine, another list of classes is not
    if encoded.classes is not None:
        what = f"the classes {list(encoded.classes)!r}"
    else:
        what = f"label={encoded.rule!r}"
    raise DataError(
        f"the encoder's schema makes labels for {what}, but the bounds declare label={rule!r}. "
        "Declare the same, as bounds = encoder.bounds(...) does."
    )


@dataclass(frozen=True)
class EncodedLabels:
    """What an encoder has made of labels: numbers that ``rule`` reads, places among ``classes``."""

    rule: LabelRule
    classes: tuple[Any, ...] | None = None  # of the schema, in its order

    def named_by(self, rule: LabelRule) -> bool:
        """Return whether a rule lists the classes themselves, in whatever order."""
        if self.classes is None or not isinstance(rule, Classes) or rule == self.rule:
            return False
        return len(rule.values) == len(self.classes) and set(rule.values) == set(self.classes)

    def read(self, rule: LabelRule, labels: Floats) -> tuple[NDArray[Any], Mask | None]:
        """Return labels of the type that the rule reads, and which are missing if it is text."""
        if not self.named_by(rule):
            return labels, None
        known = np.isfinite(labels)
        values = np.array(self.classes)[np.where(known, labels, 0).astype(np.int64)]
        if isinstance(rule, Classes) and rule.text:
            return values, ~known
        return np.where(known, values.astype(np.float64), np.nan), None


def clean_labels(
    rule: LabelRule, labels: NDArray[Any] | None, count: int, missing: Mask | None = None
) -> tuple[Floats, Mask]:
    """Return ``count`` labels within the rule's bound, and which of the raw ones it could read."""
    kind = label_kind(labels)
    check_kind(rule, kind)
    if labels is None or rule is None:
        return np.zeros(count), np.ones(count, dtype=bool)
    check_type(rule, labels.dtype)
    if kind == "number":
        with np.errstate(all="ignore"):  # a long double may overflow: that row is null
            labels = np.asarray(labels, dtype=np.float64)
    if isinstance(rule, Classes):
        result, readable = rule.encode(labels)
    elif rule == "sign":
        result, readable = labels, np.abs(labels) == 1.0
    elif isinstance(rule, Scaled):
        result, readable = rule.encode(labels), np.isfinite(labels)
    else:
        low, high = rule if isinstance(rule, tuple) else (-float(rule), float(rule))
        readable = np.isfinite(labels)
        result = np.clip(labels, low, high)
    if missing is not None:
        readable = readable & ~missing
    return np.where(readable, result, default_label(rule)), readable


def _class_number(value: Any) -> float:
    """Return a class as a number that float64 tells from its neighbours."""
    number = float(value) if isinstance(value, (bool, np.bool_)) else real("a class", value)
    if abs(number) >= _LARGEST_CODE:
        raise ParameterError(
            f"a class must be a string or a number below 2**53 in size, got {shown(value)}."
        )
    return number
