"""Known recordings, known figures."""

import os
import random
import struct
import tempfile
import unittest

import compare
import recording
from recording import READ, WRITE, Requests

US = 1000
SERVICE = 20 * US


def trace(n=1000, gap=100 * US, service=SERVICE):
    """n requests at constant distance, each at a place of its own."""
    return [(i * gap, i * gap + service, i * 8, 4096, (READ, WRITE)[i % 2]) for i in range(n)]


def moved(rows, by):
    """Each request later by by(i), with the same response time."""
    return [
        (issue + by(i), done + by(i), sector, length, kind)
        for i, (issue, done, sector, length, kind) in enumerate(rows)
    ]


def figures(original, replay):
    return compare.compare(Requests.of(original), Requests.of(replay))


class Compare(unittest.TestCase):
    def test_a_recording_equals_itself(self):
        found = figures(trace(), trace())
        self.assertEqual(
            [found[name] for name in ("matched", "missing", "extra", "incomplete")], [1000, 0, 0, 0]
        )
        for name in ("issue_p50_us", "issue_max_us", "issue_start_max_us", "reordered_percent"):
            self.assertEqual(found[name], 0, name)
        for name in ("duration_error_percent", "response_mean_error_percent"):
            self.assertEqual(found[name], 0, name)

    def test_when_a_replay_begins_does_not_matter(self):
        found = figures(trace(), moved(trace(), lambda i: 5_000_000_000))
        self.assertEqual((found["issue_max_us"], found["issue_start_max_us"]), (0, 0))
        self.assertEqual(found["duration_error_percent"], 0)

    def test_a_late_first_request_does_not_shift_the_others(self):
        found = figures(trace(), moved(trace(), lambda i: 70 * US if i == 0 else 0))
        self.assertEqual((found["issue_p99_us"], found["issue_max_us"]), (0, 70))
        self.assertEqual(found["issue_start_max_us"], 70)

    def test_one_late_request_in_fifty_is_beyond_the_99th_percentile(self):
        found = figures(trace(), moved(trace(), lambda i: 30 * US if i % 50 == 7 else 0))
        self.assertEqual(found["issue_p50_us"], 0)
        self.assertEqual(found["issue_p99_us"], 30)
        self.assertEqual(found["reordered_percent"], 0)

    def test_early_is_as_wrong_as_late(self):
        found = figures(trace(), moved(trace(), lambda i: -40 * US if i % 50 == 7 else 0))
        self.assertEqual(found["issue_p99_us"], 40)

    def test_a_stretched_replay_has_its_drift_told(self):
        # Ten percent longer: 100 ms become 110, the error grows from 0 to 10 ms.
        found = figures(trace(1001), moved(trace(1001), lambda i: i * 10 * US))
        self.assertAlmostEqual(found["span_error_percent"], 10)
        self.assertAlmostEqual(found["duration_error_percent"], 10, places=1)
        self.assertAlmostEqual(found["drift_ppm"], 100_000, places=3)
        self.assertAlmostEqual(found["issue_max_us"], 5000)
        # The first hundred are 0 to 990 us late, half of them 495.
        self.assertAlmostEqual(found["issue_start_max_us"], 10_000 - 495)
        self.assertEqual(found["response_mean_error_percent"], 0)

    def test_response_time_and_in_flight_are_those_of_the_device(self):
        slow = trace(service=30 * US)
        found = figures(trace(), slow)
        self.assertAlmostEqual(found["response_mean_error_percent"], 50)
        self.assertAlmostEqual(found["response_p99_error_percent"], 50)
        # 20 us in every 100 us, and 30.
        self.assertAlmostEqual(found["in_flight_original"], 0.2, places=3)
        self.assertAlmostEqual(found["in_flight_replay"], 0.3, places=3)

    def test_a_missing_request_is_missing_and_nothing_else(self):
        replay = [row for i, row in enumerate(trace()) if i != 500]
        found = figures(trace(), replay)
        self.assertEqual((found["matched"], found["missing"], found["extra"]), (999, 1, 0))
        self.assertEqual((found["issue_max_us"], found["reordered_percent"]), (0, 0))

    def test_what_the_trace_did_not_ask_for_is_extra_and_nothing_else(self):
        looks = [
            (-9_000_000, -8_900_000, 0, 512, READ),
            (-8_000_000, -7_900_000, 80000, 4096, READ),
        ]
        found = figures(trace(), looks + trace())
        self.assertEqual((found["matched"], found["missing"], found["extra"]), (1000, 0, 2))
        self.assertEqual((found["issue_max_us"], found["duration_error_percent"]), (0, 0))

    def test_a_look_at_a_place_of_the_trace_does_not_push_its_request_aside(self):
        # As a tool does that reads the first block before it starts: like request 0, but earlier.
        found = figures(trace(), [(-9_000_000, -8_900_000, 0, 4096, READ)] + trace())
        self.assertEqual((found["matched"], found["extra"]), (1000, 1))
        self.assertEqual((found["issue_max_us"], found["duration_error_percent"]), (0, 0))

    def test_the_same_holds_in_a_replay_that_drifts(self):
        late = moved(trace(), lambda i: i * 50 * US)
        again = late + [(30_000 * US, 30_010 * US, 800 * 8, 4096, READ)]
        found = figures(trace(), again)
        self.assertEqual((found["matched"], found["extra"]), (1000, 1))
        self.assertEqual(found["reordered_percent"], 0)

    def test_the_nth_of_a_kind_belongs_to_the_nth(self):
        rows = [(i * 100 * US, i * 100 * US + SERVICE, 64, 4096, READ) for i in range(500)]
        found = figures(rows, moved(rows, lambda i: 0 if i % 4 else 7 * US))
        self.assertEqual(found["matched"], 500)
        self.assertEqual(found["issue_max_us"], 7)

    def test_kind_and_length_tell_requests_apart(self):
        found = figures(
            [(0, SERVICE, 0, 4096, READ), (100 * US, 120 * US, 8, 4096, READ)],
            [(0, SERVICE, 0, 4096, READ), (100 * US, 120 * US, 8, 4096, WRITE)],
        )
        self.assertEqual((found["matched"], found["missing"], found["extra"]), (1, 1, 1))

    def test_neighbours_that_change_places_are_reordered_once_per_pair(self):
        swap = lambda i: {0: 110 * US, 1: -110 * US}.get(i % 20, 0)
        found = figures(trace(), moved(trace(), swap))
        # 50 of 1,000 come after their successor.
        self.assertAlmostEqual(found["reordered_percent"], 5)

    def test_requests_of_the_same_instant_have_no_order(self):
        rows = [(0, SERVICE, 0, 4096, READ), (0, SERVICE, 8, 4096, READ)]
        found = figures(rows, [(0, SERVICE, 8, 4096, READ), (9, SERVICE, 0, 4096, READ)])
        self.assertEqual(found["reordered_percent"], 0)

    def test_reordering_is_that_of_the_rfc(self):
        # RFC 4737, 4.1: NextExp is the highest number so far plus one.
        self.assertEqual(compare.reordered([1, 2, 3, 4, 5]), 0)
        self.assertEqual(compare.reordered([1, 2, 3, 7, 4, 5, 6, 8]), 3 / 8)
        self.assertEqual(compare.reordered([5, 4, 3, 2, 1]), 4 / 5)
        self.assertEqual(compare.reordered([]), 0)

    def test_a_request_without_completion_has_no_response_time(self):
        rows = trace()
        rows[3] = (rows[3][0], None) + rows[3][2:]
        found = figures(trace(), rows)
        self.assertEqual(found["incomplete"], 1)
        self.assertEqual(found["response_mean_error_percent"], 0)

    def test_nothing_in_common_is_no_division_by_zero(self):
        found = figures(trace(10), [(0, 1, 99999, 512, WRITE)])
        self.assertEqual((found["matched"], found["missing"], found["extra"]), (0, 10, 1))

    def test_percentiles_lie_between_the_ranks(self):
        self.assertEqual(compare.percentile([0, 10, 20, 30, 40], 0.5), 20)
        self.assertEqual(compare.percentile([0, 10], 0.99), 9.9)
        self.assertIsNone(compare.percentile([], 0.5))

    def test_the_nearest_pairing_is_the_cheapest_of_all(self):
        dice = random.Random(1)
        for _ in range(300):
            few = sorted(dice.randrange(100) for _ in range(dice.randrange(1, 4)))
            many = sorted(dice.randrange(100) for _ in range(len(few) + dice.randrange(0, 4)))
            pairs = compare.nearest(few, many)
            self.assertEqual([i for i, _ in pairs], list(range(len(few))))
            self.assertTrue(all(a < b for (_, a), (_, b) in zip(pairs, pairs[1:])))
            price = sum(abs(few[i] - many[j]) for i, j in pairs)
            self.assertEqual(price, cheapest(few, many))


