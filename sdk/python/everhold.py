"""Observations of a node of a distributed system while it runs.

A Probe sends what a node shows to `everhold watch`, or records it in files, by the same protocol and
in the same format as the probe in Rust (docs/live.md). It is meant for test rigs: an observation takes
a few microseconds. Nothing here may harm the application: the buffer has a bounded size, and what does
not fit is dropped and counted.

    with Probe(system="bank", node=1, name="teller-1", kind="teller",
               checkers=["127.0.0.1:7117"]) as probe:
        probe.observe("balance", 250)
        probe.add("holds", "lock 7", "exclusive")
        envelope = probe.send(2, "Transfer")      # travels with the message
"""

import collections
import glob
import hashlib
import hmac
import json
import math
import os
import queue
import socket
import struct
import sys
import threading
import time

__all__ = ["Probe", "Envelope", "NOBODY"]

VERSION = 2
NOBODY = 0xFFFFFFFF
_FRAME_MAX = 1 << 20
_NAMES_MAX = 1 << 16
_STAMP_BITS = 12
_AHEAD_MAX = 1_000_000 << _STAMP_BITS
_PERIOD = 0.005
_HEARTBEAT = 0.05
_BATCH_MAX = 1024
_PATIENCE = 1.0
_DEPTH_MAX = 60

# Kinds of frames and records; crates/everhold-trace/src/wire.rs describes the protocol.
_GREETING, _HELLO, _BATCH, _BEAT, _BYE, _ACK, _REFUSE, _PING, _PONG, _CLOCK = range(1, 11)
_OBSERVE, _ADD, _REMOVE, _SEND, _DELIVER, _INPUT, _LOCAL = 1, 3, 4, 5, 7, 9, 12
_REFRESH, _WHOLE = 14, 15


