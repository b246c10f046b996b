"""The five example networks: trained on 8x8 digits in float64, written as float32 ONNX.

Training runs in float64 on one thread, so that the rounding differences between processors stay
far below what a float32 weight can show. Each `make_<net>` returns the network and its ONNX model.
"""

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

CLASSES = 10


class SignSTE(torch.autograd.Function):
    """sign(x), with the gradient passed straight through where |x| <= 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


sign = SignSTE.apply


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 40), nn.Linear(40, 24), nn.Linear(24, CLASSES)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


class CnnBn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 3 * 3, CLASSES)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x.view(-1, 1, 8, 8))))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(F.max_pool2d(x, 2).flatten(1))


class Bnn(nn.Module):
    """Weights of the convolutions and of the last layer are binarized, activations are signs."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(16, 1, 3, 3).uniform_(-1, 1))
        self.w2 = nn.Parameter(torch.empty(24, 16, 2, 2).uniform_(-1, 1))
        self.w3 = nn.Parameter(torch.empty(24 * 5 * 5, CLASSES).uniform_(-1, 1))
        self.bn1, self.bn2 = nn.BatchNorm2d(16), nn.BatchNorm2d(24)

    def forward(self, x):
        x = sign(self.bn1(F.conv2d(x.view(-1, 1, 8, 8), sign(self.w1))))
        x = sign(self.bn2(F.conv2d(x, sign(self.w2))))
        return x.permute(0, 2, 3, 1).flatten(1) @ sign(self.w3)  # integers up to 600 in size

    def after_step(self):
        for w in (self.w1, self.w2, self.w3):
            w.data.clamp_(-1, 1)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.a1, self.a2 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.b1 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.b2 = nn.Conv2d(16, 16, 3, padding=1)
        self.skip = nn.Conv2d(8, 16, 1, stride=2)
        self.fc = nn.Linear(16 * 2 * 2, CLASSES)

    def forward(self, x):
        x = F.relu(self.stem(x.view(-1, 1, 8, 8)))
        x = F.relu(self.a2(F.relu(self.a1(x))) + x)
        x = F.relu(self.b2(F.relu(self.b1(x))) + self.skip(x))
        return self.fc(F.avg_pool2d(x, 2).flatten(1))


