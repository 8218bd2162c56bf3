"""Episodes against literal transcriptions of their draws, and by counting what they draw."""

import pickle
from collections import Counter
from itertools import combinations, permutations
from math import sqrt

import numpy as np
import pytest

from jeanie.errors import ConfigError
from jeanie.fewshot.episodes import Draw, Episodes, Exemplars, PublishedEpisodes, limit_episodes

LABELS = [label for label in "abcdef" for _ in range(5)]  # 6 classes of 5 clips, clip 7 is the third b
SUBJECTS = [clip % 5 for clip in range(30)]


def shuffle(words, items, count):
    """The first items of a list that is shuffled front to back by swapping, a word of the generator a swap."""
    items = list(items)
    for place in range(count):
        other = place + int(words.random_raw()) % (len(items) - place)
        items[place], items[other] = items[other], items[place]
    return items[:count]


def lists(episode):
    return [
        *(getattr(episode, key).tolist() for key in ("support", "support_labels", "query", "query_labels")),
        list(episode.classes),
    ]


def assert_binomial(found, trials, chance):
    """A count within 5 standard deviations of what independent trials give (1 in 2 million fails)."""
    assert abs(found - trials * chance) < 5 * sqrt(trials * chance * (1 - chance))


@pytest.mark.parametrize("number", [0, 1, 77])
def test_an_episode_is_what_its_generator_words_say(number):
    episode = Episodes(LABELS, way=3, shot=2, queries=2, count=100, seed=5)[number]
    words = np.random.PCG64(np.random.SeedSequence([2, 5, number]))
    support, query = [], []
    classes = shuffle(words, "abcdef", 3)
    for label in classes:
        clips = [clip for clip in range(30) if LABELS[clip] == label]
        support += shuffle(words, clips, 2)
        query += shuffle(words, [clip for clip in clips if clip not in support], 2)
    assert lists(episode) == [support, [0, 0, 1, 1, 2, 2], query, [0, 0, 1, 1, 2, 2], classes]


def test_the_draws_of_this_release_stay_as_they_are():
    """Published numbers name seeds: a change of the draws would make them unrepeatable."""
    assert Draw(0).pick_indices(20, 10) == [7, 2, 15, 3, 13, 9, 18, 19, 14, 11]
    assert lists(Episodes(LABELS, way=2, count=1, seed=0)[0]) == [
        [28, 5],
        [0, 1],
        [26, 7],
        [0, 1],
        ["f", "b"],
    ]


def test_draws_are_uniform_over_ordered_choices():
    trials = 12_000
    found = Counter(tuple(Draw(3, trial).pick("wxyz", 2)) for trial in range(trials))
    assert set(found) == set(permutations("wxyz", 2))
    for count in found.values():
        assert_binomial(count, trials, 1 / 12)


def test_a_key_is_not_its_own_beginning():
    """numpy pads seeds with zeros; a seed and episode 0 of that seed must not share their draws."""
    assert Draw(5).pick_indices(1000, 5) != Draw(5, 0).pick_indices(1000, 5)
    assert Draw(5, 0).pick_indices(1000, 5) != Draw(5, 0, 0).pick_indices(1000, 5)


def test_classes_and_clips_are_drawn_equally_often():
    trials = 1000
    episodes = Episodes(LABELS, way=2, shot=1, queries=2, count=trials, seed=1)
    pairs = Counter(frozenset(episode.classes) for episode in episodes)
    assert set(pairs) == {frozenset(pair) for pair in combinations("abcdef", 2)}
    for count in pairs.values():
        assert_binomial(count, trials, 1 / 15)
    supports = Counter(clip for episode in episodes for clip in episode.support.tolist())
    queries = Counter(clip for episode in episodes for clip in episode.query.tolist())
    for clip in range(30):
        assert_binomial(supports[clip], trials, 2 / 6 / 5)
        assert_binomial(queries[clip], trials, 2 / 6 * 2 / 5)


def test_the_order_of_the_classes_is_random():
    trials = 1000
    first = Counter(episode.classes[0] for episode in Episodes(LABELS, way=6, count=trials, seed=2))
    for label in "abcdef":
        assert_binomial(first[label], trials, 1 / 6)


@pytest.mark.parametrize("size", [(6, 2, 3), (2, 1, 1), (3, 4, 1)], ids=str)
def test_an_episode_holds_what_was_asked_for(size):
    way, shot, queries = size
    for episode in Episodes(LABELS, way=way, shot=shot, queries=queries, count=50, seed=0):
        support, support_labels, query, query_labels, classes = lists(episode)
        assert len(set(classes)) == way == episode.way
        assert support_labels == [number for number in range(way) for _ in range(shot)]
        assert query_labels == [number for number in range(way) for _ in range(queries)]
        assert [LABELS[clip] for clip in support] == [classes[number] for number in support_labels]
        assert [LABELS[clip] for clip in query] == [classes[number] for number in query_labels]
        assert len(set(support + query)) == way * (shot + queries)


