"""What a call found."""

import json

import numpy as np
import torch

# Keys of finding.json that say where files are.
_FILES = {"model", "model_sha256", "spec", "spec_sha256", "network", "replay"}


class Finding:
    """A confirmed counterexample.

    ``x`` and ``original`` are tensors of the model's input shape that share the engine's memory;
    ``numpy(finding.x)`` and ``finding.x.numpy()`` share it too.
    """

    def __init__(self, found, shape, place):
        self.id = found["id"]
        self.instance = found["instance"]
        self.x = found["x"].view(shape)
        self.original = found["original"].view(shape)
        self.outputs = found["outputs"]
        self.margin = found["margin"]
        self.mutation = found["mutation"]
        self.seconds = found["seconds"]
        self._place = place  # whose files go with the last one that holds it
        self._recorded = None

    @property
    def recorded(self):
        """finding.json, as a dict."""
        if self._recorded is None:
            path = self._place.path / "findings" / self.id / "finding.json"
            self._recorded = json.loads(path.read_text()) if self.id else {}
        return self._recorded

    @property
    def row(self):
        """The row of the data that it is near to; None for specifications of files.

        Instances count the rows that the model predicts as their labels say, rows count all.
        """
        return self.recorded.get("data", {}).get("row")

    def record(self):
        """Its numbers and words as a flat dict."""
        change = (self.x - self.original).double().flatten()
        out = {"id": self.id, "instance": self.instance, "row": self.row}
        for key, value in self.recorded.items():
            if key not in _FILES and (value is None or isinstance(value, (str, int, float))):
                out[key] = value
        out.update(
            margin=self.margin,
            mutation=self.mutation,
            seconds=self.seconds,
            linf=change.abs().max().item() if len(change) else 0.0,
            l2=change.norm().item(),
            changed=int((change != 0).sum()),
        )
        if len(self.outputs) > 1:
            out["predicted"] = int(np.argmax(self.outputs))
        return out

    def __repr__(self):
        return f"<grapeshot.Finding {self.id} of instance {self.instance}: margin {self.margin:.4g}>"


class Result:
    """What ``fuzz`` or ``diff`` came to.

    ``summary`` has the keys of summary.json; ``findings`` are in its order; ``folder`` is the run
    folder, None without ``out``.
    """

    def __init__(self, summary, findings, model, place):
        self.summary = summary
        order = {id: i for i, id in enumerate(summary["findings"])}
        self.findings = sorted(findings, key=lambda f: order.get(f.id, len(order)))
        self._model, self._place = model, place
        self.folder = None if place.temporary else place.path
        if place.temporary:
            summary["out"] = None

    @property
    def interrupted(self):
        """Whether Ctrl-C ended it."""
        return bool(self.summary.get("interrupted"))

    @property
    def x(self):
        """All findings as one tensor [n, ...], a copy."""
        if not self.findings:
            return torch.empty((0, *self._model.shape))
        return torch.stack([finding.x for finding in self.findings])

    def records(self):
        """A dict a finding: ``pandas.DataFrame(result.records())``."""
        return [finding.record() for finding in self.findings]

    def replay(self):
        """Confirms every finding again; as ``grapeshot.replay``."""
        from ._commands import replay

        return replay(self._place.path, self._model)

    def __len__(self):
        return len(self.findings)

    def __iter__(self):
        return iter(self.findings)

    def __getitem__(self, i):
        return self.findings[i]

    def __repr__(self):
        return f"<grapeshot.Result of {self.summary['command']}: {len(self)} findings>"


class Answer:
    """What ``falsify`` answers: ``answer`` is "sat", "unknown" or "timeout"; ``finding`` or None."""

    def __init__(self, summary, finding):
        self.summary, self.finding = summary, finding
        self.answer = summary["answer"]

    def __bool__(self):
        return self.finding is not None

    def __repr__(self):
        return f"<grapeshot.Answer {self.answer}>"