class Block(nn.Module):
    """Attention among the tokens, then two layers on each token; both normalised first, both added."""

    def __init__(self):
        super().__init__()
        width = Attention.WIDTH
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        n, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(n, tokens, 3, Attention.HEADS, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        weights = (q / q.shape[-1] ** 0.5 @ k.transpose(2, 3)).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Attention(nn.Module):
    """A vision transformer: a token for each 2x2 patch, two blocks, the mean over the tokens."""

    WIDTH, HEADS, TOKENS = 32, 4, 16

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, self.WIDTH, 2, stride=2)
        self.positions = nn.Parameter(0.1 * torch.randn(1, self.TOKENS, self.WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(self.WIDTH)
        self.fc = nn.Linear(self.WIDTH, CLASSES)

    def forward(self, x):
        x = self.patches(x.view(-1, 1, 8, 8)).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.fc(self.norm(x).mean(1))


def train(net_class, data, seed, epochs, rate, temperature=1.0):
    """A trained net in float64; `data` is (inputs [N, 64], labels [N]) as NumPy arrays."""
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    net = net_class()
    torch.set_default_dtype(torch.float32)
    x, y = torch.tensor(data[0], dtype=torch.float64), torch.tensor(data[1])
    shuffle = np.random.RandomState(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    steps = epochs * (len(x) // 64)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(epochs):
        order = shuffle.permutation(len(x))
        for k in range(0, len(x) - 63, 64):
            rows = torch.from_numpy(order[k : k + 64])
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]) / temperature, y[rows]).backward()
            optimizer.step()
            schedule.step()
            if hasattr(net, "after_step"):
                net.after_step()
    return net.eval()


class Graph:
    """Collects the nodes and weights of one ONNX model."""

    def __init__(self, shape, opset, weights_are_inputs=False):
        self.shape, self.opset, self.weights_are_inputs = shape, opset, weights_are_inputs
        self.nodes, self.weights, self.last = [], [], "input"

    def weight(self, name, value):
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        if value.dtype == np.float64:
            value = value.astype(np.float32)
        if self.weights_are_inputs and value.dtype == np.float32:  # the older, typed encoding
            tensor = helper.make_tensor(
                name, TensorProto.FLOAT, value.shape, value.ravel().tolist()
            )
        else:
            tensor = numpy_helper.from_array(np.asarray(value, order="C"), name)
        self.weights.append(tensor)
        return name

    def add(self, op, *weights, after=None, swap=False, **attributes):
        """Appends a node on `after` (a name, several, or the last result); gives its result.

        swap: the weights come first.
        """
        after = after or self.last
        inputs = [after] if isinstance(after, str) else list(after)
        inputs = [*weights, *inputs] if swap else [*inputs, *weights]
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        self.last = name
        return name

    def conv(self, name, layer, **attributes):
        weights = [self.weight(f"{name}.weight", layer.weight)]
        if layer.bias is not None:
            weights.append(self.weight(f"{name}.bias", layer.bias))
        attributes.setdefault("pads", [layer.padding[0]] * 4)
        attributes.setdefault("strides", list(layer.stride))
        attributes.setdefault("kernel_shape", list(layer.kernel_size))
        return self.add("Conv", *weights, **attributes)

    def norm(self, name, layer):
        parts = {"scale": layer.weight, "bias": layer.bias}
        parts |= {"mean": layer.running_mean, "var": layer.running_var}
        weights = [self.weight(f"{name}.{part}", value) for part, value in parts.items()]
        return self.add("BatchNormalization", *weights, epsilon=layer.eps)

    def gemm(self, name, layer):
        weights = [
            self.weight(f"{name}.weight", layer.weight),
            self.weight(f"{name}.bias", layer.bias),
        ]
        return self.add("Gemm", *weights, transB=1)

    def linear(self, name, layer):
        """A layer on every token, as exporters write it."""
        self.add("MatMul", self.weight(f"{name}.weight", layer.weight.T))
        return self.add("Add", self.weight(f"{name}.bias", layer.bias), swap=True)

    def layer_norm(self, name, layer):
        weights = [
            self.weight(f"{name}.{part}", getattr(layer, part)) for part in ("weight", "bias")
        ]
        return self.add("LayerNormalization", *weights, axis=-1, epsilon=layer.eps)

    def model(self, name, output=None):
        """`output` describes what is not one row of ten classes."""
        self.nodes[-1].output[0] = "output"
        inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, self.shape)]
        if self.weights_are_inputs:
            inputs += [
                helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in self.weights
            ]
        outputs = [
            output
            or helper.make_tensor_value_info("output", TensorProto.FLOAT, [self.shape[0], CLASSES])
        ]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, producer_name="grapeshot", opset_imports=opsets)
        model.ir_version = 3 if self.weights_are_inputs else 8
        onnx.checker.check_model(model, full_check=True)
        return model


def make_mlp(data):
    net = train(Mlp, data, seed=1, epochs=40, rate=4e-3)
    g = Graph(["batch", 64], opset=13)
    g.add("MatMul", g.weight("a.weight", net.a.weight.T))
    g.add("Add", g.weight("a.bias", net.a.bias))
    g.add("Relu")
    g.gemm("b", net.b)
    g.add("Relu")
    g.gemm("c", net.c)
    return net, g.model("digits_mlp")


def make_cnn_bn(data):
    net = train(CnnBn, data, seed=2, epochs=12, rate=5e-3)
    g = Graph([1, 1, 8, 8], opset=13)
    g.conv("conv1", net.conv1)
    g.norm("bn1", net.bn1)
    g.add("Relu")
    g.conv("conv2", net.conv2)
    g.norm("bn2", net.bn2)
    g.add("Relu")
    g.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    g.add("Flatten", axis=1)
    g.gemm("fc", net.fc)
    return net, g.model("digits_cnn_bn")


def make_bnn(data):
    net = train(Bnn, data, seed=3, epochs=30, rate=2e-2, temperature=24.0)
    g = Graph(["batch", 8, 8, 1], opset=15)
    g.add("Transpose", perm=[0, 3, 1, 2])
    g.add("Conv", g.weight("w1", torch.sign(net.w1)), kernel_shape=[3, 3])
    g.norm("bn1", net.bn1)
    g.add("Sign")
    g.add("Conv", g.weight("w2", torch.sign(net.w2)), kernel_shape=[2, 2])
    g.norm("bn2", net.bn2)
    g.add("Transpose", perm=[0, 2, 3, 1])
    g.add("Sign")
    g.add(
        "Add", g.weight("tie", np.array([0.1], np.float32))
    )  # 0 counts as +1: sign(sign(x) + 0.1)
    g.add("Sign")
    g.add("Reshape", g.weight("flat", np.array([-1, 24 * 5 * 5], np.int64)))
    g.add("MatMul", g.weight("w3", torch.sign(net.w3)))
    g.add("Softmax")
    return net, g.model("digits_bnn")


