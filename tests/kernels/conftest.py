"""Every test that takes ``compiled`` runs once with compiled loops and once with the references."""

import pytest

from dpsco.kernels import compiler


@pytest.fixture(params=[False, True], ids=["reference", "compiled"])
def compiled(request):
    if request.param and not compiler.available():
        pytest.skip("needs Numba")
    with compiler.implementation(compiled=request.param):
        yield request.param
