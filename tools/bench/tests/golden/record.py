#!/usr/bin/env python3
"""Records what the reference implementation of MLRsearch does with simulated devices, for `tests/mlrsearch.rs`.

    python3 -m venv VENV && VENV/bin/pip install MLRsearch==1.2.1
    VENV/bin/python3 tools/bench/tests/golden/record.py > tools/bench/tests/golden/mlrsearch.txt

The reference is FD.io CSIT's library, https://pypi.org/project/MLRsearch/, under the Apache License 2.0. What is recorded
are the trials it asks for, the answers it got, and its results. One fact per line:

    case NAME MIN_LOAD MAX_LOAD WARMUP
    goal LOSS_RATIO EXCEED_RATIO RELATIVE_WIDTH INITIAL_DURATION FINAL_DURATION DURATION_SUM PRECEDING EXPANSION FAIL_FAST
    trial DURATION LOAD INTENDED OFFERED LOST ELAPSED
    result LOWER UPPER CONDITIONAL_THROUGHPUT          (of each goal; - where there is none)
    failed                                             (instead of results, if no load is low enough)
"""

import random

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

NDR = dict(loss_ratio=0.0, exceed_ratio=0.005)
PDR = dict(loss_ratio=0.005, exceed_ratio=0.5)
CSIT = dict(initial_trial_duration=1.0, final_trial_duration=1.0, duration_sum=21.0, preceding_targets=2,
            expansion_coefficient=2, relative_width=0.005)
RFC2544 = dict(loss_ratio=0.0, exceed_ratio=0.0, initial_trial_duration=1.0, final_trial_duration=60.0,
               duration_sum=60.0, preceding_targets=2, expansion_coefficient=2, relative_width=0.005)


def goals(*changes):
    """NDR and PDR as CSIT has them, both changed; or the given ones as they are."""
    return [SearchGoal(**{**CSIT, **goal}) for goal in changes]


def hard(limit):
    """Forwards `limit` packets per second and loses the rest."""
    return lambda duration, load, sent: max(0, sent - int(limit * duration))


def soft(start, slope):
    """Loses a share that grows with the load from `start` on."""
    return lambda duration, load, sent: int(sent * min(1.0, max(0.0, load / start - 1.0) * slope))


def noisy(seed, limit, spread, glitch):
    """A limit that differs from trial to trial by up to `spread`; one trial in `glitch` loses a few more."""
    dice = random.Random(seed)

    def lose(duration, load, sent):
        limited = limit * (1.0 + spread * (2.0 * dice.random() - 1.0))
        lost = max(0, sent - int(limited * duration))
        return lost + (dice.randrange(1, 20) if dice.randrange(glitch) == 0 else 0)
    return lose


def inverted(limit, hole):
    """Also loses around a lower load, `hole`, and nothing between."""
    def lose(duration, load, sent):
        if abs(load / hole - 1.0) < 0.02:
            return sent // 50
        return max(0, sent - int(limit * duration))
    return lose


def queueing(limit, queue):
    """Has a queue of so many packets, so that short trials do better than long ones."""
    return lambda duration, load, sent: max(0, sent - int(limit * duration) - queue)


class Device(AbstractMeasurer):
    def __init__(self, lose, most=None, overhead=0.0):
        self.lose, self.most, self.overhead = lose, most, overhead

    def measure(self, intended_duration, intended_load):
        intended = int(intended_duration * intended_load)
        offered = min(intended, int(self.most * intended_duration)) if self.most else intended
        lost = min(offered, self.lose(intended_duration, min(intended_load, self.most or intended_load), offered))
        elapsed = intended_duration + self.overhead
        print("trial", repr(intended_duration), repr(intended_load), intended, offered, lost, repr(elapsed))
        return MeasurementResult(intended_duration=intended_duration, intended_load=intended_load, offered_count=offered,
                                 loss_count=lost, intended_count=intended, duration_with_overheads=elapsed)


def load(value):
    return "-" if value is None else repr(float(value))


def record(name, device, goal_list, low=9001.0, high=30e6, warmup=0.0):
    config = Config(goals=goal_list, min_load=low, max_load=high, search_duration_max=1e9, warmup_duration=warmup)
    print("case", name, repr(low), repr(high), repr(warmup))
    for goal in goal_list:
        print("goal", *(repr(value) for value in (
            goal.loss_ratio, goal.exceed_ratio, goal.relative_width, goal.initial_trial_duration,
            goal.final_trial_duration, goal.duration_sum, goal.preceding_targets, goal.expansion_coefficient,
            int(goal.fail_fast))))
    try:
        results = MultipleLossRatioSearch(config=config).search(measurer=device, debug=lambda text: None)
    except RuntimeError as error:
        assert str(error).startswith("No lower bound"), error
        print("failed")
        return
    for goal in goal_list:
        result = results[goal]
        print("result", load(result.relevant_lower_bound), load(result.relevant_upper_bound),
              load(result.conditional_throughput))


def main():
    both = goals(NDR, PDR)
    record("hard-limit", Device(hard(10e6)), both, warmup=1.0)
    record("hard-limit-ndr", Device(hard(7_654_321)), goals(NDR))
    record("hard-limit-low", Device(hard(20_000)), both)
    record("hard-limit-rfc2544", Device(hard(10e6)), [SearchGoal(**RFC2544)])
    record("hard-limit-wide", Device(hard(123_456.7)), goals(dict(NDR, relative_width=0.05), dict(PDR, relative_width=0.01)))
    record("soft", Device(soft(8e6, 0.02)), both)
    record("soft-steep", Device(soft(8e6, 3.0)), goals(PDR, dict(PDR, loss_ratio=0.1), NDR))
    for seed in range(4):
        record(f"noisy-{seed}", Device(noisy(seed, 10e6, 0.01, 30)), both)
    record("noisy-wild", Device(noisy(4, 5e6, 0.2, 3), overhead=0.25), goals(dict(NDR, exceed_ratio=0.2), PDR))
    record("noisy-fast-expansion", Device(noisy(5, 3e6, 0.05, 300)),
           goals(dict(NDR, expansion_coefficient=4), dict(PDR, expansion_coefficient=4)))
    record("inverted", Device(inverted(10e6, 9_970_000)), both)
    record("inverted-near", Device(inverted(10e6, 9.7e6)), both)
    longer = dict(initial_trial_duration=1.0, final_trial_duration=10.0, duration_sum=60.0, preceding_targets=3)
    record("queueing", Device(queueing(4e6, 500_000)), goals(dict(NDR, **longer), dict(PDR, **longer)))
    record("no-limit", Device(hard(1e9)), both)
    record("generator-is-the-limit", Device(hard(1e9), most=6e6), both)
    record("nothing-through", Device(hard(0)), both)
    record("nothing-through-patient", Device(hard(0)), goals(dict(NDR, fail_fast=False), dict(PDR, fail_fast=False)))
    record("narrow-limits", Device(hard(1.01e6)), both, low=1e6, high=1.02e6)
    record("no-preceding", Device(hard(10e6)), goals(dict(NDR, preceding_targets=0, initial_trial_duration=21.0,
                                                           final_trial_duration=21.0)))


if __name__ == "__main__":
    main()
