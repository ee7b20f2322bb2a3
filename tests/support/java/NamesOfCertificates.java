import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * For each line "certificate in Base64, tab, rules": the name that Java reads in the certificate, a tab, and what
 * Kafka's rules make of it ("!" if no rule matches). Both in Base64.
 */
public class NamesOfCertificates {
    public static void main(String[] arguments) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 2);
            byte[] certificate = Base64.getDecoder().decode(parts[0]);
            X509Certificate read =
                (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(certificate));
            String name = read.getSubjectX500Principal().getName();
            String mapped;
            try {
                mapped = SslPrincipalMapper.fromRules(parts[1]).getName(name);
            } catch (Exception refusal) {
                mapped = "!";
            }
            System.out.println(encoded(name) + "\t" + encoded(mapped));
        }
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
