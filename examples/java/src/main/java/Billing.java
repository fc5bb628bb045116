import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * The consumer: books each event of an order once. Offsets are committed after the transaction, so that an event may come
 * again; then walrelay.consumed says false.
 */
public class Billing {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("KAFKA_BROKERS"));
        settings.put("group.id", "billing");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("metadata.max.age.ms", "1000");
        try (Connection db = DriverManager.getConnection(Orders.jdbc(System.getenv("DATABASE_URL")));
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            db.createStatement().execute("CREATE TABLE IF NOT EXISTS ledger ("
                + "seq bigint GENERATED ALWAYS AS IDENTITY, event_id text, order_id text, body text)");
            db.setAutoCommit(false);
            consumer.subscribe(List.of("outbox.event.order"));
            while (true) { // an error ends the process; its successor begins at the committed offset
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    book(db, record);
                }
                consumer.commitSync();
            }
        }
    }

    private static void book(Connection db, ConsumerRecord<String, String> record) throws SQLException {
        String id = new String(record.headers().lastHeader("id").value(), StandardCharsets.UTF_8);
        if (first(db, id)) {
            try (PreparedStatement entry = db.prepareStatement("INSERT INTO ledger (event_id, order_id, body) VALUES (?, ?, ?)")) {
                entry.setString(1, id);
                entry.setString(2, record.key());
                entry.setString(3, record.value());
                entry.executeUpdate();
            }
        }
        db.commit();
    }

    private static boolean first(Connection db, String id) throws SQLException {
        try (PreparedStatement consumed = db.prepareStatement("SELECT walrelay.consumed('billing', ?)")) {
            consumed.setString(1, id);
            try (ResultSet result = consumed.executeQuery()) {
                result.next();
                return result.getBoolean(1);
            }
        }
    }
}
