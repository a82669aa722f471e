// What pgjdbc sees: batches, prepared statements and cursors, COPY, large objects by FunctionCall,
// two-phase commit, notifications, cancellation. Prints a line of JSON for each case; a failure is a
// result as well.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.sql.XAConnection;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;
import org.postgresql.xa.PGXADataSource;

public final class Client {
  interface Call {
    Object run() throws Exception;
  }

  static String url;

  public static void main(String[] args) throws Exception {
    URI address = new URI(System.getenv("DATABASE_URL"));
    String place = address.getHost() + ":" + address.getPort() + address.getPath();
    url = "jdbc:postgresql://" + place + "?user=" + address.getUserInfo().split(":")[0];
    for (String mode : List.of("extended", "simple", "extendedForPrepared", "extendedCacheEverything"))
      try (Connection connection = connect("&preferQueryMode=" + mode)) {
        basics(mode, connection);
      }
    try (Connection connection = connect("&prepareThreshold=2")) {
      blocks(connection);
      copies(connection);
      sessions(connection);
    }
  }

  static Connection connect(String more) throws SQLException {
    return DriverManager.getConnection(url + more, new Properties());
  }

  static void basics(String mode, Connection connection) {
    String table = "item_" + mode;
    see(mode, "tables", () -> update(connection, "CREATE TABLE " + table + " (id int PRIMARY KEY, text text)"));
    see(mode, "insert", () -> update(connection, "INSERT INTO " + table + " VALUES (1, 'a'), (2, 'b')"));
    see(mode, "select", () -> rows(connection, "SELECT * FROM " + table + " ORDER BY id"));
    see(mode, "duplicate", () -> update(connection, "INSERT INTO " + table + " VALUES (1, 'x')"));
    see(mode, "nothing", () -> update(connection, "DELETE FROM " + table + " WHERE id = 99"));
    see(mode, "syntax", () -> update(connection, "SELECT * FORM " + table));
    see(mode, "several statements", () -> {
      try (Statement statement = connection.createStatement()) {
        List<Object> seen = new ArrayList<>();
        boolean isResult = statement.execute("INSERT INTO " + table + " VALUES (3, 'c'); SELECT 1; DELETE FROM " + table + " WHERE id = 3");
        while (isResult || statement.getUpdateCount() != -1) {
          seen.add(isResult ? "rows" : statement.getUpdateCount());
          isResult = statement.getMoreResults();
        }
        return seen;
      }
    });
    see(mode, "prepared many times", () -> {
      List<Object> seen = new ArrayList<>();
      try (PreparedStatement statement = connection.prepareStatement("SELECT text FROM " + table + " WHERE id = ?")) {
        for (int at = 0; at < 10; at++) {
          statement.setInt(1, 1 + at % 2);
          try (ResultSet result = statement.executeQuery()) {
            result.next();
            seen.add(result.getString(1));
          }
        }
      }
      return seen;
    });
    see(mode, "batch", () -> batch(connection, table, 100, 150));
    see(mode, "batch that fails", () -> batch(connection, table, 148, 152));
    see(mode, "what there is", () -> rows(connection, "SELECT count(*) FROM " + table));
  }

