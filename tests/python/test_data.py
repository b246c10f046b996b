"""Data sets: every format against files written by NumPy, Pillow and scikit-learn; layouts, units, rows."""

import csv
import io
import json
import shutil
from fractions import Fraction

import pytest
from data_cases import bytes_of, cifar10, cifar100, idx, network, packed, write_csv
from program import grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")
datasets = pytest.importorskip("sklearn.datasets")

pytestmark = needs_program


@pytest.fixture
def read(tmp_path):
    """What a network that returns its inputs is given: read(shape of one input, file, flags...)."""

    def run(shape, data, *flags, cwd=tmp_path):
        net = tmp_path / "identity.onnx"
        net.write_bytes(network([1, *shape]))
        out = tmp_path / "y.npy"
        grapeshot(
            *("run", net, "--data", data, "--out", out, "--float64", *flags), status=0, cwd=cwd
        )
        return np.load(out)

    return run


def flat(x):
    return np.asarray(x, np.float64).reshape(len(x), -1)


# --- formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f4", "f8", "u1", "i1", "u2", "i2", "i4", "i8", "?"])
def test_npy(read, tmp_path, kind):
    x = bytes_of(1, 5, 2, 3).astype(kind)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(x))
    (tmp_path / "packed.npy.gz").write_bytes(packed((tmp_path / "x.npy").read_bytes()))
    for name in ("x.npy", "fortran.npy", "packed.npy"):
        assert np.array_equal(read([6], name), flat(x))
        assert np.array_equal(read([6], name, "--rows", "1:4"), flat(x[1:4]))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_by_the_name_of_the_array(read, tmp_path, save):
    x, y = bytes_of(1, 9, 4), bytes_of(2, 3, 4)
    save(tmp_path / "a.npz", x=x, y=y)
    save(tmp_path / "one.npz", only=x)
    assert np.array_equal(read([4], "a.npz:x"), flat(x))
    assert np.array_equal(read([4], "a.npz:y", "--limit", 2), flat(y[:2]))
    assert np.array_equal(read([4], "one.npz", "--rows", "7:"), flat(x[7:]))


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_idx(read, tmp_path, kind):
    x = bytes_of(3, 7, 4, 2).astype(kind)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(x))
    (tmp_path / "packed-idx3-ubyte.gz").write_bytes(packed(idx(x)))
    for name in ("t10k-images-idx3-ubyte", "packed-idx3-ubyte"):
        assert np.array_equal(read([1, 4, 2], name), flat(x))
        assert np.array_equal(read([1, 4, 2], name, "--rows", "2:5"), flat(x[2:5]))


def test_idx_labels_count_what_is_predicted_rightly(tmp_path):
    digits = datasets.load_digits()
    x = digits.images[:50].astype(np.uint8)
    (tmp_path / "x-idx3-ubyte.gz").write_bytes(packed(idx(x)))
    (tmp_path / "y-idx1-ubyte").write_bytes(idx(digits.target[:50].astype(np.uint8)))
    weights = np.random.default_rng(0).normal(size=(64, 10))
    (tmp_path / "net.onnx").write_bytes(network([1, 1, 8, 8], weights))
    out = grapeshot_json(
        *("run", "net.onnx", "--data", "x-idx3-ubyte", "--labels", "y-idx1-ubyte"),
        *("--out", "y.npy", "--rows", "10:40"),
        status=0,
        cwd=tmp_path,
    )
    expected = (flat(x)[10:40] @ weights.astype(np.float32)).argmax(1) == digits.target[10:40]
    assert out["labelled"] == 30
    assert out["predicted_as_labelled"] == expected.sum()


