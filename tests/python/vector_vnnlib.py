"""A VNN-LIB property for many points at once, exactly, and points that are worth judging.

Judge evaluates the expressions that verify_witness.Property has parsed. A float32 is at most a decimal
exactly when it is at most the largest float32 that is (and likewise from below), so once every decimal
is rounded to that side in rationals, comparing float32 numbers is comparing with the file.
"""

import functools
from fractions import Fraction

import numpy as np


@functools.lru_cache(1 << 20)
def around(text):
    """The largest float32 <= the decimal, and the smallest >= it."""
    exact, near = Fraction(text), np.float32(text)
    value = Fraction(float(near))
    if value == exact:
        return near, near
    if value < exact:
        return near, np.nextafter(near, np.float32(np.inf))
    return np.nextafter(near, np.float32(-np.inf)), near


def is_variable(term):
    return term[:2] in ("X_", "Y_")


class Conjunction:
    """Relations that all have to hold, and disjunctions of which one disjunct each has to."""

    def __init__(self, fixed, expressions):
        self.fixed = fixed
        self.at_most, self.at_least = {}, {}  # variable -> float32
        self.pairs = []  # (smaller, larger)
        self.either = []
        for expression in expressions:
            self.add(expression)
        self.bounds = [self.arrays(kind) for kind in "XY"]
        self.smaller, self.larger = (
            np.array([int(pair[side][2:]) for pair in self.pairs], dtype=np.int64) for side in (0, 1)
        )

    def add(self, expression):
        relation, *operands = expression
        if relation == "and":
            for each in operands:
                self.add(each)
        elif relation == "or":
            self.either.append([Conjunction(self.fixed, [each]) for each in operands])
        else:
            self.add_relation(relation, *operands)

    def add_relation(self, relation, a, b):
        assert relation in ("<=", ">="), relation
        first = a
        if relation == ">=":
            a, b = b, a
        if is_variable(a) and is_variable(b):
            assert a[0] == b[0] == "Y"
            self.pairs.append((a, b))
            return
        variable, decimal = (a, b) if is_variable(a) else (b, a)
        below, above = around(decimal)
        # An input whose two bounds are one decimal may also be the float32 nearest to it.
        near = None
        if variable == first and below != above and variable[0] == "X":
            near = self.fixed.get((variable, Fraction(decimal)))
        if variable == a:
            bound = below if near is None else max(below, np.float32(float(near)))
            self.at_most[variable] = min(self.at_most.get(variable, bound), bound)
        else:
            bound = above if near is None else min(above, np.float32(float(near)))
            self.at_least[variable] = max(self.at_least.get(variable, bound), bound)

    def arrays(self, kind):
        names = [n for n in {**self.at_most, **self.at_least} if n[0] == kind]
        index = np.array([int(n[2:]) for n in names], dtype=np.int64)
        lo = np.array([self.at_least.get(n, -np.inf) for n in names], dtype=np.float32)
        hi = np.array([self.at_most.get(n, np.inf) for n in names], dtype=np.float32)
        return index, lo, hi

    def holds(self, x, y, rows):
        """Those of `rows` (indices into x and y) for which all of it is true."""
        rows = rows[(y[np.ix_(rows, self.smaller)] <= y[np.ix_(rows, self.larger)]).all(1)]
        for values, (index, lo, hi) in zip((x, y), self.bounds):
            if len(rows) and len(index):
                some = values[np.ix_(rows, index)]
                rows = rows[((some >= lo) & (some <= hi)).all(1)]
        for disjuncts in self.either:
            pending, found = rows, []
            for each in disjuncts:
                if not len(pending):
                    break
                true = each.holds(x, y, pending)
                if len(true):
                    found.append(true)
                    pending = np.setdiff1d(pending, true, assume_unique=True)
            rows = np.sort(np.concatenate(found)) if found else rows[:0]
        return rows