def make_resnet(data):
    net = train(ResNet, data, seed=4, epochs=18, rate=5e-3)
    g = Graph([1, 1, 8, 8], opset=9, weights_are_inputs=True)
    g.conv("stem", net.stem)
    start = g.add("Relu")
    g.conv("a1", net.a1)
    g.add("Relu")
    g.add("Add", after=(g.conv("a2", net.a2), start))
    start = g.add("Relu")
    g.conv("b1", net.b1)
    g.add("Relu")
    long = g.conv("b2", net.b2)
    g.add("Add", after=(long, g.conv("skip", net.skip, after=start)))
    g.add("Relu")
    g.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    g.add("Reshape", g.weight("flat", np.array([1, 64], np.int64)))
    g.gemm("fc", net.fc)
    return net, g.model("digits_resnet")


def attend(g, name, block, batch):
    """Adds softmax(q k^T) v of one block on the last result; `batch` names its number of rows."""
    heads, depth = Attention.HEADS, Attention.WIDTH // Attention.HEADS
    g.linear(f"{name}.qkv", block.qkv)
    shape = g.weight(f"{name}.shape", np.array([Attention.TOKENS, 3, heads, depth], np.int64))
    g.add("Reshape", g.add("Concat", shape, after=batch, axis=0), after=g.nodes[-2].output[0])
    parts = g.add("Transpose", perm=[2, 0, 3, 1, 4])
    q, k, v = (
        g.add("Gather", g.weight(f"{name}.{part}", np.int64(i)), after=parts, axis=0)
        for i, part in enumerate("qkv")
    )
    turned = g.add("Transpose", after=k, perm=[0, 1, 3, 2])
    scaled = g.add("Div", g.weight(f"{name}.root", np.float32(depth**0.5)), after=q)
    g.add("MatMul", after=(scaled, turned))
    g.add("MatMul", after=(g.add("Softmax", axis=-1), v))
    g.add("Transpose", perm=[0, 2, 1, 3])
    g.add("Reshape", g.weight(f"{name}.joined", np.array([0, 0, -1], np.int64)))
    return g.linear(f"{name}.out", block.out)


def gelu(g):
    """x / 2 * (1 + erf(x / sqrt 2)): opset 17 has no Gelu."""
    x = g.last
    g.add("Div", g.weight(f"{x}.root", np.float32(2**0.5)))
    g.add("Erf")
    g.add("Add", g.weight(f"{x}.one", np.float32(1)))
    g.add("Mul", after=(x, g.last))
    return g.add("Mul", g.weight(f"{x}.half", np.float32(0.5)))


def make_attention(data):
    net = train(Attention, data, seed=5, epochs=40, rate=3e-3)
    g = Graph(["batch", 1, 8, 8], opset=17)
    sizes = g.add("Shape")
    batch = g.add("Gather", g.weight("first", np.array([0], np.int64)), axis=0, after=sizes)
    g.last = "input"
    g.conv("patches", net.patches)
    g.add("Reshape", g.weight("flat", np.array([0, Attention.WIDTH, -1], np.int64)))
    g.add("Transpose", perm=[0, 2, 1])
    x = g.add("Add", g.weight("positions", net.positions))
    for i, block in enumerate(net.blocks):
        g.layer_norm(f"blocks.{i}.norm1", block.norm1)
        x = g.add("Add", after=(x, attend(g, f"blocks.{i}", block, batch)))
        g.layer_norm(f"blocks.{i}.norm2", block.norm2)
        g.linear(f"blocks.{i}.up", block.up)
        gelu(g)
        x = g.add("Add", after=(x, g.linear(f"blocks.{i}.down", block.down)))
    g.layer_norm("norm", net.norm)
    g.add("ReduceMean", axes=[1], keepdims=0)
    g.gemm("fc", net.fc)
    return net, g.model("digits_attention")


NETS = {
    "mlp": make_mlp,
    "cnn_bn": make_cnn_bn,
    "bnn": make_bnn,
    "resnet": make_resnet,
    "attention": make_attention,
}
