#!/usr/bin/env python3
"""Opens a report page in headless Chromium as a reader does, and says what is wrong with it.

    bench/report/check.py PAGE.html... [--times] [--screenshots DIR]

A page may be right in every number and still be blank, slow, deaf to the keyboard or chatty on the
network. For each page: it must come up without an error on the console and without any request but
that for itself; dragging, keys, pointing and switching must do what they promise; names with markup
in them must not have been executed. With --times the first picture and every zoom must be drawn in
time, which is asked on a quiet machine only.
Exit code 1 and a line for each thing that is wrong; 0 with the times measured; 0 and `skipped: ...`
where there is no Chromium. Only the standard library is used: the browser is spoken to through its
pipe.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)
# What the project promises of its pages, in milliseconds, without a GPU.
FIRST_PICTURE_MS = 1000
BRUSH_MS = 100


class Browser:
    """Chromium behind its debugging pipe: one JSON message after the other, each ended by a zero."""

    def __init__(self, program, size):
        self.profile = tempfile.mkdtemp(prefix="ioecho-report-")
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        script = f"exec \"$@\" 3<&{to_browser} 4>&{from_browser}"
        command = [program, *FLAGS, f"--user-data-dir={self.profile}", f"--window-size={size}",
                   "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", script, "browser", *command], pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def next(self):
        while b"\0" not in self.buffer:
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def run(self, script):
        """What a script in the page answers; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script[:60]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(timeout=10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
        shutil.rmtree(self.profile, ignore_errors=True)


DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Check:
    def __init__(self, browser, page, screenshots, timed):
        self.timed = timed
        self.browser = browser
        self.page = page
        self.screenshots = screenshots
        self.wrong = []
        self.times = {}

    def expect(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def mouse(self, kind, x, y, **more):
        self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers)
        self.browser.run(DRAWN)

    def data(self, name):
        return self.browser.run(f"document.documentElement?.dataset.{name} ?? null")

    def view(self):
        return self.data("view")

    def picture(self, name):
        if not self.screenshots:
            return
        while self.data("drawn") != "yes":
            time.sleep(0.02)
        shot = self.browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path = self.screenshots / f"{self.page.stem}.{name}.png"
        path.write_bytes(base64.b64decode(shot["data"]))

    def box(self, selector):
        """Where an element is on the screen: x, y, width, height."""
        return self.browser.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " if (!e) return null; e.scrollIntoView({block: 'center'});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")

    def all(self):
        self.load()
        if self.wrong and self.data("ready") != "yes":
            self.quiet()
            return self.wrong
        if self.browser.run("document.querySelectorAll('.panel').length") > 0:
            self.first_screen()
            self.peaks()
            self.address()
            self.drag()
            self.keys()
            self.point()
            self.switch()
            self.volumes()
            self.saves()
            self.update()
            self.index()
        self.schemes()
        self.quiet()
        # What a page does again and again is wrong once.
        return list(dict.fromkeys(self.wrong))

    def load(self):
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.browser.call(f"{domain}.enable")
        self.browser.events.clear()
        self.browser.call("Page.navigate", url=self.page.resolve().as_uri())
        until = time.monotonic() + 20
        while self.data("ready") != "yes":
            if time.monotonic() > until:
                self.wrong.append("it never became ready")
                return
            time.sleep(0.02)
        self.browser.run(DRAWN)
        # From the start of the navigation to the first picture, as the browser counts.
        paint = self.browser.run(
            "Math.max(...performance.getEntriesByType('paint').map(e => e.startTime), 0)")
        ready = self.browser.run("performance.timing.domComplete - performance.timing.fetchStart")
        self.times["first picture"] = max(paint, ready)
        self.expect(not self.timed or max(paint, ready) < FIRST_PICTURE_MS,
                    f"the first picture took {max(paint, ready):.0f} ms")
        while self.data("drawn") != "yes" and time.monotonic() < until:
            time.sleep(0.02)
        odd = self.browser.run("/NaN|undefined|Infinity|\\[object/.test(document.body.innerText)")
        self.expect(not odd, "a text on the page says NaN, undefined or Infinity")
        blank = self.browser.run("""[...document.querySelectorAll('.panel')].filter(panel => {
            const canvas = panel.querySelector('canvas');
            if (!canvas || canvas.clientWidth === 0) return false;
            const pixels = canvas.getContext('2d')
                .getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Set();
            for (let i = 0; i < pixels.length && seen.size < 3; i += 4) {
              seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
            }
            return seen.size < 3;
        }).map(panel => panel.querySelector('h2, h3')?.textContent ?? 'a panel').join(', ')""")
        self.expect(not blank, f"blank: {blank}")
        alternatives = self.browser.run(
            "[...document.querySelectorAll('canvas[role=img]')]"
            ".filter(c => !c.getAttribute('aria-label')).length")
        self.expect(alternatives == 0, f"{alternatives} pictures have no text in their place")
        self.picture("whole")

    def first_screen(self):
        """What was found, six figures and two small diagrams are seen without scrolling."""
        below = self.browser.run("""(() => {
            scrollTo(0, 0);
            const parts = ['.headline', '.figures', '#overview'];
            return parts.map(one => document.querySelector(one)).filter(one => one)
                .filter(one => one.getBoundingClientRect().bottom > innerHeight)
                .map(one => one.className || one.id).join(', ');
        })()""")
        self.expect(not below, f"not on the first screen: {below}")

    def peaks(self):
        """No peak of a throughput is higher than the rate of a dozen requests, or of a second."""
        label = self.browser.run("""[...document.querySelectorAll('canvas[role=img]')]
            .map(c => c.getAttribute('aria-label')).find(label => /^Throughput\\./.test(label))""")
        if not label:
            return
        figures = json.loads(self.browser.run("document.getElementById('data').textContent"))
        run, seconds = figures["panels"], figures["extremes"]["of"]
        for column, of in enumerate(("demanded", "achieved")):
            told = re.search(rf"{of}: mean [^,]*, max ([\d.\s]+) IOPS", label)
            counts, end = run[f"{of}_requests"], run[f"{of}_end_ns"]
            used = counts[:max(1, -(-end // run["width_ns"]))]
            if told is None or sum(used) == 0:
                continue
            # In the mean a dozen requests, or a sixtieth of the run, whichever is shorter.
            wide = max(1, min(12 * len(used) // sum(used), len(used) // 64))
            sums = [sum(used[at:at + wide]) for at in range(max(1, len(used) - wide + 1))]
            most = max(sums) / (min(wide * run["width_ns"], end) / 1e9)
            most = max([most] + [second[1] for second in seconds[column]])
            shown = float(re.sub(r"\s", "", told[1]))
            self.expect(shown <= most * 1.02 + 1,
                        f"{of}: a peak of {shown:g}/s where no dozen requests exceeds {most:g}/s")

    def address(self):
        """The part that is shown stands in the address, and an address leads to it."""
        if not self.zoomable():
            return
        whole = self.view()
        end = float(whole.split()[1]) / 1e9
        self.browser.run(f"location.hash = '#from={end * 0.25}s&to={end * 0.5}s'")
        self.settled()
        start = float(self.view().split()[0]) / 1e9
        self.expect(abs(start - end * 0.25) < end * 0.02, f"the address led to {self.view()}")
        self.browser.run("document.getElementById('reset').click()")
        self.settled()
        self.expect(self.view() == whole, "the button did not show everything after an address")
        self.expect(self.browser.run("location.hash") == "", "the address was not taken back")

    def drag(self):
        whole = self.view()
        if not self.zoomable():
            return
        box = self.box("#panels .panel .plot")
        x, y, wide, tall = box
        middle = y + tall / 2
        self.mouse("mousePressed", x + wide * 0.4, middle, button="left", clickCount=1)
        for share in (0.45, 0.5, 0.55):
            self.mouse("mouseMoved", x + wide * share, middle, button="left", buttons=1)
        self.mouse("mouseReleased", x + wide * 0.55, middle, button="left", clickCount=1)
        self.browser.run(DRAWN)
        self.expect(self.view() != whole, "dragging did not zoom")
        self.picture("zoomed")
        times = []
        for _ in range(5):
            self.key("PageDown")
            self.key("PageUp")
            times.append(float(self.data("drawMs")))
        self.times["brush"] = sorted(times)[len(times) // 2]
        self.expect(not self.timed or self.times["brush"] < BRUSH_MS,
                    f"a zoom took {self.times['brush']:.0f} ms")
        self.browser.run("document.getElementById('reset').click()")
        self.browser.run(DRAWN)
        self.expect(self.view() == whole, "the button did not show everything again")
        self.times["everything"] = float(self.data("drawMs"))

    def zoomable(self):
        """No part of a run is shown that is shorter than eight of its buckets."""
        return self.browser.run(
            "JSON.parse(document.getElementById('data').textContent).panels.buckets > 16")

    def keys(self):
        whole = self.view()
        reached = self.browser.run("""[...document.querySelectorAll('#panels .panel .plot')]
            .filter(plot => plot.tabIndex === 0).length
            === document.querySelectorAll('#panels .panel .plot').length""")
        self.expect(reached, "not every diagram can be reached by Tab")
        if not self.zoomable():
            return
        self.browser.run("document.querySelector('#panels .panel .plot').focus()")
        self.key("+")
        zoomed = self.view()
        self.expect(zoomed != whole, "+ did not zoom")
        self.key("PageDown")
        self.expect(self.view() != zoomed, "Page Down did not go on")
        self.key("Escape")
        self.expect(self.view() == whole, "Escape did not show everything")
        for _ in range(4):
            self.key("ArrowRight", modifiers=8)
        self.key("Enter")
        self.expect(self.view() != whole, "Shift and Right, then Enter, did not zoom")
        self.key("Escape")

    def point(self):
        x, y, wide, tall = self.box("#panels .panel .plot")
        before = self.browser.run("document.querySelector('#panels .panel').innerText")
        for share in (0.3, 0.32):
            self.mouse("mouseMoved", x + wide * share, y + tall * 0.5)
        self.browser.run(DRAWN)
        after = self.browser.run("document.querySelector('#panels .panel').innerText")
        self.expect(before != after, "pointing told nothing")

    def switch(self):
        switched = self.browser.run("""(() => {
            const button = document.querySelector('#panels .panel button[aria-pressed]:not(:disabled)');
            if (!button) return true;
            const before = button.getAttribute('aria-pressed');
            button.click();
            const after = button.getAttribute('aria-pressed');
            button.click();
            return before !== after || button.className === 'choice';
        })()""")
        self.expect(switched, "a button did not switch")
        self.browser.run(DRAWN)

    def saves(self):
        """Every picture can be saved, and the files are such as other programs read."""
        wrong = self.browser.run("""(async () => {
            const wrong = [], files = [];
            const make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
            URL.createObjectURL = (blob) => { files.push(blob); return 'data:,'; };
            HTMLAnchorElement.prototype.click = function () {
              if (this.href.startsWith('data:image/png')) files.push(this.href);
            };
            const buttons = [...document.querySelectorAll('.save button')];
            for (const button of buttons) {
              files.length = 0;
              const name = button.getAttribute('aria-label');
              button.click();
              if (files.length !== 1) { wrong.push(`${name}: ${files.length} files`); continue; }
              if (button.textContent === 'PNG') continue;
              const text = await files[0].text();
              if (button.textContent === 'SVG') {
                const picture = new DOMParser().parseFromString(text, 'image/svg+xml');
                const parts = picture.querySelectorAll('path, rect, image, text').length;
                if (picture.querySelector('parsererror') || parts < 5) {
                  wrong.push(`${name}: no picture`);
                }
                const numbers = text.replace(/"data:[^"]*"/g, '');
                if (/NaN|undefined|Infinity/.test(numbers)) wrong.push(`${name}: NaN`);
              } else {
                const rows = text.trimEnd().split('\\n');
                if (rows.length < 2 || /NaN|undefined|Infinity/.test(text)) {
                  wrong.push(`${name}: ${rows.length} rows`);
                }
              }
            }
            URL.createObjectURL = make;
            HTMLAnchorElement.prototype.click = click;
            if (buttons.length < 3) wrong.push(`${buttons.length} buttons to save with`);
            return wrong.join(', ');
        })()""")
        self.expect(not wrong, f"saved wrongly: {wrong}")
        self.browser.run(DRAWN)

    def index(self):
        """Each link of the index leads to its section, and leaves the address alone."""
        wrong = self.browser.run("""(() => {
            const wrong = [], links = [...document.querySelectorAll('nav.index a')];
            if (links.length < 2) wrong.push(`${links.length} links`);
            for (const link of links) {
              const place = document.querySelector(link.getAttribute('href'));
              if (!place) { wrong.push(`${link.textContent}: nowhere`); continue; }
              link.click();
              const { top, bottom } = place.getBoundingClientRect();
              if (bottom < 0 || top > innerHeight) wrong.push(`${link.textContent}: not shown`);
            }
            for (const folded of document.querySelectorAll('details')) folded.open = false;
            scrollTo(0, 0);
            return wrong.concat(location.hash ? ['the address changed'] : []).join(', ');
        })()""")
        self.expect(not wrong, f"the index: {wrong}")

    def volumes(self):
        """Volumes go from the sonar diagram and come back, by mouse and by keyboard."""
        several = self.browser.run("document.querySelectorAll('.volumes button').length")
        if not several:
            return
        # The last line below the diagram says what it shows.
        counted = ("[...document.querySelector('#panels .panel').querySelectorAll('.readout')]"
                   ".at(-1).textContent")
        press = "document.querySelectorAll('.volumes button')[{}].click()"
        whole = self.browser.run(counted)
        self.browser.run(press.format(0))
        self.settled()
        none = self.browser.run(counted)
        self.expect(none == "no request of these volumes",
                    f"with no volume switched on the sonar diagram says {none}")
        parts = []
        for volume in range(1, several):
            self.browser.run(press.format(volume))
            self.settled()
            parts.append(self.browser.run(counted))
            if volume == 1:
                self.picture("volume")
        self.expect(parts[-1] == whole, "with every volume switched on again it shows others")
        same = [number for number in range(1, len(parts)) if parts[number] == parts[number - 1]]
        self.expect(not same, f"volumes {same} changed nothing when switched on")
        self.browser.run("document.querySelectorAll('.volumes button')[1].focus()")
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key=" ", code="Space",
                              windowsVirtualKeyCode=32, text=" " if kind == "keyDown" else "")
        self.settled()
        self.expect(self.browser.run(counted) != whole, "the space key did not switch a volume")
        self.browser.run(press.format(1))
        self.settled()

    def settled(self):
        """Waits until everything is drawn."""
        self.browser.run(DRAWN)
        until = time.monotonic() + 10
        while self.data("drawn") != "yes" and time.monotonic() < until:
            time.sleep(0.01)
        self.browser.run(DRAWN)

    def update(self):
        """The page takes its own figures anew, and looks the same."""
        same = self.browser.run("""(() => {
            const count = () => document.querySelectorAll('.panel').length;
            const before = count();
            window.ioechoUpdate({
              data: JSON.parse(document.getElementById('data').textContent), texts: {},
            });
            return before === count();
        })()""")
        self.expect(same, "new figures made other panels")

    def schemes(self):
        for scheme in ("dark", "light"):
            self.browser.call("Emulation.setEmulatedMedia",
                              features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.browser.run(DRAWN)
            if scheme == "dark":
                self.picture("dark")
        self.browser.call("Emulation.setDeviceMetricsOverride", width=420, height=900,
                          deviceScaleFactor=1, mobile=False)
        self.browser.run(DRAWN)
        over = self.browser.run("document.documentElement.scrollWidth - innerWidth")
        self.expect(over <= 1, f"on a narrow screen it is {over} pixels too wide")
        self.picture("narrow")
        self.browser.call("Emulation.clearDeviceMetricsOverride")

    def quiet(self):
        for event in self.browser.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Network.requestWillBeSent":
                url = told["request"]["url"]
                own = url.startswith("data:") or url.split("#")[0] == self.page.resolve().as_uri()
                self.expect(own, f"it asked the network for {url}")
            elif method == "Runtime.exceptionThrown":
                self.wrong.append(f"a script failed: {told['exceptionDetails'].get('exception')}")
            elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
                self.wrong.append(f"the console says {told['args']}")
            elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
                self.wrong.append(f"the console says {told['entry']['text']}")
            elif method == "Page.javascriptDialogOpening":
                self.wrong.append(f"a name of the run was executed: {told['message']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--times", action="store_true", help="hold the times to the promises")
    parser.add_argument("--screenshots", type=pathlib.Path, help="keep pictures of the pages here")
    asked = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print("skipped: there is no Chromium here to look at the pages with")
        return 0
    if asked.screenshots:
        asked.screenshots.mkdir(parents=True, exist_ok=True)
    failed = False
    for page in asked.pages:
        browser = Browser(program, "1400,1000")
        try:
            check = Check(browser, page, asked.screenshots, asked.times)
            wrong = check.all()
        finally:
            browser.close()
        size = page.stat().st_size / 1e6
        times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in check.times.items())
        print(f"{page}: {size:.2f} MB, {times or 'nothing drawn'}")
        if size > 3.0:
            wrong.append(f"it has {size:.1f} MB")
        for one in wrong:
            print(f"  wrong: {one}")
        failed |= bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
