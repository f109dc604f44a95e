"""BMCs that tests start, and that end with them."""

import pytest
from mockup import MockBmc


@pytest.fixture
def start():
    bmcs: list[MockBmc] = []

    def begin(tree, **options) -> MockBmc:
        bmcs.append(MockBmc(tree, **options))
        return bmcs[-1]

    yield begin
    for bmc in bmcs:
        bmc.close()
