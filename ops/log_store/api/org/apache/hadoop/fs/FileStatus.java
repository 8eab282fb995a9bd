package org.apache.hadoop.fs;

public class FileStatus {
  public long getLen() {
    return 0;
  }
}
