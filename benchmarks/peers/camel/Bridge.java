import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;

/** One route of Apache Camel: java Bridge FROM TO [AMQP ADDRESS], both as endpoint URIs. */
public final class Bridge {
    public static void main(String[] arguments) throws Exception {
        Main camel = new Main();
        if (arguments.length > 2) {
            CachingConnectionFactory rabbit = new CachingConnectionFactory(java.net.URI.create(arguments[2]));
            rabbit.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.SIMPLE);
            rabbit.setChannelCacheSize(64);
            camel.bind("rabbit", rabbit);
        }
        camel.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                from(arguments[0]).to(arguments[1]);
            }
        });
        camel.run();
    }
}
