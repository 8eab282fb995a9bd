package org.apache.hadoop.fs;

public interface FSBuilder<S, B extends FSBuilder<S, B>> {
  B opt(String key, String value);

  default B must(String key, boolean value) {
    return null;
  }

  S build() throws IllegalArgumentException, UnsupportedOperationException, java.io.IOException;
}
