package io.ogive;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What is to be read of HdrHistogram: vectors/hdrhistogram/read.json, also when OGIVE_VECTORS_DIR names a directory that has none. */
final class HdrVectors {
  private HdrVectors() {}

  /** How many records are right; what is wrong with others goes to {@code failures}. */
  static int check(Path given, List<String> failures) throws IOException {
    Path inner = given.resolve("hdrhistogram/read.json");
    Path file = Files.isRegularFile(inner) ? inner : Path.of("../../vectors/hdrhistogram/read.json");
    JsonNode document = new ObjectMapper().readTree(file.toFile());
    int passed = 0;
    for (String list : List.of("records", "refused")) {
      for (JsonNode record : document.path(list)) {
        String expected = record.path("openhistogram").asText("refused");
        String found;
        try {
          Histogram read = HdrCodec.decodeBase64(record.get("hdr").asText(), record.get("unit").asDouble());
          found = read.isSumExact() ? "a form with a sum" : Codec.encodeBase64(read);
        } catch (Codec.FormatException error) {
          boolean named = error.getMessage().contains(record.path("says").asText(""));
          found = list.equals("refused") && named ? "refused" : error.getMessage();
        }
        if (found.equals(expected)) {
          passed++;
        } else {
          failures.add("HdrHistogram, " + record.get("name").asText() + ": " + found);
        }
      }
    }
    return passed;
  }
}
