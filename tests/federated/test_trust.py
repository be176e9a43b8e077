"""Trust models: each says towards whom privacy holds."""

import pytest

from dpsco.errors import ParameterError
from dpsco.federated import Trust


@pytest.mark.parametrize("trust", Trust)
def test_each_has_its_own_sentences(trust):
    others = [other for other in Trust if other is not trust]
    assert trust.model not in [other.model for other in others]
    for unit in ("row", "worker"):
        said = trust.trusted(unit)
        assert all(said[-1] not in other.trusted(unit) for other in others)
        assert any("clips as stated" in line for line in said)
        assert any("coordinator" in line for line in said)
    assert Trust.parse(trust.value) is trust


def test_only_helpers_speak_of_privacy_towards_the_coordinator():
    assert "if at least one helper is honest" in Trust.NOISE_HELPERS.model
    assert "not towards the coordinator" in Trust.SECURE_AGGREGATION.model
    assert [trust.masked for trust in Trust] == [False, True, True]
    with pytest.raises(ParameterError, match="noise_helpers"):
        Trust.parse("everybody")
