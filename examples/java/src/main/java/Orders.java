import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The order service: plain JDBC. Each request changes an order and inserts the event of it in one transaction. */
public class Orders {
    private static final String URL = jdbc(System.getenv("DATABASE_URL"));
    private static final Pattern ORDER = Pattern.compile("\"id\"\\s*:\\s*\"([^\"]+)\".*\"amount\"\\s*:\\s*(\\d+)");
    private static final Pattern PAY = Pattern.compile("/orders/([^/]+)/pay");

    public static void main(String[] args) throws Exception {
        try (Connection db = DriverManager.getConnection(URL)) {
            db.createStatement().execute(
                "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, amount integer NOT NULL, state text NOT NULL)");
        }
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", Orders::handle);
        server.start();
    }

    private static void handle(HttpExchange exchange) {
        int status = 200;
        try {
            String path = exchange.getRequestURI().getPath();
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            Matcher pay = PAY.matcher(path);
            Matcher order = ORDER.matcher(body);
            if (pay.matches()) {
                String id = pay.group(1);
                change(id, "OrderPaid", "{\"id\": \"" + id + "\"}",
                    "UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'created'", id, null);
            } else if (path.equals("/orders") && order.find()) {
                change(order.group(1), "OrderCreated", body,
                    "INSERT INTO orders (id, amount, state) VALUES (?, ?, 'created') ON CONFLICT DO NOTHING",
                    order.group(1), Integer.valueOf(order.group(2)));
            } else if (!path.equals("/healthz")) {
                status = 404;
            }
        } catch (Exception e) {
            System.err.println(e);
            status = 503;
        }
        try (exchange) {
            exchange.sendResponseHeaders(status, -1);
        } catch (Exception e) {
            System.err.println(e); // the client has gone
        }
    }

    /** Runs a statement and, where it has changed something, inserts the event. */
    private static void change(String id, String type, String payload, String sql, String first, Integer second) throws SQLException {
        try (Connection db = DriverManager.getConnection(URL)) { // a real service has a pool
            db.setAutoCommit(false); // without a commit, closing rolls back
            try (PreparedStatement statement = db.prepareStatement(sql)) {
                statement.setString(1, first);
                if (second != null) {
                    statement.setInt(2, second);
                }
                if (statement.executeUpdate() == 1) { // else a client that got no answer has sent it again
                    insert(db, id, type, payload);
                }
            }
            db.commit();
        }
    }

    private static void insert(Connection db, String id, String type, String payload) throws SQLException {
        try (PreparedStatement event = db.prepareStatement(
                "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', ?, ?, ?::jsonb)")) {
            event.setString(1, id);
            event.setString(2, type);
            event.setString(3, payload);
            event.executeUpdate();
        }
    }

    /** The JDBC form of postgres://user:password@host:port/database. */
    static String jdbc(String url) {
        URI uri = URI.create(url);
        String[] user = (uri.getUserInfo() == null ? "" : uri.getUserInfo()).split(":", 2);
        return "jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath() + "?user=" + user[0]
            + (user.length > 1 ? "&password=" + user[1] : "");
    }
}
