// A server of MongoDB's protocol that keeps its data in memory, and a second one of the same data over TLS, with the
// certificate and the key that the argument names, without .pem and .key.
//
// It says the ports of both, each behind a name, and ends with its input.

import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;

public class MongoDb {
    public static void main(String[] arguments) throws Exception {
        var backend = new MemoryBackend();
        var orders = List.of(order(1, "new", 12), order(2, "new", 3), order(3, "paid", 7));
        var insert = new Document("insert", "orders").append("documents", orders);
        backend.handleCommand(new EmbeddedChannel(), "shop", "insert", insert);
        var plain = new MongoServer(backend);
        plain.bind("127.0.0.1", 0);
        var tls = new MongoServer(backend);
        tls.enableSsl(key(arguments[0] + ".key"), null, certificate(arguments[0] + ".pem"));
        tls.bind("127.0.0.1", 0);
        System.out.println("plain " + plain.getLocalAddress().getPort());
        System.out.println("tls " + tls.getLocalAddress().getPort());
        System.in.read();
        // Its threads would go on.
        System.exit(0);
    }

    static Document order(int id, String state, int amount) {
        return new Document("_id", id).append("state", state).append("amount", amount);
    }

    static X509Certificate certificate(String path) throws Exception {
        try (var file = new FileInputStream(path)) {
            return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(file);
        }
    }

    static PrivateKey key(String path) throws Exception {
        var text = Files.readString(Path.of(path)).replaceAll("-----[A-Z ]+-----|\\s", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
    }
}
