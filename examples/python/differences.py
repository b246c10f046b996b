"""Where a network and its int8 copy part, and how much of it a data set exercises."""

import pathlib

from sklearn.datasets import load_digits

import grapeshot

model = grapeshot.Model(pathlib.Path(__file__).parents[1] / "digits" / "mlp.onnx")
x = (load_digits().data[:64] / 16).astype("float32")

apart = grapeshot.diff(model, x, against="int8", l2=0.3, seconds=3)
print(f"{apart.summary['images_with_differences']} of 64 images: the int8 copy reads one near otherwise")

report = grapeshot.coverage(model, x, criteria=["nc", "tknc"])
print("coverage:", {name: round(each["value"], 3) for name, each in report["criteria"].items()})
