import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** An order in Java: safe by default, and a read that waits for all it can see. */
public final class Orders {
  public static void main(String[] args) throws SQLException {
    try (Connection connection = DriverManager.getConnection(args[0])) {
      connection.setAutoCommit(false);
      try (PreparedStatement insert = connection.prepareStatement("INSERT INTO purchase VALUES (?, ?)")) {
        insert.setString(1, "Dan");
        insert.setString(2, "a shelf");
        insert.executeUpdate();
      }
      // Answered when it is durable. A lost connection means that the outcome is unknown: look.
      connection.commit();

      connection.setAutoCommit(true);
      try (Statement statement = connection.createStatement()) {
        // From here on a read is answered when everything that it may have seen is durable.
        statement.execute("SET highwater.read_ack = 'durable'");
        try (ResultSet result = statement.executeQuery("SELECT count(*) FROM purchase")) {
          result.next();
          System.out.println(result.getInt(1) + " purchases are durable");
        }
      }
    }
  }
}
