package io.ogive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Holds every record of the OpenHistogram vectors to the library's answer, or to Ogive's written rule where the two differ on purpose
 * (docs/formats/openhistogram.md). OGIVE_VECTORS_DIR names another directory.
 */
class VectorsTest {
  private static final BigInteger MAX = BigInteger.TWO.pow(64).subtract(BigInteger.ONE);

  private record Counted(Bin bin, long count) {}

  @FunctionalInterface
  private interface Checker {
    void check(String list, JsonNode record) throws Exception;
  }

  private static Bin bin(JsonNode pair) {
    return new Bin((byte) pair.get(0).asInt(), (byte) pair.get(1).asInt());
  }

  private static List<Counted> bins(JsonNode list) {
    List<Counted> bins = new ArrayList<>();
    list.forEach(item -> bins.add(new Counted(bin(item), Long.parseUnsignedLong(item.get(2).asText()))));
    return bins;
  }

  private static double number(JsonNode value) {
    return value.isTextual() ? Double.parseDouble(value.asText()) : value.asDouble();
  }

  private static Histogram histogramOf(List<Counted> bins) {
    Histogram histogram = new Histogram();
    bins.forEach(counted -> histogram.recordBin(counted.bin, counted.count));
    return histogram;
  }

  private static List<Counted> binsOf(Histogram histogram) {
    List<Counted> bins = new ArrayList<>();
    histogram.forEach((bin, count) -> bins.add(new Counted(bin, count)));
    return bins;
  }

  /** Equal bins added up, empty ones dropped, in order; apart from the code under test. */
  private static List<Counted> canonical(List<Counted> bins) {
    Map<BigDecimal, BigInteger> sums = new TreeMap<>();
    Map<BigDecimal, Bin> places = new TreeMap<>();
    for (Counted counted : bins) {
      boolean nan = counted.bin.equals(Bin.NAN);
      BigDecimal edge = nan ? new BigDecimal("-1e999") : BigDecimal.valueOf(counted.bin.val()).scaleByPowerOfTen(counted.bin.exp()).stripTrailingZeros();
      BigInteger count = new BigInteger(Long.toUnsignedString(counted.count));
      sums.merge(edge, count, (a, b) -> a.add(b).min(MAX));
      places.put(edge, counted.bin.val() == 0 ? Bin.ZERO : counted.bin);
    }
    return sums.entrySet().stream().filter(sum -> sum.getValue().signum() > 0)
        .map(sum -> new Counted(places.get(sum.getKey()), sum.getValue().longValue())).toList();
  }

  private static void near(String what, double found, double expected, double tolerance) {
    boolean same = Double.compare(found, expected) == 0 || found == expected || Math.abs(found - expected) <= tolerance;
    assertTrue(same, () -> what + ": found " + found + ", expected " + expected);
  }

  /** The written rule, with the decade by a search over the powers. */
  private static Bin rule(double value) {
    double magnitude = Math.abs(value);
    if (!(magnitude < 1e128)) {
      return Bin.NAN;
    }
    if (magnitude < 1e-128) {
      return Bin.ZERO;
    }
    int exp = 127;
    while (Double.parseDouble("1e" + exp) > magnitude) {
      exp--;
    }
    int val = (int) (magnitude / Double.parseDouble("1e" + exp) * 10 + 1e-13);
    if (val == 100) {
      val = 10;
      exp++;
    }
    return exp > 127 ? Bin.NAN : new Bin((byte) (value < 0 ? -val : val), (byte) exp);
  }

  private static boolean justBelowPower(double value) {
    for (int exp = -128; exp <= 128; exp++) {
      double power = Double.parseDouble("1e" + exp);
      if (Math.abs(value) < power && Math.abs(value) >= power * (1 - 3e-13)) {
        return true;
      }
    }
    return false;
  }

  private static void doubleToBin(String list, JsonNode record) {
    double value = Double.longBitsToDouble(Long.parseUnsignedLong(record.get("bits").asText(), 16));
    Bin found = Bin.of(value);
    Bin library = bin(record.get("bin"));
    if (!found.equals(library)) {
      assertEquals(rule(value), found);
      assertTrue(justBelowPower(value), () -> value + " is not just below a power of ten");
      return;
    }
    if (library.equals(Bin.NAN)) {
      return;
    }
    assertEquals(found, Bin.parse(record.get("str").asText()));
    assertEquals(found, Bin.parse(found.label()));
    double edge = found.val() > 0 ? found.lower() : found.upper();
    near("edge", edge, number(record.get("lo")), Math.abs(edge) * 4.5e-16);
    near("width", found.upper() - found.lower(), Math.abs(number(record.get("width"))), Math.abs(edge) * 9e-16);
    near("midpoint", found.midpoint(), number(record.get("mid")), Math.abs(edge) * 9e-16);
  }

  private static void integerToBin(String list, JsonNode record) {
    assertEquals(bin(record.get("bin")), Bin.ofInteger(Long.parseLong(record.get("value").asText()), record.get("scale").asInt()));
  }

