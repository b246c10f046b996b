"""Trains a torch module on digits and looks for pictures near the test set that it misreads."""

import torch
from sklearn.datasets import load_digits

import grapeshot

torch.manual_seed(0)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
y = torch.tensor(data.target)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 64, 10),
)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x[:1500]), y[:1500]).backward()
    optimizer.step()
net.eval()

specs = grapeshot.Specs.from_arrays(x[1500:1600], y[1500:1600], eps=0.1)
result = grapeshot.fuzz(net, specs, seconds=5)

summary = result.summary
print(f"{summary['instances_falsified']} of {summary['instances']} pictures broken")
for record in result.records()[:3]:
    label = y[1500 + record["row"]].item()
    print(f"{record['instance_name']}: {label} is read as {record['predicted']}, linf {record['linf']:.3f}")
assert (net(result.x).argmax(1) != y[1500 + torch.tensor([f.row for f in result])]).all()