def test_cifar(read, tmp_path):
    images = bytes_of(4, 6, 3, 32, 32)
    fine, coarse = [99, 0, 50, 20, 19, 77], [19, 0, 10, 4, 3, 15]
    (tmp_path / "data_batch_1.bin").write_bytes(cifar10(range(6), images))
    (tmp_path / "train.bin").write_bytes(cifar100(coarse, fine, images))
    (tmp_path / "packed.bin.gz").write_bytes(packed(cifar10(range(6), images)))
    shape = [3, 32, 32]
    assert np.array_equal(read(shape, "data_batch_1.bin"), flat(images))
    assert np.array_equal(read(shape, "train.bin", "--rows", "2:4"), flat(images[2:4]))
    for rows, wanted in (("", images), ("4:9", images[4:9])):
        flags = ["--format", "cifar10", *(["--rows", rows] if rows else [])]
        assert np.array_equal(read(shape, "packed.bin.gz", *flags), flat(wanted))
    # A network that takes height, width, channels; one that is flat.
    nhwc = images.transpose(0, 2, 3, 1)
    assert np.array_equal(read([32, 32, 3], "data_batch_1.bin"), flat(nhwc))
    assert np.array_equal(read([3072], "data_batch_1.bin"), flat(images))


def test_cifar_labels(tmp_path):
    images = bytes_of(5, 4, 3, 32, 32)
    (tmp_path / "c.bin").write_bytes(cifar100([3, 4, 3, 5], [30, 40, 50, 60], images))
    for k, form, right in ((100, "cifar100", [40]), (20, "cifar100-coarse", [3, 3])):
        bias = np.zeros(k)
        bias[right[0]] = 1
        (tmp_path / "net.onnx").write_bytes(network([1, 3, 32, 32], np.zeros((3072, k)), bias))
        out = grapeshot_json(
            *("run", "net.onnx", "--data", "c.bin", "--format", form, "--out", "y.npy"),
            status=0,
            cwd=tmp_path,
        )
        assert (out["labelled"], out["predicted_as_labelled"]) == (4, len(right))


IRIS = ["sepal length", "sepal, width", "petal length", 'petal "width"']


@pytest.mark.parametrize(
    "options, prefix",
    [({}, ""), ({"delimiter": ";"}, ""), ({"delimiter": "\t"}, "\ufeff"), ({"quoting": csv.QUOTE_ALL}, "\n\n")],
)
def test_csv(read, tmp_path, options, prefix):
    iris = datasets.load_iris()
    rows = [[*map(float, x), y] for x, y in zip(iris.data, iris.target, strict=True)]
    # A comma in a name needs quotes or another delimiter.
    write_csv(tmp_path / "iris.csv", [*IRIS, "kind"], rows, **options)
    text = (tmp_path / "iris.csv").read_text()
    (tmp_path / "iris.csv").write_text(prefix + text, encoding="utf-8")
    assert np.array_equal(read([4], "iris.csv", "--labels", "kind"), iris.data)
    (tmp_path / "p.csv.gz").write_bytes(packed((tmp_path / "iris.csv").read_bytes()))
    flags = ["--labels", "kind", "--rows", "140:500"]
    assert np.array_equal(read([4], "p.csv", *flags), iris.data[140:])


@pytest.mark.parametrize("suffix, options", [("png", {}), ("jpg", {"quality": 60}), ("JPEG", {"progressive": True})])
@pytest.mark.parametrize("mode, channels", [("L", 1), ("RGB", 3)])
def test_images_are_pillows_pixels(read, tmp_path, suffix, options, mode, channels):
    folder = tmp_path / "images"
    folder.mkdir()
    smooth = np.add.outer(np.arange(20), np.arange(30))[..., None] * 4 + bytes_of(6, 5, 20, 30, channels) // 8
    for i, pixels in enumerate(smooth.astype(np.uint8)):
        Image.fromarray(pixels.squeeze()).convert(mode).save(folder / f"{i}.{suffix}", **options)
    (folder / "readme.txt").write_text("no image")
    expected = np.stack([np.array(Image.open(folder / f"{i}.{suffix}")) for i in range(5)])
    expected = expected.reshape(5, 20, 30, channels)
    assert np.array_equal(read([20, 30, channels], folder), flat(expected))
    assert np.array_equal(
        read([channels, 20, 30], folder, "--rows", "1:3"), flat(expected[1:3].transpose(0, 3, 1, 2))
    )
    assert np.array_equal(read([20, 30, channels], folder / f"3.{suffix}"), flat(expected[3:4]))


