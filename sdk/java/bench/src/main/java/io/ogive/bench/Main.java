package io.ogive.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.Options;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Runs every benchmark once a round, each in a JVM of its own, so that all contenders meet the same load. Prints medians of the rounds,
 * in CPU time of the threads, with their spread, ratios to the first of a group taken within a round, and bytes allocated an operation.
 * ROUNDS=n for more rounds; ONLY=nanoTime,eightReadings for the groups that begin with those.
 */
public final class Main {
  /** What the others of a group are compared with, then those. */
  private static final List<List<String>> ALL = List.of(
      List.of("nothing"),
      List.of("recordSingle", "recordHdr2", "recordHdr3", "recordHdrSingle", "recordDouble"),
      List.of("recordAny", "recordHdrAtomic", "recordHdrAny"),
      List.of("twoAny", "twoHdrAny", "twoSingle"),
      List.of("merge", "mergeHdr3"),
      List.of("quantiles", "quantilesHdr3"),
      List.of("nanoTime", "clockNow", "clockWall", "clockError", "clockEpoch", "instantNow", "currentTimeMillis"),
      List.of("eightReadings", "traceEight", "traceEightListed", "hdrEight"));

  private record Measured(List<Double> ns, List<Double> bytes) {}

  private Main() {}

  public static void main(String[] arguments) throws RunnerException {
    int rounds = Integer.parseInt(System.getenv().getOrDefault("ROUNDS", "5"));
    Map<String, Measured> all = new LinkedHashMap<>();
    String only = System.getenv("ONLY");
    List<List<String>> groups = ALL.stream().filter(group -> only == null || List.of(only.split(",")).contains(group.get(0))).toList();
    for (int round = 0; round < rounds; round++) {
      for (List<String> group : groups) {
        for (String name : group) {
          RunResult result = run(name);
          Measured measured = all.computeIfAbsent(name, key -> new Measured(new ArrayList<>(), new ArrayList<>()));
          double operations = result.getSecondaryResults().get("operations").getScore();
          measured.ns.add(result.getSecondaryResults().get("cpuNs").getScore() / operations);
          measured.bytes.add(result.getSecondaryResults().get("gc.alloc.rate.norm").getScore());
        }
      }
    }
    System.out.printf("%s, %d CPUs, %d rounds%n", Runtime.version(), Runtime.getRuntime().availableProcessors(), rounds);
    for (List<String> group : groups) {
      System.out.printf("%n%-20s %10s %10s %10s %8s %12s%n", "", "median ns", "least", "greatest", "ratio", "bytes an op");
      for (String name : group) {
        print(name, all.get(name), all.get(group.get(0)));
      }
    }
    System.out.printf("%nmemory: SingleWriterRecorder %d bytes, Recorder %d, HdrHistogram of 2 digits %d, of 3 digits %d%n",
        2 * 8 * 2048, 2 * 8 * 2048, new org.HdrHistogram.Histogram(1, 3_600_000_000_000L, 2).getEstimatedFootprintInBytes(),
        new org.HdrHistogram.Histogram(1, 3_600_000_000_000L, 3).getEstimatedFootprintInBytes());
  }

  private static RunResult run(String name) throws RunnerException {
    Options options = new OptionsBuilder().include("\\." + name + "$").forks(1).jvmArgs("-Xbatch")
        .warmupIterations(4).warmupTime(TimeValue.milliseconds(500)).measurementIterations(3).measurementTime(TimeValue.milliseconds(400))
        .addProfiler(GCProfiler.class).verbosity(VerboseMode.SILENT).build();
    return new Runner(options).runSingle();
  }

  private static void print(String name, Measured measured, Measured ours) {
    List<Double> sorted = measured.ns.stream().sorted().toList();
    List<Double> ratios = new ArrayList<>();
    for (int round = 0; round < measured.ns.size(); round++) {
      ratios.add(measured.ns.get(round) / ours.ns.get(round));
    }
    ratios.sort(null);
    double bytes = measured.bytes.stream().mapToDouble(Double::doubleValue).max().orElseThrow();
    System.out.printf("%-20s %10.2f %10.2f %10.2f %8.2f %12.3f%n", name, sorted.get(sorted.size() / 2), sorted.get(0),
        sorted.get(sorted.size() - 1), ratios.get(ratios.size() / 2), bytes);
  }
}