def test_an_episode_depends_on_seed_and_number_alone():
    short, long = (Episodes(LABELS, way=3, count=count, seed=4) for count in (10, 1000))
    assert [lists(one) for one in short] == [lists(one) for one in long[:10]]
    assert lists(long[7]) == lists(pickle.loads(pickle.dumps(short))[7])  # noqa: S301 our own bytes
    assert lists(long[-1]) == lists(long[999])
    assert lists(short[3]) != lists(Episodes(LABELS, way=3, count=10, seed=5)[3])
    with pytest.raises(IndexError):
        short[10]


def test_pools_bound_supports_and_queries():
    support, query = (
        [clip for clip in range(30) if clip % 5 < 2],
        [clip for clip in range(30) if clip % 5 > 1],
    )
    for episode in Episodes(LABELS, way=6, queries=3, count=20, seed=0, support=support, query=query):
        assert set(episode.support.tolist()) <= set(support)
        assert set(episode.query.tolist()) == set(query)


def test_pools_that_overlap_never_give_a_clip_twice():
    """The only support is a query in half of the pool: the other query must be taken."""
    for episode in Episodes(LABELS, way=6, count=50, seed=0, support=[0, 5, 10, 15, 20, 25], query=[
        clip for clip in range(30) if clip % 5 < 2
    ]):  # fmt: skip
        assert [clip % 5 for clip in episode.query.tolist()] == [1] * 6


@pytest.mark.parametrize("shot", [1, 2])
@pytest.mark.parametrize("apart", [("subject",), ("view",), ("subject", "view")], ids="+".join)
def test_a_query_is_apart_from_the_supports_of_its_class(apart, shot):
    labels = ["a"] * 12 + ["b"] * 12
    tags = {"subject": [clip // 3 % 4 for clip in range(24)], "view": [clip % 3 for clip in range(24)]}
    episodes = Episodes(
        labels, way=2, shot=shot, queries=2, count=100, seed=0,
        subjects=tags["subject"], views=tags["view"], apart=apart,
    )  # fmt: skip
    for episode in episodes:
        own = episode.query_labels[:, None] == episode.support_labels
        for query, support in zip(*np.nonzero(own.numpy()), strict=True):
            for tag in apart:
                assert tags[tag][episode.query[query]] != tags[tag][episode.support[support]]


def test_draws_apart_are_uniform_over_what_is_allowed():
    """Subjects x x y: a support x leaves one query, a support y leaves two."""
    trials = 3000
    episodes = Episodes(["a"] * 3, way=1, count=trials, seed=0, subjects=["x", "x", "y"], apart=("subject",))
    found = Counter((int(one.support[0]), int(one.query[0])) for one in episodes)
    chances = {(0, 2): 1 / 3, (1, 2): 1 / 3, (2, 0): 1 / 6, (2, 1): 1 / 6}
    assert set(found) == set(chances)
    for pair, chance in chances.items():
        assert_binomial(found[pair], trials, chance)


def test_supports_that_leave_no_query_are_not_drawn():
    """Two queries by another subject: only the support y leaves them."""
    episodes = Episodes(
        ["a"] * 3, way=1, queries=2, count=100, seed=0, subjects=["x", "x", "y"], apart=["subject"]
    )
    assert {int(one.support[0]) for one in episodes} == {2}


def test_clips_without_a_label_are_never_drawn():
    labels = [None, *LABELS, None]
    drawn = [clip for one in Episodes(labels, way=6, count=50, seed=0) for clip in one.query.tolist()]
    assert 0 not in drawn
    assert 31 not in drawn


def test_exemplars_meet_every_query_once():
    labels = [3, 1, 3, 2, 1, 3]
    (episode,) = Exemplars([4, 5], [2, 0, 1], labels)
    assert lists(episode) == [[4, 5], [0, 1], [1, 2, 0], [0, 1, 1], [1, 3]]


def test_exemplars_may_be_queries_only_when_that_is_said():
    (episode,) = Exemplars([0], [0, 1], ["a", "a"], repeated=True)
    assert episode.query.tolist() == [0, 1]
    with pytest.raises(ConfigError):
        Exemplars([0], [0, 1], ["a", "a"])


def literal_published(labels, views, classes, support_views, query_views, queries, count, seed):
    """The published text as plain Python, clips in file order."""
    rng = np.random.RandomState(seed)
    episodes = []
    for _ in range(count):
        support, query = [], []
        chosen = [int(label) for label in rng.choice(classes, 5, replace=False)]
        for label in chosen:
            clips = [i for i in range(len(labels)) if labels[i] == label and views[i] in support_views]
            one = clips[rng.choice(len(clips), 1, replace=False)[0]]
            support.append(one)
            clips = [i for i in range(len(labels)) if labels[i] == label and views[i] in query_views]
            clips = [i for i in clips if i != one]
            query += [clips[place] for place in rng.choice(len(clips), queries, replace=False)]
        episodes.append(
            [support, [0, 1, 2, 3, 4], query, [n for n in range(5) for _ in range(queries)], chosen]
        )
    return episodes


@pytest.mark.parametrize(
    ("classes", "query_views", "queries", "seed"),
    [((1, 2, 3, 4, 5), (1, 2), 1, 0), ((6, 8, 9, 11, 12), (3,), 5, 10_000)],
    ids=["training", "test"],
)
def test_published_episodes_follow_the_published_calls(classes, query_views, queries, seed):
    rng = np.random.default_rng(0)
    labels = [int(label) for label in rng.choice([1, 2, 3, 4, 5, 6, 8, 9, 11, 12], 700)]
    views = [int(view) for view in rng.choice([1, 2, 3], 700)]
    expected = literal_published(labels, views, classes, (1, 2), query_views, queries, 40, seed)
    found = PublishedEpisodes(
        labels, classes=classes, queries=queries, count=40, seed=seed,
        support=[clip for clip in range(700) if views[clip] in (1, 2)],
        query=[clip for clip in range(700) if views[clip] in query_views],
    )  # fmt: skip
    assert [lists(episode) for episode in found] == expected
    assert lists(found[-1]) == expected[-1]
    assert len(found[5:7]) == 2


@pytest.mark.errors
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"way": 7}, "7-way episodes need 7 classes, the pools hold 6"),
        ({"shot": 5}, "class 'a' has 5 clips in the support pool and 5 in the query pool: too few for 5"),
        ({"queries": 5}, "too few for 1 supports and 5 queries; leave the class out"),
        ({"support": [0, 1, 2]}, "class 'b' has 0 clips in the support pool"),
        (
            {"support": [0, 0]},
            "the support pool must contain each clip once, .* got 2 numbers, 1 of them different",
        ),
        ({"query": [30]}, "the query pool must contain each clip once, as a number from 0 to 29"),
        ({"apart": ("subject",)}, "apart='subject' needs the subject of every clip; give subjects="),
        ({"apart": ("take",), "subjects": SUBJECTS}, "apart is 'subject' or 'view', got 'take'"),
        ({"apart": ("view",), "views": [1] * 30}, "queries that differ in view; leave"),
        ({"way": 0}, "way, shot, queries and count are 1 or more, got 0, 1, 1 and 10"),
        ({"seed": -1}, "a seed must be an integer of 0 or more"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "+".join(value),
)
def test_pools_that_cannot_serve_say_so_at_once(options, message):
    with pytest.raises(ConfigError, match=message):
        Episodes(LABELS, **({"way": 2, "count": 10, "seed": 0} | options))


