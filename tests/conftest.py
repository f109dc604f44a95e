"""What every test shares: benchmarks run only when asked for."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benchmarks", action="store_true", help="run tests/benchmarks and print their figures")


def pytest_ignore_collect(collection_path, config: pytest.Config) -> bool | None:
    if collection_path.name == "benchmarks" and not config.getoption("--benchmarks"):
        return True
    return None
