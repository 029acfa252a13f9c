import io.ogive.Clock;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;

/** Reads a clock page as a Java program does, through sdk/java; what it prints is said in reader.c. */
public final class Reader {
  private Reader() {}

  private static void live(Clock clock, int count) {
    long first = clock.now();
    long last = first;
    long fell = 0;
    long beyond = 0;
    boolean inForce = false;
    for (int at = 0; at < count; at++) {
      long now = clock.now();
      inForce = clock.isCounter();
      beyond += inForce ? 0 : 1;
      fell += now < last ? 1 : 0;
      last = now;
    }
    System.out.println(first + " " + last + " " + fell + " " + (inForce ? beyond : 0) + " " + mode(clock) + " " + clock.status().process());
  }

  private static int mode(Clock clock) {
    return clock.isCounter() ? 1 : 0;
  }

  private static String convert(Clock clock, String stamp) {
    long ticks = Long.parseUnsignedLong(stamp);
    long ns = clock.nanosAt(ticks);
    return ns < 0 ? "none" : ns + " " + clock.wallNanosAt(ticks);
  }

  private static void turns(Clock clock) throws IOException {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      if (line.startsWith("at ")) {
        System.out.println(convert(clock, line.substring(3)));
      } else {
        System.out.println(clock.now() + " " + clock.errorNanos() + " " + mode(clock) + " " + clock.epoch() + " " + clock.wallNanos() + " 0");
      }
    }
  }

  public static void main(String[] words) throws Exception {
    Clock clock = Clock.open(Path.of(words[1]));
    switch (words[0]) {
      case "live" -> live(clock, Integer.parseInt(words[2]));
      case "turns" -> turns(clock);
      default -> {
        for (int at = 2; at < words.length; at++) {
          System.out.println(convert(clock, words[at]));
        }
      }
    }
  }
}
