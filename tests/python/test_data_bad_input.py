"""Malformed data sets and options that do not fit: exit status 2 and one sentence with the place."""

import gzip
import struct
import zlib

import pytest
from data_cases import bytes_of, cifar10, cifar100, idx, network, packed, write_csv
from program import grapeshot, needs_program, tree

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

pytestmark = needs_program

PIXELS = bytes_of(1, 8, 8, 3)


def png_chunks(*chunks):
    """A PNG of raw chunks, each with its right checksum."""
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks:
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out


def images(folder):
    def save(name, pixels, mode=None, **options):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(pixels)
        (image.convert(mode) if mode else image).save(folder / name, **options)
        return folder / name

    save("rgb.png", PIXELS)
    save("grey.png", PIXELS[..., 0])
    save("alpha.png", PIXELS, "RGBA")
    save("large.png", bytes_of(1, 9, 8, 3))
    save("sixteen.png", bytes_of(1, 8, 8).astype(np.uint16) * 257)
    save("cmyk.jpg", PIXELS, "CMYK")
    whole = save("whole.jpg", PIXELS).read_bytes()
    (folder / "cut.jpg").write_bytes(whole[:-30])
    (folder / "head.jpg").write_bytes(whole[:30])
    whole = (folder / "rgb.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "crc.png").write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    size = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    (folder / "bomb.png").write_bytes(png_chunks((b"IHDR", size), (b"IDAT", b"x"), (b"IEND", b"")))
    (folder / "empty").mkdir()
    (folder / "none").mkdir()
    (folder / "none" / "a.txt").write_text("no image")
    save("mixed/a.png", PIXELS)
    save("mixed/b.png", PIXELS[..., 0])
    save("text/a.png", PIXELS)
    (folder / "text" / "b.png").write_text("no image")
    save("short/a.png", PIXELS)
    save("short/b.png", PIXELS)
    save("two/a.png", PIXELS)
    save("two/b.png", PIXELS)
    (folder / "short" / "labels.csv").write_text("a.png,1\n")
    (folder / "cat.csv").write_text("file,label\na.png,1\nb.png,cat\n")
    (folder / "twice.csv").write_text("a.png,1\na.png,1\n")
    (folder / "three.csv").write_text("a.png,1,2\n")


def arrays(folder):
    x = bytes_of(2, 5, 4)
    np.savez(folder / "two.npz", x=x, y=x)
    (folder / "cut.npz").write_bytes((folder / "two.npz").read_bytes()[:-30])
    np.save(folder / "x.npy", x)
    np.save(folder / "nan.npy", np.where(x > 200, np.nan, x))
    np.save(folder / "half.npy", x / 2)
    np.save(folder / "nhwc.npy", bytes_of(3, 2, 8, 8, 3))
    np.save(folder / "radii.npy", np.array([1.0, 2.0, 3.0, -1.0]))
    np.save(folder / "three.npy", np.ones(3))
    np.save(folder / "words.npy", np.array(["a"]))
    whole = idx(x)
    (folder / "cut-idx").write_bytes(whole[:-3])
    (folder / "more-idx").write_bytes(whole + b"ab")
    (folder / "cut-idx.gz").write_bytes(packed(whole[:-3]))
    (folder / "damaged-idx.gz").write_bytes(packed(whole)[:-9])
    (folder / "huge-idx").write_bytes(b"\0\0\x08\x02" + b"\xff" * 8 + b"ab")
    (folder / "head-idx").write_bytes(b"\0\0\x08\x03" + b"\0\0\0\1" * 2)
    (folder / "type-idx").write_bytes(b"\0\0\x0a\x01\0\0\0\1" + b"\0" * 4)
    (folder / "rank-idx").write_bytes(b"\0\0\x08\x00\0\0\0\1" + b"\0" * 4)
    pixels = bytes_of(4, 3, 3, 32, 32)
    (folder / "ten.bin").write_bytes(cifar10([0, 1, 2], pixels))
    (folder / "label.bin").write_bytes(cifar10([0, 1, 200], pixels))
    (folder / "fine.bin").write_bytes(cifar100([1, 2, 3], [9, 100, 9], pixels))
    (folder / "cut.bin").write_bytes(cifar10([0, 1, 2], pixels)[:-1])
    (folder / "cut.bin.gz").write_bytes(packed(cifar10([0, 1, 2], pixels)[:-1]))
    (folder / "empty.dat").write_bytes(b"")
    (folder / "noise.dat").write_bytes(b"noise" * 100)
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"a,b,c,d\n" + b"1,2,3,4\n" * 400_000))


