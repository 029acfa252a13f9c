"""Reads `all.arrow` and `all.parquet` in a directory and holds each to `all.json`, the answer of `/v1/cells`: `samples.py DIRECTORY`.

`samples.py make DIRECTORY` writes tables of its own in several compressions instead.
"""

import json
import pathlib
import struct
import sys

import pyarrow
import pyarrow.ipc
import pyarrow.parquet


def bits(value):
    """The eight bytes of a double; all of what is no number is one."""
    return None if value is None else "NaN" if value != value else struct.pack(">d", float(value)).hex()


def number(found):
    return bits(float(str(found).replace("Inf", "inf")))


def expected(cells):
    for sample in cells["samples"]:
        labels = dict(cells["series"][sample["series"]]["labels"])
        name, found = labels.pop("__name__"), sample.get("histogram")
        count = None
        if found is not None:
            bins = found["bins"].values() if "bins" in found else [bucket[3] for bucket in found["buckets"]]
            count = sum(float(one) for one in bins)
        value = number(sample["float"]) if "float" in sample else None
        yield json.dumps([name, labels, sample["time_ms"], sample.get("start_ms"), value, sample.get("text"), count], sort_keys=True)


def rows(table):
    millis = lambda time: None if time is None else round(time.timestamp() * 1000)
    for row in table.to_pylist():
        one, count = row["histogram"], None
        if one is not None:
            count = one["zero_count"] + one["nan_count"] + sum(bucket["count"] for bucket in one["buckets"])
            assert count == one["count"], row
            assert all(bucket["lower"] < bucket["upper"] for bucket in one["buckets"]), row
        yield json.dumps(
            [row["name"], dict(row["labels"]), millis(row["time"]), millis(row["start"]), bits(row["value"]), row["text"], count],
            sort_keys=True,
        )


def make(directory):
    base = 1_780_000_000_000
    table = pyarrow.table({
        "when": pyarrow.array([base + 1000 * (at // 4) for at in range(5000)], pyarrow.timestamp("ms")),
        "host": pyarrow.array(["abcd"[at % 4] for at in range(5000)]).dictionary_encode(),
        "zone": pyarrow.array(['z"1'] * 5000, pyarrow.large_string()),
        "load": pyarrow.array([None if at % 4 == 3 else at // 4 for at in range(5000)], pyarrow.int32()),
        "temp": pyarrow.array([at / 3 if at % 4 == 3 else None for at in range(5000)], pyarrow.float32()),
    }).rename_columns(["time", "host", "zone", "load", "temp"])
    for compression in ["snappy", "zstd", "gzip", "none"]:
        pyarrow.parquet.write_table(table, directory / f"{compression}.parquet", compression=compression, row_group_size=1500)


if sys.argv[1] == "make":
    make(pathlib.Path(sys.argv[2]))
    sys.exit()
directory = pathlib.Path(sys.argv[1])
cells = sorted(expected(json.loads((directory / "all.json").read_text())))
for name in ["all.arrow", "all.parquet"]:
    path = directory / name
    table = pyarrow.ipc.open_file(path).read_all() if name.endswith("arrow") else pyarrow.parquet.read_table(path)
    table.validate(full=True)
    found = sorted(rows(table))
    assert found == cells, [pair for pair in zip(found, cells) if pair[0] != pair[1]][:2]
    count = sum(one is not None for one in table.column("histogram").to_pylist())
    print(f"{name} {table.num_rows} rows {count} histograms", flush=True)