def _number(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _signed(n):
    return _number((n << 1 ^ n >> 63) & 0xFFFFFFFFFFFFFFFF)


def _text(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return _number(len(data)) + data


def _take(body, at=0):
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _frame(kind, body):
    return struct.pack("<IB", len(body) + 1, kind) + body


class Envelope(collections.namedtuple("Envelope", "at sender seq")):
    """Travels with a message: the sender's clock, its number, and its count of messages."""

    __slots__ = ()

    def __str__(self):
        return f"00-{self.at:016x}-{self.sender:08x}-{self.seq:x}"

    @classmethod
    def parse(cls, text):
        """Reads the form for a header, under the name `everhold`."""
        parts = text.strip().split("-")
        if len(parts) != 4 or int(parts[0], 16) != 0:
            raise ValueError("the header carries no Everhold envelope")
        return cls(*(int(part, 16) for part in parts[1:]))

    def to_bytes(self):
        """Returns the compact form, to be put in front of a message."""
        return b"\0" + struct.pack("<Q", self.at) + _number(self.sender) + _number(self.seq)

    @classmethod
    def from_bytes(cls, message):
        """Reads the compact form from the front of a message; returns it and the rest."""
        try:
            if message[0] != 0:
                raise IndexError
            (stamp,) = struct.unpack_from("<Q", message, 1)
            sender, at = _take(message, 9)
            seq, at = _take(message, at)
        except (IndexError, struct.error):
            raise ValueError("the message carries no Everhold envelope") from None
        return cls(stamp, sender, seq), message[at:]


def _plain(value, depth=0):
    """Returns a value as one of those that can be recorded."""
    if depth > _DEPTH_MAX:
        return None
    if value is None or isinstance(value, (bool, str, float, bytes)):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, dict):
        return {_key(key, depth): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return frozenset(_key(item, depth) for item in value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item, depth + 1) for item in value)
    if hasattr(value, "__dict__"):
        return {str(name): _plain(item, depth + 1) for name, item in vars(value).items()}
    return str(value)


def _key(value, depth):
    plain = _plain(value, depth + 1)
    return str(plain) if isinstance(plain, dict) else plain


class _Encoder:
    """Writes the records of one connection, with its names."""

    def __init__(self):
        self.names = {}

    def name(self, name):
        known = self.names.get(name)
        if known is not None:
            return _number(known + 2)
        if len(self.names) >= _NAMES_MAX:
            return b"\0" + _text(name)
        self.names[name] = len(self.names)
        return b"\1" + _text(name)

    def value(self, value):
        if value is None:
            return b"\0"
        if isinstance(value, bool):
            return b"\2" if value else b"\1"
        if isinstance(value, int):
            return b"\3" + _signed(value)
        if isinstance(value, float):
            return b"\4" + struct.pack("<d", value)
        if isinstance(value, str):
            return b"\5" + _text(value)
        if isinstance(value, bytes):
            return b"\6" + _text(value)
        if isinstance(value, dict):
            if all(isinstance(key, str) for key in value):
                fields = (self.name(key) + self.value(value[key]) for key in sorted(value))
                return b"\x0a" + _number(len(value)) + b"".join(fields)
            pairs = (self.value(key) + self.value(item) for key, item in value.items())
            return b"\x09" + _number(len(value)) + b"".join(pairs)
        kind = b"\x08" if isinstance(value, frozenset) else b"\x07"
        return kind + _number(len(value)) + b"".join(self.value(item) for item in value)

    def record(self, record, last):
        at, what, *rest = record
        head = bytes([what]) + _signed(at - last)
        if what == _OBSERVE:
            fields = (self.name(name) + self.value(value) for name, value in rest[0])
            return head + _number(len(rest[0])) + b"".join(fields)
        if what in (_ADD, _REMOVE):
            return head + self.name(rest[0]) + self.value(rest[1]) + self.value(rest[2])
        if what == _SEND:
            return head + _number(rest[0]) + _number(rest[1]) + self.name(rest[2])
        if what == _DELIVER:
            return head + _number(rest[0]) + _number(rest[1])
        if what in (_INPUT, _LOCAL):
            return head + self.name(rest[0])
        return head

    def batch(self, number, lost, records):
        body, last = [_number(number), _number(lost), _number(len(records))], 0
        for record in records:
            body.append(self.record(record, last))
            last = record[0]
        return _frame(_BATCH, b"".join(body))


def _wall():
    return (time.time_ns() // 1000) << _STAMP_BITS


class Probe:
    """Shows one node to watches, or records it, or both."""

    def __init__(self, system="system", node=0, name=None, kind="node", checkers=(), secret=None,
                 recording=None, segments=8, segment_bytes=4 << 20, buffer=1 << 14, incarnation=None,
                 refresh=None, report=None):
        if not 0 <= node < NOBODY:
            raise ValueError("the number of a node is between 0 and 2**32 - 2")
        self.system, self.node, self.name, self.kind = system, node, name or f"n{node}", kind
        self.secret = secret.encode() if isinstance(secret, str) else secret
        self.incarnation = incarnation or time.time_ns() // 1000
        self.refresh = refresh
        self.report = report or (lambda text: print("everhold:", text, file=sys.stderr))
        self.dropped = 0
        self.buffer_max = buffer
        self.watched = recording is not None
        self._lock = threading.Lock()
        self._buffer, self._lost, self._clock, self._sent = [], 0, 0, 0
        self.offset, self.pushed = 0, 0
        self._stop = threading.Event()
        self._recording = _Recording(self, recording, segments, segment_bytes) if recording else None
        self._links = [_Link(self, address, at == 0) for at, address in enumerate(checkers)]
        self._thread = threading.Thread(target=self._run, name="everhold-probe", daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Sends and writes what is left, and says goodbye."""
        self._stop.set()
        self._thread.join()

    def observe(self, name, value):
        """Records that a variable has a value from now on."""
        if self.watched:
            self._put(_OBSERVE, ((name, _plain(value)),))

    def observe_all(self, **values):
        """Records that variables have values from now on, in one step."""
        if self.watched:
            self._put(_OBSERVE, tuple((name, _plain(value)) for name, value in values.items()))

    def add(self, relation, key, value=True):
        """Records that the tuple relation(key, value) begins to hold; a key has one value."""
        if self.watched:
            self._put(_ADD, relation, _key(key, 0), _plain(value))

    def remove(self, relation, key, value=True):
        """Records that a tuple ceases to hold."""
        if self.watched:
            self._put(_REMOVE, relation, _key(key, 0), _plain(value))

    def step(self, label):
        """Begins a step; what is observed until the next one belongs to it."""
        if self.watched:
            self._put(_LOCAL, label)

    def send(self, to, label):
        """Records the sending of a message; returns the envelope that travels with it."""
        with self._lock:
            seq, self._sent = self._sent, self._sent + 1
            if self.watched:
                self._put_locked(_SEND, 0 if to is None else to + 1, seq, label)
            return Envelope(self._tick(), self.node, seq)

    def receive(self, envelope):
        """Records the arrival of a message: a step begins, which is ordered after the sending."""
        with self._lock:
            now = self._now()
            jumps = envelope.at > now + _AHEAD_MAX
            if not jumps and envelope.at > self._clock:
                self._clock = envelope.at
                self.pushed = max(self.pushed, envelope.at - now)
            if self.watched and envelope.sender == NOBODY:
                self._put_locked(_INPUT, "message")
            elif self.watched:
                self._put_locked(_DELIVER, envelope.sender, envelope.seq)
        if jumps:
            raise ValueError("the clock of the sender is more than a second ahead")

    def _put(self, *what):
        with self._lock:
            self._put_locked(*what)

    def _put_locked(self, *what):
        at = self._tick()
        if len(self._buffer) >= self.buffer_max:
            self._lost += 1
            self.dropped += 1
        else:
            self._buffer.append((at, *what))

    def _now(self):
        return _wall() + self.offset

    def _tick(self):
        self._clock = max(self._clock + 1, self._now())
        return self._clock

    def _run(self):
        number, beaten = 0, time.monotonic()
        while True:
            ends = self._stop.wait(_PERIOD)
            self._audience()
            with self._lock:
                records, lost, passed = self._buffer, self._lost, self._tick()
                self._buffer, self._lost = [], 0
            if self._recording:
                self._recording.take(records, lost)
            while records or lost:
                part, records = records[:_BATCH_MAX], records[_BATCH_MAX:]
                number += 1
                for link in self._links:
                    link.offer(number, lost, part)
                lost = 0
            if ends or time.monotonic() - beaten >= _HEARTBEAT:
                beaten = time.monotonic()
                for link in self._links:
                    link.beat(passed, ends)
            if ends:
                break
        for link in self._links:
            link.close()
        if self._recording:
            self._recording.end()

    def _audience(self):
        connected = [link for link in self._links if link.connected]
        fresh = [link for link in connected if link.needs]
        for link in fresh:
            link.needs = False
        if fresh and self.refresh:
            self._put(_REFRESH)
            self.watched = True
            before = self.dropped
            self.refresh(self)
            if self.dropped == before:
                self._put(_WHOLE)
        self.watched = bool(connected) or self._recording is not None


class _Link:
    """The connection to one watch, on a thread of its own."""

    def __init__(self, probe, address, is_first):
        host, _, port = address.rpartition(":")
        self.probe, self.address, self.is_first = probe, (host.strip("[]"), int(port)), is_first
        self.queue = queue.Queue(64)
        self.connected = self.needs = self.sound = False
        self.beats, self.best, self.ahead = 0, 1 << 62, 0
        self.thread = threading.Thread(target=self._run, name="everhold-link", daemon=True)
        self.thread.start()

    def offer(self, number, lost, records):
        if not self.connected:
            self.sound = False
            return
        try:
            self.queue.put_nowait(lambda encoder: encoder.batch(number, lost, records))
            self.sound = True
        except queue.Full:
            # The watch sees the gap in the numbers.
            self.sound, self.needs = False, True
            self.probe.dropped += len(records)

    def beat(self, passed, ends):
        if not self.connected or not (self.sound or ends):
            return
        kind = _BYE if ends else _BEAT
        try:
            self.queue.put(lambda _: _frame(kind, _number(passed)), block=ends, timeout=_PATIENCE)
            self.beats += 1
            if self.beats % 4 == 0 and not ends:
                self.queue.put_nowait(lambda _: _frame(_PING, _number(_wall())) + self._clock())
        except queue.Full:
            pass

    def close(self):
        try:
            self.queue.put(None, timeout=_PATIENCE)
        except queue.Full:
            pass
        self.thread.join(2 * _PATIENCE)

    def _clock(self):
        pushed, self.probe.pushed = self.probe.pushed, 0
        error = self.best + pushed + abs(self.probe.offset - self.ahead)
        return _frame(_CLOCK, _signed(-self.ahead >> _STAMP_BITS) + _number((error >> _STAMP_BITS) + 2))

    def _run(self):
        wait, told = 0.02, ""
        while True:
            try:
                with self._connect() as stream:
                    wait, told = 0.02, ""
                    if self._serve(stream):
                        return
            except (OSError, ValueError, IndexError, struct.error) as error:
                text = f"checker {self.address[0]}:{self.address[1]}: {error}"
                if text != told:
                    self.probe.report(text)
                    told = text
            finally:
                self.connected = False
            until = time.monotonic() + wait
            while time.monotonic() < until:
                try:
                    if self.queue.get(timeout=max(0, until - time.monotonic())) is None:
                        return
                except queue.Empty:
                    break
            wait = min(2 * wait, 0.5)

    def _connect(self):
        stream = socket.create_connection(self.address, _PATIENCE)
        try:
            self._greet(stream)
        except BaseException:
            stream.close()
            raise
        return stream

    def _greet(self, stream):
        kind, body = _read(stream)
        if kind != _GREETING or body[:4] != b"EVHD":
            raise ValueError("it does not greet as a checker does")
        (speaks,) = struct.unpack_from("<H", body, 4)
        if speaks < VERSION:
            raise ValueError(f"it speaks version {speaks} of the protocol, this probe {VERSION}")
        probe = self.probe
        head = (b"EVHD" + struct.pack("<H", VERSION) + _text(probe.system) + _number(probe.node)
                + _text(probe.name) + _text(probe.kind) + _number(probe.incarnation) + b"\0")
        proof = b""
        if probe.secret:
            proof = hmac.new(probe.secret, body[6:22] + head + _text(b""), hashlib.sha256).digest()
        stream.sendall(_frame(_HELLO, head + _text(proof)))
        kind, body = _read(stream)
        if kind == _REFUSE:
            _, at = _take(body, 1)
            raise ValueError("it refuses: " + body[at:].decode("utf-8", "replace"))
        self.best = 1 << 62
        for _ in range(8):
            stream.sendall(_frame(_PING, _number(_wall())))
            while not self._heard(*_read(stream)):
                pass

    def _heard(self, kind, body):
        if kind != _PONG:
            return False
        sent, at = _take(body)
        there, _ = _take(body, at)
        half = (_wall() - sent) // 2
        # An old measurement is worth less, since clocks drift.
        self.best += self.best >> 6
        if 0 <= half <= self.best:
            self.best, self.ahead = half + 1, there - (sent + half)
        if self.is_first:
            self.probe.offset = self.ahead
        return True

    def _serve(self, stream):
        """Sends until the probe ends (returns true) or the connection does."""
        encoder = _Encoder()
        stream.sendall(self._clock())
        lost = threading.Event()
        stream.settimeout(None)
        threading.Thread(target=self._listen, args=(stream, lost), daemon=True).start()
        self.needs = self.connected = self.sound = True
        while not lost.is_set():
            try:
                item = self.queue.get(timeout=0.1)
            except queue.Empty:
                continue
            if item is None:
                return True
            data = item(encoder)
            if len(data) > _FRAME_MAX:
                raise ValueError("an observation is too large to be sent; observe less of it")
            stream.sendall(data)
        return False

    def _listen(self, stream, lost):
        try:
            while True:
                kind, body = _read(stream)
                if kind == _REFUSE:
                    break
                self._heard(kind, body)
        except (OSError, ValueError, IndexError, struct.error):
            pass
        lost.set()


def _read(stream):
    (length,) = struct.unpack("<I", _exactly(stream, 4))
    if not 0 < length <= _FRAME_MAX:
        raise ValueError(f"a frame of {length} bytes")
    body = _exactly(stream, length)
    return body[0], body[1:]


def _exactly(stream, length):
    data = bytearray()
    while len(data) < length:
        part = stream.recv(length - len(data))
        if not part:
            raise OSError("the connection ended")
        data += part
    return bytes(data)


def _json(value):
    """Returns a value in the form of docs/trace-format.md."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, bytes):
        import base64
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, frozenset):
        return {"$set": [_json(item) for item in value]}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, _Relation):
        return {"$map": [[_json(key), _json(item)] for key, item in value.items()]}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            made = {key: _json(item) for key, item in value.items()}
            return {"$record": made} if any(key.startswith("$") for key in made) else made
        return {"$map": [[_json(key), _json(item)] for key, item in value.items()]}
    return value


class _Relation(dict):
    """A relation: a map, whatever its keys."""


class _Recording:
    """A recording in segments of bounded size, each a trace of its own."""

    def __init__(self, probe, folder, segments, segment_bytes):
        self.probe, self.folder = probe, folder
        self.segments, self.segment_bytes = max(2, segments), segment_bytes
        numbers = [int(path.rsplit(".", 2)[1]) for path in self._kept()]
        self.number = max(numbers, default=-1) + 1
        self.state, self.event, self.seen, self.file = {}, None, set(), None
        self.bytes = self.events = 0
        self.broken = False

    def _kept(self):
        path = os.path.join(glob.escape(self.folder), glob.escape(self.probe.name) + ".[0-9]*.jsonl")
        return sorted(glob.glob(path))

    def take(self, records, lost):
        try:
            if lost and self.event:
                self.event["text"] = f"{lost} records were dropped about here"
            for record in records:
                self._record(*record)
            if not records:
                # A process may be killed at any time.
                self._finish()
            if self.file:
                self.file.flush()
        except OSError as error:
            self._fail(error)

    def _record(self, at, what, *rest):
        if what == _OBSERVE:
            self._belongs(at, any(name in self.seen for name, _ in rest[0]))
            self.state.update(rest[0])
            self.seen.update(name for name, _ in rest[0])
            self.changed = True
        elif what in (_ADD, _REMOVE):
            self._belongs(at, False)
            relation, key, value = rest
            held = self.state.get(relation)
            held = self.state[relation] = held if isinstance(held, _Relation) else _Relation()
            if what == _ADD:
                held[key] = value
            elif held.get(key) == value:
                held.pop(key, None)
            self.changed = True
        elif what == _SEND:
            self._belongs(at, False)
            to, seq, label = rest
            send = {"seq": seq, "label": label, **({"to": f"n{to - 1}"} if to else {})}
            self.event.setdefault("sends", []).append(send)
        elif what == _LOCAL:
            self._begin(at, True, kind="local", name=rest[0])
        elif what == _INPUT:
            self._begin(at, True, kind="input", name=rest[0])
        elif what == _DELIVER:
            self._begin(at, True, kind="deliver", **{"from": f"n{rest[0]}"}, seq=rest[1])

    def _belongs(self, at, another):
        if self.event is None or not self.step or another:
            self._begin(at, False, kind="local", name="observe")

    def _begin(self, at, step, **fields):
        self._finish()
        wall = (at >> _STAMP_BITS) * 1000
        self.event = {"is": "event", "node": self.probe.name, **fields, "time": at, "wall_ns": wall}
        self.step, self.changed, self.seen = step, False, set()

    def _finish(self):
        event, self.event = self.event, None
        if event is None or self.broken:
            return
        if self.changed:
            event["state"] = _json(self.state)
        if self.file is None or self.bytes > self.segment_bytes:
            self._turn()
        for name in [send.get("to") for send in event.get("sends", ())] + [event.get("from")]:
            if name and name not in self.known:
                self.known.add(name)
                self._line({"is": "node", "name": name, "kind": ""})
        self._line(event)
        self.events += 1

    def _turn(self):
        self._close()
        os.makedirs(self.folder, exist_ok=True)
        kept = self._kept()
        for path in kept[:max(0, len(kept) - self.segments + 1)]:
            os.remove(path)
        path = os.path.join(self.folder, f"{self.probe.name}.{self.number:06}.jsonl")
        self.file = open(path, "w", encoding="utf-8")
        self.number, self.bytes, self.events = self.number + 1, 0, 0
        self.known = {self.probe.name}
        probe = self.probe
        self._line({"everhold": "trace", "version": 1})
        self._line({"is": "run", "name": probe.system,
                    "notes": {"system": probe.system, "incarnation": probe.incarnation}})
        self._line({"is": "node", "name": probe.name, "kind": probe.kind})

    def _line(self, fields):
        line = json.dumps(fields, allow_nan=False) + "\n"
        self.bytes += len(line)
        self.file.write(line)

    def _fail(self, error):
        if not self.broken:
            self.broken = True
            self.probe.report(f"the recording into {self.folder} ended: {error}")

    def _close(self):
        if self.file:
            self._line({"is": "end", "events": self.events})
            self.file.close()
            self.file = None

    def end(self):
        try:
            self._finish()
            self._close()
        except OSError as error:
            self._fail(error)
