package io.ogive.bench;

import io.ogive.Histogram;
import io.ogive.Recorder;
import io.ogive.SingleWriterRecorder;
import io.ogive.Statistics;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.AuxCounters;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Threads;

/** A record, a merge and four quantiles beside HdrHistogram 2.2.2, of three digits unless named; and two writers at once. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Records {
  private static final long HOUR_NS = 3_600_000_000_000L;
  private static final double[] QUANTILES = {0.5, 0.9, 0.99, 0.999};
  private static final int VALUES = 1 << 16;

  /** Three regimes that take turns (2 us, 300 us, 40 ms), and every eighth value tiny. */
  private static long[] mixed() {
    SplittableRandom random = new SplittableRandom(7);
    double[] centres = {2e3, 3e5, 4e7};
    double centre = centres[0];
    long[] values = new long[VALUES];
    for (int at = 0; at < VALUES; at++) {
      if (random.nextInt(64) == 0) {
        centre = centres[random.nextInt(3)];
      }
      // Twelve uniform numbers less six: normal enough for a load.
      double normal = random.doubles(12).sum() - 6;
      values[at] = at % 8 == 0 ? random.nextInt(100) : (long) (centre * Math.exp(0.3 * normal));
    }
    return values;
  }

  /** A thread's values, one after the other, and the CPU time that it had: the wall clock counts what else runs on the machine. */
  @AuxCounters(AuxCounters.Type.EVENTS)
  @State(Scope.Thread)
  public static class Stream {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private final long[] values = mixed();
    private long at;
    private long cpuAtBegin;
    /** Set at the end alone: JMH sets them to 0 when it begins to measure. */
    public long operations;
    public long cpuNs;

    @Setup(Level.Iteration)
    public void begin() {
      at = 0;
      cpuAtBegin = THREADS.getCurrentThreadCpuTime();
    }

    @TearDown(Level.Iteration)
    public void end() {
      operations = at;
      cpuNs = THREADS.getCurrentThreadCpuTime() - cpuAtBegin;
    }

    long next() {
      return values[(int) at++ & VALUES - 1];
    }
  }

  /** What one thread records into. */
  @State(Scope.Thread)
  public static class Own {
    final SingleWriterRecorder single = new SingleWriterRecorder();
    final Histogram histogram = new Histogram();
    final org.HdrHistogram.Histogram hdr2 = new org.HdrHistogram.Histogram(1, HOUR_NS, 2);
    final org.HdrHistogram.Histogram hdr3 = new org.HdrHistogram.Histogram(1, HOUR_NS, 3);
    final org.HdrHistogram.SingleWriterRecorder hdrSingle = new org.HdrHistogram.SingleWriterRecorder(1, HOUR_NS, 3);
  }

  /** What all threads record into. */
  @State(Scope.Benchmark)
  public static class Shared {
    final Recorder recorder = new Recorder();
    final org.HdrHistogram.Recorder hdr = new org.HdrHistogram.Recorder(1, HOUR_NS, 3);
    final org.HdrHistogram.AtomicHistogram atomic = new org.HdrHistogram.AtomicHistogram(1, HOUR_NS, 3);
  }

  /** Two filled histograms of each kind. */
  @State(Scope.Thread)
  public static class Filled {
    final Histogram left = new Histogram();
    final Histogram right = new Histogram();
    final org.HdrHistogram.Histogram hdrLeft = new org.HdrHistogram.Histogram(1, HOUR_NS, 3);
    final org.HdrHistogram.Histogram hdrRight = new org.HdrHistogram.Histogram(1, HOUR_NS, 3);

    public Filled() {
      long[] values = mixed();
      for (int at = 0; at < VALUES; at++) {
        (at < VALUES / 2 ? left : right).record(values[at] / 1e9);
        (at < VALUES / 2 ? hdrLeft : hdrRight).recordValue(values[at]);
      }
    }
  }

  @Benchmark
  public long nothing(Stream stream) {
    return stream.next();
  }

  @Benchmark
  public void recordSingle(Own own, Stream stream) {
    own.single.recordNanoseconds(stream.next());
  }

  @Benchmark
  public void recordAny(Shared shared, Stream stream) {
    shared.recorder.recordNanoseconds(stream.next());
  }

  @Benchmark
  public void recordDouble(Own own, Stream stream) {
    own.histogram.record(stream.next() / 1e9);
  }

  @Benchmark
  public void recordHdr2(Own own, Stream stream) {
    own.hdr2.recordValue(stream.next());
  }

  @Benchmark
  public void recordHdr3(Own own, Stream stream) {
    own.hdr3.recordValue(stream.next());
  }

  @Benchmark
  public void recordHdrSingle(Own own, Stream stream) {
    own.hdrSingle.recordValue(stream.next());
  }

  @Benchmark
  public void recordHdrAny(Shared shared, Stream stream) {
    shared.hdr.recordValue(stream.next());
  }

  @Benchmark
  public void recordHdrAtomic(Shared shared, Stream stream) {
    shared.atomic.recordValue(stream.next());
  }

  @Benchmark
  @Threads(2)
  public void twoSingle(Own own, Stream stream) {
    own.single.recordNanoseconds(stream.next());
  }

  @Benchmark
  @Threads(2)
  public void twoAny(Shared shared, Stream stream) {
    shared.recorder.recordNanoseconds(stream.next());
  }

  @Benchmark
  @Threads(2)
  public void twoHdrAny(Shared shared, Stream stream) {
    shared.hdr.recordValue(stream.next());
  }

  @Benchmark
  public void merge(Filled filled, Stream stream) {
    stream.next();
    filled.left.merge(filled.right);
  }

  @Benchmark
  public void mergeHdr3(Filled filled, Stream stream) {
    stream.next();
    filled.hdrLeft.add(filled.hdrRight);
  }

  @Benchmark
  public double quantiles(Filled filled, Stream stream) {
    stream.next();
    double sum = 0;
    for (double q : QUANTILES) {
      sum += Statistics.quantile(filled.right, q).value();
    }
    return sum;
  }

  @Benchmark
  public double quantilesHdr3(Filled filled, Stream stream) {
    stream.next();
    double sum = 0;
    for (double q : QUANTILES) {
      sum += filled.hdrRight.getValueAtPercentile(100 * q);
    }
    return sum;
  }
}
