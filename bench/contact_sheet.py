"""A contact sheet: pairs of an image and what `grapeshot diff` found near it, for the eye to judge."""

import pathlib

import common

COLUMNS, ROWS, SIDE = 5, 10, 96


def findings(run):
    """[(image, found, before, after)] of a run folder, one of every image before the second of any."""
    import json

    import numpy as np

    by_image = {}
    for place in sorted((pathlib.Path(run) / "findings").iterdir()):
        told = json.loads((place / "finding.json").read_text())
        by_image.setdefault(told["instance"], []).append((place, told))
    most = max(map(len, by_image.values()), default=0)
    turns = [each[k] for k in range(most) for each in by_image.values() if k < len(each)]
    out = []
    for place, told in turns[: COLUMNS * ROWS]:
        pair = [np.load(place / f"{name}.npy").reshape(3, -1) for name in ("original", "input")]
        out.append((*pair, told["before"], told["after"]))
    return out


def write(run, path):
    """Writes the sheet for images of whole numbers [3, S, S]; returns how many pairs it shows."""
    import numpy as np
    from PIL import Image

    sheet = Image.new("RGB", (COLUMNS * (2 * SIDE + 12), ROWS * (SIDE + 8)), "white")
    found = findings(run)
    for k, (*pair, _, _) in enumerate(found):
        left, top = (k % COLUMNS) * (2 * SIDE + 12), (k // COLUMNS) * (SIDE + 8)
        for i, x in enumerate(pair):
            side = round(x.shape[1] ** 0.5)
            pixels = np.asarray(x, np.uint8).reshape(3, side, side).transpose(1, 2, 0)
            picture = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            sheet.paste(picture, (left + i * (SIDE + 2), top))
    sheet.save(path, quality=85)
    common.say(f"wrote {common.relative(path)}")
    return len(found)