def tables(folder):
    rows = [[1, 2, 3, 4, 0], [5, 6, 7, 8, 1]]
    write_csv(folder / "good.csv", ["a", "b", "c", "d", "y"], rows)
    text = (folder / "good.csv").read_text()
    for name, bad in {
        "ragged": text + "1,2,3\n",
        "words": text.replace("6", "red"),
        "missing": text.replace("6", ""),
        "nan": text.replace("6", "nan"),
        "infinite": text.replace("6", "1e999"),
        "inf": text.replace("6", "inf"),
        "quote": text + '1,2,3,"4,0\n1,2,3,4,0\n',
        "inside": text + '1,2,3,4"5",0\n',
        "numbers": "1,2,3,4,0\n" * 3,
        "unnamed": text.replace("a,b", ",b"),
        "same": text.replace("a,b", "b,b"),
        "label": text.replace("8,1", "8,1.5"),
        "large": text.replace("8,1", "8,7"),
        "empty": "",
        "blank": "\n\n",
        "binary": "a,b\0,c\n1,2,3\n",
    }.items():
        (folder / f"{name}.csv").write_text(bad, newline="")
    write_csv(folder / "eps.csv", ["a", "b", "c"], [[1, 2, 3]])
    write_csv(folder / "eps2.csv", ["d", "b", "c", "a"], [[1, 2, 3, 4]] * 2)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    images(folder)
    arrays(folder)
    tables(folder)
    nets = {"rgb": [1, 3, 8, 8], "four": [1, 4], "cifar": [1, 3, 32, 32]}
    for name, shape in nets.items():
        weights = np.zeros((int(np.prod(shape)), 2))
        (folder / f"{name}.onnx").write_bytes(network(shape, weights, [1, 0]))
    return folder


NO_CHANGE = "; images are neither resized nor converted"

