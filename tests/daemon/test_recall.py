from idlewatt.daemon.recall import Recall


def test_a_function_is_asked_again_only_about_other_objects():
    recall, asked, first = Recall(), [], [1, 2]

    def total(*lists):
        asked.append(lists)
        return sum(map(sum, lists))

    assert [recall(total, first, ()), recall(total, first, ())] == [3, 3]
    assert len(asked) == 1
    alike, other = [1, 2], [5]
    assert [recall(total, alike, ()), recall(total, other, ())] == [3, 5]
    assert len(asked) == 3
    assert recall(total, first, ()) == 3
    assert len(asked) == 4  # only the last answer is kept


def test_functions_are_kept_apart():
    recall, numbers = Recall(), [3, 1]
    assert (recall(min, numbers), recall(max, numbers), recall(min, numbers)) == (1, 3, 1)
