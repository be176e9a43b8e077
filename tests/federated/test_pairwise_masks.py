"""Masks between parties who never meet: they cancel in a whole sum, and in nothing less."""

import dataclasses

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from dpsco.errors import AssumptionError, DataError, LedgerError, ParameterError
from dpsco.federated import Agreement, Coordinator, PairwiseMasks, Request, Roster, Silo, Worker
from dpsco.federated.pairwise_masks import load_key, load_public_key, public_half
from dpsco.federated.silo import HelpingSilo

NAMES = ("east", "north", "south")


def roster_of(names=NAMES, helpers=(), minimum=2):
    keys = {name: X25519PrivateKey.generate() for name in (*names, *helpers)}
    public = {name: public_half(key) for name, key in keys.items()}
    roster = Roster(
        {name: public[name] for name in names}, {name: public[name] for name in helpers}, minimum
    )
    return roster, {name: PairwiseMasks(name, roster, key) for name, key in keys.items()}


def request_of(agreement, members):
    coordinator = Coordinator(
        agreement.plan,
        trust=agreement.trust,
        encoding=agreement.encoding,
        helpers=agreement.helpers,
    )
    return coordinator, dataclasses.replace(coordinator.request(), members=members)


@pytest.fixture
def agreement(setting):
    roster, masks = roster_of()
    result = Agreement(setting.plan(), roster)
    return result, masks


def test_masks_cancel_in_the_whole_sum_alone(agreement):
    agreement, masks = agreement
    encoding = agreement.encoding
    _, request = request_of(agreement, NAMES)
    rng = np.random.default_rng(0)
    plain = {name: rng.integers(0, 2**encoding.bits, 5).astype(np.uint64) for name in NAMES}
    hidden = {name: masks[name].hide(plain[name], request) for name in NAMES}
    assert (encoding.add(hidden.values(), 5) == encoding.add(plain.values(), 5)).all()
    for name in NAMES:
        assert (hidden[name] != plain[name]).any()
        others = [hidden[each] for each in NAMES if each != name]
        wanted = encoding.add([plain[each] for each in NAMES if each != name], 5)
        assert (encoding.add(others, 5) != wanted).all()


def test_masked_answers_are_uniform(agreement):
    """Of zeros: means of bits within 5 standard deviations; false alarm 1e-6."""
    agreement, masks = agreement
    _, request = request_of(agreement, NAMES)
    words = masks["north"].hide(np.zeros(4000, dtype=np.uint64), request)
    for bit in range(agreement.encoding.bits):
        ones = ((words >> np.uint64(bit)) & np.uint64(1)).mean()
        assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(4000)


def test_every_request_has_masks_of_its_own(agreement):
    agreement, masks = agreement
    _, request = request_of(agreement, NAMES)
    zeros = np.zeros(5, dtype=np.uint64)
    first = masks["north"].hide(zeros, request)
    assert (masks["north"].hide(zeros, request) == first).all()
    changed = {
        "round": 1,
        "run": "0" * 32,
        "members": ("east", "north"),
        "points": (request.points[0] + 1.0,),
    }
    for field, value in changed.items():
        other = dataclasses.replace(request, **{field: value})
        assert (masks["north"].hide(zeros, other) != first).all(), field


def test_a_run_behind_masks_is_the_run_without(setting, agreement):
    agreement, masks = agreement
    plan = agreement.plan
    coordinator, _ = request_of(agreement, NAMES)
    silos = [
        Silo(setting.rows(40 * k, 40 * k + 40), agreement, name=name, masks=masks[name])
        for k, name in enumerate(NAMES)
    ]
    while not coordinator.finished:
        request = dataclasses.replace(coordinator.request(), members=NAMES)
        request = Request.from_json(request.to_json())
        answers = [silo.answer(request) for silo in silos]
        total = agreement.encoding.add([answer.vector for answer in answers], request.size)
        names = [answer.worker for answer in answers]
        coordinator.receive_sum(total, round=request.round, workers=names)
    assert len(coordinator.result().weights) == plan.task.n_weights


def test_noise_helpers_are_in_every_sum(setting):
    roster, masks = roster_of(NAMES, helpers=("court",))
    agreement = Agreement(setting.plan(), roster)
    assert agreement.trust.value == "noise_helpers"
    everybody = tuple(sorted((*NAMES, "court")))
    _, request = request_of(agreement, everybody)
    silo = Silo(setting.rows(0, 40), agreement, name="north", masks=masks["north"])
    without = dataclasses.replace(request, members=NAMES)
    with pytest.raises(AssumptionError, match="noise of helper 'court'"):
        silo.answer(without)
    assert silo.answer(request).worker.startswith("north")
    helper = HelpingSilo(agreement, name="court", masks=masks["court"])
    assert helper.answer(request).worker == "court"
    with pytest.raises(ParameterError, match="no helper"):
        HelpingSilo(agreement, name="north", masks=masks["north"])


