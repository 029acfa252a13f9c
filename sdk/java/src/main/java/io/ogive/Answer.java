package io.ogive;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a server says to a batch: docs/http.md. The texts in it hold no quotes that would need a JSON library. */
record Answer(long accepted, long duplicate, List<String> rejected, String error) {
  private static final Pattern NUMBER = Pattern.compile("\"(accepted|duplicate)\"\\s*:\\s*(\\d{1,18})");
  private static final Pattern REASON = Pattern.compile("\"reason\"\\s*:\\s*\"([a-z_0-9]*)\"");
  private static final Pattern ERROR = Pattern.compile("\"error\"\\s*:\\s*\"((?:[^\"\\\\]|\\\\.)*)\"");

  static Answer read(String body) {
    long[] counts = {-1, -1};
    for (Matcher number = NUMBER.matcher(body); number.find(); ) {
      counts[number.group(1).equals("accepted") ? 0 : 1] = Long.parseLong(number.group(2));
    }
    List<String> reasons = REASON.matcher(body).results().map(found -> found.group(1)).toList();
    Matcher error = ERROR.matcher(body);
    boolean both = counts[0] >= 0 && counts[1] >= 0;
    return new Answer(both ? counts[0] : -1, both ? counts[1] : -1, reasons, error.find() ? error.group(1) : null);
  }
}
