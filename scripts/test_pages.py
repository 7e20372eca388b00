"""Looks at the page of `talweg report` and at a live dashboard in a real browser (see test_pages.sh)."""

import argparse
import json
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from browser import Browser, colours

SPECS = ["matmul:m=96,n=96,k=96", "conv2d:h=14,w=14,c=16,f=16,k=3,p=1", "softmax:rows=64,n=64"]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} returned {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}")


def points(page, selector):
    """How many points the paths of a selector have."""
    return page.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(p => (p.getAttribute('d').match(/[MHVL]/g) || []).length)"
    )


def column(page, number):
    """The texts of a column of the table of tasks."""
    return page.evaluate(f"[...document.querySelectorAll('#tasks tbody tr')].map(r => r.cells[{number}].innerText.trim())")


def micros(text):
    number, unit = re.fullmatch(r"([\d.,]+) (µs|ms|s)(?: \?)?", text).groups()
    return float(number.replace(",", "")) * {"µs": 1, "ms": 1e3, "s": 1e6}[unit]


def look(page, name, pictures):
    """A picture that is not blank."""
    png = page.picture()
    if pictures:
        (pictures / f"{name}.png").write_bytes(png)
    rows, pixels = colours(png)
    check(rows > 100 and pixels > 30, f"the picture `{name}` is not blank ({rows} different rows, {pixels} colours)")


def test_report(browser, talweg, folder, pictures):
    db = folder / "talweg.db"
    run(talweg, "tune", *SPECS, "--trials", "240", "--batch", "16", "--db", db)
    run(talweg, "tune", *SPECS, "--trials", "90", "--strategy", "random", "--fresh", "--db", db)
    (folder / "peers.json").write_text(json.dumps([{"name": "peer", "us": 40.5, "task": SPECS[0]}]))
    print(run(talweg, "report", "--db", db, "--peers", folder / "peers.json", "-o", folder / "report.html").strip())
    check((folder / "report.html").stat().st_size < 1_000_000, "the page is below 1 MB")

    page = browser.page()
    page.theme("light")
    page.open((folder / "report.html").as_uri())
    drawn = points(page, "#latency path.curve")
    check(len(drawn) == 2 and min(drawn) >= 3, f"both strategies have curves with points: {drawn}")
    check(sum(points(page, "#scatter path.dots")) > 30, "predictions are drawn")
    check(page.evaluate("document.querySelectorAll('#roofline circle.task-point').length") == 3, "three tasks are below the roofs")
    check(page.evaluate("document.querySelectorAll('#knobs .knob').length") > 3, "knobs are ranked")
    check(len(page.evaluate("document.querySelector('#machine').innerText")) > 50, "the machine is described")
    check(page.evaluate("document.querySelectorAll('#runs tbody tr').length") == 2, "both runs are listed")
    look(page, "report-light", pictures)

    for _ in range(2):
        page.click("#tasks button[data-column=best]")
        order = page.evaluate("document.querySelector('#tasks button[data-column=best]').parentElement.ariaSort")
        best = [micros(text) for text in column(page, 4)]
        check(best == sorted(best, reverse=order == "descending") and len(set(best)) == 3, f"sorted by best, {order}: {best}")
    page.click("#tasks button[data-column=name]")
    names = [text.splitlines()[0] for text in column(page, 0)]
    check(names == sorted(SPECS), f"sorted by name: {names}")

    page.click("#tasks tbody tr:nth-child(2) td:first-child")
    check(page.evaluate("document.querySelector('#scope').value") == "0", "a click on a row chooses its task")
    check("peer" in page.evaluate("document.querySelector('#latency-legend').innerText"), "the peer of the task is a line")
    check(sum(points(page, "#latency path.dots")) > 20, "single candidates are drawn")
    check(not page.evaluate("document.querySelector('#winner').hidden"), "the winner's schedule can be opened")
    page.move("#latency svg", 0.7, 0.5)
    page.until("!document.querySelector('#tip').hidden", 5)
    check("felix" in page.evaluate("document.querySelector('#tip').innerText"), "the pointer shows values")
    page.click("#latency-legend button")
    check(len(points(page, "#latency path.curve")) == 1, "a click on the legend hides a line")

    page.theme("dark")
    page.until("document.documentElement.dataset.theme === 'dark'", 5)
    look(page, "report-dark", pictures)
    page.click("#theme")
    check(page.evaluate("document.documentElement.dataset.theme") == "light", "the button overrides the system's theme")
    page.call("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=True)
    page.until("document.querySelector('#latency svg').viewBox.baseVal.width < 420", 5)
    check(page.evaluate("document.documentElement.scrollWidth") <= 420, "nothing sticks out on a small screen")
    look(page, "report-small", pictures)
    check(not page.problems, f"no errors on the console: {page.problems}")


def test_dashboard(browser, talweg, pictures):
    command = [talweg, "tune", *SPECS, "--simulated", "--budget", "15s", "--dashboard=127.0.0.1:0"]
    tuning = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        while not (found := re.search(r"dashboard: (http://127\.0\.0\.1:\d+/)", lines[-1] if lines else "")):
            lines.append(tuning.stderr.readline())
            if not lines[-1]:
                raise SystemExit(f"the dashboard's address was not printed: {lines}")
        # Nobody may wait for a reader of the progress either.
        threading.Thread(target=tuning.stderr.read, daemon=True).start()
        page = browser.page()
        page.theme("light")
        page.open(found[1])
        samples = "Number(document.querySelector('#live').innerText.replaceAll(',', '').match(/live: (\\d+) sample/)?.[1] ?? 0)"
        page.until("document.querySelectorAll('#latency path.curve').length > 0")
        first = page.until(samples)
        later = page.until(f"{samples} > {first} && {samples}")
        check(later > first, f"samples arrive while tuning: {first}, then {later}")
        other = browser.page()
        other.open(found[1])
        other.until("document.querySelectorAll('#latency path.curve').length > 0")
        # Pages that nobody sees are not drawn.
        page.call("Page.bringToFront")
        look(page, "dashboard", pictures)
        drawn = points(page, "#latency path.curve")
        page.until("document.querySelector('#live').innerText.startsWith('finished')", 70)
        check(page.evaluate("document.querySelector('#live').innerText").startswith("finished: "), "the page says that the run is over")
        check(min(points(page, "#latency path.curve")) >= min(drawn), "the curve has grown")
        out = tuning.stdout.read()
        check(tuning.wait(30) == 0, f"tuning ended well: {out.splitlines()[-1]}")
        time.sleep(1.5)
        check(not page.problems, f"no errors on the console: {page.problems}")
        check(not other.problems, f"none on that of another reader: {other.problems}")
    finally:
        if tuning.poll() is None:
            tuning.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--talweg", type=Path, default=Path("target/debug/talweg"))
    parser.add_argument("--pictures", type=Path, help="a folder that keeps the pictures")
    arguments = parser.parse_args()
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="talweg-pages-") as folder, Browser() as browser:
        test_report(browser, arguments.talweg, Path(folder), arguments.pictures)
        test_dashboard(browser, arguments.talweg, arguments.pictures)
    print("the pages are as they should be")


if __name__ == "__main__":
    main()
