"""Holds every record of the OpenHistogram vectors to the library's answer, or to Ogive's written rule where the two differ on
purpose (docs/formats/openhistogram.md). OGIVE_VECTORS_DIR names another directory. The package calls the C library, so this
tests both."""

import json
import math
import os
import struct
import sys
from fractions import Fraction
from pathlib import Path

import ogive
from ogive import Bin, Histogram

MAX = 2**64 - 1


def number(value):
    return float(value)


def bins_in(value):
    return [(Bin(val, exp), int(count)) for val, exp, count in value]


def histogram_of(bins):
    histogram = Histogram()
    for found, count in bins:
        histogram.record_bin(found, count)
    return histogram


def canonical(bins):
    """Equal bins added up, empty ones dropped, in order."""

    def order(found):
        if found == ogive.NAN_BIN:
            return (0, 0, 0)
        edge = Fraction(found.val) * Fraction(10) ** found.exp
        return (1, edge, 0)

    sums = {}
    for found, count in bins:
        place = ogive.ZERO_BIN if found.val == 0 else found
        sums[place] = min(sums.get(place, 0) + count, MAX)
    return [(place, sums[place]) for place in sorted(sums, key=order) if sums[place] > 0]


def same(what, found, expected):
    assert found == expected, f"{what}: found {found}, expected {expected}"


def near(what, found, expected, tolerance):
    equal = found == expected or math.isnan(found) and math.isnan(expected) or abs(found - expected) <= tolerance
    assert equal, f"{what}: found {found!r}, expected {expected!r}"


def rule(value):
    """The written rule, with the decade by comparison of exact numbers."""
    magnitude = abs(value)
    if not magnitude < 1e128:
        return ogive.NAN_BIN
    if magnitude < 1e-128:
        return ogive.ZERO_BIN
    exp = 127
    while float(f"1e{exp}") > magnitude:
        exp -= 1
    val = int(magnitude / float(f"1e{exp}") * 10 + 1e-13)
    if val == 100:
        val, exp = 10, exp + 1
    if exp > 127:
        return ogive.NAN_BIN
    return Bin(-val if value < 0 else val, exp)


def just_below_power(value):
    powers = (float(f"1e{exp}") for exp in range(-128, 129))
    return any(power * (1 - 3e-13) <= abs(value) < power for power in powers)


def double_to_bin(_, record):
    value = struct.unpack(">d", bytes.fromhex(record["bits"]))[0]
    found, library = ogive.bin_of(value), Bin(*record["bin"])
    if found != library:
        same("bin by the rule", found, rule(value))
        assert just_below_power(value), f"{value!r} is not just below a power of ten"
        return
    if library == ogive.NAN_BIN:
        return
    same("bin of the label", ogive.bin_parse(record["str"]), found)
    same("bin of its own label", ogive.bin_parse(ogive.bin_label(found)), found)
    lo, hi = ogive.bin_bounds(found)
    edge = lo if found.val > 0 else hi
    near("edge", edge, number(record["lo"]), abs(edge) * 4.5e-16)
    near("width", hi - lo, abs(number(record["width"])), abs(edge) * 9e-16)
    near("midpoint", ogive.bin_midpoint(found), number(record["mid"]), abs(edge) * 9e-16)


def integer_to_bin(_, record):
    same("bin", ogive.bin_of_integer(int(record["value"]), record["scale"]), Bin(*record["bin"]))


def serialize(_, record):
    bins = bins_in(record["bins"])
    histogram = histogram_of(bins)
    prefix = "correct_" if "upstream_defect" in record else ""
    same("bytes", histogram.to_bytes().hex(), record[prefix + "hex"])
    same("base64", histogram.to_base64(), record[prefix + "b64"])
    back, repairs = Histogram.from_bytes(histogram.to_bytes())
    same("bins read back", list(back.bins()), canonical(bins))
    same("repairs", [getattr(repairs, name) for name, _ in repairs._fields_], [0] * 9 + [False])


def deserialize(name, record):
    try:
        if name == "records_b64":
            read, repairs = Histogram.from_base64(record["b64"])
        else:
            data = bytes.fromhex(record["hex"])
            read, repairs = Histogram.from_bytes(data)
            if record["rc"] >= 0:
                same("bytes consumed", len(data) - repairs.trailing_bytes, record["rc"])
    except ogive.FormatError as error:
        assert record["rc"] < 0, f"refused ({error}), the library reads it"
        return
    if record["rc"] < 0:
        assert repairs.loose_base64, "read, the library refuses"
        return
    same("bins", list(read.bins()), canonical(bins_in(record["bins"])))


def merge(_, record):
    histogram, short = histogram_of(bins_in(record["a"])), 0
    for other in record["b"]:
        if record["op"] == "accumulate":
            histogram.merge(histogram_of(bins_in(other)))
        else:
            assert record["op"] == "subtract", record["op"]
            short += histogram.subtract(histogram_of(bins_in(other)))
    if record["op"] == "subtract":
        same("short", short > 0, record["rc"] != 0)
    same("bins", list(histogram.bins()), canonical(bins_in(record["result"])))


def transform(_, record):
    before, expected = bins_in(record["a"]), canonical(bins_in(record["result"]))
    histogram = histogram_of(before)
    if record["op"] == "compress_mbe":
        histogram.compress_below(record["mbe"])
    elif record["op"] == "remove":
        same("removed", histogram.remove(number(record["value"]), int(record["n"])), int(record["removed"]))
    else:
        assert record["op"] == "clamp", record["op"]
        lower, upper = number(record["lower"]), number(record["upper"])
        histogram.clamp(lower, upper)
        found = list(histogram.bins())
        for entry in canonical(before):
            lo, hi = ogive.bin_bounds(entry[0])
            # A bin whose edge meets a bound up to a rounding may be kept or not.
            meets = abs(lo - upper) <= 1e-15 * abs(upper) or abs(hi - lower) <= 1e-15 * abs(lower)
            assert (entry in found) == (entry in expected) or meets, f"{entry} kept or dropped against the library"
        return
    same("bins", list(histogram.bins()), expected)