@pytest.mark.parametrize("mode", ["P", "1", "palette with transparency"])
def test_png_palettes_and_bits_are_expanded(read, tmp_path, mode):
    image = Image.fromarray(bytes_of(7, 9, 9, 3))
    path = tmp_path / "a.png"
    if mode == "1":
        image = image.convert("1")
        expected = np.array(image.convert("L"))[None, ..., None]
    elif mode == "P":
        image = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
        expected = np.array(image.convert("RGB"))[None]
    else:
        image = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
        image.info["transparency"] = 3
        expected = np.array(image.convert("RGBA"))[None]
    image.save(path)
    assert np.array_equal(read([9, 9, expected.shape[-1]], path), flat(expected))


def test_the_gamma_of_a_png_is_left_alone(read, tmp_path):
    from PIL import PngImagePlugin

    pixels, info = bytes_of(13, 6, 6, 3), PngImagePlugin.PngInfo()
    info.add(b"gAMA", (100_000).to_bytes(4, "big"))
    Image.fromarray(pixels).save(tmp_path / "a.png", pnginfo=info)
    assert b"gAMA" in (tmp_path / "a.png").read_bytes()
    assert np.array_equal(read([6, 6, 3], "a.png"), flat(pixels[None]))


def test_folders_of_classes_and_label_files(tmp_path):
    pixels = bytes_of(8, 6, 4, 4)
    classes, labelled = tmp_path / "classes", tmp_path / "labelled"
    labelled.mkdir()
    for i, each in enumerate(pixels):
        place = classes / ["cat", "dog", "emu"][i % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(each).save(place / f"{i}.png")
        Image.fromarray(each).save(labelled / f"{i}.png")
    write_csv(labelled / "labels.csv", ["file", "class"], [[f"{i}.png", i % 3] for i in range(6)])
    write_csv(tmp_path / "other.csv", ["0.png", 2], [[f"{i}.png", 2] for i in range(1, 6)])
    (tmp_path / "net.onnx").write_bytes(network([1, 4, 4], np.zeros((16, 3)), [0, 0, 1]))

    def right(folder, *flags):
        out = grapeshot_json(
            *("run", "net.onnx", "--data", folder, "--out", "y.npy", *flags), status=0, cwd=tmp_path
        )
        return out["predicted_as_labelled"], out["labelled"]

    assert right(classes) == (2, 6)
    assert right(labelled) == (2, 6)
    assert right(labelled, "--rows", "0:2") == (0, 2)
    assert right(labelled, "--labels", "other.csv") == (6, 6)


def test_the_formats_are_listed():
    names = [row["name"] for row in grapeshot_json("list", "data", status=0)["data"]]
    assert names == ["npy", "npz", "idx", "images", "cifar10", "cifar100", "cifar100-coarse", "csv"]


# --- layout, units, rows ---------------------------------------------------------------------------


def test_layouts_are_turned(read, tmp_path):
    x = bytes_of(9, 4, 5, 6, 3)
    np.save(tmp_path / "nhwc.npy", x)
    np.save(tmp_path / "nchw.npy", x.transpose(0, 3, 1, 2))
    nchw = flat(x.transpose(0, 3, 1, 2))
    assert np.array_equal(read([3, 5, 6], "nhwc.npy", "--layout", "NHWC"), nchw)
    assert np.array_equal(read([5, 6, 3], "nchw.npy", "--layout", "NCHW"), flat(x))
    assert np.array_equal(read([3, 5, 6], "nchw.npy"), nchw)
    assert np.array_equal(read([90], "nhwc.npy", "--layout", "NHWC"), nchw)


def test_normalisation_by_channel_in_either_layout(read, tmp_path):
    x = bytes_of(10, 4, 5, 6, 3)
    np.save(tmp_path / "nhwc.npy", x)
    np.save(tmp_path / "nchw.npy", x.transpose(0, 3, 1, 2))
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    flags = ["--data-scale", 255, "--mean", ",".join(map(str, mean)), "--std", ",".join(map(str, std))]
    expected = ((x / 255 - mean) / std).transpose(0, 3, 1, 2)
    for data, more in (("nhwc.npy", ["--layout", "NHWC"]), ("nchw.npy", [])):
        assert np.array_equal(read([3, 5, 6], data, *flags, *more), flat(expected))


def test_normalisation_of_columns(read, tmp_path):
    wine = datasets.load_wine()
    write_csv(tmp_path / "wine.csv", wine.feature_names, wine.data.tolist())
    mean, std = wine.data.mean(0), wine.data.std(0)
    flags = ["--mean", ",".join(map(repr, mean.tolist())), "--std", ",".join(map(repr, std.tolist()))]
    assert np.array_equal(read([13], "wine.csv", *flags), (wine.data - mean) / std)


@pytest.mark.parametrize(
    "flags, begin, end",
    [
        (["--rows", "3:7"], 3, 7),
        (["--rows", "3:"], 3, 12),
        (["--rows", ":7"], 0, 7),
        (["--rows", "5"], 5, 6),
        (["--rows", "9:99"], 9, 12),
        (["--limit", "4"], 0, 4),
        (["--rows", "3:7", "--limit", "2"], 3, 5),
    ],
)
def test_rows(read, tmp_path, flags, begin, end):
    x = np.arange(36).reshape(12, 3)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "x-idx2-int").write_bytes(idx(x.astype("i4")))
    write_csv(tmp_path / "x.csv", "abc", x.tolist())
    for name in ("x.npy", "x-idx2-int", "x.csv"):
        assert np.array_equal(read([3], name, *flags), x[begin:end])


