"""Tests that share one real part of the machine run on one worker."""

pytest_plugins = "pytester"


def test_marked_tests_share_a_worker(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.xdist_group("one-part")
        @pytest.mark.parametrize("number", range(20))
        def test_shares_the_part(number, worker_id):
            with open("workers", "a") as workers:
                workers.write(f"{worker_id} ")
        """)

    pytester.runpytest_subprocess("-n2", "--dist", "loadgroup").assert_outcomes(passed=20)

    assert len(set((pytester.path / "workers").read_text().split())) == 1
