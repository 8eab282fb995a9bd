package org.apache.hadoop.fs;

public abstract class FileSystem {
  @SuppressWarnings("rawtypes")
  public FSDataOutputStreamBuilder createFile(Path path) {
    return null;
  }

  public abstract FileStatus getFileStatus(Path path) throws java.io.IOException;

  public FSDataInputStream open(Path path) throws java.io.IOException {
    return null;
  }
}