def test_a_part_of_a_large_file_takes_the_memory_of_the_part(tmp_path):
    rows = 400_000
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f4", "fortran_order": False, "shape": (rows, 1000)}
    )
    for name, start in (("x.npy", head.getvalue()), ("x-idx2-float", idx(np.zeros((0, 0), "f4"))[:4])):
        with open(tmp_path / name, "wb") as out:
            out.write(start)
            if name.endswith("float"):
                out.write(rows.to_bytes(4, "big") + (1000).to_bytes(4, "big"))
            out.seek(rows * 4000 - 1, 1)
            out.write(b"\0")
    (tmp_path / "net.onnx").write_bytes(network([1, 1000]))
    for name in ("x.npy", "x-idx2-float"):
        run = ["run", "net.onnx", "--data", name, "--out", "y.npy"]
        grapeshot(*run, "--rows", "399990:", "--max-file-mib", "1", status=0, cwd=tmp_path)
        assert np.load(tmp_path / "y.npy").shape == (10, 1000)
        refused = grapeshot(*run, "--max-file-mib", "1", status=2, cwd=tmp_path)
        assert "--max-file-mib allows more" in refused.stderr


# --- campaigns -------------------------------------------------------------------------------------


def campaign(folder, *args, status=1):
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    summary = grapeshot_json(
        *("fuzz", "net.onnx", *args, "--out", out, "--candidates", 4000, "--threads", 1),
        status=status,
        cwd=folder,
    )
    return summary, out


def bounds(path, size):
    """[(lo, hi)] of the inputs of a VNN-LIB file, the float32 that its decimals stand for, exact."""
    out = [[None, None] for _ in range(size)]
    for line in path.read_text().splitlines():
        words = line.replace("(", " ").replace(")", " ").split()
        if len(words) == 4 and words[0] == "assert" and words[2].startswith("X_"):
            out[int(words[2][2:])][words[1] == "<="] = Fraction(float(np.float32(words[3])))
    return out


