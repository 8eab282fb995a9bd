package io.delta.storage;

public class S3SingleDriverLogStore {
  public S3SingleDriverLogStore(org.apache.hadoop.conf.Configuration conf) {}

  public void write(
      org.apache.hadoop.fs.Path path,
      java.util.Iterator<String> actions,
      Boolean overwrite,
      org.apache.hadoop.conf.Configuration conf)
      throws java.io.IOException {}
}
