"""The report in a real browser: headless Chromium looks at it, at desk and phone width, in light and dark."""

import functools
import http.server
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
# The report has no script of its own: this page holds it in a frame of the wanted width and measures it.
FRAME = """<!doctype html><link rel="icon" href="data:,"><body style="margin:0">
<iframe src="report.html" style="width:%dpx;height:3000px;border:0"></iframe><pre id="found"></pre><script>
const luminance = rgb => rgb.slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const colour = text => text.match(/[\\d.]+/g).map(Number);
onload = () => {
  const page = document.querySelector("iframe").contentDocument, view = page.defaultView;
  const ground = node => {
    for (; node; node = node.parentElement) {
      const rgb = colour(view.getComputedStyle(node).backgroundColor);
      if (rgb.length === 3 || rgb[3] === 1) return rgb;
    }
    return [255, 255, 255];
  };
  let contrast = 21, faintest = "";
  for (const node of page.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || !node.offsetParent) continue;
    const pair = [colour(view.getComputedStyle(node).color), ground(node)].map(luminance).sort((a, b) => a - b);
    const ratio = (pair[1] + 0.05) / (pair[0] + 0.05);
    if (ratio < contrast) { contrast = ratio; faintest = node.outerHTML.slice(0, 80); }
  }
  const images = [...page.images];
  const cards = [...page.querySelectorAll(".card")].map(card => luminance(ground(card)));
  document.querySelector("#found").textContent = JSON.stringify({
    images: images.length, broken: images.filter(i => !i.complete || !i.naturalWidth).length,
    width: page.documentElement.scrollWidth, room: page.documentElement.clientWidth, contrast, faintest,
    page: luminance(ground(page.body)), card: Math.min(...cards),
    smallest: Math.min(...images.map(i => i.clientWidth)),
  });
};</script>"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The report of made-up results, served on this machine only."""
    folder = tmp_path_factory.mktemp("results")
    made_up_results.write_all(folder, figures_of=("fig1", "fig3", "fig9"))
    write_report(folder, CLAIMS)
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


def measured(server, profile: Path, width: int, *flags: str) -> tuple[dict, str]:
    folder, address = server
    (folder / f"frame{width}.html").write_text(FRAME % width)
    command = [
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={profile}",
        *flags,
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]
    done = subprocess.run(
        [*command, f"{address}/frame{width}.html"], capture_output=True, text=True, timeout=120
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], f"the page did not load: {done.stderr[-2000:]}"
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")), done.stderr


@pytest.mark.parametrize("scheme", [(), (DARK,)], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_whole_and_legible(look, width, scheme):
    found, log = look(width, *scheme)
    assert "CONSOLE" not in log
    assert found["images"] > 0
    assert found["broken"] == 0
    assert found["width"] <= found["room"], "the page is wider than its window"
    assert found["contrast"] >= 4.5, f"hard to read: {found['faintest']}"
    assert found["smallest"] > 0.7 * min(width, 700), "figures are too small to see"


def test_dark_mode_darkens_the_page_and_leaves_figures_on_light(look):
    light, _ = look(1280)
    dark, _ = look(1280, DARK)
    assert light["page"] > 0.9
    assert dark["page"] < 0.05
    assert dark["card"] > 0.9


def test_prints_to_a_few_pages(server, tmp_path):
    _, address = server
    target = tmp_path / "report.pdf"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={target}"]
    subprocess.run([*command, f"{address}/report.html"], capture_output=True, timeout=120, check=True)
    content = target.read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 60
