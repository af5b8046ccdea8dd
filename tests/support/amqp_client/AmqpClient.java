import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Writes and reads messages with RabbitMQ's own client, and says what it sees: each line a name, a type of Java, a value.
 *
 * <p>{@code AmqpClient URI publish QUEUE} sends a message with headers of every type and all properties, and prints it;
 * {@code AmqpClient URI get QUEUE} waits for a message and prints it in the same form.
 */
public final class AmqpClient {
    private static final long PATIENCE = 60_000; // milliseconds

    public static void main(String[] words) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(words[0].replaceFirst("/$", "/%2F")); // no virtual host is the default one
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            if (words[1].equals("publish")) {
                byte[] body = {0, 1, (byte) 0xff, 'x', (byte) 0xc3, (byte) 0xbc};
                channel.confirmSelect();
                channel.basicPublish("", words[2], properties(), body);
                channel.waitForConfirmsOrDie(PATIENCE);
                tell(properties(), body);
            } else {
                GetResponse found = null;
                for (long end = System.currentTimeMillis() + PATIENCE; found == null; Thread.sleep(20)) {
                    if (System.currentTimeMillis() > end) {
                        throw new IllegalStateException("no message in " + words[2]);
                    }
                    found = channel.basicGet(words[2], true);
                }
                tell(found.getProps(), found.getBody());
            }
        }
    }

    private static AMQP.BasicProperties properties() {
        return new AMQP.BasicProperties.Builder()
            .contentType("application/x-proof")
            .contentEncoding("identity")
            .headers(headers())
            .deliveryMode(2)
            .priority(4)
            .correlationId("corr-ü")
            .replyTo("answers")
            .messageId("message-1")
            .timestamp(new Date(1_600_000_000_000L))
            .type("proof")
            .appId("java")
            .build();
    }

    private static Map<String, Object> headers() {
        Map<String, Object> inner = new LinkedHashMap<>();
        inner.put("byte", (byte) -1);
        inner.put("list", Arrays.asList((short) 2, null, "x", new byte[] {(byte) 0xfe}));
        inner.put("table", new LinkedHashMap<>(Map.of("float", 0.1f)));
        Map<String, Object> headers = new LinkedHashMap<>();
        headers.put("boolean", true);
        headers.put("byte", (byte) -128);
        headers.put("short", (short) -32768);
        headers.put("int", Integer.MIN_VALUE);
        headers.put("long", Long.MIN_VALUE);
        headers.put("small long", 7L);
        headers.put("float", 0.1f);
        headers.put("double", 0.1d);
        headers.put("negative zero", -0.0d);
        headers.put("decimal", new BigDecimal("-12345.6700"));
        headers.put("text", "ü€😀 text");
        headers.put("empty text", "");
        headers.put("control text", "a\u0000\n\u0085b");
        headers.put("text of a number", "42");
        headers.put("text null", "null");
        headers.put("bytes", new byte[] {0, (byte) 0xff, 'x'});
        headers.put("text as bytes", "plain".getBytes(StandardCharsets.UTF_8));
        headers.put("no bytes", new byte[0]);
        headers.put("date", new Date(1_700_000_000_000L));
        headers.put("table", inner);
        headers.put("empty table", new LinkedHashMap<>());
        headers.put("list", Arrays.asList(1, 2L, "x", inner, new Date(0), null, true, 0.5d));
        headers.put("empty list", new ArrayList<>());
        headers.put("null", null);
        headers.put("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        return headers;
    }

    private static void tell(AMQP.BasicProperties found, byte[] body) {
        Map<String, Object> lines = new TreeMap<>();
        lines.put("body", body);
        lines.put("content type", found.getContentType());
        lines.put("content encoding", found.getContentEncoding());
        lines.put("delivery mode", found.getDeliveryMode());
        lines.put("priority", found.getPriority());
        lines.put("correlation id", found.getCorrelationId());
        lines.put("reply to", found.getReplyTo());
        lines.put("message id", found.getMessageId());
        lines.put("timestamp", found.getTimestamp());
        lines.put("type", found.getType());
        lines.put("app id", found.getAppId());
        lines.put("expiration", found.getExpiration());
        lines.put("user id", found.getUserId());
        lines.put("cluster id", found.getClusterId());
        if (found.getHeaders() != null) {
            found.getHeaders().forEach((name, value) -> lines.put("header " + name, value));
        }
        lines.forEach((name, value) -> System.out.println(name + "\t" + told(value)));
    }

    private static String told(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof LongString || value instanceof String) {
            return "text " + HexFormat.of().formatHex(value.toString().getBytes(StandardCharsets.UTF_8));
        }
        if (value instanceof byte[] bytes) {
            return "bytes " + HexFormat.of().formatHex(bytes);
        }
        if (value instanceof Date date) {
            return "date " + date.getTime();
        }
        if (value instanceof Map<?, ?> map) {
            StringBuilder text = new StringBuilder("table {");
            new TreeMap<>(map).forEach((name, each) -> text.append(name).append(": ").append(told(each)).append("; "));
            return text.append('}').toString();
        }
        if (value instanceof List<?> list) {
            StringBuilder text = new StringBuilder("list [");
            list.forEach(each -> text.append(told(each)).append("; "));
            return text.append(']').toString();
        }
        return value.getClass().getSimpleName() + " " + value;
    }
}
