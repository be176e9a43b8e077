"""What people state of a fit: texts, in the model file and under its digest."""

import json

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import DataError, ParameterError
from dpsco.models import Provenance, SavedModel

FULL = Provenance(purpose="plan beds", dataset="admissions", owner="clinic", limits="no patients")


def saved(provenance=None):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
    model = dp.PrivateSVC(feature_norm=1.0, classes=[0, 1]).fit(X, X[:, 0] > 0)
    return SavedModel(model.model_, model.certificate_, model.plan_, provenance=provenance)


def test_it_travels_in_the_model_file_and_is_under_its_digest(tmp_path):
    model = saved(FULL)
    model.save(tmp_path / "m.json")
    again = SavedModel.load(tmp_path / "m.json")
    assert again.provenance == FULL
    assert again.verify().verdict == "VALID"
    record = json.loads((tmp_path / "m.json").read_text())
    record["provenance"]["owner"] = "somebody else"
    (tmp_path / "m.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="digest"):
        SavedModel.load(tmp_path / "m.json")


def test_a_model_without_it_has_the_file_that_it_had():
    assert "provenance" not in saved().to_json()


def test_later_facts_take_the_place_of_earlier_ones():
    merged = FULL.updated(Provenance(owner="office", date="today"))
    assert merged.to_json() == {**FULL.to_json(), "owner": "office", "date": "today"}
    assert FULL.updated(None) == FULL


@pytest.mark.parametrize("wrong", [3, "", "  ", "x" * 2001, "\ud800"])
def test_what_is_no_text_is_refused(wrong):
    with pytest.raises(ParameterError, match="purpose must be"):
        Provenance(purpose=wrong)


@pytest.mark.parametrize("wrong", [[], {"who": "me"}, {"owner": 3}, "owner"])
def test_files_with_other_fields_are_refused(wrong, tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(ParameterError):
        Provenance.load(path)
    with pytest.raises(ParameterError):
        Provenance.load(tmp_path / "none.json")
