// Batches through FlatBuffers' own library. batch_generated.h is `flatc --cpp schema/batch.fbs`.
#include "batch.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "batch_generated.h"

namespace wire = ogive::wire;

namespace {

using Bytes = std::vector<uint8_t>;

void varint(Bytes &to, uint64_t value) {
  for (; value > 127; value >>= 7) to.push_back(static_cast<uint8_t>(value | 128));
  to.push_back(static_cast<uint8_t>(value));
}

struct Indexed {
  int64_t index;
  uint64_t count;
};

void side(Bytes &to, const std::vector<Indexed> &bins) {
  varint(to, bins.size());
  int64_t last = 0;
  for (const Indexed &bin : bins) {
    int64_t distance = bin.index - last;
    varint(to, distance < 0 ? static_cast<uint64_t>(-2 * distance - 1) : static_cast<uint64_t>(2 * distance));
    varint(to, bin.count);
    last = bin.index;
  }
}

void append_bins(Bytes &to, const ogive_hist *cell) {
  uint64_t zero = 0;
  std::vector<Indexed> negative, positive;
  size_t bins = ogive_hist_bins(cell);
  // Negative bins ascend on the real axis: their indexes fall.
  for (size_t at = bins; at-- > 0;) {
    ogive_bin bin;
    uint64_t count;
    ogive_hist_bin_at(cell, at, &bin, &count);
    if (bin.val < -1) negative.push_back({(bin.exp + 128) * 90 + (-bin.val - 10), count});
  }
  for (size_t at = 0; at < bins; at++) {
    ogive_bin bin;
    uint64_t count;
    ogive_hist_bin_at(cell, at, &bin, &count);
    if (bin.val == 0) zero = count;
    if (bin.val > 0) positive.push_back({(bin.exp + 128) * 90 + (bin.val - 10), count});
  }
  varint(to, zero);
  varint(to, ogive_hist_nan(cell));
  side(to, negative);
  side(to, positive);
}

flatbuffers::Offset<wire::Series> series(flatbuffers::FlatBufferBuilder &builder, const ogive_series &series, uint32_t width_ms) {
  std::vector<flatbuffers::Offset<flatbuffers::String>> labels;
  for (size_t at = 0; at < series.label_count; at++) labels.push_back(builder.CreateSharedString(series.labels[at]));
  auto vector = builder.CreateVector(labels);
  bool is_histogram = series.kind == OGIVE_HISTOGRAM;
  auto unit = builder.CreateSharedString(is_histogram ? "s" : "");
  auto temporality = is_histogram                    ? wire::Temporality_Delta
                     : series.kind == OGIVE_COUNTER ? wire::Temporality_Cumulative
                                                     : wire::Temporality_Gauge;
  return wire::CreateSeries(builder, vector, is_histogram ? wire::Kind_Histogram : wire::Kind_Float, temporality, unit, width_ms);
}

struct Columns {
  std::vector<uint32_t> floats_of, cells_of, schemes, bins_end;
  std::vector<double> values, sums, minima, maxima;
  Bytes flags, bins;

  void add(uint32_t at, const ogive_sample &sample) {
    if (sample.cell == nullptr) {
      floats_of.push_back(at);
      values.push_back(sample.number);
      return;
    }
    double sum = 0, least = 0, greatest = 0;
    uint8_t known = ogive_hist_exact_sum(sample.cell, &sum) ? 1 : 0;
    if (ogive_hist_extremes(sample.cell, &least, &greatest)) known |= 6;
    append_bins(bins, sample.cell);
    cells_of.push_back(at);
    schemes.push_back(0);
    bins_end.push_back(static_cast<uint32_t>(bins.size()));
    flags.push_back(known);
    sums.push_back(known & 1 ? sum : 0);
    minima.push_back(least);
    maxima.push_back(greatest);
  }
};

void message(flatbuffers::FlatBufferBuilder &builder, const ogive_batch_head &head, const ogive_sample *samples, size_t count) {
  std::vector<flatbuffers::Offset<wire::Series>> all;
  Columns columns;
  for (size_t at = 0; at < count; at++) {
    all.push_back(series(builder, *samples[at].series, head.width_ms));
    columns.add(static_cast<uint32_t>(at), samples[at]);
  }
  auto series_vector = builder.CreateVector(all);
  std::vector<flatbuffers::Offset<wire::Scheme>> schemes;
  flatbuffers::Offset<wire::Histograms> histograms;
  flatbuffers::Offset<wire::Floats> floats;
  if (!columns.cells_of.empty()) {
    std::vector<int64_t> times(columns.cells_of.size(), head.end_ns);
    schemes.push_back(wire::CreateScheme(builder, wire::SchemeKind_LogLinear10));
    histograms = wire::CreateHistogramsDirect(builder, &columns.cells_of, &times, &columns.schemes, &columns.flags, &columns.sums,
                                              &columns.minima, &columns.maxima, &columns.bins_end, &columns.bins);
  }
  if (!columns.floats_of.empty()) {
    std::vector<int64_t> times(columns.floats_of.size(), head.end_ns);
    floats = wire::CreateFloatsDirect(builder, &columns.floats_of, &times, &columns.values);
  }
  auto scheme_vector = builder.CreateVector(schemes);
  builder.Finish(wire::CreateBatch(builder, head.source[0], head.source[1], head.sequence, series_vector, scheme_vector, floats, histograms));
}

uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length) {
  for (size_t at = 0; at < length; at++) {
    crc ^= bytes[at];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return crc;
}

void little_endian(uint8_t *to, uint32_t value) {
  for (int at = 0; at < 4; at++) to[at] = static_cast<uint8_t>(value >> 8 * at);
}

}  // namespace

uint8_t *ogive_batch_encode(const ogive_batch_head *head, const ogive_sample *samples, size_t count, size_t *length) {
  try {
    flatbuffers::FlatBufferBuilder builder(1 << 14);
    message(builder, *head, samples, count);
    size_t size = builder.GetSize();
    auto *frame = static_cast<uint8_t *>(std::malloc(16 + size));
    if (frame == nullptr) return nullptr;
    std::memcpy(frame, "OGVF\1\0\0\0", 8);
    little_endian(frame + 8, static_cast<uint32_t>(size));
    std::memcpy(frame + 16, builder.GetBufferPointer(), size);
    little_endian(frame + 12, ~crc32c(crc32c(~0u, frame, 12), frame + 16, size));
    *length = 16 + size;
    return frame;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}
