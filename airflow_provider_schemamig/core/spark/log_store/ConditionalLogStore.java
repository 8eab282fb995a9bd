package schemamig;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on S3, with each commit written by put-if-absent ({@code If-None-Match: *}).
 *
 * <p>Delta's own store for S3 looks whether a commit is there and then writes, so that it replaces a commit of another program which came
 * in between. This one lets the store decide. Each commit carries a header by which other programs see that it was written so.
 *
 * <p>It needs hadoop-aws 3.4.2 or newer; an older one refuses the first write.
 */
public final class ConditionalLogStore extends S3SingleDriverLogStore {
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
  private static final String MARK = "fs.s3a.create.header.schemamig-log-store";
  private static final String MARK_VALUE = "conditional";
  private static final int TRIES = 5;
  private static final long PAUSE_MILLIS = 50;

  public ConditionalLogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf) throws IOException {
    if (overwrite) {
      super.write(path, actions, true, hadoopConf);
      return;
    }
    byte[] commit = bytes(actions);
    FileSystem store = path.getFileSystem(hadoopConf);
    for (int left = TRIES - 1; ; left--) {
      try {
        put(store, path, commit);
        return;
      } catch (IOException failure) {
        byte[] there = read(store, path);
        if (there == null && left > 0 && isConflict(failure)) {
          pause(failure);
        } else if (there == null) {
          throw failure;
        } else if (Arrays.equals(there, commit)) {
          return; // the client repeated a request whose answer was lost, and met its own object
        } else {
          throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(failure);
        }
      }
    }
  }

  private static void put(FileSystem store, Path path, byte[] commit) throws IOException {
    FSDataOutputStream out =
        (FSDataOutputStream) store.createFile(path).overwrite(false).must(CONDITIONAL, true).opt(MARK, MARK_VALUE).build();
    try {
      out.write(commit);
    } catch (IOException | RuntimeException failure) {
      out.abort(); // closed, it would upload what it has
      throw failure;
    }
    out.close();
  }

  private static byte[] bytes(Iterator<String> actions) {
    StringBuilder text = new StringBuilder();
    while (actions.hasNext()) {
      text.append(actions.next()).append('\n');
    }
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }

  /** Return what is at {@code path}, or null if nothing is. */
  private static byte[] read(FileSystem store, Path path) throws IOException {
    FileStatus found;
    try {
      found = store.getFileStatus(path);
    } catch (FileNotFoundException absent) {
      return null;
    }
    byte[] there = new byte[Math.toIntExact(found.getLen())];
    try (FSDataInputStream in = store.open(path)) {
      in.readFully(there);
    }
    return there;
  }

  /** Return whether S3 said that another conditional write is under way (409), which may come to nothing. */
  private static boolean isConflict(IOException failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (String.valueOf(cause.getMessage()).contains("ConditionalRequestConflict")) {
        return true;
      }
    }
    return false;
  }

  private static void pause(IOException failure) throws IOException {
    try {
      Thread.sleep(PAUSE_MILLIS);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw failure;
    }
  }
}
