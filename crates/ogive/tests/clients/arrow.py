"""Reads Arrow files and holds each to the JSON of the same answer: `arrow.py DIRECTORY` of `NAME.arrow` and `NAME.json`.

Numbers are compared bit by bit. Prints, for each name, its rows, those with a histogram, and its batches.
"""

import json
import pathlib
import struct
import sys

import pyarrow


def bits(value):
    """The eight bytes of a double; all of what is no number is one."""
    return "NaN" if value != value else struct.pack(">d", value).hex()


def number(text):
    return bits(float(text.replace("Inf", "inf")))


def parsed(found):
    """A histogram of the JSON answer, as the file has it."""
    zero, buckets = ["0.0", "0.0"], []
    for rule, lower, upper, count in found.get("buckets", []):
        if rule == 3 and float(lower) == -float(upper):
            zero = [upper, count]
        else:
            buckets.append((number(lower), number(upper), rule in (1, 3), rule in (0, 3), number(count)))
    return number(found["count"]), number(found["sum"]), number(zero[0]), number(zero[1]), buckets


def expected(data):
    """Every point as labels, milliseconds, value, text, histogram."""
    kind, result = data["resultType"], data["result"]
    if kind in ("scalar", "string"):
        value, text = (number(result[1]), None) if kind == "scalar" else (None, result[1])
        yield {}, round(result[0] * 1000), value, text, None
        return
    for series in result:
        floats = series.get("values", []) + [series[key] for key in ("value",) if key in series]
        for time, value in floats:
            yield series["metric"], round(time * 1000), number(value), None, None
        for time, value in series.get("histograms", []) + [series[key] for key in ("histogram",) if key in series]:
            yield series["metric"], round(time * 1000), None, None, parsed(value)


def read(table):
    """The same of a file."""
    labels = {}
    for field in table.schema:
        if field.metadata and b"ogive.label" in field.metadata:
            assert pyarrow.types.is_dictionary(field.type), field
            labels[field.name] = field.metadata[b"ogive.label"].decode()
    times = table.column("time").cast(pyarrow.int64()).to_pylist()
    for time, row in zip(times, table.to_pylist()):
        metric = {label: row[column] for column, label in labels.items() if row[column] is not None}
        value, found = row["value"], row["histogram"]
        if found is not None:
            buckets = [
                (bits(one["lower"]), bits(one["upper"]), one["lower_inclusive"], one["upper_inclusive"], bits(one["count"]))
                for one in found["buckets"]
            ]
            whole = [bits(found[key]) for key in ("count", "sum", "zero_threshold", "zero_count")]
            found = (*whole, buckets)
        yield metric, time, None if value is None else bits(value), row["text"], found


for path in sorted(pathlib.Path(sys.argv[1]).glob("*.arrow")):
    file = pyarrow.ipc.open_file(pyarrow.memory_map(str(path)))
    table = file.read_all()
    table.validate(full=True)
    assert str(table.schema.field("time").type) == "timestamp[ms, tz=UTC]", table.schema
    answer = json.loads(path.with_suffix(".json").read_text())
    about = table.schema.metadata
    assert about[b"ogive.result_type"].decode() == answer["data"]["resultType"], about
    assert json.loads(about[b"ogive.warnings"]) == answer.get("warnings", []), about
    assert json.loads(about[b"ogive.infos"]) == answer.get("infos", []), about
    rows, wanted = list(read(table)), list(expected(answer["data"]))
    assert len(rows) == len(wanted), f"{path.name}: {len(rows)} rows, the answer has {len(wanted)}"
    for one, other in zip(rows, wanted):
        assert one == other, f"{path.name}: {one} is not {other}"
    histograms = sum(1 for row in rows if row[4] is not None)
    print(f"{path.stem} {len(rows)} {histograms} {file.num_record_batches}", flush=True)