@pytest.mark.errors
def test_published_episodes_say_which_class_is_too_small():
    with pytest.raises(ConfigError, match=r"too few clips of \['b'\]"):
        PublishedEpisodes("aaab", classes="ab", way=2, seed=0, support=[0, 1, 3], query=[0, 1, 2, 3])


@pytest.mark.errors
def test_exemplars_say_what_is_wrong():
    with pytest.raises(ConfigError, match=r"clips \[0\] are exemplars and queries; .* repeated=True"):
        Exemplars([0], [0, 1], ["a", "a"])
    with pytest.raises(ConfigError, match=r"no exemplar of \['b'\]"):
        Exemplars([0], [1], ["a", "b"])


@pytest.mark.parametrize("kind", ["random", "published"])
@pytest.mark.parametrize("classes", [1, 2])
def test_only_the_first_classes_have_queries_and_supports_stay_the_same(kind, classes):
    def make(query_classes):
        sizes = {"way": 3, "shot": 2, "queries": 2, "count": 20, "seed": 5, "query_classes": query_classes}
        if kind == "random":
            return Episodes(LABELS, **sizes)
        return PublishedEpisodes(LABELS, classes="abcdef", support=range(30), query=range(30), **sizes)

    for few, whole in zip(make(classes), make(None), strict=True):
        assert few.classes == whole.classes
        assert few.support.tolist() == whole.support.tolist()
        kept = [
            q for q, k in zip(whole.query.tolist(), whole.query_labels.tolist(), strict=True) if k < classes
        ]
        assert few.query.tolist() == kept
        assert len(kept) == 2 * classes


def test_the_class_of_a_single_query_is_uniform():
    episodes = Episodes(LABELS, way=3, query_classes=1, count=600, seed=1)
    found = Counter(LABELS[episode.query.item()] for episode in episodes)
    for label in "abcdef":
        assert_binomial(found[label], 600, 1 / 6)


@pytest.mark.errors
def test_more_query_classes_than_classes_are_refused():
    with pytest.raises(ConfigError, match="query_classes is 1 to the way 3"):
        Episodes(LABELS, way=3, query_classes=4, count=1, seed=0)


def test_a_limit_keeps_the_first_episodes_and_some_queries_of_every_exemplar():
    episodes = Episodes(LABELS, way=3, count=5, seed=0)
    assert [lists(one) for one in limit_episodes(episodes, 2)] == [lists(episodes[0]), lists(episodes[1])]
    whole = Exemplars([0, 5], [1, 2, 3, 4, 6, 7], LABELS)
    (few,) = limit_episodes(whole, 2)
    assert few.support.tolist() == [0, 5]
    assert few.query.tolist() == [1, 3, 6, 7]
    assert few.query_labels.tolist() == [0, 0, 1, 1]
    assert lists(limit_episodes(whole, 9)[0]) == lists(whole[0])
