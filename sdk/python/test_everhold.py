"""Tests of the probe: python3 -m unittest, in this folder."""

import json
import pathlib
import tempfile
import unittest

from everhold import Envelope, Probe, _Encoder, _json, _plain, _Recording, _signed


class Values(unittest.TestCase):
    def check(self, value, expected):
        self.assertEqual(json.dumps(_json(_plain(value))), expected)

    def test_values_are_written_as_the_trace_format_says(self):
        self.check(None, "null")
        self.check([1, 2.0, "x", True], '[1, 2.0, "x", true]')
        self.check({"a": {"b": 1}}, '{"a": {"b": 1}}')
        self.check({1: "a"}, '{"$map": [[1, "a"]]}')
        self.check({7}, '{"$set": [7]}')
        self.check(float("inf"), '{"$float": "inf"}')
        self.check(b"\0\xff", '{"$bytes": "AP8="}')
        self.check({"$set": 1}, '{"$record": {"$set": 1}}')
        self.check(1 << 63, '"9223372036854775808"')

    def test_numbers_are_zigzag(self):
        for number, expected in [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (64, b"\x80\1")]:
            self.assertEqual(_signed(number), expected)

    def test_names_are_numbered(self):
        encoder = _Encoder()
        self.assertEqual([encoder.name("a"), encoder.name("a"), encoder.name("b")],
                         [b"\1\1a", b"\2", b"\1\1b"])


class Envelopes(unittest.TestCase):
    def test_both_forms_come_back(self):
        envelope = Envelope(1_000_000 << 12, 3, 41)
        self.assertEqual(str(envelope), "00-00000000f4240000-00000003-29")
        self.assertEqual(Envelope.parse(str(envelope)), envelope)
        self.assertEqual(Envelope.from_bytes(envelope.to_bytes() + b"rest"), (envelope, b"rest"))
        for wrong in [b"", b"none", b"\0" * 5]:
            with self.assertRaises(ValueError):
                Envelope.from_bytes(wrong)


class Recordings(unittest.TestCase):
    def events(self, folder):
        lines = [line for path in sorted(pathlib.Path(folder).glob("*.jsonl"))
                 for line in path.read_text().splitlines()]
        return [event for event in map(json.loads, lines) if event.get("is") == "event"]

    def test_a_recording_has_the_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            with Probe(system="bank", node=1, recording=folder) as probe:
                probe.step("pay")
                probe.observe("balance", 250)
                probe.add("holds", 7, "exclusive")
                probe.observe("balance", 240)
                probe.remove("holds", 7, "exclusive")
                probe.receive(Envelope(1, 2, 9))
            events = self.events(folder)
        self.assertEqual([event["kind"] for event in events], ["local"] * 3 + ["deliver"])
        states = [event["state"] for event in events if "state" in event]
        held = {"$map": [[7, "exclusive"]]}
        self.assertEqual(states, [{"balance": 250, "holds": held}, {"balance": 240, "holds": held},
                                  {"balance": 240, "holds": {"$map": []}}])

    def test_segments_and_buffers_are_bounded(self):
        with tempfile.TemporaryDirectory() as folder:
            with Probe(node=1, buffer=10) as probe:
                recording = _Recording(probe, folder, 3, 2000)
                for at in range(1, 400):
                    recording.take([(at << 12, 12, "step")], 0)
                recording.end()
                self.assertEqual(len(recording._kept()), 3)
            with Probe(node=2, recording=folder, buffer=10) as probe:
                with probe._lock:
                    for _ in range(25):
                        probe._put_locked(12, "step")
                self.assertGreaterEqual(probe.dropped, 15)


if __name__ == "__main__":
    unittest.main()
