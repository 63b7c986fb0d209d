"""One observed run: a command on a device, the block tracepoints, and the machine around it."""

import contextlib
import os
import select
import time

import devices
import machine

# A tool that has done all requests and does not end is given so long, seconds.
HANG_S = 5
# A tool that does not get on is given so long: some stretch a run several times over.
PATIENCE = 10
START_S = 45


class Runner:
    """What all runs share.

    scratch: a directory in memory; stall: the probe's binary; quiet_s: how long to wait for a quiet
    machine before each run.
    """

    def __init__(self, recorder, group, scratch, device, stall, quiet_s):
        self.recorder, self.group, self.scratch = recorder, group, scratch
        self.device, self.stall, self.quiet_s = device, stall, quiet_s

    def run(self, command, prefix, seconds, requests=None, stdin=None):
        """Runs and observes a command; the recording goes to PREFIX.

        seconds: how long it should take; requests: how many it should do, where that is known.
        Returns figures of the machine's side. Raises recorder.Lost.
        """
        devices.drop_cache(self.device)
        machine.wait_for_quiet(self.quiet_s)
        probes = [machine.probe(self.stall)]
        before, used = machine.processor_times(), self.group.used()
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(open(os.path.join(self.scratch, "output"), "wb"))
            source = stack.enter_context(open(stdin or os.devnull, "rb"))
            self.recorder.start()
            started = time.monotonic()
            process = self.group.start(command, stdin=source, stdout=out, stderr=out)
            try:
                hung = self._watch(process, seconds, requests)
            finally:
                # Also what a tool forked and left to itself, and in any exception.
                self.group.end(process)
                self.recorder.stop()
        took = time.monotonic() - started
        now = self.group.used()
        used = (now[0] - used[0], now[1] - used[1])
        after = machine.processor_times()
        probes.append(machine.probe(self.stall))
        figures = machine.account(before, after, used, probes)
        figures.update(wall_s=took, exit_code=process.returncode, hung=hung)
        figures["disturbed"] = machine.disturbances(figures)
        figures["events"] = self.recorder.save(prefix)
        return figures

    def output(self, most=2000):
        """The end of what the last command printed."""
        with open(os.path.join(self.scratch, "output"), "rb") as file:
            return file.read()[-most:].decode(errors="replace")

    def _watch(self, process, seconds, requests):
        """Waits for the end; "" or why the command had to be killed."""
        done_before, _ = devices.completed(self.device)
        started = time.monotonic()
        end = started + START_S + PATIENCE * seconds
        handle = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            # Nothing wakes this process up before the end is near.
            if poll.poll(1000 * seconds):
                return ""
            last, moved = None, time.monotonic()
            while time.monotonic() < end:
                done, in_flight = devices.completed(self.device)
                if done != last:
                    last, moved = done, time.monotonic()
                all_done = requests is not None and done - done_before >= requests
                if all_done and not in_flight and time.monotonic() - moved > HANG_S:
                    return "did all requests and did not end"
                if poll.poll(500):
                    return ""
            return "was not done after %d s" % (end - started)
        finally:
            os.close(handle)