  private static void serialize(String list, JsonNode record) throws Exception {
    List<Counted> bins = bins(record.get("bins"));
    Histogram histogram = histogramOf(bins);
    String prefix = record.has("upstream_defect") ? "correct_" : "";
    assertEquals(record.get(prefix + "hex").asText(), HexFormat.of().formatHex(Codec.encode(histogram)));
    assertEquals(record.get(prefix + "b64").asText(), Codec.encodeBase64(histogram));
    Codec.Read back = Codec.decode(Codec.encode(histogram));
    assertEquals(canonical(bins), binsOf(back.histogram()));
    assertTrue(back.repairs().isNone());
  }

  private static void deserialize(String list, JsonNode record) {
    int library = record.get("rc").asInt();
    Codec.Read read = null;
    try {
      if (list.equals("records_b64")) {
        read = Codec.decodeBase64(record.get("b64").asText());
      } else {
        byte[] bytes = HexFormat.of().parseHex(record.get("hex").asText());
        read = Codec.decode(bytes);
        assertTrue(library < 0 || library == bytes.length - read.repairs().trailingBytes, "bytes consumed");
      }
    } catch (Codec.FormatException refused) {
      assertTrue(library < 0, () -> "refused (" + refused.getMessage() + "), the library reads it");
      return;
    }
    if (library < 0) {
      assertTrue(read.repairs().looseBase64, "read, the library refuses");
      return;
    }
    assertEquals(canonical(bins(record.get("bins"))), binsOf(read.histogram()));
  }

  private static void merge(String list, JsonNode record) {
    Histogram histogram = histogramOf(bins(record.get("a")));
    boolean add = record.get("op").asText().equals("accumulate");
    int missing = 0;
    for (JsonNode other : record.get("b")) {
      if (add) {
        histogram.merge(histogramOf(bins(other)));
      } else {
        missing += histogram.subtract(histogramOf(bins(other)));
      }
    }
    assertTrue(add || missing > 0 == (record.get("rc").asInt() != 0));
    assertEquals(canonical(bins(record.get("result"))), binsOf(histogram));
  }

  private static void transform(String list, JsonNode record) {
    List<Counted> before = bins(record.get("a"));
    List<Counted> expected = canonical(bins(record.get("result")));
    Histogram histogram = histogramOf(before);
    switch (record.get("op").asText()) {
      case "compress_mbe" -> histogram.compressBelow(record.get("mbe").asInt());
      case "remove" -> {
        long count = Long.parseUnsignedLong(record.get("n").asText());
        long removed = histogram.remove(number(record.get("value")), count);
        assertEquals(Long.parseUnsignedLong(record.get("removed").asText()), removed);
      }
      case "clamp" -> {
        double lower = number(record.get("lower"));
        double upper = number(record.get("upper"));
        histogram.clamp(lower, upper);
        List<Counted> found = binsOf(histogram);
        for (Counted counted : canonical(before)) {
          double lo = counted.bin.lower();
          double hi = counted.bin.upper();
          // A bin whose edge meets a bound up to a rounding may be kept or not.
          boolean meets = Math.abs(lo - upper) <= 1e-15 * Math.abs(upper) || Math.abs(hi - lower) <= 1e-15 * Math.abs(lower);
          assertTrue(found.contains(counted) == expected.contains(counted) || meets, () -> counted + " against the library");
        }
        return;
      }
      default -> throw new AssertionError("no test knows " + record.get("op"));
    }
    assertEquals(expected, binsOf(histogram));
  }

  private static void adhoc(String list, JsonNode record) {
    List<Placement.Bucket> buckets = new ArrayList<>();
    record.get("in").forEach(bucket -> buckets.add(
        new Placement.Bucket(Long.parseUnsignedLong(bucket.get(0).asText()), number(bucket.get(1)), number(bucket.get(2)))));
    List<Counted> found = binsOf(Placement.valueOf(record.get("mode").asText().toUpperCase(java.util.Locale.ROOT)).place(buckets));
    List<Counted> expected = canonical(bins(record.get("result")));
    int last = buckets.size() - 1;
    if (!found.equals(expected) && last > 0 && buckets.get(last).upper() >= 1e128 && buckets.get(last - 1).lower() < 0) {
      // The library places a tail behind a bucket below zero outside its own bounds.
      assertTrue(found.stream().anyMatch(counted -> counted.bin.lower() >= buckets.get(last).lower()));
      return;
    }
    assertEquals(expected, found);
  }

