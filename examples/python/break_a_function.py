"""Any function of a batch is a model: a forest of scikit-learn, which has no gradient."""

import warnings

import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import grapeshot

data = load_digits()
x, y = (data.data / 16).astype("float32"), data.target
forest = RandomForestClassifier(20, max_depth=8, random_state=0).fit(x[:1500], y[:1500])


def probabilities(batch: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(forest.predict_proba(batch.numpy()))


model = grapeshot.Model(probabilities, shape=64)
specs = grapeshot.Specs.from_arrays(x[1500:1520], y[1500:1520], eps=0.15)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", grapeshot.GrapeshotWarning)  # "no gradient passes through it"
    result = grapeshot.fuzz(model, specs, seconds=5)
print(f"{result.summary['instances_falsified']} of {len(specs)} digits broken, by", end=" ")
print(", ".join(sorted({finding.mutation for finding in result})) or "nothing")
assert all(forest.predict(f.x.numpy()[None])[0] != y[1500 + f.row] for f in result)
