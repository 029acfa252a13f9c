// A node of OpenSearch that is a cluster of its own, named shop, with its data in the directory that the argument names.
// It takes requests without a login on the loopback address.
//
// It says its port behind the name http, and ends with its input.

import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public class OpenSearch {
    // The constructor that takes modules from the class path is for subclasses.
    static class Single extends Node {
        Single(Environment environment) {
            super(environment, List.of(Netty4Plugin.class), true);
        }

        int port() {
            return injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().getPort();
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Its logs go to standard output.
        var output = System.out;
        System.setOut(System.err);
        var settings = Settings.builder()
                .put("cluster.name", "shop")
                .put("path.home", arguments[0])
                .put("network.host", "127.0.0.1")
                .put("http.port", 0)
                .put("transport.port", 0)
                .put("discovery.type", "single-node")
                .put("node.processors", 1)
                // A disk that is nearly full is no matter of the test.
                .put("cluster.routing.allocation.disk.threshold_enabled", false)
                .build();
        var node = new Single(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node-0"));
        node.start();
        output.println("http " + node.port());
        System.in.read();
        // Its threads would go on.
        System.exit(0);
    }
}