  private static void statistics(String list, JsonNode record) {
    List<Counted> bins = bins(record.get("bins"));
    Histogram h = histogramOf(bins);
    assertEquals(Long.parseUnsignedLong(record.get("sample_count").asText()), h.count());
    List<Counted> numbers = bins.stream().filter(counted -> !counted.bin.equals(Bin.NAN)).toList();
    double n = numbers.stream().mapToDouble(counted -> Histogram.unsigned(counted.count)).sum();
    java.util.function.IntToDoubleFunction size = k -> numbers.stream()
        .mapToDouble(counted -> Math.pow(Math.abs(counted.bin.midpoint()), k) * Histogram.unsigned(counted.count)).sum();
    double deviation = number(record.get("ref_stddev"));
    near("mean", Statistics.mean(h), number(record.get("ref_mean")), 1e-13 * size.applyAsDouble(1) / n);
    near("sum", Statistics.sum(h), number(record.get("sum")), 1e-13 * size.applyAsDouble(1));
    near("stddev", Statistics.standardDeviation(h), deviation, 1e-12 * deviation);
    for (int k = 1; k <= record.get("moment").size(); k++) {
      double expected = number(record.get("moment").get(k - 1));
      double found = Statistics.openHistogramMoment(h, k);
      if (Double.isFinite(expected)) {
        near("moment " + k, found, expected, 1e-12 * size.applyAsDouble(k) / Math.pow(n, k));
      } else {
        assertTrue(!Double.isFinite(found));
      }
    }
    for (int at = 0; at < record.get("q").size(); at++) {
      double q = number(record.get("q").get(at));
      if (record.get("quantile1_rc").asInt() == 0) {
        double expected = number(record.get("quantile1").get(at));
        near("quantile1 " + q, Statistics.quantileType1(h, q), expected, 1e-13 * Math.abs(expected));
      }
      if (record.get("quantile7_rc").asInt() == 0) {
        double expected = number(record.get("quantile7").get(at));
        near("quantile7 " + q, Statistics.quantileType7(h, q), expected, 1e-13 * Math.abs(expected));
      }
      Statistics.Quantile found = Statistics.quantile(h, q);
      assertTrue(found == null || (found.lo() <= found.value() && found.value() <= found.hi()));
    }
    BigInteger total = bins.stream().map(counted -> new BigInteger(Long.toUnsignedString(counted.count))).reduce(BigInteger.ZERO, BigInteger::add);
    boolean wraps = total.compareTo(MAX) > 0;
    for (int at = 0; at < record.get("threshold").size(); at++) {
      double x = number(record.get("threshold").get(at));
      if (record.get("inverse_quantile_rc").asInt() == 0 && !wraps) {
        near("fraction below " + x, Statistics.fractionBelow(h, x), number(record.get("inverse_quantile").get(at)), 1e-12);
      }
      if (wraps || Math.abs(x) >= 1e128) {
        continue;
      }
      JsonNode counts = record.get("count");
      for (boolean inclusive : new boolean[] {true, false}) {
        String kind = inclusive ? "_inclusive" : "_exclusive";
        assertEquals(Long.parseUnsignedLong(counts.get("below" + kind).get(at).asText()), Statistics.countBelow(h, x, inclusive));
        assertEquals(Long.parseUnsignedLong(counts.get("above" + kind).get(at).asText()), Statistics.countAbove(h, x, inclusive) + h.nan());
      }
      long beside = bins.stream().filter(counted -> counted.bin.equals(rule(x))).mapToLong(Counted::count).sum();
      assertEquals(beside, Statistics.countNearby(h, x));
    }
  }

  @Test
  void everyRecord() throws Exception {
    Map<String, Checker> checkers = Map.of("adhoc.json", VectorsTest::adhoc, "deserialize.json", VectorsTest::deserialize,
        "double_to_bin.json", VectorsTest::doubleToBin, "intscale_to_bin.json", VectorsTest::integerToBin,
        "merge.json", VectorsTest::merge, "serialize.json", VectorsTest::serialize,
        "stats.json", VectorsTest::statistics, "transform.json", VectorsTest::transform);
    String given = System.getenv("OGIVE_VECTORS_DIR");
    Path directory = given == null ? Path.of("../../vectors") : Path.of(given);
    Path inner = directory.resolve("openhistogram");
    int passed = 0;
    List<String> failures = new ArrayList<>();
    try (Stream<Path> files = Files.list(Files.isDirectory(inner) ? inner : directory)) {
      for (Path file : files.filter(path -> path.toString().endsWith(".json")).toList()) {
        Checker checker = checkers.get(file.getFileName().toString());
        assertNotNull(checker, () -> "no test knows " + file);
        JsonNode document = new ObjectMapper().readTree(file.toFile());
        for (String list : List.of("records", "records_b64")) {
          int at = 0;
          for (JsonNode record : document.path(list)) {
            try {
              checker.check(list, record);
              passed++;
            } catch (Exception | AssertionError error) {
              failures.add(file.getFileName() + " " + list + "[" + at + "]: " + error.getMessage());
            }
            at++;
          }
        }
      }
    }
    passed += HdrVectors.check(directory, failures);
    System.out.println("java: " + passed + " passed, " + failures.size() + " failed");
    assertTrue(passed > 0, "no vectors");
    assertEquals(List.of(), failures.stream().limit(5).toList());
  }
}
