"""One example of every prefix-sum mechanism, whatever it needs besides its name."""

from dpsco.privacy.mechanisms.prefix_sum.mechanism import NEEDS, PrefixMechanism, mechanism

EXAMPLES = {"bands": 3, "exponent": 0.75}


def described(name: str, rounds: int) -> PrefixMechanism:
    """Return the mechanism with an example of what it needs."""
    needed = {NEEDS[name]: EXAMPLES[NEEDS[name]]} if name in NEEDS else {}
    return mechanism(name, rounds=rounds, **needed)
