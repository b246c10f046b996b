"""VNN-LIB 2.0 files by chance: well-formed ones, ones that a change of tokens has broken or not, and
ones that have a translation to VNN-LIB 1.0. For test_query_oracle.py."""

import random
import re

TYPES = ["float32", "real", "float64", "int8", "int64", "uint8", "bool", "complex64", "Real", "foo"]
RELATIONS = ["<=", ">=", "<", ">", "==", "!="]
TOKEN = re.compile(r'\([a-z]+(?:-[a-z]+)*|"[^"]*"|<[\d.]+>|[<>=!]+|-?[\d.]+|\w+|\S')


class Files:
    """Draws files from a seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def chance(self, p):
        return self.rng.random() < p

    def number(self, whole=False):
        value = self.rng.choice([0, 1, 2, -1, -3, 0.5, -0.25, 0.1, 100.125, 7.0])
        if whole:
            return str(int(value))
        return f"{value:.3f}" if self.chance(0.5) else f"{float(value)}"

    def shape(self):
        return [self.rng.randint(1, 3) for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3]))]

    def variable(self, kind, name, type_, shape):
        onnx = ' "layer/%s"' % name.lower() if kind == "hidden" else ""
        blank = self.rng.choice(["", " "])
        dims = ("," + blank).join(map(str, shape))
        self.variables.append((name, type_, shape, kind))
        return f"  (declare-{kind} {name} {type_} [{dims}]{onnx})\n"

    def network(self, name, linked=None):
        """Text of a network; a linked one has the ports of another."""
        text = f"(declare-network {name}\n"
        if linked:
            text += f"  ({self.rng.choice(['equal-to', 'isomorphic-to'])} {linked})\n"
            ports = self.ports[linked]
        else:
            type_ = self.rng.choice(["float32", "float32", "real"] + TYPES[: self.strange])
            ports = [("input", type_, self.shape()) for _ in range(self.rng.choice([1, 1, 2]))]
            ports += [("hidden", type_, self.shape()) for _ in range(self.rng.choice([0, 0, 0, 1]))]
            ports += [("output", type_, self.shape()) for _ in range(self.rng.choice([1, 1, 2]))]
        self.ports[name] = ports
        for kind, type_, shape in ports:
            if not linked or kind != "hidden":
                text += self.variable(kind, f"{kind[0].upper()}{len(self.variables)}", type_, shape)
        return text + ")\n"

    def element(self, variable):
        name, _, shape, _ = variable
        if not shape:
            return name
        return f"{name}[{','.join(str(self.rng.randrange(size)) for size in shape)}]"

    def expression(self, candidates, whole, depth=0):
        kind = self.rng.random()
        if kind < 0.5 or depth > 2:
            return self.element(self.rng.choice(candidates))
        if kind < 0.7:
            return self.number(whole)
        op = self.rng.choice("+-*")
        parts = [
            self.expression(candidates, whole, depth + 1) for _ in range(self.rng.randint(1, 3))
        ]
        return f"({op} {' '.join(parts)})"

    def comparison(self):
        name, type_, shape, kind = self.rng.choice(self.variables)
        candidates = [v for v in self.variables if v[1] == type_]
        whole = "int" in type_
        sides = [
            self.element((name, type_, shape, kind)),
            self.number(whole) if self.chance(0.4) else self.expression(candidates, whole),
        ]
        self.rng.shuffle(sides)
        return f"({self.rng.choice(RELATIONS)} {' '.join(sides)})"

    def formula(self, depth=0):
        if depth > 2 or self.chance(0.6):
            return self.comparison()
        inner = " ".join(self.formula(depth + 1) for _ in range(self.rng.randint(1, 3)))
        return f"({self.rng.choice(['and', 'or'])} {inner})"

    def bounds(self):
        """Both bounds of every input that may have them."""
        text = ""
        for name, type_, shape, kind in self.variables:
            if kind != "input" or type_ in ("bool", "complex64"):
                continue
            low, high = ("0", "9") if "int" in type_ else ("-9.5", "9.5")
            indices = [[]]
            for size in shape:
                indices = [i + [k] for i in indices for k in range(size)]
            for index in indices:
                element = f"{name}[{','.join(map(str, index))}]" if index else name
                text += f"(assert (<= {low} {element}))\n(assert (<= {element} {high}))\n"
        return text

    def well_formed(self):
        self.variables, self.ports = [], {}
        self.strange = len(TYPES) if self.chance(0.15) else 0
        text = "(vnnlib-version <2.0>)\n" if self.chance(0.95) else "(vnnlib-version <2.7>)\n"
        if self.chance(0.2):
            text = "; a comment (with parentheses\n" + text
        text += self.network("f")
        if self.chance(0.3):
            text += self.network("g", "f" if self.chance(0.7) else None)
        text += self.bounds()
        for _ in range(self.rng.randint(1, 3)):
            text += f"(assert {self.formula()})\n"
        return text

    def mutated(self):
        """A few tokens of a well-formed file left out, doubled, exchanged or replaced."""
        text = self.well_formed()
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            tokens = list(TOKEN.finditer(text))
            one, other = self.rng.choice(tokens), self.rng.choice(tokens)
            begin, end = one.span()
            with_ = self.rng.choice(
                [
                    "",
                    one.group() * 2,
                    one.group() + " " + one.group(),
                    other.group(),
                    " " + other.group() + " ",
                    self.rng.choice(
                        ["=", "not", "(", ")", "0", "9", "-1", "1.5", ".5", "5.", "+", "[", "]", ",",
                         "f", "X", "and", "<2.0>", "<1.0>", "(assert", "( assert", "(equal-to f)", "3",
                         "declare-const", '"', '"a"', "\\", "@", "\x0b", "\u00e9", "- 1", "; ", "\t\f"]
                    ),
                ]
            )  # fmt: skip
            text = text[:begin] + with_ + text[end:]
        return text

    def both_versions(self):
        """A file of each version that mean the same: bounds, comparisons of outputs, and, or."""
        n, k = self.rng.randint(1, 4), self.rng.randint(2, 4)
        two = (
            "(vnnlib-version <2.0>)\n(declare-network f\n"
            f"  (declare-input X float32 [1,{n}])\n  (declare-output Y float32 [{k}])\n)\n"
        )
        one = "".join(f"(declare-const X_{i} Real)\n" for i in range(n))
        one += "".join(f"(declare-const Y_{j} Real)\n" for j in range(k))

        def relation():
            op = self.rng.choice(["<=", ">="])
            y = self.rng.sample(range(k), 2)
            if self.chance(0.5):
                return f"({op} Y[{y[0]}] Y[{y[1]}])", f"({op} Y_{y[0]} Y_{y[1]})"
            bound = f"{self.rng.choice([-1, 0, 0.5, 0.1, 1]):.1f}"
            if self.chance(0.5):
                return f"({op} Y[{y[0]}] {bound})", f"({op} Y_{y[0]} {bound})"
            return f"({op} {bound} Y[{y[0]}])", f"({op} {bound} Y_{y[0]})"

        def inside(i):
            bound = f"{self.rng.choice([-0.5, 0, 0.1, 0.5]):.1f}"
            op = self.rng.choice(["<=", ">="])
            return f"({op} X[0,{i}] {bound})", f"({op} X_{i} {bound})"

        def formula(depth):
            draw = self.rng.random()
            if depth > 2 or draw < 0.5:
                return relation()
            if draw < 0.6:
                a, b = inside(self.rng.randrange(n)), relation()
                return f"(and {a[0]} {b[0]})", f"(and {a[1]} {b[1]})"
            op = self.rng.choice(["and", "or"])
            parts = [formula(depth + 1) for _ in range(self.rng.randint(1, 3))]
            return tuple(f"({op} {' '.join(p[v] for p in parts)})" for v in (0, 1))

        for i in range(n):
            two += f"(assert (<= -1.0 X[0,{i}]))\n(assert (<= X[0,{i}] 1.0))\n"
            one += f"(assert (<= -1.0 X_{i}))\n(assert (<= X_{i} 1.0))\n"
        for _ in range(self.rng.randint(1, 3)):
            a, b = formula(0)
            two += f"(assert {a})\n"
            one += f"(assert {b})\n"
        return two, one, n, k