# Network, --data and flags, the message after "grapeshot: ".
READING = [
    ("rgb", "grey.png", "grey.png: grey.png: is 8 x 8 pixels of 1 channel; rgb.onnx takes 3 x 8 x 8" + NO_CHANGE),
    ("rgb", "alpha.png", "alpha.png: alpha.png: is 8 x 8 pixels of 4 channels; rgb.onnx takes 3 x 8 x 8" + NO_CHANGE),
    ("rgb", "large.png", "large.png: large.png: is 9 x 8 pixels of 3 channels; rgb.onnx takes 3 x 8 x 8" + NO_CHANGE),
    ("rgb", "sixteen.png", "sixteen.png: has 16 bits a channel; save it with 8"),
    ("rgb", "cmyk.jpg", "cmyk.jpg: is in CMYK; save it as RGB"),
    ("rgb", "cut.jpg", "cut.jpg: damaged JPEG (Premature end of JPEG file)"),
    ("rgb", "head.jpg", "head.jpg: damaged JPEG ("),
    ("rgb", "cut.png", "cut.png: damaged PNG ("),
    ("rgb", "crc.png", "crc.png: damaged PNG ("),
    ("rgb", "bomb.png", "bomb.png: damaged PNG (claims 60000 x 60000 pixels in 58 bytes)"),
    ("rgb", "empty", "empty: holds no .png, .jpg or .jpeg file, nor a folder with one"),
    ("rgb", "none", "none: holds no .png, .jpg or .jpeg file, nor a folder with one"),
    ("rgb", "mixed", "mixed/b.png: is 8 x 8 pixels, grey, unlike a.png" + NO_CHANGE),
    ("rgb", "text", "text/b.png: is neither a PNG nor a JPEG file"),
    ("rgb", "short", "short/labels.csv: has no label for b.png"),
    ("rgb", "two --labels cat.csv", "cat.csv:3: 'cat' is no label; a class is a number from 0 on"),
    ("rgb", "two --labels twice.csv", "twice.csv:2: 'a.png' has a label already"),
    (
        "rgb",
        "two --labels three.csv",
        "three.csv:1: expected two fields, the name of an image and its label, found 3",
    ),
    ("rgb", "short --format idx", "short: is a folder, which only the format images reads"),
    (
        "rgb",
        "nhwc.npy",
        "nhwc.npy: its rows are 8 x 8 x 3, rgb.onnx takes 3 x 8 x 8; say by --layout whether the data "
        "are NCHW or NHWC",
    ),
    ("rgb", "nhwc.npy --layout NCHW", "nhwc.npy: is 8 x 3 pixels of 8 channels; rgb.onnx takes 3 x 8 x 8" + NO_CHANGE),
    ("rgb", "rgb.png --layout NCHW", "--layout: rgb.png is NHWC by its format"),
    ("rgb", "nhwc.npy --layout CHW", "--layout: 'CHW' is neither NCHW nor NHWC"),
    ("four", "x.npy --layout NCHW", "--layout: rows of x.npy are 4, no images of three axes"),
    ("four", "two.npz", "two.npz: holds the arrays x, y; name one of them after a colon, as in two.npz:x"),
    ("four", "two.npz:z", "two.npz: holds no array 'z'; it has x, y"),
    ("four", "cut.npz:x", "cut.npz: is no .npz archive"),
    ("four", "cut-idx", "cut-idx: ends at byte 29; its 5 rows of 4 bytes after byte 12 do not end there"),
    ("four", "more-idx", "more-idx: 2 bytes follow its last row"),
    ("four", "damaged-idx", "damaged-idx.gz: damaged gzip: the file ends before its data does"),
    ("four", "huge-idx", "huge-idx: ends at byte 14; its 4294967295 rows of 4294967295 bytes"),
    ("four", "head-idx", "head-idx: ends inside its header, at byte 12"),
    ("four", "type-idx --format idx", "type-idx: byte 2: IDX has no elements of type 10"),
    ("four", "rank-idx --format idx", "rank-idx: byte 3: 0 axes; this reads 1 to 32"),
    ("four", "x.npy --format idx", "x.npy: no IDX file: it does not begin with two zero bytes"),
    ("four", "x.npy --format mnist", "no data format is called 'mnist'; known: npy, npz, idx, images, "),
    ("cifar", "label.bin", "label.bin: byte 6146: label 200 is not one of 0 to 9"),
    ("cifar", "fine.bin", "fine.bin: byte 3075: label 100 is not one of 0 to 99"),
    ("cifar", "cut.bin", "cut.bin: its content and name are those of no known format ("),
    ("cifar", "cut.bin --format cifar10", "cut.bin: 9218 bytes are no whole number of records of 3073 bytes"),
    ("cifar", "cut.bin.gz --format cifar10", "cut.bin.gz: ends at byte 9218, inside a record of 3073 bytes"),
    ("rgb", "ten.bin", "ten.bin: is 32 x 32 pixels of 3 channels; rgb.onnx takes 3 x 8 x 8" + NO_CHANGE),
    ("four", "empty.dat", "empty.dat: is empty"),
    ("four", "noise.dat", "noise.dat: its content and name are those of no known format (npy, npz, "),
    ("four", "bomb.csv --max-file-mib 1", "bomb.csv.gz: unpacks to more than 1 MiB; --max-file-mib allows more"),
    ("four", "good.csv", "good.csv: has 5 columns (a, b, c, d, y), four.onnx has 4 inputs; --labels names a column"),
    ("four", "good.csv --labels z", "good.csv:1: no column is called 'z'"),
    ("four", "x.npy --labels z", "z: no such file, and no column of x.npy, which is no table"),
    ("four", "x.npy --labels z.npy", "z.npy: no such file"),
    ("four", "ragged.csv --labels y", "ragged.csv:4: has 3 fields, the line of names has 5"),
    (
        "four",
        "words.csv --labels y",
        "words.csv:3: column 'b' holds 'red', which is no number; encode categories as numbers first",
    ),
    ("four", "missing.csv --labels y", "missing.csv:3: column 'b' is empty; fill in what is missing first"),
    ("four", "nan.csv --labels y", "nan.csv:3: column 'b' holds 'nan', which is not finite"),
    ("four", "inf.csv --labels y", "inf.csv:3: column 'b' holds 'inf', which is not finite"),
    ("four", "infinite.csv --labels y", "infinite.csv:3: column 'b' holds '1e999', which is "),
    ("four", "quote.csv --labels y", "quote.csv:"),
    ("four", "inside.csv --labels y", "inside.csv:4: a quote that does not match another"),
    ("four", "numbers.csv", "numbers.csv:1: names of columns are expected, found '1'"),
    ("four", "unnamed.csv", "unnamed.csv:1: column 1 has no name; pandas writes one for its index, not with index="),
    ("four", "same.csv", "same.csv:1: two columns are called 'b'"),
    ("four", "label.csv --labels y", "label.csv:3: label 1.5 in column 'y' is no whole number; a class is a number"),
    ("four", "large.csv --labels y", "large.csv: 7 is not a label from 0 to 1, nor -1 for none"),
    ("four", "empty.csv", "empty.csv: is empty"),
    ("four", "blank.csv", "blank.csv: is empty; its first line is to name columns"),
    ("four", "binary.csv", "binary.csv: its content and name are those of no known format ("),
    ("four", "x.npy --labels half.npy", "half.npy: 20 labels for 5 rows of data"),
    ("four", "x.npy --rows 5:9", "x.npy: has no row 5"),
    ("four", "x.npy --rows 3:3", "--rows: '3:3' names no row"),
    ("four", "x.npy --rows :", "--rows: ':' names no row"),
    ("four", "x.npy --rows=-3:", "--rows: '-3:' is none of 10:50, 10:, :50 and 10; rows count from 0"),
    ("four", "x.npy --rows a", "--rows: 'a' is none of 10:50, 10:, :50 and 10; rows count from 0"),
    ("four", "x.npy --rows 99999999999999999999:", "--rows: '99999999999999999999:' is none of"),
    ("four", "x.npy --limit=-1", "--limit must be at least 0"),
    ("four", "x.npy --data-scale 0", "--data-scale must be a finite number above 0"),
    ("four", "x.npy --data-scale nan", "--data-scale must be a finite number above 0"),
    ("four", "x.npy --std 1,2,3,0", "--std: all numbers must be above 0"),
    ("four", "x.npy --mean 1,x", "--mean: '1,x' is not a list of numbers joined by commas"),
    ("four", "x.npy --mean 1,,2,3", "--mean: '1,,2,3' is not a list of numbers joined by commas"),
    (
        "four",
        "x.npy --mean 1,2",
        "--mean: 2 numbers; one, or one for each of 4 inputs or each channel of x.npy is needed",
    ),
    (
        "rgb",
        "nhwc.npy --layout NHWC --std 1,2,3,4",
        "--std: 4 numbers; one, or one for each of 192 inputs or each channel of nhwc.npy is needed",
    ),
]