class Judge:
    def __init__(self, prop):
        self.whole = Conjunction(prop.fixed, prop.asserts)

    def violates(self, x, y):
        """bool [N] of float32 x [N, inputs] and y [N, outputs]: whether every assertion is true."""
        out = np.zeros(len(x), dtype=bool)
        out[self.whole.holds(x, y, np.arange(len(x)))] = True
        return out


# What draw makes of a point, in turn. Outputs satisfy one disjunct, most of them by a tie, unless said.
KINDS = (
    "inside the box",
    "a corner",
    "some inputs on a bound",
    "one input one float outside",
    "any outputs",
    "an output one float off",
)


class Points:
    """Draws inputs and outputs around random disjuncts of a Judge's property."""

    def __init__(self, judge, prop, rng):
        self.whole, self.rng = judge.whole, rng
        self.inputs, self.outputs = prop.inputs, prop.outputs

    def draw(self, count, choices):
        """`count` points, spread over that many random disjuncts."""
        parts = [len(part) for part in np.array_split(np.arange(count), choices)]
        drawn = [self.around_one(part, start) for start, part in enumerate(parts) if part]
        return tuple(np.concatenate(each) for each in zip(*drawn))

    def choose(self, conjunction, chosen):
        chosen.append(conjunction)
        for disjuncts in conjunction.either:
            self.choose(disjuncts[self.rng.integers(len(disjuncts))], chosen)
        return chosen

    def around_one(self, count, start):
        rng = self.rng
        chosen = self.choose(self.whole, [])
        lo = np.full(self.inputs, -np.inf, np.float32)
        hi = np.full(self.inputs, np.inf, np.float32)
        for index, low, high in (each.bounds[0] for each in chosen):
            lo[index] = np.maximum(lo[index], low)
            hi[index] = np.minimum(hi[index], high)
        kind = (np.arange(count) + start) % len(KINDS)
        x = self.draw_inputs(kind, lo, hi)
        y = rng.normal(0, 10, (count, self.outputs)).astype(np.float32)
        moved = self.satisfy(chosen, y, kind != 4)
        beside = np.flatnonzero(kind == 5)
        if len(beside) and len(moved):
            column = rng.choice(moved, len(beside))
            toward = np.where(rng.random(len(beside)) < 0.5, -np.inf, np.inf).astype(np.float32)
            y[beside, column] = np.nextafter(y[beside, column], toward)
        return x, y

    def draw_inputs(self, kind, lo, hi):
        rng = self.rng
        u = rng.random((len(kind), len(lo)), dtype=np.float32)
        x = (lo + (hi.astype(np.float64) - lo) * u).astype(np.float32)
        x = np.minimum(np.maximum(x, np.minimum(lo, hi)), np.maximum(lo, hi))
        side = np.where(rng.random(x.shape, dtype=np.float32) < 0.5, lo, hi)
        on_bound = (kind == 1)[:, None] | ((kind == 2)[:, None] & (u < 0.5))
        x = np.where(on_bound, side, x)
        for row in np.flatnonzero(kind == 3):
            i = rng.integers(len(lo))
            bound, beyond = (lo[i], -np.inf) if rng.random() < 0.5 else (hi[i], np.inf)
            x[row, i] = np.nextafter(bound, np.float32(beyond))
        return x

    def satisfy(self, chosen, y, wanted):
        """Moves outputs onto what does not hold in the rows `wanted`; returns their columns."""
        pairs = [p for each in chosen for p in zip(each.smaller, each.larger)]
        columns = {int(i) for pair in pairs for i in pair}
        for each in chosen:
            columns.update(each.bounds[1][0].tolist())
        for _ in range(10):
            for i in self.rng.permutation(len(pairs)):
                a, b = pairs[i]
                bad = wanted & (y[:, a] > y[:, b])
                to, source = (a, b) if self.rng.random() < 0.5 else (b, a)
                y[bad, to] = y[bad, source]
            for each in chosen:
                index, lo, hi = each.bounds[1]
                if len(index):
                    some = y[:, index]
                    y[:, index] = np.where(
                        wanted[:, None], np.minimum(np.maximum(some, lo), hi), some
                    )
        return np.array(sorted(columns))
