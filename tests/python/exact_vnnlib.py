"""VNN-LIB 1.0, read the slow and exact way: S-expressions over rational numbers.

Shares nothing with the reader in C++ nor with the script that writes the examples.
"""

import re
from fractions import Fraction


def parse(text):
    """(number of inputs, number of outputs, asserted expressions); raises on a bad file."""
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text)):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    (commands,) = stack
    names = [c[1] for c in commands if c[0] == "declare-const"]
    asserted = [c[1] for c in commands if c[0] == "assert"]
    assert len(names) + len(asserted) == len(commands)
    inputs, outputs = (sorted(int(n[2:]) for n in names if n[0] == kind) for kind in "XY")
    assert inputs == list(range(len(inputs))) and outputs == list(range(len(outputs)))
    return len(inputs), len(outputs), asserted


def holds(expression, x, y):
    """Whether `expression` is true at inputs x and outputs y, exactly."""
    operator, *arguments = expression
    if operator == "and":
        return all(holds(a, x, y) for a in arguments)
    if operator == "or":
        return any(holds(a, x, y) for a in arguments)
    left, right = (value(a, x, y) for a in arguments)
    assert operator in ("<=", ">=")
    return left <= right if operator == "<=" else left >= right


def value(term, x, y):
    if term[:2] == "X_":
        return Fraction(float(x[int(term[2:])]))
    if term[:2] == "Y_":
        return Fraction(float(y[int(term[2:])]))
    return Fraction(term)


def boxes(asserted):
    """[(lo, hi)] as lists of Fractions: one pair, or one for every disjunct that bounds inputs."""
    shared, apart = {}, []
    for expression in asserted:
        if expression[0] == "or":
            apart += [found for disjunct in expression[1:] if (found := bounds(disjunct[1:]))]
        else:
            shared |= bounds([expression])
    return [
        tuple([b[i, op] for i in sorted({i for i, _ in b})] for op in (">=", "<="))
        for b in apart or [shared]
    ]


def bounds(atoms):
    """{(input, operator): Fraction} for the atoms that compare an input with a number."""
    return {(int(a[1][2:]), a[0]): Fraction(a[2]) for a in atoms if a[1][:2] == "X_"}