def refused(place, *args):
    before = tree(place)
    done = grapeshot(*args, cwd=place, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert tree(place) == before, "something was written"
    return done.stderr.removeprefix("grapeshot: ")


@pytest.mark.parametrize("net, data, message", READING)
def test_what_cannot_be_read_is_refused(place, net, data, message):
    args = ("run", f"{net}.onnx", "--data", *data.split(), "--out", "y.npy")
    assert refused(place, *args).startswith(message)


SEARCHING = [
    ("good.csv --labels y --eps 1 --eps-file eps.csv", "--eps and --eps-file exclude each other"),
    ("good.csv --labels y --eps-file eps.csv", "eps.csv: has no radius for column 'd'"),
    (
        "good.csv --labels y --eps-file eps2.csv",
        "eps2.csv: has 2 rows below its names; one radius for each column is needed",
    ),
    ("x.npy --eps-file radii.npy", "radii.npy: radii must be finite numbers of at least 0"),
    ("x.npy --eps-file three.npy", "three.npy: 3 numbers; one, or one for each of 4 inputs"),
    ("x.npy --eps-file none.npy", "none.npy: no such file"),
    ("good.csv --labels y --eps 1 --low 2", "good.csv[0]: column 'a' is 1, below --low 2"),
    ("good.csv --labels y --eps 1 --high 9,9,6.5,9", "good.csv[1]: column 'c' is 7, above --high 6.5"),
    ("good.csv --labels y --eps 1 --low 5 --high 4", "--low must not be above --high"),
    ("good.csv --labels y --eps 1 --frozen a,e", "--frozen: 'e' is no column of the data, and 'a,e' no file"),
    ("x.npy --eps 1 --frozen a", "a: no such file"),
    ("x.npy --eps 1 --frozen x.npy", "x.npy: holds other values than 0 (free) and 1 (frozen)"),
    ("nan.npy --eps 1", "nan.npy: holds NaN, infinite or larger values than float32"),
    ("x.npy --eps 1 --data-scale 1e-300", "x.npy: holds NaN, infinite or larger values than float32"),
    (
        "good.csv --labels y --eps 1 --rows 1",
        "good.csv: no input is predicted as its label says; --misclassified keeps them",
    ),
]


@pytest.mark.parametrize("data, message", SEARCHING)
def test_campaigns_refuse_what_does_not_fit(place, data, message):
    assert refused(place, "fuzz", "four.onnx", "--data", *data.split()).startswith(message)


def test_options_of_data_need_data(place):
    for flags in (["--eps", "1"], ["--data-scale", "255"], ["--low", "0"], ["--frozen", "a"], ["--misclassified"]):
        message = refused(place, "fuzz", "four.onnx", "x.vnnlib", *flags)
        assert message.startswith(f"{flags[0]} requires --data")


def test_diff_refuses_several_means(place):
    message = refused(place, "diff", "four.onnx", "--data", "x.npy", "--mean", "1,2,3,4")
    assert message.startswith("diff has one range for all inputs: --mean and --std must be one number each")
