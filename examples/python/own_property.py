"""Properties of one's own: linear constraints on the outputs, or a function of inputs and outputs."""

import torch

import grapeshot

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2)).eval()
lo, hi = torch.zeros(1, 4), torch.ones(1, 4)

# A violation: A y <= b in every row. Here: y0 <= -0.1.
below = grapeshot.Specs.from_constraints(lo, hi, A=[[1.0, 0.0]], b=[-0.1])
answer = grapeshot.falsify(net, below, timeout=20)
print("y0 <= -0.1:", answer.answer, net(answer.finding.x[None])[0].tolist() if answer else "")


# A violation: the margin is at most 0. Here: the output grows faster than the inputs' sum.
def margin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 0.5 + 0.1 * x.sum(1) - y[:, 1]


answer = grapeshot.falsify(net, grapeshot.Specs.from_margin(lo, hi, margin), timeout=5)
print("y1 >= 0.5 + 0.1 sum(x):", answer.answer)