def cheapest(few, many):
    """By trying every choice."""
    if not few:
        return 0
    if len(many) < len(few):
        return float("inf")
    take = abs(few[0] - many[0]) + cheapest(few[1:], many[1:])
    return min(take, cheapest(few, many[1:]))


def lines(name):
    with open(name) as file:
        return file.read().splitlines()


def record(time, sector, length, action, cpu=0, error=0, payload=b""):
    head = (recording.MAGIC, 1, time, sector, length, action, 1, 7 << 20, cpu, error, len(payload))
    return struct.pack("<IIQQIIIIIHH", *head) + payload


Q_READ, D_READ, C_READ = 1 | 1 << 16, 7 | 1 << 16, 8 | 1 << 16
Q_WRITE, C_WRITE = 1 | 1 << 17, 8 | 1 << 17


class Recording(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.prefix = os.path.join(self.directory.name, "loop0")

    def write(self, *processors):
        for cpu, records in enumerate(processors):
            with open("%s.blktrace.%d" % (self.prefix, cpu), "wb") as file:
                file.write(b"".join(records))

    def test_events_of_all_processors_become_requests_in_order(self):
        self.write(
            [record(100, 8, 4096, Q_READ), record(500, 16, 4096, C_WRITE, error=5)],
            [record(110, 8, 4096, D_READ), record(200, 16, 4096, Q_WRITE),
             record(300, 8, 4096, C_READ)],
        )
        found = recording.load(self.prefix)
        self.assertEqual(found.key, [(8, 4096, READ), (16, 4096, WRITE)])
        self.assertEqual((found.issue, found.driver), ([100, 200], [110, None]))
        self.assertEqual((found.done, found.failed, found.incomplete), ([300, 500], 1, 0))

    def test_of_two_alike_the_older_completes_first(self):
        self.write([record(100, 8, 4096, Q_READ), record(150, 8, 4096, Q_READ),
                    record(300, 8, 4096, C_READ)])
        found = recording.load(self.prefix)
        self.assertEqual((found.done, found.incomplete), ([300, None], 1))

    def test_a_completion_from_before_the_recording_is_nobodys(self):
        self.write([record(100, 8, 4096, C_READ), record(150, 8, 4096, Q_READ)])
        found = recording.load(self.prefix)
        self.assertEqual((len(found), found.stray, found.incomplete), (1, 1, 1))

    def test_flushes_are_no_requests_and_payloads_are_skipped(self):
        self.write([record(50, 0, 0, 1 | 1 << 18), record(60, 8, 4096, Q_READ, payload=b"abcd"),
                    record(70, 8, 4096, C_READ)])
        self.assertEqual(recording.load(self.prefix).done, [70])

    def test_what_is_no_recording_is_refused(self):
        with open(self.prefix + ".blktrace.0", "wb") as file:
            file.write(b"x" * 96)
        with self.assertRaisesRegex(recording.Damaged, "at byte 0"):
            recording.load(self.prefix)
        with self.assertRaisesRegex(recording.Damaged, "no blktrace files"):
            recording.load(self.prefix + "absent")

    def test_merging_keeps_every_event_in_the_order_of_time(self):
        self.write([record(100, 8, 4096, Q_READ), record(300, 8, 4096, C_READ)],
                   [record(200, 16, 4096, Q_WRITE, cpu=1), record(400, 16, 4096, C_WRITE, cpu=1)])
        merged = self.prefix + ".merged"
        recording.merge(self.prefix, merged)
        self.assertEqual([row[2] for row in recording.events(merged)], [100, 200, 300, 400])
        self.assertEqual(recording.load(merged).key, recording.load(self.prefix).key)

    def test_exports_count_from_the_first_request(self):
        found = Requests.of([(5_000_000_000, 5_000_100_000, 8, 4096, READ),
                             (6_000_123_456, 6_000_200_000, 16, 8192, WRITE)])
        out = self.prefix + ".out"
        recording.export_iolog(found, "/dev/x", out)
        self.assertEqual(lines(out)[3:],
                         ["0 /dev/x read 4096 4096", "1000123 /dev/x write 8192 8192",
                          "1000123 /dev/x close"])
        recording.export_load(found, out)
        self.assertEqual(lines(out)[1:],
                         ["0.000000000 ; 8 ; 8 ; R ; 0.0 ; 0.0",
                          "1.000123456 ; 16 ; 16 ; W ; 0.0 ; 0.0"])


if __name__ == "__main__":
    unittest.main()
