import org.apache.kafka.server.common.MetadataVersion;

/** Kafka's levels of metadata.version: number, name, new metadata?, versions of three records. */
public final class MetadataVersions {
    public static void main(String[] arguments) {
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            System.out.println(
                    version.featureLevel()
                            + " " + version.version()
                            + " " + version.didMetadataChange()
                            + " " + version.registerBrokerRecordVersion()
                            + " " + version.partitionRecordVersion()
                            + " " + version.partitionChangeRecordVersion());
        }
    }
}
