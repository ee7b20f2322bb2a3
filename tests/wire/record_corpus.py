"""Records the corpus: genuine clients at work with Apache Kafka 4.3.1, seen through a proxy.

    PYTHONPATH=. python tests/wire/record_corpus.py

Needs Java, Kafka's jars and the Python clients; takes about three minutes. Per label (a client, or what
brokers and controllers say to one another) a file `corpus/<label>.txt` is written, one frame a line:

    <API> <version> request <hex of the frame without its size>
    <API> <version> response <hex>

Of each API, version and direction the few shortest different frames are kept.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from protocol.registry import api
from tests.support.brokers.ports import free_ports
from tests.support.clients.client_work import (
    PLAIN_LOGIN,
    SCRAM_LOGIN,
    use_aiokafka,
    use_confluent_kafka,
    use_java_tools,
    use_kafka_python,
    use_sasl,
)
from tests.support.clients.recording_proxy import Exchange, RecordingProxy
from tests.support.genuine.genuine_kafka import GenuineKafka

CORPUS = Path(__file__).with_name("corpus")
FRAMES_OF_A_KIND = 6
LONGEST_FRAME = 6000


def record() -> None:
    clients, controllers, sasl = RecordingProxy("start"), RecordingProxy("kraft"), RecordingProxy("sasl")
    with tempfile.TemporaryDirectory() as folder:
        broker, controller, secured = free_ports(3)
        named = (
            ("PLAINTEXT", broker, clients),
            ("CONTROLLER", controller, controllers),
            ("SASL", secured, sasl),
        )
        overrides = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port, _ in named),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{proxy.port}" for name, _, proxy in named),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl.plain.sasl.jaas.config": PLAIN_LOGIN + ' user_me="secret";',
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN + ";",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers.port}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:me",
            "delegation.token.secret.key": "secret",
        }
        kafka = GenuineKafka(Path(folder) / "data", overrides)
        for _, port, proxy in named:
            proxy.target = ("127.0.0.1", port)
        kafka.bootstrap_servers = f"127.0.0.1:{broker}"
        with kafka:
            servers = f"127.0.0.1:{clients.port}"
            work: list[tuple[str, Callable[[str], None]]] = [
                ("kafka-python", use_kafka_python),
                ("confluent-kafka", use_confluent_kafka),
                ("aiokafka", use_aiokafka),
                ("java", use_java_tools),
            ]
            for label, use in work:
                clients.label = label
                use(servers)
            use_sasl(f"127.0.0.1:{sasl.port}", Path(folder) / "client.properties")
            exchanges = [each for proxy in (clients, controllers, sasl) for each in proxy.exchanges()]
    write(exchanges)


def write(exchanges: Iterable[Exchange]) -> None:
    kept: dict[str, dict[str, set[bytes]]] = defaultdict(lambda: defaultdict(set))
    for label, request, response in exchanges:
        try:
            header, _ = decode_request_header(request, 0)
        except ProtocolError:
            continue
        name = f"{api(header.request_api_key).name} {header.request_api_version}"
        kept[label][f"{name} request"].add(request)
        if response is not None:
            kept[label][f"{name} response"].add(response)
    CORPUS.mkdir(exist_ok=True)
    for label, kinds in sorted(kept.items()):
        lines = []
        for kind in sorted(kinds):
            shortest = sorted(kinds[kind], key=lambda frame: (len(frame), frame))
            different = {len(frame): frame for frame in reversed(shortest) if len(frame) <= LONGEST_FRAME}
            lines += [f"{kind} {frame.hex()}" for _, frame in sorted(different.items())[:FRAMES_OF_A_KIND]]
        (CORPUS / f"{label}.txt").write_text("\n".join(lines) + "\n")
        print(f"{label}: {len(lines)} frames, {len(kinds)} kinds")


if __name__ == "__main__":
    record()
