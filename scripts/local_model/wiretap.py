"""A recorder between delegate and the server: passes bytes on, unchanged.

What went over the wire is read from the copies afterwards, so that nothing of
ours can repair or break the stream under test.
"""

import json
import selectors
import socket
import threading
from dataclasses import dataclass, field


@dataclass
class Exchange:
    """One request with its answer."""

    path: str
    headers: dict
    body: dict
    status: int
    content_type: str
    pieces: int  # chunks of the answer's body
    answer: bytes = field(repr=False)


class Wiretap:
    """`with Wiretap(address) as tap:` listens on `tap.address`."""

    def __init__(self, upstream):
        self.upstream = upstream
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()[:2]
        self.connections = []
        self.threads = []

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        # A shutdown wakes the thread in accept(); a close alone would not.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(timeout=5)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            record = (bytearray(), bytearray())
            self.connections.append(record)
            thread = threading.Thread(target=self.relay, args=(client, record), daemon=True)
            self.threads.append(thread)
            thread.start()

    def relay(self, client, record):
        """Copies both ways until one side has ended and the other is drained."""
        try:
            server = socket.create_connection(self.upstream, timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        with client, server, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, (server, record[0]))
            selector.register(server, selectors.EVENT_READ, (client, record[1]))
            while selector.get_map():
                for key, _ in selector.select():
                    to, copy = key.data
                    try:
                        data = key.fileobj.recv(65536)
                        copy += data
                        if data:
                            to.sendall(data)
                            continue
                        to.shutdown(socket.SHUT_WR)
                    except OSError:
                        return
                    selector.unregister(key.fileobj)

    def exchanges(self):
        """Every POST with its answer, in the order of the connections."""
        found = []
        for sent, received in self.connections:
            answers = list(messages(bytes(received)))
            for position, (start, headers, body, _) in enumerate(messages(bytes(sent))):
                method, path, _ = (start + "  ").split(" ", 2)
                if method != "POST":
                    continue
                try:
                    parsed = json.loads(body)
                except ValueError:
                    parsed = {}
                if position < len(answers):
                    line, answer_headers, answer, pieces = answers[position]
                    status = int((line.split(" ") + ["0", "0"])[1] or 0)
                else:
                    answer_headers, answer, pieces, status = {}, b"", 0, 0
                kind = answer_headers.get("content-type", "")
                found.append(Exchange(path, headers, parsed, status, kind, pieces, answer))
        return found


def messages(data):
    """Splits one direction of an HTTP/1.1 connection; the last may be cut off."""
    while data:
        head, found, data = data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body, pieces, data = chunked(data)
        else:
            length = int(headers.get("content-length", len(data) if "close" in
                                     headers.get("connection", "") else 0))  # fmt: skip
            body, data, pieces = data[:length], data[length:], 1
        yield lines[0], headers, body, pieces


def chunked(data):
    """The body, its number of chunks, and what follows it."""
    body, pieces = b"", 0
    while True:
        line, found, rest = data.partition(b"\r\n")
        if not found:
            return body, pieces, b""
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            return body, pieces, b""
        if size == 0:
            return body, pieces, rest.partition(b"\r\n")[2]
        body += rest[:size]
        pieces += 1
        data = rest[size + 2 :]
