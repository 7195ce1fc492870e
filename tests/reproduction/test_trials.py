"""Trials, their files, and the processes that run them."""

import json
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from worker_tasks import bits_as_map, slow_after_the_second, third_fails, third_is_killed, when_it_ran

from manihash.hashers.recipes import recipe
from reproduction.paper.run import runner
from reproduction.paper.run.cache import TrialCache
from reproduction.paper.run.runner import run
from reproduction.paper.run.trial import TIMED, Result, ResultFolder, Trial, trial
from reproduction.paper.tasks import TASKS


def some(n, **more):
    return [trial("retrieval", "digits", "pcah", bits, **more) for bits in range(1, n + 1)]


def result(t, **figures):
    return Result(t, figures or {"map": 0.5}, {"fit": 1.0}, {"cores": "2"})


# files


def test_a_path_is_the_same_on_every_machine_and_in_every_version(tmp_path):
    results = ResultFolder(tmp_path)
    plain = trial("retrieval", "mnist", "imh-tsne", 64, 1)
    assert results.path(plain) == tmp_path / "retrieval/mnist/imh-tsne-64-s1-ce74cb53b5.json"
    rich = trial("retrieval", "mnist", "agh", 64, base__size=1000, n_neighbors=2, queries=200)
    assert results.path(rich) == tmp_path / "retrieval/mnist/agh-64-s0-c3fc0e7ceb.json"


def test_the_order_of_options_does_not_matter_and_everything_else_does():
    a = trial("retrieval", "mnist", "agh", 64, n_neighbors=2, base__size=1000)
    assert a == trial("retrieval", "mnist", "agh", 64, base__size=1000, n_neighbors=2)
    others = [
        replace(a, task="times"),
        replace(a, data="digits"),
        replace(a, method="imh-le"),
        replace(a, bits=32),
        replace(a, seed=1),
        replace(a, options=()),
        replace(a, rows=5000),
        replace(a, queries=10),
    ]
    results = ResultFolder("results")
    assert len({results.path(t) for t in [a, *others]}) == len(others) + 1


def test_a_result_comes_back_as_it_was_written(tmp_path):
    results = ResultFolder(tmp_path)
    t = trial("retrieval", "digits", "agh", 8, base__size=100, rows=500)
    kept = result(t, map=0.1 + 0.2, curve=[1 / 3, 0.5])
    assert results.get(t) is None
    results.put(kept)
    assert results.get(t) == kept
    assert results.of([t, trial("scan", "digits")]) == {t: kept}
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [results.path(t).name]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace("0.5", "0.6"),
        lambda text: text.replace('"digits"', '"mnist"'),
        lambda text: "\x00" * len(text),
    ],
    ids=["cut short", "empty", "another thing", "a changed figure", "another trial", "zeros"],
)
def test_a_damaged_file_is_named_and_its_trial_run_again(tmp_path, caplog, damage):
    results, (t,) = ResultFolder(tmp_path), some(1)
    results.put(result(t))
    path = results.path(t)
    path.write_text(damage(path.read_text()))
    assert results.get(t) is None
    assert str(path) in caplog.text
    assert "run again" in caplog.text
    assert run([t], results, bits_as_map) == {}
    assert results.get(t).figures == {"map": 0.01}


def test_a_result_that_is_not_a_number_is_not_written(tmp_path):
    results, (t,) = ResultFolder(tmp_path), some(1)
    with pytest.raises(ValueError, match="JSON"):
        results.put(result(t, map=float("nan")))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# the runner


def test_finished_trials_are_not_run_again(tmp_path):
    results, trials = ResultFolder(tmp_path), some(3)
    results.put(result(trials[1], map=0.77))
    assert run([*trials, trials[0]], results, bits_as_map) == {}
    assert [results.get(t).figures["map"] for t in trials] == [0.01, 0.77, 0.03]
    found = results.get(trials[0])
    assert {"numpy", "commit", "cores", "date", "processor"} <= set(found.about)
    assert found.seconds["fit"] == 0.5
    assert found.seconds["all"] > 0


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("measure", [third_fails, third_is_killed])
def test_a_trial_that_dies_is_reported_and_the_others_run(tmp_path, caplog, measure, jobs):
    results, trials = ResultFolder(tmp_path), some(5)
    failures = run(trials, results, measure, jobs=jobs)
    assert list(failures) == [trials[2]]
    reason = "three is too many" if measure is third_fails else "exit code -9"
    assert reason in failures[trials[2]]
    assert reason in caplog.text
    assert set(results.of(trials)) == set(trials) - {trials[2]}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4


def test_an_interrupt_keeps_finished_results_and_leaves_no_process(tmp_path):
    results, trials = ResultFolder(tmp_path), some(4)

    def interrupt():
        while not results.path(trials[1]).is_file():
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(trials, results, slow_after_the_second)
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(results.of(trials)) == set(trials[:2])
    assert runner.multiprocessing.active_children() == []


def test_a_full_disk_stops_the_run(tmp_path, monkeypatch):
    def full(self, kept):
        raise OSError(28, "No space left on device", "x.json")

    monkeypatch.setattr(ResultFolder, "put", full)
    with pytest.raises(OSError, match="No space"):
        run(some(3), ResultFolder(tmp_path), bits_as_map)
    assert runner.multiprocessing.active_children() == []


def test_trials_that_measure_time_run_last_and_alone(tmp_path):
    assert set(TASKS) > TIMED
    timed = [trial("times", "digits", "pcah", bits) for bits in (1, 2)]
    others, results = some(4), ResultFolder(tmp_path)
    run([timed[0], *others, timed[1]], results, when_it_ran, jobs=2)
    spans = {t: results.get(t).figures for t in [*timed, *others]}
    assert spans[timed[0]]["start"] >= max(spans[t]["end"] for t in others)
    assert spans[timed[1]]["start"] >= spans[timed[0]]["end"]
    assert len({spans[t]["process"] for t in others}) == 2


# what trials share


@pytest.mark.parametrize("method", ["imh-tsne", "imh-le-random", "agh", "itq"])
def test_a_shared_base_gives_the_codes_of_the_recipe_itself(method):
    cache = TrialCache()
    options = {} if method == "itq" else {"base__size": 100}
    t = trial("retrieval", "digits", method, 16, 3, **options)
    data = cache.dataset(t)
    shared = cache.hasher(t).fit(data.X_train).encode(data.X_test)
    own = recipe(method, n_bits=16, random_state=3, **options).fit(data.X_train).encode(data.X_test)
    np.testing.assert_array_equal(shared, own)


def test_base_sets_are_made_once_for_all_methods_and_lengths(monkeypatch):
    made = []
    real = __import__("reproduction.paper.run.cache", fromlist=["choose_base"]).choose_base
    monkeypatch.setattr(
        "reproduction.paper.run.cache.choose_base", lambda *args: made.append(args) or real(*args)
    )
    cache = TrialCache()
    for method in ("imh-tsne", "imh-le", "agh"):
        for bits in (8, 16):
            cache.hasher(trial("retrieval", "digits", method, bits, base__size=50))
    assert len(made) == 1
    cache.hasher(trial("retrieval", "digits", "agh", 8, 1, base__size=50))
    cache.hasher(trial("retrieval", "digits", "agh", 8, base__size=60))
    assert len(made) == 3


def test_the_document_of_a_trial_is_plain_json():
    t = Trial("times", "digits", options=(("base__size", 3),))
    assert json.loads(json.dumps(t.document())) == {
        "task": "times",
        "data": "digits",
        "options": {"base__size": 3},
    }
