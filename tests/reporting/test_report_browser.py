"""The report in a real browser: headless Chromium looks at it, at desk and phone width, in light and dark."""

import functools
import html
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from mcf_cli.reporting.report import write_report

from tests.reporting import made_up_results

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
CLAIMS = Path(__file__).parents[2] / "configs" / "claims.yaml"
DARK = "--blink-settings=preferredColorScheme=0"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"),
)
AXE = Path(str(importlib.util.find_spec("axe_core_python").origin)).parent / "axe.min.js"
# This page holds the report in a frame of the wanted width, uses it as a reader would, and writes down what it found.
FRAME = """<!doctype html><link rel="icon" href="data:,"><body style="margin:0">
<iframe src="report.html" style="width:%dpx;height:3000px;border:0"></iframe><pre id="found"></pre>
<script type="module">
const frame = document.querySelector("iframe");
const loaded = new Promise(resolve => { frame.onload = resolve; });
const found = {};
const luminance = rgb => rgb.slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const colour = text => text.match(/[\\d.]+/g).map(Number);
await loaded;
const page = frame.contentDocument, view = frame.contentWindow;
const until = async (test) => {
  for (let n = 0; n < 400 && !test(); n++) await new Promise(done => setTimeout(done, 25));
};
await until(() => page.querySelector("figure.drawn"));
const ground = node => {
  for (; node; node = node.parentElement) {
    const rgb = colour(view.getComputedStyle(node).backgroundColor);
    if (rgb.length === 3 || rgb[3] === 1) return rgb;
  }
  return [255, 255, 255];
};
found.contrast = 21;
for (const node of page.body.querySelectorAll("*")) {
  const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  if (!own || !node.offsetParent || node.closest("svg")) continue;
  const pair = [colour(view.getComputedStyle(node).color), ground(node)].map(luminance).sort((a, b) => a - b);
  const ratio = (pair[1] + 0.05) / (pair[0] + 0.05);
  if (ratio < found.contrast) { found.contrast = ratio; found.faintest = node.outerHTML.slice(0, 80); }
}
const images = [...page.images];
Object.assign(found, {
  images: images.length, broken: images.filter(i => !i.complete || !i.naturalWidth).length,
  width: page.documentElement.scrollWidth, room: page.documentElement.clientWidth,
  page: luminance(ground(page.body)), drawn: page.querySelectorAll("figure.drawn svg").length,
  ink: [...page.querySelectorAll("figure.drawn svg text")].slice(0, 1).map(t => view.getComputedStyle(t).fill)[0],
  requests: view.performance.getEntriesByType("resource").map(entry => entry.name),
});
%s
document.querySelector("#found").textContent = JSON.stringify(found);
</script>"""
USE = """
const form = page.getElementById("filters");
const visible = () => [...page.querySelectorAll("details.claim")].filter(c => !c.hidden);
const choose = (name, value) => {
  form.elements.namedItem(name).value = value;
  form.dispatchEvent(new view.Event("input"));
};
found.all = visible().length;
choose("verdict", "holds");
found.verdicts = [...new Set(visible().map(c => c.dataset.verdict))];
form.reset(); await until(() => visible().length === found.all);
choose("item", "fig9");
found.items = [...new Set(visible().map(c => c.dataset.items.split("|").includes("fig9")))];
choose("item", ""); choose("search", "poisson table");
const texts = visible().map(c => c.textContent.toLowerCase());
found.searched = texts.every(t => t.includes("poisson") && t.includes("table"));
found.few = visible().length; found.said = page.getElementById("shown").textContent;
choose("search", ""); choose("sort", "name");
const names = visible().map(c => c.dataset.name);
found.sorted = names.every((name, n) => !n || names[n - 1] <= name);
page.querySelector('[data-choose="holds"]').click();
found.chip = [...new Set(visible().map(c => c.dataset.verdict))];
view.location.hash = "#claim-deletion-logistic";
const claim = page.getElementById("claim-deletion-logistic");
await until(() => claim.open && claim.querySelector(".rows table"));
found.opened = claim.open && !claim.hidden; found.rows = claim.querySelectorAll(".rows tr").length;
const symbol = page.querySelector("figure.drawn svg .mark-symbol path"), box = symbol.getBoundingClientRect();
for (const type of ["pointermove", "mousemove", "mouseover"]) symbol.dispatchEvent(new view.MouseEvent(type, {
  bubbles: true, view, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }));
await until(() => page.querySelector("#vg-tooltip-element.visible"));
found.tooltip = page.querySelector("#vg-tooltip-element.visible")?.textContent ?? "";
const faint = () => [...page.querySelectorAll("figure.drawn svg path[opacity]")]
  .filter(p => p.getAttribute("opacity") < 0.5).length;
const before = faint();
const entry = page.querySelector("figure.drawn svg .role-legend-symbol path");
entry.dispatchEvent(new view.MouseEvent("click", { bubbles: true, view }));
await until(() => faint() > before);
found.faded = faint() - before;
"""
AXE_RUN = """
const script = page.createElement("script"); script.src = "axe.min.js"; page.head.append(script);
await until(() => view.axe);
const report = await view.axe.run(page);
found.serious = report.violations.filter(v => ["serious", "critical"].includes(v.impact))
  .map(v => v.id + ": " + v.nodes[0].html.slice(0, 120));
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The report of made-up results, served on this machine only."""
    folder = tmp_path_factory.mktemp("results")
    made_up_results.write_all(folder, figures_of=("fig1", "fig3", "fig9"))
    write_report(folder, CLAIMS)
    shutil.copy(AXE, folder)
    handler = functools.partial(QuietHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def look(server, tmp_path_factory):
    """What the browser measures in a frame of some width, and what it logs; each view is looked at once."""
    return functools.cache(functools.partial(measured, server, tmp_path_factory.mktemp("profile")))


def measured(server, profile: Path, width: int, *flags: str, use: str = "") -> tuple[dict, str]:
    folder, address = server
    name = f"frame{width}-{len(use)}.html"
    (folder / name).write_text(FRAME % (width, use))
    command = [
        *(CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, f"--window-size={max(width, 600)},3000"),
        *("--virtual-time-budget=40000", "--dump-dom"),
    ]
    for _ in range(
        3
    ):  # the browser's own clock runs ahead of a busy machine, and ends a page before its charts
        done = subprocess.run([*command, f"{address}/{name}"], capture_output=True, text=True, timeout=120)
        found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
        assert found and found[1], f"the page did not load: {done.stderr[-2000:]}"
        seen = json.loads(html.unescape(found[1]))
        if seen["drawn"]:
            break
    return seen, done.stderr


@pytest.mark.parametrize("scheme", [(), (DARK,)], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_whole_and_legible(look, width, scheme):
    found, log = look(width, *scheme)
    assert "CONSOLE" not in log
    assert found["images"] > 0
    assert found["broken"] == 0
    assert found["drawn"] > 0, "no chart was drawn"
    assert found["width"] <= found["room"], "the page is wider than its window"
    assert found["contrast"] >= 4.5, f"hard to read: {found['faintest']}"
    assert found["requests"] == [], "the page asked for something"


def test_dark_mode_darkens_the_page_and_its_charts(look):
    light, _ = look(1280)
    dark, _ = look(1280, DARK)
    assert light["page"] > 0.9 and dark["page"] < 0.05
    assert light["ink"] != dark["ink"]


def test_claims_are_filtered_searched_sorted_and_opened(look):
    found, log = look(1280, use=USE)
    assert "CONSOLE" not in log
    assert found["verdicts"] == ["holds"] == found["chip"]
    assert found["items"] == [True]
    assert found["searched"] and 0 < found["few"] < found["all"]
    assert found["said"] == f"{found['few']} of {found['all']} claims"
    assert found["sorted"]
    assert found["opened"] and found["rows"] > 1
    assert "95% from" in found["tooltip"] or "Verdict" in found["tooltip"]
    assert found["faded"] > 0, "a click on the legend changed nothing"


@pytest.mark.parametrize("width", [1280, 390])
def test_screen_readers_and_keyboards_find_nothing_serious(look, width):
    found, _ = look(width, use=AXE_RUN)
    assert found["serious"] == []


def test_it_fits_in_a_mail_and_stands_without_its_script(server):
    folder, _ = server
    text = (folder / "report.html").read_text()
    assert len(text) < 4_000_000
    drawn = set(re.findall(r'data-chart="([^"]+)"', text))
    static = set(re.findall(r'data-chart="([^"]+)"[^>]*></div>\s*<div class="card"><img', text))
    assert {"forest", "fig1", "fig3", "fig9", "fig9-headline"} <= static <= drawn


def test_prints_to_a_few_pages(server, tmp_path):
    _, address = server
    target = tmp_path / "report.pdf"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={target}"]
    subprocess.run([*command, f"{address}/report.html"], capture_output=True, timeout=120, check=True)
    content = target.read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 60
