"""The numbers are those that sshare of a Slurm 22.05 printed for this tree and this usage."""

import numpy as np
import pytest

from idlewatt.daemon.replay.priority.booking import book
from idlewatt.daemon.replay.priority.fair_share import ShareNode, Tree, classic, decayed, fair_tree
from idlewatt.daemon.settings.priority import PrioritySettings

MEMBERS = (
    ShareNode("root"), ShareNode("root", "root"), ShareNode("guests", "", "root", 1), ShareNode("guests", "lp"),
    ShareNode("guests", "news"), ShareNode("science", "", "root", 3), ShareNode("biology", "", "science", 1),
    ShareNode("biology", "man", "", None), ShareNode("biology", "news", "", 5), ShareNode("physics", "", "science", 2),
    ShareNode("physics", "games", "", 2), ShareNode("physics", "man", "", 1))


def used(tree, **amounts):
    usage = np.zeros(len(tree))
    for name, amount in amounts.items():
        tree.add(usage, tree.rows[tuple(name.split("_"))], amount)
    return usage


def test_users_rank_by_fair_tree_as_sshare_has_them_ties_too():
    tree = Tree(MEMBERS)
    standing = fair_tree(tree, used(tree, physics_games=32.0))

    expected = {("root", "root"): 1.0, ("guests", "lp"): 1.0, ("guests", "news"): 1.0, ("biology", "man"): 0.571429,
                ("biology", "news"): 0.571429, ("physics", "games"): 0.142857, ("physics", "man"): 0.285714}
    assert {key: standing.factor[tree.rows[key]] for key in expected} == pytest.approx(expected, abs=1e-6)
    assert standing.level[tree.rows["physics", "games"]] == pytest.approx(0.666667, abs=1e-6)
    assert standing.level[tree.rows["science", ""]] == pytest.approx(0.6)


def test_usage_counts_for_every_account_above():
    tree = Tree(MEMBERS)
    usage = used(tree, physics_games=30.0, biology_news=10.0)

    assert usage[tree.rows["science", ""]] == usage[0] == 40
    assert usage[tree.rows["physics", ""]] == 30
    assert usage[tree.rows["guests", ""]] == 0


def test_the_classic_factor_is_half_for_who_used_their_share():
    tree = Tree((ShareNode("a", "", "root", 1), ShareNode("b", "", "root", 1), ShareNode("a", "x"), ShareNode("b",
                                                                                                              "y")))
    standing = classic(tree, used(tree, a_x=50.0, b_y=50.0))

    assert standing.factor[tree.rows["a", "x"]] == pytest.approx(0.5)
    assert classic(tree, used(tree, a_x=100.0)).factor[tree.rows["b", "y"]] == pytest.approx(1.0)
    assert classic(tree, used(tree, a_x=100.0), 2.0).factor[tree.rows["a", "x"]] == pytest.approx(0.5)


def test_a_circle_of_accounts_ends():
    tree = Tree((ShareNode("a", "", "b"), ShareNode("b", "", "a"), ShareNode("a", "x")))
    assert len(tree.chain[tree.rows["a", "x"]]) <= len(tree) + 1
    assert not fair_tree(tree, np.zeros(len(tree))).factor[tree.rows["a", "x"]]


def test_usage_decays_by_its_half_life():
    settings = PrioritySettings(half_life_s=600.0)
    assert decayed(settings, np.array([8.0]), 1200.0) == pytest.approx([2.0], rel=2e-3)


def walked(tree, level, account=0, tied=False, ranks=None):
    """Return the ranks of users, walking down the tree as it is told: siblings by ratio, users before accounts."""
    ranks = {"rank": int(tree.user.sum()), "left": int(tree.user.sum())} if ranks is None else ranks
    before = None
    for row in sorted(tree.children[account], key=lambda row: (-level[row], not tree.user[row])):
        alike, before = tied if before is None else before == level[row], level[row]
        if not tree.user[row]:
            walked(tree, level, row, alike, ranks)
            continue
        ranks["rank"] = ranks["rank"] if alike else ranks["left"]
        ranks[row], ranks["left"] = ranks["rank"], ranks["left"] - 1
    return ranks


def grown(random, accounts, users):
    """Return a tree of accounts at any depth and users in any of them, some of whom share what their account has."""
    names = ["root", *(f"a{number}" for number in range(accounts))]
    members = [ShareNode(name, "", names[random.integers(index + 1)], int(random.integers(0, 3)))
               for index, name in enumerate(names[1:])]
    members += [ShareNode(names[random.integers(len(names))], f"u{number}", "", random.choice([None, 0, 1, 2]))
                for number in range(users)]
    random.shuffle(members)
    return Tree(members)


def test_ranks_are_those_of_a_plain_walk_in_trees_of_any_shape_with_many_ties():
    random = np.random.default_rng(7)
    for _ in range(300):
        tree = grown(random, int(random.integers(0, 8)), int(random.integers(1, 25)))
        usage = np.zeros(len(tree))
        for row in range(1, len(tree)):
            tree.add(usage, row, float(random.integers(0, 3)))
        standing = fair_tree(tree, usage)
        ranks, users = walked(tree, standing.level.tolist()), int(tree.user.sum())
        assert standing.factor.tolist() == [ranks.get(row, 0) / users for row in range(len(tree))]


def test_what_jobs_spent_is_booked_on_their_associations_and_above():
    random = np.random.default_rng(8)
    tree = grown(random, 6, 20)
    seats, spent = random.integers(1, len(tree), 100), random.random(100)
    own, total, wanted = np.zeros(len(tree)), np.zeros(len(tree)), np.zeros(len(tree))
    book(tree.chains, seats, spent, own, total)

    for seat, amount in zip(seats.tolist(), spent.tolist(), strict=True):
        tree.add(wanted, seat, amount)
    assert total == pytest.approx(wanted)
    assert own == pytest.approx(np.bincount(seats, spent, len(tree)))