def adhoc(_, record):
    buckets = [(int(count), number(lower), number(upper)) for count, lower, upper in record["in"]]
    found = list(Histogram.from_buckets(record["mode"], buckets).bins())
    expected = canonical(bins_in(record["result"]))
    if found != expected and len(buckets) > 1 and buckets[-1][2] >= 1e128 and buckets[-2][1] < 0:
        # The library places a tail behind a bucket below zero outside its own bounds.
        assert any(ogive.bin_bounds(place)[0] >= buckets[-1][1] for place, _ in found)
        return
    same("bins", found, expected)


def statistics(_, record):
    bins = bins_in(record["bins"])
    histogram = histogram_of(bins)
    same("sample count", histogram.count, int(record["sample_count"]))
    middles = [(ogive.bin_midpoint(place), float(count)) for place, count in bins if place != ogive.NAN_BIN]
    n = sum(count for _, count in middles)

    def size(k):
        return sum(abs(middle) ** k * count for middle, count in middles)

    near("mean", histogram.mean, number(record["ref_mean"]), 1e-13 * size(1) / n if n else 0)
    near("sum", histogram.sum, number(record["sum"]), 1e-13 * size(1))
    near("stddev", histogram.stddev, number(record["ref_stddev"]), 1e-12 * number(record["ref_stddev"]))
    for k, moment in enumerate(map(number, record["moment"]), 1):
        if math.isfinite(moment):
            near("moment", histogram.openhistogram_moment(k), moment, 1e-12 * size(k) / n**k)
        else:
            assert not math.isfinite(histogram.openhistogram_moment(k))
    for at, q in enumerate(record["q"]):
        for kind, find in (("quantile1", histogram.quantile_type1), ("quantile7", histogram.quantile_type7)):
            if record[kind + "_rc"] == 0:
                expected = number(record[kind][at])
                near(f"{kind} {q}", find(q), expected, 1e-13 * abs(expected))
        found = histogram.quantile(q)
        assert found is None or found.lo <= found.value <= found.hi
    wraps = sum(count for _, count in bins) > MAX
    nan = sum(count for place, count in bins if place == ogive.NAN_BIN)
    for at, x in enumerate(map(number, record["threshold"])):
        if record["inverse_quantile_rc"] == 0 and not wraps:
            near(f"fraction below {x}", histogram.fraction_below(x), number(record["inverse_quantile"][at]), 1e-12)
        if wraps or abs(x) >= 1e128:
            continue
        counts = record["count"]
        same("below", histogram.count_below(x), int(counts["below_inclusive"][at]))
        same("below exclusive", histogram.count_below(x, inclusive=False), int(counts["below_exclusive"][at]))
        same("above", histogram.count_above(x) + nan, int(counts["above_inclusive"][at]))
        same("above exclusive", histogram.count_above(x, inclusive=False) + nan, int(counts["above_exclusive"][at]))
        beside = sum(count for place, count in bins if place == rule(x))
        same("near", histogram.count_nearby(x), beside)


CHECKERS = {
    "adhoc.json": adhoc,
    "deserialize.json": deserialize,
    "double_to_bin.json": double_to_bin,
    "intscale_to_bin.json": integer_to_bin,
    "merge.json": merge,
    "serialize.json": serialize,
    "stats.json": statistics,
    "transform.json": transform,
}


def hdr(given):
    """HdrHistogram's forms, in vectors/hdrhistogram/read.json also when another directory is named that has none."""
    path = given / "hdrhistogram/read.json"
    own = Path(__file__).parents[3] / "vectors/hdrhistogram/read.json"
    document = json.loads((path if path.is_file() else own).read_text())
    passed, failures = 0, []
    for record in document["records"] + document["refused"]:
        try:
            read = Histogram.from_hdr_base64(record["hdr"], record["unit"])
            found = "a form with a sum" if read.exact_sum is not None else read.to_base64()
        except ogive.FormatError as error:
            found = str(error)
            found = "refused" if "openhistogram" not in record and record.get("says", "") in found else found
        if found == record.get("openhistogram", "refused"):
            passed += 1
        else:
            failures.append(f"HdrHistogram, {record['name']}: {found}")
    return passed, failures


def main():
    given = Path(os.environ.get("OGIVE_VECTORS_DIR") or Path(__file__).parents[3] / "vectors")
    inner = given / "openhistogram"
    directory = inner if inner.is_dir() else given
    passed, failed = 0, 0
    for path in sorted(directory.glob("*.json")):
        document = json.loads(path.read_text())
        for name in (key for key in document if key.startswith("records")):
            for at, record in enumerate(document[name]):
                try:
                    CHECKERS[path.name](name, record)
                    passed += 1
                except AssertionError as error:
                    failed += 1
                    print(f"{path.name} {name}[{at}]: {error}")
    hdr_passed, failures = hdr(given)
    for failure in failures:
        print(failure)
    passed, failed = passed + hdr_passed, failed + len(failures)
    print(f"python: {passed} passed, {failed} failed")
    print(f"c: {passed} passed, {failed} failed (through the Python package, which calls it for everything)")
    sys.exit(0 if passed > 0 and failed == 0 else 1)


if __name__ == "__main__":
    main()
