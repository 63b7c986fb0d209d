"""Traces and runs as tables: the same requests in every library, with names and signed numbers."""

import unittest

from ground import EXAMPLES, Scratch, ioecho, needs, needs_program

GIT = EXAMPLES / "git.parquet"
REQUESTS = 5640


@needs_program
@needs("pyarrow")
class Read(Scratch):
    def test_a_native_file_of_any_version_has_names(self):
        # The examples are of version 1, with numbers in place of names.
        old = ioecho.read(GIT)
        new = ioecho.read(ioecho.convert(GIT, self.here / "git.parquet"))
        self.assertEqual(old.num_rows, REQUESTS)
        self.assertTrue(old.equals(new))
        self.assertLessEqual(set(old["op"].unique().to_pylist()), set(ioecho.codes(GIT)["op"]))

    def test_every_format_is_read(self):
        packed = ioecho.convert(GIT, self.here / "git.load.gz")
        table = ioecho.read(packed, ["op", "length_bytes"])
        self.assertEqual(table.column_names, ["op", "length_bytes"])
        # A file of lines has no place for flushes.
        about = ioecho.info(packed)
        self.assertEqual(table.num_rows, about["requests"])

    def test_a_load_is_generated(self):
        table = ioecho.read("gen:random?read=100&rate=1000&count=77")
        self.assertEqual(table.num_rows, 77)

    def test_transforms_are_applied(self):
        about = ioecho.info(GIT, start="1s", duration="2s")
        table = ioecho.read(GIT, start="1s", duration="2s")
        self.assertEqual(table.num_rows, about["requests"])

    def test_seek_distances_may_be_negative(self):
        import pyarrow.compute as compute

        offsets = ioecho.read(GIT, ["offset_bytes"])["offset_bytes"].combine_chunks()
        seeks = compute.subtract(offsets[1:], offsets[:-1])
        self.assertLess(compute.min(seeks).as_py(), 0)
        self.assertEqual(
            compute.sum(seeks).as_py(), offsets[-1].as_py() - offsets[0].as_py()
        )

    def test_sums_are_those_of_the_program(self):
        table = ioecho.read(GIT, ["op", "length_bytes"])
        sums = table.group_by("op").aggregate([("length_bytes", "sum")]).to_pylist()
        by_op = {row["op"]: row["length_bytes_sum"] for row in sums}
        about = ioecho.info(GIT)
        self.assertEqual(by_op["write"], about["bytes_written"])
        self.assertEqual(by_op["read"], about["bytes_read"])

    def test_durations_are_the_same_numbers(self):
        import pyarrow

        numbers = ioecho.read(GIT, ["issue_ns", "op"])
        spans = ioecho.read(GIT, ["issue_ns", "op"], durations=True)
        self.assertEqual(spans["issue_ns"].type, pyarrow.duration("ns"))
        self.assertEqual(spans["op"], numbers["op"])
        self.assertTrue(spans["issue_ns"].cast(pyarrow.int64()).equals(numbers["issue_ns"]))

    def test_flags_are_those_of_the_file(self):
        told = ioecho.codes(ioecho.convert(GIT, self.here / "git.parquet"))["flags (a sum of)"]
        ours = {str(flag.value): flag.name.lower().replace("_", "") for flag in ioecho.Flag}
        self.assertEqual(ours, told)

    def test_a_batch_after_the_other_makes_the_whole(self):
        import pyarrow

        for trace in (GIT, ioecho.convert(GIT, self.here / "git.parquet")):
            batches = list(ioecho.scan(trace, ["issue_ns", "op"], rows=1000))
            self.assertEqual([batch.num_rows for batch in batches], [1000] * 5 + [640])
            whole = pyarrow.Table.from_batches(batches).unify_dictionaries()
            self.assertEqual(
                whole.to_pydict(), ioecho.read(trace, ["issue_ns", "op"]).to_pydict()
            )

    def test_what_is_no_trace_is_an_error_in_the_programs_words(self):
        (self.here / "x.parquet").write_bytes(b"PAR1 and nothing else")
        for path in (self.here / "x.parquet", self.here / "nowhere"):
            with self.assertRaises(ioecho.Error) as raised:
                ioecho.read(path)
            self.assertEqual(raised.exception.code, 3)

    def test_an_unknown_library_is_refused(self):
        with self.assertRaisesRegex(ValueError, "polars"):
            ioecho.read(GIT, as_="excel")

    def test_the_header_says_where_it_comes_from(self):
        header = ioecho.header(GIT)
        self.assertEqual(header["format"], "recording")
        self.assertIn("git", header["processes"].values())


@needs_program
class Libraries(Scratch):
    @needs("pyarrow", "pandas")
    def test_pandas(self):
        frame = ioecho.read(GIT, as_="pandas", durations=True)
        about = ioecho.info(GIT)
        self.assertEqual(int((frame["op"] == "read").sum()), about["reads"])
        sums = frame.groupby("op", observed=True)["length_bytes"].sum()
        self.assertEqual(int(sums["write"]), about["bytes_written"])
        self.assertLess(int(frame["offset_bytes"].diff().min()), 0)
        span = frame["issue_ns"].iloc[-1] - frame["issue_ns"].iloc[0]
        self.assertEqual(span.value, about["duration_ns"])

    @needs("pyarrow", "polars")
    def test_polars(self):
        import polars

        frame = ioecho.read(GIT, as_="polars", durations=True)
        about = ioecho.info(GIT)
        sums = dict(frame.group_by("op").agg(polars.col("length_bytes").sum()).iter_rows())
        self.assertEqual(sums["write"], about["bytes_written"])
        self.assertLess(frame["offset_bytes"].diff().min(), 0)
        self.assertEqual(frame["issue_ns"].dtype, polars.Duration("ns"))


if __name__ == "__main__":
    unittest.main()
