"""Figures, runs and their verdicts: findings are results, errors are errors."""

import unittest

from ground import EXAMPLES, Scratch, ioecho, needs, needs_program

LOAD = "gen:zipf?theta=0.9&read=70&rate=5000&count=10000&seed=1"
FAST = "sim:size=64G,units=8,service=80us"
SLOW = "sim:size=64G,units=1,service=1ms"


@needs_program
class Runs(Scratch):
    def test_a_sound_run_is_a_result(self):
        run = ioecho.replay(LOAD, FAST, self.here / "run")
        self.assertEqual((run.exit_code, run.meaning), (0, "done"))
        self.assertEqual(run.verdict.finding, "faithful")
        self.assertTrue(run.verdict.is_valid)
        self.assertEqual(run.verdict["lateness"].grade, "pass")
        with self.assertRaises(KeyError):
            run.verdict["luck"]

    def test_a_device_that_is_too_slow_is_a_result(self):
        run = ioecho.replay(LOAD, SLOW, self.here / "run")
        self.assertEqual((run.exit_code, run.verdict.finding), (10, "device-limited"))
        self.assertIn("lateness", run.verdict["lateness"].explain())

    def test_a_check_that_is_required_is_a_result(self):
        run = ioecho.replay(LOAD, FAST, self.here / "run", require="storage")
        self.assertEqual(run.exit_code, 16)

    def test_a_run_that_could_not_begin_is_an_error(self):
        with self.assertRaises(ioecho.Error) as raised:
            ioecho.replay(LOAD, self.here / "no-target", self.here / "run")
        self.assertEqual(raised.exception.code, 5)

    def test_results_of_another_run_are_never_taken_for_ones_own(self):
        ioecho.replay(LOAD, FAST, self.here / "run")
        with self.assertRaises(ioecho.Error) as raised:
            ioecho.replay(LOAD, SLOW, self.here / "run")
        self.assertEqual(raised.exception.code, 7)

    def test_volumes_go_to_several_targets(self):
        run = ioecho.replay(f"{LOAD}&volumes=2", [FAST, SLOW], self.here / "run")
        self.assertEqual(len(run.summary["per_target"]), 2)

    def test_a_run_is_a_path(self):
        run = ioecho.replay(LOAD, FAST, self.here / "run")
        self.assertEqual(ioecho.info(run)["requests"], 10000)
        self.assertEqual(ioecho.analyze(run)["measured"], 10000)
        again = ioecho.Run(run)
        self.assertEqual(again.summary, run.summary)
        self.assertIsNone(again.meaning)
        self.assertEqual(repr(again), "<Run run: faithful, valid>")

    def test_a_notebook_shows_the_page(self):
        run = ioecho.replay(LOAD, FAST, self.here / "run")
        shown = run._repr_html_()
        self.assertTrue(shown.startswith('<iframe srcdoc="&lt;!'))
        # The page may not end the attribute that holds it.
        self.assertEqual(shown.count('"'), 8)

    def test_another_directory_is_no_run(self):
        with self.assertRaises(ioecho.Error) as raised:
            ioecho.Run(self.here)
        self.assertEqual(raised.exception.code, 3)

    def test_a_killed_run_is_told_how_it_is_recovered(self):
        run = ioecho.replay(LOAD, FAST, self.here / "run")
        (run.path / "summary.json").unlink()
        with self.assertRaisesRegex(ioecho.Error, "ioecho report"):
            ioecho.Run(run.path)

    @needs("pyarrow")
    def test_measured_instants_are_those_of_the_summary(self):
        import pyarrow.compute as compute

        run = ioecho.replay(LOAD, SLOW, self.here / "run")
        table = run.requests(["scheduled_ns", "submitted_ns", "outcome"])
        late = compute.subtract(table["submitted_ns"], table["scheduled_ns"])
        self.assertEqual(compute.max(late).as_py(), run.summary["lateness"]["all"]["max_ns"])
        self.assertEqual(table["outcome"].unique().to_pylist(), ["ok"])


@needs_program
class Comparing(Scratch):
    def test_repeated_runs_are_one_system(self):
        fast = [
            ioecho.replay(LOAD, f"{FAST},seed={n}", self.here / f"fast{n}") for n in range(2)
        ]
        slow = ioecho.replay(LOAD, "sim:size=64G,units=8,service=120us", self.here / "slow")
        compared = ioecho.compare(fast, slow)
        self.assertEqual([len(system["runs"]) for system in compared["systems"]], [2, 1])
        self.assertEqual(compared["pairs"][0]["word"], "slower")

    def test_a_criterion_that_is_met_is_a_result(self):
        fast = ioecho.replay(LOAD, FAST, self.here / "fast")
        slow = ioecho.replay(LOAD, "sim:size=64G,units=8,service=120us", self.here / "slow")
        compared = ioecho.compare(fast, slow, fail_if="mean > +5%")
        self.assertEqual(compared["criteria"][0]["answer"], "met")

    def test_other_loads_are_not_compared(self):
        one = ioecho.replay(LOAD, FAST, self.here / "one")
        other = ioecho.replay(LOAD + "1", FAST, self.here / "other")
        with self.assertRaises(ioecho.Error) as raised:
            ioecho.compare(one, other)
        self.assertEqual((raised.exception.code, raised.exception.meaning), (20, "not comparable"))

    def test_a_trace_is_held_against_what_was_seen(self):
        git = EXAMPLES / "git.parquet"
        self.assertTrue(ioecho.check(git, git)["faithful"])
        lossy = ioecho.convert(git, self.here / "lossy.parquet", filter="op != write")
        self.assertFalse(ioecho.check(git, lossy)["faithful"])


@needs_program
class Parts(Scratch):
    def test_parts_make_the_whole_in_any_order(self):
        git = EXAMPLES / "git.parquet"
        a = ioecho.partial(git, self.here / "a.parquet", duration="5s")
        b = ioecho.partial(git, self.here / "b.parquet", start="5s")
        whole = ioecho.analyze(ioecho.merge([b, a], self.here / "whole.parquet"))
        alone = ioecho.analyze(git)
        for part in ("requests", "throughput", "pages", "order", "sizes"):
            self.assertEqual(whole[part], alone[part], part)

    def test_runs_that_went_on_together_become_one(self):
        runs = [ioecho.replay(LOAD, FAST, self.here / name) for name in ("a", "b")]
        both = ioecho.Run(ioecho.merge(runs, self.here / "both"))
        self.assertEqual(both.summary["recorded"], 20000)


@needs_program
class Figures(Scratch):
    def test_pictures_come_by_their_names(self):
        named = ioecho.figures(EXAMPLES / "git.parquet", "g40", "map")
        self.assertEqual(list(named), ["g40.rqsize.bins", "map"])
        self.assertTrue(named["map"]._repr_svg_().startswith("<svg"))

    def test_names_do_not_depend_on_those_of_the_trace(self):
        odd = ioecho.convert(EXAMPLES / "git.parquet", self.here / "g40.x.load.gz")
        self.assertEqual(list(ioecho.figures(odd, "g40")), ["g40.rqsize.bins"])
        self.assertEqual(list(ioecho.figures(LOAD, "g40")), ["g40.rqsize.bins"])

    def test_an_unknown_picture_is_refused(self):
        with self.assertRaisesRegex(ioecho.Error, "no such picture"):
            ioecho.figures(EXAMPLES / "git.parquet", "landscape")


if __name__ == "__main__":
    unittest.main()