@pytest.mark.parametrize(
    "units, low, high",
    [
        (["--data-scale", "255"], 0, 255),
        (["--data-scale", "255", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"], 0, 255),
        (["--mean", "127.3", "--std", "51.1"], 3, 250.5),
        ([], 0, 255),
    ],
)
def test_boxes_are_in_data_units_and_rounded_inwards(tmp_path, units, low, high):
    # The class is the largest input, and the two largest are near each other.
    x = bytes_of(11, 3, 3, 2, 2).clip(3, 200)
    x[:, 1, 0, 0], x[:, 1, 1, 1] = 240, 243
    x[0, 0, 0, 0], x[0, 0, 0, 1] = low, int(high)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "net.onnx").write_bytes(network([1, 3, 2, 2], np.eye(12)))
    eps = 7.3
    flags = ["--data", "x.npy", "--eps", eps, "--low", low, "--high", high, *units]
    summary, out = campaign(tmp_path, *flags, "--keep-going", "--per-instance", 1)
    given = {units[i][2:]: units[i + 1] for i in range(0, len(units), 2)}
    scale = Fraction(float(given.get("data-scale", 1)))
    mean = [Fraction(float(v)) for v in given.get("mean", "0").split(",")]
    std = [Fraction(float(v)) for v in given.get("std", "1").split(",")]
    assert summary["findings"]
    for name in summary["findings"]:
        row = int(name[:4])
        for i, (lo, hi) in enumerate(bounds(out / "findings" / name / "property.vnnlib", 12)):
            m, s = mean[i // 4 % len(mean)], std[i // 4 % len(std)]
            v = Fraction(int(x[row].flat[i]))
            real_lo = (max(v - Fraction(eps), Fraction(low)) / scale - m) / s
            real_hi = (min(v + Fraction(eps), Fraction(high)) / scale - m) / s
            below = Fraction(float(np.nextafter(np.float32(lo), np.float32(-np.inf))))
            above = Fraction(float(np.nextafter(np.float32(hi), np.float32(np.inf))))
            assert real_lo <= lo and hi <= real_hi
            # As wide as float32 allows, but for the double steps in between.
            slack = Fraction(1, 2**48)
            assert below < real_lo + slack and above > real_hi - slack


@pytest.fixture
def iris(tmp_path):
    """iris.csv and a linear network that reads most of it rightly, in normalised units."""
    from sklearn.linear_model import LogisticRegression

    data = datasets.load_iris()
    mean, std = data.data.mean(0).round(3), data.data.std(0).round(3)
    fitted = LogisticRegression(C=10).fit((data.data - mean) / std, data.target)
    (tmp_path / "net.onnx").write_bytes(network([1, 4], fitted.coef_.T, fitted.intercept_))
    write_csv(
        tmp_path / "iris.csv",
        [*IRIS, "kind"],
        [[*map(float, x), y] for x, y in zip(data.data, data.target, strict=True)],
    )
    x = ((data.data - mean) / std).astype(np.float32)
    right = (x @ fitted.coef_.T.astype(np.float32) + fitted.intercept_).argmax(1) == data.target
    units = ["--mean", ",".join(map(str, mean)), "--std", ",".join(map(str, std))]
    return data, right, ["--data", "iris.csv", "--labels", "kind", *units]


def test_misread_rows_are_left_out_and_counted(iris, tmp_path):
    data, right, flags = iris
    assert 0 < (~right).sum() < 10
    summary, out = campaign(tmp_path, *flags, "--eps", 0.01, status=None)
    assert summary["instances"] == right.sum()
    assert summary["inputs_misread"] == (~right).sum()
    kept, out = campaign(tmp_path, *flags, "--eps", 0.01, "--misclassified")
    assert kept["instances"] == 150 and kept["inputs_misread"] == 0
    said = grapeshot("fuzz", "net.onnx", *flags, "--eps", 0.01, "--seconds", 1, "--out", "again", cwd=tmp_path)
    assert f"{(~right).sum()} inputs left out: the model does not predict their labels" in said.stdout


def test_findings_speak_of_columns_and_replay_without_the_data(iris, tmp_path):
    data, right, flags = iris
    radii = {"petal length": 0.5, "sepal length": 0.25, 'petal "width"': 0, "sepal, width": 0.125}
    write_csv(tmp_path / "eps.csv", radii, [list(radii.values())])
    args = [*flags, "--eps-file", "eps.csv", "--frozen", "sepal length", "--low", 0, "--rows", "50:110"]
    summary, out = campaign(tmp_path, *args)
    assert summary["instances"] == right[50:110].sum()
    assert summary["findings"]
    mean, std = (np.array(flags[i].split(","), float) for i in (-3, -1))
    for name in summary["findings"]:
        folder = out / "findings" / name
        finding = json.loads((folder / "finding.json").read_text())
        said = finding["data"]
        row = said["row"]
        assert 50 <= row < 110 and said["name"] == f"iris.csv[{row}]"
        x = np.load(folder / "input.npy").reshape(-1).astype(float) * std + mean
        assert np.allclose(np.load(folder / "data.npy"), x, rtol=1e-12)
        changes = {c["column"]: c for c in said["changes"]}
        assert set(changes) <= {"petal length", "sepal, width"} and len(changes) == said["changed"]
        for column, change in changes.items():
            i = IRIS.index(column)
            assert change["was"] == data.data[row, i]
            assert np.isclose(change["is"], x[i], rtol=1e-12)
            assert abs(change["is"] - change["was"]) <= radii[column] * (1 + 1e-6)
        largest = max(abs(c["is"] - c["was"]) for c in changes.values())
        assert np.isclose(said["largest_change"], largest)
        assert finding["words"].startswith(f"row {row}: ")
        assert f"; class {data.target[row]} -> " in finding["words"]
    (tmp_path / "iris.csv").unlink()
    (tmp_path / "eps.csv").unlink()
    replayed = grapeshot_json("replay", "run", status=0, cwd=tmp_path)
    assert replayed["confirmed"] == len(summary["findings"])
    assert all(row["why"].startswith("row ") and " -> " in row["why"] for row in replayed["results"])


def test_resume_reads_the_same_rows_again_and_notices_a_change(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for i, pixels in enumerate(bytes_of(12, 6, 3, 3)):
        Image.fromarray(pixels).save(folder / f"{i}.png")
    write_csv(folder / "labels.csv", ["file", "class"], [[f"{i}.png", 0] for i in range(6)])
    (tmp_path / "net.onnx").write_bytes(network([1, 9], np.zeros((9, 2)), [1, 0]))
    flags = ["--data", "images", "--eps", 1, "--data-scale", 255, "--rows", "1:4"]
    summary, out = campaign(tmp_path, *flags, status=0)
    assert summary["instances"] == 3
    again = grapeshot_json("resume", "run", "--candidates", 5000, status=0, cwd=tmp_path)
    assert again["instances"] == 3 and again["candidates"] > summary["candidates"]
    Image.fromarray(bytes_of(1, 3, 3)).save(folder / "5.png")  # of no row of the run
    grapeshot("resume", "run", "--candidates", 6000, status=0, cwd=tmp_path)
    Image.fromarray(bytes_of(1, 3, 3)).save(folder / "2.png")
    done = grapeshot("resume", "run", "--candidates", 7000, status=2, cwd=tmp_path)
    assert "images: changed since the run began" in done.stderr


def test_diff_takes_the_same_options_and_speaks_of_the_data(iris, tmp_path):
    data, right, flags = iris
    flags = [*flags[:4], "--mean", "3.5", "--std", "2", "--data-scale", "1"]
    args = ["diff", "net.onnx", *flags, "--low", 0, "--high", 8, "--linf", 1, "--l2", 0, "--frozen", "sepal length"]
    summary = grapeshot_json(*args, "--candidates", 3000, "--out", "run", "--misclassified", status=1, cwd=tmp_path)
    assert summary["images_misread"] == 0 and summary["images"] == 150
    for name in summary["findings"]:
        finding = json.loads((tmp_path / "run/findings" / name / "finding.json").read_text())
        assert finding["data"]["largest_change"] <= 1
        for change in finding["data"]["changes"]:
            assert change["column"] != "sepal length" and 0 <= change["is"] <= 8
    assert grapeshot_json("replay", "run", status=0, cwd=tmp_path)["confirmed"] == len(summary["findings"])
