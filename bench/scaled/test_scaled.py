"""Models, graphs and figures against what can be reckoned by hand."""

import unittest

import experiment
import figures
import models
import modes
import report
import simulated

MS = 1_000_000
FLASH = models.stand_in("", "units=2,service=2ms,bandwidth=4096")
DISKS = models.stand_in("", models.STAND_INS["hdd2"][1])
SIZE = 1 << 30
TRANSFER = 4096 * models.SECOND // (150 << 20)


class Models(unittest.TestCase):
    def test_units_serve_in_parallel_and_then_queue(self):
        model = FLASH.model(SIZE)
        # At 4096 bytes a second a byte takes 244140 ns.
        byte = models.SECOND // 4096
        done = [model.completion(0, 0, 1, False) for _ in range(3)]
        self.assertEqual(done, [2 * MS + byte, 2 * MS + byte, 4 * MS + 2 * byte])

    def test_a_stripe_lies_on_each_disk_in_turn(self):
        model, stripe = DISKS.model(SIZE), 65536
        self.assertEqual(model.parts(0, stripe), [(0, 0, stripe)])
        self.assertEqual(model.parts(stripe, stripe), [(1, 0, stripe)])
        self.assertEqual(model.parts(stripe // 2, 2 * stripe),
                         [(0, stripe // 2, stripe), (1, 0, stripe)])

    def test_a_read_that_goes_on_needs_neither_seek_nor_turn(self):
        model = DISKS.model(SIZE)
        first = model.completion(0, 0, 4096, False)
        self.assertEqual(model.completion(first + MS, 4096, 4096, False), first + MS + TRANSFER)
        # After a turn of waiting it has to come round again.
        later = first + MS + TRANSFER + 20 * MS
        self.assertGreater(model.completion(later, 8192, 4096, False), later + TRANSFER)

    def test_a_write_that_goes_on_loses_a_turn_unless_it_is_there_in_time(self):
        model = DISKS.model(SIZE)
        first = model.completion(0, 0, 4096, True)
        self.assertEqual(model.completion(first - 1, 4096, 4096, True), first + TRANSFER)
        turn = 60 * models.SECOND // 7200
        third = model.completion(first + TRANSFER + 1000, 8192, 4096, True)
        self.assertAlmostEqual(third, first + 2 * TRANSFER + turn, delta=2)

    def test_random_reads_take_a_mean_seek_and_half_a_turn(self):
        found = experiment.closed_loop(DISKS.model(SIZE), SIZE, 1)
        seek = 1 + 8 / 15 * 15
        self.assertAlmostEqual(found["mean_us"] / 1e3, seek + 60_000 / 7200 / 2, delta=0.3)

    def test_unknown_keys_are_refused(self):
        for line in ("units=4", "units=4,service=2ms,bandwidth=4M,arms=2", "units=4,service=2"):
            with self.assertRaises(ValueError):
                models.stand_in("", line)


class Graphs(unittest.TestCase):
    def test_nobody_comes_before_the_parents(self):
        for name, make in simulated.GRAPHS.items():
            rows, parents = simulated.perform(make(1), DISKS.model(simulated.SIZE))
            self.assertEqual(len(rows), len(make(1)), name)
            for row, links in zip(rows, parents):
                for parent in links:
                    self.assertGreaterEqual(row[0], rows[parent][0] + rows[parent][4], name)

    def test_one_request_at_a_time_takes_the_sum(self):
        parents = [[], *([number] for number in range(8))]
        requests = [simulated.Request(0, "read", 0, 4096, one, 5) for one in parents]
        model = models.stand_in("", "units=3,service=1ms,bandwidth=4096M").model(SIZE)
        rows, _ = simulated.perform(requests, model)
        transfer = 4096 * models.SECOND // (4096 << 20)
        self.assertEqual(rows[-1][0], 8 * (MS + transfer + 5))

    def test_told_its_links_a_recording_gives_the_truth(self):
        for name, make in simulated.GRAPHS.items():
            rows, parents = simulated.perform(make(1), DISKS.model(simulated.SIZE))
            truth, _ = simulated.perform(make(1), FLASH.model(simulated.SIZE))
            again = simulated.perform_again(rows, parents, FLASH.model(simulated.SIZE))
            self.assertEqual(again, truth, name)

    def test_a_recording_is_read_as_it_was_written(self):
        rows, _ = simulated.perform(simulated.loops(1), FLASH.model(simulated.SIZE))
        self.assertEqual(figures.read(modes.as_csv(rows)), rows)


class Rules(unittest.TestCase):
    def test_by_diskaccel_requests_wait_for_the_read_that_completed_last(self):
        rows = [(0, "read", 0, 512, 10, ""), (5, "read", 512, 512, 2, ""),
                (8, "write", 0, 512, 1, ""), (12, "write", 0, 512, 9, ""),
                (30, "read", 0, 512, 1, "")]
        self.assertEqual(modes.read_parents(rows), [[], [], [1], [0], [0]])

    def test_annotations_name_parents_by_their_numbers(self):
        rows = [(0, "read", 4096, 512, 1500, ""), (0, "flush", 0, 0, 1, ""),
                (2000, "write", 0, 1024, 1, "")]
        lines = modes.annotated(rows, [[], [], [0]]).splitlines()
        self.assertEqual(lines[1], "0,0.000,0,RD,0,0,1,0,0,0,8,1,1500,0,0,1.500,0,NA")
        self.assertEqual(lines[2], "2,2.000,2000,WR,0,2000,3,0,1,0,0,2,1,0,0,0.001,1,0")


class Report(unittest.TestCase):
    def line(self, mode, iops, **more):
        found = {"part": "real", "slow": "a", "fast": "b", "case": "c", "mode": mode, "repeat": 0,
                 "ioecho": "0123",
                 "iops": iops, "mean_us": 100.0, "p99_us": 200.0, "duration_s": 1e3 / iops}
        return {**found, **more}

    def test_errors_are_shares_of_the_median_of_the_truth(self):
        lines = [self.line("truth", 90), self.line("truth", 100), self.line("truth", 300),
                 self.line("dependency", 110), self.line("timed", 50)]
        self.assertAlmostEqual(report.errors(lines, "dependency", "iops")["a", "b", "c"], 0.1)
        self.assertAlmostEqual(report.errors(lines, "timed", "iops")["a", "b", "c"], 0.5)
        self.assertIn("| dependency | 1 | 1.10 |", report.markdown(lines))

    def test_a_missed_goal_names_its_case(self):
        lines = [self.line("truth", 100), self.line("dependency", 120), self.line("timed", 101)]
        found = dict(report.goals(lines, "dependency"))
        self.assertEqual(found["IOPS error at most 10 % in every case"], "missed: a→b c")
        self.assertEqual(found["IOPS nearer to the truth than timed"], "missed: a→b c")
        self.assertEqual(found["mean response time error at most 15 %"], "missed: none")

    def test_unscaled_is_judged_by_the_recording(self):
        lines = [self.line("recorded", 100, fast=""),
                 self.line("dependency", 97, part="unscaled", fast="a")]
        self.assertEqual(report.unscaled_goal(lines)[1], "missed: a c")

    def test_what_failed_is_in_no_figure(self):
        lines = [self.line("truth", 100), {"part": "real", "slow": "a", "fast": "b", "case": "c",
                                           "mode": "dependency", "repeat": 0, "failed": "why"}]
        text, missing = report.markdown(lines).split("### Not measured")
        self.assertNotIn("dependency", text)
        self.assertIn("| dependency | why |", missing)


if __name__ == "__main__":
    unittest.main()