def test_a_helper_that_was_started_anew_has_no_second_noise(setting, tmp_path):
    roster, masks = roster_of(NAMES, helpers=("court",))
    agreement = Agreement(setting.plan(), roster)
    _, request = request_of(agreement, tuple(sorted((*NAMES, "court"))))
    how = {"name": "court", "masks": masks["court"], "journal": tmp_path / "court"}
    with HelpingSilo(agreement, **how) as helper:
        stray = dataclasses.replace(request, run="0" * 32, plan="0" * 32)  # hides no run after it
        with pytest.raises(AssumptionError, match="does not answer"):
            helper.answer(stray)
        helper.answer(request)
    with HelpingSilo(agreement, **how) as helper, pytest.raises(LedgerError, match="anew"):
        helper.answer(request)


def test_other_rows_are_not_hidden_behind_the_same_masks(setting, agreement, tmp_path):
    """A table that has changed between two starts: the difference would be bare."""
    agreement, masks = agreement
    _, request = request_of(agreement, NAMES)
    X, y = setting.rows(0, 40)

    def answer(rows):
        how = {"name": "north", "masks": masks["north"], "journal": tmp_path / "north"}
        with Silo(rows, agreement, **how) as silo:
            return silo.answer(request)

    first = answer((X, y))
    assert answer((X, y)).to_json() == first.to_json()
    with pytest.raises(LedgerError, match="rows have changed"):
        answer((X, -y))
    assert answer((X, y)).to_json() == first.to_json()


def test_a_party_adds_to_no_other_sum(setting, agreement):
    agreement, masks = agreement
    _, request = request_of(agreement, NAMES)
    silo = Silo(setting.rows(0, 40), agreement, name="north", masks=masks["north"])
    for members, reason in {
        None: "whose masked integers",
        ("east", "south"): "not among its members",
        ("east", "north", "rogue"): "'rogue' is not in the roster",
    }.items():
        with pytest.raises(AssumptionError, match=reason):
            silo.answer(dataclasses.replace(request, members=members))
    bare = Worker(
        setting.rows(0, 40),
        agreement.plan,
        name="bare",
        trust=agreement.trust,
        encoding=agreement.encoding,
    )
    with pytest.raises(AssumptionError, match="the worker has none"):
        bare.answer(request)
    three, few = roster_of(minimum=3)
    strict = Agreement(agreement.plan, three)
    silo = Silo(setting.rows(0, 40), strict, name="north", masks=few["north"])
    with pytest.raises(AssumptionError, match="agreed were 3"):
        silo.answer(dataclasses.replace(request, members=("east", "north")))
    assert silo.answer(request)


def test_masks_and_rosters_that_do_not_fit_are_refused(setting, agreement):
    agreement, masks = agreement
    stranger = X25519PrivateKey.generate()
    with pytest.raises(ParameterError, match="not that of"):
        PairwiseMasks("north", agreement.roster, stranger)
    with pytest.raises(ParameterError, match="not in the roster"):
        PairwiseMasks("rogue", agreement.roster, stranger)
    with pytest.raises(ParameterError, match="go together"):
        Silo(setting.rows(0, 40), agreement, name="north")
    with pytest.raises(ParameterError, match="not those of"):
        Silo(setting.rows(0, 40), agreement, name="north", masks=masks["south"])
    with pytest.raises(ParameterError, match="reads single answers"):
        Worker(setting.rows(0, 40), agreement.plan, name="north", masks=masks["north"])
    key = public_half(stranger)
    for wrong, reason in (
        ({"workers": {"a": key}}, "2 to"),
        ({"workers": {"a": key, "b": key}}, "same key"),
        ({"workers": {"a": key, "b": "0" * 64}}, "no X25519 key"),  # every secret would be zero
        ({"workers": {"a": key, "b": "xyz"}}, "no X25519 key"),
        ({"workers": dict(agreement.roster.workers), "minimum": 4}, "minimum"),
        ({"workers": {"a": key}, "helpers": {"a": key}}, "a worker and a helper"),
    ):
        with pytest.raises(ParameterError, match=reason):
            Roster(**wrong)


def test_a_roster_and_keys_come_back_from_their_files(tmp_path, agreement):
    agreement, _ = agreement
    roster = agreement.roster
    (tmp_path / "roster").write_text(roster.to_json())
    assert Roster.load(tmp_path / "roster") == roster
    assert Roster.load(tmp_path / "roster").digest == roster.digest
    (tmp_path / "odd").write_text("[]")
    with pytest.raises(DataError, match="no roster"):
        Roster.load(tmp_path / "odd")
    key = X25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key").write_bytes(private)
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(DataError, match="chmod 600"):
        load_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "key.pub").write_bytes(public)
    assert public_half(load_key(tmp_path / "key")) == load_public_key(tmp_path / "key.pub")
    for load, wrong in ((load_key, "key.pub"), (load_public_key, "key"), (load_key, "odd")):
        with pytest.raises(DataError, match="X25519"):
            load(tmp_path / wrong)
