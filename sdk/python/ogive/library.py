"""The C library, as ctypes sees it. `OGIVE_HIST_LIBRARY` names another copy."""

import ctypes
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int8, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from pathlib import Path


class Bin(ctypes.Structure):
    """A bin: `val` is ten times the mantissa of the edge nearer zero, with the sign; (0, 0) is zero, (-1, 0) NaN."""

    _fields_ = [("val", c_int8), ("exp", c_int8)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bin) and (self.val, self.exp) == (other.val, other.exp)

    def __hash__(self) -> int:
        return hash((self.val, self.exp))

    def __repr__(self) -> str:
        return f"Bin({self.val}, {self.exp})"


class Bucket(ctypes.Structure):
    """A bucket of another scheme, with its own count."""

    _fields_ = [("count", c_uint64), ("lower", c_double), ("upper", c_double)]


class Repairs(ctypes.Structure):
    """What a reader had to mend."""

    _fields_ = [
        (name, c_size_t)
        for name in (
            "invalid_bins empty_bins odd_zero_bins duplicate_bins unsorted_bins wide_counts missing_bins trailing_bytes".split()
        )
    ] + [("invalid_samples", c_uint64), ("loose_base64", c_bool)]


LIBRARY = ctypes.CDLL(os.environ.get("OGIVE_HIST_LIBRARY") or str(Path(__file__).with_name("libogive_hist.so")))

_HIST = c_void_p
_DOUBLES = POINTER(c_double)
for _name, _result, *_arguments in [
    ("bin_of", Bin, c_double),
    ("bin_of_integer", Bin, c_int64, c_int),
    ("bin_bounds", None, Bin, _DOUBLES, _DOUBLES),
    ("bin_midpoint", c_double, Bin),
    ("bin_label", None, Bin, c_char_p),
    ("bin_parse", c_bool, c_char_p, POINTER(Bin)),
    ("hist_new", _HIST),
    ("hist_free", None, _HIST),
    ("hist_clone", _HIST, _HIST),
    ("hist_record", c_bool, _HIST, c_double, c_uint64),
    ("hist_record_bin", c_bool, _HIST, Bin, c_uint64),
    ("hist_merge", c_bool, _HIST, _HIST),
    ("hist_subtract", c_size_t, _HIST, _HIST),
    ("hist_remove", c_uint64, _HIST, c_double, c_uint64),
    ("hist_clamp", None, _HIST, c_double, c_double),
    ("hist_compress_below", None, _HIST, c_int8),
    ("hist_count", c_uint64, _HIST),
    ("hist_real", c_uint64, _HIST),
    ("hist_nan", c_uint64, _HIST),
    ("hist_bins", c_size_t, _HIST),
    ("hist_bin_at", None, _HIST, c_size_t, POINTER(Bin), POINTER(c_uint64)),
    ("hist_exact_sum", c_bool, _HIST, _DOUBLES),
    ("hist_extremes", c_bool, _HIST, _DOUBLES, _DOUBLES),
    ("hist_quantile", c_bool, _HIST, c_double, _DOUBLES, _DOUBLES, _DOUBLES),
    ("hist_quantile_type1", c_double, _HIST, c_double),
    ("hist_quantile_type7", c_double, _HIST, c_double),
    ("hist_fraction_below", c_double, _HIST, c_double),
    ("hist_count_below", c_uint64, _HIST, c_double, c_bool),
    ("hist_count_above", c_uint64, _HIST, c_double, c_bool),
    ("hist_count_nearby", c_uint64, _HIST, c_double),
    ("hist_sum", c_double, _HIST),
    ("hist_mean", c_double, _HIST),
    ("hist_stddev", c_double, _HIST),
    ("hist_moment", c_double, _HIST, c_int),
    ("hist_encode", c_size_t, _HIST, c_char_p, c_size_t),
    ("hist_encode_base64", c_size_t, _HIST, c_char_p, c_size_t),
    ("hist_decode", _HIST, c_char_p, c_size_t, POINTER(Repairs), POINTER(c_char_p)),
    ("hist_decode_base64", _HIST, c_char_p, c_size_t, POINTER(Repairs), POINTER(c_char_p)),
    ("hist_decode_hdr", _HIST, c_char_p, c_size_t, c_double, POINTER(c_char_p)),
    ("hist_from_buckets", _HIST, c_int, POINTER(Bucket), c_size_t),
    ("recorder_new", c_void_p),
    ("recorder_free", None, c_void_p),
    ("recorder_record_shared", None, c_void_p, c_uint64),
    ("recorder_take", _HIST, c_void_p),
]:
    _function = getattr(LIBRARY, f"ogive_{_name}")
    _function.restype, _function.argtypes = _result, _arguments

__all__ = ["LIBRARY", "Bin", "Bucket", "Repairs", "byref", "c_char_p", "c_double", "c_uint64", "c_uint8"]