  static Object batch(Connection connection, String table, int from, int to) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, 'batch')")) {
      for (int id = from; id < to; id++) {
        statement.setInt(1, id);
        statement.addBatch();
      }
      return Arrays.stream(statement.executeBatch()).sum();
    } catch (BatchUpdateException failed) {
      return List.of(failed.getSQLState(), Arrays.toString(failed.getUpdateCounts()));
    }
  }

  static void blocks(Connection connection) throws SQLException {
    update(connection, "CREATE TABLE item (id int PRIMARY KEY, text text)");
    connection.setAutoCommit(false);
    see("block", "commit", () -> {
      update(connection, "INSERT INTO item VALUES (1, 'a')");
      connection.commit();
      return rows(connection, "SELECT * FROM item");
    });
    see("block", "savepoint", () -> {
      Savepoint savepoint = connection.setSavepoint();
      try {
        update(connection, "INSERT INTO item VALUES (1, 'a')");
      } catch (SQLException expected) {
        connection.rollback(savepoint);
      }
      update(connection, "INSERT INTO item VALUES (2, 'b')");
      connection.commit();
      return rows(connection, "SELECT count(*) FROM item");
    });
    see("block", "commit of a failed one", () -> {
      try {
        update(connection, "SELECT 1/0");
      } catch (SQLException expected) {
        connection.commit();
      }
      return "committed";
    });
    see("block", "after it", () -> {
      connection.rollback();
      return rows(connection, "SELECT count(*) FROM item");
    });
    see("block", "rows in portions", () -> {
      connection.rollback();
      try (Statement statement = connection.createStatement()) {
        statement.setFetchSize(7);
        int sum = 0;
        try (ResultSet result = statement.executeQuery("SELECT generate_series(1, 100)")) {
          while (result.next()) sum += result.getInt(1);
        }
        return sum;
      }
    });
    see("block", "serializable, read only", () -> {
      connection.commit();
      connection.setReadOnly(true);
      connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
      try {
        return rows(connection, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')");
      } finally {
        connection.commit();
        connection.setReadOnly(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
      }
    });
    see("block", "large object, by FunctionCall", () -> {
      LargeObjectManager objects = connection.unwrap(PGConnection.class).getLargeObjectAPI();
      long oid = objects.createLO(LargeObjectManager.READWRITE);
      try (LargeObject object = objects.open(oid, LargeObjectManager.WRITE)) {
        object.write("abc".repeat(1000).getBytes(StandardCharsets.US_ASCII));
      }
      connection.commit();
      byte[] read;
      try (LargeObject object = objects.open(oid, LargeObjectManager.READ)) {
        read = object.read(10_000);
      }
      objects.delete(oid);
      connection.commit();
      return read.length;
    });
    connection.setAutoCommit(true);
  }

  static void copies(Connection connection) throws SQLException {
    CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
    StringBuilder lines = new StringBuilder();
    for (int id = 1_000; id < 6_000; id++) lines.append(id).append("\tcopied\n");
    see("copy", "in", () -> copies.copyIn("COPY item FROM STDIN", new StringReader(lines.toString())));
    see("copy", "a duplicate", () -> copies.copyIn("COPY item FROM STDIN", new StringReader("1\tx\n")));
    see("copy", "bytes", () -> copies.copyIn("COPY item FROM STDIN", new ByteArrayInputStream("7000\ty\n".getBytes(StandardCharsets.US_ASCII))));
    see("copy", "out", () -> {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      return List.of(copies.copyOut("COPY (SELECT * FROM item ORDER BY id) TO STDOUT", out), out.size());
    });
  }

  static void sessions(Connection connection) throws SQLException {
    see("session", "two-phase commit", () -> {
      PGXADataSource source = new PGXADataSource();
      source.setURL(url);
      XAConnection own = source.getXAConnection();
      try {
        javax.transaction.xa.Xid xid = new Branch();
        own.getXAResource().start(xid, javax.transaction.xa.XAResource.TMNOFLAGS);
        update(own.getConnection(), "INSERT INTO client.item VALUES (8000, 'xa')");
        own.getXAResource().end(xid, javax.transaction.xa.XAResource.TMSUCCESS);
        int vote = own.getXAResource().prepare(xid);
        own.getXAResource().commit(xid, false);
        return vote;
      } finally {
        own.close();
      }
    });
    see("session", "its row", () -> rows(connection, "SELECT text FROM item WHERE id = 8000"));
    see("session", "notification", () -> {
      update(connection, "LISTEN news");
      try (Connection other = connect("")) {
        update(other, "NOTIFY news, 'java'");
      }
      var received = connection.unwrap(PGConnection.class).getNotifications(60_000);
      return List.of(received[0].getName(), received[0].getParameter());
    });
    see("session", "cancelled", () -> {
      AtomicBoolean isDone = new AtomicBoolean();
      try (Statement statement = connection.createStatement()) {
        Thread canceller = new Thread(() -> {
          while (!isDone.get()) {
            try {
              Thread.sleep(200);
              statement.cancel();
            } catch (InterruptedException | SQLException ignored) {
              return;
            }
          }
        });
        canceller.start();
        try {
          return statement.executeQuery("SELECT pg_sleep(600)");
        } finally {
          isDone.set(true);
          canceller.join();
        }
      }
    });
    see("session", "timeout", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.setQueryTimeout(1);
        return statement.executeQuery("SELECT pg_sleep(600)");
      }
    });
    see("session", "metadata", () -> {
      List<Object> seen = new ArrayList<>();
      try (ResultSet columns = connection.getMetaData().getColumns(null, "client", "item", null)) {
        while (columns.next()) seen.add(columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME"));
      }
      return seen;
    });
    see("session", "warnings", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.execute("DO $$ BEGIN RAISE WARNING 'one'; RAISE NOTICE 'two'; END $$");
        return List.of(statement.getWarnings().getMessage(), statement.getWarnings().getNextWarning().getMessage());
      }
    });
  }

  record Branch() implements javax.transaction.xa.Xid {
    public int getFormatId() {
      return 7;
    }

    public byte[] getGlobalTransactionId() {
      return "global".getBytes(StandardCharsets.US_ASCII);
    }

    public byte[] getBranchQualifier() {
      return "branch".getBytes(StandardCharsets.US_ASCII);
    }
  }

  static int update(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return statement.execute(sql) ? -2 : statement.getUpdateCount();
    }
  }

  static List<Object> rows(Connection connection, String sql) throws SQLException {
    List<Object> all = new ArrayList<>();
    try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(sql)) {
      int columns = result.getMetaData().getColumnCount();
      while (result.next()) {
        List<Object> row = new ArrayList<>();
        for (int at = 1; at <= columns; at++) row.add(result.getString(at));
        all.add(row);
      }
    }
    return all;
  }

  static void see(String part, String name, Call call) {
    Object result;
    try {
      result = call.run();
    } catch (PSQLException failed) {
      ServerErrorMessage message = failed.getServerErrorMessage();
      result = message == null
          ? List.of(failed.getSQLState(), failed.getMessage())
          : List.of(message.getSQLState(), message.toString());
    } catch (Exception failed) {
      result = failed.getClass().getName();
    }
    System.out.println("{\"case\":" + text(part + ": " + name) + ",\"result\":" + text(String.valueOf(result)) + "}");
  }

  static String text(String value) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char each : value.toCharArray())
      if (each == '"' || each == '\\') quoted.append('\\').append(each);
      else if (each < ' ') quoted.append(String.format("\\u%04x", (int) each));
      else quoted.append(each);
    return quoted.append('"').toString();
  }
}
